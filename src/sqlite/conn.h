/*
 * conn.h - a SQLite connection and its prepared statements.
 *
 * Statements are named in the .sql files of the back end; src/sqlgen.py generates a table of them,
 * which is an option of open. Each statement is prepared at its first use and kept until the
 * connection is closed. A connection is used by one thread at a time. It never checkpoints
 * (checkpoint.h).
 */
#pragma once

#include "../base/arena.h"

#include <everfold/status.h>
#include <everfold/str.h>

#include <sqlite3.h>

/* The statements of a back end: static, shared by its connections. */
typedef struct ef__sq_statements {
    const char *const *sql;
    const char *const *names;
    int count;
} ef__sq_statements;

typedef enum ef__sq_sync {
    EF__SQ_SYNC_FULL,   /* a commit is on disk when it returns */
    EF__SQ_SYNC_NORMAL, /* at checkpoints: a power cut may lose the last commits, each whole */
    EF__SQ_SYNC_OFF     /* never synced by this connection */
} ef__sq_sync;

typedef struct ef__sq_conn {
    sqlite3 *db;
    const ef__sq_statements *statements;
    sqlite3_stmt **prepared; /* by the index of `statements`; NULL until the first use */
    sqlite3_stmt *rollback;
    int64_t busy_ms;       /* how long to wait for a lock */
    int64_t busy_since_us; /* monotonic: start of the current wait */
    bool borrowed;         /* opened by the application, which closes it */
    bool must_roll_back;   /* a rollback failed: it is repeated before the next statement */
    ef__sq_sync sync;      /* as it is set */
    int wal_pages;         /* length of the WAL after the last commit, once it is counted */
    const volatile uint32_t *wal_header; /* in memory that all processes share; or NULL */
} ef__sq_conn;

/* A copy of the header of SQLite's wal-index, which every commit changes. */
typedef struct ef__sq_wal_header {
    uint32_t words[12];
} ef__sq_wal_header;

typedef struct ef__sq_options {
    const ef__sq_statements *statements; /* NULL: a connection without named statements */
    bool create;
    bool read_only;
    int64_t busy_ms;
    ef__sq_sync sync;
    int32_t cache_kib; /* 0 means 2048 */
} ef__sq_options;

/* Opens a connection and sets it up. Does not write to an existing file. */
ef_status ef__sq_open(ef__sq_conn *conn, const char *path, const ef__sq_options *options,
                      ef_error *err);
/* Uses a connection that the application opened. The caller checks what the file is, then calls
 * ef__sq_set_up. */
ef_status ef__sq_borrow(ef__sq_conn *conn, sqlite3 *db, const ef__sq_options *options,
                        ef_error *err);
ef_status ef__sq_set_up(ef__sq_conn *conn, const ef__sq_options *options, ef_error *err);
void ef__sq_close(ef__sq_conn *conn); /* accepts a zeroed or closed connection */

/* Whether the next commit is synced. Not in a transaction: SQLite would do it in the next one. */
ef_status ef__sq_set_sync(ef__sq_conn *conn, ef__sq_sync sync, ef_error *err);
/* Sets wal_pages after each commit of the connection from now on, for ef__sq_checkpointer_check. */
void ef__sq_count_wal(ef__sq_conn *conn);

/* Switches the file to WAL mode, permanently; read-only: fails unless it is in WAL mode. Called
 * only after the file was recognised as a store of Everfold. */
ef_status ef__sq_use_wal(ef__sq_conn *conn, bool read_only, ef_error *err);

/* The prepared statement `which`, reset. Earlier bindings stay until they are replaced. */
ef_status ef__sq_stmt(ef__sq_conn *conn, int which, sqlite3_stmt **out, ef_error *err);
/* Steps a statement that returns no row, and resets it. */
ef_status ef__sq_done(ef__sq_conn *conn, sqlite3_stmt *stmt, ef_error *err);
/* Runs a statement without binds and rows (begin, commit …). */
ef_status ef__sq_run(ef__sq_conn *conn, int which, ef_error *err);
/* Ends the transaction, if one is open, without its changes. A rollback that fails, for lack of
 * memory, is repeated before the next statement. */
