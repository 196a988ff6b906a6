/*
 * gaps.c - missing events: those that a projection lacks and that no row will bring, and those that
 * the views have and the journal has lost.
 *
 * A gap is filled with rows of the projection's lane; the queue driver applies them through the
 * same apply, under the same leases.
 */
#include "lag.h"
#include "run.h"

#include "../base/logger.h"
#include "../core/watermark.h"
#include "../journal/journal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GAP_BATCH 1000
#define STREAMS_AT_ONCE 250
#define GAPS_MAX 10000
#define CHECK_DELAY_MAX_US                                                                         \
    INT64_C(60000000)    /* the check starts after this, however long the queue */
#define WITNESSES_MAX 64 /* events */

ef_status ef__retry_rows_write(ef_engine *engine, const ef_retry_row *rows, size_t count,
                               ef_error *err)
{
    return ef__outbox_ack(engine->journal, NULL,
                          &(ef__ack_request){.lane = EF_STR(EF_LANE_APPLY),
                                             .retry_rows = rows,
                                             .retry_row_count = count},
                          err);
}

ef_status ef__gap_add_rows(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                           ef_str stream, int64_t upto, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef__watermark watermark;
    ef_retry_row *rows = NULL;
    size_t count = 0;
    ef_status st = ef__watermark_read(engine, generation, tenant, stream, &watermark, err);

    if (st != EF_OK || watermark.applied_seq >= upto)
        return st;
    st = ef_journal_read_stream(engine->journal, tenant, stream, watermark.applied_seq + 1,
                                GAP_BATCH, &batch, err);
    if (st == EF_OK) {
        rows = malloc((batch.count + 1) * sizeof *rows);
        st =
            rows ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out while adding rows for a gap");
    }
    for (size_t i = 0; st == EF_OK && i < batch.count && batch.events[i].seq <= upto; i++)
        rows[count++] = (ef_retry_row){.lane = generation->name,
                                       .position = batch.events[i].position,
                                       .status = EF_ROW_PENDING};
    if (st == EF_OK)
        st = ef__retry_rows_write(engine, rows, count, err);
    free(rows);
    return st;
}

/* --- one stream ------------------------------------------------------------------------------- */

/* Will the queue or the projection's lane bring the event of that seq? */
static ef_status is_coming(ef_engine *engine, ef_str lane, const ef_stream *stream, int64_t seq,
                           bool *out, ef_error *err)
{
    int64_t position;
    ef_row row = {0};
    ef_status st = ef__stream_position(engine, stream->tenant, stream->name, seq, &position, err);

    if (st == EF_OK && position)
        st = ef__lane_first_row(engine, EF_STR(EF_LANE_APPLY), position, &row, err);
    if (st == EF_OK && row.position != position)
        st = ef__lane_first_row(engine, lane, position, &row, err);
    *out = st == EF_OK && position && row.position == position;
    return st;
}

/*
 * Rows are removed after the views have changed. So an event that has no row now, and that the
 * watermark, read after that, does not cover, is a gap.
 */
static ef_status find_gap(ef_engine *engine, const ef__generation *generation,
                          const ef_stream *stream, ef__gap *out, int64_t *out_applied_seq,
                          ef_error *err)
{
    ef__watermark before, after = {0};
    bool coming = false;
    ef_status st =
        ef__watermark_read(engine, generation, stream->tenant, stream->name, &before, err);

    *out = (ef__gap){EF__GAP_NONE, 0, 0};
    if (st != EF_OK || before.applied_seq == stream->seq)
        return st;
    if (before.applied_seq < stream->seq)
        st = is_coming(engine, generation->name, stream, before.applied_seq + 1, &coming, err);
    if (st == EF_OK && !coming)
        st = ef__watermark_read(engine, generation, stream->tenant, stream->name, &after, err);
    if (st != EF_OK || coming ||
        (before.applied_seq < stream->seq && after.applied_seq != before.applied_seq))
        return st;
    int64_t head = stream->seq, position;
    if (after.applied_seq > head) /* the stream may have grown since the list was read */
        st = ef_stream_head(engine->journal, stream->tenant, stream->name, &head, &position, err);
    *out_applied_seq = after.applied_seq;
    if (st == EF_OK)
        *out = ef__gap_find(after.applied_seq, head, after.applied_seq == head);
    return st;
}

