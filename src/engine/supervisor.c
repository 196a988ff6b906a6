/*
 * supervisor.c - see supervisor.h: a task for each driver. Tasks: see drivers.h.
 */
#include <everfold/supervisor.h>

#include "publish.h"
#include "run.h"

#include "../base/deadline.h"
#include "../base/logger.h"
#include "../core/retry.h"
#include "../journal/journal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define INTERVAL_MS 2000
#define CURSOR_THREADS 1
#define TASKS_MAX 16
#define STALLED_MS 30000  /* longer than the interval by this: the task is unhealthy */
#define WAIT_MS_MAX 10000 /* a stop is noticed within this time where no wake-up is possible */
#define SLEEP_MS_MAX 1000

/* --- a task ----------------------------------------------------------------------------------- */

/* Sleeps for `ms`, or until a stop is requested. */
static void sleep_until_stop(ef__task *task, int64_t ms)
{
    struct timespec until = ef__deadline(CLOCK_MONOTONIC, ms);
    EF__LOCK(&task->lock);

    while (!task->is_stopping && pthread_cond_timedwait(&task->stop, &task->lock, &until) == 0)
        ;
}

/* How long there is nothing to do unless the journal grows. */
static int64_t idle_ms(const ef__task *task, const ef_tick *tick)
{
    int64_t ms = task->interval_ms, due_ms = ms, beat_ms = ms;

    if (tick->due_us)
        due_ms = (tick->due_us - ef__engine_now(task->engine)) / 1000 + 1;
    if (task->membership && task->membership->next_beat_us)
        beat_ms = (task->membership->next_beat_us - ef__engine_mono_us(task->engine)) / 1000 + 1;
    ms = due_ms < ms ? due_ms : ms;
    ms = beat_ms < ms ? beat_ms : ms;
    return ms < 1 ? 1 : ms;
}

/* Waits until the journal is past `position`, the time is over, or a wake-up: for a stop, or a
 * change that no append announces. */
static void wait_for_work(ef__task *task, int64_t position, int64_t ms)
{
    int64_t until_us = ef__engine_mono_us(task->engine) + ms * 1000, left = ms;
    ef_error ignored = EF_ERROR_INIT;
    ef_status st = EF_TIMEOUT;

    while (st == EF_TIMEOUT && left > 0 && !task->is_stopping) {
        st = ef__journal_wait(task->engine->journal,
                              task->waits_for_appends(task) ? position : EF__NO_APPENDS,
                              &task->wake, left < WAIT_MS_MAX ? left : WAIT_MS_MAX, &ignored);
        left = (until_us - ef__engine_mono_us(task->engine)) / 1000;
    }
    if (st != EF_OK && st != EF_TIMEOUT) /* the step will report the failure */
        sleep_until_stop(task, left < SLEEP_MS_MAX ? left : SLEEP_MS_MAX);
}

static void record_success(ef__task *task, bool more)
{
    EF__LOCK(&task->lock);
    task->shown.steps++;
    task->shown.failures_in_a_row = 0;
    task->shown.state = more ? EF_TASK_WORKING : EF_TASK_IDLE;
    task->well_us = ef__engine_mono_us(task->engine);
}

/* Returns the back-off. */
static int64_t record_failure(ef__task *task, const ef_error *err)
{
    ef__retry_step step;

    pthread_mutex_lock(&task->lock);
    step = ef__retry_decide(&ef__retry_store, task->shown.failures_in_a_row++, EF__ERROR_TRANSIENT,
                            (uint64_t)ef__engine_mono_us(task->engine));
    task->shown.last_error = *err;
    task->shown.state = EF_TASK_RETRYING;
    pthread_mutex_unlock(&task->lock);
    ef__log(task->engine->options.log, EF_LOG_WARN, "step failed, retrying",
            EF_LOG_TEXT_FIELD("task", ef_str_from(task->name)),
            EF_LOG_TEXT_FIELD("error", ef_str_from(err->text)),
            EF_LOG_NUMBER_FIELD("after_ms", step.delay_ms));
    return step.delay_ms;
}

static void step_once(ef__task *task)
{
    int64_t began_us = ef__engine_mono_us(task->engine);
    ef_error err = EF_ERROR_INIT;
    ef_head head = {0};
    ef_tick tick = {0};
    ef_status st = ef_journal_head(task->engine->journal, &head, &err);

    if (st == EF_OK)
        st = task->step(task, &tick, &err);
    tick.duration_us = ef__engine_mono_us(task->engine) - began_us;
    ef__count_tick(task->engine, task->name, &tick, st);
    if (st != EF_OK && !err.text[0])
        (void)ef_fail(&err, st, "%s", ef_status_describe(st)->message);
    if (st == EF_OK)
        record_success(task, tick.more);
    else
        tick.backoff_ms = record_failure(task, &err);
    if (task->report)
        task->report(task, &tick, st == EF_OK ? NULL : &err);
    if (st != EF_OK)
        sleep_until_stop(task, tick.backoff_ms);
    else if (!tick.more)
        wait_for_work(task, head.position, idle_ms(task, &tick));
}

static void *repeat_steps(void *argument)
{
    ef__task *task = argument;

    while (!task->is_stopping)
        step_once(task);
    return NULL;
}

ef_status ef__task_start(ef__task *task, ef_error *err)
{
    assert(!task->is_running && task->step && task->waits_for_appends);
    task->is_stopping = false;
    task->shown = (ef_task){.state = EF_TASK_STARTING};
    (void)snprintf(task->shown.name, sizeof task->shown.name, "%s", task->name);
    task->well_us = ef__engine_mono_us(task->engine);
    pthread_mutex_init(&task->lock, NULL);
    ef__cond_init(&task->stop);
    if (pthread_create(&task->thread, NULL, repeat_steps, task) != 0) {
        pthread_cond_destroy(&task->stop);
        pthread_mutex_destroy(&task->lock);
        return ef_fail(err, EF_NO_MEMORY, "a thread for \"%s\" could not be started", task->name);
    }
    task->is_running = true;
    return EF_OK;
}

void ef__task_request_stop(ef__task *task)
{
    if (!task->is_running)
        return;
    EF__LOCK(&task->lock);
    task->is_stopping = true;
    pthread_cond_broadcast(&task->stop);
}

void ef__task_join(ef__task *task)
{
    if (!task->is_running)
        return;
    (void)pthread_join(task->thread, NULL);
    pthread_cond_destroy(&task->stop);
    pthread_mutex_destroy(&task->lock);
    task->is_running = false;
    task->is_stopping = false;
}

/* --- the task of a driver --------------------------------------------------------------------- */

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
    EF__LOCK(&supervisor->reporting);
    supervisor->options.on_step(supervisor->options.context, task->name, tick, error);
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
        st = add_task(supervisor, ef__publisher_driver_step, "publish", 0, err);
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

/* Its state; since when it has not succeeded, in `stalled_us`. */
static void show_task(ef__task *task, ef_task *out)
{
    EF__LOCK(&task->lock);
    *out = task->shown;
    if (task->is_stopping)
        out->state = EF_TASK_STOPPING;
    out->stalled_us = ef__engine_mono_us(task->engine) - task->well_us;
}

size_t ef_supervisor_tasks(ef_supervisor *supervisor, ef_task *out, size_t max)
{
    for (size_t i = 0; i < supervisor->count && i < max; i++) {
        show_task(&supervisor->tasks[i].task, &out[i]);
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
