/*
 * read.c - reading the memory journal: events and streams, waiting, and the check of the hash
 * chain.
 */
#include "memory.h"

#include "../refusal.h"

#include "../../base/cursor.h"
#include "../../base/deadline.h"

#include <errno.h>
#include <inttypes.h>

#define STREAM_CURSOR 's'
#define PROGRESS_EVERY 1024 /* events: a callback per event would cost more than the check */

/* --- copying out ------------------------------------------------------------------------------ */

static const ef__texts event_texts = {6,
                                      {offsetof(ef_event, tenant), offsetof(ef_event, stream),
                                       offsetof(ef_event, id), offsetof(ef_event, type),
                                       offsetof(ef_event, data), offsetof(ef_event, meta)}};

bool ef__mem_event_copy(const mem_journal *mem, const mem_event *from, ef__arena *arena,
                        ef_event *out)
{
    *out = from->event;
    out->type = ef__mem_type_canonical(mem, from->event.type);
    return ef__texts_own(&event_texts, out, arena);
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

/* Copies one more event. False when the batch is full: it ends before it, and `more` is set. */
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

static ef_status read_stream(ef_journal *journal, ef_str tenant, ef_str name, int64_t from_seq,
                             size_t limit, ef_batch *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    int64_t found = ef__mem_stream_find(mem, tenant, name);
    const mem_stream *stream = found < 0 ? NULL : &mem->streams[found];
    int64_t head = stream ? stream->seq : 0;
    size_t there = from_seq > head ? 0 : (size_t)(head - from_seq + 1);
    size_t count = there < limit ? there : limit;
    ef_event *events;
    ef_status st;

    if (!stream)
        return ef__refuse_unknown("stream", name, err);
    if ((st = prepare_events(out, count, &events, err)) != EF_OK)
        return st;
    out->more = there > limit;
    for (size_t i = 0; i < count; i++)
        if (!add_event(mem, mem->events[stream->events[from_seq - 1 + (int64_t)i]], false, events,
                       out))
            break;
    return count > 0 && out->count == 0 ? ef__no_memory(err) : EF_OK;
}

static bool matches_query(const mem_journal *mem, const ef_log_query *query, const ef_event *event)
{
    return (query->any_tenant || ef_str_equal(event->tenant, query->tenant)) &&
           ef__type_matches(ef__mem_type_canonical(mem, event->type), query->type);
}

static ef_status read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                          ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
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

static ef_status read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                         ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    int64_t found = ef__mem_event_by_id(mem, tenant, id);
    ef_event *events;
    ef_status st;

    if (found < 0)
        return ef__refuse_unknown("event", id, err);
    if ((st = prepare_events(out, 1, &events, err)) != EF_OK)
        return st;
    return add_event(mem, mem->events[found], false, events, out) ? EF_OK : ef__no_memory(err);
}

/* --- streams ---------------------------------------------------------------------------------- */

static ef_status read_stream_head(ef_journal *journal, ef_str tenant, ef_str stream,
                                  int64_t *out_seq, int64_t *out_position, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    int64_t found = ef__mem_stream_find(mem, tenant, stream);

    (void)err;
    *out_seq = found < 0 ? 0 : mem->streams[found].seq;
    *out_position = found < 0 ? 0 : ef__mem_stream_position(&mem->streams[found]);
    return EF_OK;
}

static ef_status list_streams(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                              size_t limit, ef_stream_list *out, ef_error *err)
{
    static const ef__texts texts = {2, {offsetof(ef_stream, tenant), offsetof(ef_stream, name)}};
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    int64_t from, rest;
    ef_status st = ef__cursor_parse(STREAM_CURSOR, after, &from, &rest, err);

    if (st == EF_OK && (from < 0 || from > (int64_t)mem->stream_count))
        st = ef__refuse_cursor(err);
    for (size_t i = (size_t)from; st == EF_OK && i < mem->stream_count; i++) {
        const mem_stream *stream = &mem->streams[i];
        if (!any_tenant && !ef_str_equal(stream->tenant, tenant))
            continue;
        if (out->count == limit) {
            ef__cursor_format(STREAM_CURSOR, from, 0, out->next);
            break;
        }
        st = ef__list_add(out,
                          (&(ef_stream){stream->tenant, stream->name, stream->seq,
                                        ef__mem_stream_position(stream)}),
                          &texts, err);
        from = (int64_t)i + 1;
    }
    return st;
}