/* --- all streams ------------------------------------------------------------------------------ */

typedef ef_status each_gap(void *context, const ef__generation *g, const ef_stream *stream,
                           const ef__gap *gap, int64_t applied_seq, ef_error *err);

/* A page of streams, for the live generation `only`, or for all of them if it is 0. */
static ef_status check_page(ef_engine *engine, int64_t only, char after[EF_CURSOR_MAX],
                            each_gap *each, void *context, ef_error *err)
{
    EF__AUTO(ef_stream_list) streams = {0};
    EF__AUTO(ef__live_set) set = {0};
    ef_status st = ef__live_set_read(engine, &(ef__live_choice){.by_queue = true}, &set, err);

    if (st == EF_OK && set.count) /* otherwise there is no gap */
        st = ef_stream_ls(engine->journal, (ef_str){0}, true, ef_str_from(after), STREAMS_AT_ONCE,
                          &streams, err);
    for (size_t i = 0; st == EF_OK && i < streams.count; i++)
        for (size_t g = 0; st == EF_OK && g < set.count; g++) {
            int64_t applied_seq = 0;
            ef__gap gap;
            if (!set.items[g].keeps_rows || (only && set.items[g].generation->id != only))
                continue;
            st = find_gap(engine, set.items[g].generation, &streams.items[i], &gap, &applied_seq,
                          err);
            if (st == EF_OK && gap.kind != EF__GAP_NONE)
                st = each(context, set.items[g].generation, &streams.items[i], &gap, applied_seq,
                          err);
        }
    if (st == EF_OK)
        memcpy(after, streams.next, EF_CURSOR_MAX);
    return st;
}

/* --- adding rows ------------------------------------------------------------------------------ */

static ef_status add_rows_of_gap(void *context, const ef__generation *generation,
                                 const ef_stream *stream, const ef__gap *gap, int64_t applied_seq,
                                 ef_error *err)
{
    ef_engine *engine = context;

    ef__log(engine->options.log, EF_LOG_WARN,
            gap->kind == EF__GAP_AHEAD ? "projection is ahead of the journal"
                                       : "gap found, retry rows added",
            EF_LOG_TEXT_FIELD("projection", generation->name),
            EF_LOG_TEXT_FIELD("stream", stream->name),
            EF_LOG_NUMBER_FIELD("applied_seq", applied_seq),
            EF_LOG_NUMBER_FIELD("journal_seq", stream->seq));
    return gap->kind == EF__GAP_AHEAD ? EF_OK
                                      : ef__gap_add_rows(engine, generation, stream->tenant,
                                                         stream->name, gap->to_seq, err);
}

/* Do the counts of a generation add up? Then it has no gap, and no stream is checked. */
static ef_status counts_add_up(ef_engine *engine, const ef__generation *generation, bool *out,
                               ef_error *err)
{
    ef__lag lag;
    ef_head head;
    int64_t queued = 0;
    ef_status st = ef_journal_head(engine->journal, &head, err);

    if (st == EF_OK)
        st = ef__lag_queued(engine, &queued, err);
    if (st == EF_OK)
        st = ef__lag_read(engine, generation, NULL, true, &lag, err);
    *out = st == EF_OK && ef__lag_unaccounted(generation, &lag, head.position, queued) == 0;
    return st;
}

