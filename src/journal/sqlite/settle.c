/*
 * settle.c - settling: the deferred writes of appends, which are stream heads and the index of ids.
 *
 * Runs in slices inside the transactions of appends, so it needs no commit of its own and delays no
 * writer for long. The progress is in the state row and the run tables, so any process can do the
 * next slice.
 *
 * When the tail is long enough, a part of it (up to `target`) is written in sorted order: head rows
 * by stream, then id entries by hash into a new run (ids.c).
 */
#include "store.h"

#include <inttypes.h>
#include <stdlib.h>

/* Entries that must be due before a slice is done, because even a small slice writes some pages. */
#define SLICE_ENTRIES 512

/* Radix sort by hash, a byte at a time from the lowest: this is part of a commit, and takes a sixth
 * of the time of qsort. Bytes that are equal in all entries are skipped. */
static void sort_entries(sq_id_entry *entries, sq_id_entry *scratch, size_t count)
{
    for (int shift = 0; shift < 64; shift += 8) {
        size_t starts[257] = {0};
        for (size_t i = 0; i < count; i++)
            starts[(((uint64_t)entries[i].hash ^ (UINT64_C(1) << 63)) >> shift & 0xff) + 1]++;
        size_t most = 0;
        for (int b = 1; b < 257; b++) {
            most = starts[b] > most ? starts[b] : most;
            starts[b] += starts[b - 1];
        }
        if (most == count)
            continue;
        for (size_t i = 0; i < count; i++)
            scratch[starts[((uint64_t)entries[i].hash ^ (UINT64_C(1) << 63)) >> shift & 0xff]++] =
                entries[i];
        memcpy(entries, scratch, count * sizeof *entries);
    }
}

/* --- settle ----------------------------------------------------------------------------------- */

/* Sorts the part of the tail up to the target, once per target: its streams, then its ids. */
static void sort_tail(sq_state *state, int64_t settled, size_t count, sq_id_entry *scratch)
{
    sq_id_entry *entries = state->frozen_ids;

    for (size_t i = 0; i < count; i++)
        entries[i] = (sq_id_entry){state->entries[i].stream, 0};
    sort_entries(entries, scratch, count);
    state->frozen_stream_count = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || entries[i].hash != entries[i - 1].hash)
            state->frozen_streams[state->frozen_stream_count++] = entries[i].hash;
    for (size_t i = 0; i < count; i++)
        entries[i] = (sq_id_entry){state->entries[i].id_hash, settled + 1 + (int64_t)i};
    sort_entries(entries, scratch, count);
    state->frozen_id_count = count;
}

static ef_status freeze_tail(sq_state *state, const sq_progress *progress, ef_error *err)
{
    size_t count = (size_t)(progress->target - progress->settled);
    sq_id_entry *scratch;

    if (state->frozen_target == progress->target)
        return EF_OK;
    free(state->frozen_ids);
    free(state->frozen_streams);
    state->frozen_target = 0;
    state->frozen_ids = malloc(count * sizeof *state->frozen_ids);
    state->frozen_streams = malloc(count * sizeof *state->frozen_streams);
    scratch = malloc(count * sizeof *scratch);
    if (state->frozen_ids && state->frozen_streams && scratch) {
        sort_tail(state, progress->settled, count, scratch);
        state->frozen_target = progress->target;
    }
    free(scratch);
    return state->frozen_target
               ? EF_OK
               : ef_fail(err, EF_NO_MEMORY, "out of memory while settling the journal's tail");
}

static ef_status put_head(sq_writer *w, int64_t id, ef_error *err)
{
    sq_stream *stream;
    ef_status st = sq_state_stream_by_id(w->state, &w->conn, id, &stream, err);

    if (st == EF_OK)
        st = sq_state_stream_head(w->state, &w->conn, stream, err);
    if (st != EF_OK)
        return st;
    const sq_head *head = &stream->head;
    return sq_run_stream_head_put(
        &w->conn,
        &(struct sq_stream_head_put){
            .stream = id,
            .seq = head->seq,
            .position = sq_head_position(head),
            .ladder = {(const char *)head->rungs, head->count * sizeof *head->rungs}},
        err);
}

