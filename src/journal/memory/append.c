/*
 * append.c - appending to the memory journal.
 *
 * An append goes event by event and changes things as it goes; when one of them fails, everything
 * is undone in the reverse order. All maps are made large enough before, so undoing cannot fail.
 */
#include "memory.h"

#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

/* What to go back to. */
typedef struct mem_before {
    size_t events, streams, types;
} mem_before;

/* --- finding ---------------------------------------------------------------------------------- */

typedef struct pair_key {
    const mem_journal *m;
    ef_str a, b;
    int64_t x, y;
} pair_key;

static bool same_id(const void *context, int64_t value)
{
    const pair_key *key = context;
    const ef_event *event = &key->m->events[value]->event;

    return ef_str_equal(event->tenant, key->a) && ef_str_equal(event->id, key->b);
}

static bool same_stream(const void *context, int64_t value)
{
    const pair_key *key = context;
    const mem_stream *stream = &key->m->streams[value];

    return ef_str_equal(stream->tenant, key->a) && ef_str_equal(stream->name, key->b);
}

static bool same_seq(const void *context, int64_t value)
{
    const pair_key *key = context;
    const mem_event *event = key->m->events[value];

    return (int64_t)event->stream == key->x && event->event.seq == key->y;
}

int64_t ef__mem_stream_find(const mem_journal *m, ef_str tenant, ef_str name)
{
    pair_key key = {.m = m, .a = tenant, .b = name};

    return ef__mem_map_find(&m->by_name, ef__mem_hash_names(tenant, name), same_stream, &key);
}

int64_t ef__mem_event_by_id(const mem_journal *m, ef_str tenant, ef_str id)
{
    pair_key key = {.m = m, .a = tenant, .b = id};

    return ef__mem_map_find(&m->by_id, ef__mem_hash_names(tenant, id), same_id, &key);
}

int64_t ef__mem_event_by_seq(const mem_journal *m, size_t stream, int64_t seq)
{
    pair_key key = {.m = m, .x = (int64_t)stream, .y = seq};

    return ef__mem_map_find(&m->by_seq, ef__mem_hash_numbers((int64_t)stream, seq), same_seq, &key);
}

mem_type *ef__mem_type_find(const mem_journal *m, ef_str name)
{
    for (size_t i = 0; i < m->type_count; i++)
        if (ef_str_equal(m->types[i].name, name))
            return &m->types[i];
    return NULL;
}

ef_str ef__mem_type_canonical(const mem_journal *m, ef_str name)
{
    const mem_type *type = ef__mem_type_find(m, name);

    return type && type->alias_of.len ? type->alias_of : name;
}

/* --- types ------------------------------------------------------------------------------------ */

static ef_status create_check(const mem_journal *m, ef_str tenant, ef_str type, ef_error *err)
{
    int64_t created = 0;

    for (size_t i = 0; i < m->type_count; i++)
        created += !m->types[i].registered && ef_str_equal(m->types[i].tenant, tenant);
    return ef__type_create_check(&m->base.options, tenant, type, created, (int64_t)m->type_count,
                                 err);
}

/* `tenant` is the one whose append creates it; NULL: it is registered. */
static ef_status add_type(mem_journal *m, ef_str name, const ef_str *tenant, mem_type **out,
                          ef_error *err)
{
    mem_type type = {.intent = EF_INTENT_PROJECTION_AND_REPLAY, .registered = !tenant};

    if (!ef__mem_grow((void **)&m->types, &m->type_cap, m->type_count, sizeof *m->types) ||
        !ef__mem_text_set(&type.name, name) ||
        !ef__mem_text_set(&type.tenant, tenant ? *tenant : (ef_str){0}))
        return ef__mem_no_memory(err);
    m->types[m->type_count] = type;
    *out = &m->types[m->type_count++];
    return EF_OK;
}

