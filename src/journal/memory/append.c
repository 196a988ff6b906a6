/*
 * append.c - appending to the memory journal.
 *
 * An append changes the journal event by event; when one event fails, the changes are undone in the
 * reverse order. All maps are grown before the first change, so undoing cannot fail.
 */
#include "memory.h"

#include "../../core/placement.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* The counts to return to when the append fails. */
typedef struct mem_append_start {
    size_t events, types;
} mem_append_start;

/* --- lookups ---------------------------------------------------------------------------------- */

typedef struct lookup_key {
    const mem_journal *mem;
    ef_str tenant, name; /* a stream name or an event id */
} lookup_key;

static bool same_id(const void *context, int64_t value)
{
    const lookup_key *key = context;
    const ef_event *event = &key->mem->events[value]->event;

    return ef_str_equal(event->tenant, key->tenant) && ef_str_equal(event->id, key->name);
}

static bool same_stream(const void *context, int64_t value)
{
    const lookup_key *key = context;
    const mem_stream *stream = &key->mem->streams[value];

    return ef_str_equal(stream->tenant, key->tenant) && ef_str_equal(stream->name, key->name);
}

int64_t ef__mem_stream_find(const mem_journal *mem, ef_str tenant, ef_str name)
{
    lookup_key key = {.mem = mem, .tenant = tenant, .name = name};

    return ef__mem_map_find(&mem->by_name, ef__mem_hash_names(tenant, name), same_stream, &key);
}

int64_t ef__mem_event_by_id(const mem_journal *mem, ef_str tenant, ef_str id)
{
    lookup_key key = {.mem = mem, .tenant = tenant, .name = id};

    return ef__mem_map_find(&mem->by_id, ef__mem_hash_names(tenant, id), same_id, &key);
}

/* --- appending -------------------------------------------------------------------------------- */

static ef_str put_text(char **at, ef_str text)
{
    ef_str put = {*at, text.len};

    if (text.len)
        memcpy(*at, text.ptr, text.len);
    (*at)[text.len] = '\0';
    *at += text.len + 1;
    return put;
}

/* The event and its texts, in one allocation. */
static mem_event *make_event(const ef_new_event *from)
{
    size_t bytes = from->tenant.len + from->stream.len + from->id.len + from->type.len +
                   from->data.len + from->meta.len + 6;
    mem_event *made = malloc(sizeof *made + bytes);
    char *at = (char *)(made + 1);

    if (!made)
        return NULL;
    *made = (mem_event){0};
    made->event.tenant = put_text(&at, from->tenant);
    made->event.stream = put_text(&at, from->stream);
    made->event.id = put_text(&at, from->id);
    made->event.type = put_text(&at, from->type);
    made->event.data = put_text(&at, from->data);
    made->event.meta = put_text(&at, from->meta);
    made->event.schema = from->schema;
    made->event.time_us = from->time_us;
    return made;
}

static bool lane_wants(const mem_journal *mem, const mem_lane *lane, ef_str stored_type)
{
    ef_str name = ef__mem_type_canonical(mem, stored_type);
    const mem_type *type = ef__mem_type_find(mem, name);

    if (!lane->enabled || lane->kind == EF_LANE_KIND_PROJECTION)
        return false;
    if (lane->kind == EF_LANE_KIND_APPLY)
        return true;
    return type && type->publish && ef__type_matches(name, lane->types);
}

static ef_status queue_rows(mem_journal *mem, const mem_event *event, ef_error *err)
{
    for (size_t i = 0; !mem->base.options.outbox_off && i < mem->lane_count; i++) {
        mem_lane *lane = &mem->lanes[i];
        mem_part *part = &lane->parts[ef__mem_partition(lane, event)];
        if (!lane_wants(mem, lane, event->event.type))
            continue;
        if (!ef__mem_grow((void **)&part->rows, &part->cap, part->count + 1, sizeof *part->rows))
            return ef__mem_no_memory(err);
        part->rows[part->count++] = event->event.position;
    }
    return EF_OK;
}

static ef_status seal_event(mem_journal *mem, ef_event *event, const ef_event *sealed,
                            ef_error *err)
{
    static const uint8_t nothing[EF_HASH_BYTES];
    const uint8_t *before =
        mem->event_count ? mem->events[mem->event_count - 1]->event.hash : nothing;

    if (!ef__event_seal(before, event, &mem->scratch, event->hash, NULL))
        return ef_fail(err, EF_NO_MEMORY, "position %" PRId64 " could not be hashed",
                       event->position);
    return sealed ? ef__sealed_hash_check(sealed, event->hash, err) : EF_OK;
}

static size_t find_or_add_stream(mem_journal *mem, const ef_event *event)
{
    int64_t found = ef__mem_stream_find(mem, event->tenant, event->stream);

    if (found >= 0)
        return (size_t)found;
    mem->streams[mem->stream_count] = (mem_stream){.tenant = event->tenant, .name = event->stream};
    ef__mem_map_add(&mem->by_name, ef__mem_hash_names(event->tenant, event->stream),
                    (int64_t)mem->stream_count);
    return mem->stream_count++;
}

/* Streams are created in the order of events, so an empty one is the last. */
static void remove_empty_stream(mem_journal *mem, const mem_stream *stream)
{
    if (stream->seq > 0)
        return;
    ef__mem_map_undo(&mem->by_name, ef__mem_hash_names(stream->tenant, stream->name),
                     (int64_t)--mem->stream_count);
    free(stream->events);
}

