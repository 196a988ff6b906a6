/*
 * publish_threads.c - runs the publishers of an engine: one after the other, or a thread each.
 *
 * A thread that holds the lock of the driver waits for the `stepping` of a publisher only if that
 * has no thread: then no delivery to a sink is waited for.
 */
#include "publish.h"

#include "../base/logger.h"
#include "../core/retry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PUBLISHERS_MAX 64 /* threads of one process */
#define DEFINITION_BYTES (1024u * 1024)
#define POLL_MS 2000     /* poll interval without due work; an append wakes the thread earlier */
#define STOP_POLL_MS 200 /* a stop is noticed within this time */

/* --- the driver ------------------------------------------------------------------------------- */

void ef__publisher_driver_init(ef__publisher_driver *driver)
{
    pthread_mutex_init(&driver->lock, NULL);
    pthread_mutex_init(&driver->health_lock, NULL);
    driver->sink_open = ef__bus_open;
}

void ef__publisher_driver_release(ef__publisher_driver *driver)
{
    assert(!driver->first);
    pthread_mutex_destroy(&driver->health_lock);
    pthread_mutex_destroy(&driver->lock);
}

/* --- the list --------------------------------------------------------------------------------- */

static ef__publisher_task *find_publisher(ef_engine *engine, ef_str name)
{
    for (ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next)
        if (ef_str_equal(name, ef_str_from(publisher->name)))
            return publisher;
    return NULL;
}

static ef_status add_publisher(ef_engine *engine, ef_str name, ef_error *err)
{
    ef__publisher_task *publisher = calloc(1, sizeof *publisher), **at = &engine->publishers.first;
    size_t count = 0;

    for (; *at && strcmp((*at)->name, name.ptr) < 0; at = &(*at)->next)
        ;
    for (const ef__publisher_task *q = engine->publishers.first; q; q = q->next)
        count++;
    if (!publisher || count >= PUBLISHERS_MAX) {
        free(publisher);
        return publisher ? ef_fail(err, EF_TOO_LARGE, "more than %d publishers", PUBLISHERS_MAX)
                         : ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
    }
    publisher->engine = engine;
    (void)snprintf(publisher->name, sizeof publisher->name, "%.*s", EF_STR_ARG(name));
    (void)snprintf(publisher->health.name, sizeof publisher->health.name, "%s", publisher->name);
    publisher->arena = (ef__arena)EF__ARENA_INIT(DEFINITION_BYTES);
    publisher->membership.engine = engine;
    publisher->membership.lane = ef_str_from(publisher->name);
    pthread_mutex_init(&publisher->stepping, NULL);
    pthread_mutex_lock(
        &engine->publishers.health_lock); /* readers of the list hold this one only */
    publisher->next = *at;
    *at = publisher;
    pthread_mutex_unlock(&engine->publishers.health_lock);
    return EF_OK;
}

static void let_go(ef__publisher_task *publisher, bool abandon)
{
    ef__bus_close(publisher->bus);
    if (!abandon)
        ef__membership_leave(&publisher->membership);
    ef__membership_release(&publisher->membership);
    ef__arena_release(&publisher->arena);
    pthread_mutex_destroy(&publisher->stepping);
    free(publisher);
}

static bool is_gone(ef_engine *engine, const ef__publisher_task *publisher)
{
    pthread_mutex_lock(&engine->publishers.health_lock);
    bool is_removed = publisher->is_removed;
    pthread_mutex_unlock(&engine->publishers.health_lock);
    return is_removed;
}

/* Removes publishers that are no longer in the journal. */
static void remove_deleted(ef_engine *engine)
{
    for (ef__publisher_task **at = &engine->publishers.first; *at;) {
        ef__publisher_task *publisher = *at;
        if (!is_gone(engine, publisher)) {
            at = &publisher->next;
            continue;
        }
        if (publisher->has_thread)
            (void)pthread_join(publisher->thread, NULL);
        pthread_mutex_lock(&engine->publishers.health_lock);
        *at = publisher->next;
        pthread_mutex_unlock(&engine->publishers.health_lock);
        let_go(publisher, false);
    }
}

