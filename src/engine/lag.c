/*
 * lag.c - see lag.h.
 */
#include "lag.h"
#include "view_cache.h"

#include <stdlib.h>

#define STREAMS_AT_ONCE 1000
#define TENANTS_MAX 10000
/* Streams of other generations that a plain as_of skips before it settles for a lower position. */
#define OTHERS_MAX 200

/* --- positions -------------------------------------------------------------------------------- */

/* A tenant of a log-ordered projection may have its own cursor. */
static ef_status cursor_of(ef_engine *engine, const ef__generation *generation,
                           const ef_str *tenant, int64_t *out, ef_error *err)
{
    ef__tenant_cursor_item item;
    bool found;
    ef_status st = EF_OK;

    *out = generation->position;
    if (generation->own_cursors == 0)
        return EF_OK;
    if (!tenant) {
        *out = generation->own_lowest < generation->position ? generation->own_lowest
                                                             : generation->position;
        return EF_OK;
    }
    st = engine->views->ops->tenant_cursor_get(engine->views, generation->id, *tenant, &item,
                                               &found, err);
    if (st == EF_OK && found)
        *out = item.cursor.position;
    return st;
}

ef_status ef__engine_delivered(ef_engine *engine, const ef__generation *generation,
                               const ef_str *tenant, int64_t *out, ef_error *err)
{
    ef_row_list rows = {0};
    ef_head head;
    ef_status st;

    if (!ef__generation_by_queue(generation))
        return cursor_of(engine, generation, tenant, out, err);
    st = ef_journal_head(engine->journal, &head, err);
    if (st != EF_OK)
        return st;
    /* The head was read first: later rows are above it. The queue is claimed in position order over
     * all tenants. */
    *out = head.position;
    st = ef_outbox_ls(
        engine->journal,
        &(ef_outbox_query){.lane = EF_STR(EF_LANE_APPLY), .any_tenant = true, .limit = 1}, &rows,
        err);
    if (st == EF_OK && rows.count && rows.items[0].position <= *out)
        *out = rows.items[0].position - 1;
    ef_row_list_release(&rows);
    return st;
}

/* --- streams with retry rows ------------------------------------------------------------------ */

typedef struct lag_walk {
    ef_engine *engine;
    const ef__generation *generation;
    bool counts;
    bool first_only;       /* stop at the first stream that the generation lacks */
    size_t others;         /* streams that only another generation needs */
    ef__retry_query query; /* of the next page */
    ef__retry_stream_list page;
    ef__view_key *keys;
    ef__watermark *watermarks;
    ef__lag *out;
} lag_walk;

ef_status ef__watermarks_read(ef_views *views, int64_t generation, const ef__view_key *keys,
                              size_t count, ef__watermark *out, ef_error *err)
{
    ef_status st = EF_OK;
    bool found;

    if (views->ops->watermark_get_many && count > 1)
        return views->ops->watermark_get_many(views, generation, keys, count, out, err);
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        out[i] = (ef__watermark){0};
        st = views->ops->watermark_get(views, generation, keys[i].tenant, keys[i].name, &out[i],
                                       &found, err);
    }
    return st;
}

static ef_status read_marks(lag_walk *walk, ef_error *err)
{
    for (size_t i = 0; i < walk->page.count; i++)
        walk->keys[i] = (ef__view_key){walk->page.items[i].tenant, walk->page.items[i].stream};
    return ef__watermarks_read(walk->engine->views, walk->generation->id, walk->keys,
                               walk->page.count, walk->watermarks, err);
}

/* Rows that the generation lacks. Most streams have a row for each seq from the first to the last.
 */
static ef_status count_rows(const lag_walk *walk, const ef__retry_stream *stream,
                            int64_t applied_seq, int64_t *out, ef_error *err)
{
    ef__retry_stream_list one = {0};
    ef__retry_query query = {.lane = walk->query.lane,
                             .tenant = stream->tenant,
                             .stream = stream->stream,
                             .above_seq = applied_seq,
                             .counts = true,
                             .limit = 1};
    ef_status st;

    *out = stream->rows;
    if (applied_seq < stream->seq)
        return EF_OK;
    *out = stream->last_seq - applied_seq;
    if (stream->rows == stream->last_seq - stream->seq + 1)
        return EF_OK;
    st = ef__retry_streams(walk->engine->journal, &query, &one, err);
    *out = st == EF_OK && one.count ? one.items[0].rows : 0;
    ef__retry_stream_list_release(&one);
    return st;
}

