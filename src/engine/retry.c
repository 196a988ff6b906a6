/*
 * retry.c - the due retry rows of the queue driver: see queue.h.
 *
 * The rows of projections' lanes are tried lane by lane: the first due row of each stream, and the
 * rows blocked behind it. Every attempt is counted before it is made, and the row is flagged
 * (`trying`), so that an attempt that crashes the process counts and is recognised; an outage of
 * the view store takes the count back. A row whose attempt did not end is tried alone.
 *
 *     pending | failed -> trying -> done | failed | dead | pending (an earlier event is missing)
 *
 * A row is removed when every generation of its projection that keeps rows has the event (queue.h).
 * An operator's skip holds for the versions recorded with it (apply.h); other versions try the
 * event. A version that skips the event does not run its program, so the skip is carried out even
 * if the event crashes processes, before the row becomes dead.
 */
#include "queue.h"
#include "apply.h"

#include "../base/logger.h"
#include "../core/retry.h"

#include <assert.h>
#include <inttypes.h>

#define DUE_MAX 1000 /* rows per claim */
#define RECHECK_US 5000000
#define POSTPONE_US 30000000 /* delay of rows whose projection is not in this view store */

/* Rows of one lane that are tried together. */
typedef struct retry_attempt {
    ef_engine *engine;
    const ef_partition_lease *held;
    size_t held_count;
    const ef_claimed_row *items;
    size_t count;
    ef__live *generations; /* of the lane's projection: live, or catching up */
    size_t generation_count;
    const ef__generation **stopped; /* paused or failed: rows are kept for them */
    size_t stopped_count;
    ef_retry_row *retry_rows; /* space for one per item */
    ef_tick *tick;
} retry_attempt;

static ef_status write_rows(const retry_attempt *attempt, const ef_retry_row *rows, size_t count,
                            ef_error *err)
{
    if (count == 0)
        return EF_OK;
    return ef__outbox_ack(attempt->engine->journal, NULL,
                          &(ef__ack_request){.lane = attempt->items[0].lane,
                                             .held = attempt->held,
                                             .held_count = attempt->held_count,
                                             .retry_rows = rows,
                                             .retry_row_count = count},
                          err);
}

/* The row as it was claimed; it has failed before if attempts were counted. */
static ef_retry_row row_as_claimed(const ef_claimed_row *item)
{
    return (ef_retry_row){.lane = item->lane,
                          .position = item->event->position,
                          .status = item->attempts ? EF_ROW_FAILED : EF_ROW_PENDING,
                          .attempts = item->attempts,
                          .error = item->interrupted ? EF_STR(EF__CRASH_TEXT) : item->error};
}

static ef__retry_step next_failure(const retry_attempt *attempt, int32_t failures_before,
                                   ef__error_class kind)
{
    return ef__retry_decide(&attempt->engine->retry.apply, failures_before, kind,
                            (uint64_t)ef__engine_now(attempt->engine));
}

/* --- counting the attempt --------------------------------------------------------------------- */

/* Writes the first row of each stream with the next failure of this kind: counted and flagged
 * before the attempt (PERMANENT), taken back because the event was not to blame (STORE, LOST), or
 * only due later, after `postpone_us`. Rows that follow another one stay as they are. */
static ef_status write_first_rows(const retry_attempt *attempt, ef__error_class kind,
                                  int64_t postpone_us, size_t *out_count, ef_error *err)
{
    int64_t now_us = ef__engine_now(attempt->engine);

    *out_count = 0;
    for (size_t i = 0; i < attempt->count; i++) {
        const ef_claimed_row *item = &attempt->items[i];
        ef__retry_step step = next_failure(attempt, item->attempts, kind);
        ef_retry_row *row = &attempt->retry_rows[*out_count];
        if (item->follows)
            continue;
        *row = row_as_claimed(item);
        row->attempts = (int32_t)step.attempts;
        row->due_us = now_us + (postpone_us ? postpone_us : step.delay_ms * 1000);
        row->trying = postpone_us ? item->interrupted : kind == EF__ERROR_PERMANENT;
        row->skip = postpone_us && item->skip;
        ++*out_count;
    }
    return write_rows(attempt, attempt->retry_rows, *out_count, err);
}

