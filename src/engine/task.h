/*
 * task.h - a supervised thread: it repeats a step until it is stopped.
 *
 *     starting ─► working ─ nothing to do ─► idle ─ append, wake-up, due time ─► working
 *                    └──── a step failed ──► retrying ─ after a back-off ───────────┘
 *
 * All durable state is in the stores, so a thread may end or start at any time. A task waits on the
 * journal, which a stop wakes; it polls only where the journal cannot be reached. The supervisor
 * and the publisher driver own tasks.
 */
#ifndef EF_ENGINE_TASK_H
#define EF_ENGINE_TASK_H

#include "engine_priv.h"

#include <everfold/supervisor.h>

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
/* Its state; since when it has not succeeded, in `stalled_us`. */
void ef__task_show(ef__task *task, ef_task *out);

#endif
