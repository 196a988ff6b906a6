/*
 * state.c - see state.h. All functions run under the state lock of the store or, in an ef_sqlite,
 * in its only thread.
 */
#include "state.h"

#include "../../base/hash.h"
#include "../../base/limits.h"

#include <inttypes.h>
#include <stdlib.h>

/* The names of EF_LIMIT_TYPES types of 255 bytes each, and their hash table. */
#define NAMES_BYTES_MAX (512u << 20)

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "out of memory while reading the journal's tail");
}

void sq_state_init(sq_state *state)
{
    *state = (sq_state){.names = EF__ARENA_INIT(NAMES_BYTES_MAX),
                        .type_names = EF__PAIR_MAP_INIT(int32_t, NAMES_BYTES_MAX),
                        .type_tenants = EF__PAIR_MAP_INIT(int64_t, NAMES_BYTES_MAX),
                        .type_memo = -1,
                        .streams_max = SQ_STREAMS_CACHED};
}

static void drop_frozen(sq_state *state)
{
    free(state->frozen_ids);
    free(state->frozen_streams);
    state->frozen_ids = NULL;
    state->frozen_streams = NULL;
    state->frozen_target = 0;
}

void sq_state_release(sq_state *state)
{
    sq_state_drop_streams(state);
    drop_frozen(state);
    free(state->by_name);
    free(state->by_id);
    free(state->entries);
    free(state->id_buckets);
    free(state->stream_buckets);
    free(state->types);
    ef__pair_map_release(&state->type_names);
    ef__pair_map_release(&state->type_tenants);
    free(state->lanes);
    sq_filter_release(&state->filter);
    ef__arena_release(&state->names);
    sq_state_init(state);
}

/* --- the tail -------------------------------------------------------------------------------- */

int64_t sq_id_hash(ef_str tenant, ef_str id)
{
    uint64_t seed = tenant.len ? ef__xxh3(tenant, 1) : 0;

    return (int64_t)ef__xxh3(id, seed);
}

/* Adds entry i to its buckets. */
static void link_entry(sq_state *state, int32_t i)
{
    sq_tail_entry *e = &state->entries[i];
    int32_t *slot = &state->id_buckets[sq_bucket((uint64_t)e->id_hash, state->bucket_count)];

    e->next_id = *slot;
    *slot = i;

    slot = &state->stream_buckets[sq_bucket((uint64_t)e->stream, state->bucket_count)];
    e->prev_stream = -1;
    for (int32_t *at = slot; *at >= 0; at = &state->entries[*at].next_stream) {
        if (state->entries[*at].stream == e->stream) {
            /* Only the newest entry of a stream is in a bucket: it replaces the older one. */
            e->prev_stream = *at;
            e->next_stream = state->entries[*at].next_stream;
            *at = i;
            return;
        }
    }
    e->next_stream = *slot;
    *slot = i;
}

static void relink_all(sq_state *state)
{
    for (size_t i = 0; i < state->bucket_count; i++)
        state->id_buckets[i] = state->stream_buckets[i] = -1;
    for (size_t i = 0; i < state->entry_count; i++)
        link_entry(state, (int32_t)i);
}

static bool grow_tail(sq_state *state)
{
    size_t cap = state->entry_cap ? state->entry_cap * 2 : 1024;
    void *entries = realloc(state->entries, cap * sizeof *state->entries);
    int32_t *ids, *streams;

    if (!entries)
        return false;
    state->entries = entries;
    ids = realloc(state->id_buckets, cap * sizeof *ids);
    if (ids)
        state->id_buckets = ids;
    streams = realloc(state->stream_buckets, cap * sizeof *streams);
    if (streams)
        state->stream_buckets = streams;
    if (!ids || !streams)
        return false;
    state->entry_cap = state->bucket_count = cap;
    relink_all(state);
    return true;
}

ef_status sq_state_add(sq_state *state, int64_t position, int64_t stream, int64_t seq,
                       int64_t id_hash, ef_error *err)
{
    if (position != state->progress.settled + 1 + (int64_t)state->entry_count)
        return ef_fail(err, EF_DAMAGED, "position %" PRId64 " is missing from the journal",
                       state->progress.settled + 1 + (int64_t)state->entry_count);
    if (state->entry_count == state->entry_cap && !grow_tail(state))
        return no_memory(err);
    state->entries[state->entry_count] =
        (sq_tail_entry){.id_hash = id_hash, .stream = stream, .seq = seq};
    state->entry_count++;
    link_entry(state, (int32_t)state->entry_count - 1);
    state->last = position;
    return EF_OK;
}

void sq_state_settled(sq_state *state, int64_t from)
{
    size_t gone = (size_t)(state->progress.settled - from);

    if (gone > state->entry_count)
        gone = state->entry_count;
    if (state->filter.words)
        for (size_t i = 0; i < gone; i++)
            sq_filter_add(&state->filter, state->entries[i].id_hash);
    state->entry_count -= gone;
    memmove(state->entries, state->entries + gone, state->entry_count * sizeof *state->entries);
    relink_all(state);
    drop_frozen(state);
}

