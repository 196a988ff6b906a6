/*
 * lag.c - see lag.h.
 */
#include "lag.h"
#include "workset.h"

#include <stdlib.h>

#define STREAMS_AT_ONCE 1000
#define TENANTS_MAX 10000
/* Streams of other generations that a plain as_of passes before it settles for less. */
#define OTHERS_MAX 200

/* --- how far ---------------------------------------------------------------------------------- */

/* A tenant of a projection in the order of the log may have a cursor of its own. */
static ef_status cursor_of(ef_engine *e, const ef__generation *g, const ef_str *tenant,
                           int64_t *out, ef_error *err)
{
    ef__tenant_cursor_item item;
    bool found;
    ef_status st = EF_OK;

    *out = g->position;
    if (g->own_cursors == 0)
        return EF_OK;
    if (!tenant) {
        *out = g->own_lowest < g->position ? g->own_lowest : g->position;
        return EF_OK;
    }
    st = e->views->ops->tenant_cursor_get(e->views, g->id, *tenant, &item, &found, err);
    if (st == EF_OK && found)
        *out = item.cursor.position;
    return st;
}

ef_status ef__engine_taken(ef_engine *e, const ef__generation *g, const ef_str *tenant,
                           int64_t *out, ef_error *err)
{
    ef_row_list rows = {0};
    ef_head head;
    ef_status st;

    if (!ef__generation_by_queue(g))
        return cursor_of(e, g, tenant, out, err);
    st = ef_journal_head(e->journal, &head, err);
    if (st != EF_OK)
        return st;
    /* The head was read first: rows that came later are above it. The queue is claimed by position,
     * whichever tenant a row belongs to. */
    *out = head.position;
    st = ef_outbox_ls(
        e->journal,
        &(ef_outbox_query){.lane = EF_STR(EF_LANE_APPLY), .any_tenant = true, .limit = 1}, &rows,
        err);
    if (st == EF_OK && rows.count && rows.items[0].position <= *out)
        *out = rows.items[0].position - 1;
    ef_row_list_release(&rows);
    return st;
}

/* --- streams with retry rows ------------------------------------------------------------------ */

typedef struct walk {
    ef_engine *engine;
    const ef__generation *generation;
    bool counts;
    bool first_only;       /* ends at the first stream that is lacked */
    size_t others;         /* streams that were passed, because another generation needs them */
    ef__retry_query query; /* of the next page */
    ef__retry_stream_list page;
    ef__view_key *keys;
    ef__watermark *marks;
    ef__lag *out;
} walk;

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

static ef_status read_marks(walk *w, ef_error *err)
{
    for (size_t i = 0; i < w->page.count; i++)
        w->keys[i] = (ef__view_key){w->page.items[i].tenant, w->page.items[i].stream};
    return ef__watermarks_read(w->engine->views, w->generation->id, w->keys, w->page.count,
                               w->marks, err);
}

/* Rows that the generation lacks. Most streams have a row for each seq from the first to the last.
 */
