/*
 * overview.h - journal, outbox, projections and workers as read at one time: the data of `status`,
 * `top` and the panel of `work`.
 */
#ifndef EF_CLI_OVERVIEW_H
#define EF_CLI_OVERVIEW_H

#include "cli.h"

#include "../shape/health.h"

#define CLI_TROUBLES_MAX 5
#define CLI_TROUBLE_BYTES 512

/* An error with its time. */
typedef struct cli_trouble {
    int64_t at_us;
    char text[CLI_TROUBLE_BYTES];
} cli_trouble;

/* The latest errors, newest first. */
typedef struct cli_troubles {
    cli_trouble items[CLI_TROUBLES_MAX];
    size_t count;
} cli_troubles;

/* Adds an error in order of time; the oldest is dropped. An equal text replaces the older entry. */
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
    int64_t oldest_ms;  /* age of the oldest row that is not blocked; -1 if there is none */
    int64_t blocked_ms; /* age of the oldest blocked row */
    ef_worker_list workers;
    size_t workers_live, workers_idle; /* idle workers are live too */
    int64_t runs_queued, runs_running;
    ef_projection_list projections; /* empty without a view store */
    int64_t unaccounted;            /* of all of them */
    ef_error views_error;           /* set if the view store cannot be read; all else is valid */
    char publisher_down[EF__HEALTH_NAME]; /* worker of this process; "": none */
    ef__disk disk;
    cli_troubles troubles; /* failed events of projections */

    ef_partition_list partitions; /* only if `all` was requested */
    cli_lane *lanes;
    size_t lane_count;
    ef_lane_list lane_names;
} cli_overview;

/* Reads the overview; `all` includes lanes and partitions, which counts every queued row. The
 * journal is open; the views are opened read-only if they are not. */
ef_status cli_overview_read(cli *c, bool all, cli_overview *out, ef_error *err);
void cli_overview_release(cli_overview *overview);

/* Health, with the same text as the monitor. */
ef__health cli_overview_health(const cli_overview *overview, char out[EF__HEALTH_TEXT]);

/* Milliseconds from `then_us` until now: at least 0; -1 if `then_us` is 0. */
int64_t cli_age_ms(int64_t now_us, int64_t then_us);
/* Number of partitions with a live lease of `holder`; "" counts those of all holders. */
int64_t cli_overview_owned(const cli_overview *overview, ef_str holder);

#endif