/* --- types ------------------------------------------------------------------------------------ */

static ef_status no_memory_for_types(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "out of memory while reading the event types");
}

/* Types are added in the order of their ids, without gaps unless a row was deleted by hand. */
const sq_type *sq_state_type_by_id(const sq_state *state, int64_t id)
{
    size_t low = 0, high = state->type_count;

    if (id >= 1 && id <= (int64_t)high && state->types[id - 1].id == id)
        return &state->types[id - 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (state->types[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < state->type_count && state->types[low].id == id ? &state->types[low] : NULL;
}

const sq_type *sq_state_type(sq_state *state, ef_str name)
{
    const int32_t *index;

    if (state->type_memo >= 0 && ef_str_equal(state->types[state->type_memo].name, name))
        return &state->types[state->type_memo];
    index = ef__pair_map_find(&state->type_names, (ef_str){0}, name);
    if (!index)
        return NULL;
    state->type_memo = *index;
    return &state->types[*index];
}

static ef_status grow_types(sq_state *state, ef_error *err)
{
    size_t cap = state->type_cap ? state->type_cap * 2 : 32;
    void *types;

    if (state->type_count < state->type_cap)
        return EF_OK;
    types = realloc(state->types, cap * sizeof *state->types);
    if (!types)
        return no_memory_for_types(err);
    state->types = types;
    state->type_cap = cap;
    return EF_OK;
}

ef_status sq_state_type_add(sq_state *state, int64_t id, ef_str name, const ef_str *tenant,
                            ef_error *err)
{
    ef_str kept = ef__arena_copy(&state->names, name);
    bool is_new;
    int32_t *index = ef__pair_map_at(&state->type_names, (ef_str){0}, name, &is_new);
    int64_t *created =
        tenant ? ef__pair_map_at(&state->type_tenants, *tenant, (ef_str){0}, &is_new) : NULL;

    if (!kept.ptr || !index || (tenant && !created))
        return no_memory_for_types(err);
    if (grow_types(state, err) != EF_OK)
        return EF_NO_MEMORY;
    *index = (int32_t)state->type_count;
    state->types[state->type_count++] = (sq_type){.id = id, .canonical = *index, .name = kept};
    if (created)
        ++*created;
    return EF_OK;
}

int64_t sq_state_types_of(const sq_state *state, ef_str tenant)
{
    const int64_t *created = ef__pair_map_find(&state->type_tenants, tenant, (ef_str){0});

    return created ? *created : 0;
}

/* Adds the type of a row. An alias has the id of its canonical type until resolve_aliases. */
static ef_status load_type(sq_state *state, const struct sq_type_all_row *row, ef_error *err)
{
    ef_status st =
        sq_state_type_add(state, row->id, row->name, row->has_tenant ? &row->tenant : NULL, err);
    sq_type *type = st == EF_OK ? &state->types[state->type_count - 1] : NULL;

    if (!type)
        return st;
    type->intent = (ef_intent)row->intent;
    type->publish = row->publish;
    type->alias_of = row->alias_of;
    state->types_not_folded += type->intent != EF_INTENT_PROJECTION_AND_REPLAY;
    return EF_OK;
}

static void resolve_aliases(sq_state *state)
{
    for (size_t i = 0; i < state->type_count; i++) {
        sq_type *type = &state->types[i];
        const sq_type *canonical =
            type->alias_of ? sq_state_type_by_id(state, type->alias_of) : NULL;
        if (canonical)
            type->canonical = (int32_t)(canonical - state->types);
    }
}

static ef_status load_types(sq_state *state, ef__sq_conn *conn, ef_error *err)
{
    ef__sq_rows rows = sq_each_type_all(conn, NULL, err);
    struct sq_type_all_row row;
    ef_status st;

    state->type_count = 0;
    state->type_memo = -1;
    state->types_not_folded = 0;
    ef__pair_map_reset(&state->type_names);
    ef__pair_map_reset(&state->type_tenants);
    while (sq_next_type_all(&rows, &row))
        rows.status = load_type(state, &row, err);
    st = ef__sq_rows_end(&rows);
    if (st == EF_OK)
        resolve_aliases(state);
    return st;
}

/* --- lanes ------------------------------------------------------------------------------------ */

static ef_status load_lanes(sq_state *state, ef__sq_conn *conn, ef_error *err)
{
    ef__sq_rows rows = sq_each_lane_all(conn, &state->names, err);
    sq_lane lane;

    state->lane_count = 0;
    while (sq_next_lane_all(&rows, &lane)) {
        sq_lane *lanes = realloc(state->lanes, (state->lane_count + 1) * sizeof *lanes);
        if (lanes) {
            state->lanes = lanes;
            lanes[state->lane_count++] = lane;
        } else {
            rows.status = no_memory(err);
        }
    }
    return ef__sq_rows_end(&rows);
}

/* --- sync ------------------------------------------------------------------------------------- */

static ef_status read_progress(ef__sq_conn *conn, sq_progress *out, ef_error *err)
{
    bool found;
    ef_status st = sq_one_state_get(conn, out, &found, err);

    if (st != EF_OK)
        return st;
    if (!found)
        return ef_fail(err, EF_DAMAGED, "the journal's state row is missing");
    if (out->partitions < 1 || out->partitions > EF_LIMIT_PARTITIONS)
        return ef_fail(err, EF_DAMAGED, "the journal's state row says %" PRId32 " partitions",
                       out->partitions);
    return EF_OK;
}

static ef_status read_last(sq_state *state, ef__sq_conn *conn, int64_t *out_last, ef_error *err)
{
    ef__sq_rows rows = sq_each_event_last(conn, NULL, err);
    struct sq_event_last_row last;

    *out_last = 0;
    if (!sq_next_event_last(&rows, &last))
        return rows.status;
    *out_last = last.position;
    state->last_recorded_us = last.recorded;
    if (last.hash.len == EF_HASH_BYTES)
        memcpy(state->last_hash, last.hash.ptr, EF_HASH_BYTES);
    else
        rows.status = ef_fail(err, EF_DAMAGED, "position %" PRId64 " has no hash", *out_last);
    return ef__sq_rows_end(&rows);
}

static ef_status load_tail(sq_state *state, ef__sq_conn *conn, int64_t last, ef_error *err)
{
    ef__sq_rows rows = sq_each_event_tail(
        conn, &(struct sq_event_tail){.position = state->last, .last = last}, NULL, err);
    struct sq_event_tail_row row;
    ef_status st;

    while (sq_next_event_tail(&rows, &row)) {
        rows.status = sq_state_add(state, row.position, row.stream, row.seq,
                                   sq_id_hash(row.tenant, row.id), err);
        if (rows.status == EF_OK)
            rows.status =
                sq_state_follow(state, &state->entries[state->entry_count - 1], row.position, err);
    }
    st = ef__sq_rows_end(&rows);
    if (st == EF_OK && state->last != last)
        st = ef_fail(err, EF_DAMAGED, "position %" PRId64 " is missing from the journal",
                     state->last + 1);
    return st;
}

static ef_status adopt_progress(sq_state *state, const sq_progress *now)
{
    int64_t from = state->progress.settled;

    state->progress = *now;
    if (now->settled == from)
        return EF_OK;
    if (now->settled <= state->last) {
        sq_state_settled(state, from);
        return EF_OK;
    }
    /* Another process has settled events that this one has not read: start from there. */
    state->entry_count = 0;
    relink_all(state);
    drop_frozen(state);
    sq_state_drop_streams(state);
    sq_filter_release(&state->filter);
    state->last = now->settled;
    return EF_OK;
}

/* Types and lanes change rarely: all are read again when one has changed. */
static ef_status reload_names(sq_state *state, ef__sq_conn *conn, ef_error *err)
{
    ef_status st;

    if (state->progress.types_version == state->types_loaded &&
        state->progress.lanes_version == state->lanes_loaded)
        return EF_OK;
    ef__arena_reset(&state->names);
    st = load_types(state, conn, err);
    if (st == EF_OK)
        st = load_lanes(state, conn, err);
    state->types_loaded = st == EF_OK ? state->progress.types_version : 0;
    state->lanes_loaded = st == EF_OK ? state->progress.lanes_version : 0;
    return st;
}

unsigned sq_data_version(const ef__sq_conn *conn)
{
    unsigned version = 0;

    (void)sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    return version;
}

ef_status sq_state_sync(sq_state *state, ef__sq_conn *conn, ef_error *err)
{
    sq_progress now;
    int64_t last;
    ef_status st;

    st = read_progress(conn, &now, err);
    if (st == EF_OK)
        st = read_last(state, conn, &last, err);
    if (st == EF_OK && last < state->last)
        st = ef_fail(err, EF_DAMAGED,
                     "the journal ends at position %" PRId64 ", but reached %" PRId64
                     " while it was open",
                     last, state->last);
    if (st != EF_OK)
        return st;
    st = adopt_progress(state, &now);
    if (st == EF_OK && last > state->last)
        st = load_tail(state, conn, last, err);
    if (st == EF_OK)
        st = reload_names(state, conn, err);
    if (st == EF_OK)
        st = sq_one_stream_last(conn, &state->stream_last, NULL, err);
    state->loaded = st == EF_OK;
    /* Cleared later: a transaction of another thread may point into the state. */
    state->doubtful = state->doubtful || st != EF_OK;
    return st;
}
