/*
 * ids.c - see ids.h.
 */
#include "ids.h"

#include <inttypes.h>
#include <stdlib.h>

#define CHUNK_ENTRIES 56 /* 896 bytes: four to a page of the index */
#define FILTER_AFTER 64  /* look-ups before the filter is worth filling */
#define RUNS_MAX 1024

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while keeping the index of ids");
}

static int by_hash(const void *a, const void *b)
{
    const sq_id_entry *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* --- runs --------------------------------------------------------------------------------------
 */

static ef_status put_chunk(sq_conn *conn, int64_t run, const sq_id_entry *entries, size_t count,
                           ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = sq_stmt(conn, SQ_ID_CHUNK_INSERT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, run);
    sqlite3_bind_int64(stmt, 2, entries[0].hash);
    sqlite3_bind_blob(stmt, 3, entries, (int)(count * sizeof *entries), SQLITE_STATIC);
    return sq_done(conn, stmt, err);
}

/* How many of `entries` the next chunk takes: equal hashes stay together, so that a look-up needs
 * one chunk only. */
static size_t chunk_length(const sq_id_entry *entries, size_t count)
{
    size_t n = count < CHUNK_ENTRIES ? count : CHUNK_ENTRIES;

    while (n < count && entries[n].hash == entries[n - 1].hash)
        n++;
    return n;
}

ef_status sq_ids_put(sq_conn *conn, int64_t run, const sq_id_entry *entries, size_t count,
                     size_t budget, size_t *out_done, ef_error *err)
{
    size_t at = 0;
    ef_status st = EF_OK;

    while (st == EF_OK && at < count && at < budget) {
        size_t n = chunk_length(entries + at, count - at);
        st = put_chunk(conn, run, entries + at, n, err);
        at += n;
    }
    *out_done = at;
    return st;
}

ef_status sq_ids_add_run(sq_conn *conn, int64_t run, int64_t level, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = sq_stmt(conn, SQ_ID_RUN_INSERT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, run);
    sqlite3_bind_int64(stmt, 2, level);
    return sq_done(conn, stmt, err);
}

/* --- merge -------------------------------------------------------------------------------------
 */

struct run {
    int64_t run, level, into;
};

static ef_status read_runs(sq_conn *conn, struct run runs[RUNS_MAX], size_t *out_count,
                           ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_ID_RUN_ALL, &stmt, err);

    *out_count = 0;
    while (st == EF_OK && (st = sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        if (*out_count == RUNS_MAX) {
            sqlite3_reset(stmt);
            return ef_fail(err, EF_DAMAGED, "the index of ids has more than %d runs", RUNS_MAX);
        }
        runs[(*out_count)++] =
            (struct run){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                         sqlite3_column_int64(stmt, 2)};
    }
    return st;
}

/* An input of a merge: the entries it has in hand, from its first chunk(s) on. */
struct input {
    int64_t run;
    sq_id_entry *entries; /* malloc'ed */
    size_t count, at;
    int64_t *chunks; /* lo of every chunk that was read */
    size_t chunk_count;
    bool ends; /* there is nothing behind what is in hand */
};

/* Read chunks from the front of a run until `want` entries are in hand. */
static ef_status fill_input(sq_conn *conn, struct input *in, size_t want, ef_error *err)
{
    sqlite3_stmt *stmt;
    size_t cap = want + 4 * CHUNK_ENTRIES;
    bool row = true;
    ef_status st = sq_stmt(conn, SQ_ID_CHUNK_FIRST, &stmt, err);

    in->entries = malloc(cap * sizeof *in->entries);
    in->chunks = malloc((cap) * sizeof *in->chunks);
    if (!in->entries || !in->chunks)
        return no_memory(err);
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, in->run);
    while (in->count < want && (st = sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        size_t n = (size_t)sqlite3_column_bytes(stmt, 1) / sizeof *in->entries;
        if (in->count + n > cap) {
            sq_id_entry *grown = realloc(in->entries, (cap = in->count + n) * sizeof *grown);
            if (!grown)
                return no_memory(err);
            in->entries = grown;
        }
        memcpy(in->entries + in->count, sqlite3_column_blob(stmt, 1), n * sizeof *in->entries);
        in->count += n;
        in->chunks[in->chunk_count++] = sqlite3_column_int64(stmt, 0);
    }
    in->ends = st == EF_OK && !row;
    sqlite3_reset(stmt);
    return st;
}

/* Remove the chunks whose entries have moved; what is left of the last one is written anew. */
static ef_status consume_input(sq_conn *conn, struct input *in, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = sq_stmt(conn, SQ_ID_CHUNK_DELETE, &stmt, err);
    size_t dropped = 0;

    for (; st == EF_OK && dropped < in->chunk_count; dropped++) {
        /* A chunk stays as it is when its first entry has not moved. */
        if (in->at == 0 || in->chunks[dropped] > in->entries[in->at - 1].hash)
            break;
        sqlite3_bind_int64(stmt, 1, in->run);
        sqlite3_bind_int64(stmt, 2, in->chunks[dropped]);
        st = sq_done(conn, stmt, err);
    }
    /* Entries between in->at and the first chunk that stayed were in a chunk that went. */
    size_t end = in->count;
    if (dropped < in->chunk_count)
        for (end = in->at; end < in->count && in->entries[end].hash < in->chunks[dropped]; end++)
            ;
    while (st == EF_OK && in->at < end) {
        size_t n = chunk_length(in->entries + in->at, end - in->at);
        st = put_chunk(conn, in->run, in->entries + in->at, n, err);
        in->at += n;
    }
    return st;
}

/* The input with the smallest entry; NULL when one has nothing in hand but may have more behind,
 * or when all are empty. */
static struct input *smallest(struct input *inputs, size_t count)
{
    struct input *best = NULL;

    for (size_t i = 0; i < count; i++) {
        if (inputs[i].at == inputs[i].count) {
            if (!inputs[i].ends)
                return NULL;
            continue;
        }
        if (!best || by_hash(&inputs[i].entries[inputs[i].at], &best->entries[best->at]) < 0)
            best = &inputs[i];
    }
    return best;
}

static bool all_empty(const struct input *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (inputs[i].at < inputs[i].count || !inputs[i].ends)
            return false;
    return true;
}

/* Move entries from the inputs to the end of the output. A chunk is only written whole, with all
 * entries of its last hash, so the entries left over go back to their inputs by not being moved. */
static ef_status move_entries(sq_conn *conn, struct input *inputs, size_t count, int64_t output,
                              ef_error *err)
{
    sq_id_entry *moved = malloc((SQ_MERGE_ENTRIES + CHUNK_ENTRIES) * sizeof *moved);
    size_t n = 0, at = 0;
    struct input *from;
    ef_status st = EF_OK;

    if (!moved)
        return no_memory(err);
    while (n < SQ_MERGE_ENTRIES && (from = smallest(inputs, count)))
        moved[n++] = from->entries[from->at++];
    /* Equal hashes must not end up in two chunks of the output over two slices. */
    while (n > 0 && n < SQ_MERGE_ENTRIES + CHUNK_ENTRIES && (from = smallest(inputs, count)) &&
           from->entries[from->at].hash == moved[n - 1].hash)
        moved[n++] = from->entries[from->at++];
    while (st == EF_OK && at < n) {
        size_t length = chunk_length(moved + at, n - at);
        st = put_chunk(conn, output, moved + at, length, err);
        at += length;
    }
    free(moved);
    return st;
}

static ef_status end_merge(sq_conn *conn, const struct input *inputs, size_t count, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = sq_stmt(conn, SQ_ID_RUN_DELETE, &stmt, err);

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        sqlite3_bind_int64(stmt, 1, inputs[i].run);
        st = sq_done(conn, stmt, err);
    }
    return st;
}