/* --- the log as a whole ----------------------------------------------------------------------- */

static ef_status wait_for_events(ef_journal *journal, int64_t after, int64_t *wake,
                                 int64_t timeout_ms, ef_error *err)
{
    struct timespec deadline = ef__deadline(CLOCK_MONOTONIC, timeout_ms);
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    int late = 0;
    bool grown, woken;

    while ((int64_t)mem->event_count <= after && !(wake && *wake != mem->wakes) &&
           late != ETIMEDOUT)
        late = pthread_cond_timedwait(&mem->grown, &mem->mutex, &deadline);
    grown = (int64_t)mem->event_count > after;
    woken = wake && *wake != mem->wakes;
    if (wake)
        *wake = mem->wakes;
    if (grown || woken)
        return EF_OK;
    return ef__refuse_wait(after, timeout_ms, err);
}

static ef_status read_head(ef_journal *journal, ef_head *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    *out = (ef_head){0};
    if (mem->event_count) {
        const ef_event *last = &mem->events[mem->event_count - 1]->event;
        out->position = last->position;
        out->recorded_us = last->recorded_us;
        memcpy(out->hash, last->hash, sizeof out->hash);
    }
    return EF_OK;
}

/* Does the event at `index` match its hash, and do all maps lead to it? */
static bool is_event_intact(mem_journal *mem, size_t index)
{
    static const uint8_t nothing[EF_HASH_BYTES];
    const mem_event *row = mem->events[index];
    const ef_event *event = &row->event;
    const mem_stream *stream = &mem->streams[row->stream];
    const uint8_t *before = index ? mem->events[index - 1]->event.hash : nothing;
    uint8_t hash[EF_HASH_BYTES];

    return event->position == (int64_t)index + 1 &&
           ef__event_seal(before, event, &mem->scratch, hash, NULL) &&
           memcmp(hash, event->hash, sizeof hash) == 0 &&
           ef__mem_stream_find(mem, event->tenant, event->stream) == (int64_t)row->stream &&
           event->seq >= 1 && event->seq <= stream->seq &&
           stream->events[event->seq - 1] == index &&
           ef__mem_event_by_id(mem, event->tenant, event->id) == (int64_t)index;
}

static ef_status verify_events(ef_journal *journal, int64_t from,
                               bool (*progress)(void *context, int64_t done, int64_t total),
                               void *context, ef_verify_result *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    int64_t first = from > 0 ? from : 1;
    int64_t total = (int64_t)mem->event_count - first + 1;

    out->head = (int64_t)mem->event_count;
    for (int64_t at = first; at <= out->head && !out->damaged; at++) {
        if (progress && out->checked % PROGRESS_EVERY == 0 &&
            !progress(context, out->checked, total))
            break;
        if (!is_event_intact(mem, (size_t)at - 1))
            out->damaged = at;
        out->checked++;
    }
    if (out->damaged)
        return ef_fail(err, EF_DAMAGED,
                       "the event at position %" PRId64 " is not as it was written", out->damaged);
    return EF_OK;
}

const ef__events_ops ef__mem_events_ops = {
    .append = ef__mem_append,
    .read_stream = read_stream,
    .read_log = read_log,
    .read_id = read_id,
    .wait = wait_for_events,
    .head = read_head,
    .stream_head = read_stream_head,
    .stream_ls = list_streams,
    .verify = verify_events,
};