static ef_status settle_heads(sq_writer *w, size_t budget, bool *out_done, ef_error *err)
{
    sq_state *state = w->state;
    sq_progress *progress = &w->txn.progress;
    size_t lo = 0, hi = state->frozen_stream_count;
    ef_status st = EF_OK;

    while (lo < hi) { /* the first stream above heads_after */
        size_t mid = (lo + hi) / 2;
        if (state->frozen_streams[mid] <= progress->heads_after)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; st == EF_OK && lo < state->frozen_stream_count && budget > 0; lo++, budget--) {
        st = put_head(w, state->frozen_streams[lo], err);
        progress->heads_after = state->frozen_streams[lo];
    }
    *out_done = lo == state->frozen_stream_count;
    return st;
}

static ef_status settle_ids(sq_writer *w, size_t budget, size_t *out_count, bool *out_done,
                            ef_error *err)
{
    sq_state *state = w->state;
    sq_progress *progress = &w->txn.progress;
    size_t at = (size_t)progress->ids_after;
    ef_status st = sq_ids_put(&w->conn, progress->next_run, state->frozen_ids + at,
                              state->frozen_id_count - at, budget, out_count, err);

    at += *out_count;
    progress->ids_after = (int64_t)at;
    *out_done = at == state->frozen_id_count;
    return st;
}

static ef_status settle_slice(sq_writer *w, size_t budget, size_t *out_count, ef_error *err)
{
    sq_progress *progress = &w->txn.progress;
    bool heads_done, ids_done;
    ef_status st;

    *out_count = 0;
    if (!progress->target) {
        progress->target = w->state->last;
        progress->heads_after = progress->ids_after = 0;
    }
    st = freeze_tail(w->state, progress, err);
    if (st == EF_OK)
        st = settle_ids(w, budget, out_count, &ids_done, err);
    /* Heads in proportion to ids, so that both end together and all slices cost the same. */
    if (st == EF_OK)
        st = settle_heads(
            w, *out_count * w->state->frozen_stream_count / w->state->frozen_id_count + 1,
            &heads_done, err);
    if (st != EF_OK || !heads_done || !ids_done)
        return st;
    st = sq_ids_add_run(&w->conn, progress->next_run, 0, err);
    progress->settled = progress->target;
    progress->target = progress->heads_after = progress->ids_after = 0;
    progress->next_run++;
    return st;
}

/* The credit after `done` entries were written: a chunk may have more than were due, and later
 * slices wait until that is paid. */
static int64_t credit_left(int64_t credit, size_t done)
{
    return credit > (int64_t)done ? 0 : credit - (int64_t)done;
}

ef_status sq_settle_slice(sq_writer *w, size_t events, ef_error *err)
{
    sq_progress before = w->txn.progress;
    size_t done;
    ef_status st = EF_OK;

    /* Settling is twice as fast as appending, so the tail has at most twice its length; and every
     * entry is merged a few times. */
    w->settle_credit += 2 * (int64_t)events;
    w->merge_credit += 3 * (int64_t)events;
    if (w->settle_credit >= SLICE_ENTRIES &&
        (before.target || w->state->entry_count >= SQ_TAIL_EVENTS)) {
        st = settle_slice(w, (size_t)w->settle_credit, &done, err);
        w->settle_credit = credit_left(w->settle_credit, done);
    }
    if (w->settle_credit > SLICE_ENTRIES)
        w->settle_credit = SLICE_ENTRIES;
    /* A run that is being written has the next number already, so no merge begins now. */
    if (st == EF_OK && w->merge_credit >= SLICE_ENTRIES) {
        st = sq_ids_merge(&w->conn, &w->merge, (size_t)w->merge_credit, !w->txn.progress.target,
                          &w->txn.progress.next_run, &done, err);
        w->merge_credit = credit_left(w->merge_credit, done);
    }
    if (st == EF_OK && memcmp(&before, &w->txn.progress, sizeof before) != 0)
        st = sq_run_state_put(&w->conn, &w->txn.progress, err);
    return st;
}
