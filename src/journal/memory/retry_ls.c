/*
 * retry_ls.c - streams that have retry rows in a lane, in memory.
 */
#include "memory.h"

/* Is this the first row of a stream that the query asks for? */
static bool is_head(const mem_journal *m, size_t index, const ef__retry_query *query)
{
    const mem_exception *x = &m->exceptions[index];
    const ef_event *event = &m->events[x->position - 1]->event;

    if (!ef_str_equal(m->lanes[x->lane].name, query->lane) || x->position <= query->after)
        return false;
    if (query->stream.len && !ef_str_equal(event->stream, query->stream))
        return false;
    if ((query->stream.len || !query->any_tenant) && !ef_str_equal(event->tenant, query->tenant))
        return false;
    return ef__mem_exception_first(m, index);
}

/* Rows are in the order of positions, so those of a stream are in the order of its seqs. */
static void count_rows(const mem_journal *m, size_t head, const ef__retry_query *query,
                       ef__retry_stream *out)
{
    const mem_exception *first = &m->exceptions[head];

    for (size_t i = head; i < m->exception_count; i++) {
        const mem_exception *x = &m->exceptions[i];
        const mem_event *event = m->events[x->position - 1];
        if (x->lane != first->lane || event->stream != m->events[first->position - 1]->stream)
            continue;
        out->last_seq = event->event.seq;
        out->rows += query->counts && event->event.seq > query->above_seq;
    }
}

static ef_status list_streams(const mem_journal *m, const ef__retry_query *query,
                              ef__retry_stream_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__retry_stream *items = ef__arena_zalloc(arena, m->exception_count + 1, sizeof *items);

    if (!items)
        return ef__room_full(err);
    out->items = items;
    for (size_t i = 0; i < m->exception_count && out->count < query->limit; i++) {
        const mem_exception *x = &m->exceptions[i];
        const ef_event *event = &m->events[x->position - 1]->event;
        ef__retry_stream *to = &items[out->count];
        if (!is_head(m, i, query))
            continue;
        *to = (ef__retry_stream){.tenant = ef__arena_copy(arena, event->tenant),
                                 .stream = ef__arena_copy(arena, event->stream),
                                 .seq = event->seq,
                                 .position = x->position,
                                 .status = x->status,
                                 .error = ef__arena_copy(arena, x->error)};
        if (!to->tenant.ptr || !to->stream.ptr || !to->error.ptr)
            return ef__room_full(err);
        count_rows(m, i, query, to);
        out->count++;
    }
    return EF_OK;
}

ef_status ef__mem_retry_streams(ef_journal *journal, const ef__retry_query *query,
                                ef__retry_stream_list *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = list_streams(m, query, out, err);

    ef__mem_unlock(m);
    return st;
}
