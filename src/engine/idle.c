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

static bool is_quiet(const ef_engine *engine, const ef_tick *tick, int64_t head)
{
    const ef__idle_state *idle = &engine->queue.idle;

    return idle->since_us && head == idle->head && engine->worked_us <= idle->since_us &&
           !ef__gaps_check_is_pending(engine) && !tick->more && !tick->claimed && !tick->due_us &&
           !tick->leased_count && !tick->released_count && !tick->lost_count;
}

/* Becomes or stays idle. */
static ef_status keep_idle(ef__queue_driver *driver, ef_tick *tick, ef_error *err)
{
    ef_status st = ef__membership_idle(&driver->membership, tick, err);

    driver->idle.is_idle = st == EF_OK || driver->idle.is_idle;
    return st;
}

/* A run may have acquired leases meanwhile, or a cursor or publisher has worked. */
static bool is_idle(ef_engine *engine)
{
    ef__queue_driver *driver = &engine->queue;

    if (driver->idle.is_idle &&
        (driver->membership.next_beat_us || engine->worked_us > driver->idle.since_us))
        driver->idle = (ef__idle_state){0};
    return driver->idle.is_idle;
}

static ef_status watch_queue(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                             ef_error *err)
{
    ef__queue_driver *driver = &engine->queue;
    bool waits = false;
    ef_head head;
    ef_status st = ef_journal_head(engine->journal, &head, err);

    if (st == EF_OK && is_idle(engine)) {
        st = ef__outbox_has_work(engine->journal, &waits, err);
        if (st == EF_OK && !waits && head.position == driver->idle.head)
            return keep_idle(driver, tick, err);
        if (st != EF_OK)
            return st;
    }
    if (st == EF_OK)
        st = ef__queue_step(engine, options, tick, err);
    if (st != EF_OK || driver->idle.is_idle || !is_quiet(engine, tick, head.position)) {
        driver->idle =
            (ef__idle_state){.head = head.position, .since_us = ef__engine_mono_us(engine)};
        return st;
    }
    if (ef__engine_mono_us(engine) - driver->idle.since_us < IDLE_AFTER_MS * INT64_C(1000))
        return EF_OK;
    st = ef__outbox_has_work(engine->journal, &waits, err);
    driver->idle.since_us = ef__engine_mono_us(engine);
    return st == EF_OK && !waits ? keep_idle(driver, tick, err) : st;
}

ef_status ef__queue_driver_watch(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                 ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&engine->queue.lock);
    st = watch_queue(engine, options, tick, err);
    pthread_mutex_unlock(&engine->queue.lock);
    return st;
}