/* --- trying ----------------------------------------------------------------------------------- */

/* Does a stopped generation from `first` on lack the event? Once resumed it needs the row. */
static ef_status stopped_lacks(const retry_attempt *attempt, size_t first, const ef_event *event,
                               bool *out, ef_error *err)
{
    ef_status st = EF_OK;

    *out = false;
    for (size_t g = first; st == EF_OK && !*out && g < attempt->stopped_count; g++)
        st = ef__generation_lacks(attempt->engine, attempt->stopped[g], event->tenant,
                                  event->stream, event->seq, out, err);
    return st;
}

static void report_dead_row(const retry_attempt *attempt, const ef_claimed_row *item,
                            const ef_retry_row *row)
{
    attempt->tick->dead++;
    attempt->engine->queue.policy_next_us = 0;
    attempt->tick->more = true; /* the error policy may skip it */
    ef__log(attempt->engine->options.log, EF_LOG_WARN, "row is dead",
            EF_LOG_TEXT_FIELD("projection", item->lane),
            EF_LOG_TEXT_FIELD("tenant", item->event->tenant),
            EF_LOG_TEXT_FIELD("stream", item->event->stream),
            EF_LOG_NUMBER_FIELD("seq", item->event->seq),
            EF_LOG_NUMBER_FIELD("attempts", row->attempts), EF_LOG_TEXT_FIELD("error", row->error));
}

/* The row after an attempt; false: it is not written. */
static bool row_after(const retry_attempt *attempt, const ef_claimed_row *item,
                      const ef__apply_result *result, bool is_kept, ef_retry_row *out)
{
    if (!result && !is_kept) {
        *out = (ef_retry_row){.lane = item->lane,
                              .position = item->event->position,
                              .status = EF_ROW_DONE,
                              .filed = item->filed,
                              .skip = item->skip};
        attempt->tick->more = true; /* the next row of the stream may be due now */
        return true;
    }
    if (item->follows)
        return false; /* it stays blocked behind the one before it */
    if (result && result->verdict == EF__VERDICT_FAILED) {
        *out = ef__retry_row_make(attempt->engine, item->lane, item->event->position, result,
                                  item->attempts);
        out->skip = item->skip;
        if (out->status == EF_ROW_DEAD)
            report_dead_row(attempt, item, out);
        return true;
    }
    /* An earlier event is missing and gets a row, or a stopped generation needs the row later. */
    *out = row_as_claimed(item);
    out->due_us = ef__engine_now(attempt->engine) + RECHECK_US;
    out->skip = item->skip && result;
    if (result) {
        out->status = EF_ROW_PENDING;
        out->error = result->message;
    }
    return true;
}

/* Adds rows for earlier events that a live generation lacks. One that catches up reads them. */
static ef_status add_gap_rows(const retry_attempt *attempt, const ef__apply *apply, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < attempt->count; i++)
        for (size_t g = 0;
             st == EF_OK && !attempt->items[i].follows && g < attempt->generation_count; g++)
            if (apply->results[g * attempt->count + i].verdict == EF__VERDICT_DEFERRED &&
                attempt->generations[g].generation->state == EF__GENERATION_LIVE)
                st = ef__gap_add_rows(attempt->engine, attempt->generations[g].generation,
                                      attempt->items[i].event->tenant,
                                      attempt->items[i].event->stream,
                                      attempt->items[i].event->seq - 1, err);
    return st;
}

static ef_status write_results(const retry_attempt *attempt, const ef__apply *apply, ef_error *err)
{
    size_t count = 0;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < attempt->count; i++) {
        bool is_kept = false;
        st = stopped_lacks(attempt, 0, attempt->items[i].event, &is_kept, err);
        if (st == EF_OK)
            count += row_after(attempt, &attempt->items[i],
                               ef__apply_waiting(apply, 0, apply->generation_count, i), is_kept,
                               &attempt->retry_rows[count]);
    }
    if (st == EF_OK)
        st = write_rows(attempt, attempt->retry_rows, count, err);
    if (st == EF_OK)
        ef__count_retry_rows(attempt->engine, attempt->retry_rows, count);
    return st == EF_OK ? add_gap_rows(attempt, apply, err) : st;
}

