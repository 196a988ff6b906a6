/*
 * queue_driver.h - the state of the queue driver: live work, under leases of partitions.
 *
 * A step sends a heartbeat if one is due, tries due retry rows, claims a batch of queued rows, and
 * does a bounded part of the upkeep of the lanes: error policy, gap check, removal of rows. The
 * steps are described in queue.h, retry.c, error_policy.h, gaps.c and lane.h.
 *
 * Invariants, under `lock`, which a step holds from start to end:
 * - rows are claimed and acknowledged only under leases that `membership` holds;
 * - `caches` equal the view store as of the last commit of this driver, or are stale and are found
 *   to be so before their next use (view_cache.h);
 * - `batch` is 0 or at least the usual number of rows.
 */
#ifndef EF_ENGINE_QUEUE_DRIVER_H
#define EF_ENGINE_QUEUE_DRIVER_H

#include "membership.h"

#include "../base/arena.h"

#include <everfold/engine.h>
#include <everfold/journal.h>

#include <pthread.h>

/* Whether the worker is idle: see idle.c. */
typedef struct ef__idle_state {
    bool is_idle;
    int64_t head;     /* of the journal when the worker was last busy … */
    int64_t since_us; /* … and when that was; monotonic. 0: not measured yet */
} ef__idle_state;

/* The progress of removing retry rows that no generation needs any more, and of adding those that
 * one needs again: see lane.c. */
typedef struct ef__lane_sweep_state {
    int64_t of;                /* fingerprint of the list of generations; 0: not started */
    size_t at;                 /* index of the generation in the list */
    int64_t from;              /* next position of the removal in its lane; 0: done */
    char after[EF_CURSOR_MAX]; /* last stream whose rows were added */
} ef__lane_sweep_state;

/* The gap check at the start of a worker: see gaps.c. */
typedef struct ef__gap_check {
    int64_t counted;           /* generations up to this id are counted */
    bool found;                /* the events of one of them do not add up */
    char after[EF_CURSOR_MAX]; /* the last stream that was checked */
    bool is_done;
    int64_t since_us; /* since when it waits for a short queue; 0: not yet */
} ef__gap_check;

typedef struct ef__queue_driver {
    pthread_mutex_t lock; /* guards all of it, except for the atomics of `membership` */
    ef__membership membership;
    struct ef__view_cache *caches; /* kept from step to step */
    size_t batch;                  /* rows of the next claim; 0: the usual number */
    int64_t policy_next_us;        /* when dead rows are next checked for the error policy */
    bool isolates_suspects;  /* rows of a crashed worker are claimed in pieces, and some are left */
    int64_t batch_failed_us; /* when a batch last failed as a whole; monotonic, 0: never */
    ef__lane_sweep_state sweep;
    ef__gap_check gaps;
    ef__idle_state idle;
    ef__arena arena; /* memory of one step */
} ef__queue_driver;

void ef__queue_driver_init(ef__queue_driver *driver, ef_engine *engine);
void ef__queue_driver_release(ef__queue_driver *driver); /* the memory only */

/* A lost lease does not fail the step. */
ef_status ef__queue_driver_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                ef_error *err);
/* Like a step, for a task that runs for days: while there is no work it holds no lease and only
 * polls. (idle.c) */
ef_status ef__queue_driver_watch(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                 ef_error *err);

#endif
