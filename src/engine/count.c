/*
 * count.c - see count.h.
 */
#include "count.h"

#include "engine_priv.h"

#include "../base/logger.h"
#include "../journal/journal.h"

static const int64_t events_bounds[EF_COUNTED_BOUNDS] = {1,   2,   5,    10,   25,   100,
                                                         250, 500, 1000, 2500, 5000, 16000};
static const int64_t us_bounds[EF_COUNTED_BOUNDS] = {
    100, 250, 500, 1000, 2500, 5000, 10000, 25000, 100000, 250000, 1000000, 10000000};

static void tally(ef__tally *t, const int64_t *bounds, int64_t value)
{
    size_t i = 0;

    while (i < EF_COUNTED_BOUNDS && value > bounds[i])
        i++;
    atomic_fetch_add_explicit(&t->counts[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->sum, value, memory_order_relaxed);
}

static void add(_Atomic int64_t *to, int64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

void ef__count_batch(ef_engine *e, size_t events, int64_t us, int64_t fold_us)
{
    if (events == 0)
        return; /* a generation went live, or a cursor moved */
    tally(&e->counts.batch_events, events_bounds, (int64_t)events);
    tally(&e->counts.batch_us, us_bounds, us);
    tally(&e->counts.fold_us, us_bounds, fold_us);
}

void ef__count_exceptions(ef_engine *e, const ef_exception *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add(&e->counts.retries, rows[i].status == EF_ROW_FAILED);
        add(&e->counts.quarantined, rows[i].status == EF_ROW_DEAD);
    }
}

void ef__count_store_retry(ef_engine *e, ef_status why)
{
    if (why != EF_OK && why != EF_LEASE_LOST && why != EF_CONFLICT)
        add(&e->counts.store_retries, 1);
}

void ef__count_tick(ef_engine *e, const char *who, const ef_tick *tick, ef_status st)
{
    bool worked = tick->claimed || tick->published || tick->caught_up || tick->run_events;

    add(st != EF_OK ? &e->counts.ticks_failed
        : worked    ? &e->counts.ticks
                    : &e->counts.ticks_empty,
        1);
    add(&e->counts.claimed, tick->claimed);
    add(&e->counts.run_events, tick->run_events);
    ef__count_minute(e, tick);
    if (!worked)
        return;
    atomic_store(&e->worked_us, e->options.clock->mono_us(e->options.clock->context));
    tally(&e->counts.tick_us, us_bounds, tick->duration_us);
    ef__log(e->options.log, EF_LOG_DEBUG, "a tick", EF_LOG_TEXT_FIELD("post", ef_str_from(who)),
            EF_LOG_NUMBER_FIELD("claimed", tick->claimed),
            EF_LOG_NUMBER_FIELD("applied", tick->applied),
            EF_LOG_NUMBER_FIELD("published", tick->published),
            EF_LOG_NUMBER_FIELD("failed", tick->failed), EF_LOG_NUMBER_FIELD("dead", tick->dead),
            EF_LOG_NUMBER_FIELD("caught_up", tick->caught_up),
            EF_LOG_NUMBER_FIELD("run_events", tick->run_events),
            EF_LOG_NUMBER_FIELD("us", tick->duration_us));
}

/* --- by the minute ------------------------------------------------------------------------------
 */

static int64_t minute_of(int64_t at_us)
{
    return at_us - at_us % EF__MINUTE_US;
}

static void add_to_minute(ef__minutes *m, const ef_throughput *done)
{
    ef_throughput *row = NULL;

    for (size_t i = 0; i < m->count; i++)
        if (m->items[i].at_us == done->at_us)
            row = &m->items[i];
    if (!row) {
        if (m->count == EF__MINUTES_KEPT)
            memmove(m->items, m->items + 1, --m->count * sizeof *m->items);
        row = &m->items[m->count++];
        *row = (ef_throughput){.at_us = done->at_us};
    }
    row->position = done->position > row->position ? done->position : row->position;
    row->applied += done->applied;
    row->published += done->published;
    row->failed += done->failed;
    row->dead += done->dead;
}

void ef__count_minute(ef_engine *e, const ef_tick *tick)
{
    ef_throughput done = {.at_us = minute_of(ef__engine_now(e)),
                          .applied = tick->applied,
                          .published = tick->published,
                          .failed = tick->failed,
                          .dead = tick->dead};

    if (!done.applied && !done.published && !done.failed && !done.dead)
        return;
    pthread_mutex_lock(&e->minutes.lock);
    add_to_minute(&e->minutes, &done);
    pthread_mutex_unlock(&e->minutes.lock);
}

size_t ef__minutes_take(ef_engine *e, bool all, ef_throughput *out)
{
    ef__minutes *m = &e->minutes;
    int64_t now_us = minute_of(ef__engine_now(e));
    ef_head head = {0};
    size_t count = 0, left = 0;

    pthread_mutex_lock(&m->lock);
    if (all ? m->count == 0 : now_us == m->written_us) {
        pthread_mutex_unlock(&m->lock);
        return 0;
    }
    m->written_us = now_us;
    add_to_minute(m, &(ef_throughput){.at_us = all ? now_us : now_us - EF__MINUTE_US});
    for (size_t i = 0; i < m->count; i++)
        if (all || m->items[i].at_us < now_us)
            out[count++] = m->items[i];
        else
            m->items[left++] = m->items[i];
    m->count = left;
    pthread_mutex_unlock(&m->lock);
    (void)ef_journal_head(e->journal, &head, NULL);
    for (size_t i = 0; i < count; i++)
        if (out[i].at_us >= now_us - EF__MINUTE_US)
            out[i].position = head.position;
    return count;
}

void ef__minutes_give_back(ef_engine *e, const ef_throughput *minutes, size_t count)
{
    pthread_mutex_lock(&e->minutes.lock);
    for (size_t i = 0; i < count; i++)
        add_to_minute(&e->minutes, &minutes[i]);
    e->minutes.written_us = 0;
    pthread_mutex_unlock(&e->minutes.lock);
}

void ef__count_transfer(ef_engine *e, ef__transfer what)
{
    add(&e->counts.leases[what], 1);
}

static void show(const ef__tally *from, const int64_t *bounds, ef_histogram *out)
{
    out->bounds = bounds;
    for (size_t i = 0; i <= EF_COUNTED_BOUNDS; i++)
        out->counts[i] = atomic_load_explicit(&from->counts[i], memory_order_relaxed);
    out->sum = atomic_load_explicit(&from->sum, memory_order_relaxed);
}

ef_status ef_engine_counted(ef_engine *e, ef_engine_counts *out, ef_error *err)
{
    const ef__counts *c;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    c = &e->counts;
    *out = (ef_engine_counts){.retries = atomic_load(&c->retries),
                              .store_retries = atomic_load(&c->store_retries),
                              .quarantined = atomic_load(&c->quarantined),
                              .large_views = atomic_load(&c->large_views),
                              .leases_taken = atomic_load(&c->leases[EF__TRANSFER_TAKEN]),
                              .leases_released = atomic_load(&c->leases[EF__TRANSFER_RELEASED]),
                              .leases_lost = atomic_load(&c->leases[EF__TRANSFER_LOST]),
                              .ticks = atomic_load(&c->ticks),
                              .ticks_empty = atomic_load(&c->ticks_empty),
                              .ticks_failed = atomic_load(&c->ticks_failed),
                              .claimed = atomic_load(&c->claimed),
                              .run_events = atomic_load(&c->run_events)};
    show(&c->batch_events, events_bounds, &out->batch_events);
    show(&c->batch_us, us_bounds, &out->batch_us);
    show(&c->fold_us, us_bounds, &out->fold_us);
    show(&c->tick_us, us_bounds, &out->tick_us);
    return EF_OK;
}
