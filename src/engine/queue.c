/*
 * queue.c - see queue.h: the queued rows, and when a worker without work becomes idle.
 */
#include "queue.h"
#include "run.h"

#include "../base/logger.h"
#include "../core/retry.h"
#include "../journal/journal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#define LATELY_MS 60000 /* longer than a lease, and than the longest back-off of a task */
#define BATCH_GROWTH 16 /* limit for a backlog, in usual batches */
#define BATCH_STEP 4    /* growth from one batch to the next */
/* Events times projections of a batch: bounds the memory of results (24 bytes each), and the time
 * until the batch is acknowledged. */
#define BATCH_OUTCOMES ((size_t)100 * EF_LIMIT_CLAIM_ROWS)
#define IDLE_AFTER_MS                                                                              \
    10000 /* as long as a lease: a worker with more frequent work keeps its leases */

/* A claimed batch until it is acknowledged. */
typedef struct queue_pass {
    ef_engine *engine;
    ef_partition_lease *held;
    size_t held_count;
    ef_claimed_batch claimed;
    ef__apply apply;
    bool completed; /* the commit of the views included the ack */
    ef_tick *tick;
} queue_pass;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in the queue driver");
}

/* --- shared by both passes -------------------------------------------------------------------- */

static bool has_items(int32_t partition, const ef_claimed_row *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].partition == partition)
            return true;
    return false;
}

ef_status ef__apply_set_rows(ef_engine *engine, const ef_partition_lease *held, size_t held_count,
                             const ef_claimed_row *items, size_t count, ef__apply *apply,
                             ef_error *err)
{
    ef__arena *arena = &engine->queue.arena;
    const ef_event **events = ef__arena_alloc(arena, (count + 1) * sizeof(ef_event *));
    ef__fence *fences = ef__arena_alloc(arena, (held_count + 1) * sizeof *fences);
    char(*names)[32] = ef__arena_alloc(arena, (held_count + 1) * sizeof *names);
    size_t used = 0;

    if (!events || !fences || !names)
        return no_memory(err);
    for (size_t i = 0; i < count; i++)
        events[i] = items[i].event;
    for (size_t h = 0; h < held_count; h++) {
        if (!has_items(held[h].partition, items, count))
            continue;
        (void)snprintf(names[used], sizeof *names, "partition/%d", (int)held[h].partition);
        fences[used] = (ef__fence){ef_str_from(names[used]), held[h].token};
        used++;
    }
    apply->events = events;
    apply->event_count = count;
    apply->fences = fences;
    apply->fence_count = used;
    return EF_OK;
}

bool ef__verdict_waits(ef__verdict verdict)
{
    return verdict == EF__VERDICT_FAILED || verdict == EF__VERDICT_DEFERRED;
}

ef_retry_row ef__retry_row_make(const ef_engine *engine, ef_str lane, int64_t position,
                                const ef__apply_result *result, int32_t failures_before)
{
    int64_t now_us = ef__engine_now(engine);
    ef_retry_row row = {.lane = lane,
                        .position = position,
                        .status = EF_ROW_PENDING,
                        .attempts = failures_before,
                        .due_us = now_us,
                        .error = result->message};

    if (result->verdict == EF__VERDICT_DEFERRED)
        return row;
    ef__retry_step step = ef__retry_decide(&engine->retry.apply, failures_before,
                                           EF__ERROR_PERMANENT, (uint64_t)now_us);
    row.attempts = (int32_t)step.attempts;
    row.status = step.dead ? EF_ROW_DEAD : EF_ROW_FAILED;
    row.due_us = now_us + step.delay_ms * 1000;
    return row;
}

const ef__apply_result *ef__apply_waiting(const ef__apply *apply, size_t first, size_t end,
                                          size_t event)
{
    const ef__apply_result *found = NULL;

    for (size_t g = first; g < end; g++) {
        const ef__apply_result *result = &apply->results[g * apply->event_count + event];
        if (apply->generations[g].keeps_rows && ef__verdict_waits(result->verdict) &&
            (!found || result->verdict == EF__VERDICT_FAILED))
            found = result;
    }
    return found;
}

