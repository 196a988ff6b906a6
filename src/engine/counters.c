/*
 * counters.c - see counters.h.
 */
#include "counters.h"

#include "engine_priv.h"

#include "../base/hash.h"
#include "../base/logger.h"
#include "../journal/journal.h"

static const int64_t events_bounds[EF_COUNTED_BOUNDS] = {1,   2,   5,    10,   25,   100,
                                                         250, 500, 1000, 2500, 5000, 16000};
static const int64_t us_bounds[EF_COUNTED_BOUNDS] = {
    100, 250, 500, 1000, 2500, 5000, 10000, 25000, 100000, 250000, 1000000, 10000000};

static void add_to_histogram(ef__histogram_counts *t, const int64_t *bounds, int64_t value)
{
    size_t i = 0;

    while (i < EF_COUNTED_BOUNDS && value > bounds[i])
        i++;
    atomic_fetch_add_explicit(&t->counts[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->sum, value, memory_order_relaxed);
}

static void add_count(_Atomic int64_t *to, int64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

void ef__count_batch(ef_engine *engine, size_t events, int64_t us, int64_t fold_us)
{
    if (events == 0)
        return; /* a commit without events: a generation went live, or a cursor moved */
    add_to_histogram(&engine->counts.batch_events, events_bounds, (int64_t)events);
    add_to_histogram(&engine->counts.batch_us, us_bounds, us);
    add_to_histogram(&engine->counts.fold_us, us_bounds, fold_us);
}

void ef__count_retry_rows(ef_engine *engine, const ef_retry_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add_count(&engine->counts.retries, rows[i].status == EF_ROW_FAILED);
        add_count(&engine->counts.quarantined, rows[i].status == EF_ROW_DEAD);
    }
}

void ef__count_store_retry(ef_engine *engine, ef_status why)
{
    if (why != EF_OK && why != EF_LEASE_LOST && why != EF_CONFLICT)
        add_count(&engine->counts.store_retries, 1);
}

void ef__count_tick(ef_engine *engine, const char *task, const ef_tick *tick, ef_status st)
{
    bool worked = tick->claimed || tick->published || tick->caught_up || tick->run_events;

    add_count(st != EF_OK ? &engine->counts.ticks_failed
              : worked    ? &engine->counts.ticks
                          : &engine->counts.ticks_empty,
              1);
    add_count(&engine->counts.claimed, tick->claimed);
    add_count(&engine->counts.run_events, tick->run_events);
    ef__count_minute(engine, tick);
    if (!worked)
        return;
    atomic_store(&engine->worked_us, ef__engine_mono_us(engine));
    add_to_histogram(&engine->counts.tick_us, us_bounds, tick->duration_us);
    ef__log(engine->options.log, EF_LOG_DEBUG, "tick finished",
            EF_LOG_TEXT_FIELD("task", ef_str_from(task)),
            EF_LOG_NUMBER_FIELD("claimed", tick->claimed),
            EF_LOG_NUMBER_FIELD("applied", tick->applied),
            EF_LOG_NUMBER_FIELD("published", tick->published),
            EF_LOG_NUMBER_FIELD("failed", tick->failed), EF_LOG_NUMBER_FIELD("dead", tick->dead),
            EF_LOG_NUMBER_FIELD("caught_up", tick->caught_up),
            EF_LOG_NUMBER_FIELD("run_events", tick->run_events),
            EF_LOG_NUMBER_FIELD("us", tick->duration_us));
}

/* --- throughput per minute -------------------------------------------------------------------- */

static int64_t minute_of(int64_t at_us)
{
    return at_us - at_us % EF__MINUTE_US;
}

static void add_to_minute(ef__minutes *minutes, const ef_throughput *done)
{
    ef_throughput *row = NULL;

    for (size_t i = 0; i < minutes->count; i++)
        if (minutes->items[i].at_us == done->at_us)
            row = &minutes->items[i];
    if (!row) {
        if (minutes->count == EF__MINUTES_KEPT)
            memmove(minutes->items, minutes->items + 1, --minutes->count * sizeof *minutes->items);
        row = &minutes->items[minutes->count++];
        *row = (ef_throughput){.at_us = done->at_us};
    }
    row->position = done->position > row->position ? done->position : row->position;
    row->applied += done->applied;
    row->published += done->published;
    row->failed += done->failed;
    row->dead += done->dead;
}

void ef__count_minute(ef_engine *engine, const ef_tick *tick)
{
    ef_throughput done = {.at_us = minute_of(ef__engine_now(engine)),
                          .applied = tick->applied,
                          .published = tick->published,
                          .failed = tick->failed,
                          .dead = tick->dead};

    if (!done.applied && !done.published && !done.failed && !done.dead)
        return;
    EF__LOCK(&engine->lock);
    add_to_minute(&engine->minutes, &done);
}

size_t ef__minutes_drain(ef_engine *engine, bool all, ef_throughput *out)
{
    ef__minutes *minutes = &engine->minutes;
    int64_t now_us = minute_of(ef__engine_now(engine));
    ef_head head = {0};
    size_t count = 0, left = 0;

    pthread_mutex_lock(&engine->lock);
    if (all ? minutes->count == 0 : now_us == minutes->written_us) {
        pthread_mutex_unlock(&engine->lock);
        return 0;
    }
    minutes->written_us = now_us;
    add_to_minute(minutes, &(ef_throughput){.at_us = all ? now_us : now_us - EF__MINUTE_US});
    for (size_t i = 0; i < minutes->count; i++)
        if (all || minutes->items[i].at_us < now_us)
            out[count++] = minutes->items[i];
        else
            minutes->items[left++] = minutes->items[i];
    minutes->count = left;
    pthread_mutex_unlock(&engine->lock);
    (void)ef_journal_head(engine->journal, &head, NULL);
    for (size_t i = 0; i < count; i++)
        if (out[i].at_us >= now_us - EF__MINUTE_US)
            out[i].position = head.position;
    return count;
}

void ef__minutes_restore(ef_engine *engine, const ef_throughput *minutes, size_t count)
{
    EF__LOCK(&engine->lock);
    for (size_t i = 0; i < count; i++)
        add_to_minute(&engine->minutes, &minutes[i]);
    engine->minutes.written_us = 0;
}

void ef__count_transfer(ef_engine *engine, ef__lease_transfer what)
{
    add_count(&engine->counts.leases[what], 1);
}

/* --- large views ------------------------------------------------------------------------------ */

/* Is it the first report of this view? False also when the table is full. */
static bool is_first_report(ef_engine *engine, uint64_t hash)
{
    ef__large_views *large = &engine->large_views;
    EF__LOCK(&engine->lock);

    for (size_t i = 0; i < large->count; i++)
        if (large->seen[i] == hash)
            return false;
    if (large->count == EF__LARGE_VIEWS_MAX)
        return false;
    large->seen[large->count++] = hash;
    return true;
}

static void report_large(ef_engine *engine, const ef__generation *generation, const ef__view *view)
{
    uint64_t hash = ef__xxh3(view->id, ef__xxh3(view->tenant, (uint64_t)generation->id));

    if (!is_first_report(engine, hash))
        return;
    atomic_fetch_add(&engine->counts.large_views, 1);
    ef__log(engine->options.log, EF_LOG_WARN, "view exceeds half of the size limit",
            EF_LOG_TEXT_FIELD("projection", generation->name),
            EF_LOG_NUMBER_FIELD("version", generation->version),
            EF_LOG_TEXT_FIELD("tenant", view->tenant), EF_LOG_TEXT_FIELD("view_id", view->id),
            EF_LOG_NUMBER_FIELD("bytes", (int64_t)view->data.len),
            EF_LOG_NUMBER_FIELD("bytes_max", EF_FOLD_LIMIT_VIEW_BYTES));
}

void ef__view_size_check(ef_engine *engine, const ef__generation *generation,
                         const ef__view_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (changes[i].view.data.len >= EF__LARGE_VIEW_BYTES && !changes[i].deleted)
            report_large(engine, generation, &changes[i].view);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void copy_histogram(const ef__histogram_counts *from, const int64_t *bounds,
                           ef_histogram *out)
{
    out->bounds = bounds;
    for (size_t i = 0; i <= EF_COUNTED_BOUNDS; i++)
        out->counts[i] = atomic_load_explicit(&from->counts[i], memory_order_relaxed);
    out->sum = atomic_load_explicit(&from->sum, memory_order_relaxed);
}

ef_status ef_engine_counts_read(ef_engine *engine, ef_engine_counts *out, ef_error *err)
{
    const ef__counts *counts;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    counts = &engine->counts;
    *out = (ef_engine_counts){.retries = atomic_load(&counts->retries),
                              .store_retries = atomic_load(&counts->store_retries),
                              .quarantined = atomic_load(&counts->quarantined),
                              .large_views = atomic_load(&counts->large_views),
                              .leases_taken = atomic_load(&counts->leases[EF__LEASE_ACQUIRED]),
                              .leases_released = atomic_load(&counts->leases[EF__LEASE_RELEASED]),
                              .leases_lost = atomic_load(&counts->leases[EF__LEASE_LOST]),
                              .ticks = atomic_load(&counts->ticks),
                              .ticks_empty = atomic_load(&counts->ticks_empty),
                              .ticks_failed = atomic_load(&counts->ticks_failed),
                              .claimed = atomic_load(&counts->claimed),
                              .run_events = atomic_load(&counts->run_events)};
    copy_histogram(&counts->batch_events, events_bounds, &out->batch_events);
    copy_histogram(&counts->batch_us, us_bounds, &out->batch_us);
    copy_histogram(&counts->fold_us, us_bounds, &out->fold_us);
    copy_histogram(&counts->tick_us, us_bounds, &out->tick_us);
    return EF_OK;
}
