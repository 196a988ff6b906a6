/*
 * overview.h - the overview of `status`, `top`, /v1/overview and the monitor: what was read at one
 * time, what follows from it, and its JSON.
 */
#ifndef EF_SHAPE_OVERVIEW_H
#define EF_SHAPE_OVERVIEW_H

#include "../base/json.h"
#include "health.h"

#include <everfold/client.h>
#include <everfold/everfold.h>

#define EF__TROUBLES_MAX 5
#define EF__TROUBLE_BYTES 512
#define EF__OVERVIEW_RUNS_MAX 1000

/* An error with its time. */
typedef struct ef__trouble {
    int64_t at_us;
    char text[EF__TROUBLE_BYTES];
} ef__trouble;

/* The latest errors, newest first. */
typedef struct ef__troubles {
    ef__trouble items[EF__TROUBLES_MAX];
    size_t count;
} ef__troubles;

typedef struct ef__overview_lane {
    ef_str name;
    ef_outbox_summary rows;
} ef__overview_lane;

typedef struct ef__overview {
    /* Set by the caller, which reads them from a store or through a server. */
    char mode[EF_CLIENT_MODE_MAX];
    ef_head head;
    ef_store_facts facts;
    ef_outbox_summary outbox;
    ef_worker_list workers;
    ef_run_list runs;               /* those that are open */
    ef_projection_list projections; /* empty without a view store */
    ef_error views_error;           /* set if the view store cannot be read; all else is valid */
    char publisher_down[EF__HEALTH_NAME]; /* worker of this process; "": none */
    ef__disk disk;
    int64_t read_us; /* wall time */

    /* Set by ef__overview_derive. */
    int64_t oldest_ms;  /* age of the oldest row that is not blocked; -1 if there is none */
    int64_t blocked_ms; /* age of the oldest blocked row */
    size_t workers_live, workers_idle; /* idle workers are live too */
    int64_t runs_queued, runs_running;
    int64_t unaccounted; /* of all projections */

    /* Only of the command line. */
    ef__troubles troubles;        /* failed events of projections */
    ef_partition_list partitions; /* only if they were requested */
    ef__overview_lane *lanes;
    size_t lane_count;
    ef_lane_list lane_names;
} ef__overview;

#define EF__OVERVIEW_INIT                                                                          \
    {                                                                                              \
        .views_error = EF_ERROR_INIT                                                               \
    }

void ef__overview_derive(ef__overview *overview);
void ef__overview_release(ef__overview *overview);
ef__health ef__overview_health(const ef__overview *overview, char out[EF__HEALTH_TEXT]);
/* Writes the members of an object that the caller opens and closes, and may extend. */
void ef__overview_write(ef__json_writer *w, const ef__overview *overview, const char *url);
/* "health":{"state","message"} */
void ef__overview_write_health(ef__json_writer *w, const ef__overview *overview);

/* Milliseconds from `then_us` until now: at least 0; -1 if `then_us` is 0. */
int64_t ef__age_ms(int64_t now_us, int64_t then_us);

#endif
