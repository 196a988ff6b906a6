/*
 * rest.c - a worker that rests while nobody has anything to do.
 *
 *     at work ── quiet for REST_MS, and no row waits ──► resting
 *        ▲────── the journal grows, or a row waits ───────────┘
 *
 * Leases and heartbeats are writes, and there is nothing that they would keep: so a worker that
 * rests has given everything back and left. It goes on looking, for others may end with work in
 * hand: what anybody would have to take up is in the queue for all to see.
 */
#include "queue.h"
#include "run.h"

#include "../journal/journal.h"

#define REST_MS 10000 /* a lease: who comes and goes more often had better keep what it has */

static bool is_quiet(ef_engine *e, const ef_tick *t, int64_t head)
{
    bool gaps_wait;

    pthread_mutex_lock(&e->working);
    gaps_wait = ef__gaps_wait(e);
    pthread_mutex_unlock(&e->working);
    return e->rest.since_us && head == e->rest.head && !gaps_wait && !t->more && !t->claimed &&
           !t->due_us && !t->leased_count && !t->released_count && !t->lost_count;
}

static void give_back(ef_engine *e)
{
    pthread_mutex_lock(&e->working);
    ef__crew_leave(&e->crew);
    e->crew.next_beat_us = 0;
    pthread_mutex_unlock(&e->working);
    e->rest.resting = true;
}

/* A run may have set to work meanwhile, with leases and all. */
static bool is_resting(ef_engine *e)
{
    pthread_mutex_lock(&e->working);
    if (e->rest.resting && e->crew.next_beat_us)
        e->rest = (ef__rest){0};
    pthread_mutex_unlock(&e->working);
    return e->rest.resting;
}

ef_status ef__queue_watch(ef_engine *e, const ef_work_options *options, ef_tick *tick,
                          ef_error *err)
{
    const ef_clock *clock = e->options.clock;
    bool waits = false;
    ef_head head;
    ef_status st = ef_journal_head(e->journal, &head, err);

    if (st == EF_OK && is_resting(e)) {
        st = ef__outbox_waits(e->journal, &waits, err);
        if (st != EF_OK || (!waits && head.position == e->rest.head))
            return st;
    }
    if (st == EF_OK)
        st = ef__queue_work(e, options, tick, err);
    if (st != EF_OK || e->rest.resting || !is_quiet(e, tick, head.position)) {
        e->rest = (ef__rest){.head = head.position, .since_us = clock->mono_us(clock->context)};
        return st;
    }
    if (clock->mono_us(clock->context) - e->rest.since_us < REST_MS * INT64_C(1000))
        return EF_OK;
    st = ef__outbox_waits(e->journal, &waits, err);
    e->rest.since_us = clock->mono_us(clock->context);
    if (st == EF_OK && !waits)
        give_back(e);
    return st;
}