/* Checks one page of streams of a generation. *out_done: that was the last page. */
static ef_status step_pass(ef_engine *engine, ef__gap_pass *pass, const ef__generation *generation,
                           bool *out_done, ef_error *err)
{
    bool is_complete = generation->by_log;
    ef_status st = EF_OK;

    if (!is_complete && pass->generation != generation->id) {
        *pass = (ef__gap_pass){.generation = generation->id};
        st = counts_add_up(engine, generation, &is_complete, err);
    }
    if (st == EF_OK && !is_complete)
        st = check_page(engine, generation->id, pass->after, add_rows_of_gap, engine, err);
    *out_done = st == EF_OK && !pass->after[0];
    return st;
}

ef_status ef__gaps_add_rows(ef_engine *engine, const ef__generation *generation, bool *out_done,
                            ef_error *err)
{
    ef_status st;

    assert(ef__mutex_is_locked(&engine->runs.lock));
    st = step_pass(engine, &engine->runs.gap_pass, generation, out_done, err);
    if (*out_done)
        engine->runs.gap_pass = (ef__gap_pass){0};
    return st;
}

bool ef__gaps_check_is_pending(const ef_engine *engine)
{
    return !engine->queue.gaps.is_done && ef__membership_is_first(&engine->queue.membership);
}

/* A queue may stay long for ever. */
static bool has_waited(ef_engine *engine)
{
    int64_t now_us = ef__engine_mono_us(engine);

    if (!engine->queue.gaps.since_us)
        engine->queue.gaps.since_us = now_us;
    return now_us - engine->queue.gaps.since_us >= CHECK_DELAY_MAX_US;
}

/* Continues with the pass's generation, or the next one. *out_more: there is more to check. */
static ef_status check_next(ef_engine *engine, bool *out_more, ef_error *err)
{
    ef__gap_pass *pass = &engine->queue.gaps.pass;
    int64_t from = pass->generation + !pass->after[0];
    EF__AUTO(ef__live_set) set = {0};
    const ef__generation *next = NULL;
    bool done = true;
    size_t left = 0;
    ef_status st = ef__live_set_read(engine, &(ef__live_choice){.by_queue = true}, &set, err);

    for (size_t i = 0; st == EF_OK && i < set.count; i++) {
        const ef__generation *generation = set.items[i].generation;
        if (!set.items[i].keeps_rows || generation->id < from)
            continue;
        left++;
        if (!next || generation->id < next->id)
            next = generation;
    }
    if (next)
        st = step_pass(engine, pass, next, &done, err);
    *out_more = left > 1 || !done;
    return st;
}

