/*
 * cursor_driver.h - the state of the cursor driver: generations that catch up, and log-ordered
 * ones, each under the lease of its scope.
 *
 * A step applies at most one batch of the journal to each of them, and to each tenant with its own
 * cursor (tenant.h); then it deletes a part of a retired generation (generation.c).
 *
 * Invariants, under `lock`, which a step holds from start to end:
 * - a cursor moves only under the token of its scope, and only forward;
 * - a scope whose `placed` is true has a cursor whose event the journal had in its `epoch`.
 */
#ifndef EF_ENGINE_CURSOR_DRIVER_H
#define EF_ENGINE_CURSOR_DRIVER_H

#include "../core/pace.h"

#include <everfold/engine.h>

#include <pthread.h>

/* The lag of live work, and the speed that it leaves to a catch-up: see pacing.h. */
typedef struct ef__pacing {
    ef__pace pace;
    bool is_measured, is_live;
    int64_t head, oldest;              /* positions at the last measurement: journal, apply lane */
    int64_t moved_us, oldest_since_us; /* when they last changed; monotonic */
} ef__pacing;

typedef struct ef__cursor_driver {
    pthread_mutex_t lock;          /* guards all of it, except for the atomics */
    struct ef__view_cache *caches; /* kept from step to step */
    struct ef__scope *scopes;
    ef__pacing pacing;
    int64_t grace_next_us; /* when superseded generations are checked for their grace period */
    /* As of the last step. */
    _Atomic bool reads_log; /* a generation is fed by its cursor: appends wake the driver */
    _Atomic bool pauses;    /* a catch-up pauses, for live work or after a conflict */
} ef__cursor_driver;

void ef__cursor_driver_init(ef__cursor_driver *driver);
void ef__cursor_driver_release(ef__cursor_driver *driver); /* the memory only */

/* `options` NULL: those of the last step. A failure of one generation does not stop the others. */
ef_status ef__cursor_driver_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                 ef_error *err);

#endif