size_t ef__retry_rows_collect(const ef_engine *engine, const ef__apply *apply, size_t first,
                              size_t last, ef_retry_row *out)
{
    size_t count = 0, end;

    for (; first < last; first = end) {
        ef_str lane = apply->generations[first].generation->name;
        for (end = first + 1; end < last; end++)
            if (!ef_str_equal(apply->generations[end].generation->name, lane))
                break;
        for (size_t i = 0; i < apply->event_count; i++) {
            const ef__apply_result *result = ef__apply_waiting(apply, first, end, i);
            if (result)
                out[count++] =
                    ef__retry_row_make(engine, lane, apply->events[i]->position, result, 0);
        }
    }
    return count;
}

void ef__tick_add(ef_tick *tick, const ef__apply *apply)
{
    size_t results = apply->generation_count * apply->event_count;

    tick->applied += apply->applied;
    tick->ignored += apply->ignored;
    tick->failed += apply->failed;
    for (size_t i = 0; i < results; i++)
        tick->deferred += apply->results[i].verdict == EF__VERDICT_DEFERRED;
}

/* --- acknowledging ---------------------------------------------------------------------------- */

/* The leases of partitions that rows were claimed from, with their new offsets. */
static size_t claimed_leases(const queue_pass *pass, ef_partition_lease *out)
{
    int64_t upto[EF_LIMIT_PARTITIONS] = {0};
    size_t used = 0;

    for (size_t i = 0; i < pass->claimed.count; i++) {
        int64_t *last = &upto[pass->claimed.items[i].partition];
        assert(*last < pass->claimed.items[i].event->position); /* offsets only grow */
        *last = pass->claimed.items[i].event->position;
    }
    for (size_t h = 0; h < pass->held_count; h++)
        if (upto[pass->held[h].partition]) {
            out[used] = pass->held[h];
            out[used++].upto = upto[pass->held[h].partition];
        }
    return used;
}

/* Moves the offsets past the claimed rows and writes the retry rows, in one transaction: in that of
 * the views if `connection` is set. */
static ef_status ack_batch(const queue_pass *pass, void *connection, const ef_retry_row *retry_rows,
                           size_t count, ef_error *err)
{
    ef_partition_lease *held =
        ef__arena_alloc(&pass->engine->queue.arena, (pass->held_count + 1) * sizeof *held);
    ef__ack_request ack = {.lane = EF_STR(EF_LANE_APPLY),
                           .held = held,
                           .retry_rows = retry_rows,
                           .retry_row_count = count};

    if (!held)
        return no_memory(err);
    ack.held_count = claimed_leases(pass, held);
    return ef__outbox_ack(pass->engine->journal, connection, &ack, err);
}

/* The leases may end during a large batch. */
static ef_status renew_leases(void *context, ef_error *err)
{
    queue_pass *pass = context;

    return ef__membership_renew(&pass->engine->queue.membership, pass->tick, err);
}

/* Acknowledges a batch by its results. Called inside the commit of the views, or after it. */
static ef_status ack_results(void *context, void *connection, ef_error *err)
{
    queue_pass *pass = context;
    const ef__apply *apply = &pass->apply;
    size_t first = apply->rows_from, last = apply->generation_count, count = 0;
    ef_retry_row *retry_rows = ef__arena_alloc(
        &pass->engine->queue.arena, (apply->event_count * (last - first) + 1) * sizeof *retry_rows);
    ef_status st = retry_rows ? renew_leases(pass, err) : no_memory(err);

    if (st == EF_OK)
        count = ef__retry_rows_collect(pass->engine, apply, first, last, retry_rows);
    if (st == EF_OK)
        st = ack_batch(pass, connection, retry_rows, count, err);
    if (st == EF_OK)
        ef__count_retry_rows(pass->engine, retry_rows, count);
    pass->completed = st == EF_OK;
    return st;
}

/* --- folding ---------------------------------------------------------------------------------- */

/* Applies the claimed rows to the live generations. */
static ef_status apply_claimed(queue_pass *pass, ef_error *err)
{
    ef_status st;

    pass->apply.caches = &pass->engine->queue.caches;
    pass->apply.complete = pass->engine->joined ? ack_results : NULL;
    pass->apply.renew = renew_leases;
    pass->apply.context = pass;
    st = ef__apply_set_rows(pass->engine, pass->held, pass->held_count, pass->claimed.items,
                            pass->claimed.count, &pass->apply, err);
    if (st == EF_OK)
        st = ef__apply_run_live(pass->engine, &(ef__live_choice){.by_queue = true}, &pass->apply,
                                err);
    if (st == EF_OK)
        ef__tick_add(pass->tick, &pass->apply);
    return st == EF_OK && !pass->completed ? ack_results(pass, NULL, err) : st;
}

/* --- rows that were in flight when a worker crashed ------------------------------------------- */

