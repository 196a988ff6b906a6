/*
 * ids.h - where an event id is: an index that costs the append next to nothing.
 *
 * Sorted runs of (hash of tenant and id, position), in chunks. Settling adds a run of level 0;
 * SQ_RUNS_A_LEVEL runs of a level are merged into one of the next, a slice at a time: entries move
 * from the inputs to the output, so at every commit every entry is in exactly one run. Random ids
 * so cost what ordered ones do: a run is written in order, whatever the ids are.
 */
#ifndef EF_JOURNAL_SQLITE_IDS_H
#define EF_JOURNAL_SQLITE_IDS_H

#include "state.h"

#define SQ_RUNS_A_LEVEL 16
#define SQ_MERGE_ENTRIES 1024 /* that a slice of a merge moves */

/* Write sorted entries to the end of a run, at least `budget` of them where there are so many. */
ef_status sq_ids_put(sq_conn *conn, int64_t run, const sq_id_entry *entries, size_t count,
                     size_t budget, size_t *out_done, ef_error *err);
/* Make the run count: from this commit on its entries are found. */
ef_status sq_ids_add_run(sq_conn *conn, int64_t run, int64_t level, ef_error *err);

/* A slice of the merge that is on, or the beginning of one where that is due and allowed. A new run
 * takes its number from *next_run. */
ef_status sq_ids_merge(sq_conn *conn, bool may_begin, int64_t *next_run, ef_error *err);

/*
 * The position of an id; 0 when the tenant has no such event. Looks at the tail, then at the runs.
 * The event itself is looked at: two ids with the same hash are told apart.
 */
ef_status sq_id_find(sq_state *state, sq_conn *conn, ef_str tenant, ef_str id, int64_t id_hash,
                     int64_t *out_position, ef_error *err);

#endif
