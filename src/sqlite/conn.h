/*
 * conn.h - a SQLite connection as we use it, and the statements on it.
 *
 * Statements are named in the .sql files of the back end; src/sqlgen.py makes them a table, which
 * is handed in at open. Each is prepared once per connection and kept. A connection belongs to one
 * thread at a time. Nothing here checkpoints on its own (checkpoint.h).
 */
#ifndef EF_SQLITE_CONN_H
#define EF_SQLITE_CONN_H

#include <everfold/status.h>
#include <everfold/str.h>

#include <sqlite3.h>

/* The statements of a back end; static, shared by its connections. */
typedef struct ef__sq_texts {
    const char *const *sql;
    const char *const *names;
    int count;
} ef__sq_texts;

typedef struct ef__sq_conn {
    sqlite3 *db;
    const ef__sq_texts *texts;
    sqlite3_stmt **stmts;
    int64_t busy_ms;              /* how long to wait for a lock */
    int64_t busy_since_us;        /* monotonic; when the present wait began */
    bool borrowed;                /* the application's: not ours to close */
    bool must_roll_back;          /* a ROLLBACK failed: nothing else is done before it */
    const volatile uint32_t *log; /* its header, in memory that all processes share; or NULL */
} ef__sq_conn;

/* How far the log is, for a comparison. */
typedef struct ef__sq_log_mark {
    uint32_t words[12]; /* the header of SQLite's wal-index */
} ef__sq_log_mark;

typedef enum ef__sq_sync {
    EF__SQ_SYNC_FULL,   /* a commit is on the disk when it returns */
    EF__SQ_SYNC_NORMAL, /* a checkpoint is; a power cut may take the last commits, whole */
    EF__SQ_SYNC_OFF     /* commits of this connection are not worth a sync */
} ef__sq_sync;

typedef struct ef__sq_options {
    const ef__sq_texts *texts; /* NULL: a connection without named statements */
    bool create;
    bool read_only;
    int64_t busy_ms;
    ef__sq_sync sync;
    int32_t cache_kib; /* 0 means 2048 */
} ef__sq_options;

/* Open and set up. The file is not changed. */
ef_status ef__sq_open(ef__sq_conn *conn, const char *path, const ef__sq_options *options,
                      ef_error *err);
/* Use a connection that the application opened; look at the file before setting it up. */
ef_status ef__sq_borrow(ef__sq_conn *conn, sqlite3 *db, const ef__sq_options *options,
                        ef_error *err);
ef_status ef__sq_set_up(ef__sq_conn *conn, const ef__sq_options *options, ef_error *err);
void ef__sq_close(ef__sq_conn *conn); /* also one that is zeroed, or closed already */

/* Turn the file's log (WAL) on, for good; read-only: fail unless it is on. Once it is known to be
 * ours: a stranger's database keeps the mode it has. */
ef_status ef__sq_use_log(ef__sq_conn *conn, bool read_only, ef_error *err);

/* The prepared statement `which`, reset; bindings stay until they are bound anew. */
ef_status ef__sq_stmt(ef__sq_conn *conn, int which, sqlite3_stmt **out, ef_error *err);
/* Step a statement that returns nothing, and reset it. */
ef_status ef__sq_done(ef__sq_conn *conn, sqlite3_stmt *stmt, ef_error *err);
/* The same; *out_changed says whether it changed a row. */
ef_status ef__sq_change(ef__sq_conn *conn, sqlite3_stmt *stmt, bool *out_changed, ef_error *err);
/* Step: *out_row says whether there is a row. On false or failure the statement is reset. */
ef_status ef__sq_row(ef__sq_conn *conn, sqlite3_stmt *stmt, bool *out_row, ef_error *err);
/* The row of a statement whose one bind is a key; reset it when it has been looked at. */
ef_status ef__sq_find(ef__sq_conn *conn, int which, int64_t key, sqlite3_stmt **out, bool *out_row,
                      ef_error *err);
/* Prepare, step to the end, reset: for statements without binds and rows (begin, commit …). */
ef_status ef__sq_run(ef__sq_conn *conn, int which, ef_error *err);
/* The same for one that yields one number. */
ef_status ef__sq_run_number(ef__sq_conn *conn, int which, int64_t *out, ef_error *err);
/* A text that is not worth keeping prepared: a pragma, a migration. */
ef_status ef__sq_exec(ef__sq_conn *conn, const char *sql, ef_error *err);
/* The number that such a text yields. */
ef_status ef__sq_number(ef__sq_conn *conn, const char *sql, int64_t *out, ef_error *err);

/* What an SQLite result means in our words; EF_OK for SQLITE_OK, DONE and ROW. */
ef_status ef__sq_fail(ef__sq_conn *conn, int rc, const char *what, ef_error *err);

/*
 * Has anything been committed since, by whomever? As long as the log is where it was before a
 * transaction began to read, there is nothing newer than what that one reads. It is what SQLite
 * itself looks at when one begins, and costs no call to the system: so a transaction that is at
 * hand can be asked, instead of beginning another.
 *
 * A mark is taken (`note`) before the transaction's first read. False: not on this connection; it
 * can be once it has read (`find`), and never where the log's index is not in shared memory.
 */
void ef__sq_log_find(ef__sq_conn *conn);
bool ef__sq_log_note(const ef__sq_conn *conn, ef__sq_log_mark *out);
bool ef__sq_log_stands(const ef__sq_conn *conn, const ef__sq_log_mark *mark);

/* Borrowed until the next bind of the same place. */
void ef__sq_bind_str(sqlite3_stmt *stmt, int index, ef_str text);
void ef__sq_bind_blob(sqlite3_stmt *stmt, int index, ef_str bytes);
/* Live until the next step. */
ef_str ef__sq_column_str(sqlite3_stmt *stmt, int column);
ef_str ef__sq_column_blob(sqlite3_stmt *stmt, int column);

#endif
