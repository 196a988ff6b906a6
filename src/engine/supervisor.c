/*
 * supervisor.c - see supervisor.h: a task for each driver (task.h).
 */
#include <everfold/supervisor.h>

#include "publish.h"
#include "run.h"
#include "task.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define INTERVAL_MS 2000
#define CURSOR_THREADS 1
#define TASKS_MAX 16
#define STALLED_MS 30000 /* longer than the interval by this: the task is unhealthy */

typedef ef_status step_fn(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err);

typedef struct driver_task {
    ef__task task; /* first: a task is converted to its driver_task */
    ef_supervisor *supervisor;
    step_fn *step;
    char name[16];
} driver_task;

struct ef_supervisor {
    ef_supervisor_options options;
    pthread_mutex_t reporting; /* one on_step at a time */
    driver_task tasks[TASKS_MAX];
    size_t count;
};

const char *ef_task_state_name(ef_task_state state)
{
    static const char *const names[] = {"starting", "working", "idle", "retrying", "stopping"};

    return names[state];
}

/* --- a task ----------------------------------------------------------------------------------- */

static ef_status step_driver(ef__task *task, ef_tick *tick, ef_error *err)
{
    driver_task *driver = (driver_task *)task;

    return driver->step(task->engine, &driver->supervisor->options.work, tick, err);
}

/* The queue claims the rows of appends, and the cursors read them if a generation is fed by a
 * cursor. Everything else comes with a wake-up or at its due time. */
static bool waits_for_appends(const ef__task *task)
{
    const driver_task *driver = (const driver_task *)task;
    const ef_engine *engine = task->engine;

    return (driver->step == ef__queue_driver_watch && !ef__journal_is_sparse(engine->journal) &&
            engine->options.mode != EF_MODE_INLINE_APPLY_ONLY) ||
           driver->step == ef__shadow_work ||
           (driver->step == ef__cursor_driver_step && atomic_load(&engine->cursor.reads_log));
}

static bool did_something(const ef_tick *tick)
{
    return tick->claimed || tick->published || tick->caught_up || tick->run_events ||
           tick->leased_count || tick->released_count || tick->lost_count ||
           tick->renewed_heartbeat;
}

static void report_step(ef__task *task, const ef_tick *tick, const ef_error *error)
{
    ef_supervisor *supervisor = ((driver_task *)task)->supervisor;

    if (!supervisor->options.on_step || (!error && !did_something(tick)))
        return;
    pthread_mutex_lock(&supervisor->reporting);
    supervisor->options.on_step(supervisor->options.context, task->name, tick, error);
    pthread_mutex_unlock(&supervisor->reporting);
}

/* --- the supervisor --------------------------------------------------------------------------- */

static ef_status add_task(ef_supervisor *supervisor, step_fn *step, const char *name, int number,
                          ef_error *err)
{
    driver_task *driver = &supervisor->tasks[supervisor->count];
    ef_engine *engine = supervisor->options.engine;
    bool is_queue = step == ef__queue_driver_watch;
    ef_status st;

    if (number)
        (void)snprintf(driver->name, sizeof driver->name, "%s-%d", name, number);
    else
        (void)snprintf(driver->name, sizeof driver->name, "%s", name);
    driver->supervisor = supervisor;
    driver->step = step;
    driver->task = (ef__task){.engine = engine,
                              .name = driver->name,
                              .interval_ms = supervisor->options.interval_ms,
                              .membership = is_queue ? &engine->queue.membership : NULL,
                              .step = step_driver,
                              .waits_for_appends = waits_for_appends,
                              .report = report_step};
    st = ef__task_start(&driver->task, err);
    supervisor->count += st == EF_OK;
    return st;
}

