/*
 * read.c - reading the memory journal: events, streams and types.
 */
#include "memory.h"

#include "../../base/cursor.h"
#include "../../base/limits.h"

#include <stdlib.h>

#define STREAM_CURSOR 's'

/* --- copying out ------------------------------------------------------------------------------ */

bool ef__mem_event_copy(const mem_journal *mem, const mem_event *from, ef__arena *arena,
                        ef_event *out)
{
    *out = from->event;
    out->tenant = ef__arena_copy(arena, from->event.tenant);
    out->stream = ef__arena_copy(arena, from->event.stream);
    out->id = ef__arena_copy(arena, from->event.id);
    out->type = ef__arena_copy(arena, ef__mem_type_canonical(mem, from->event.type));
    out->data = ef__arena_copy(arena, from->event.data);
    out->meta = ef__arena_copy(arena, from->event.meta);
    return out->tenant.ptr && out->stream.ptr && out->id.ptr && out->type.ptr && out->data.ptr &&
           out->meta.ptr;
}

/* Allocates an array for `count` events. */
static ef_status prepare_events(ef_batch *out, size_t count, ef_event **events, ef_error *err)
{
    *events = ef__arena_zalloc(&out->room->arena, count ? count : 1, sizeof **events);
    if (!*events)
        return ef__no_memory(err);
    out->events = *events;
    return EF_OK;
}

/* Copies one more event. False when the batch is full: it ends before this event, and `more` is
 * set. */
static bool add_event(const mem_journal *mem, const mem_event *from, bool stored_type,
                      ef_event *events, ef_batch *out)
{
    ef_event *event = &events[out->count];
    bool copied = ef__mem_event_copy(mem, from, &out->room->arena, event);

    if (copied && stored_type)
        event->type = ef__arena_copy(&out->room->arena, from->event.type);
    if (!copied || !event->type.ptr) {
        out->more = true;
        return false;
    }
    out->count++;
    return true;
}

/* --- events ----------------------------------------------------------------------------------- */

static ef_status read_stream(const mem_journal *mem, size_t stream, int64_t from_seq, size_t limit,
                             ef_batch *out, ef_error *err)
{
    int64_t head = mem->streams[stream].seq;
    size_t there = from_seq > head ? 0 : (size_t)(head - from_seq + 1);
    size_t count = there < limit ? there : limit;
    ef_event *events;
    ef_status st = prepare_events(out, count, &events, err);

    if (st != EF_OK)
        return st;
    out->more = there > limit;
    for (size_t i = 0; i < count; i++) {
        int64_t index = ef__mem_event_by_seq(mem, stream, from_seq + (int64_t)i);
        if (!add_event(mem, mem->events[index], false, events, out))
            break;
    }
    return count > 0 && out->count == 0 ? ef__no_memory(err) : EF_OK;
}

ef_status ef__mem_read_stream(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                              size_t limit, ef_batch *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    int64_t found = ef__mem_stream_find(mem, tenant, stream);
    ef_status st;

    if (found < 0)
        st = ef_fail(err, EF_NOT_FOUND, "there is no stream \"%.*s\"", EF_STR_ARG(stream));
    else
        st = read_stream(mem, (size_t)found, from_seq, limit, out, err);
    ef__mem_unlock(mem);
    return st;
}

static bool matches_query(const mem_journal *mem, const ef_log_query *query, const ef_event *event)
{
    return (query->any_tenant || ef_str_equal(event->tenant, query->tenant)) &&
           ef__type_matches(ef__mem_type_canonical(mem, event->type), query->type);
}

static ef_status read_log(const mem_journal *mem, const ef_log_query *query, ef_batch *out,
                          ef_error *err)
{
    size_t after =
        query->after > (int64_t)mem->event_count ? mem->event_count : (size_t)query->after;
    size_t rest = mem->event_count - after;
    ef_event *events;
    ef_status st = prepare_events(out, rest < query->limit ? rest : query->limit, &events, err);

    if (st != EF_OK)
        return st;
    *query->out_reached = query->after;
    for (size_t i = after; i < mem->event_count && !out->more; i++) {
        if (matches_query(mem, query, &mem->events[i]->event)) {
            if (out->count == query->limit)
                out->more = true;
            else if (!add_event(mem, mem->events[i], query->stored_types, events, out) &&
                     out->count == 0)
                return ef__no_memory(err);
        }
        if (!out->more)
            *query->out_reached = (int64_t)i + 1;
    }
    return EF_OK;
}