static ef_status check_alias(const mem_journal *m, const ef_type *type, ef_error *err)
{
    const mem_type *target = ef__mem_type_find(m, type->alias_of);

    if (target && target->alias_of.len)
        return ef_fail(err, EF_BAD_INPUT, "type \"%.*s\": \"%.*s\" is an alias itself",
                       EF_STR_ARG(type->name), EF_STR_ARG(type->alias_of));
    for (size_t i = 0; i < m->type_count; i++)
        if (ef_str_equal(m->types[i].alias_of, type->name))
            return ef_fail(err, EF_BAD_INPUT,
                           "type \"%.*s\" cannot be an alias: \"%.*s\" is an alias of it",
                           EF_STR_ARG(type->name), EF_STR_ARG(m->types[i].name));
    return EF_OK;
}

static ef_status set_type(mem_journal *m, const ef_type *type, ef_error *err)
{
    mem_type *row = NULL;
    ef_str alias = {0};
    ef_status st;

    if (type->alias_of.len) {
        if ((st = check_alias(m, type, err)) != EF_OK)
            return st;
        /* The canonical type is there from now on too, so that it can be listed and set. */
        if (!ef__mem_type_find(m, type->alias_of) &&
            (st = add_type(m, type->alias_of, NULL, &row, err)) != EF_OK)
            return st;
    }
    row = ef__mem_type_find(m, type->name);
    if (!row && (st = add_type(m, type->name, NULL, &row, err)) != EF_OK)
        return st;
    if (!ef__mem_text_set(&alias, type->alias_of))
        return ef__mem_no_memory(err);
    ef__mem_text_free(&row->alias_of);
    row->alias_of = alias;
    row->intent = type->intent;
    row->publish = type->publish;
    return EF_OK;
}

ef_status ef__mem_type_set(ef_journal *journal, const ef_type *type, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = set_type(m, type, err);

    ef__mem_unlock(m);
    return st;
}

/* --- appending -------------------------------------------------------------------------------- */

static ef_str text_put(char **at, ef_str text)
{
    ef_str put = {*at, text.len};

    if (text.len)
        memcpy(*at, text.ptr, text.len);
    (*at)[text.len] = '\0';
    *at += text.len + 1;
    return put;
}

/* The event with its texts, in one piece. */
static mem_event *event_make(const ef_new_event *from)
{
    size_t bytes = from->tenant.len + from->stream.len + from->id.len + from->type.len +
                   from->data.len + from->meta.len + 6;
    mem_event *made = malloc(sizeof *made + bytes);
    char *at = (char *)(made + 1);

    if (!made)
        return NULL;
    *made = (mem_event){0};
    made->event.tenant = text_put(&at, from->tenant);
    made->event.stream = text_put(&at, from->stream);
    made->event.id = text_put(&at, from->id);
    made->event.type = text_put(&at, from->type);
    made->event.data = text_put(&at, from->data);
    made->event.meta = text_put(&at, from->meta);
    made->event.schema = from->schema;
    made->event.time_us = from->time_us;
    return made;
}

static bool lane_wants(const mem_journal *m, const mem_lane *lane, ef_str stored_type)
{
    ef_str name = ef__mem_type_canonical(m, stored_type);
    const mem_type *type = ef__mem_type_find(m, name);

    if (!lane->enabled || lane->kind == EF_LANE_KIND_PROJECTION)
        return false;
    if (lane->kind == EF_LANE_KIND_APPLY)
        return true;
    return type && type->publish && ef__type_matches(name, lane->types);
}

static ef_status queue_rows(mem_journal *m, const mem_event *event, ef_error *err)
{
    for (size_t i = 0; !m->base.options.outbox_off && i < m->lane_count; i++) {
        mem_part *part = &m->lanes[i].parts[event->partition];
        if (!lane_wants(m, &m->lanes[i], event->event.type))
            continue;
        if (!ef__mem_grow((void **)&part->rows, &part->cap, part->count, sizeof *part->rows))
            return ef__mem_no_memory(err);
        part->rows[part->count++] = event->event.position;
    }
    return EF_OK;
}

