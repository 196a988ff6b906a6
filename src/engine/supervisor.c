/*
 * supervisor.c - see supervisor.h.
 *
 * All durable state is in the stores, so a thread may be restarted at any time.
 */
#include <everfold/supervisor.h>

#include "publish.h"
#include "run.h"

#include "../base/deadline.h"
#include "../base/logger.h"
#include "../core/retry.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define INTERVAL_MS 2000
#define CURSOR_THREADS 1
#define TASKS_MAX 16
#define WAIT_MS_MAX 10000 /* a stop is noticed within this time where no wake-up is possible */
#define SLEEP_MS_MAX 1000
#define STALLED_MS 30000 /* longer than the interval by this: the task is unhealthy */

typedef ef_status step_fn(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err);

typedef struct supervised_task {
    ef_supervisor *supervisor;
    step_fn *step;
    pthread_t thread;
    bool started;
    int64_t wake;    /* the last wake-up that it has seen */
    ef_task shown;   /* guarded by the supervisor's lock, like … */
    int64_t well_us; /* … when it last succeeded; monotonic */
} supervised_task;

struct ef_supervisor {
    ef_supervisor_options options;
    pthread_mutex_t lock;
    pthread_mutex_t reporting; /* one on_step at a time */
    pthread_cond_t wake;
    bool stopping;
    supervised_task tasks[TASKS_MAX];
    size_t count;
};

const char *ef_task_state_name(ef_task_state state)
{
    static const char *const names[] = {"starting", "working", "idle", "retrying", "stopping"};

    return names[state];
}

