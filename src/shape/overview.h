/*
 * overview.h - the overview of `status`, `top`, /v1/overview and the monitor: what was read at one
 * time, what follows from it, and its JSON. Health is a state and a message, the same in `top`, in
 * the panel of `work` and in the monitor.
 */
#pragma once

#include "../base/json.h"

#include <everfold/client.h>
#include <everfold/everfold.h>

/* --- disk ------------------------------------------------------------------------------------- */

#define EF__DISK_PATH 512
/* Below this a store has no space for its WAL and a checkpoint: not ready. */
#define EF__DISK_FREE_MIN (INT64_C(64) << 20)
/* Below this nothing can be written. */
#define EF__DISK_FULL (INT64_C(1) << 20)

/* Free space of the stores: the file system with the least, of those of journal and views. */
typedef struct ef__disk {
    char path[EF__DISK_PATH]; /* path of the store; "" if it is not local */
    int64_t free_bytes;       /* -1: unknown */
    bool refused;             /* a write failed for lack of space or a quota */
} ef__disk;

/* Determined from the URLs: sqlite:PATH and lmdb:PATH are local. */
ef__disk ef__disk_of(const char *journal_url, const char *views_url);

static inline bool ef__disk_is_low(const ef__disk *disk)
{
    return disk->refused || (disk->free_bytes >= 0 && disk->free_bytes < EF__DISK_FREE_MIN);
}

static inline bool ef__disk_is_full(const ef__disk *disk)
{
    return disk->refused || (disk->free_bytes >= 0 && disk->free_bytes < EF__DISK_FULL);
}

/* --- health ----------------------------------------------------------------------------------- */

typedef enum ef__health {
    EF__HEALTH_WELL,   /* everything is applied or in flight */
    EF__HEALTH_BEHIND, /* lag or retries: may recover without an operator */
    EF__HEALTH_TROUBLE /* an operator must act */
} ef__health;

#define EF__HEALTH_TEXT 1024
#define EF__HEALTH_NAME 256

/* Finds publisher_down among the publishers of the engine; "": none. */
void ef__health_publisher_down(ef_engine *engine, char out[EF__HEALTH_NAME]);

/* --- overview --------------------------------------------------------------------------------- */

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
    char
        publisher_down[EF__HEALTH_NAME]; /* a publisher of this process whose sink is unavailable */
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
/* Reports the most serious problem. */
ef__health ef__overview_health(const ef__overview *overview, char out[EF__HEALTH_TEXT]);
/* Writes the members of an object that the caller opens and closes, and may extend. */
void ef__overview_write(ef__json_writer *w, const ef__overview *overview, const char *url);
/* Some of them: "projections", "unaccounted" and "views_error"; "runs". */
void ef__overview_write_projections(ef__json_writer *w, const ef__overview *overview);
void ef__overview_write_runs(ef__json_writer *w, const ef__overview *overview);
/* Counts of rows, the age of the oldest retry row as `oldest_key`, and that of blocked rows. */
void ef__rows_write(ef__json_writer *w, const ef_outbox_summary *rows, const char *oldest_key,
                    int64_t now_us);
/* Seconds with three decimals; below 0: null. */
void ef__member_seconds(ef__json_writer *w, const char *key, int64_t ms);
/* "health":{"state","message"} */
void ef__overview_write_health(ef__json_writer *w, const ef__overview *overview);

/* Milliseconds from `then_us` until now: at least 0; -1 if `then_us` is 0. */
int64_t ef__age_ms(int64_t now_us, int64_t then_us);
