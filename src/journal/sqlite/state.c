/*
 * state.c - see state.h. Everything here runs under the store's state lock, or, in an ef_sqlite,
 * in its one thread.
 */
#include "state.h"

#include "../../base/hash.h"

#include <inttypes.h>
#include <stdlib.h>

#define NAMES_BYTES_MAX (64u << 20)

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while reading the journal's tail");
}

void sq_state_init(sq_state *state)
{
    *state = (sq_state){.names = EF__ARENA_INIT(NAMES_BYTES_MAX), .type_memo = -1};
}

void sq_state_drop_streams(sq_state *state)
{
    for (size_t i = 0; i < state->stream_bucket_count; i++) {
        sq_stream *s = state->by_name[i];
        while (s) {
            sq_stream *next = s->next_by_name;
            free(s->head.rungs);
            free(s);
            s = next;
        }
        state->by_name[i] = state->by_id[i] = NULL;
    }
    state->stream_count = 0;
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
    free(state->lanes);
    sq_filter_release(&state->filter);
    ef__arena_release(&state->names);
    sq_state_init(state);
}

void sq_state_forget(sq_state *state)
{
    sq_state_release(state);
}

/* --- the tail -------------------------------------------------------------------------------- */

int64_t sq_id_hash(ef_str tenant, ef_str id)
{
    uint64_t seed = tenant.len ? ef__xxh3(tenant, 1) : 0;

    return (int64_t)ef__xxh3(id, seed);
}

static size_t bucket(uint64_t key, size_t count)
{
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (count - 1);
}