static ef_status seal(mem_journal *m, ef_event *event, const ef_event *sealed, ef_error *err)
{
    static const uint8_t nothing[EF_HASH_BYTES];
    const uint8_t *before = m->event_count ? m->events[m->event_count - 1]->event.hash : nothing;

    if (!ef__event_seal(before, event, &m->scratch, event->hash, NULL))
        return ef_fail(err, EF_NO_MEMORY, "position %" PRId64 " could not be hashed",
                       event->position);
    return sealed ? ef__sealed_hash_check(sealed, event->hash, err) : EF_OK;
}

static size_t stream_of(mem_journal *m, const ef_event *event)
{
    int64_t found = ef__mem_stream_find(m, event->tenant, event->stream);

    if (found >= 0)
        return (size_t)found;
    m->streams[m->stream_count] = (mem_stream){.tenant = event->tenant, .name = event->stream};
    ef__mem_map_add(&m->by_name, ef__mem_hash_names(event->tenant, event->stream),
                    (int64_t)m->stream_count);
    return m->stream_count++;
}

/* From here on nothing fails but the outbox rows: undo_to takes the event back. */
static ef_status place_event(mem_journal *m, mem_event *fresh, ef_error *err)
{
    ef_event *event = &fresh->event;
    mem_stream *stream;

    fresh->stream = stream_of(m, event);
    stream = &m->streams[fresh->stream];
    fresh->before = stream->position;
    stream->seq = event->seq;
    stream->position = event->position;
    ef__mem_map_add(&m->by_id, ef__mem_hash_names(event->tenant, event->id),
                    (int64_t)m->event_count);
    ef__mem_map_add(&m->by_seq, ef__mem_hash_numbers((int64_t)fresh->stream, event->seq),
                    (int64_t)m->event_count);
    m->events[m->event_count++] = fresh;
    return queue_rows(m, fresh, err);
}

static ef_status append_new(mem_journal *m, const ef__arrival *arrival, int64_t recorded_us,
                            ef_place *out, ef_error *err)
{
    const ef_new_event *given = &arrival->event;
    int64_t stream = ef__mem_stream_find(m, given->tenant, given->stream);
    int64_t seq = stream < 0 ? 0 : m->streams[stream].seq;
    mem_type *type = ef__mem_type_find(m, given->type);
    mem_event *fresh;
    ef_status st = ef__seq_check(given, seq, err);

    if (st != EF_OK)
        return st;
    if (!type && m->base.options.types_strict)
        return ef_fail(err, EF_UNKNOWN_TYPE, "type \"%.*s\" is not registered",
                       EF_STR_ARG(given->type));
    if (!type && !arrival->sealed &&
        (st = create_check(m, given->tenant, given->type, err)) != EF_OK)
        return st;
    if (!type && (st = add_type(m, given->type, &given->tenant, &type, err)) != EF_OK)
        return st;
    if (!(fresh = event_make(given)))
        return ef__mem_no_memory(err);
    fresh->partition = ef__partition_of(given->tenant, given->stream, m->partitions);
    fresh->event.seq = seq + 1;
    fresh->event.position = (int64_t)m->event_count + 1;
    fresh->event.recorded_us = arrival->sealed ? arrival->sealed->recorded_us : recorded_us;
    if ((st = seal(m, &fresh->event, arrival->sealed, err)) != EF_OK) {
        free(fresh);
        return st;
    }
    out->seq = fresh->event.seq;
    out->position = fresh->event.position;
    out->duplicate = false;
    return place_event(m, fresh, err);
}

static ef_status append_one(mem_journal *m, const ef__arrival *arrival, int64_t recorded_us,
                            ef_place *out, ef_error *err)
{
    const ef_new_event *event = &arrival->event;
    int64_t known = -1;

    if (!arrival->id_made)
        known = ef__mem_event_by_id(m, event->tenant, event->id);
    if (known < 0)
        return append_new(m, arrival, recorded_us, out, err);
    if (!ef__event_same(arrival, &m->events[known]->event))
        return ef__id_conflict(event->id, known + 1, err);
    out->seq = m->events[known]->event.seq;
    out->position = known + 1;
    out->duplicate = true;
    return EF_OK;
}