/* When queueing the outbox rows fails, undo_append removes the event. */
static ef_status add_event(mem_journal *mem, mem_event *fresh, ef_error *err)
{
    ef_event *event = &fresh->event;
    mem_stream *stream;

    fresh->stream = find_or_add_stream(mem, event);
    stream = &mem->streams[fresh->stream];
    assert(event->seq == stream->seq + 1); /* so that an event is found by its seq */
    if (!ef__mem_grow((void **)&stream->events, &stream->cap, (size_t)event->seq,
                      sizeof *stream->events)) {
        remove_empty_stream(mem, stream);
        free(fresh);
        return ef__mem_no_memory(err);
    }
    stream->events[stream->seq++] = mem->event_count;
    ef__mem_map_add(&mem->by_id, ef__mem_hash_names(event->tenant, event->id),
                    (int64_t)mem->event_count);
    mem->events[mem->event_count++] = fresh;
    return queue_rows(mem, fresh, err);
}

static ef_status append_new(mem_journal *mem, const ef__arrival *arrival, int64_t recorded_us,
                            ef_place *out, ef_error *err)
{
    const ef_new_event *given = &arrival->event;
    int64_t stream = ef__mem_stream_find(mem, given->tenant, given->stream);
    int64_t seq = stream < 0 ? 0 : mem->streams[stream].seq;
    mem_event *fresh;
    ef_status st = ef__seq_check(given, seq, err);

    if (st == EF_OK)
        st = ef__mem_type_create(mem, given->type, given->tenant, arrival->sealed != NULL, err);
    if (st != EF_OK)
        return st;
    if (!(fresh = make_event(given)))
        return ef__mem_no_memory(err);
    fresh->partition = ef__partition_of(given->tenant, given->stream, mem->partitions);
    fresh->partition_published =
        ef__partition_of(given->tenant, given->stream, EF_LIMIT_PUBLISHER_PARTITIONS);
    fresh->event.seq = seq + 1;
    fresh->event.position = (int64_t)mem->event_count + 1;
    fresh->event.recorded_us = arrival->sealed ? arrival->sealed->recorded_us : recorded_us;
    if ((st = seal_event(mem, &fresh->event, arrival->sealed, err)) != EF_OK) {
        free(fresh);
        return st;
    }
    out->seq = fresh->event.seq;
    out->position = fresh->event.position;
    out->duplicate = false;
    return add_event(mem, fresh, err);
}

static ef_status append_one(mem_journal *mem, const ef__arrival *arrival, int64_t recorded_us,
                            ef_place *out, ef_error *err)
{
    const ef_new_event *event = &arrival->event;
    int64_t known = -1;

    if (!arrival->id_made)
        known = ef__mem_event_by_id(mem, event->tenant, event->id);
    if (known < 0)
        return append_new(mem, arrival, recorded_us, out, err);
    if (!ef__event_same(arrival, &mem->events[known]->event))
        return ef__id_conflict(event->id, known + 1, err);
    out->seq = mem->events[known]->event.seq;
    out->position = known + 1;
    out->duplicate = true;
    return EF_OK;
}

static ef_status append_checked(mem_journal *mem, const ef__arrival *arrival, int64_t recorded_us,
                                ef_place *out, ef_error *err)
{
    ef_status st = append_one(mem, arrival, recorded_us, out, err);

    if (st == EF_OK && arrival->sealed)
        st = ef__sealed_place_check(arrival->sealed, out->position, out->duplicate, err);
    return st;
}

static void undo_queued_rows(mem_journal *mem, int64_t last_position)
{
    for (size_t i = 0; i < mem->lane_count; i++)
        for (int32_t p = 0; p < EF_LIMIT_PARTITIONS; p++) {
            mem_part *part = &mem->lanes[i].parts[p];
            while (part->count > part->first && part->rows[part->count - 1] > last_position)
                part->count--;
        }
}

static void undo_append(mem_journal *mem, const mem_append_start *before)
{
    undo_queued_rows(mem, (int64_t)before->events);
    while (mem->event_count > before->events) {
        mem_event *event = mem->events[--mem->event_count];
        mem_stream *stream = &mem->streams[event->stream];
        ef__mem_map_undo(&mem->by_id, ef__mem_hash_names(event->event.tenant, event->event.id),
                         (int64_t)mem->event_count);
        stream->seq--;
        remove_empty_stream(mem, stream);
        free(event);
    }
    while (mem->type_count > before->types)
        ef__mem_type_free(&mem->types[--mem->type_count]);
}

static bool reserve_append(mem_journal *mem, size_t count)
{
    return ef__mem_map_reserve(&mem->by_id, count) && ef__mem_map_reserve(&mem->by_name, count) &&
           ef__mem_grow((void **)&mem->events, &mem->event_cap, mem->event_count + count,
                        sizeof *mem->events) &&
           ef__mem_grow((void **)&mem->streams, &mem->stream_cap, mem->stream_count + count,
                        sizeof *mem->streams);
}

ef_status ef__mem_append(ef_journal *journal, const ef__arrival *events, size_t count,
                         ef_place *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    mem_append_start before = {mem->event_count, mem->type_count};
    int64_t recorded_us = ef__mem_now(mem);
    ef_status st = EF_OK;

    /* Recording times never decrease along the journal, even when the clock is set back. */
    if (mem->event_count && mem->events[mem->event_count - 1]->event.recorded_us > recorded_us)
        recorded_us = mem->events[mem->event_count - 1]->event.recorded_us;
    if (!reserve_append(mem, count))
        return ef__mem_no_memory(err);
    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = append_checked(mem, &events[i], recorded_us, &out[i], err);
    if (st != EF_OK) {
        undo_append(mem, &before);
        return st;
    }
    if (mem->event_count > before.events) {
        mem->commits++;
        mem->appended += (int64_t)(mem->event_count - before.events);
        (void)pthread_cond_broadcast(&mem->grown);
    }
    return EF_OK;
}