/* One step per tick: between ticks leases are renewed and a stop is noticed. */
ef_status ef__gaps_startup_check(ef_engine *engine, ef_tick *tick, ef_error *err)
{
    bool more = false;
    ef_status st;

    assert(ef__mutex_is_locked(&engine->queue.lock));
    if (!ef__gaps_check_is_pending(engine) || (tick->more && !has_waited(engine)))
        return EF_OK;
    st = check_next(engine, &more, err);
    engine->queue.gaps.is_done = st == EF_OK && !more;
    tick->more = true; /* the next page or generation, or the rows that were added */
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

typedef struct gap_collection {
    ef_gap_list *out;
    ef_gap *items;
} gap_collection;

static ef_status add_gap(void *context, const ef__generation *generation, const ef_stream *stream,
                         const ef__gap *gap, int64_t applied_seq, ef_error *err)
{
    gap_collection *all = context;
    ef_gap *to = &all->items[all->out->count];
    ef_status st;

    if (all->out->count == GAPS_MAX) {
        all->out->more = true;
        return EF_OK;
    }
    *to = (ef_gap){.tenant = stream->tenant,
                   .projection = generation->name,
                   .stream = stream->name,
                   .generation = generation->number,
                   .applied_seq = applied_seq,
                   .expected_next_seq = applied_seq + 1,
                   .journal_seq = gap->kind == EF__GAP_AHEAD ? gap->from_seq - 1 : gap->to_seq};
    st =
        ef__arena_own(&all->out->room->arena, err, &to->tenant, &to->projection, &to->stream, NULL);
    all->out->count += st == EF_OK;
    return st;
}

static ef_status find_gaps(ef_engine *engine, ef_gap_list *out, ef_error *err)
{
    gap_collection all = {.out = out};
    char after[EF_CURSOR_MAX] = "";
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    out->more = false;
    st = ef__list_prepare(out, err);
    if (st != EF_OK)
        return st;
    out->items = all.items = ef__arena_zalloc(&out->room->arena, GAPS_MAX + 1, sizeof *all.items);
    if (!all.items)
        return ef__no_memory(err);
    do
        st = check_page(engine, 0, after, add_gap, &all, err);
    while (st == EF_OK && after[0]);
    return st;
}

/* --- repairing -------------------------------------------------------------------------------- */

/* Checks how much of a gap is closed, adds rows for the rest. *out_left: their number. */
static ef_status repair_gap(ef_engine *engine, const ef__live_set *set, ef_gap *gap,
                            int64_t *out_left, ef_error *err)
{
    const ef__generation *generation = NULL;
    ef__watermark watermark;
    ef_status st;

    for (size_t i = 0; i < set->count; i++)
        if (ef_str_equal(set->items[i].generation->name, gap->projection) &&
            set->items[i].generation->number == gap->generation)
            generation = set->items[i].generation;
    if (!generation || gap->applied_seq >= gap->journal_seq)
        return EF_OK;
    st = ef__watermark_read(engine, generation, gap->tenant, gap->stream, &watermark, err);
    if (st != EF_OK)
        return st;
    gap->replayed = watermark.applied_seq - gap->applied_seq;
    if (watermark.applied_seq >= gap->journal_seq)
        return EF_OK;
    *out_left += gap->journal_seq - watermark.applied_seq;
    return ef__gap_add_rows(engine, generation, gap->tenant, gap->stream, gap->journal_seq, err);
}

static ef_status repair_pass(ef_engine *engine, const ef_gap_list *gaps, int64_t *out_left,
                             ef_error *err)
{
    ef_gap *items = (ef_gap *)gaps->items; /* in the arena of the list */
    EF__AUTO(ef__live_set) set = {0};
    ef_status st = ef__live_set_read(engine, &(ef__live_choice){.by_queue = true}, &set, err);

    *out_left = 0;
    for (size_t i = 0; st == EF_OK && i < gaps->count; i++)
        st = repair_gap(engine, &set, &items[i], out_left, err);
    return st;
}

ef_status ef_gap_ls(ef_engine *engine, bool repair, ef_gap_list *out, ef_error *err)
{
    int64_t left = 0, before = INT64_MAX;
    ef_status st = find_gaps(engine, out, err);

    if (st != EF_OK || !repair)
        return st;
    if (engine->options.read_only)
        st = ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    if (st == EF_OK)
        st = repair_pass(engine, out, &left, err);
    while (st == EF_OK && left > 0 && left < before) {
        ef_tick tick = {.more = true};
        before = left;
        while (st == EF_OK && tick.more) {
            tick = (ef_tick){0};
            st = ef__queue_driver_step(engine, &(ef_work_options){0}, &tick, err);
        }
        if (st == EF_OK)
            st = repair_pass(engine, out, &left, err);
    }
    return st;
}

/* --- lost by the journal ------------------------------------------------------------------------
 *
 * After a disk that lost writes, a restored backup or a fail-over that lost the last transactions,
 * the views are ahead of the journal, and new events get seqs and positions that the views have
 * applied already. The hash of an event covers all events before it in the journal. So if the
 * journal has the event at a watermark (same hash), it has everything before it too; if not, events
 * at or below the watermark are not the ones that were applied and must not be dropped as
 * duplicates.
 */

ef_status ef__journal_loss_check(ef_engine *engine, const ef__watermark *watermark,
                                 const ef_event *event, bool *out_present, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    const ef_event *at = event;
    ef_status st = EF_OK;

    if (event->seq != watermark->applied_seq) {
        st = ef_journal_read_stream(engine->journal, event->tenant, event->stream,
                                    watermark->applied_seq, 1, &batch, err);
        at = st == EF_OK && batch.count ? &batch.events[0] : NULL;
    }
    if (at && at->seq != watermark->applied_seq)
        at = NULL;
    /* A deleted message is not lost: its place is not given to another one. */
    *out_present = at ? memcmp(at->hash, watermark->hash, sizeof watermark->hash) == 0
                      : ef__journal_is_sparse(engine->journal);
    return st;
}

typedef enum witness {
    WITNESS_NONE, /* the generation has not applied this event, so it proves nothing */
    WITNESS_THERE,
    WITNESS_LOST
} witness;

/* Compares an event at or below the cursor with the watermark of its stream. */
static ef_status read_witness(ef_engine *engine, const ef__generation *generation,
                              const ef_event *event, witness *out, ef_error *err)
{
    ef__tenant_cursor_item own;
    ef__watermark watermark;
    bool yes;
    ef_status st =
        ef__watermark_read(engine, generation, event->tenant, event->stream, &watermark, err);

    *out = WITNESS_NONE;
    if (st == EF_OK && watermark.applied_seq >= event->seq) {
        st = ef__journal_loss_check(engine, &watermark, event, &yes, err);
        *out = yes ? WITNESS_THERE : WITNESS_LOST;
    } else if (st == EF_OK && generation->by_log) {
        st = ef__tenant_cursor_read(engine, generation, event->tenant, &own, &yes, err);
        *out = yes ? WITNESS_NONE : WITNESS_LOST;
    }
    return st;
}

/* One event at a time: nearly always the first one decides. */
ef_status ef__journal_loss_check_cursor(ef_engine *engine, const ef__generation *generation,
                                        bool *out_present, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_head head;
    ef_status st = ef_journal_head(engine->journal, &head, err);
    witness proof =
        st == EF_OK && head.position < generation->position ? WITNESS_LOST : WITNESS_NONE;

    for (int64_t p = generation->position;
         st == EF_OK && proof == WITNESS_NONE && p > 0 && p > generation->position - WITNESSES_MAX;
         p--) {
        ef_log_query query = {.any_tenant = true, .after = p - 1, .limit = 1};
        st = ef_journal_read_log(engine->journal, &query, &batch, err);
        if (st == EF_OK && batch.count && batch.events[0].position == p)
            st = read_witness(engine, generation, &batch.events[0], &proof, err);
    }
    *out_present = proof != WITNESS_LOST;
    return st;
}

ef_status ef__journal_loss_stop(ef_engine *engine, const ef__generation *generation, ef_error *err)
{
    ef_error alarm = EF_ERROR_INIT;
    ef__failure failure = {.generation = generation->id,
                           .position = generation->position,
                           .code = EF_STR("journal_lost"),
                           .attempts = 1,
                           .open = true,
                           .recorded_us = ef__engine_now(engine)};
    ef_status st;

    (void)ef_fail(&alarm, EF_DAMAGED,
                  "projection \"%.*s\" has read position %" PRId64
                  ", and the journal has lost events before it: rebuild the projection",
                  EF_STR_ARG(generation->name), generation->position);
    ef__log(engine->options.log, EF_LOG_ERROR, "projection is ahead of the journal",
            EF_LOG_TEXT_FIELD("error", ef_str_from(alarm.text)));
    failure.message = ef_str_from(alarm.text);
    st = ef__generation_commit(
        engine, generation, (ef__generation_change){.failures = &failure, .failure_count = 1}, err);
    return st == EF_OK ? ef__generation_set_state(engine, generation, EF__GENERATION_FAILED, err)
                       : st;
}
