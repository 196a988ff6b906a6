/*
 * drivers.h - the state of the four drivers of an engine, each with its lock and invariants, and
 * the tasks that run them.
 */
#pragma once

#include "membership.h"

#include "../base/arena.h"
#include "../core/pace.h"

#include <everfold/engine.h>
#include <everfold/journal.h>
#include <everfold/supervisor.h>

#include <pthread.h>
#include <stdatomic.h>

/* --- queue ------------------------------------------------------------------------------------ */

/*
 * The state of the queue driver: live work, under leases of partitions.
 *
 * A step sends a heartbeat if one is due, tries due retry rows, claims a batch of queued rows, and
 * does a bounded part of the upkeep of the lanes: error policy, gap check, removal of rows. The
 * steps are described in queue.h, retry.c and gaps.c.
 *
 * Invariants, under `lock`, which a step holds from start to end:
 * - rows are claimed and acknowledged only under leases that `membership` holds;
 * - `caches` equal the view store as of the last commit of this driver, or are stale and are found
 *   to be so before their next use (view_cache.h);
 * - `batch` is 0 or at least the usual number of rows.
 */

/* Whether the worker is idle: see queue.c. */
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

/* The progress of a gap check of one generation, page by page: see gaps.c. */
typedef struct ef__gap_pass {
    int64_t generation; /* 0: none */
    char after[EF_CURSOR_MAX];
} ef__gap_pass;

/* The gap check at the start of a worker. */
typedef struct ef__gap_check {
    ef__gap_pass pass; /* of the generation with the next higher id, one after the other */
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

/* A lost lease does not fail the step. */
ef_status ef__queue_driver_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                ef_error *err);
/* Like a step, for a task that runs for days: without work it holds no lease and only polls. */
ef_status ef__queue_driver_watch(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                 ef_error *err);

/* --- cursors ---------------------------------------------------------------------------------- */

/*
 * The state of the cursor driver: generations that catch up, and log-ordered
 * ones, each under the lease of its scope.
 *
 * A step applies at most one batch of the journal to each of them, and to each tenant with its own
 * cursor (scope.h); then it deletes a part of a retired generation (generation.c).
 *
 * Invariants, under `lock`, which a step holds from start to end:
 * - a cursor moves only under the token of its scope, and only forward;
 * - a scope whose `placed` is true has a cursor whose event the journal had in its `epoch`.
 */

/* The lag of live work, and the speed that it leaves to a catch-up: see cursor.c. */
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

/* `options` NULL: those of the last step. A failure of one generation does not stop the others. */
ef_status ef__cursor_driver_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                 ef_error *err);

/* --- runs ------------------------------------------------------------------------------------- */

/*
 * The state of the run driver: replays, rebuilds, verifications and seeds.
 *
 * A step advances the oldest run that no other worker drives (run.h). All progress is in the record
 * of the run; the state here may be lost at any time.
 *
 * Invariants, under `lock`, which a step holds from start to end:
 * - at most one lease is held, that of the run of the last step;
 * - a run in `backoffs` is not touched before its time.
 */

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

typedef struct ef__run_driver {
    pthread_mutex_t lock; /* guards all of it */
    ef__run_lease lease;
    ef__gap_pass gap_pass;
    ef__run_backoff backoffs[EF__RUN_BACKOFFS];
} ef__run_driver;

/* `options` is not used. A run whose store is unavailable does not fail the step. */
ef_status ef__run_driver_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                              ef_error *err);

/* --- publishers ------------------------------------------------------------------------------- */

/*
 * The state of the publisher driver: the publishers of the journal, and under
 * a supervisor a thread for each (publish.h, publish_threads.c).
 *
 * Invariants:
 * - the list changes only under both locks, so that either one is enough to read it;
 * - no thread waits for a sink while it holds a lock here: the lock of a publisher is
 *   acquired under `lock` only while the publisher has no thread.
 */

struct ef__bus;
struct ef__bus_options;

typedef struct ef__publisher_driver {
    pthread_mutex_t lock;             /* one step at a time; guards the threads of publishers */
    pthread_mutex_t health_lock;      /* innermost: the health of publishers */
    struct ef__publisher_task *first; /* sorted by name */
    ef_status (*sink_open)(const struct ef__bus_options *options, struct ef__bus **out,
                           ef_error *err); /* ef__bus_open; tests have their own sinks */
} ef__publisher_driver;

/* `abandon`: like a crash, without releasing leases. */
void ef__publisher_driver_close(ef_engine *engine, bool abandon);

/* A step of every publisher, one after the other, in the caller's thread. In an engine with a
 * supervisor: gives each publisher a thread, and adds their work to `tick`. */
ef_status ef__publisher_driver_step(ef_engine *engine, const ef_work_options *options,
                                    ef_tick *tick, ef_error *err);
/* Stops the threads; a batch in flight is finished or abandoned. */
void ef__publisher_driver_stop(ef_engine *engine);

/* --- tasks (supervisor.c) --------------------------------------------------------------------- */

/*
 * A supervised thread. It repeats a step until it is stopped.
 *
 *     starting ─► working ─ nothing to do ─► idle ─ append, wake-up, due time ─► working
 *                    └──── a step failed ──► retrying ─ after a back-off ───────────┘
 *
 * All durable state is in the stores, so a thread may end or start at any time. A task waits on the
 * journal, which a stop wakes; it polls only where the journal cannot be reached. The supervisor
 * and the publisher driver own tasks.
 */

typedef struct ef__task {
    /* Set by the owner before the start. */
    ef_engine *engine;
    const char *name; /* in logs and counters */
    int64_t interval_ms;
    const ef__membership *membership; /* the task wakes for its next beat; NULL: none */
    ef_status (*step)(struct ef__task *task, ef_tick *tick, ef_error *err);
    /* Is an append work for this task? */
    bool (*waits_for_appends)(const struct ef__task *task);
    /* After each step; `error` NULL: it succeeded. May be NULL. */
    void (*report)(struct ef__task *task, const ef_tick *tick, const ef_error *error);

    pthread_mutex_t lock; /* guards the next five; is_stopping is read without it, too */
    pthread_cond_t stop;
    atomic_bool is_stopping;
    ef_task shown;
    int64_t well_us; /* when a step last succeeded; monotonic */
    int64_t wake;    /* the last wake-up that it has seen */
    pthread_t thread;
    bool is_running; /* the thread has to be joined */
} ef__task;

ef_status ef__task_start(ef__task *task, ef_error *err);
/* Asks the task to end after its current step; the caller wakes the journal, then joins. */
void ef__task_request_stop(ef__task *task);
void ef__task_join(ef__task *task); /* one that was not started is fine */
