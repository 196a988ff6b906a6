/*
 * idle.c - a worker without work becomes idle.
 *
 *     working ── quiet for IDLE_AFTER_MS, and no row waits ──► idle
 *        ▲────── the journal grows, a row waits, or a task works ──┘
 *
 * Leases and heartbeats are writes, and without work they protect nothing. An idle worker has
 * released its leases and writes its heartbeat, with the state idle, once a minute. It keeps
 * polling the queue, because another worker may crash with rows in flight.
 */
#include "queue.h"
#include "run.h"

#include "../journal/journal.h"

#define IDLE_AFTER_MS                                                                              \
    10000 /* as long as a lease: a worker with more frequent work keeps its leases */

static bool is_quiet(ef_engine *engine, const ef_tick *tick, int64_t head)
{
    bool gaps_wait;

    pthread_mutex_lock(&engine->queue.lock);
    gaps_wait = ef__gaps_check_is_pending(engine);
    pthread_mutex_unlock(&engine->queue.lock);
    return engine->queue.idle.since_us && head == engine->queue.idle.head &&
           engine->worked_us <= engine->queue.idle.since_us && !gaps_wait && !tick->more &&
           !tick->claimed && !tick->due_us && !tick->leased_count && !tick->released_count &&
           !tick->lost_count;
}

/* Becomes or stays idle. */
static ef_status keep_idle(ef_engine *engine, ef_tick *tick, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&engine->queue.lock);
    st = ef__membership_idle(&engine->queue.membership, tick, err);
    engine->queue.idle.is_idle = st == EF_OK || engine->queue.idle.is_idle;
    pthread_mutex_unlock(&engine->queue.lock);
    return st;
}

/* A run may have acquired leases meanwhile, or a cursor or publisher has worked. */
static bool is_idle(ef_engine *engine)
{
    pthread_mutex_lock(&engine->queue.lock);
    if (engine->queue.idle.is_idle &&
        (engine->queue.membership.next_beat_us || engine->worked_us > engine->queue.idle.since_us))
        engine->queue.idle = (ef__idle_state){0};
    pthread_mutex_unlock(&engine->queue.lock);
    return engine->queue.idle.is_idle;
}

ef_status ef__queue_driver_watch(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                 ef_error *err)
{
    bool waits = false;
    ef_head head;
    ef_status st = ef_journal_head(engine->journal, &head, err);

    if (st == EF_OK && is_idle(engine)) {
        st = ef__outbox_has_work(engine->journal, &waits, err);
        if (st == EF_OK && !waits && head.position == engine->queue.idle.head)
            return keep_idle(engine, tick, err);
        if (st != EF_OK)
            return st;
    }
    if (st == EF_OK)
        st = ef__queue_driver_step(engine, options, tick, err);
    if (st != EF_OK || engine->queue.idle.is_idle || !is_quiet(engine, tick, head.position)) {
        engine->queue.idle =
            (ef__idle_state){.head = head.position, .since_us = ef__engine_mono_us(engine)};
        return st;
    }
    if (ef__engine_mono_us(engine) - engine->queue.idle.since_us < IDLE_AFTER_MS * INT64_C(1000))
        return EF_OK;
    st = ef__outbox_has_work(engine->journal, &waits, err);
    engine->queue.idle.since_us = ef__engine_mono_us(engine);
    return st == EF_OK && !waits ? keep_idle(engine, tick, err) : st;
}
