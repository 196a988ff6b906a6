/*
 * ids.c - the index of event ids (state.h), and a filter in memory in front of it.
 */
#include "state.h"

#include <inttypes.h>
#include <stdlib.h>

/* 4480 bytes: SQLite stores 489 of them in a page of the index, and the rest fills an overflow
 * page, which is written once. Smaller chunks would share pages, which are written many times. */
#define CHUNK_ENTRIES 280
#define FILTER_AFTER 64 /* lookups before the filter is filled */
#define RUNS_MAX 1024
#define FILTER_ENTRY_BITS 12
#define FILTER_PROBES 6
#define DROP_FASTER 16 /* deleting entries is cheap: many per page, without reading them */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "out of memory while keeping the index of ids");
}

static int by_hash(const void *a, const void *b)
{
    const sq_id_entry *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* --- runs ------------------------------------------------------------------------------------- */

static ef_status put_chunk(ef__sq_conn *conn, int64_t run, const sq_id_entry *entries, size_t count,
                           ef_error *err)
{
    return sq_run_id_chunk_insert(
        conn,
        &(struct sq_id_chunk_insert){.run = run,
                                     .lo = entries[0].hash,
                                     .entries = {(const char *)entries, count * sizeof *entries}},
        err);
}

/* The length of the next chunk: equal hashes stay together, so a lookup reads one chunk. */
static size_t chunk_length(const sq_id_entry *entries, size_t count)
{
    size_t n = count < CHUNK_ENTRIES ? count : CHUNK_ENTRIES;

    while (n < count && entries[n].hash == entries[n - 1].hash)
        n++;
    return n;
}

ef_status sq_ids_put(ef__sq_conn *conn, int64_t run, const sq_id_entry *entries, size_t count,
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

ef_status sq_ids_add_run(ef__sq_conn *conn, int64_t run, int64_t level, ef_error *err)
{
    return sq_run_id_run_insert(conn, &(struct sq_id_run_insert){.run = run, .level = level}, err);
}

/* --- merge ------------------------------------------------------------------------------------ */

static ef_status read_runs(ef__sq_conn *conn, sq_run runs[RUNS_MAX], size_t *out_count,
                           ef_error *err)
{
    ef__sq_rows rows = sq_each_id_run_all(conn, err);
    sq_run run;

    *out_count = 0;
    while (sq_next_id_run_all(&rows, &run)) {
        if (*out_count < RUNS_MAX)
            runs[(*out_count)++] = run;
        else
            rows.status =
                ef_fail(err, EF_DAMAGED, "the index of ids has more than %d runs", RUNS_MAX);
    }
    return ef__sq_rows_end(&rows);
}

/* The output of the current merge; 0: none. */
static int64_t merge_output(const sq_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (runs[i].into)
            return runs[i].into;
    return 0;
}

/* Loads the chunk that a statement finds for an input; without one the input has ended. */
static ef_status load_chunk(ef__sq_rows rows, sq_merge_input *in, ef_error *err)
{
    struct sq_id_chunk_find_row row;
    bool found = sq_next_id_chunk_find(&rows, &row);
    size_t count = found ? row.entries.len / sizeof *in->entries : 0;

    in->at = in->count = 0;
    in->ends = !found;
    if (count > in->cap) {
        sq_id_entry *grown = realloc(in->entries, count * sizeof *grown);
        if (grown) {
            in->entries = grown;
            in->cap = count;
        } else {
            rows.status = no_memory(err);
        }
    }
    if (found && rows.status == EF_OK) {
        memcpy(in->entries, row.entries.ptr, count * sizeof *in->entries);
        in->count = count;
        in->lo = row.lo;
    }
    return ef__sq_rows_end(&rows);
}

/* Loads the next chunk of an input if the current one was read. */
static ef_status refill_input(ef__sq_conn *conn, sq_merge_input *in, ef_error *err)
{
    if (in->at < in->count || in->ends)
        return EF_OK;
    return load_chunk(
        sq_each_id_chunk_next(conn, &(struct sq_id_chunk_next){.run = in->run, .lo = in->lo}, NULL,
                              err),
        in, err);
}

/* Moves an input to its first entry after the hash `after`, or to its first entry. */
static ef_status seek_input(ef__sq_conn *conn, sq_merge_input *in, const int64_t *after,
                            ef_error *err)
{
    ef_status st = EF_OK;

    in->ends = true;
    if (after)
        st = load_chunk(
            sq_each_id_chunk_find(conn, &(struct sq_id_chunk_find){.run = in->run, .hash = *after},
                                  NULL, err),
            in, err);
    if (st == EF_OK && in->ends) /* its last hash is not after it */
        st = load_chunk(sq_each_id_chunk_first(conn, in->run, NULL, err), in, err);
    while (st == EF_OK && after && in->at < in->count && in->entries[in->at].hash <= *after)
        in->at++;
    return st == EF_OK ? refill_input(conn, in, err) : st;
}

/* The last hash of the output in the store; *out_any is false if it is empty. */
static ef_status output_end(ef__sq_conn *conn, int64_t output, bool *out_any, int64_t *out_hash,
                            ef_error *err)
{
    ef__sq_rows rows = sq_each_id_chunk_find(
        conn, &(struct sq_id_chunk_find){.run = output, .hash = INT64_MAX}, NULL, err);
    struct sq_id_chunk_find_row row;

    *out_any = sq_next_id_chunk_find(&rows, &row);
    if (*out_any) {
        const sq_id_entry *entries = (const sq_id_entry *)row.entries.ptr;
        size_t count = row.entries.len / sizeof *entries;
        if (count)
            *out_hash = entries[count - 1].hash;
        else
            rows.status = ef_fail(err, EF_DAMAGED, "the index of ids has an empty chunk");
    }
    return ef__sq_rows_end(&rows);
}

/* Resumes the merge at the end of the stored output. Inputs do not change during a merge, so the
 * loaded chunks are valid if the output ends where this process left it; a slice of another process
 * or a rollback moves that end. */
static ef_status resume_merge(ef__sq_conn *conn, sq_merge *merge, const sq_run *runs, size_t count,
                              int64_t output, ef_error *err)
{
    bool any;
    int64_t end = 0;
    ef_status st = output_end(conn, output, &any, &end, err);

    if (st != EF_OK || (merge->output == output && merge->any == any && merge->end == end))
        return st;
    merge->output = output;
    merge->any = any;
    merge->end = end;
    merge->count = 0;
    for (size_t i = 0; st == EF_OK && i < count && merge->count < SQ_RUNS_A_LEVEL; i++) {
        if (runs[i].into != output)
            continue;
        sq_merge_input *in = &merge->inputs[merge->count++];
        in->run = runs[i].run;
        st = seek_input(conn, in, any ? &end : NULL, err);
    }
    if (st != EF_OK)
        merge->output = 0;
    return st;
}

static bool grow_chunk(sq_merge *merge)
{
    size_t cap = merge->chunk_cap ? 2 * merge->chunk_cap : CHUNK_ENTRIES;
    sq_id_entry *grown = realloc(merge->chunk, cap * sizeof *grown);

    if (!grown)
        return false;
    merge->chunk = grown;
    merge->chunk_cap = cap;
    return true;
}

/* The input with the smallest entry; NULL: all have ended. */
static sq_merge_input *smallest_input(sq_merge *merge)
{
    sq_merge_input *best = NULL;

    for (size_t i = 0; i < merge->count; i++) {
        sq_merge_input *in = &merge->inputs[i];
        if (!in->ends && (!best || by_hash(&in->entries[in->at], &best->entries[best->at]) < 0))
            best = in;
    }
    return best;
}

/* Copies the entries of a chunk to the end of the output. Equal hashes stay together, because the
 * next slice continues after the last hash of the output. */
static ef_status merge_chunk(ef__sq_conn *conn, sq_merge *merge, size_t *out_count, ef_error *err)
{
    sq_merge_input *in;
    size_t count = 0;
    ef_status st = EF_OK;

    while (st == EF_OK && (in = smallest_input(merge)) &&
           (count < CHUNK_ENTRIES || in->entries[in->at].hash == merge->end)) {
        if (count == merge->chunk_cap && !grow_chunk(merge))
            return no_memory(err);
        merge->chunk[count] = in->entries[in->at++];
        merge->end = merge->chunk[count++].hash;
        st = refill_input(conn, in, err);
    }
    *out_count = count;
    if (st != EF_OK || !count)
        return st;
    merge->any = true;
    return put_chunk(conn, merge->output, merge->chunk, count, err);
}

static ef_status merge_slice(ef__sq_conn *conn, sq_merge *merge, size_t budget, size_t *out_done,
                             ef_error *err)
{
    ef_status st = EF_OK;
    size_t copied = 1;

    for (*out_done = 0; st == EF_OK && *out_done < budget && copied; *out_done += copied)
        st = merge_chunk(conn, merge, &copied, err);
    bool ended = st == EF_OK && !smallest_input(merge);
    if (ended)
        st = sq_run_id_run_merged(conn, merge->output, err);
    if (ended || st != EF_OK) /* the loaded chunks may be incomplete */
        merge->output = 0;
    return st;
}

/* Begins a merge if a level has enough runs. */
static ef_status begin_merge(ef__sq_conn *conn, const sq_run *runs, size_t count, int64_t *next_run,
                             ef_error *err)
{
    size_t of_level[64] = {0};
    int64_t level = -1, output;
    ef_status st;

    for (size_t i = 0; i < count; i++)
        if (runs[i].level >= 0 && runs[i].level < 63 &&
            ++of_level[runs[i].level] == SQ_RUNS_A_LEVEL && level < 0)
            level = runs[i].level;
    if (level < 0)
        return EF_OK;
    output = (*next_run)++;
    st = sq_ids_add_run(conn, output, level + 1, err);
    for (size_t i = 0, n = 0; st == EF_OK && i < count && n < SQ_RUNS_A_LEVEL; i++) {
        if (runs[i].level != level)
            continue;
        st = sq_run_id_run_merge_into(
            conn, &(struct sq_id_run_merge_into){.run = runs[i].run, .into = output}, err);
        n++;
    }
    return st;
}

/* Deletes chunks from the front of a merged run, and with the last of them the run. */
static ef_status delete_slice(ef__sq_conn *conn, int64_t run, size_t budget, ef_error *err)
{
    int64_t upto = INT64_MAX, before = (int64_t)(DROP_FASTER * budget / CHUNK_ENTRIES);
    bool more;
    ef_status st = sq_one_id_chunk_nth(
        conn, &(struct sq_id_chunk_nth){.run = run, .before = before}, &upto, &more, err);

    if (st == EF_OK)
        st =
            sq_run_id_chunk_delete(conn, &(struct sq_id_chunk_delete){.run = run, .lo = upto}, err);
    return st == EF_OK && !more ? sq_run_id_run_delete(conn, run, err) : st;
}

ef_status sq_ids_merge(ef__sq_conn *conn, sq_merge *merge, size_t budget, bool may_begin,
                       int64_t *next_run, size_t *out_done, ef_error *err)
{
    sq_run runs[RUNS_MAX];
    size_t count;
    ef_status st;

    *out_done = budget;
    /* A merge can become due only by a new run, which increments *next_run. */
    if (merge->idle_at == *next_run)
        return EF_OK;
    st = read_runs(conn, runs, &count, err);
    int64_t output = st == EF_OK ? merge_output(runs, count) : 0;
    if (st != EF_OK)
        return st;
    for (size_t i = 0; i < count; i++)
        if (runs[i].level == SQ_RUN_MERGED)
            return delete_slice(conn, runs[i].run, budget, err);
    if (!output && may_begin) {
        int64_t before = *next_run;
        st = begin_merge(conn, runs, count, next_run, err);
        merge->idle_at = st == EF_OK && *next_run == before ? before : 0;
    }
    if (!output)
        return st;
    st = resume_merge(conn, merge, runs, count, output, err);
    return st == EF_OK ? merge_slice(conn, merge, budget, out_done, err) : st;
}

void sq_merge_release(sq_merge *merge)
{
    for (size_t i = 0; i < SQ_RUNS_A_LEVEL; i++)
        free(merge->inputs[i].entries);
    free(merge->chunk);
    *merge = (sq_merge){0};
}

/* --- the filter ------------------------------------------------------------------------------ */

static bool make_filter(sq_filter *filter, size_t capacity)
{
    size_t blocks = 2;
    unsigned shift = 63;

    for (; blocks * 512 < capacity * FILTER_ENTRY_BITS && blocks * 64 < SQ_FILTER_BYTES_MAX;
         shift--)
        blocks *= 2;
    sq_filter_release(filter);
    filter->words = aligned_alloc(64, blocks * 64);
    if (!filter->words)
        return false;
    memset(filter->words, 0, blocks * 64);
    filter->blocks = blocks;
    filter->shift = shift;
    filter->capacity = blocks * 512 / FILTER_ENTRY_BITS;
    return true;
}

void sq_filter_release(sq_filter *filter)
{
    free(filter->words);
    *filter = (sq_filter){0};
}

/* The high bits select the block without mixing: runs are sorted by hash, so filling the filter
 * from one accesses memory in order. The six bits in a block come from the hash mixed once more. */
static uint64_t *block_of(const sq_filter *filter, int64_t hash)
{
    return filter->words + ((uint64_t)hash >> filter->shift) * 8;
}

static uint64_t bits_of(int64_t hash)
{
    return ((uint64_t)hash * UINT64_C(0x9E3779B97F4A7C15)) >> 10;
}

void sq_filter_add(sq_filter *filter, int64_t hash)
{
    uint64_t *block = block_of(filter, hash);
    uint64_t bits = bits_of(hash);

    for (int i = 0; i < FILTER_PROBES; i++, bits >>= 9)
        block[(bits >> 6) & 7] |= UINT64_C(1) << (bits & 63);
    filter->count++;
}

static bool filter_may_have(const sq_filter *filter, int64_t hash)
{
    const uint64_t *block = block_of(filter, hash);
    uint64_t bits = bits_of(hash);

    for (int i = 0; i < FILTER_PROBES; i++, bits >>= 9)
        if (!(block[(bits >> 6) & 7] & UINT64_C(1) << (bits & 63)))
            return false;
    return true;
}

/* --- look-up ---------------------------------------------------------------------------------- */

/* Whether the event at `position` has this tenant and id. */
static ef_status is_event(ef__sq_conn *conn, int64_t position, ef_str tenant, ef_str id, bool *out,
                          ef_error *err)
{
    ef__sq_rows rows = sq_each_event_names(conn, position, NULL, err);
    struct sq_event_names_row row;

    *out = false;
    if (sq_next_event_names(&rows, &row))
        *out = ef_str_equal(row.tenant, tenant) && ef_str_equal(row.id, id);
    else if (rows.status == EF_OK)
        rows.status =
            ef_fail(err, EF_DAMAGED, "position %" PRId64 " is missing from the journal", position);
    return ef__sq_rows_end(&rows);
}

static ef_status find_in_tail(sq_state *state, ef__sq_conn *conn, ef_str tenant, ef_str id,
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
        ef_status st = is_event(conn, position, tenant, id, &same, err);
        if (st != EF_OK)
            return st;
        if (same) {
            *out = position;
            return EF_OK;
        }
    }
    return EF_OK;
}

static ef_status find_in_run(ef__sq_conn *conn, int64_t run, ef_str tenant, ef_str id, int64_t hash,
                             int64_t *out, ef_error *err)
{
    ef__sq_rows rows = sq_each_id_chunk_find(
        conn, &(struct sq_id_chunk_find){.run = run, .hash = hash}, NULL, err);
    struct sq_id_chunk_find_row row;
    size_t count, lo = 0, hi;
    bool same = false;

    if (!sq_next_id_chunk_find(&rows, &row))
        return rows.status;
    const sq_id_entry *entries = (const sq_id_entry *)row.entries.ptr;
    count = hi = row.entries.len / sizeof *entries;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (entries[mid].hash < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; rows.status == EF_OK && !same && lo < count && entries[lo].hash == hash; lo++) {
        rows.status = is_event(conn, entries[lo].position, tenant, id, &same, err);
        if (same)
            *out = entries[lo].position;
    }
    return ef__sq_rows_end(&rows);
}

/* Fills the filter with the ids of all runs. */
static ef_status fill_filter(sq_state *state, ef__sq_conn *conn, ef_error *err)
{
    size_t capacity = (size_t)state->progress.settled * 2;
    ef__sq_rows rows;
    ef_str chunk;
    ef_status st;

    if (!make_filter(&state->filter, capacity < 262144 ? 262144 : capacity))
        return no_memory(err);
    rows = sq_each_id_chunk_all(conn, NULL, err);
    while (sq_next_id_chunk_all(&rows, &chunk)) {
        const sq_id_entry *entries = (const sq_id_entry *)chunk.ptr;
        for (size_t i = 0; i < chunk.len / sizeof *entries; i++)
            sq_filter_add(&state->filter, entries[i].hash);
    }
    st = ef__sq_rows_end(&rows);
    if (st != EF_OK)
        sq_filter_release(&state->filter);
    return st;
}

static ef_status find_in_runs(sq_state *state, ef__sq_conn *conn, ef_str tenant, ef_str id,
                              int64_t hash, int64_t *out, ef_error *err)
{
    sq_run runs[RUNS_MAX];
    size_t count;
    ef_status st = EF_OK;

    if (!state->progress.settled)
        return EF_OK;
    if (!state->filter.words || state->filter.count > state->filter.capacity) {
        bool full_size = state->filter.blocks * 64 >= SQ_FILTER_BYTES_MAX;
        if (++state->id_lookups >= FILTER_AFTER && !full_size)
            st = fill_filter(state, conn, err);
    }
    if (st != EF_OK || (state->filter.words && !filter_may_have(&state->filter, hash)))
        return st;
    st = read_runs(conn, runs, &count, err);
    int64_t output = st == EF_OK ? merge_output(runs, count) : 0;
    for (size_t i = count; st == EF_OK && i > 0 && !*out; i--)
        if (runs[i - 1].level != SQ_RUN_MERGED && runs[i - 1].run != output)
            st = find_in_run(conn, runs[i - 1].run, tenant, id, hash, out, err);
    return st;
}

ef_status sq_id_find(sq_state *state, ef__sq_conn *conn, ef_str tenant, ef_str id, int64_t hash,
                     int64_t *out_position, ef_error *err)
{
    ef_status st;

    *out_position = 0;
    st = find_in_tail(state, conn, tenant, id, hash, out_position, err);
    if (st == EF_OK && !*out_position)
        st = find_in_runs(state, conn, tenant, id, hash, out_position, err);
    return st;
}
