/*
 * lane.c - see queue.h: the generations that retry rows of a projection's lane are kept for.
 *
 * Rows are removed without a lease. That is safe because rows are read before the generations: a
 * process that makes a generation one that keeps rows files existing rows again after that, and a
 * row that was filed again since it was read is not removed.
 */
#include "queue.h"
#include "lag.h"
#include "run.h"

#include "../journal/journal.h"

#include <assert.h>
#include <stdlib.h>

#define ROWS_AT_ONCE 1000
#define STREAMS_AT_ONCE 1000

bool ef__generation_keeps_rows(const ef__generation_list *list, const ef__generation *generation)
{
    int32_t active = 0;

    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].active && ef_str_equal(list->items[i].name, generation->name))
            active = list->items[i].number;
    return !generation->by_log && generation->state != EF__GENERATION_RETIRED &&
           generation->number >= active;
}

/* --- removing rows ---------------------------------------------------------------------------- */

ef_status ef__generation_lacks(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                               ef_str stream, int64_t seq, bool *out, ef_error *err)
{
    ef__watermark watermark;
    ef_status st = ef__watermark_read(engine, generation, tenant, stream, &watermark, err);

    *out = ef__watermark_lacks(&watermark, seq);
    return st;
}

static ef_status is_needed(ef_engine *engine, const ef__generation_list *list, const ef_row *row,
                           bool *out, ef_error *err)
{
    ef_status st = EF_OK;

    *out = row->skip; /* a worker has to carry the skip out */
    for (size_t i = 0; st == EF_OK && !*out && i < list->count; i++)
        if (ef_str_equal(list->items[i].name, row->lane) &&
            ef__generation_keeps_rows(list, &list->items[i]))
            st = ef__generation_lacks(engine, &list->items[i], row->tenant, row->stream, row->seq,
                                      out, err);
    return st;
}

/* Does a generation that keeps rows lack the first row of a stream? Then it lacks all of them. */
static ef_status find_needed(ef_engine *engine, const ef__generation_list *list,
                             const ef__retry_stream_list *streams, bool *needed, ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(EF_LIMIT_BATCH_BYTES);
    ef__view_key *keys = ef__arena_zalloc(&arena, streams->count, sizeof *keys);
    ef__watermark *watermarks = ef__arena_zalloc(&arena, streams->count, sizeof *watermarks);
    ef_status st = keys && watermarks ? EF_OK : ef__no_memory(err);

    for (size_t i = 0; st == EF_OK && i < streams->count; i++)
        keys[i] = (ef__view_key){streams->items[i].tenant, streams->items[i].stream};
    for (size_t g = 0; st == EF_OK && g < list->count; g++) {
        if (!ef__generation_keeps_rows(list, &list->items[g]))
            continue;
        st = ef__watermarks_read(engine->views, list->items[g].id, keys, streams->count, watermarks,
                                 err);
        for (size_t i = 0; st == EF_OK && i < streams->count; i++)
            needed[i] = needed[i] || ef__watermark_lacks(&watermarks[i], streams->items[i].seq);
    }
    ef__arena_release(&arena);
    return st;
}

/* The first row of a page of streams that no generation lacks, so that a million rows behind a
 * failed one are not read. *out_from: its position; 0: there is none. */
static ef_status find_unneeded(ef_engine *engine, ef_str lane, int64_t from, int64_t *out_from,
                               int64_t *out_next, ef_error *err)
{
    EF__AUTO(ef__retry_stream_list) streams = {0};
    EF__AUTO(ef__generation_list) list = {0};
    bool needed[STREAMS_AT_ONCE] = {0};
    ef_status st = ef__retry_streams(
        engine->journal,
        &(ef__retry_query){
            .lane = lane, .any_tenant = true, .after = from - 1, .limit = STREAMS_AT_ONCE},
        &streams, err);

    *out_from = *out_next = 0;
    if (st == EF_OK && streams.count)
        st = ef__engine_generations(engine, lane, &list, err);
    if (st == EF_OK && streams.count)
        st = find_needed(engine, &list, &streams, needed, err);
    for (size_t i = 0; st == EF_OK && !*out_from && i < streams.count; i++)
        *out_from = needed[i] ? 0 : streams.items[i].position;
    if (st == EF_OK && streams.count == STREAMS_AT_ONCE)
        *out_next = streams.items[streams.count - 1].position + 1;
    return st;
}

