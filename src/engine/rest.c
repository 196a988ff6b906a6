/*
 * rest.c - a worker that is idle while there is nothing to do.
 *
 *     working ── quiet for IDLE_AFTER_MS, and no row waits ──► idle
 *        ▲────── the journal grows, a row waits, or a task works ──┘
 *
 * Leases and heartbeats are writes, and there is nothing that they would protect: so an idle worker
 * has released its leases, and its heartbeat, which says that it is idle, is written once a minute.
 * It goes on reading, because another worker may die with work in flight: whatever has to be taken
 * over is in the queue for all to see.
 */
#include "queue.h"
#include "run.h"

#include "../journal/journal.h"

#define IDLE_AFTER_MS                                                                              \
    10000 /* a lease: one that comes and goes more often should keep what it has */

static int64_t mono_us(const ef_engine *e)
{
    return e->options.clock->mono_us(e->options.clock->context);
}

static bool is_quiet(ef_engine *e, const ef_tick *t, int64_t head)
{
    bool gaps_wait;

    pthread_mutex_lock(&e->working);
    gaps_wait = ef__gaps_wait(e);
    pthread_mutex_unlock(&e->working);
    return e->rest.since_us && head == e->rest.head && e->worked_us <= e->rest.since_us &&
           !gaps_wait && !t->more && !t->claimed && !t->due_us && !t->leased_count &&
           !t->released_count && !t->lost_count;
}

/* Begins to be idle, or stays so. */
static ef_status keep_idle(ef_engine *e, ef_tick *tick, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&e->working);
    st = ef__crew_idle(&e->crew, tick, err);
    e->rest.idle = st == EF_OK || e->rest.idle;
    pthread_mutex_unlock(&e->working);
    return st;
}

/* A run may have begun meanwhile, with leases; or a cursor or publisher works. */
static bool is_idle(ef_engine *e)
{
    pthread_mutex_lock(&e->working);
    if (e->rest.idle && (e->crew.next_beat_us || e->worked_us > e->rest.since_us))
        e->rest = (ef__rest){0};
    pthread_mutex_unlock(&e->working);
    return e->rest.idle;
}

ef_status ef__queue_watch(ef_engine *e, const ef_work_options *options, ef_tick *tick,
                          ef_error *err)
{
    bool waits = false;
    ef_head head;
    ef_status st = ef_journal_head(e->journal, &head, err);

    if (st == EF_OK && is_idle(e)) {
        st = ef__outbox_waits(e->journal, &waits, err);
        if (st == EF_OK && !waits && head.position == e->rest.head)
            return keep_idle(e, tick, err);
        if (st != EF_OK)
            return st;
    }
    if (st == EF_OK)
        st = ef__queue_work(e, options, tick, err);
    if (st != EF_OK || e->rest.idle || !is_quiet(e, tick, head.position)) {
        e->rest = (ef__rest){.head = head.position, .since_us = mono_us(e)};
        return st;
    }
    if (mono_us(e) - e->rest.since_us < IDLE_AFTER_MS * INT64_C(1000))
        return EF_OK;
    st = ef__outbox_waits(e->journal, &waits, err);
    e->rest.since_us = mono_us(e);
    return st == EF_OK && !waits ? keep_idle(e, tick, err) : st;
}
