/*
 * settle.h - the writing that append puts off: stream heads and the index of ids.
 *
 * Runs in slices inside append's own transactions, so it costs no commit and holds nobody up; what
 * a slice has done is in the state row and the run tables, so any process may do the next one.
 *
 * When the tail is long enough, a part of it (up to `target`) is written in sorted order: head rows
 * by stream, then id entries by hash into a new run (ids.h).
 */
#ifndef EF_JOURNAL_SQLITE_SETTLE_H
#define EF_JOURNAL_SQLITE_SETTLE_H

#include "store.h"

/* Do a slice of what is due, worth `events` newly appended ones. Call before the transaction's
 * first event is planned. */
ef_status sq_settle_slice(sq_writer *writer, size_t events, ef_error *err);

#endif