/* Does the generation still lack the event? Another event may have been applied under its seq. */
static ef_status lacks_event(const queue_pass *pass, const ef__generation *generation,
                             const ef_event *event, bool *out, ef_error *err)
{
    ef__watermark watermark;
    bool there = true;
    ef_status st =
        ef__watermark_read(pass->engine, generation, event->tenant, event->stream, &watermark, err);

    if (st == EF_OK && watermark.applied_seq >= event->seq)
        st = ef__journal_loss_check(pass->engine, &watermark, event, &there, err);
    *out = st == EF_OK && (watermark.applied_seq < event->seq || !there);
    return st;
}

/* The row was in flight alone: it counts as one failed attempt in every projection that lacks it,
 * and is retried in the projection's lane, where other rows are not delayed. */
static ef_status isolate_row(queue_pass *pass, ef_error *err)
{
    const ef_event *event = pass->claimed.items[0].event;
    ef__apply_result ended = {.verdict = EF__VERDICT_FAILED, .message = EF_STR(EF__CRASH_TEXT)};
    ef__live_set *set = &pass->apply.set;
    ef_retry_row *retry_rows = NULL;
    size_t count = 0;
    ef_status st = ef__live_set_read(pass->engine, &(ef__live_choice){.by_queue = true}, set, err);

    if (st == EF_OK) {
        retry_rows =
            ef__arena_alloc(&pass->engine->queue.arena, (set->count + 1) * sizeof *retry_rows);
        st = retry_rows ? EF_OK : no_memory(err);
    }
    for (size_t g = 0; st == EF_OK && g < set->count; g++) {
        const ef__generation *generation = set->items[g].generation;
        bool lacking, there = count && ef_str_equal(retry_rows[count - 1].lane, generation->name);
        if (!set->items[g].keeps_rows || there)
            continue;
        st = lacks_event(pass, generation, event, &lacking, err);
        if (st == EF_OK && lacking) {
            retry_rows[count] =
                ef__retry_row_make(pass->engine, generation->name, event->position, &ended, 0);
            retry_rows[count].trying = true; /* so it is tried alone … */
            retry_rows[count++].due_us = ef__engine_now(pass->engine); /* … at once */
        }
    }
    if (st == EF_OK)
        st = ack_batch(pass, NULL, retry_rows, count, err);
    if (st == EF_OK && count)
        ef__log(pass->engine->options.log, EF_LOG_WARN, "row isolated after a crash",
                EF_LOG_TEXT_FIELD("stream", event->stream), EF_LOG_NUMBER_FIELD("seq", event->seq));
    return st;
}

/* --- a pass ----------------------------------------------------------------------------------- */

static ef_status claim_batch(queue_pass *pass, size_t limit, ef_error *err)
{
    return ef__outbox_claim(pass->engine->journal,
                            &(ef__claim_request){.lane = EF_STR(EF_LANE_APPLY),
                                                 .held = pass->held,
                                                 .held_count = pass->held_count,
                                                 .limit = limit},
                            &pass->claimed, err);
}

static size_t largest_batch(size_t usual, size_t projections)
{
    size_t most =
        usual < EF_LIMIT_CLAIM_ROWS / BATCH_GROWTH ? usual * BATCH_GROWTH : EF_LIMIT_CLAIM_ROWS;

    return most * projections > BATCH_OUTCOMES ? BATCH_OUTCOMES / projections : most;
}

/* Larger batches while there is a backlog, then the usual size again. */
static void adapt_batch_size(ef_engine *engine, size_t usual, size_t projections, bool more)
{
    size_t most = largest_batch(usual, projections);

    engine->queue.batch = engine->queue.batch ? engine->queue.batch : usual;
    engine->queue.batch =
        more ? engine->queue.batch * BATCH_STEP : engine->queue.batch / BATCH_STEP;
    engine->queue.batch = engine->queue.batch > most ? most : engine->queue.batch;
    engine->queue.batch = engine->queue.batch < usual ? usual : engine->queue.batch;
    assert(engine->queue.batch > 0);
}

/* During an outage of the view store workers lose their leases with rows in flight, without a
 * crash. So a worker that has met an outage recently tries a lone row like any other. If the row
 * does crash the process, the next worker, which has met no outage, isolates it. */
static bool has_failed_lately(const ef_engine *engine)
{
    return engine->queue.batch_failed_us &&
           ef__engine_mono_us(engine) - engine->queue.batch_failed_us < LATELY_MS * INT64_C(1000);
}

