/*
 * gaps.c - events that a projection lacks and nothing will bring it.
 *
 * A gap is filed as rows of the projection's own lane, and the queue driver does the rest: through
 * the same apply, under the same leases.
 */
#include "lag.h"
#include "run.h"

#include "../base/logger.h"
#include "../core/watermark.h"

#include <stdlib.h>

#define GAP_BATCH 1000
#define STREAMS_AT_ONCE 250
#define GAPS_MAX 10000
#define LOOK_AT_LAST_US INT64_C(60000000) /* after the start of work, however long the queue is */

ef_status ef__gap_file(ef_engine *e, const ef__generation *g, const ef_event *event, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef__watermark mark = {0};
    ef_exception *rows = NULL;
    size_t count = 0;
    bool found;
    ef_status st = e->views->ops->watermark_get(e->views, g->id, event->tenant, event->stream,
                                                &mark, &found, err);

    if (st != EF_OK || mark.applied_seq + 1 >= event->seq)
        return st;
    st = ef_journal_read_stream(e->journal, event->tenant, event->stream, mark.applied_seq + 1,
                                GAP_BATCH, &batch, err);
    if (st == EF_OK) {
        rows = malloc((batch.count + 1) * sizeof *rows);
        st = rows ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out while filing a gap");
    }
    for (size_t i = 0; st == EF_OK && i < batch.count && batch.events[i].seq < event->seq; i++)
        rows[count++] = (ef_exception){
            .lane = g->name, .position = batch.events[i].position, .status = EF_ROW_PENDING};
    if (st == EF_OK)
        st = ef_outbox_file(e->journal, rows, count, err);
    free(rows);
    ef_batch_release(&batch);
    return st;
}

/* --- one stream ------------------------------------------------------------------------------- */

/* Does a lane still have the event at `position`? A lane that was never made has none. */
static ef_status is_waiting(ef_engine *e, ef_str lane, int64_t position, bool *out, ef_error *err)
{
    ef_row_list rows = {0};
    ef_status st = ef_outbox_ls(
        e->journal,
        &(ef_outbox_query){.lane = lane, .any_tenant = true, .limit = 1, .from = position}, &rows,
        err);

    *out = st == EF_OK && rows.count && rows.items[0].position == position;
    ef_row_list_release(&rows);
    return st == EF_NOT_FOUND ? EF_OK : st;
}

/* Will the queue or the own lane bring the event of that seq? */
static ef_status is_coming(ef_engine *e, ef_str lane, const ef_stream *stream, int64_t seq,
                           bool *out, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st =
        ef_journal_read_stream(e->journal, stream->tenant, stream->name, seq, 1, &batch, err);

    *out = false;
    if (st == EF_OK && batch.count)
        st = is_waiting(e, EF_STR(EF_LANE_APPLY), batch.events[0].position, out, err);
    if (st == EF_OK && batch.count && !*out)
        st = is_waiting(e, lane, batch.events[0].position, out, err);
    ef_batch_release(&batch);
    return st;
}

/*
 * Rows go after the views have changed. So an event that has no row now, and that the watermark has
 * not passed when it is read after that, is one that nothing will bring.
 */
static ef_status look_at(ef_engine *e, const ef__generation *g, const ef_stream *stream,
                         ef__gap *out, ef__stream_mark *out_mark, ef_error *err)
{
    ef__watermark before = {.expected_next_seq = 1}, after = {.expected_next_seq = 1};
    bool found, coming = false;
    ef_status st = e->views->ops->watermark_get(e->views, g->id, stream->tenant, stream->name,
                                                &before, &found, err);

    *out = (ef__gap){EF__GAP_NONE, 0, 0};
    if (st != EF_OK || before.applied_seq == stream->seq)
        return st;
    if (before.applied_seq < stream->seq)
        st = is_coming(e, g->name, stream, before.applied_seq + 1, &coming, err);
    if (st == EF_OK && !coming)
        st = e->views->ops->watermark_get(e->views, g->id, stream->tenant, stream->name, &after,
                                          &found, err);
    if (st != EF_OK || coming ||
        (before.applied_seq < stream->seq && after.applied_seq != before.applied_seq))
        return st;
    int64_t head = stream->seq, position;
    if (after.applied_seq > head) /* it may have grown since the list was read */
        st = ef_stream_head(e->journal, stream->tenant, stream->name, &head, &position, err);
    *out_mark = (ef__stream_mark){after.applied_seq, after.applied_seq + 1};
    if (st == EF_OK)
        *out = ef__gap_find(out_mark, head, after.applied_seq == head);
    return st;
}

