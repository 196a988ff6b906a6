/*
 * writer.h - a writing transaction on the journal: of a group of jobs (group.c), or of an
 * application (embed.c).
 *
 * begin, then any number of appends and other writes, then finish, commit and publish; or rollback.
 * The caller holds the state lock around each of these calls, but not around the commit, which
 * waits for the disk.
 */
#ifndef EF_JOURNAL_SQLITE_WRITER_H
#define EF_JOURNAL_SQLITE_WRITER_H

#include "store.h"

void sq_writer_init(sq_writer *writer, sq_state *state, const ef_journal_options *options);
void sq_writer_release(sq_writer *writer); /* does not close conn, guard and head */

/* Acquires the lock file, begins a transaction, and updates the cached state. */
ef_status sq_writer_begin(sq_writer *writer, ef_error *err);

/* Plans events for the open transaction: all, or none, and the transaction continues. After a
 * failure of the store (EF_FULL, EF_IO …) it must be rolled back. `events` and their memory must
 * stay until they are flushed. */
ef_status sq_writer_append(sq_writer *writer, const ef__arrival *events, size_t count,
                           int64_t now_us, ef_place *out, ef_error *err);

/* Removes the planned events after the first `planned` ones. */
void sq_writer_undo_to(sq_writer *writer, size_t planned);

/* Writes the planned events, and queues their outbox rows. Must be called before events are read in
 * the same transaction. */
ef_status sq_writer_flush(sq_writer *writer, ef_error *err);
/* Writes the queued outbox rows. */
ef_status sq_writer_flush_queue(sq_writer *writer, ef_error *err);

/* Before COMMIT: writes the planned events that were not written yet. */
ef_status sq_writer_finish(sq_writer *writer, ef_error *err);
/* COMMIT, without the state lock. EF_UNSURE: the result is unknown. */
ef_status sq_writer_commit(sq_writer *writer, ef_error *err);
/* After a successful COMMIT: writes the head file, before any caller gets a result … */
void sq_writer_note_head(sq_writer *writer, const ef_log *log);
/* … and adds the planned events to the cached state. `keeps_state`: the transaction has changed
 * nothing else that the state holds, so the next one need not read it again. */
ef_status sq_writer_publish(sq_writer *writer, bool keeps_state, ef_error *err);
/* After a failed COMMIT, or instead of one. */
void sq_writer_rollback(sq_writer *writer);

/* Settling (settle.c): does a slice of the work that is due, in proportion to `events` new events.
 * Called before the first event of the transaction is planned. */
ef_status sq_settle_slice(sq_writer *writer, size_t events, ef_error *err);

#endif
