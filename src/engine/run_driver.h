/*
 * run_driver.h - the state of the run driver: replays, rebuilds, verifications and seeds.
 *
 * A step advances the oldest run that no other worker drives (run.h). All progress is in the record
 * of the run; the state here may be lost at any time.
 *
 * Invariants, under `lock`, which a step holds from start to end:
 * - at most one lease is held, that of the run of the last step;
 * - a run in `backoffs` is not touched before its time.
 */
#ifndef EF_ENGINE_RUN_DRIVER_H
#define EF_ENGINE_RUN_DRIVER_H

#include <everfold/engine.h>
#include <everfold/journal.h>

#include <pthread.h>

#define EF__SCOPE_MAX 600 /* the name of a scope, or of the lease of a run: tenant, projection */
#define EF__RUN_BACKOFFS 8

/* The back-off of a run after a store was unavailable. */
typedef struct ef__run_backoff {
    char id[EF_EVENT_ID_TEXT_MAX]; /* "": none */
    int64_t failures;              /* in a row */
    int64_t next_try_us;           /* monotonic */
} ef__run_backoff;

typedef struct ef__run_lease {
    char scope[EF__SCOPE_MAX];
    int64_t token; /* 0: none */
    int64_t renewed_us;
} ef__run_lease;

/* The progress of a gap check of one generation, page by page: see ef__gaps_add_rows. */
typedef struct ef__gap_pass {
    int64_t generation; /* 0: none */
    char after[EF_CURSOR_MAX];
} ef__gap_pass;

typedef struct ef__run_driver {
    pthread_mutex_t lock; /* guards all of it */
    ef__run_lease lease;
    ef__gap_pass gap_pass;
    ef__run_backoff backoffs[EF__RUN_BACKOFFS];
} ef__run_driver;

void ef__run_driver_init(ef__run_driver *driver);
void ef__run_driver_release(ef__run_driver *driver); /* the memory only */

/* `options` is not used. A run whose store is unavailable does not fail the step. */
ef_status ef__run_driver_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                              ef_error *err);

#endif