static ef_supervisor *create_supervisor(const ef_supervisor_options *options)
{
    ef_supervisor *supervisor = calloc(1, sizeof *supervisor);

    if (!supervisor)
        return NULL;
    supervisor->options = *options;
    if (supervisor->options.interval_ms <= 0)
        supervisor->options.interval_ms = INTERVAL_MS;
    if (supervisor->options.cursor_threads <= 0)
        supervisor->options.cursor_threads = CURSOR_THREADS;
    pthread_mutex_init(&supervisor->reporting, NULL);
    return supervisor;
}

ef_status ef_supervisor_start(const ef_supervisor_options *options, ef_supervisor **out,
                              ef_error *err)
{
    ef_supervisor *supervisor;
    ef_status st;

    if (!out)
        return ef_fail(err, EF_BAD_INPUT, "out is NULL");
    *out = NULL;
    if (!options || !options->engine)
        return ef_fail(err, EF_BAD_INPUT, "a supervisor needs an engine");
    if (options->engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    if (options->cursor_threads > TASKS_MAX - 3)
        return ef_fail(err, EF_BAD_INPUT, "cursor_threads is %" PRId32 ", at most %d",
                       options->cursor_threads, TASKS_MAX - 3);
    st = ef__work_options_check(&options->work, err);
    if (st != EF_OK)
        return st;
    supervisor = create_supervisor(options);
    if (!supervisor)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while starting a supervisor");
    atomic_store(&options->engine->supervised, true);
    options->engine->shadow = options->shadow;
    st = options->shadow ? add_task(supervisor, ef__shadow_work, "shadow", 0, err)
                         : add_task(supervisor, ef__queue_driver_watch, "queue", 0, err);
    for (int i = 1; st == EF_OK && i <= supervisor->options.cursor_threads; i++)
        st = add_task(supervisor, ef__cursor_driver_step, "cursor", i, err);
    if (st == EF_OK)
        st = add_task(supervisor, ef__run_driver_step, "runs", 0, err);
    if (st == EF_OK)
        st = add_task(supervisor, ef__publisher_driver_supervise, "publish", 0, err);
    if (st != EF_OK) {
        ef_supervisor_stop(supervisor);
        return st;
    }
    ef__log(options->engine->options.log, EF_LOG_INFO, "worker started",
            EF_LOG_TEXT_FIELD("worker", ef_str_from(options->engine->worker)),
            EF_LOG_NUMBER_FIELD("tasks", (int64_t)supervisor->count));
    *out = supervisor;
    return EF_OK;
}

size_t ef_supervisor_tasks(ef_supervisor *supervisor, ef_task *out, size_t max)
{
    for (size_t i = 0; i < supervisor->count && i < max; i++) {
        ef__task_show(&supervisor->tasks[i].task, &out[i]);
        if (out[i].stalled_us <= (STALLED_MS + supervisor->options.interval_ms) * 1000)
            out[i].stalled_us = 0;
    }
    return supervisor->count;
}

void ef_supervisor_wake(ef_supervisor *supervisor)
{
    if (supervisor)
        ef__journal_wake(supervisor->options.engine->journal);
}

void ef_supervisor_stop(ef_supervisor *supervisor)
{
    ef_tick rest_of = {0};

    if (!supervisor)
        return;
    for (size_t i = 0; i < supervisor->count; i++)
        ef__task_request_stop(&supervisor->tasks[i].task);
    ef__journal_wake(supervisor->options.engine->journal);
    for (size_t i = 0; i < supervisor->count; i++)
        ef__task_join(&supervisor->tasks[i].task);
    ef__publisher_driver_stop(supervisor->options.engine);
    supervisor->options.engine->shadow = NULL;
    atomic_store(&supervisor->options.engine->supervised, false);
    ef__publishers_report(supervisor->options.engine, &rest_of);
    ef__count_minute(supervisor->options.engine, &rest_of); /* what no tick has reported yet */
    ef__log(supervisor->options.engine->options.log, EF_LOG_INFO, "worker stopped",
            EF_LOG_TEXT_FIELD("worker", ef_str_from(supervisor->options.engine->worker)));
    pthread_mutex_destroy(&supervisor->reporting);
    free(supervisor);
}
