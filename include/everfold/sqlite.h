/*
 * sqlite.h - append inside your own SQLite transaction (optional; link with SQLite too).
 *
 * Your tables and Everfold's journal live in one file, and your rows and your events commit
 * together or not at all: the outbox pattern, with the journal as the outbox.
 *
 *     ef_sqlite_begin(everfold, &err);
 *     sqlite3_exec(db, "UPDATE account SET …", …);
 *     ef_sqlite_append(everfold, &event, 1, &place, &err);
 *     ef_sqlite_commit(everfold, &err);          // or ef_sqlite_rollback
 *
 * The connection stays yours: open it on a file that ef_journal_open has created, and close it
 * after ef_sqlite_detach. Attaching sets its journal mode, synchronous, busy timeout and automatic
 * checkpoints to what Everfold needs. Write to this file only between ef_sqlite_begin and
 * ef_sqlite_commit, never open or close the file yourself while it is in use, and use an ef_sqlite
 * from one thread at a time.
 */
#pragma once

#include <everfold/journal.h>

EF_C_BEGIN

/*
 * Disables SQLite's memory statistics (sqlite3_memory_used, heap limits) for the whole process.
 * Call it before anything in the process uses SQLite or Everfold, and only if no other code needs
 * them. The statistics take a lock at every allocation, which is a few percent of reading a view.
 */
void ef_sqlite_uncounted(void);

struct sqlite3;
typedef struct ef_sqlite ef_sqlite;

/* `options->url` and `create` are ignored. Errors as for ef_journal_open. */
ef_status ef_sqlite_attach(struct sqlite3 *db, const ef_journal_options *options, ef_sqlite **out,
                           ef_error *err);
void ef_sqlite_detach(ef_sqlite *everfold); /* rolls back an open transaction; accepts NULL */

/* EF_BUSY after options->busy_ms: no transaction was started. */
ef_status ef_sqlite_begin(ef_sqlite *everfold, ef_error *err);

/* The same as ef_journal_append, any number of times per transaction. A failed call leaves the
 * transaction open without its events: continue, or roll back. EF_DAMAGED refuses only the events.
 */
ef_status ef_sqlite_append(ef_sqlite *everfold, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err);

/* EF_OK: durable. Any failure but EF_UNSURE has rolled back. */
ef_status ef_sqlite_commit(ef_sqlite *everfold, ef_error *err);
void ef_sqlite_rollback(ef_sqlite *everfold);

EF_C_END