static int64_t mono_us(const ef_supervisor *supervisor)
{
    return ef__engine_mono_us(supervisor->options.engine);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static bool is_stopping(ef_supervisor *supervisor)
{
    pthread_mutex_lock(&supervisor->lock);
    bool stopping = supervisor->stopping;
    pthread_mutex_unlock(&supervisor->lock);
    return stopping;
}

/* Sleeps for `ms`, or until a stop is requested. */
static void sleep_until_stop(ef_supervisor *supervisor, int64_t ms)
{
    struct timespec until = ef__deadline(CLOCK_MONOTONIC, ms);

    pthread_mutex_lock(&supervisor->lock);
    while (!supervisor->stopping &&
           pthread_cond_timedwait(&supervisor->wake, &supervisor->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&supervisor->lock);
}

/* How long there is nothing to do unless the journal grows. */
static int64_t idle_ms(const supervised_task *task, const ef_tick *tick)
{
    const ef_engine *engine = task->supervisor->options.engine;
    int64_t ms = task->supervisor->options.interval_ms;
    int64_t due_ms = tick->due_us ? (tick->due_us - ef__engine_now(engine)) / 1000 + 1 : ms;
    int64_t beat_ms =
        task->step == ef__queue_driver_watch && engine->queue.membership.next_beat_us
            ? (engine->queue.membership.next_beat_us - mono_us(task->supervisor)) / 1000 + 1
            : ms;

    ms = due_ms < ms ? due_ms : ms;
    ms = beat_ms < ms ? beat_ms : ms;
    return ms < 1 ? 1 : ms;
}

/* Does an append matter to the task? The queue claims its rows, and the cursors read it if a
 * generation is fed by a cursor. Everything else comes with a wake-up or at its due time. */
static bool waits_for_appends(const supervised_task *task)
{
    const ef_engine *engine = task->supervisor->options.engine;

    return (task->step == ef__queue_driver_watch && !ef__journal_is_sparse(engine->journal) &&
            engine->options.mode != EF_MODE_INLINE_APPLY_ONLY) ||
           task->step == ef__shadow_work ||
           (task->step == ef__cursor_driver_step && atomic_load(&engine->cursor.reads_log));
}

/* Waits until the journal is past `position`, the time is over, or a wake-up: for a stop, or a
 * change that no append announces. */
static void wait_for_work(supervised_task *task, int64_t position, int64_t ms)
{
    ef_supervisor *supervisor = task->supervisor;
    int64_t until_us = mono_us(supervisor) + ms * 1000, left = ms;
    ef_error ignored = EF_ERROR_INIT;
    ef_status st = EF_TIMEOUT;

    while (st == EF_TIMEOUT && left > 0 && !is_stopping(supervisor)) {
        st = ef__journal_wait(supervisor->options.engine->journal,
                              waits_for_appends(task) ? position : EF__NO_APPENDS, &task->wake,
                              left < WAIT_MS_MAX ? left : WAIT_MS_MAX, &ignored);
        left = (until_us - mono_us(supervisor)) / 1000;
    }
    if (st != EF_OK && st != EF_TIMEOUT)
        sleep_until_stop(supervisor, left < SLEEP_MS_MAX
                                         ? left
                                         : SLEEP_MS_MAX); /* the step will report the failure */
}

/* --- a task ----------------------------------------------------------------------------------- */

static void set_state(supervised_task *task, ef_task_state state)
{
    ef_supervisor *supervisor = task->supervisor;

    pthread_mutex_lock(&supervisor->lock);
    task->shown.state = supervisor->stopping ? EF_TASK_STOPPING : state;
    if (state == EF_TASK_WORKING || state == EF_TASK_IDLE)
        task->well_us = mono_us(supervisor);
    pthread_mutex_unlock(&supervisor->lock);
}

static bool did_something(const ef_tick *tick)
{
    return tick->claimed || tick->published || tick->caught_up || tick->run_events ||
           tick->leased_count || tick->released_count || tick->lost_count ||
           tick->renewed_heartbeat;
}

static void report_step(supervised_task *task, const ef_tick *tick, const ef_error *error)
{
    ef_supervisor *supervisor = task->supervisor;

    if (!supervisor->options.on_step || (!error && !did_something(tick)))
        return;
    pthread_mutex_lock(&supervisor->reporting);
    supervisor->options.on_step(supervisor->options.context, task->shown.name, tick, error);
    pthread_mutex_unlock(&supervisor->reporting);
}

/* Records a failure; returns the back-off. */
static int64_t record_failure(supervised_task *task, const ef_error *err)
{
    ef_supervisor *supervisor = task->supervisor;
    ef__retry_step step;

    pthread_mutex_lock(&supervisor->lock);
    step = ef__retry_decide(&ef__retry_store, task->shown.failures_in_a_row++, EF__ERROR_TRANSIENT,
                            (uint64_t)mono_us(supervisor));
    task->shown.last_error = *err;
    pthread_mutex_unlock(&supervisor->lock);
    ef__log(supervisor->options.engine->options.log, EF_LOG_WARN, "step failed, retrying",
            EF_LOG_TEXT_FIELD("task", ef_str_from(task->shown.name)),
            EF_LOG_TEXT_FIELD("error", ef_str_from(err->text)),
            EF_LOG_NUMBER_FIELD("after_ms", step.delay_ms));
    return step.delay_ms;
}

static void step_once(supervised_task *task)
{
    ef_supervisor *supervisor = task->supervisor;
    ef_error err = EF_ERROR_INIT;
    ef_head head = {0};
    ef_tick tick = {0};
    int64_t began_us = mono_us(supervisor);
    ef_status st;

    st = ef_journal_head(supervisor->options.engine->journal, &head, &err);
    if (st == EF_OK)
        st = task->step(supervisor->options.engine, &supervisor->options.work, &tick, &err);
    tick.duration_us = mono_us(supervisor) - began_us;
    ef__count_tick(supervisor->options.engine, task->shown.name, &tick, st);
    if (st != EF_OK) {
        if (!err.text[0])
            (void)ef_fail(&err, st, "%s", ef_status_message(st));
        tick.backoff_ms = record_failure(task, &err);
        set_state(task, EF_TASK_RETRYING);
        report_step(task, &tick, &err);
        sleep_until_stop(supervisor, tick.backoff_ms);
        return;
    }
    pthread_mutex_lock(&supervisor->lock);
    task->shown.steps++;
    task->shown.failures_in_a_row = 0;
    pthread_mutex_unlock(&supervisor->lock);
    set_state(task, tick.more ? EF_TASK_WORKING : EF_TASK_IDLE);
    report_step(task, &tick, NULL);
    /* Publishers have threads that wait for the journal themselves. */
    if (!tick.more)
        wait_for_work(task,
                      task->step == ef__publisher_driver_supervise ? INT64_MAX : head.position,
                      tick.backoff_ms ? tick.backoff_ms : idle_ms(task, &tick));
}

static void *keep_task(void *argument)
{
    supervised_task *task = argument;

    while (!is_stopping(task->supervisor))
        step_once(task);
    return NULL;
}

/* --- the supervisor --------------------------------------------------------------------------- */

static ef_status add_task(ef_supervisor *supervisor, step_fn *step, const char *name, int number,
                          ef_error *err)
{
    supervised_task *p = &supervisor->tasks[supervisor->count];
    int failed;

    *p = (supervised_task){.supervisor = supervisor, .step = step, .well_us = mono_us(supervisor)};
    if (number)
        (void)snprintf(p->shown.name, sizeof p->shown.name, "%s-%d", name, number);
    else
        (void)snprintf(p->shown.name, sizeof p->shown.name, "%s", name);
    failed = pthread_create(&p->thread, NULL, keep_task, p);
    if (failed)
        return ef_fail(err, EF_NO_MEMORY, "a thread for \"%s\" could not be started", name);
    p->started = true;
    supervisor->count++;
    return EF_OK;
}

static ef_supervisor *create_supervisor(const ef_supervisor_options *options)
{
    ef_supervisor *supervisor = calloc(1, sizeof *supervisor);
    pthread_condattr_t monotonic;

    if (!supervisor)
        return NULL;
    supervisor->options = *options;
    if (supervisor->options.interval_ms <= 0)
        supervisor->options.interval_ms = INTERVAL_MS;
    if (supervisor->options.cursor_threads <= 0)
        supervisor->options.cursor_threads = CURSOR_THREADS;
    pthread_mutex_init(&supervisor->lock, NULL);
    pthread_mutex_init(&supervisor->reporting, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&supervisor->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
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
    int64_t now_us = mono_us(supervisor);

    pthread_mutex_lock(&supervisor->lock);
    for (size_t i = 0; i < supervisor->count && i < max; i++) {
        int64_t since_us = now_us - supervisor->tasks[i].well_us;
        out[i] = supervisor->tasks[i].shown;
        out[i].stalled_us =
            since_us > (STALLED_MS + supervisor->options.interval_ms) * 1000 ? since_us : 0;
    }
    pthread_mutex_unlock(&supervisor->lock);
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
    pthread_mutex_lock(&supervisor->lock);
    supervisor->stopping = true;
    pthread_cond_broadcast(&supervisor->wake);
    pthread_mutex_unlock(&supervisor->lock);
    ef__journal_wake(supervisor->options.engine->journal);
    for (size_t i = 0; i < supervisor->count; i++)
        (void)pthread_join(supervisor->tasks[i].thread, NULL);
    ef__publisher_driver_stop(supervisor->options.engine);
    supervisor->options.engine->shadow = NULL;
    atomic_store(&supervisor->options.engine->supervised, false);
    ef__publishers_report(supervisor->options.engine, &rest_of);
    ef__count_minute(supervisor->options.engine, &rest_of); /* what no tick has reported yet */
    ef__log(supervisor->options.engine->options.log, EF_LOG_INFO, "worker stopped",
            EF_LOG_TEXT_FIELD("worker", ef_str_from(supervisor->options.engine->worker)));
    pthread_cond_destroy(&supervisor->wake);
    pthread_mutex_destroy(&supervisor->reporting);
    pthread_mutex_destroy(&supervisor->lock);
    free(supervisor);
}