static ef_status try_items(const retry_attempt *attempt, ef_error *err)
{
    EF__AUTO(ef__apply)
    apply = {.generations = attempt->generations,
             .generation_count = attempt->generation_count,
             .reads_skips = true,
             .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    size_t rows;
    ef_status st = ef__apply_set_rows(attempt->engine, attempt->held, attempt->held_count,
                                      attempt->items, attempt->count, &apply, err);

    if (st == EF_OK && attempt->generation_count)
        st = write_first_rows(attempt, EF__ERROR_PERMANENT, 0, &rows, err);
    if (st == EF_OK) {
        st = ef__apply_run(attempt->engine, &apply, err);
        if (st != EF_OK) {
            (void)write_first_rows(attempt, st == EF_LEASE_LOST ? EF__ERROR_LOST : EF__ERROR_STORE,
                                   0, &rows, NULL);
            ef__count_store_retry(attempt->engine, st);
        }
    }
    if (st == EF_OK) {
        attempt->tick->claimed += (int64_t)attempt->count;
        ef__tick_add(attempt->tick, &apply);
        st = write_results(attempt, &apply, err);
    }
    return st;
}

/* --- lane by lane ----------------------------------------------------------------------------- */

/* The generations of the items' lane that rows are kept for. False: its projection has none. */
static bool choose_generations(retry_attempt *attempt, const ef__live_set *set)
{
    bool found = false;

    attempt->generation_count = attempt->stopped_count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const ef__generation *generation = set->items[i].generation;
        if (!ef_str_equal(generation->name, attempt->items[0].lane))
            continue;
        found = true;
        if (!set->items[i].keeps_rows)
            continue;
        if (generation->state == EF__GENERATION_LIVE ||
            generation->state == EF__GENERATION_CATCHING_UP)
            attempt->generations[attempt->generation_count++] = set->items[i];
        else
            attempt->stopped[attempt->stopped_count++] = generation;
    }
    return found;
}

/* The number of items from `first` on that are tried together: those of one lane, or one alone. */
static size_t group_size(const ef_claimed_batch *claimed, size_t first)
{
    size_t end = first + 1;

    if (claimed->items[first].interrupted)
        return 1;
    while (end < claimed->count &&
           ef_str_equal(claimed->items[end].lane, claimed->items[first].lane) &&
           !claimed->items[end].interrupted)
        end++;
    return end - first;
}

/* Was the attempt that did not end the last one? */
static bool was_last_attempt(const retry_attempt *attempt)
{
    const ef_claimed_row *item = &attempt->items[0];

    return item->interrupted && item->attempts > 0 &&
           next_failure(attempt, item->attempts - 1, EF__ERROR_PERMANENT).dead;
}

/* The event crashes every process that applies it: the row is dead. */
static ef_status kill_row(const retry_attempt *attempt, ef_error *err)
{
    ef_retry_row row = row_as_claimed(&attempt->items[0]);
    ef_status st;

    row.status = EF_ROW_DEAD;
    row.skip = attempt->items[0].skip;
    st = write_rows(attempt, &row, 1, err);
    if (st == EF_OK) {
        ef__count_retry_rows(attempt->engine, &row, 1);
        report_dead_row(attempt, &attempt->items[0], &row);
    }
    return st;
}

/* Keeps only generations whose version skips the event; the others count as stopped. */
static ef_status choose_skipping(retry_attempt *attempt, ef_error *err)
{
    size_t count = 0;
    ef_status st = EF_OK;

    for (size_t g = 0; st == EF_OK && g < attempt->generation_count; g++) {
        ef__live one = attempt->generations[g];
        ef__skips *skips = NULL;
        st = ef__skips_read(attempt->engine, one.generation, &skips, err);
        if (st == EF_OK && ef__skips_has(attempt->engine, skips, attempt->items[0].event))
            attempt->generations[count++] = one;
        else
            attempt->stopped[attempt->stopped_count++] = one.generation;
    }
    attempt->generation_count = count;
    return st;
}

/* The attempt that did not end was the last one. Versions for which the event is skipped skip it
 * now. The row becomes dead if another version still lacks the event. */