/* --- all streams ------------------------------------------------------------------------------ */

typedef ef_status each_gap(void *context, const ef__generation *g, const ef_stream *stream,
                           const ef__gap *gap, ef__stream_mark mark, ef_error *err);

/* A page of streams, for the live generation `only`, or for all of them when it is 0. */
static ef_status look_at_page(ef_engine *e, int64_t only, char after[EF_CURSOR_MAX], each_gap *each,
                              void *context, ef_error *err)
{
    ef_stream_list streams = {0};
    ef__live_set set = {0};
    ef_status st = ef__live_set_read(e, true, &set, err);

    if (st == EF_OK && set.count) /* else nobody can lack anything */
        st = ef_stream_ls(e->journal, (ef_str){0}, true, ef_str_from(after), STREAMS_AT_ONCE,
                          &streams, err);
    for (size_t i = 0; st == EF_OK && i < streams.count; i++)
        for (size_t g = 0; st == EF_OK && g < set.count; g++) {
            ef__stream_mark mark;
            ef__gap gap;
            if (!set.items[g].keeps_rows || (only && set.items[g].generation->id != only))
                continue;
            st = look_at(e, set.items[g].generation, &streams.items[i], &gap, &mark, err);
            if (st == EF_OK && gap.kind != EF__GAP_NONE)
                st = each(context, set.items[g].generation, &streams.items[i], &gap, mark, err);
        }
    if (st == EF_OK)
        memcpy(after, streams.next, EF_CURSOR_MAX);
    ef__live_set_release(&set);
    ef_stream_list_release(&streams);
    return st;
}

static ef_status look_at_all(ef_engine *e, int64_t only, each_gap *each, void *context,
                             ef_error *err)
{
    char after[EF_CURSOR_MAX] = "";
    ef_status st;

    do
        st = look_at_page(e, only, after, each, context, err);
    while (st == EF_OK && after[0]);
    return st;
}

/* --- filing ----------------------------------------------------------------------------------- */

static ef_status file_gap(ef_engine *e, const ef__generation *g, ef_str tenant, ef_str stream,
                          int64_t head, ef_error *err)
{
    return ef__gap_file(e, g, &(ef_event){.tenant = tenant, .stream = stream, .seq = head + 1},
                        err);
}

static ef_status file_each(void *context, const ef__generation *g, const ef_stream *stream,
                           const ef__gap *gap, ef__stream_mark mark, ef_error *err)
{
    ef_engine *e = context;

    ef__log(e->options.log, EF_LOG_WARN,
            gap->kind == EF__GAP_AHEAD ? "a projection has more of a stream than the journal"
                                       : "a gap was found and filed",
            EF_LOG_TEXT_FIELD("projection", g->name), EF_LOG_TEXT_FIELD("stream", stream->name),
            EF_LOG_NUMBER_FIELD("applied_seq", mark.applied_seq),
            EF_LOG_NUMBER_FIELD("journal_seq", stream->seq));
    return gap->kind == EF__GAP_AHEAD
               ? EF_OK
               : file_gap(e, g, stream->tenant, stream->name, gap->to_seq, err);
}

