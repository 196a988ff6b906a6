/*
 * overview.h - the journal, its outbox, the projections and who is at work, as read at one time:
 * what `status`, `top` and the panel of `work` show.
 */
#ifndef EF_CLI_OVERVIEW_H
#define EF_CLI_OVERVIEW_H

#include "cli.h"

#include "../shape/health.h"

#define CLI_TROUBLES_MAX 5
#define CLI_TROUBLE_BYTES 512

/* Something that went wrong, in words. */
typedef struct cli_trouble {
    int64_t at_us;
    char text[CLI_TROUBLE_BYTES];
} cli_trouble;

/* The last ones, newest first. */
typedef struct cli_troubles {
    cli_trouble items[CLI_TROUBLES_MAX];
    size_t count;
} cli_troubles;

/* Keep it, in its place by time; the oldest gives way. The same words again replace the older. */
void cli_troubles_add(cli_troubles *troubles, int64_t at_us, const char *text);

typedef struct cli_lane {
    ef_str name;
    ef_outbox_summary rows;
} cli_lane;

typedef struct cli_overview {
    int64_t read_us; /* wall time */
    char mode[EF_CLIENT_MODE_MAX];
    ef_head head;
    ef_store_facts facts;
    ef_outbox_summary outbox;
    int64_t oldest_ms;  /* age of the oldest row that is not blocked; -1 when there is none … */
    int64_t blocked_ms; /* … and of the oldest that is */
    ef_worker_list workers;
    size_t workers_live, workers_idle; /* those that are idle are live */
    int64_t runs_queued, runs_running;
    ef_projection_list projections;       /* none when there is no view store */
    int64_t unaccounted;                  /* of all of them */
    ef_error views_error;                 /* the view store cannot be read: all else is told */
    char publisher_down[EF__HEALTH_NAME]; /* of this process; "": none */
    ef__disk disk;
    cli_troubles troubles; /* what projections could not digest */

    ef_partition_list partitions; /* these only when all was asked for */
    cli_lane *lanes;
    size_t lane_count;
    ef_lane_list lane_names;
} cli_overview;

/* Read it; `all` looks at lanes and partitions too, which counts every row that is queued. The
 * journal is open; the views are opened, read-only, unless they are. */
ef_status cli_overview_read(cli *c, bool all, cli_overview *out, ef_error *err);
void cli_overview_release(cli_overview *overview);

/* How it is, as the monitor says it. */
ef__health cli_overview_health(const cli_overview *overview, char out[EF__HEALTH_TEXT]);

/* Milliseconds from then until now: never below 0, -1 when `then_us` is 0. */
int64_t cli_age_ms(int64_t now_us, int64_t then_us);
/* How many partitions have a live lease of `owner`; "" counts those of anybody. */
int64_t cli_overview_owned(const cli_overview *overview, ef_str owner);

#endif