static ef_status end_attempts(retry_attempt *attempt, ef_error *err)
{
    const ef_event *event = attempt->items[0].event;
    size_t others = attempt->stopped_count;
    bool is_lacking = true, is_passed = true;
    ef_status st = choose_skipping(attempt, err);

    if (st == EF_OK && attempt->generation_count) {
        st = try_items(attempt, err);
        if (st == EF_OK)
            st = stopped_lacks(attempt, others, event, &is_lacking, err);
    }
    for (size_t g = 0; st == EF_OK && is_passed && g < attempt->generation_count; g++) {
        bool lacks = false;
        st = ef__generation_lacks(attempt->engine, attempt->generations[g].generation,
                                  event->tenant, event->stream, event->seq, &lacks, err);
        is_passed = !lacks;
    }
    return st == EF_OK && is_lacking && is_passed ? kill_row(attempt, err) : st;
}

/* The projection is not in this view store: it belongs to another one, or the store is empty. The
 * rows stay for a worker that has the projection; their due time is moved, so that other rows get
 * their turn. */
static ef_status postpone_rows(const retry_attempt *attempt, ef_error *err)
{
    size_t count = 0;
    ef_status st = write_first_rows(attempt, EF__ERROR_LOST, POSTPONE_US, &count, err);

    ef__log(attempt->engine->options.log, EF_LOG_WARN,
            "retry rows postponed: projection is not in the view store",
            EF_LOG_TEXT_FIELD("projection", attempt->items[0].lane),
            EF_LOG_NUMBER_FIELD("rows", (int64_t)count));
    return st;
}

static ef_status try_lane(retry_attempt *attempt, const ef__live_set *set, ef_error *err)
{
    if (!choose_generations(attempt, set))
        return postpone_rows(attempt, err);
    return was_last_attempt(attempt) && attempt->generation_count ? end_attempts(attempt, err)
                                                                  : try_items(attempt, err);
}

static ef_status try_lanes(retry_attempt *attempt, const ef_claimed_batch *claimed,
                           const ef__live_set *set, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t first = 0; st == EF_OK && first < claimed->count; first += attempt->count) {
        attempt->items = &claimed->items[first];
        attempt->count = group_size(claimed, first);
        st = try_lane(attempt, set, err);
        if (st == EF_CONFLICT) { /* a concurrent change: claimed back, and tried again */
            attempt->tick->more = true;
            st = EF_OK;
        }
        /* Rows blocked behind one that was tried alone are tried at the next step. */
        if (attempt->items[0].interrupted)
            while (first + attempt->count < claimed->count &&
                   attempt->items[attempt->count].follows)
                attempt->count++;
    }
    return st;
}

ef_status ef__retry_step_due(ef_engine *engine, ef_tick *tick, ef_error *err)
{
    EF__AUTO(ef_claimed_batch) claimed = EF_CLAIMED_BATCH_INIT;
    EF__AUTO(ef__live_set) set = {0};
    retry_attempt attempt = {.engine = engine, .tick = tick};
    ef__arena *arena = &engine->queue.arena;
    ef_status st = EF_OK;

    assert(ef__mutex_is_locked(&engine->queue.lock));
    attempt.held = ef__membership_leases(&engine->queue.membership, &attempt.held_count);
    if (attempt.held_count)
        st = ef__outbox_claim(engine->journal,
                              &(ef__claim_request){.due = true,
                                                   .held = attempt.held,
                                                   .held_count = attempt.held_count,
                                                   .limit = DUE_MAX},
                              &claimed, err);
    tick->due_us = claimed.next_due_us;
    if (st == EF_OK && claimed.count)
        st = ef__live_set_read(engine, &(ef__live_choice){0}, &set, err);
    if (st == EF_OK && claimed.count) {
        attempt.generations = ef__arena_alloc(arena, set.count * sizeof *attempt.generations);
        attempt.stopped = ef__arena_alloc(arena, set.count * sizeof *attempt.stopped);
        attempt.retry_rows = ef__arena_alloc(arena, claimed.count * sizeof *attempt.retry_rows);
        st = attempt.generations && attempt.stopped && attempt.retry_rows
                 ? try_lanes(&attempt, &claimed, &set, err)
                 : ef_fail(err, EF_NO_MEMORY, "memory ran out in the queue driver");
    }
    return st;
}