ef_status ef__mem_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                           ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = read_log(mem, query, out, err);

    ef__mem_unlock(mem);
    return st;
}

static ef_status read_id(const mem_journal *mem, ef_str tenant, ef_str id, ef_batch *out,
                         ef_error *err)
{
    int64_t found = ef__mem_event_by_id(mem, tenant, id);
    ef_event *events;
    ef_status st;

    if (found < 0)
        return ef_fail(err, EF_NOT_FOUND, "there is no event \"%.*s\"", EF_STR_ARG(id));
    if ((st = prepare_events(out, 1, &events, err)) != EF_OK)
        return st;
    return add_event(mem, mem->events[found], false, events, out) ? EF_OK : ef__no_memory(err);
}

ef_status ef__mem_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                          ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = read_id(mem, tenant, id, out, err);

    ef__mem_unlock(mem);
    return st;
}

/* --- streams ---------------------------------------------------------------------------------- */

ef_status ef__mem_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                              int64_t *out_position, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    int64_t found = ef__mem_stream_find(mem, tenant, stream);

    (void)err;
    *out_seq = found < 0 ? 0 : mem->streams[found].seq;
    *out_position = found < 0 ? 0 : mem->streams[found].position;
    ef__mem_unlock(mem);
    return EF_OK;
}

static ef_status list_streams(const mem_journal *mem, ef_str tenant, bool any_tenant, size_t from,
                              size_t limit, ef_stream_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    size_t rest = mem->stream_count - from;
    ef_stream *items = ef__arena_zalloc(arena, (rest < limit ? rest : limit) + 1, sizeof *items);
    size_t last = from;

    if (!items)
        return ef__no_memory(err);
    out->items = items;
    for (size_t i = from; i < mem->stream_count; i++) {
        const mem_stream *stream = &mem->streams[i];
        if (!any_tenant && !ef_str_equal(stream->tenant, tenant))
            continue;
        if (out->count == limit) {
            ef__cursor_format(STREAM_CURSOR, (int64_t)last, 0, out->next);
            break;
        }
        items[out->count] = (ef_stream){.tenant = ef__arena_copy(arena, stream->tenant),
                                        .name = ef__arena_copy(arena, stream->name),
                                        .seq = stream->seq,
                                        .position = stream->position};
        if (!items[out->count].tenant.ptr || !items[out->count].name.ptr)
            return ef__no_memory(err);
        out->count++;
        last = i + 1;
    }
    return EF_OK;
}

ef_status ef__mem_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                            size_t limit, ef_stream_list *out, ef_error *err)
{
    int64_t from, rest;
    ef_status st = ef__cursor_parse(STREAM_CURSOR, after, &from, &rest, err);
    mem_journal *mem;

    if (st != EF_OK)
        return st;
    mem = ef__mem_lock(journal);
    if (from < 0 || from > (int64_t)mem->stream_count)
        st = ef_fail(err, EF_BAD_INPUT, "after is not a cursor of this journal");
    else
        st = list_streams(mem, tenant, any_tenant, (size_t)from, limit, out, err);
    ef__mem_unlock(mem);
    return st;
}

/* --- types ------------------------------------------------------------------------------------ */

static int compare_types(const void *a, const void *b)
{
    return ef__str_compare(((const ef_type *)a)->name, ((const ef_type *)b)->name);
}

static ef_status list_types(const mem_journal *mem, const ef__type_query *query, ef_type_list *out,
                            ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_type *items = ef__arena_zalloc(arena, mem->type_count + 1, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    for (size_t i = 0; i < mem->type_count; i++) {
        const mem_type *type = &mem->types[i];
        if ((query->name.len && !ef_str_equal(type->name, query->name)) ||
            (query->not_folded && type->intent == EF_INTENT_PROJECTION_AND_REPLAY))
            continue;
        items[out->count] = (ef_type){.name = ef__arena_copy(arena, type->name),
                                      .intent = type->intent,
                                      .publish = type->publish,
                                      .alias_of = ef__arena_copy(arena, type->alias_of)};
        if (!items[out->count].name.ptr || !items[out->count].alias_of.ptr)
            return ef__no_memory(err);
        out->count++;
    }
    qsort(items, out->count, sizeof *items, compare_types);
    out->items = items;
    return EF_OK;
}

ef_status ef__mem_type_ls(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                          ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = list_types(mem, query, out, err);

    ef__mem_unlock(mem);
    return st;
}