/* A page of rows from a position on. *out_next: start of the next page; 0: this was the last. */
static ef_status sweep_rows(ef_engine *engine, ef_str lane, int64_t from, int64_t *out_next,
                            ef_error *err)
{
    ef_row_list rows = {0};
    ef__generation_list list = {0};
    ef_retry_row *unneeded = NULL;
    size_t count = 0;
    ef_status st = ef_outbox_ls(
        engine->journal,
        &(ef_outbox_query){.lane = lane, .any_tenant = true, .limit = ROWS_AT_ONCE, .from = from},
        &rows, err);

    *out_next = 0;
    if (st == EF_OK && rows.count)
        st = ef__engine_generations(engine, lane, &list, err);
    if (st == EF_OK && !(unneeded = malloc((rows.count + 1) * sizeof *unneeded)))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while removing retry rows");
    for (size_t i = 0; st == EF_OK && i < rows.count; i++) {
        const ef_row *row = &rows.items[i];
        bool needed;
        st = is_needed(engine, &list, row, &needed, err);
        unneeded[count] = (ef_retry_row){.lane = row->lane,
                                         .position = row->position,
                                         .status = EF_ROW_DONE,
                                         .filed = row->filed};
        count += st == EF_OK && !needed;
    }
    if (st == EF_OK)
        st = ef__retry_rows_write(engine, unneeded, count, err);
    if (st == EF_OK && rows.count == ROWS_AT_ONCE)
        *out_next = rows.items[rows.count - 1].position + 1;
    free(unneeded);
    EF_RELEASE(&rows);
    ef_memory_release(&list.room);
    return st == EF_NOT_FOUND ? EF_OK : st; /* a lane that was never created has no rows */
}

static ef_status sweep_page(ef_engine *engine, ef_str lane, int64_t from, int64_t *out_next,
                            ef_error *err)
{
    int64_t unneeded;
    ef_status st = find_unneeded(engine, lane, from, &unneeded, out_next, err);

    return st == EF_OK && unneeded ? sweep_rows(engine, lane, unneeded, out_next, err) : st;
}

ef_status ef__lane_sweep(ef_engine *engine, ef_str lane, ef_error *err)
{
    int64_t from = 1;
    ef_status st = EF_OK;

    while (st == EF_OK && from)
        st = sweep_page(engine, lane, from, &from, err);
    return st;
}

/* --- adding rows ------------------------------------------------------------------------------ */

static ef_status file_stream(ef_engine *engine, const ef__generation *generation,
                             const ef_stream *stream, ef_error *err)
{
    ef__watermark watermark;
    int64_t position;
    ef_row queued = {0};
    ef_status st =
        ef__watermark_read(engine, generation, stream->tenant, stream->name, &watermark, err);

    if (st != EF_OK || watermark.applied_seq >= stream->seq)
        return st;
    st = ef__stream_position(engine, stream->tenant, stream->name, watermark.applied_seq + 1,
                             &position, err);
    if (st == EF_OK && position)
        st = ef__lane_first_row(engine, EF_STR(EF_LANE_APPLY), position, &queued, err);
    /* A row in flight is not queued. */
    if (st != EF_OK || !position ||
        (queued.position == position && queued.status == EF_ROW_PENDING))
        return st;
    return ef__gap_add_rows(engine, generation, stream->tenant, stream->name, stream->seq, err);
}

/* A page of streams after a cursor, which moves; "" after the last one. */
static ef_status file_page(ef_engine *engine, const ef__generation *generation,
                           char after[EF_CURSOR_MAX], ef_error *err)
{
    EF__AUTO(ef_stream_list) streams = {0};
    ef_status st = ef_stream_ls(engine->journal, (ef_str){0}, true, ef_str_from(after),
                                STREAMS_AT_ONCE, &streams, err);

    for (size_t i = 0; st == EF_OK && i < streams.count; i++)
        st = file_stream(engine, generation, &streams.items[i], err);
    if (st == EF_OK)
        memcpy(after, streams.next, EF_CURSOR_MAX);
    return st;
}

