/*
 * publish.c - see publish.h: a step of one publisher.
 */
#include "publish.h"

#include "publish_batch.h"
#include "publish_sink.h"

#include "../base/logger.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH_USUAL 1000
#define PURGE_ROWS 1000
#define PURGE_US 10000000

static void set_state(ef__publisher_task *publisher, ef_publisher_state state)
{
    pthread_mutex_lock(&publisher->engine->publishers.health_lock);
    publisher->health.state = state;
    pthread_mutex_unlock(&publisher->engine->publishers.health_lock);
}

static bool is_sending(const ef__publisher_task *publisher)
{
    return !publisher->definition.paused && !publisher->is_copy;
}

/* --- the definition --------------------------------------------------------------------------- */

/* Changed settings close the sink and end its back-off. */
static ef_status set_definition(ef__publisher_task *publisher, const ef_lane *lane, ef_error *err)
{
    ef_lane own = *lane;
    ef_status st;

    if (publisher->settings.ptr && ef_str_equal(publisher->settings, lane->settings) &&
        ef_str_equal(publisher->definition.types, lane->types))
        return EF_OK;
    ef__sink_close(publisher);
    ef__arena_reset(&publisher->arena);
    own.settings = publisher->settings = ef__arena_copy(&publisher->arena, lane->settings);
    own.types = ef__arena_copy(&publisher->arena, lane->types);
    own.name = ef_str_from(publisher->name);
    if (!own.settings.ptr || !own.types.ptr)
        st = ef__publish_no_memory(err);
    else
        st = ef__publisher_read(&own, &publisher->arena, &publisher->definition, err);
    if (st != EF_OK)
        publisher->settings = (ef_str){0};
    publisher->next_try_us = publisher->next_purge_us = 0;
    return st;
}

/* A copied journal publishes nothing, because the original may publish the same. Checked before the
 * sink is opened: a journal does not become a copy while it is open. */
static ef_status check_copy(ef__publisher_task *publisher, ef_error *err)
{
    int64_t copied_us = 0;
    bool was = publisher->is_copy;
    ef_status st = ef_journal_copied(publisher->engine->journal, &copied_us, err);

    publisher->is_copy = st == EF_OK && copied_us > 0;
    if (publisher->is_copy && !was)
        ef__log(publisher->engine->options.log, EF_LOG_WARN,
                "publisher waits: the journal is a copy that was not adopted",
                EF_LOG_TEXT_FIELD("publisher", ef_str_from(publisher->name)));
    return st;
}

/* Reads the definition, and opens the sink unless the publisher is paused. */
static ef_status prepare_sink(ef__publisher_task *publisher, ef_error *err)
{
    ef_lane_list lanes = {0};
    const ef_lane *found = NULL;
    ef_error why = EF_ERROR_INIT;
    ef_status st = ef_lane_ls(publisher->engine->journal, &lanes, err);

    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (ef_str_equal(lanes.items[i].name, ef_str_from(publisher->name)) &&
            ef__lane_is_publisher(&lanes.items[i]))
            found = &lanes.items[i];
    if (st == EF_OK && found)
        st = set_definition(publisher, found, err);
    if (st == EF_OK && found && found->progress.len < sizeof publisher->stored_progress)
        (void)snprintf(publisher->stored_progress, sizeof publisher->stored_progress, "%.*s",
                       EF_STR_ARG(found->progress));
    if (st == EF_OK && found && !publisher->bus)
        st = check_copy(publisher, err);
    if (st == EF_OK && found && is_sending(publisher) && !publisher->bus &&
        ef__sink_is_available(publisher) &&
        ef__sink_open(publisher, found->progress, &why) != EF_OK)
        ef__sink_failed(publisher, &why);
    if (st == EF_OK && !found) {
        pthread_mutex_lock(&publisher->engine->publishers.health_lock);
        publisher->is_removed = true;
        pthread_mutex_unlock(&publisher->engine->publishers.health_lock);
    }
    ef_lane_list_release(&lanes);
    return st;
}

/* --- the step --------------------------------------------------------------------------------- */

/* Reads under our lease the position that the previous holder stored. */
static ef_status read_progress(ef__publisher_task *publisher, ef_error *err)
{
    int64_t token = ef__publish_token(publisher);
    ef_status st = EF_OK;

    if (token != publisher->token)
        ef__sink_forget_lost(publisher);
    if (token && token != publisher->token)
        st = prepare_sink(publisher, err);
    if (st == EF_OK && token && token != publisher->token && publisher->bus)
        (void)ef__sink_is_complete(publisher, true);
    if (st == EF_OK)
        publisher->token = token;
    return st;
}

/* Purges retained rows only after a check that the sink still has its messages. In small commits,
 * but per step at least twice as many as a step publishes, so that retained rows do not accumulate.
 */
static ef_status purge_published(ef__publisher_task *publisher, ef_error *err)
{
    bool kept = publisher->definition.retain_ms > 0;
    ef_partition_lease held = ef__sink_lease(publisher);
    int64_t purged = 0;
    ef_status st = EF_OK;

    if (ef__publish_mono_us(publisher) < publisher->next_purge_us ||
        !ef__publish_token(publisher) || !ef__sink_is_complete(publisher, true))
        return EF_OK;
    for (size_t done = 0; st == EF_OK && done <= 2 * publisher->batch; done += PURGE_ROWS) {
        st = ef__published_purge(publisher->engine->journal, ef_str_from(publisher->name), &held,
                                 PURGE_ROWS, &purged, err);
        if (purged < PURGE_ROWS)
            break;
    }
    if (st == EF_OK)
        publisher->next_purge_us = purged == PURGE_ROWS ? 0
                                   : kept               ? ef__publish_mono_us(publisher) + PURGE_US
                                                        : INT64_MAX;
    return st;
}

