/*
 * task.c - see task.h.
 */
#include "task.h"

#include "../base/deadline.h"
#include "../base/logger.h"
#include "../core/retry.h"
#include "../journal/journal.h"

#include <assert.h>
#include <stdio.h>

#define WAIT_MS_MAX 10000 /* a stop is noticed within this time where no wake-up is possible */
#define SLEEP_MS_MAX 1000

static bool is_stopping(ef__task *task)
{
    pthread_mutex_lock(&task->lock);
    bool stopping = task->is_stopping;
    pthread_mutex_unlock(&task->lock);
    return stopping;
}

/* Sleeps for `ms`, or until a stop is requested. */
static void sleep_until_stop(ef__task *task, int64_t ms)
{
    struct timespec until = ef__deadline(CLOCK_MONOTONIC, ms);

    pthread_mutex_lock(&task->lock);
    while (!task->is_stopping && pthread_cond_timedwait(&task->stop, &task->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&task->lock);
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

    while (st == EF_TIMEOUT && left > 0 && !is_stopping(task)) {
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
    pthread_mutex_lock(&task->lock);
    task->shown.steps++;
    task->shown.failures_in_a_row = 0;
    task->shown.state = more ? EF_TASK_WORKING : EF_TASK_IDLE;
    task->well_us = ef__engine_mono_us(task->engine);
    pthread_mutex_unlock(&task->lock);
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
        (void)ef_fail(&err, st, "%s", ef_status_message(st));
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

    while (!is_stopping(task))
        step_once(task);
    return NULL;
}

/* --- the owner's side ------------------------------------------------------------------------- */

ef_status ef__task_start(ef__task *task, ef_error *err)
{
    pthread_condattr_t monotonic;

    assert(!task->is_running && task->step && task->waits_for_appends);
    task->is_stopping = false;
    task->shown = (ef_task){.state = EF_TASK_STARTING};
    (void)snprintf(task->shown.name, sizeof task->shown.name, "%s", task->name);
    task->well_us = ef__engine_mono_us(task->engine);
    pthread_mutex_init(&task->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&task->stop, &monotonic);
    pthread_condattr_destroy(&monotonic);
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
    pthread_mutex_lock(&task->lock);
    task->is_stopping = true;
    pthread_cond_broadcast(&task->stop);
    pthread_mutex_unlock(&task->lock);
}

void ef__task_join(ef__task *task)
{
    if (!task->is_running)
        return;
    (void)pthread_join(task->thread, NULL);
    pthread_cond_destroy(&task->stop);
    pthread_mutex_destroy(&task->lock);
    task->is_running = false;
}

void ef__task_show(ef__task *task, ef_task *out)
{
    pthread_mutex_lock(&task->lock);
    *out = task->shown;
    if (task->is_stopping)
        out->state = EF_TASK_STOPPING;
    out->stalled_us = ef__engine_mono_us(task->engine) - task->well_us;
    pthread_mutex_unlock(&task->lock);
}
