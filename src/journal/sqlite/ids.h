/*
 * ids.h - where an event id is: an index that costs the append next to nothing.
 *
 * Sorted runs of (hash of tenant and id, position), in chunks. Settling adds a run of level 0;
 * SQ_RUNS_A_LEVEL runs of a level are merged into one of the next, a slice at a time:
 *
 *     whole ──► merging into an output ──► merged ──► gone
 *
 * Runs do not change while they are merged: their entries are copied to the output, which does not
 * count before it has all of them. So an entry counts in exactly one run at every commit, a slice
 * only writes at the end of the output, and where it goes on is said by the output's last entry.
 * What is merged is removed, in slices too. Random ids so cost what ordered ones do: a run is
 * written in order, whatever the ids are.
 */
#ifndef EF_JOURNAL_SQLITE_IDS_H
#define EF_JOURNAL_SQLITE_IDS_H

#include "state.h"

#define SQ_RUNS_A_LEVEL 16
#define SQ_RUN_MERGED (-1) /* as its level: all entries are in another run */

/* A run that is being merged: its next entries, and the chunk that they are from. */
typedef struct sq_merge_input {
    int64_t run, lo;
    sq_id_entry *entries;
    size_t count, cap, at;
    bool ends; /* nothing is left of it */
} sq_merge_input;

/* The merge that this process went on with last, to be resumed without reading inputs again. */
typedef struct sq_merge {
    int64_t output; /* 0: none is in hand */
    bool any;       /* the output has entries … */
    int64_t end;    /* … and ends with this hash */
    sq_merge_input inputs[SQ_RUNS_A_LEVEL];
    size_t count;
    sq_id_entry *chunk; /* room for the next one to write */
    size_t chunk_cap;
    int64_t idle_at; /* nothing was to be merged when the next run was this one; 0: not known */
} sq_merge;

/* Write sorted entries to the end of a run, at least `budget` of them where there are so many. */
ef_status sq_ids_put(ef__sq_conn *conn, int64_t run, const sq_id_entry *entries, size_t count,
                     size_t budget, size_t *out_done, ef_error *err);
/* Make the run count: from this commit on its entries are found. */
ef_status sq_ids_add_run(ef__sq_conn *conn, int64_t run, int64_t level, ef_error *err);

/* A slice of the merge that is on, or the beginning of one where that is due and allowed. A new run
 * takes its number from *next_run. *out_done says how much of the budget was used, or more. */
ef_status sq_ids_merge(ef__sq_conn *conn, sq_merge *merge, size_t budget, bool may_begin,
                       int64_t *next_run, size_t *out_done, ef_error *err);
void sq_merge_release(sq_merge *merge);

/*
 * The position of an id; 0 when the tenant has no such event. Looks at the tail, then at the runs.
 * The event itself is looked at: two ids with the same hash are told apart.
 */
ef_status sq_id_find(sq_state *state, ef__sq_conn *conn, ef_str tenant, ef_str id, int64_t id_hash,
                     int64_t *out_position, ef_error *err);

#endif