/* The position of the first event that it lacks: that of the first row, unless only another
 * generation needs that row. */
static ef_status find_first_lacking(const lag_walk *walk, const ef__retry_stream *stream,
                                    int64_t applied_seq, int64_t *out, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = EF_OK;

    *out = stream->position;
    if (applied_seq < stream->seq)
        return EF_OK;
    st = ef_journal_read_stream(walk->engine->journal, stream->tenant, stream->stream,
                                applied_seq + 1, 1, &batch, err);
    if (st == EF_OK && batch.count)
        *out = batch.events[0].position;
    ef_batch_release(&batch);
    return st;
}

static ef_status add_stream(lag_walk *walk, const ef__retry_stream *stream,
                            const ef__watermark *watermark, ef_error *err)
{
    ef__lag *out = walk->out;
    bool blocked = ef__retry_stream_blocked(stream);
    int64_t rows = 0, from;
    ef_status st = find_first_lacking(walk, stream, watermark->applied_seq, &from, err);

    if (st == EF_OK && walk->counts)
        st = count_rows(walk, stream, watermark->applied_seq, &rows, err);
    if (st != EF_OK)
        return st;
    out->as_of = from <= out->as_of ? from - 1 : out->as_of;
    if (!blocked) {
        out->proceeding += rows;
        out->proceeds_from = from < out->proceeds_from ? from : out->proceeds_from;
        return EF_OK;
    }
    out->blocked += rows;
    out->blocked_streams++;
    out->dead_streams += stream->status == EF_ROW_DEAD;
    if (!out->blocked_from || from < out->blocked_from)
        out->blocked_from = from;
    return EF_OK;
}

/* A page of streams. *out_over: no further stream matters. */
static ef_status walk_page(lag_walk *walk, bool *out_over, ef_error *err)
{
    ef_status st = ef__retry_streams(walk->engine->journal, &walk->query, &walk->page, err);

    if (st == EF_OK && walk->page.count)
        st = read_marks(walk, err);
    *out_over = walk->page.count < walk->query.limit;
    for (size_t i = 0; st == EF_OK && i < walk->page.count; i++) {
        const ef__retry_stream *stream = &walk->page.items[i];
        walk->query.after = stream->position;
        if (walk->first_only && stream->position > walk->out->as_of) {
            *out_over = true; /* the following ones are above it too */
            break;
        }
        if (!ef__lag_lacks(stream, walk->out->delivered, &walk->watermarks[i])) {
            walk->others++;
            continue;
        }
        st = add_stream(walk, stream, &walk->watermarks[i], err);
    }
    return st;
}

static ef_status walk_lane(lag_walk *walk, ef_error *err)
{
    bool over = false;
    ef_status st = EF_OK;

    walk->keys = malloc(walk->query.limit * sizeof *walk->keys);
    walk->watermarks = malloc(walk->query.limit * sizeof *walk->watermarks);
    if (!walk->keys || !walk->watermarks)
        st = ef_fail(err, EF_NO_MEMORY, "out of memory while counting retry rows");
    while (st == EF_OK && !over) {
        st = walk_page(walk, &over, err);
        if (st == EF_OK && !over && walk->first_only && walk->others >= OTHERS_MAX) {
            walk->out->as_of =
                walk->query.after < walk->out->as_of ? walk->query.after : walk->out->as_of;
            over = true;
        }
    }
    free(walk->keys);
    free(walk->watermarks);
    ef__retry_stream_list_release(&walk->page);
    return st;
}

static lag_walk walk_of(ef_engine *engine, const ef__generation *generation, const ef_str *tenant,
                        size_t page, ef__lag *out)
{
    return (lag_walk){.engine = engine,
                      .generation = generation,
                      .query = {.lane = generation->name,
                                .any_tenant = !tenant,
                                .tenant = tenant ? *tenant : EF_STR(""),
                                .limit = page},
                      .out = out};
}

