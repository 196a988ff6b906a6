/*
 * publish.c - see publish.h: a step of one publisher.
 */
#include "publish.h"

#include "publish_pass.h"
#include "publish_sink.h"

#include "../base/logger.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH_USUAL 1000
#define PURGE_ROWS 1000
#define PURGE_US 10000000

static void show(ef__publishing *p, ef_publisher_state state)
{
    pthread_mutex_lock(&p->engine->lock);
    p->is.state = state;
    pthread_mutex_unlock(&p->engine->lock);
}

static bool is_sending(const ef__publishing *p)
{
    return !p->definition.paused && !p->is_copy;
}

/* --- its definition --------------------------------------------------------------------------- */

/* Changed settings begin anew: another sink, and what it was waiting for is over. */
static ef_status take_definition(ef__publishing *p, const ef_lane *lane, ef_error *err)
{
    ef_lane own = *lane;
    ef_status st;

    if (p->settings.ptr && ef_str_equal(p->settings, lane->settings) &&
        ef_str_equal(p->definition.types, lane->types))
        return EF_OK;
    ef__sink_close(p);
    ef__arena_reset(&p->arena);
    own.settings = p->settings = ef__arena_copy(&p->arena, lane->settings);
    own.types = ef__arena_copy(&p->arena, lane->types);
    own.name = ef_str_from(p->name);
    if (!own.settings.ptr || !own.types.ptr)
        st = ef__publish_no_memory(err);
    else
        st = ef__publisher_read(&own, &p->arena, &p->definition, err);
    if (st != EF_OK)
        p->settings = (ef_str){0};
    p->next_try_us = p->next_purge_us = 0;
    return st;
}

/* A copy sends nothing, because the original may send the same. Asked before the sink is opened:
 * a journal does not become a copy while it is in use. */
static ef_status look_for_copy(ef__publishing *p, ef_error *err)
{
    int64_t copied_us = 0;
    bool was = p->is_copy;
    ef_status st = ef_journal_copied(p->engine->journal, &copied_us, err);

    p->is_copy = st == EF_OK && copied_us > 0;
    if (p->is_copy && !was)
        ef__log(p->engine->options.log, EF_LOG_WARN,
                "publisher waits: the journal is a copy that nobody has adopted",
                EF_LOG_TEXT_FIELD("publisher", ef_str_from(p->name)));
    return st;
}

/* Read the definition, and open the sink unless it is paused. */
static ef_status get_ready(ef__publishing *p, ef_error *err)
{
    ef_lane_list lanes = {0};
    const ef_lane *found = NULL;
    ef_error why = EF_ERROR_INIT;
    ef_status st = ef_lane_ls(p->engine->journal, &lanes, err);

    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (ef_str_equal(lanes.items[i].name, ef_str_from(p->name)) &&
            ef__lane_is_publisher(&lanes.items[i]))
            found = &lanes.items[i];
    if (st == EF_OK && found)
        st = take_definition(p, found, err);
    if (st == EF_OK && found && found->progress.len < sizeof p->noted)
        (void)snprintf(p->noted, sizeof p->noted, "%.*s", EF_STR_ARG(found->progress));
    if (st == EF_OK && found && !p->bus)
        st = look_for_copy(p, err);
    if (st == EF_OK && found && is_sending(p) && !p->bus && ef__sink_is_at_hand(p) &&
        ef__sink_open(p, found->progress, &why) != EF_OK)
        ef__sink_failed(p, &why);
    if (st == EF_OK && !found) {
        pthread_mutex_lock(&p->engine->lock);
        p->gone = true;
        pthread_mutex_unlock(&p->engine->lock);
    }
    ef_lane_list_release(&lanes);
    return st;
}

/* --- the step --------------------------------------------------------------------------------- */

/* What another worker noted before it let go is read under our lease. */
static ef_status take_over(ef__publishing *p, ef_error *err)
{
    int64_t token = ef__publish_token(p);
    ef_status st = EF_OK;

    if (token != p->token)
        ef__sink_forget_lost(p);
    if (token && token != p->token)
        st = get_ready(p, err);
    if (st == EF_OK && token && token != p->token && p->bus)
        (void)ef__sink_is_all_there(p, true);
    if (st == EF_OK)
        p->token = token;
    return st;
}

/* Nothing is purged that the sink may have lost since it was last looked at. In small commits, and
 * in a step no less than twice what a step publishes: so what is kept does not grow for ever. */
static ef_status purge(ef__publishing *p, ef_error *err)
{
    bool kept = p->definition.retain_ms > 0;
    ef_holding held = ef__sink_holding(p);
    int64_t purged = 0;
    ef_status st = EF_OK;

    if (ef__publish_mono_us(p) < p->next_purge_us || !ef__publish_token(p) ||
        !ef__sink_is_all_there(p, true))
        return EF_OK;
    for (size_t done = 0; st == EF_OK && done <= 2 * p->batch; done += PURGE_ROWS) {
        st = ef_published_purge(p->engine->journal, ef_str_from(p->name), &held, PURGE_ROWS,
                                &purged, err);
        if (purged < PURGE_ROWS)
            break;
    }
    if (st == EF_OK)
        p->next_purge_us = purged == PURGE_ROWS ? 0
                           : kept               ? ef__publish_mono_us(p) + PURGE_US
                                                : INT64_MAX;
    return st;
}

