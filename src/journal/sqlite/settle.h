/*
 * settle.h - the writing that append puts off: stream heads and the index of ids.
 *
 * Runs in slices inside append's own transactions, so it costs no commit and holds nobody up; what
 * a slice has done is in the state row and the run tables, so any process may do the next one.
 *
 *   settle   when the tail is long enough, a part of it (up to `target`) is written in sorted
 *            order: head rows by stream, then id entries by hash into a new run of level 0
 *   merge    SQ_RUNS_A_LEVEL runs of a level become one of the next: entries move from the inputs
 *            to the output, so every entry is in exactly one run at every commit
 */
#ifndef EF_JOURNAL_SQLITE_SETTLE_H
#define EF_JOURNAL_SQLITE_SETTLE_H

#include "store.h"

#define SQ_RUNS_A_LEVEL 16

/* Do a slice of what is due, worth `events` newly appended ones. Call before the transaction's first
 * event is planned. */
ef_status sq_settle_slice(sq_writer *writer, size_t events, ef_error *err);

/*
 * Where an id is. Looks at the open transaction, the tail, then the runs. *out_position is 0 when
 * the tenant has no such event; `writer` may have no transaction open (then it is a reader's).
 * The event itself is checked: two ids with the same hash are told apart.
 */
ef_status sq_id_find(sq_state *state, sq_conn *conn, ef_str tenant, ef_str id, int64_t id_hash,
                     int64_t *out_position, ef_error *err);

#endif
