/*
 * supervisor.h - threads that run the drivers of an engine, and their health.
 *
 * A supervisor has tasks: one for the queue, some for the cursors, one for runs, and one that gives
 * each publisher a thread. Each does a step, again at once while there is more, and otherwise
 * sleeps until the journal grows, an operator acts, or something is due; polling at the interval is
 * only the safety net. After ten seconds without work the worker is idle: it releases its leases
 * and writes its heartbeat once a minute (see worker.h), until there is work. A task that fails
 * backs off and tries again; its state and its error show that.
 *
 *     starting ─► working ◄─► idle
 *                   └─► retrying ─► working          any ─► stopping
 *
 * A task is healthy if a recent step succeeded or found nothing to do.
 */
#pragma once

#include <everfold/engine.h>

EF_C_BEGIN

typedef struct ef_supervisor ef_supervisor;

typedef struct ef_supervisor_options {
    ef_engine *engine; /* borrowed while the supervisor runs */
    ef_work_options work;
    int64_t interval_ms;      /* maximum between two polls; default 2,000 */
    int32_t cursor_threads;   /* default 1 */
    struct ef_shadow *shadow; /* shadow_only: run instead of the queue; borrowed */
    /* Called after each step that did something or failed, from the thread that did it, one call at
     * a time. `error` is NULL unless the step failed. */
    void (*on_step)(void *context, const char *task, const ef_tick *tick, const ef_error *error);
    void *context;
} ef_supervisor_options;

typedef enum ef_task_state {
    EF_TASK_STARTING,
    EF_TASK_WORKING,
    EF_TASK_IDLE,
    EF_TASK_RETRYING,
    EF_TASK_STOPPING
} ef_task_state;

typedef struct ef_task {
    char name[16]; /* "queue" or "shadow", "cursor-1", "runs", "publish" */
    ef_task_state state;
    int64_t steps;
    int64_t failures_in_a_row;
    int64_t stalled_us;  /* since the last successful step; 0 while it is healthy */
    ef_error last_error; /* status EF_OK: none so far */
} ef_task;

ef_status ef_supervisor_start(const ef_supervisor_options *options, ef_supervisor **out,
                              ef_error *err);

/* The tasks: up to `max` of them in `out`; returns their total number. */
size_t ef_supervisor_tasks(ef_supervisor *supervisor, ef_task *out, size_t max);

/* Wakes the tasks for work that no append announces, instead of at the interval. Actions through
 * the library (a deploy, a run, a requeue, in any process) need no such call. Accepts NULL. */
void ef_supervisor_wake(ef_supervisor *supervisor);

/* Starts no new work, finishes batches in flight, and ends the threads. Accepts NULL. */
void ef_supervisor_stop(ef_supervisor *supervisor);

EF_C_END
