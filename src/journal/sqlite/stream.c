/*
 * stream.c - the cached streams of a process, and their heads (state.h).
 */
#include "state.h"

#include <inttypes.h>
#include <stdlib.h>

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "out of memory while looking up a stream");
}

/* --- heads ------------------------------------------------------------------------------------ */

ef_status sq_head_advance(sq_head *head, int64_t position, int64_t *out_prev, int64_t *out_jump,
                          ef_error *err)
{
    int64_t seq = head->seq + 1;
    /* The remaining rungs are those of seq without its lowest bit: one per bit. */
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

/* Reads the head row; seq 0: none. */
static ef_status load_head(ef__sq_conn *conn, int64_t stream, sq_head *out, ef_error *err)
{
    ef__sq_rows rows = sq_each_stream_head_get(conn, stream, NULL, err);
    struct sq_stream_head_get_row row;

    if (!sq_next_stream_head_get(&rows, &row))
        return rows.status;
    out->seq = row.seq;
    out->count = (uint8_t)(row.ladder.len / 8);
    out->cap = (uint8_t)(out->count + 2);
    out->rungs = malloc(out->cap * sizeof *out->rungs);
    if (out->rungs && out->count)
        memcpy(out->rungs, row.ladder.ptr, out->count * sizeof *out->rungs);
    if (out->count != __builtin_popcountll((uint64_t)out->seq) ||
        row.position != (out->rungs ? sq_head_position(out) : 0))
        rows.status = ef_fail(err, EF_DAMAGED,
                              "the head row of stream number %" PRId64 " is damaged", stream);
    if (!out->rungs)
        rows.status = no_memory(err);
    return ef__sq_rows_end(&rows);
}

/* Advances a head from its row to the end of the tail. */
static ef_status apply_tail(sq_state *state, int64_t stream, sq_head *head, ef_error *err)
{
    int32_t newest = -1;
    int64_t prev, jump;
    ef_status st = EF_OK;

    if (!state->bucket_count)
        return EF_OK;
    for (int32_t i = state->stream_buckets[sq_bucket((uint64_t)stream, state->bucket_count)];
         i >= 0; i = state->entries[i].next_stream)
        if (state->entries[i].stream == stream)
            newest = i;
    /* Entries are linked backward and heads move forward: search each next seq from the newest
     * entry. The chain is short for a stream among many, and a busy stream stays in memory. */
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
            st = ef_fail(err, EF_DAMAGED,
                         "stream number %" PRId64 " lacks events after seq %" PRId64, stream,
                         head->seq);
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
            sq_stream **slot = &names[sq_bucket(s->name_hash, count)];
            next = s->next_by_name;
            s->next_by_name = *slot;
            *slot = s;
            if (s->id) {
                slot = &ids[sq_bucket((uint64_t)s->id, count)];
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
    sq_stream **slot = &state->by_id[sq_bucket((uint64_t)id, state->stream_bucket_count)];

    stream->id = id;
    stream->next_by_id = *slot;
    *slot = stream;
}

static sq_stream *find_by_name(sq_state *state, uint64_t hash, ef_str tenant, ef_str name)
{
    if (!state->stream_bucket_count)
        return NULL;
    for (sq_stream *s = state->by_name[sq_bucket(hash, state->stream_bucket_count)]; s;
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
    for (sq_stream *s = state->by_id[sq_bucket((uint64_t)id, state->stream_bucket_count)]; s;
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
    slot = &state->by_name[sq_bucket(hash, state->stream_bucket_count)];
    s->next_by_name = *slot;
    *slot = s;
    state->stream_count++;
    *out = s;
    return EF_OK;
}

ef_status sq_state_stream_head(sq_state *state, ef__sq_conn *conn, sq_stream *s, ef_error *err)
{
    sq_head head = {0};
    ef_status st;

    if (s->has_head)
        return EF_OK;
    st = load_head(conn, s->id, &head, err);
    if (st == EF_OK)
        st = apply_tail(state, s->id, &head, err);
    if (st != EF_OK) {
        free(head.rungs);
        return st;
    }
    free(s->head.rungs);
    s->head = head;
    s->now_seq = head.seq;
    s->now_position = sq_head_position(&head);
    s->has_head = true;
    return EF_OK;
}

ef_status sq_state_stream(sq_state *state, ef__sq_conn *conn, ef_str tenant, ef_str name,
                          sq_stream **out, ef_error *err)
{
    uint64_t hash = name_hash(tenant, name);
    int64_t id = 0;
    ef_status st;

    *out = find_by_name(state, hash, tenant, name);
    if (*out && (*out)->id)
        return sq_state_stream_head(state, conn, *out, err);
    /* Another process may have created it since, unless the open transaction creates it. */
    if (*out && (*out)->head.seq)
        return EF_OK;
    st = sq_one_stream_by_name(conn, &(struct sq_stream_by_name){.tenant = tenant, .name = name},
                               &id, NULL, err);
    if (st != EF_OK)
        return st;
    if (!*out)
        st = add_stream(state, hash, tenant, name, out, err);
    if (st != EF_OK || !id)
        return st;
    sq_state_stream_has_id(state, *out, id);
    return sq_state_stream_head(state, conn, *out, err);
}

ef_status sq_state_stream_by_id(sq_state *state, ef__sq_conn *conn, int64_t id, sq_stream **out,
                                ef_error *err)
{
    struct sq_stream_by_id_row row;
    ef__sq_rows rows;
    ef_status st;

    *out = find_by_id(state, id);
    if (*out)
        return EF_OK;
    rows = sq_each_stream_by_id(conn, id, NULL, err);
    if (sq_next_stream_by_id(&rows, &row)) {
        uint64_t hash = name_hash(row.tenant, row.name);
        *out = find_by_name(state, hash, row.tenant, row.name);
        if (!*out)
            rows.status = add_stream(state, hash, row.tenant, row.name, out, err);
    } else if (rows.status == EF_OK) {
        rows.status = ef_fail(err, EF_DAMAGED, "stream number %" PRId64 " is missing", id);
    }
    st = ef__sq_rows_end(&rows);
    if (st == EF_OK)
        sq_state_stream_has_id(state, *out, id);
    return st;
}

ef_status sq_state_follow(sq_state *state, const sq_tail_entry *e, int64_t position, ef_error *err)
{
    sq_stream *s = find_by_id(state, e->stream);
    int64_t prev, jump;

    if (!s || !s->has_head || s->now_seq >= e->seq)
        return EF_OK;
    s->now_seq = e->seq;
    s->now_position = position;
    return s->head.seq < e->seq ? sq_head_advance(&s->head, position, &prev, &jump, err) : EF_OK;
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

void sq_state_bound_streams(sq_state *state)
{
    if (state->stream_count > state->streams_max && !state->streams_in_use)
        sq_state_drop_streams(state);
}