ef_status ef__lane_refile(ef_engine *engine, const ef__generation *generation, ef_error *err)
{
    char after[EF_CURSOR_MAX] = "";
    ef_status st;

    do
        st = file_page(engine, generation, after, err);
    while (st == EF_OK && after[0]);
    return st;
}

/* --- by workers ------------------------------------------------------------------------------- */

/* Changes whenever a generation is added, removed, goes live or becomes active: the sweep starts
 * again, because its index refers to the list. */
static int64_t list_fingerprint(const ef__generation_list *list)
{
    uint64_t sum = 1;

    for (size_t i = 0; i < list->count; i++) {
        const ef__generation *generation = &list->items[i];
        sum = sum * 31 + (uint64_t)generation->id * 4 + (uint64_t)generation->active * 2 +
              (generation->state == EF__GENERATION_LIVE);
    }
    return (int64_t)sum;
}

/* Is it active again after it was superseded? A newer generation exists then. */
static bool is_active_again(const ef__generation_list *list, const ef__generation *generation)
{
    bool newer = false;

    for (size_t i = 0; i < list->count; i++)
        newer = newer || (ef_str_equal(list->items[i].name, generation->name) &&
                          list->items[i].number > generation->number &&
                          list->items[i].state != EF__GENERATION_RETIRED);
    return newer && generation->state == EF__GENERATION_LIVE &&
           ef__generation_keeps_rows(list, generation);
}

/* The next generation of the sweep, in list order; NULL: the sweep is done. */
static const ef__generation *next_generation(ef__lane_sweep_state *sweep,
                                             const ef__generation_list *list)
{
    while (sweep->at < list->count && list->items[sweep->at].by_log)
        sweep->at++;
    return sweep->at < list->count ? &list->items[sweep->at] : NULL;
}

/* A step for one generation: removes rows of its lane, then adds the rows that it lacks. */
static ef_status sweep_generation(ef_engine *engine, const ef__generation_list *list,
                                  const ef__generation *generation, ef_error *err)
{
    ef__lane_sweep_state *sweep = &engine->queue.sweep;
    bool first = sweep->at == 0 || !ef_str_equal(list->items[sweep->at - 1].name, generation->name);
    ef_status st = EF_OK;

    if (first && sweep->from) {
        st = sweep_page(engine, generation->name, sweep->from, &sweep->from, err);
        if (st != EF_OK || sweep->from)
            return st;
    }
    if (is_active_again(list, generation))
        st = file_page(engine, generation, sweep->after, err);
    if (st == EF_OK && !sweep->after[0]) {
        sweep->at++;
        sweep->from = 1;
    }
    return st;
}

ef_status ef__lanes_step(ef_engine *engine, ef_tick *tick, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    const ef__generation *generation;
    ef_status st;

    assert(ef__mutex_is_locked(&engine->queue.lock));
    if (!ef__membership_is_first(&engine->queue.membership))
        return EF_OK;
    st = ef__engine_generations(engine, (ef_str){0}, &list, err);
    if (st == EF_OK && list_fingerprint(&list) != engine->queue.sweep.of)
        engine->queue.sweep = (ef__lane_sweep_state){.of = list_fingerprint(&list), .from = 1};
    generation = st == EF_OK ? next_generation(&engine->queue.sweep, &list) : NULL;
    if (generation) {
        st = sweep_generation(engine, &list, generation, err);
        tick->more = true;
    }
    return st;
}

/* --- rows ------------------------------------------------------------------------------------- */

ef_status ef__lane_first_row(ef_engine *engine, ef_str lane, int64_t from, ef_row *out,
                             ef_error *err)
{
    EF__AUTO(ef_row_list) rows = {0};
    ef_status st = ef_outbox_ls(
        engine->journal,
        &(ef_outbox_query){.lane = lane, .any_tenant = true, .limit = 1, .from = from}, &rows, err);

    *out = (ef_row){0};
    if (st == EF_OK && rows.count)
        *out = (ef_row){.position = rows.items[0].position,
                        .status = rows.items[0].status,
                        .enqueued_us = rows.items[0].enqueued_us};
    return st == EF_NOT_FOUND ? EF_OK : st;
}