static ef_status count_rows(const walk *w, const ef__retry_stream *stream, int64_t applied_seq,
                            int64_t *out, ef_error *err)
{
    ef__retry_stream_list one = {0};
    ef__retry_query query = {.lane = w->query.lane,
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
    st = ef__retry_streams(w->engine->journal, &query, &one, err);
    *out = st == EF_OK && one.count ? one.items[0].rows : 0;
    ef__retry_stream_list_release(&one);
    return st;
}

/* The position of the first event that is lacked: of the first row, unless another generation needs
 * that one. */
static ef_status first_lacked(const walk *w, const ef__retry_stream *stream, int64_t applied_seq,
                              int64_t *out, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = EF_OK;

    *out = stream->position;
    if (applied_seq < stream->seq)
        return EF_OK;
    st = ef_journal_read_stream(w->engine->journal, stream->tenant, stream->stream, applied_seq + 1,
                                1, &batch, err);
    if (st == EF_OK && batch.count)
        *out = batch.events[0].position;
    ef_batch_release(&batch);
    return st;
}

static ef_status add_stream(walk *w, const ef__retry_stream *stream, const ef__watermark *mark,
                            ef_error *err)
{
    ef__lag *out = w->out;
    bool blocked = ef__retry_stream_blocked(stream);
    int64_t rows = 0, from;
    ef_status st = first_lacked(w, stream, mark->applied_seq, &from, err);

    if (st == EF_OK && w->counts)
        st = count_rows(w, stream, mark->applied_seq, &rows, err);
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

/* A page of streams. *out_over: nothing more is to be found. */
static ef_status walk_page(walk *w, bool *out_over, ef_error *err)
{
    ef_status st = ef__retry_streams(w->engine->journal, &w->query, &w->page, err);

    if (st == EF_OK && w->page.count)
        st = read_marks(w, err);
    *out_over = w->page.count < w->query.limit;
    for (size_t i = 0; st == EF_OK && i < w->page.count; i++) {
        const ef__retry_stream *stream = &w->page.items[i];
        w->query.after = stream->position;
        if (w->first_only && stream->position > w->out->as_of) {
            *out_over = true; /* all others are above it too */
            break;
        }
        if (!ef__lag_lacks(stream, w->out->taken, &w->marks[i])) {
            w->others++;
            continue;
        }
        st = add_stream(w, stream, &w->marks[i], err);
    }
    return st;
}

static ef_status walk_lane(walk *w, ef_error *err)
{
    bool over = false;
    ef_status st = EF_OK;

    w->keys = malloc(w->query.limit * sizeof *w->keys);
    w->marks = malloc(w->query.limit * sizeof *w->marks);
    if (!w->keys || !w->marks)
        st = ef_fail(err, EF_NO_MEMORY, "out of memory while counting retry rows");
    while (st == EF_OK && !over) {
        st = walk_page(w, &over, err);
        if (st == EF_OK && !over && w->first_only && w->others >= OTHERS_MAX) {
            w->out->as_of = w->query.after < w->out->as_of ? w->query.after : w->out->as_of;
            over = true;
        }
    }
    free(w->keys);
    free(w->marks);
    ef__retry_stream_list_release(&w->page);
    return st;
}

static walk walk_of(ef_engine *e, const ef__generation *g, const ef_str *tenant, size_t page,
                    ef__lag *out)
{
    return (walk){.engine = e,
                  .generation = g,
                  .query = {.lane = g->name,
                            .any_tenant = !tenant,
                            .tenant = tenant ? *tenant : EF_STR(""),
                            .limit = page},
                  .out = out};
}

/* --- tenants in the order of the log ---------------------------------------------------------- */

static void add_tenant(ef__lag *out, const ef__tenant_cursor *cursor)
{
    if (cursor->attempts == 0) { /* it catches up */
        if (cursor->position < out->proceeds_from)
            out->proceeds_from = cursor->position + 1;
        return;
    }
    out->blocked_streams++;
    out->blocked += cursor->waiting;
    if (!out->blocked_from || cursor->position < out->blocked_from)
        out->blocked_from = cursor->position + 1;
}

static ef_status read_tenants(ef_engine *e, const ef__generation *g, const ef_str *tenant,
                              ef__lag *out, ef_error *err)
{
    ef__tenant_cursor_list list = {0};
    ef__tenant_cursor_item item;
    bool found = false;
    ef_status st;

    out->taken = g->position;
    if (g->own_cursors == 0)
        return EF_OK;
    if (tenant) {
        st = e->views->ops->tenant_cursor_get(e->views, g->id, *tenant, &item, &found, err);
        if (st == EF_OK && found)
            add_tenant(out, &item.cursor);
        return st;
    }
    st = ef__room_ready(&list.room, err);
    if (st == EF_OK)
        st = e->views->ops->tenant_cursor_ls(e->views, g->id, INT64_MAX, TENANTS_MAX, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        add_tenant(out, &list.items[i].cursor);
    ef__tenant_cursor_list_release(&list);
    return st;
}

/* --- together --------------------------------------------------------------------------------- */

ef_status ef__lag_read(ef_engine *e, const ef__generation *g, const ef_str *tenant, bool counts,
                       ef__lag *out, ef_error *err)
{
    walk w = walk_of(e, g, tenant, STREAMS_AT_ONCE, out);
    ef_status st;

    *out = (ef__lag){.proceeds_from = INT64_MAX};
    st = ef__engine_taken(e, g, tenant, &out->taken, err);
    out->as_of = out->taken;
    if (st != EF_OK)
        return st;
    if (g->by_log)
        return read_tenants(e, g, tenant, out, err);
    w.counts = w.query.counts = counts;
    return walk_lane(&w, err);
}

ef_status ef__engine_as_of(ef_engine *e, const ef__generation *g, const ef_str *tenant,
                           int64_t *out, ef_error *err)
{
    ef__lag lag = {.proceeds_from = INT64_MAX};
    walk w = walk_of(e, g, tenant, OTHERS_MAX, &lag);
    ef_status st = ef__engine_taken(e, g, tenant, &lag.taken, err);

    lag.as_of = lag.taken;
    w.first_only = true;
    if (st == EF_OK && !g->by_log)
        st = walk_lane(&w, err);
    *out = st == EF_OK ? lag.as_of : 0;
    return st;
}

ef_status ef__lag_queued(ef_engine *e, int64_t *out, ef_error *err)
{
    ef_outbox_summary s = {0};
    ef_status st = ef_outbox_summarise(
        e->journal, &(ef_outbox_query){.lane = EF_STR(EF_LANE_APPLY), .any_tenant = true}, &s, err);

    *out = s.pending + s.processing;
    ef_row_list_release(&s.oldest);
    return st;
}

int64_t ef__lag_queued_open(const ef__generation *g, const ef__lag *lag, int64_t head,
                            int64_t queued)
{
    int64_t open = head - ef__generation_done(g) - lag->proceeding - lag->blocked;

    if (!ef__generation_by_queue(g) || queued <= open)
        return queued;
    return open > 0 ? open : 0;
}

int64_t ef__lag_unaccounted(const ef__generation *g, const ef__lag *lag, int64_t head,
                            int64_t queued)
{
    int64_t done = ef__generation_done(g);

    if (g->by_log)
        return g->position - g->own_waiting - done;
    /* One that was live before may be past its cursor here and there. */
    return ef__generation_by_queue(g) ? head - done - queued - lag->proceeding - lag->blocked : 0;
}