static ef_status append_checked(mem_journal *m, const ef__arrival *arrival, int64_t recorded_us,
                                ef_place *out, ef_error *err)
{
    ef_status st = append_one(m, arrival, recorded_us, out, err);

    if (st == EF_OK && arrival->sealed)
        st = ef__sealed_place_check(arrival->sealed, out->position, out->duplicate, err);
    return st;
}

static void undo_rows(mem_journal *m, int64_t last_position)
{
    for (size_t i = 0; i < m->lane_count; i++)
        for (int32_t p = 0; p < EF_LIMIT_PARTITIONS; p++) {
            mem_part *part = &m->lanes[i].parts[p];
            while (part->count > part->first && part->rows[part->count - 1] > last_position)
                part->count--;
        }
}

static void undo_to(mem_journal *m, const mem_before *before)
{
    undo_rows(m, (int64_t)before->events);
    while (m->event_count > before->events) {
        mem_event *event = m->events[--m->event_count];
        mem_stream *stream = &m->streams[event->stream];
        int64_t index = (int64_t)m->event_count;
        ef__mem_map_undo(&m->by_seq, ef__mem_hash_numbers((int64_t)event->stream, event->event.seq),
                         index);
        ef__mem_map_undo(&m->by_id, ef__mem_hash_names(event->event.tenant, event->event.id),
                         index);
        stream->seq = event->event.seq - 1;
        stream->position = event->before;
        /* Streams are made in the order of events, so a new one is the last one here. */
        if (event->stream >= before->streams && stream->seq == 0)
            ef__mem_map_undo(&m->by_name, ef__mem_hash_names(stream->tenant, stream->name),
                             (int64_t)--m->stream_count);
        free(event);
    }
    while (m->type_count > before->types) {
        ef__mem_text_free(&m->types[--m->type_count].name);
        ef__mem_text_free(&m->types[m->type_count].tenant);
    }
}

static bool reserve(mem_journal *m, size_t count)
{
    bool ok = ef__mem_map_reserve(&m->by_id, count) && ef__mem_map_reserve(&m->by_seq, count) &&
              ef__mem_map_reserve(&m->by_name, count);

    while (ok && m->event_cap < m->event_count + count)
        ok = ef__mem_grow((void **)&m->events, &m->event_cap, m->event_cap, sizeof *m->events);
    while (ok && m->stream_cap < m->stream_count + count)
        ok = ef__mem_grow((void **)&m->streams, &m->stream_cap, m->stream_cap, sizeof *m->streams);
    return ok;
}

static ef_status append_all(mem_journal *m, const ef__arrival *events, size_t count, ef_place *out,
                            ef_error *err)
{
    mem_before before = {m->event_count, m->stream_count, m->type_count};
    int64_t recorded_us = ef__mem_now(m);
    ef_status st = EF_OK;

    /* Times never fall along the journal, even when the clock is set back. */
    if (m->event_count && m->events[m->event_count - 1]->event.recorded_us > recorded_us)
        recorded_us = m->events[m->event_count - 1]->event.recorded_us;
    if (!reserve(m, count))
        return ef__mem_no_memory(err);
    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = append_checked(m, &events[i], recorded_us, &out[i], err);
    if (st != EF_OK) {
        undo_to(m, &before);
        return st;
    }
    if (m->event_count > before.events) {
        m->commits++;
        m->appended += (int64_t)(m->event_count - before.events);
        (void)pthread_cond_broadcast(&m->grown);
    }
    return EF_OK;
}

ef_status ef__mem_append(ef_journal *journal, const ef__arrival *events, size_t count,
                         ef_place *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = append_all(m, events, count, out, err);

    ef__mem_unlock(m);
    return st;
}
