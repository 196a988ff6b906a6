/*
 * settle.h - settling: the deferred writes of appends, which are stream heads and the index of ids.
 *
 * Runs in slices inside the transactions of appends, so it needs no commit of its own and delays no
 * writer for long. The progress is in the state row and the run tables, so any process can do the
 * next slice.
 *
 * When the tail is long enough, a part of it (up to `target`) is written in sorted order: head rows
 * by stream, then id entries by hash into a new run (ids.h).
 */
#ifndef EF_JOURNAL_SQLITE_SETTLE_H
#define EF_JOURNAL_SQLITE_SETTLE_H

#include "store.h"

/* Does a slice of the work that is due, in proportion to `events` new events. Called before the
 * first event of the transaction is planned. */
ef_status sq_settle_slice(sq_writer *writer, size_t events, ef_error *err);

#endif
