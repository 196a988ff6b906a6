/*
 * publish_threads.c - runs the publishers of an engine: one after the other, or a thread each.
 *
 * A thread that holds the lock of the driver waits for the `stepping` of a publisher only if that
 * has no thread: then no delivery to a sink is waited for.
 */
#include "publish.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define PUBLISHERS_MAX 64 /* threads of one process */
#define DEFINITION_BYTES (1024u * 1024)
#define POLL_MS 2000 /* poll interval without due work; an append wakes the thread earlier */

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
                         : ef__publish_no_memory(err);
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

static void release_publisher(ef__publisher_task *publisher, bool abandon)
{
    ef__bus_close(publisher->bus);
    if (!abandon)
        ef__membership_leave(&publisher->membership);
    ef__membership_release(&publisher->membership);
    ef__arena_release(&publisher->arena);
    pthread_mutex_destroy(&publisher->stepping);
    free(publisher);
}

/* Removes publishers that are no longer in the journal. */
static void remove_deleted(ef_engine *engine)
{
    for (ef__publisher_task **at = &engine->publishers.first; *at;) {
        ef__publisher_task *publisher = *at;
        if (!publisher->is_removed) {
            at = &publisher->next;
            continue;
        }
        if (publisher->task.is_running) {
            ef__task_request_stop(&publisher->task);
            ef__journal_wake(engine->journal);
            ef__task_join(&publisher->task);
        }
        pthread_mutex_lock(&engine->publishers.health_lock);
        *at = publisher->next;
        pthread_mutex_unlock(&engine->publishers.health_lock);
        release_publisher(publisher, false);
    }
}

/* Updates the list of publishers from the journal. */
static ef_status refresh_list(ef_engine *engine, ef_error *err)
{
    EF__AUTO(ef_lane_list) lanes = {0};
    ef_status st = ef_lane_ls(engine->journal, &lanes, err);

    remove_deleted(engine);
    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (ef__lane_is_publisher(&lanes.items[i]) && !find_publisher(engine, lanes.items[i].name))
            st = add_publisher(engine, lanes.items[i].name, err);
    return st;
}

void ef__publishers_report(ef_engine *engine, ef_tick *tick)
{
    EF__LOCK(&engine->publishers.health_lock);
    for (ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next) {
        tick->published += publisher->health.published - publisher->reported.published;
        tick->failed += publisher->health.failed - publisher->reported.failed;
        tick->dead += publisher->health.dead - publisher->reported.dead;
        publisher->reported = publisher->health;
    }
}

size_t ef_engine_publishers(ef_engine *engine, ef_publisher_health *out, size_t max)
{
    int64_t now_us = ef__engine_mono_us(engine), began_us;
    size_t count = 0;
    EF__LOCK(&engine->publishers.health_lock);

    for (const ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next, count++) {
        if (count >= max)
            continue;
        out[count] = publisher->health;
        if ((began_us = publisher->step_us))
            out[count].stalled_us = now_us - began_us;
    }
    return count;
}

/* --- a task each ------------------------------------------------------------------------------ */

static ef__publisher_task *publisher_of(const ef__task *task)
{
    return (ef__publisher_task *)((char *)task - offsetof(ef__publisher_task, task));
}

/* While its sink is unavailable a publisher ignores appends: they would wake it without need. */
static bool waits_for_appends(const ef__task *task)
{
    const ef__publisher_task *publisher = publisher_of(task);

    return ef__publish_mono_us(publisher) >= publisher->next_try_us;
}

/* The journal is unavailable. */
static void report_failure(ef__task *task, const ef_tick *tick, const ef_error *error)
{
    ef__publisher_task *publisher = publisher_of(task);

    (void)tick;
    if (!error)
        return;
    EF__LOCK(&task->engine->publishers.health_lock);
    publisher->health.last_error = *error;
    publisher->health.state = EF_PUBLISHER_RETRYING;
}

static ef_status step_publisher(ef__task *task, ef_tick *tick, ef_error *err)
{
    ef__publisher_task *publisher = publisher_of(task);

    return ef__publish_step(publisher, &publisher->options, tick, err);
}

static ef_status start_thread(ef__publisher_task *publisher, const ef_work_options *options,
                              ef_error *err)
{
    publisher->options = *options;
    publisher->task = (ef__task){.engine = publisher->engine,
                                 .name = publisher->name,
                                 .interval_ms = POLL_MS,
                                 .membership = &publisher->membership,
                                 .step = step_publisher,
                                 .waits_for_appends = waits_for_appends,
                                 .report = report_failure};
    return ef__task_start(&publisher->task, err);
}

ef_status ef__publisher_driver_step(ef_engine *engine, const ef_work_options *options,
                                    ef_tick *tick, ef_error *err)
{
    bool threads = atomic_load(&engine->supervised);
    ef_status st;
    EF__LOCK(&engine->publishers.lock);

    st = refresh_list(engine, err);
    for (ef__publisher_task *publisher = engine->publishers.first; st == EF_OK && publisher;
         publisher = publisher->next)
        if (!publisher->task.is_running)
            st = threads ? start_thread(publisher, options, err)
                         : ef__publish_step(publisher, options, tick, err);
    ef__publishers_report(engine, tick);
    return st;
}

void ef__publisher_driver_stop(ef_engine *engine)
{
    bool any = false;
    EF__LOCK(&engine->publishers.lock);

    for (ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next) {
        any = any || publisher->task.is_running;
        ef__task_request_stop(&publisher->task);
    }
    if (any)
        ef__journal_wake(engine->journal);
    for (ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next)
        ef__task_join(&publisher->task);
}

void ef__publisher_driver_close(ef_engine *engine, bool abandon)
{
    ef__publisher_driver_stop(engine);
    while (engine->publishers.first) {
        ef__publisher_task *publisher = engine->publishers.first;
        engine->publishers.first = publisher->next;
        release_publisher(publisher, abandon);
    }
}