/* Hang entry i into the buckets. */
static void link_entry(sq_state *state, int32_t i)
{
    sq_tail_entry *e = &state->entries[i];
    int32_t *slot = &state->id_buckets[bucket((uint64_t)e->id_hash, state->bucket_count)];

    e->next_id = *slot;
    *slot = i;

    slot = &state->stream_buckets[bucket((uint64_t)e->stream, state->bucket_count)];
    e->prev_stream = -1;
    for (int32_t *at = slot; *at >= 0; at = &state->entries[*at].next_stream) {
        if (state->entries[*at].stream == e->stream) {
            /* The newest entry of a stream stands for all of them: take the older one's place. */
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

/* --- heads ------------------------------------------------------------------------------------ */

ef_status sq_head_advance(sq_head *head, int64_t position, int64_t *out_prev, int64_t *out_jump,
                          ef_error *err)
{
    int64_t seq = head->seq + 1;
    /* Rungs that stay are those of seq with its lowest bit cleared: one per bit set in it. */
    uint8_t keep = (uint8_t)__builtin_popcountll((uint64_t)(seq & (seq - 1)));

    if (keep + 1 > head->cap) {
        uint8_t cap = (uint8_t)(keep + 1 < 8 ? keep + 3 : 64);
        int64_t *rungs = realloc(head->rungs, cap * sizeof *rungs);
        if (!rungs)
            return no_memory(err);
        head->rungs = rungs;
        head->cap = cap;
    }
    *out_prev = sq_head_position(head);
    *out_jump = keep && !(seq & 1) ? head->rungs[keep - 1] : 0;
    head->rungs[keep] = position;
    head->count = (uint8_t)(keep + 1);
    head->seq = seq;
    return EF_OK;
}

/* What the store's head row says; seq 0 when it has none. */
static ef_status load_head(sq_conn *conn, int64_t stream, sq_head *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_STREAM_HEAD_GET, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, stream);
    st = sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    out->seq = sqlite3_column_int64(stmt, 0);
    out->count = (uint8_t)(sqlite3_column_bytes(stmt, 2) / 8);
    out->cap = (uint8_t)(out->count + 2);
    out->rungs = malloc(out->cap * sizeof *out->rungs);
    if (out->rungs && out->count)
        memcpy(out->rungs, sqlite3_column_blob(stmt, 2), out->count * sizeof *out->rungs);
    if (out->count != __builtin_popcountll((uint64_t)out->seq) ||
        sqlite3_column_int64(stmt, 1) != (out->rungs ? sq_head_position(out) : 0))
        st = ef_fail(err, EF_DAMAGED, "the head row of stream number %" PRId64 " is damaged",
                     stream);
    sqlite3_reset(stmt);
    return out->rungs ? st : no_memory(err);
}

/* Bring a head from the head row up to the end of the tail. */
static ef_status apply_tail(sq_state *state, int64_t stream, sq_head *head, ef_error *err)
{
    int32_t newest = -1;
    int64_t prev, jump;
    ef_status st = EF_OK;

    if (!state->bucket_count)
        return EF_OK;
    for (int32_t i = state->stream_buckets[bucket((uint64_t)stream, state->bucket_count)]; i >= 0;
         i = state->entries[i].next_stream)
        if (state->entries[i].stream == stream)
            newest = i;
    /* The chain runs backwards and heads move forwards: find each next seq from the newest down. The
     * chain is short for a stream that is one of many, and a busy stream stays in memory. */
    while (st == EF_OK && newest >= 0 && state->entries[newest].seq > head->seq) {
        int64_t behind = state->entries[newest].seq - head->seq;
        int32_t *stack = malloc((size_t)behind * sizeof *stack);
        if (!stack)
            return no_memory(err);
        int32_t at = newest;
        int64_t n = 0;
        for (; at >= 0 && n < behind; at = state->entries[at].prev_stream)
            stack[n++] = at;
        if (n != behind)
            st = ef_fail(err, EF_DAMAGED, "stream number %" PRId64 " lacks events after seq %" PRId64,
                         stream, head->seq);
        while (st == EF_OK && n > 0)
            st = sq_head_advance(head, state->progress.settled + 1 + stack[--n], &prev, &jump, err);
        free(stack);
    }
    return st;
}

/* --- streams ---------------------------------------------------------------------------------- */

static uint64_t name_hash(ef_str tenant, ef_str name)
{
    return (uint64_t)sq_id_hash(tenant, name);
}

static bool grow_streams(sq_state *state)
{
    size_t count = state->stream_bucket_count ? state->stream_bucket_count * 2 : 256;
    sq_stream **names = calloc(count, sizeof *names);
    sq_stream **ids = calloc(count, sizeof *ids);

    if (!names || !ids) {
        free(names);
        free(ids);
        return false;
    }
    for (size_t i = 0; i < state->stream_bucket_count; i++) {
        for (sq_stream *s = state->by_name[i], *next; s; s = next) {
            sq_stream **slot = &names[bucket(s->name_hash, count)];
            next = s->next_by_name;
            s->next_by_name = *slot;
            *slot = s;
            if (s->id) {
                slot = &ids[bucket((uint64_t)s->id, count)];
                s->next_by_id = *slot;
                *slot = s;
            }
        }
    }
    free(state->by_name);
    free(state->by_id);
    state->by_name = names;
    state->by_id = ids;
    state->stream_bucket_count = count;
    return true;
}

void sq_state_stream_has_id(sq_state *state, sq_stream *stream, int64_t id)
{
    sq_stream **slot = &state->by_id[bucket((uint64_t)id, state->stream_bucket_count)];

    stream->id = id;
    stream->next_by_id = *slot;
    *slot = stream;
}

static sq_stream *find_by_name(sq_state *state, uint64_t hash, ef_str tenant, ef_str name)
{
    if (!state->stream_bucket_count)
        return NULL;
    for (sq_stream *s = state->by_name[bucket(hash, state->stream_bucket_count)]; s;
         s = s->next_by_name)
        if (s->name_hash == hash && ef_str_equal(sq_stream_name(s), name) &&
            ef_str_equal(sq_stream_tenant(s), tenant))
            return s;
    return NULL;
}

static sq_stream *find_by_id(sq_state *state, int64_t id)
{
    if (!state->stream_bucket_count)
        return NULL;
    for (sq_stream *s = state->by_id[bucket((uint64_t)id, state->stream_bucket_count)]; s;
         s = s->next_by_id)
        if (s->id == id)
            return s;
    return NULL;
}

static ef_status add_stream(sq_state *state, uint64_t hash, ef_str tenant, ef_str name,
                            sq_stream **out, ef_error *err)
{
    sq_stream *s, **slot;

    if (state->stream_count >= state->stream_bucket_count && !grow_streams(state))
        return no_memory(err);
    s = calloc(1, sizeof *s + tenant.len + name.len);
    if (!s)
        return no_memory(err);
    s->name_hash = hash;
    s->tenant_len = (uint8_t)tenant.len;
    s->name_len = (uint8_t)name.len;
    if (tenant.len)
        memcpy(s->names, tenant.ptr, tenant.len);
    memcpy(s->names + tenant.len, name.ptr, name.len);
    slot = &state->by_name[bucket(hash, state->stream_bucket_count)];
    s->next_by_name = *slot;
    *slot = s;
    state->stream_count++;
    *out = s;
    return EF_OK;
}

/* Give a stream that exists its id and its head. */
static ef_status fill_stream(sq_state *state, sq_conn *conn, sq_stream *s, int64_t id,
                             ef_error *err)
{
    sq_head head = {0};
    ef_status st = load_head(conn, id, &head, err);

    if (st == EF_OK)
        st = apply_tail(state, id, &head, err);
    if (st != EF_OK) {
        free(head.rungs);
        return st;
    }
    free(s->head.rungs);
    s->head = head;
    s->now_seq = head.seq;
    s->now_position = sq_head_position(&head);
    sq_state_stream_has_id(state, s, id);
    return EF_OK;
}

ef_status sq_state_stream(sq_state *state, sq_conn *conn, ef_str tenant, ef_str name,
                          sq_stream **out, ef_error *err)
{
    uint64_t hash = name_hash(tenant, name);
    sqlite3_stmt *stmt;
    int64_t id = 0;
    bool row;
    ef_status st;

    *out = find_by_name(state, hash, tenant, name);
    if (*out)
        return EF_OK;
    st = sq_stmt(conn, SQ_STREAM_BY_NAME, &stmt, err);
    if (st != EF_OK)
        return st;
    sq_bind_str(stmt, 1, tenant);
    sq_bind_str(stmt, 2, name);
    st = sq_row(conn, stmt, &row, err);
    if (st != EF_OK)
        return st;
    if (row) {
        id = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    st = add_stream(state, hash, tenant, name, out, err);
    return st == EF_OK && id ? fill_stream(state, conn, *out, id, err) : st;
}

ef_status sq_state_stream_by_id(sq_state *state, sq_conn *conn, int64_t id, sq_stream **out,
                                ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st;

    *out = find_by_id(state, id);
    if (*out)
        return EF_OK;
    st = sq_stmt(conn, SQ_STREAM_BY_ID, &stmt, err);
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, id);
    st = sq_row(conn, stmt, &row, err);
    if (st == EF_OK && !row)
        st = ef_fail(err, EF_DAMAGED, "stream number %" PRId64 " is missing", id);
    if (st != EF_OK)
        return st;
    ef_str tenant = sq_column_str(stmt, 0), name = sq_column_str(stmt, 1);
    uint64_t hash = name_hash(tenant, name);
    *out = find_by_name(state, hash, tenant, name);
    if (!*out)
        st = add_stream(state, hash, tenant, name, out, err);
    sqlite3_reset(stmt);
    return st == EF_OK ? fill_stream(state, conn, *out, id, err) : st;
}

/* --- types and lanes --------------------------------------------------------------------------- */

const sq_type *sq_state_type_by_id(const sq_state *state, int64_t id)
{
    for (size_t i = 0; i < state->type_count; i++)
        if (state->types[i].id == id)
            return &state->types[i];
    return NULL;
}

const sq_type *sq_state_type(sq_state *state, ef_str name)
{
    if (state->type_memo >= 0 && ef_str_equal(state->types[state->type_memo].name, name))
        return &state->types[state->type_memo];
    for (size_t i = 0; i < state->type_count; i++) {
        if (ef_str_equal(state->types[i].name, name)) {
            state->type_memo = (int32_t)i;
            return &state->types[i];
        }
    }
    return NULL;
}

ef_status sq_state_type_add(sq_state *state, int64_t id, ef_str name, ef_error *err)
{
    ef_str kept = ef__arena_copy(&state->names, name);

    if (!kept.ptr)
        return no_memory(err);
    if (state->type_count == state->type_cap) {
        size_t cap = state->type_cap ? state->type_cap * 2 : 32;
        void *types = realloc(state->types, cap * sizeof *state->types);
        if (!types)
            return no_memory(err);
        state->types = types;
        state->type_cap = cap;
    }
    state->types[state->type_count] =
        (sq_type){.id = id, .canonical = (int32_t)state->type_count, .name = kept};
    state->type_count++;
    return EF_OK;
}

static ef_status load_types(sq_state *state, sq_conn *conn, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_TYPE_ALL, &stmt, err);

    state->type_count = 0;
    state->type_memo = -1;
    while (st == EF_OK && (st = sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        st = sq_state_type_add(state, sqlite3_column_int64(stmt, 0), sq_column_str(stmt, 1), err);
        if (st != EF_OK)
            break;
        state->types[state->type_count - 1].intent = (ef_intent)sqlite3_column_int(stmt, 2);
        state->types[state->type_count - 1].publish = sqlite3_column_int(stmt, 3);
    }
    /* Once more for the aliases, now that every name has its place. */
    while (st == EF_OK && (st = sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        const sq_type *alias = sq_state_type(state, sq_column_str(stmt, 1));
        const sq_type *canonical = sq_state_type(state, sq_column_str(stmt, 4));
        if (alias && canonical)
            state->types[alias - state->types].canonical = (int32_t)(canonical - state->types);
    }
    if (st != EF_OK)
        sqlite3_reset(stmt);
    return st;
}

static ef_status load_lanes(sq_state *state, sq_conn *conn, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_LANE_ALL, &stmt, err);

    state->lane_count = 0;
    while (st == EF_OK && (st = sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        sq_lane *lanes = realloc(state->lanes, (state->lane_count + 1) * sizeof *lanes);
        sq_lane lane = {.id = sqlite3_column_int64(stmt, 0),
                        .kind = (ef_lane_kind)sqlite3_column_int(stmt, 2),
                        .enabled = sqlite3_column_int(stmt, 3),
                        .name = ef__arena_copy(&state->names, sq_column_str(stmt, 1)),
                        .types = ef__arena_copy(&state->names, sq_column_str(stmt, 4))};
        if (lanes)
            state->lanes = lanes;
        if (!lanes || !lane.name.ptr || !lane.types.ptr)
            st = no_memory(err);
        else
            state->lanes[state->lane_count++] = lane;
    }
    if (st != EF_OK)
        sqlite3_reset(stmt);
    return st;
}

/* --- sync ------------------------------------------------------------------------------------- */

static ef_status read_progress(sq_conn *conn, sq_progress *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_STATE_GET, &stmt, err);

    if (st == EF_OK)
        st = sq_row(conn, stmt, &row, err);
    if (st != EF_OK)
        return st;
    if (!row)
        return ef_fail(err, EF_DAMAGED, "the journal's state row is missing");
    *out = (sq_progress){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                         sqlite3_column_int64(stmt, 2), sqlite3_column_int64(stmt, 3),
                         sqlite3_column_int64(stmt, 4), sqlite3_column_int64(stmt, 5),
                         sqlite3_column_int64(stmt, 6)};
    sqlite3_reset(stmt);
    return EF_OK;
}

static ef_status read_last(sq_state *state, sq_conn *conn, int64_t *out_last, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_EVENT_LAST, &stmt, err);

    *out_last = 0;
    if (st == EF_OK)
        st = sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    *out_last = sqlite3_column_int64(stmt, 0);
    state->last_recorded_us = sqlite3_column_int64(stmt, 1);
    if (sqlite3_column_bytes(stmt, 2) == EF_HASH_BYTES)
        memcpy(state->last_hash, sqlite3_column_blob(stmt, 2), EF_HASH_BYTES);
    else
        st = ef_fail(err, EF_DAMAGED, "position %" PRId64 " has no hash", *out_last);
    sqlite3_reset(stmt);
    return st;
}

/* Cached heads follow what another process appended; ours have moved already. */
static ef_status advance_cached(sq_state *state, const sq_tail_entry *e, int64_t position,
                                ef_error *err)
{
    sq_stream *s = find_by_id(state, e->stream);
    int64_t prev, jump;

    if (!s || s->now_seq >= e->seq)
        return EF_OK;
    s->now_seq = e->seq;
    s->now_position = position;
    return s->head.seq < e->seq ? sq_head_advance(&s->head, position, &prev, &jump, err) : EF_OK;
}

static ef_status load_tail(sq_state *state, sq_conn *conn, int64_t last, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_EVENT_TAIL, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, state->last);
    sqlite3_bind_int64(stmt, 2, last);
    while ((st = sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        int64_t position = sqlite3_column_int64(stmt, 0);
        int64_t stream = sqlite3_column_int64(stmt, 1);
        st = sq_state_add(state, position, stream, sqlite3_column_int64(stmt, 2),
                          sq_id_hash(sq_column_str(stmt, 3), sq_column_str(stmt, 4)), err);
        if (st == EF_OK)
            st = advance_cached(state, &state->entries[state->entry_count - 1], position, err);
        if (st != EF_OK) {
            sqlite3_reset(stmt);
            return st;
        }
    }
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
    /* Others have settled events that were never seen here: begin anew from there. */
    state->entry_count = 0;
    relink_all(state);
    drop_frozen(state);
    sq_state_drop_streams(state);
    sq_filter_release(&state->filter);
    state->last = now->settled;
    return EF_OK;
}

/* Types and lanes are few and change rarely: read all of them when any has changed. */
static ef_status reload_names(sq_state *state, sq_conn *conn, ef_error *err)
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

ef_status sq_state_sync(sq_state *state, sq_conn *conn, ef_error *err)
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
        st = sq_number(conn, SQ_STREAM_LAST, &state->stream_last, err);
    state->loaded = st == EF_OK;
    /* Not forgotten here: a transaction in another thread may point into the picture. */
    state->doubtful = state->doubtful || st != EF_OK;
    return st;
}