static ef_status merge_slice(sq_conn *conn, const struct run *runs, size_t run_count,
                             int64_t output, ef_error *err)
{
    struct input inputs[SQ_RUNS_A_LEVEL] = {0};
    size_t count = 0;
    ef_status st = EF_OK;

    for (size_t i = 0; i < run_count && count < SQ_RUNS_A_LEVEL; i++)
        if (runs[i].into == output)
            inputs[count++].run = runs[i].run;
    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = fill_input(conn, &inputs[i], 2 * SQ_MERGE_ENTRIES / count + CHUNK_ENTRIES, err);
    if (st == EF_OK)
        st = move_entries(conn, inputs, count, output, err);
    if (st == EF_OK && all_empty(inputs, count))
        st = end_merge(conn, inputs, count, err);
    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = consume_input(conn, &inputs[i], err);
    for (size_t i = 0; i < count; i++) {
        free(inputs[i].entries);
        free(inputs[i].chunks);
    }
    return st;
}

/* Begin a merge where a level has enough runs that are not merging yet. */
static ef_status begin_merge(sq_conn *conn, const struct run *runs, size_t count, int64_t *next_run,
                             int64_t *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    size_t of_level[64] = {0};
    int64_t level = -1;
    ef_status st = sq_stmt(conn, SQ_ID_RUN_MERGE_INTO, &stmt, err);

    for (size_t i = 0; i < count; i++)
        if (runs[i].level < 63 && ++of_level[runs[i].level] == SQ_RUNS_A_LEVEL && level < 0)
            level = runs[i].level;
    *out = 0;
    if (st != EF_OK || level < 0)
        return st;
    *out = (*next_run)++;
    st = sq_ids_add_run(conn, *out, level + 1, err);
    for (size_t i = 0, n = 0; st == EF_OK && i < count && n < SQ_RUNS_A_LEVEL; i++) {
        if (runs[i].level != level)
            continue;
        sqlite3_bind_int64(stmt, 1, runs[i].run);
        sqlite3_bind_int64(stmt, 2, *out);
        st = sq_done(conn, stmt, err);
        n++;
    }
    return st;
}

