/*
 * sq.h - a SQLite connection as we use it, and the statements on it.
 *
 * Statements are named (the .sql files beside this), prepared once per connection and kept.
 */
#ifndef EF_JOURNAL_SQLITE_SQ_H
#define EF_JOURNAL_SQLITE_SQ_H

#include "journal_sqlite_sql.h"

#include <everfold/status.h>
#include <everfold/str.h>

#include <sqlite3.h>

typedef struct sq_conn {
    sqlite3 *db;
    sqlite3_stmt *stmts[SQ_COUNT];
    int64_t busy_ms;       /* how long to wait for a lock */
    int64_t busy_since_us; /* monotonic; when the present wait began */
    bool borrowed;         /* the application's: not ours to close */
} sq_conn;

enum sq_open_flags {
    SQ_OPEN_CREATE = 1,
    SQ_OPEN_READ_ONLY = 2,
    SQ_OPEN_NO_SYNC = 4 /* commits of this connection are not worth a sync */
};

/* Open and set up: synchronous=FULL, no automatic checkpoint, no mmap, defensive. The file is not
 * changed. A connection belongs to one thread at a time. */
ef_status sq_conn_open(sq_conn *conn, const char *path, unsigned flags, int64_t busy_ms,
                       ef_error *err);
/* Use a connection that the application opened; look at the file before setting it up. */
void sq_conn_borrow(sq_conn *conn, sqlite3 *db, int64_t busy_ms);
ef_status sq_conn_set_up(sq_conn *conn, ef_error *err);
/* Turn the file's log (WAL) on, for good; read-only: fail unless it is. Once it is known to be
 * ours: a stranger's database keeps the mode it has. */
ef_status sq_conn_use_log(sq_conn *conn, bool read_only, ef_error *err);
void sq_conn_close(sq_conn *conn);

/* The prepared statement `which` (SQ_…), reset and without old bindings to worry about. */
ef_status sq_stmt(sq_conn *conn, int which, sqlite3_stmt **out, ef_error *err);

/* Step a statement that returns nothing, and reset it. */
ef_status sq_done(sq_conn *conn, sqlite3_stmt *stmt, ef_error *err);
/* Step: *out_row says whether there is a row. On false or failure the statement is reset. */
ef_status sq_row(sq_conn *conn, sqlite3_stmt *stmt, bool *out_row, ef_error *err);
/* The row of a statement whose one bind is a key; reset it when it has been looked at. */
ef_status sq_find(sq_conn *conn, int which, int64_t key, sqlite3_stmt **out, bool *out_row,
                  ef_error *err);
/* Prepare, step to the end, reset: for statements without binds and rows (begin, commit …). */
ef_status sq_run(sq_conn *conn, int which, ef_error *err);
/* The same for one that yields one number. */
ef_status sq_number(sq_conn *conn, int which, int64_t *out, ef_error *err);

/* What an SQLite result means in our words; EF_OK for SQLITE_OK, DONE and ROW. */
ef_status sq_fail(sq_conn *conn, int rc, const char *what, ef_error *err);

void sq_bind_str(sqlite3_stmt *stmt, int index, ef_str text); /* borrowed until the next reset */
ef_str sq_column_str(sqlite3_stmt *stmt, int column);         /* lives until the next step */

#endif