/* --- tenants of log-ordered projections ------------------------------------------------------- */

static void add_tenant(ef__lag *out, const ef__tenant_cursor *cursor)
{
    if (cursor->attempts == 0) { /* catching up */
        if (cursor->position < out->proceeds_from)
            out->proceeds_from = cursor->position + 1;
        return;
    }
    out->blocked_streams++;
    out->blocked += cursor->waiting;
    if (!out->blocked_from || cursor->position < out->blocked_from)
        out->blocked_from = cursor->position + 1;
}

static ef_status read_tenants(ef_engine *engine, const ef__generation *generation,
                              const ef_str *tenant, ef__lag *out, ef_error *err)
{
    ef__tenant_cursor_list list = {0};
    ef__tenant_cursor_item item;
    bool found = false;
    ef_status st;

    out->delivered = generation->position;
    if (generation->own_cursors == 0)
        return EF_OK;
    if (tenant) {
        st = engine->views->ops->tenant_cursor_get(engine->views, generation->id, *tenant, &item,
                                                   &found, err);
        if (st == EF_OK && found)
            add_tenant(out, &item.cursor);
        return st;
    }
    st = ef__memory_prepare(&list.room, err);
    if (st == EF_OK)
        st = engine->views->ops->tenant_cursor_ls(engine->views, generation->id, INT64_MAX,
                                                  TENANTS_MAX, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        add_tenant(out, &list.items[i].cursor);
    ef__tenant_cursor_list_release(&list);
    return st;
}

/* --- the result ------------------------------------------------------------------------------- */

ef_status ef__lag_read(ef_engine *engine, const ef__generation *generation, const ef_str *tenant,
                       bool counts, ef__lag *out, ef_error *err)
{
    lag_walk walk = walk_of(engine, generation, tenant, STREAMS_AT_ONCE, out);
    ef_status st;

    *out = (ef__lag){.proceeds_from = INT64_MAX};
    st = ef__engine_delivered(engine, generation, tenant, &out->delivered, err);
    out->as_of = out->delivered;
    if (st != EF_OK)
        return st;
    if (generation->by_log)
        return read_tenants(engine, generation, tenant, out, err);
    walk.counts = walk.query.counts = counts;
    return walk_lane(&walk, err);
}

ef_status ef__engine_as_of(ef_engine *engine, const ef__generation *generation,
                           const ef_str *tenant, int64_t *out, ef_error *err)
{
    ef__lag lag = {.proceeds_from = INT64_MAX};
    lag_walk walk = walk_of(engine, generation, tenant, OTHERS_MAX, &lag);
    ef_status st = ef__engine_delivered(engine, generation, tenant, &lag.delivered, err);

    lag.as_of = lag.delivered;
    walk.first_only = true;
    if (st == EF_OK && !generation->by_log)
        st = walk_lane(&walk, err);
    *out = st == EF_OK ? lag.as_of : 0;
    return st;
}

ef_status ef__lag_queued(ef_engine *engine, int64_t *out, ef_error *err)
{
    ef_outbox_summary summary = {0};
    ef_status st = ef_outbox_summarise(
        engine->journal, &(ef_outbox_query){.lane = EF_STR(EF_LANE_APPLY), .any_tenant = true},
        &summary, err);

    *out = summary.pending + summary.processing;
    ef_row_list_release(&summary.oldest);
    return st;
}

int64_t ef__lag_queued_open(const ef__generation *generation, const ef__lag *lag, int64_t head,
                            int64_t queued)
{
    int64_t open = head - ef__generation_done(generation) - lag->proceeding - lag->blocked;

    if (!ef__generation_by_queue(generation) || queued <= open)
        return queued;
    return open > 0 ? open : 0;
}

int64_t ef__lag_unaccounted(const ef__generation *generation, const ef__lag *lag, int64_t head,
                            int64_t queued)
{
    int64_t done = ef__generation_done(generation);

    if (generation->by_log)
        return generation->position - generation->own_waiting - done;
    /* A generation that was live before has events above its cursor in some streams. */
    return ef__generation_by_queue(generation)
               ? head - done - queued - lag->proceeding - lag->blocked
               : 0;
}