ef_status sq_ids_merge(sq_conn *conn, bool may_begin, int64_t *next_run, ef_error *err)
{
    struct run runs[RUNS_MAX];
    size_t count;
    int64_t output = 0;
    ef_status st = read_runs(conn, runs, &count, err);

    for (size_t i = 0; st == EF_OK && i < count && !output; i++)
        output = runs[i].into;
    if (st == EF_OK && output)
        return merge_slice(conn, runs, count, output, err);
    return st == EF_OK && may_begin ? begin_merge(conn, runs, count, next_run, &output, err) : st;
}

/* --- look-up -----------------------------------------------------------------------------------
 */

/* Is the event at `position` the one with this tenant and id? */
static ef_status is_it(sq_conn *conn, int64_t position, ef_str tenant, ef_str id, bool *out,
                       ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_EVENT_NAMES, &stmt, err);

    *out = false;
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, position);
    st = sq_row(conn, stmt, &row, err);
    if (st != EF_OK)
        return st;
    if (!row)
        return ef_fail(err, EF_DAMAGED, "position %" PRId64 " is missing from the journal",
                       position);
    *out = ef_str_equal(sq_column_str(stmt, 0), tenant) && ef_str_equal(sq_column_str(stmt, 1), id);
    sqlite3_reset(stmt);
    return EF_OK;
}

static ef_status find_in_tail(sq_state *state, sq_conn *conn, ef_str tenant, ef_str id,
                              int64_t hash, int64_t *out, ef_error *err)
{
    bool same;

    if (!state->bucket_count)
        return EF_OK;
    size_t slot = sq_bucket((uint64_t)hash, state->bucket_count);
    for (int32_t i = state->id_buckets[slot]; i >= 0; i = state->entries[i].next_id) {
        if (state->entries[i].id_hash != hash)
            continue;
        int64_t position = state->progress.settled + 1 + i;
        ef_status st = is_it(conn, position, tenant, id, &same, err);
        if (st != EF_OK)
            return st;
        if (same) {
            *out = position;
            return EF_OK;
        }
    }
    return EF_OK;
}

static ef_status find_in_run(sq_conn *conn, int64_t run, ef_str tenant, ef_str id, int64_t hash,
                             int64_t *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    sq_id_entry hits[8];
    size_t hit_count = 0, count, lo = 0, hi;
    bool row, same;
    ef_status st = sq_stmt(conn, SQ_ID_CHUNK_FIND, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, run);
    sqlite3_bind_int64(stmt, 2, hash);
    st = sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    const sq_id_entry *entries = sqlite3_column_blob(stmt, 0);
    count = hi = (size_t)sqlite3_column_bytes(stmt, 0) / sizeof *entries;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (entries[mid].hash < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    while (lo < count && entries[lo].hash == hash && hit_count < 8)
        hits[hit_count++] = entries[lo++];
    sqlite3_reset(stmt);
    for (size_t i = 0; i < hit_count; i++) {
        st = is_it(conn, hits[i].position, tenant, id, &same, err);
        if (st != EF_OK || same) {
            *out = st == EF_OK ? hits[i].position : 0;
            return st;
        }
    }
    return EF_OK;
}

/* Fill the filter with every id that is in a run. */
static ef_status fill_filter(sq_state *state, sq_conn *conn, ef_error *err)
{
    size_t capacity = (size_t)state->progress.settled * 2;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_ID_CHUNK_ALL, &stmt, err);

    if (st != EF_OK || !sq_filter_make(&state->filter, capacity < 262144 ? 262144 : capacity))
        return st == EF_OK ? no_memory(err) : st;
    while ((st = sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        const sq_id_entry *entries = sqlite3_column_blob(stmt, 0);
        size_t count = (size_t)sqlite3_column_bytes(stmt, 0) / sizeof *entries;
        for (size_t i = 0; i < count; i++)
            sq_filter_add(&state->filter, entries[i].hash);
    }
    if (st != EF_OK)
        sq_filter_release(&state->filter);
    return st;
}

static ef_status find_in_runs(sq_state *state, sq_conn *conn, ef_str tenant, ef_str id,
                              int64_t hash, int64_t *out, ef_error *err)
{
    struct run runs[RUNS_MAX];
    size_t count;
    ef_status st = EF_OK;

    if (!state->progress.settled)
        return EF_OK;
    if (!state->filter.words || state->filter.count > state->filter.capacity) {
        bool full_size = state->filter.blocks * 64 >= SQ_FILTER_BYTES_MAX;
        if (++state->id_lookups >= FILTER_AFTER && !full_size)
            st = fill_filter(state, conn, err);
    }
    if (st != EF_OK || (state->filter.words && !sq_filter_may_have(&state->filter, hash)))
        return st;
    st = read_runs(conn, runs, &count, err);
    for (size_t i = count; st == EF_OK && i > 0 && !*out; i--)
        st = find_in_run(conn, runs[i - 1].run, tenant, id, hash, out, err);
    return st;
}

ef_status sq_id_find(sq_state *state, sq_conn *conn, ef_str tenant, ef_str id, int64_t hash,
                     int64_t *out_position, ef_error *err)
{
    ef_status st;

    *out_position = 0;
    st = find_in_tail(state, conn, tenant, id, hash, out_position, err);
    if (st == EF_OK && !*out_position)
        st = find_in_runs(state, conn, tenant, id, hash, out_position, err);
    return st;
}
