/*
 * ids.h - the index of event ids, which costs an append next to nothing.
 *
 * Sorted runs of (hash of tenant and id, position), in chunks. Settling adds a run of level 0;
 * SQ_RUNS_A_LEVEL runs of a level are merged into one of the next, a slice at a time:
 *
 *     whole ──► merging into an output ──► merged ──► deleted
 *
 * Runs do not change while they are merged: their entries are copied to the output, which is not
 * searched before it has all of them. So at every commit an entry is searched in exactly one run, a
 * slice only writes at the end of the output, and the last entry of the output shows where to
 * resume. Merged runs are deleted, in slices too. A run is written in order of hash, so random ids
 * cost as much as ordered ones.
 */
#ifndef EF_JOURNAL_SQLITE_IDS_H
#define EF_JOURNAL_SQLITE_IDS_H

#include "state.h"

#define SQ_RUNS_A_LEVEL 16
#define SQ_RUN_MERGED (-1) /* level of a merged run: all entries are in another run */

/* A run that is being merged: its next entries, and the chunk that they are from. */
typedef struct sq_merge_input {
    int64_t run, lo;
    sq_id_entry *entries;
    size_t count, cap, at;
    bool ends; /* all entries were read */
} sq_merge_input;

/* The last merge of this process, which can be resumed without reading its inputs again. */
typedef struct sq_merge {
    int64_t output; /* 0: none is loaded */
    bool any;       /* the output has entries … */
    int64_t end;    /* … and ends with this hash */
    sq_merge_input inputs[SQ_RUNS_A_LEVEL];
    size_t count;
    sq_id_entry *chunk; /* memory for the next chunk */
    size_t chunk_cap;
    int64_t idle_at; /* no merge was due at this number of the next run; 0: unknown */
} sq_merge;

/* Writes sorted entries to the end of a run, at least `budget` of them if there are as many. */
ef_status sq_ids_put(ef__sq_conn *conn, int64_t run, const sq_id_entry *entries, size_t count,
                     size_t budget, size_t *out_done, ef_error *err);
/* Completes a run: from this commit on it is searched. */
ef_status sq_ids_add_run(ef__sq_conn *conn, int64_t run, int64_t level, ef_error *err);

/* Does a slice of the current merge, or begins one that is due and allowed. A new run gets its
 * number from *next_run. *out_done is the used part of the budget, or more. */
ef_status sq_ids_merge(ef__sq_conn *conn, sq_merge *merge, size_t budget, bool may_begin,
                       int64_t *next_run, size_t *out_done, ef_error *err);
void sq_merge_release(sq_merge *merge);

/*
 * The position of an id; 0 when the tenant has no such event. Searches the tail, then the runs, and
 * compares the event itself, because two ids can have the same hash.
 */
ef_status sq_id_find(sq_state *state, ef__sq_conn *conn, ef_str tenant, ef_str id, int64_t id_hash,
                     int64_t *out_position, ef_error *err);

#endif