/* Does everything of a generation add up? Then it has no gap, and no stream is looked at. */
static ef_status adds_up(ef_engine *e, const ef__generation *g, bool *out, ef_error *err)
{
    ef__lag lag;
    ef_head head;
    int64_t queued = 0;
    ef_status st = ef_journal_head(e->journal, &head, err);

    if (st == EF_OK)
        st = ef__lag_queued(e, &queued, err);
    if (st == EF_OK)
        st = ef__lag_read(e, g, NULL, true, &lag, err);
    *out = st == EF_OK && ef__lag_unaccounted(g, &lag, head.position, queued) == 0;
    return st;
}

ef_status ef__gaps_file(ef_engine *e, const ef__generation *g, bool *out_done, ef_error *err)
{
    ef__gap_pass *pass = &e->gap_pass;
    bool fine = g->by_log;
    ef_status st = EF_OK;

    *out_done = true;
    if (!fine && pass->generation != g->id) {
        *pass = (ef__gap_pass){.generation = g->id};
        st = adds_up(e, g, &fine, err);
    }
    if (st == EF_OK && !fine)
        st = look_at_page(e, g->id, pass->after, file_each, e, err);
    *out_done = st == EF_OK && !pass->after[0];
    if (*out_done)
        *pass = (ef__gap_pass){0};
    return st;
}

bool ef__gaps_wait(const ef_engine *e)
{
    return !e->gaps_looked && ef__crew_is_first(&e->crew);
}

/* A queue may stay long for ever. */
static bool has_waited(ef_engine *e)
{
    const ef_clock *clock = e->options.clock;
    int64_t now_us = clock->mono_us(clock->context);

    if (!e->gaps_since_us)
        e->gaps_since_us = now_us;
    return now_us - e->gaps_since_us >= LOOK_AT_LAST_US;
}

/* Counts one generation more. *out_more: there are others. */
static ef_status count_next(ef_engine *e, bool *out_more, ef_error *err)
{
    ef__live_set set = {0};
    const ef__generation *next = NULL;
    bool fine = true;
    size_t left = 0;
    ef_status st = ef__live_set_read(e, true, &set, err);

    for (size_t i = 0; st == EF_OK && i < set.count; i++) {
        const ef__generation *g = set.items[i].generation;
        if (!set.items[i].keeps_rows)
            continue;
        left += g->id > e->gaps_counted;
        if (g->id > e->gaps_counted && (!next || g->id < next->id))
            next = g;
    }
    *out_more = left > 1;
    if (next)
        st = adds_up(e, next, &fine, err);
    if (next && st == EF_OK) {
        e->gaps_counted = next->id;
        e->gaps_found = e->gaps_found || !fine;
    }
    ef__live_set_release(&set);
    return st;
}

/* One generation is counted a tick; then, if one does not add up, one page of streams is looked at.
 * Between ticks leases are renewed and a stop is heeded. */
ef_status ef__gaps_start(ef_engine *e, ef_tick *tick, ef_error *err)
{
    bool more = false;
    ef_status st = EF_OK;

    if (!ef__gaps_wait(e) || (tick->more && !has_waited(e)))
        return EF_OK;
    if (!e->gaps_after[0])
        st = count_next(e, &more, err);
    if (st == EF_OK && !more && e->gaps_found)
        st = look_at_page(e, 0, e->gaps_after, file_each, e, err);
    e->gaps_looked = st == EF_OK && !more && !e->gaps_after[0];
    if (more || e->gaps_found)
        tick->more = true; /* the rest of it, or what was filed */
    return st;
}

/* --- for people ------------------------------------------------------------------------------- */

typedef struct gathering {
    ef_gap_list *out;
    ef_gap *items;
} gathering;

