/*
 * sqlite.h - append inside a SQLite transaction of your own (opt in; link with SQLite too).
 *
 * Your tables and Everfold's journal live in one file, and your rows and your events commit
 * together or not at all: the outbox pattern, with the journal as the outbox.
 *
 *     ef_sqlite_begin(everfold, &err);
 *     sqlite3_exec(db, "UPDATE account SET …", …);
 *     ef_sqlite_append(everfold, &event, 1, &place, &err);
 *     ef_sqlite_commit(everfold, &err);          // or ef_sqlite_rollback
 *
 * The connection stays yours: open it on a file that `everfold init` (or ef_journal_open) has made,
 * and close it after ef_sqlite_detach. Attaching sets its journal mode, synchronous, busy timeout
 * and automatic checkpoints as Everfold needs them. Write to this file only between ef_sqlite_begin
 * and ef_sqlite_commit, never open or close the file yourself while it is in use, and use an
 * ef_sqlite from one thread at a time.
 */
#ifndef EVERFOLD_SQLITE_H
#define EVERFOLD_SQLITE_H

#include <everfold/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * For a process of which all is yours, before anything in it uses SQLite or Everfold: SQLite counts
 * its memory no more (sqlite3_memory_used, limits of its heap). Counting takes a lock at every
 * allocation, which is a few hundredths of reading a view. `everfold` itself does this.
 */
void ef_sqlite_uncounted(void);

struct sqlite3;
typedef struct ef_sqlite ef_sqlite;

/* `options->url` and `create` are not looked at. Errors as for ef_journal_open. */
ef_status ef_sqlite_attach(struct sqlite3 *db, const ef_journal_options *options, ef_sqlite **out,
                           ef_error *err);
void ef_sqlite_detach(ef_sqlite *everfold); /* rolls back what is open; NULL is fine */

/* EF_BUSY after options->busy_ms: nothing has begun. */
ef_status ef_sqlite_begin(ef_sqlite *everfold, ef_error *err);

/* As ef_journal_append, as often as you like in a transaction. A failure leaves the transaction
 * open with nothing of this call in it: go on, or roll back. */
ef_status ef_sqlite_append(ef_sqlite *everfold, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err);

/* EF_OK: durable. Any failure but EF_UNSURE has rolled back. */
ef_status ef_sqlite_commit(ef_sqlite *everfold, ef_error *err);
void ef_sqlite_rollback(ef_sqlite *everfold);

#ifdef __cplusplus
}
#endif
#endif