static bool is_ready(const ef__publisher_task *publisher)
{
    return publisher->bus && !publisher->bus->lost && ef__sink_is_available(publisher);
}

/* Checks that the sink still has its messages, before anything else. */
static ef_status check_sink(ef__publisher_task *publisher, ef_error *err)
{
    ef_status st = read_progress(publisher, err);

    if (st == EF_OK && is_ready(publisher) && ef__publish_token(publisher))
        (void)ef__sink_is_complete(publisher, false);
    return st == EF_OK && is_ready(publisher) ? purge_published(publisher, err) : st;
}

/* The leases held under the token under which the sink was checked. A lease that ended and was
 * acquired again has another token, and the position that others stored in between is not known:
 * then none, and the next step checks again. */
static size_t checked_leases(const ef__publisher_task *publisher, ef_partition_lease *held,
                             ef_tick *tick)
{
    size_t count = ef__membership_leases(&publisher->membership, held);

    if (!count || held->token == publisher->token)
        return count;
    tick->more = true;
    return 0;
}

static ef_status make_passes(ef__publisher_task *publisher, const ef_work_options *options,
                             ef_tick *tick, ef_error *err)
{
    ef_partition_lease *held = malloc((size_t)publisher->membership.partitions * sizeof *held);
    size_t usual = options->batch ? options->batch : BATCH_USUAL, count;
    ef_status st = held ? EF_OK : ef__publish_no_memory(err);

    if (st == EF_OK && (count = checked_leases(publisher, held, tick)))
        st = ef__publish_due(publisher, held, count, tick, err);
    if (st == EF_OK && is_ready(publisher))
        st = ef__membership_renew(&publisher->membership, tick, err);
    if (st == EF_OK && is_ready(publisher) && (count = checked_leases(publisher, held, tick)))
        st = ef__publish_queued(publisher, held, count, usual, tick, err);
    if (st == EF_OK && is_ready(publisher))
        st = ef__membership_renew(&publisher->membership, tick, err);
    free(held);
    return st;
}

/* Leases last longer than the longest delivery: twice the timeout of a call. */
static ef_status renew_leases(ef__publisher_task *publisher, const ef_work_options *options,
                              ef_error *err)
{
    ef_work_options own = *options;
    ef_tick ignored = {0}; /* ticks report the partitions of the worker only */
    int64_t least_ms = 3 * publisher->definition.timeout_ms;

    own.lease_ms = own.lease_ms ? own.lease_ms : EF__ENGINE_LEASE_MS;
    if (own.lease_ms < least_ms)
        own.lease_ms = least_ms;
    own.heartbeat_ms = 0;
    return ef__membership_step(&publisher->membership, &own, &ignored, err);
}

static ef_status publish_rows(ef__publisher_task *publisher, const ef_work_options *options,
                              ef_tick *tick, ef_error *err)
{
    ef_tick own = {0};
    ef_status st = renew_leases(publisher, options, err);

    if (st == EF_OK)
        st = check_sink(publisher, err);
    if (st == EF_OK && publisher->bus && publisher->bus->lost)
        st = ef__sink_redeliver(publisher, &own, err);
    if (st == EF_OK && is_ready(publisher))
        st = make_passes(publisher, options, &own, err);
    if (st == EF_OK && is_ready(publisher) && own.claimed == 0 && publisher->bus->ops->check_loss)
        ef__sink_recovered(publisher); /* no row waits whose delivery would show it */
    if (st == EF_LEASE_LOST) {         /* another worker holds the partition now: not a failure */
        st = ef__membership_recheck(&publisher->membership, &own, err);
        st = st == EF_LEASE_LOST ? EF_OK : st;
        own.more = true;
    }
    tick->claimed += own.claimed;
    tick->more = tick->more || own.more ||
                 (publisher->bus && publisher->bus->lost && ef__sink_is_available(publisher));
    ef__tick_wake_at(tick, own.due_us);
    return st;
}

ef_status ef__publish_step(ef__publisher_task *publisher, const ef_work_options *options,
                           ef_tick *tick, ef_error *err)
{
    ef_tick own = {0};
    ef_status st;

    pthread_mutex_lock(&publisher->stepping);
    pthread_mutex_lock(&publisher->engine->publishers.health_lock);
    publisher->step_us = ef__publish_mono_us(publisher);
    pthread_mutex_unlock(&publisher->engine->publishers.health_lock);
    st = prepare_sink(publisher, err);
    if (st == EF_OK && (publisher->is_removed || !is_sending(publisher))) {
        ef__sink_close(publisher);
        ef__membership_leave(&publisher->membership);
        publisher->membership.next_beat_us = 0;
        set_state(publisher, EF_PUBLISHER_PAUSED);
    } else if (st == EF_OK && publisher->bus && ef__sink_is_available(publisher)) {
        st = publish_rows(publisher, options, &own, err);
        if (ef__sink_is_available(publisher))
            set_state(publisher, own.more ? EF_PUBLISHER_WORKING : EF_PUBLISHER_IDLE);
    }
    if (!ef__sink_is_available(publisher))
        ef__tick_wake_at(&own, ef__engine_now(publisher->engine) + publisher->next_try_us -
                                   ef__publish_mono_us(publisher));
    tick->claimed += own.claimed;
    tick->more = tick->more || own.more;
    ef__tick_wake_at(tick, own.due_us);
    pthread_mutex_lock(&publisher->engine->publishers.health_lock);
    publisher->step_us = 0;
    pthread_mutex_unlock(&publisher->engine->publishers.health_lock);
    pthread_mutex_unlock(&publisher->stepping);
    return st;
}