static ef_status gather(void *context, const ef__generation *g, const ef_stream *stream,
                        const ef__gap *gap, ef__stream_mark mark, ef_error *err)
{
    gathering *all = context;
    ef__arena *arena = &all->out->room->arena;
    ef_gap *to = &all->items[all->out->count];

    if (all->out->count == GAPS_MAX) {
        all->out->more = true;
        return EF_OK;
    }
    *to = (ef_gap){.tenant = ef__arena_copy(arena, stream->tenant),
                   .projection = ef__arena_copy(arena, g->name),
                   .stream = ef__arena_copy(arena, stream->name),
                   .generation = g->number,
                   .applied_seq = mark.applied_seq,
                   .expected_next_seq = mark.expected_next_seq,
                   .journal_seq = gap->kind == EF__GAP_AHEAD ? gap->from_seq - 1 : gap->to_seq};
    if (!to->tenant.ptr || !to->projection.ptr || !to->stream.ptr)
        return ef__room_full(err);
    all->out->count++;
    return EF_OK;
}

static ef_status find_gaps(ef_engine *e, ef_gap_list *out, ef_gap **items, ef_error *err)
{
    gathering all = {.out = out};
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    out->items = NULL;
    out->count = 0;
    out->more = false;
    st = ef__room_ready(&out->room, err);
    if (st == EF_OK) {
        all.items = ef__arena_zalloc(&out->room->arena, GAPS_MAX + 1, sizeof *all.items);
        st = all.items ? look_at_all(e, 0, gather, &all, err) : ef__room_full(err);
    }
    out->items = *items = all.items;
    return st;
}

ef_status ef_gap_ls(ef_engine *e, ef_gap_list *out, ef_error *err)
{
    ef_gap *items;

    return find_gaps(e, out, &items, err);
}

void ef_gap_list_release(ef_gap_list *list)
{
    if (!list)
        return;
    ef__room_release(&list->room);
    list->items = NULL;
    list->count = 0;
}

/* --- repairing -------------------------------------------------------------------------------- */

/* See how far a gap is closed, and file what of it is still missing. *out_left: how many events. */
static ef_status repair_gap(ef_engine *e, const ef__live_set *set, ef_gap *gap, int64_t *out_left,
                            ef_error *err)
{
    const ef__generation *g = NULL;
    ef__watermark mark = {0};
    bool found;
    ef_status st;

    for (size_t i = 0; i < set->count; i++)
        if (ef_str_equal(set->items[i].generation->name, gap->projection) &&
            set->items[i].generation->number == gap->generation)
            g = set->items[i].generation;
    if (!g || gap->applied_seq >= gap->journal_seq)
        return EF_OK;
    st =
        e->views->ops->watermark_get(e->views, g->id, gap->tenant, gap->stream, &mark, &found, err);
    if (st != EF_OK)
        return st;
    gap->replayed = mark.applied_seq - gap->applied_seq;
    if (mark.applied_seq >= gap->journal_seq)
        return EF_OK;
    *out_left += gap->journal_seq - mark.applied_seq;
    return file_gap(e, g, gap->tenant, gap->stream, gap->journal_seq, err);
}

static ef_status repair_pass(ef_engine *e, ef_gap *items, size_t count, int64_t *out_left,
                             ef_error *err)
{
    ef__live_set set = {0};
    ef_status st = ef__live_set_read(e, true, &set, err);

    *out_left = 0;
    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = repair_gap(e, &set, &items[i], out_left, err);
    ef__live_set_release(&set);
    return st;
}

ef_status ef_gap_repair(ef_engine *e, ef_gap_list *out, ef_error *err)
{
    ef_gap *items = NULL;
    int64_t left = 0, before = INT64_MAX;
    ef_status st = find_gaps(e, out, &items, err);

    if (st == EF_OK && e->options.read_only)
        st = ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    if (st == EF_OK)
        st = repair_pass(e, items, out->count, &left, err);
    while (st == EF_OK && left > 0 && left < before) {
        ef_tick tick = {.more = true};
        before = left;
        while (st == EF_OK && tick.more) {
            tick = (ef_tick){0};
            st = ef__queue_work(e, &(ef_work_options){0}, &tick, err);
        }
        if (st == EF_OK)
            st = repair_pass(e, items, out->count, &left, err);
    }
    return st;
}