static bool is_ready(const ef__publishing *p)
{
    return p->bus && !p->bus->lost && ef__sink_is_at_hand(p);
}

/* Whether the sink still has what it had, before anything else. */
static ef_status look_after(ef__publishing *p, ef_error *err)
{
    ef_status st = take_over(p, err);

    if (st == EF_OK && is_ready(p) && ef__publish_token(p))
        (void)ef__sink_is_all_there(p, false);
    return st == EF_OK && is_ready(p) ? purge(p, err) : st;
}

/* What is held under the token that the sink was looked at under. A lease that ran out and was
 * renewed since has another, and what others noted in between is not known: the next step asks. */
static size_t hold(const ef__publishing *p, ef_holding *held, ef_tick *tick)
{
    size_t count = ef__crew_holdings(&p->crew, held);

    if (!count || held->token == p->token)
        return count;
    tick->more = true;
    return 0;
}

static ef_status make_passes(ef__publishing *p, const ef_work_options *options, ef_tick *tick,
                             ef_error *err)
{
    ef_holding *held = malloc((size_t)p->crew.partitions * sizeof *held);
    size_t usual = options->batch ? options->batch : BATCH_USUAL, count;
    ef_status st = held ? EF_OK : ef__publish_no_memory(err);

    if (st == EF_OK && (count = hold(p, held, tick)))
        st = ef__publish_due(p, held, count, tick, err);
    if (st == EF_OK && is_ready(p))
        st = ef__crew_keep(&p->crew, tick, err);
    if (st == EF_OK && is_ready(p) && (count = hold(p, held, tick)))
        st = ef__publish_queued(p, held, count, usual, tick, err);
    if (st == EF_OK && is_ready(p))
        st = ef__crew_keep(&p->crew, tick, err);
    free(held);
    return st;
}

/* Leases outlast the longest delivery: what a call may take twice over. */
static ef_status keep_leases(ef__publishing *p, const ef_work_options *options, ef_error *err)
{
    ef_work_options own = *options;
    ef_tick ignored = {0}; /* ticks tell of the worker's own partitions */
    int64_t least_ms = 3 * p->definition.timeout_ms;

    own.lease_ms = own.lease_ms ? own.lease_ms : EF__ENGINE_LEASE_MS;
    if (own.lease_ms < least_ms)
        own.lease_ms = least_ms;
    own.heartbeat_ms = 0;
    return ef__crew_step(&p->crew, &own, &ignored, err);
}

static ef_status work(ef__publishing *p, const ef_work_options *options, ef_tick *tick,
                      ef_error *err)
{
    ef_tick own = {0};
    ef_status st = keep_leases(p, options, err);

    if (st == EF_OK)
        st = look_after(p, err);
    if (st == EF_OK && p->bus && p->bus->lost)
        st = ef__sink_hand_back(p, &own, err);
    if (st == EF_OK && is_ready(p))
        st = make_passes(p, options, &own, err);
    if (st == EF_OK && is_ready(p) && own.claimed == 0 && p->bus->ops->look)
        ef__sink_well(p);      /* nothing waits that would show it */
    if (st == EF_LEASE_LOST) { /* another worker has the partition now: not a failure */
        st = ef__crew_recheck(&p->crew, &own, err);
        st = st == EF_LEASE_LOST ? EF_OK : st;
        own.more = true;
    }
    tick->claimed += own.claimed;
    tick->more = tick->more || own.more || (p->bus && p->bus->lost && ef__sink_is_at_hand(p));
    ef__publish_note_due(tick, own.due_us);
    return st;
}

ef_status ef__publish_step(ef__publishing *p, const ef_work_options *options, ef_tick *tick,
                           ef_error *err)
{
    ef_tick own = {0};
    ef_status st;

    pthread_mutex_lock(&p->stepping);
    pthread_mutex_lock(&p->engine->lock);
    p->step_us = ef__publish_mono_us(p);
    pthread_mutex_unlock(&p->engine->lock);
    st = get_ready(p, err);
    if (st == EF_OK && (p->gone || !is_sending(p))) {
        ef__sink_close(p);
        ef__crew_leave(&p->crew);
        p->crew.next_beat_us = 0;
        show(p, EF_PUBLISHER_PAUSED);
    } else if (st == EF_OK && p->bus && ef__sink_is_at_hand(p)) {
        st = work(p, options, &own, err);
        if (ef__sink_is_at_hand(p))
            show(p, own.more ? EF_PUBLISHER_WORKING : EF_PUBLISHER_IDLE);
    }
    if (!ef__sink_is_at_hand(p))
        ef__publish_note_due(&own,
                             ef__engine_now(p->engine) + p->next_try_us - ef__publish_mono_us(p));
    tick->claimed += own.claimed;
    tick->more = tick->more || own.more;
    ef__publish_note_due(tick, own.due_us);
    pthread_mutex_lock(&p->engine->lock);
    p->step_us = 0;
    pthread_mutex_unlock(&p->engine->lock);
    pthread_mutex_unlock(&p->stepping);
    return st;
}
