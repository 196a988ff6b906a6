/*
 * retry_row.c - the memory journal's retry rows, sorted by position and then by the lane's name,
 * and the streams that have some.
 */
#include "memory.h"

size_t ef__mem_retry_row_find(const mem_journal *mem, int64_t position, size_t lane, bool *found)
{
    size_t low = 0, high = mem->retry_row_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const mem_retry_row *retry = &mem->retry_rows[middle];
        bool before = retry->position < position ||
                      (retry->position == position &&
                       ef__str_compare(mem->lanes[retry->lane].name, mem->lanes[lane].name) < 0);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < mem->retry_row_count && mem->retry_rows[low].position == position &&
             mem->retry_rows[low].lane == lane;
    return low;
}

bool ef__mem_retry_row_is_first(const mem_journal *mem, size_t index)
{
    const mem_retry_row *retry = &mem->retry_rows[index];

    for (size_t i = 0; i < index; i++)
        if (mem->retry_rows[i].lane == retry->lane &&
            mem->events[mem->retry_rows[i].position - 1]->stream ==
                mem->events[retry->position - 1]->stream)
            return false;
    return true;
}

ef_status ef__mem_retry_row_requeue(mem_journal *mem, size_t lane, int64_t position, ef_error *err)
{
    bool found;
    size_t at = ef__mem_retry_row_find(mem, position, lane, &found);
    int64_t now_us = ef__mem_now(mem);

    if (found)
        return EF_OK;
    if (!ef__mem_grow((void **)&mem->retry_rows, &mem->retry_row_cap, mem->retry_row_count,
                      sizeof *mem->retry_rows))
        return ef__mem_no_memory(err);
    memmove(&mem->retry_rows[at + 1], &mem->retry_rows[at],
            (mem->retry_row_count - at) * sizeof *mem->retry_rows);
    mem->retry_rows[at] = (mem_retry_row){.lane = lane,
                                          .position = position,
                                          .status = EF_ROW_PENDING,
                                          .due_us = now_us,
                                          .updated_us = now_us};
    mem->retry_row_count++;
    return EF_OK;
}

void ef__mem_retry_row_remove(mem_journal *mem, size_t at)
{
    ef__mem_text_free(&mem->retry_rows[at].error);
    mem->retry_row_count--;
    memmove(&mem->retry_rows[at], &mem->retry_rows[at + 1],
            (mem->retry_row_count - at) * sizeof *mem->retry_rows);
}

/* --- streams with retry rows ------------------------------------------------------------------ */

/* Is this the first row of a stream that the query asks for? */
static bool is_head(const mem_journal *mem, size_t index, const ef__retry_query *query)
{
    const mem_retry_row *retry = &mem->retry_rows[index];
    const ef_event *event = &mem->events[retry->position - 1]->event;

    if (!ef_str_equal(mem->lanes[retry->lane].name, query->lane) || retry->position <= query->after)
        return false;
    if (query->stream.len && !ef_str_equal(event->stream, query->stream))
        return false;
    if ((query->stream.len || !query->any_tenant) && !ef_str_equal(event->tenant, query->tenant))
        return false;
    return ef__mem_retry_row_is_first(mem, index);
}

/* Rows are in the order of positions, so those of a stream are in the order of its seqs. */
static void count_rows(const mem_journal *mem, size_t head, const ef__retry_query *query,
                       ef__retry_stream *out)
{
    const mem_retry_row *first = &mem->retry_rows[head];

    for (size_t i = head; i < mem->retry_row_count; i++) {
        const mem_retry_row *retry = &mem->retry_rows[i];
        const mem_event *event = mem->events[retry->position - 1];
        if (retry->lane != first->lane || event->stream != mem->events[first->position - 1]->stream)
            continue;
        out->last_seq = event->event.seq;
        out->rows += query->counts && event->event.seq > query->above_seq;
    }
}

static ef_status list_streams(const mem_journal *mem, const ef__retry_query *query,
                              ef__retry_stream_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__retry_stream *items = ef__arena_zalloc(arena, mem->retry_row_count + 1, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    out->items = items;
    for (size_t i = 0; i < mem->retry_row_count && out->count < query->limit; i++) {
        const mem_retry_row *retry = &mem->retry_rows[i];
        const ef_event *event = &mem->events[retry->position - 1]->event;
        ef__retry_stream *to = &items[out->count];
        if (!is_head(mem, i, query))
            continue;
        *to = (ef__retry_stream){.tenant = ef__arena_copy(arena, event->tenant),
                                 .stream = ef__arena_copy(arena, event->stream),
                                 .seq = event->seq,
                                 .position = retry->position,
                                 .status = retry->status,
                                 .error = ef__arena_copy(arena, retry->error)};
        if (!to->tenant.ptr || !to->stream.ptr || !to->error.ptr)
            return ef__no_memory(err);
        count_rows(mem, i, query, to);
        out->count++;
    }
    return EF_OK;
}

ef_status ef__mem_retry_streams(ef_journal *journal, const ef__retry_query *query,
                                ef__retry_stream_list *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = list_streams(mem, query, out, err);

    ef__mem_unlock(mem);
    return st;
}