ef_status ef__publishers_refresh(ef_engine *engine, ef_error *err)
{
    ef_lane_list lanes = {0};
    ef_status st = ef_lane_ls(engine->journal, &lanes, err);

    remove_deleted(engine);
    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (ef__lane_is_publisher(&lanes.items[i]) && !find_publisher(engine, lanes.items[i].name))
            st = add_publisher(engine, lanes.items[i].name, err);
    ef_lane_list_release(&lanes);
    return st;
}

void ef__publishers_report(ef_engine *engine, ef_tick *tick)
{
    pthread_mutex_lock(&engine->publishers.health_lock);
    for (ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next) {
        tick->published += publisher->health.published - publisher->reported_published;
        tick->failed += publisher->health.failed - publisher->reported_failed;
        tick->dead += publisher->health.dead - publisher->reported_dead;
        publisher->reported_published = publisher->health.published;
        publisher->reported_failed = publisher->health.failed;
        publisher->reported_dead = publisher->health.dead;
    }
    pthread_mutex_unlock(&engine->publishers.health_lock);
}

size_t ef_engine_publishers(ef_engine *engine, ef_publisher_health *out, size_t max)
{
    int64_t now_us = ef__engine_mono_us(engine);
    size_t count = 0;

    pthread_mutex_lock(&engine->publishers.health_lock);
    for (const ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next, count++) {
        if (count >= max)
            continue;
        out[count] = publisher->health;
        out[count].stalled_us = publisher->step_us ? now_us - publisher->step_us : 0;
    }
    pthread_mutex_unlock(&engine->publishers.health_lock);
    return count;
}

/* --- one after the other ---------------------------------------------------------------------- */

ef_status ef__publisher_driver_step(ef_engine *engine, const ef_work_options *options,
                                    ef_tick *tick, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&engine->publishers.lock);
    st = ef__publishers_refresh(engine, err);
    for (ef__publisher_task *publisher = engine->publishers.first; st == EF_OK && publisher;
         publisher = publisher->next)
        if (!publisher->has_thread)
            st = ef__publish_step(publisher, options, tick, err);
    pthread_mutex_unlock(&engine->publishers.lock);
    ef__publishers_report(engine, tick);
    return st;
}

/* --- a thread each ---------------------------------------------------------------------------- */

static void sleep_until_stop(const ef__publisher_task *publisher, int64_t ms)
{
    int64_t until_us = ef__publish_mono_us(publisher) + ms * 1000;

    while (!atomic_load(&publisher->stop) && ef__publish_mono_us(publisher) < until_us) {
        int64_t left_ms = (until_us - ef__publish_mono_us(publisher)) / 1000 + 1;
        struct timespec slice = {.tv_nsec =
                                     (left_ms < STOP_POLL_MS ? left_ms : STOP_POLL_MS) * 1000000};
        (void)nanosleep(&slice, NULL);
    }
}

static int64_t poll_ms(const ef__publisher_task *publisher, const ef_tick *tick)
{
    int64_t ms = POLL_MS;
    int64_t due_ms =
        tick->due_us ? (tick->due_us - ef__engine_now(publisher->engine)) / 1000 + 1 : POLL_MS;
    int64_t beat_ms =
        publisher->membership.next_beat_us
            ? (publisher->membership.next_beat_us - ef__publish_mono_us(publisher)) / 1000 + 1
            : POLL_MS;

    ms = due_ms < ms ? due_ms : ms;
    ms = beat_ms < ms ? beat_ms : ms;
    return ms < 1 ? 1 : ms;
}

/* Waits until the journal is past `position`, or the time is over. While its sink is unavailable a
 * publisher ignores appends: they would wake it in vain. */
static void wait_for_work(const ef__publisher_task *publisher, int64_t position, int64_t ms)
{
    int64_t until_us = ef__publish_mono_us(publisher) + ms * 1000, left_ms = ms;
    ef_error ignored = EF_ERROR_INIT;
    ef_status st = EF_TIMEOUT;

    if (ef__publish_mono_us(publisher) < publisher->next_try_us) {
        sleep_until_stop(publisher, ms);
        return;
    }
    while (st == EF_TIMEOUT && left_ms > 0 && !atomic_load(&publisher->stop)) {
        st = ef_journal_wait(publisher->engine->journal, position,
                             left_ms < STOP_POLL_MS ? left_ms : STOP_POLL_MS, &ignored);
        left_ms = (until_us - ef__publish_mono_us(publisher)) / 1000;
    }
    if (st != EF_OK && st != EF_TIMEOUT)
        sleep_until_stop(publisher, left_ms < POLL_MS ? left_ms : POLL_MS);
}

