/*
 * writer.h - a writing transaction on the journal, whoever drives it: a group of appends (group.c)
 * or an application inside its own transaction (embed.c).
 *
 * begin, then any number of appends and other writes, then finish, commit and believe; or rollback.
 * The caller holds the state lock around each of these calls, but not around the commit, which
 * waits for the disk.
 */
#ifndef EF_JOURNAL_SQLITE_WRITER_H
#define EF_JOURNAL_SQLITE_WRITER_H

#include "store.h"

void sq_writer_init(sq_writer *writer, sq_state *state, const ef_journal_options *options);
void sq_writer_release(sq_writer *writer); /* does not close conn, guard and head */

/* Guard, BEGIN IMMEDIATE, and bring the picture up to date. */
ef_status sq_writer_begin(sq_writer *writer, ef_error *err);

/* Plan events for the open transaction: all, or none and the transaction goes on. Failures that
 * come from the store itself (EF_FULL, EF_IO …) leave it unusable: roll back. `events` and what
 * they point to have to stay until they are flushed. */
ef_status sq_writer_append(sq_writer *writer, const ef__arrival *events, size_t count,
                           int64_t now_us, ef_place *out, ef_error *err);

/* Forget what was planned after the first `planned` events of the transaction. */
void sq_writer_undo_to(sq_writer *writer, size_t planned);

/* Write the events that were planned, and queue their outbox rows; whoever looks at events in the
 * same transaction calls it first. */
ef_status sq_writer_flush(sq_writer *writer, ef_error *err);
/* Write the outbox rows that were queued. */
ef_status sq_writer_flush_queue(sq_writer *writer, ef_error *err);

/* Before COMMIT: what the transaction still has to write. */
ef_status sq_writer_finish(sq_writer *writer, ef_error *err);
/* COMMIT, without the state lock. EF_UNSURE when the outcome is not known. */
ef_status sq_writer_commit(sq_writer *writer, ef_error *err);
/* After a COMMIT that worked: tell the head file (before anybody is answered) … */
void sq_writer_note_head(sq_writer *writer, const ef_log *log);
/* … and the picture: what was planned is true now. */
ef_status sq_writer_believe(sq_writer *writer, ef_error *err);
/* After one that did not, or instead of one. */
void sq_writer_rollback(sq_writer *writer);

#endif