static void record_failure(ef_engine *engine, ef_status st)
{
    ef__count_store_retry(engine, st);
    if (st != EF_OK && st != EF_LEASE_LOST && st != EF_CONFLICT)
        engine->queue.batch_failed_us = ef__engine_mono_us(engine);
}

static ef_status step_batch(queue_pass *pass, size_t usual, ef_error *err)
{
    ef_engine *engine = pass->engine;
    bool suspect, alone;
    ef_status st = claim_batch(pass, engine->queue.batch ? engine->queue.batch : usual, err);

    if (st != EF_OK || pass->claimed.count == 0)
        return st;
    suspect = pass->claimed.items[0].suspect;
    alone = suspect && pass->claimed.count == 1 && !pass->claimed.more &&
            !engine->queue.isolates_suspects && !has_failed_lately(engine);
    engine->queue.isolates_suspects =
        suspect && pass->claimed.more; /* the last one of them was not in flight alone */
    pass->tick->claimed += (int64_t)pass->claimed.count;
    pass->tick->more = pass->tick->more || pass->claimed.more || suspect;
    st = alone ? isolate_row(pass, err) : apply_claimed(pass, err);
    record_failure(engine, st);
    if (st == EF_OK)
        adapt_batch_size(engine, usual, pass->apply.set.count, pass->claimed.more && !suspect);
    return st;
}

/* Claims one batch of the queue, folds and acknowledges it. */
static ef_status step_queued_rows(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                  ef_error *err)
{
    queue_pass pass = {.engine = engine,
                       .claimed = EF_CLAIMED_BATCH_INIT,
                       .apply = {.arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)},
                       .tick = tick};
    size_t usual = options->batch ? options->batch : EF__ENGINE_BATCH;
    ef_status st = EF_OK;

    pass.held = ef__membership_leases(&engine->queue.membership, &pass.held_count);
    if (pass.held_count)
        st = step_batch(&pass, usual, err);
    ef__apply_release(&pass.apply);
    ef__claimed_batch_release(&pass.claimed);
    return st;
}

/* --- the driver ------------------------------------------------------------------------------- */

/* A step of the driver. The caller holds its lock. */
static ef_status step_queue(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                            ef_error *err)
{
    ef__membership *membership = &engine->queue.membership;
    ef_status st = ef__membership_step(membership, options, tick, err);

    assert(ef__mutex_is_locked(&engine->queue.lock));
    if (st == EF_OK)
        st = ef__retry_step_due(engine, tick, err);
    if (st == EF_OK)
        st = ef__error_policy_step(engine, tick, err);
    if (st == EF_OK)
        st = step_queued_rows(engine, options, tick, err);
    if (st == EF_OK)
        st = ef__gaps_startup_check(engine, tick, err);
    if (st == EF_OK)
        st = ef__lanes_step(engine, tick, err);
    if (st == EF_LEASE_LOST) { /* another worker holds the partition now: not a failure */
        st = ef__membership_recheck(membership, tick, err);
        tick->more = true;
    }
    ef__arena_reset(&engine->queue.arena);
    return st == EF_LEASE_LOST ? EF_OK : st;
}

ef_status ef__queue_driver_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                ef_error *err)
{
    EF__LOCK(&engine->queue.lock);
    return step_queue(engine, options, tick, err);
}

/* --- idle ------------------------------------------------------------------------------------- */

/*
 *     working ── quiet for IDLE_AFTER_MS, and no row waits ──► idle
 *        ▲────── the journal grows, a row waits, or a task works ──┘
 *
 * Leases and heartbeats are writes, and without work they protect nothing. An idle worker has
 * released its leases and writes its heartbeat, with the state idle, once a minute. It keeps
 * polling the queue, because another worker may crash with rows in flight.
 */

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

ef_status ef__queue_driver_watch(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                 ef_error *err)
{
    ef__queue_driver *driver = &engine->queue;
    bool waits = false;
    ef_head head;
    ef_status st;
    EF__LOCK(&driver->lock);

    st = ef_journal_head(engine->journal, &head, err);
    if (st == EF_OK && is_idle(engine)) {
        st = ef__outbox_has_work(engine->journal, &waits, err);
        if (st == EF_OK && !waits && head.position == driver->idle.head)
            return keep_idle(driver, tick, err);
        if (st != EF_OK)
            return st;
    }
    if (st == EF_OK)
        st = step_queue(engine, options, tick, err);
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