/* The journal is unavailable. */
static void report_failure(ef__publisher_task *publisher, const ef_error *err, int64_t failures)
{
    ef__retry_step step = ef__retry_decide(&ef__retry_store, failures, EF__ERROR_TRANSIENT,
                                           (uint64_t)ef__publish_mono_us(publisher));

    pthread_mutex_lock(&publisher->engine->publishers.health_lock);
    publisher->health.last_error = *err;
    publisher->health.state = EF_PUBLISHER_RETRYING;
    pthread_mutex_unlock(&publisher->engine->publishers.health_lock);
    ef__log(publisher->engine->options.log, EF_LOG_WARN, "publisher step failed, retrying",
            EF_LOG_TEXT_FIELD("publisher", ef_str_from(publisher->name)),
            EF_LOG_TEXT_FIELD("error", ef_str_from(err->text)),
            EF_LOG_NUMBER_FIELD("after_ms", step.delay_ms));
    sleep_until_stop(publisher, step.delay_ms);
}

/* A copy: the supervisor may change the options while publishers work. */
static ef_work_options options_of(ef_engine *engine)
{
    ef_work_options options;

    pthread_mutex_lock(&engine->publishers.health_lock);
    options = engine->publishers.options;
    pthread_mutex_unlock(&engine->publishers.health_lock);
    return options;
}

static void *keep_publisher(void *argument)
{
    ef__publisher_task *publisher = argument;
    int64_t failures = 0;

    while (!atomic_load(&publisher->stop) && !is_gone(publisher->engine, publisher)) {
        ef_error err = EF_ERROR_INIT;
        ef_head head = {0};
        ef_tick tick = {0};
        ef_work_options options = options_of(publisher->engine);
        int64_t began_us = ef__publish_mono_us(publisher);
        ef_status st = ef_journal_head(publisher->engine->journal, &head, &err);

        if (st == EF_OK)
            st = ef__publish_step(publisher, &options, &tick, &err);
        tick.duration_us = ef__publish_mono_us(publisher) - began_us;
        ef__count_tick(publisher->engine, publisher->name, &tick, st);
        if (st != EF_OK) {
            report_failure(publisher, &err, failures++);
            continue;
        }
        failures = 0;
        if (!tick.more)
            wait_for_work(publisher, head.position, poll_ms(publisher, &tick));
    }
    return NULL;
}

static ef_status start_thread(ef__publisher_task *publisher, ef_error *err)
{
    atomic_store(&publisher->stop, false);
    if (pthread_create(&publisher->thread, NULL, keep_publisher, publisher) != 0)
        return ef_fail(err, EF_NO_MEMORY, "a thread for publisher \"%s\" could not be started",
                       publisher->name);
    publisher->has_thread = true;
    return EF_OK;
}

ef_status ef__publisher_driver_supervise(ef_engine *engine, const ef_work_options *options,
                                         ef_tick *tick, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&engine->publishers.lock);
    pthread_mutex_lock(&engine->publishers.health_lock);
    engine->publishers.options = *options;
    pthread_mutex_unlock(&engine->publishers.health_lock);
    st = ef__publishers_refresh(engine, err);
    for (ef__publisher_task *publisher = engine->publishers.first; st == EF_OK && publisher;
         publisher = publisher->next)
        if (!publisher->has_thread)
            st = start_thread(publisher, err);
    pthread_mutex_unlock(&engine->publishers.lock);
    ef__publishers_report(engine, tick);
    return st;
}

void ef__publisher_driver_stop(ef_engine *engine)
{
    pthread_mutex_lock(&engine->publishers.lock);
    for (ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next)
        atomic_store(&publisher->stop, true);
    for (ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next) {
        if (publisher->has_thread)
            (void)pthread_join(publisher->thread, NULL);
        publisher->has_thread = false;
        atomic_store(&publisher->stop, false);
    }
    pthread_mutex_unlock(&engine->publishers.lock);
}

void ef__publisher_driver_close(ef_engine *engine, bool abandon)
{
    ef__publisher_driver_stop(engine);
    while (engine->publishers.first) {
        ef__publisher_task *publisher = engine->publishers.first;
        engine->publishers.first = publisher->next;
        let_go(publisher, abandon);
    }
}