void ef__sq_rollback(ef__sq_conn *conn);
/* Runs SQL that is not kept prepared: a pragma, a migration. */
ef_status ef__sq_exec(ef__sq_conn *conn, const char *sql, ef_error *err);
/* Runs SQL that returns one number. */
ef_status ef__sq_number(ef__sq_conn *conn, const char *sql, int64_t *out, ef_error *err);

/* Sets a pragma of the file: its application_id, its user_version. */
ef_status ef__sq_set_number(ef__sq_conn *conn, const char *pragma, int64_t value, ef_error *err);

/* Makes an SQL function of a C function, for the statements of the connection. */
ef_status ef__sq_function(ef__sq_conn *conn, const char *name, int arguments,
                          void (*function)(sqlite3_context *, int, sqlite3_value **), void *context,
                          ef_error *err);

/* Converts a SQLite result code; EF_OK for SQLITE_OK, DONE and ROW. */
ef_status ef__sq_fail(ef__sq_conn *conn, int rc, const char *what, ef_error *err);

/*
 * Whether any process has committed since a read transaction started. SQLite makes the same
 * comparison when a transaction begins, and it needs no system call: so an open read transaction
 * can be used again as long as the header is unchanged.
 *
 * Copy the header (`read_header`) before the first read of the transaction. Both functions return
 * false while the header is not mapped: a connection can map it once it has read (`map`), and never
 * where the wal-index is not in shared memory.
 */
const volatile uint32_t *ef__sq_wal_map(ef__sq_conn *conn); /* NULL: it cannot */
bool ef__sq_wal_read_header(const ef__sq_conn *conn, ef__sq_wal_header *out);
bool ef__sq_wal_is_unchanged(const ef__sq_conn *conn, const ef__sq_wal_header *header);

/*
 * Rows that are being read, by the functions that src/sqlgen.py generates. The statement is reset
 * after the last row, on failure, and by ef__sq_rows_end.
 */
typedef struct ef__sq_rows {
    ef__sq_conn *conn;
    sqlite3_stmt *stmt;
    ef__arena *arena; /* texts are copied into it; NULL: borrowed until the next row */
    size_t capacity;  /* of the array of ef__sq_rows_add */
    ef_error *err;
    ef_status status; /* a caller that sets a failure ends the reading */
} ef__sq_rows;

/* Steps to the next row; false after the last one and on failure. */
bool ef__sq_rows_next(ef__sq_rows *rows);
ef_str ef__sq_rows_text(ef__sq_rows *rows, int column);
ef_str ef__sq_rows_blob(ef__sq_rows *rows, int column);
/* Whether all texts of the row were copied; otherwise the reading ends. */
bool ef__sq_rows_check(ef__sq_rows *rows);
/* Appends a row to an array in the arena; returns the array. */
void *ef__sq_rows_add(ef__sq_rows *rows, const void *items, size_t *count, const void *row,
                      size_t size);
/* The status of the whole reading. Must be called, also when not all rows were read. */
ef_status ef__sq_rows_end(ef__sq_rows *rows);

/* Copies a value of exactly `size` bytes; another one is read as zeros. */
void ef__sq_column_bytes(sqlite3_stmt *stmt, int column, void *out, size_t size);

/* The text is borrowed until the next bind of the same index. */
void ef__sq_bind_str(sqlite3_stmt *stmt, int index, ef_str text);
void ef__sq_bind_blob(sqlite3_stmt *stmt, int index, ef_str bytes);
/* Valid until the next step, or in the call of an SQL function. */
ef_str ef__sq_value_str(sqlite3_value *value);
ef_str ef__sq_column_str(sqlite3_stmt *stmt, int column);
ef_str ef__sq_column_blob(sqlite3_stmt *stmt, int column);
