/*
 * conn.c - see conn.h. SQLite result codes are converted in ef__sq_fail only.
 */
#include "conn.h"

#include "../base/arena.h"
#include "../base/file.h"

#include <unistd.h>
#include <fcntl.h>
#include <everfold/clock.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* SQLite before 3.51.3 can lose pages when a commit restarts the WAL while a checkpoint runs.
 * checkpoint.h excludes that, so SQLite must not checkpoint by itself. */
static const char SETUP[] = "PRAGMA wal_autocheckpoint=0;"
                            "PRAGMA journal_size_limit=67108864;"
                            "PRAGMA mmap_size=0;"
                            "PRAGMA cell_size_check=ON;"
                            "PRAGMA trusted_schema=OFF;"
                            "PRAGMA temp_store=MEMORY;";

static const char *const SYNC[] = {"FULL", "NORMAL", "OFF"}; /* by ef__sq_sync */

static ef_status status_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW:
        return EF_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return EF_BUSY;
    case SQLITE_FULL:
        return EF_FULL;
    case SQLITE_NOMEM:
        return EF_NO_MEMORY;
    case SQLITE_CORRUPT:
        return EF_DAMAGED;
    case SQLITE_NOTADB:
        return EF_WRONG_STORE;
    default:
        return EF_IO;
    }
}

/* SQLite reports a read that the disk failed (EIO) as a malformed database. That is no damage that
 * can be found again: the file and its log know the error of the system. 0: there was none. */
static int read_error(ef__sq_conn *conn)
{
    sqlite3_file *log = NULL;
    int error = 0;

    if (!conn || !conn->db)
        return 0;
    (void)sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
    if (error == 0 &&
        sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK &&
        log && log->pMethods)
        (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
    return error;
}

ef_status ef__sq_fail(ef__sq_conn *conn, int rc, const char *what, ef_error *err)
{
    ef_status status = status_of(rc);
    int error = status == EF_DAMAGED ? read_error(conn) : 0;

    if (status == EF_OK)
        return EF_OK;
    if (error)
        return ef_fail(err, EF_IO, "%s: the disk failed a read: %s", what, strerror(error));
    if (status == EF_FULL)
        return ef_fail(err, EF_FULL,
                       "the disk is full: nothing was written; free some space and try again");
    if ((rc & 0xff) == SQLITE_NOTADB && conn && conn->db)
        return ef_fail(err, status, "%s is not an SQLite database",
                       sqlite3_db_filename(conn->db, "main"));
    return ef_fail(err, status, "%s: %s (SQLite %d)", what,
                   conn && conn->db ? sqlite3_errmsg(conn->db) : sqlite3_errstr(rc),
                   conn && conn->db ? sqlite3_extended_errcode(conn->db) : rc);
}

/* Waits for a lock of another process in short, growing sleeps until the deadline. The busy timeout
 * of SQLite sleeps in whole milliseconds, in which many commits fit. */
static int wait_for_lock(void *context, int tries)
{
    ef__sq_conn *conn = context;
    int64_t now_us = ef_clock_system()->mono_us(ef_clock_system()->context);
    int64_t sleep_us = tries < 20 ? 50 + 10 * tries : 1000;

    if (tries == 0)
        conn->busy_since_us = now_us;
    if (now_us - conn->busy_since_us >= conn->busy_ms * 1000)
        return 0;
    nanosleep(&(struct timespec){.tv_nsec = sleep_us * 1000}, NULL);
    return 1;
}

ef_status ef__sq_set_sync(ef__sq_conn *conn, ef__sq_sync sync, ef_error *err)
{
    char sql[40];
    ef_status st;

    if (conn->sync == sync)
        return EF_OK;
    (void)snprintf(sql, sizeof sql, "PRAGMA synchronous=%s", SYNC[sync]);
    st = ef__sq_fail(conn, sqlite3_exec(conn->db, sql, NULL, NULL, NULL), "choosing how to sync",
                     err);
    if (st == EF_OK)
        conn->sync = sync;
    return st;
}

static int record_wal_length(void *context, sqlite3 *db, const char *schema, int pages)
{
    (void)db, (void)schema;
    *(int *)context = pages;
    return SQLITE_OK;
}

void ef__sq_count_wal(ef__sq_conn *conn)
{
    (void)sqlite3_wal_hook(conn->db, record_wal_length, &conn->wal_pages);
}

ef_status ef__sq_function(ef__sq_conn *conn, const char *name, int arguments,
                          void (*function)(sqlite3_context *, int, sqlite3_value **), void *context,
                          ef_error *err)
{
    int rc = sqlite3_create_function_v2(conn->db, name, arguments, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                        context, function, NULL, NULL, NULL);

    return ef__sq_fail(conn, rc, "opening a connection", err);
}

ef_status ef__sq_set_up(ef__sq_conn *conn, const ef__sq_options *options, ef_error *err)
{
    char sql[100];
    int off = 0;
    ef_status st;

    sqlite3_busy_handler(conn->db, wait_for_lock, conn);
    (void)sqlite3_extended_result_codes(conn->db, 1);
    (void)sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, &off);
    if (!conn->borrowed)
        (void)sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DEFENSIVE, 1, &off);
    (void)snprintf(sql, sizeof sql, "PRAGMA synchronous=%s; PRAGMA cache_size=-%d",
                   SYNC[options->sync], options->cache_kib ? (int)options->cache_kib : 2048);
    conn->sync = options->sync;
    st = ef__sq_exec(conn, SETUP, err);
    return st == EF_OK ? ef__sq_exec(conn, sql, err) : st;
}

/* A connection without a database yet. */
static ef_status init_conn(ef__sq_conn *conn, const ef__sq_options *options, ef_error *err)
{
    *conn = (ef__sq_conn){.busy_ms = options->busy_ms, .statements = options->statements};
    if (!options->statements)
        return EF_OK;
    conn->prepared = calloc((size_t)options->statements->count, sizeof(sqlite3_stmt *));
    return conn->prepared ? EF_OK : ef_fail(err, EF_NO_MEMORY, "out of memory for a connection");
}

/* Creates the file readable by its owner only; SQLite copies the mode to the files beside it. An
 * existing file is not opened: closing it would release the locks of this process on it. */
static void create_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return;
    (void)close(fd);
    ef__owner_inherit(path);
}

ef_status ef__sq_open(ef__sq_conn *conn, const char *path, const ef__sq_options *options,
                      ef_error *err)
{
    int how = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
    ef_status st = init_conn(conn, options, err);

    if (st != EF_OK)
        return st;
    how |= options->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    how |= options->create ? SQLITE_OPEN_CREATE : 0;
    if (options->create && !options->read_only)
        create_file(path);
    st = ef__sq_fail(conn, sqlite3_open_v2(path, &conn->db, how, NULL), path, err);
    if (st == EF_OK)
        st = ef__sq_set_up(conn, options, err);
    if (st != EF_OK)
        ef__sq_close(conn);
    return st;
}

ef_status ef__sq_borrow(ef__sq_conn *conn, sqlite3 *db, const ef__sq_options *options,
                        ef_error *err)
{
    ef_status st = init_conn(conn, options, err);

    if (st != EF_OK)
        return st;
    conn->db = db;
    conn->borrowed = true;
    sqlite3_busy_handler(db, wait_for_lock, conn);
    return EF_OK;
}

void ef__sq_close(ef__sq_conn *conn)
{
    for (int i = 0; conn->prepared && i < conn->statements->count; i++)
        sqlite3_finalize(conn->prepared[i]);
    free(conn->prepared);
    sqlite3_finalize(conn->rollback);
    if (conn->borrowed)
        sqlite3_busy_handler(conn->db, NULL, NULL);
    else
        (void)sqlite3_close(conn->db);
    *conn = (ef__sq_conn){0};
}

/* journal_mode=WAL can fail without an error code and keep the old mode: the mode is read from its
 * row. The row comes before the commit: only the next step reports a failed write. */
static int step_to_wal(sqlite3_stmt *stmt, bool *out_on)
{
    int rc = sqlite3_step(stmt);

    *out_on = rc == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(stmt, 0), "wal") == 0;
    return rc == SQLITE_ROW ? sqlite3_step(stmt) : rc;
}

ef_status ef__sq_use_wal(ef__sq_conn *conn, bool read_only, ef_error *err)
{
    sqlite3_stmt *stmt = NULL;
    bool on = false;
    int rc = sqlite3_prepare_v2(
        conn->db, read_only ? "PRAGMA journal_mode" : "PRAGMA journal_mode=WAL", -1, &stmt, NULL);
    ef_status st;

    if (rc == SQLITE_OK)
        rc = step_to_wal(stmt, &on);
    /* Processes that switch at once would deadlock: SQLite fails without the handler. Retry. */
    for (int tries = 0; (rc & 0xff) == SQLITE_BUSY && wait_for_lock(conn, tries); tries++) {
        sqlite3_reset(stmt);
        rc = step_to_wal(stmt, &on);
    }
    st = ef__sq_fail(conn, rc, "switching to WAL mode", err);
    if (st == EF_OK && !on)
        st = ef_fail(err, EF_IO, "SQLite did not switch %s to WAL mode",
                     sqlite3_db_filename(conn->db, "main"));
    sqlite3_finalize(stmt);
    return st;
}

static int run_rollback(ef__sq_conn *conn)
{
    int rc = SQLITE_OK;

    if (!conn->rollback)
        rc = sqlite3_prepare_v3(conn->db, "ROLLBACK", -1, SQLITE_PREPARE_PERSISTENT,
                                &conn->rollback, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(conn->rollback);
    (void)sqlite3_reset(conn->rollback);
    conn->must_roll_back = !sqlite3_get_autocommit(conn->db);
    return rc;
}

void ef__sq_rollback(ef__sq_conn *conn)
{
    if (!sqlite3_get_autocommit(conn->db))
        (void)run_rollback(conn);
}

ef_status ef__sq_stmt(ef__sq_conn *conn, int which, sqlite3_stmt **out, ef_error *err)
{
    *out = NULL; /* callers reset it also when this fails */
    /* Until a failed rollback is done, a statement would see changes that were never committed. */
    if (conn->must_roll_back) {
        int rc = run_rollback(conn);
        if (conn->must_roll_back)
            return ef__sq_fail(conn, rc, "rollback", err);
    }
    if (!conn->prepared[which]) {
        int rc = sqlite3_prepare_v3(conn->db, conn->statements->sql[which], -1,
                                    SQLITE_PREPARE_PERSISTENT, &conn->prepared[which], NULL);
        if (rc != SQLITE_OK)
            return ef__sq_fail(conn, rc, conn->statements->names[which], err);
    }
    *out = conn->prepared[which];
    return EF_OK;
}

ef_status ef__sq_done(ef__sq_conn *conn, sqlite3_stmt *stmt, ef_error *err)
{
    int rc = sqlite3_step(stmt);
    ef_status st = ef__sq_fail(conn, rc, "writing", err);

    sqlite3_reset(stmt);
    return st;
}

ef_status ef__sq_run(ef__sq_conn *conn, int which, ef_error *err)
{
    sqlite3_stmt *stmt = NULL;
    ef_status st = ef__sq_stmt(conn, which, &stmt, err);

    if (st == EF_OK) {
        st = ef__sq_fail(conn, sqlite3_step(stmt), conn->statements->names[which], err);
        sqlite3_reset(stmt);
    }
    return st;
}

ef_status ef__sq_exec(ef__sq_conn *conn, const char *sql, ef_error *err)
{
    return ef__sq_fail(conn, sqlite3_exec(conn->db, sql, NULL, NULL, NULL), sql, err);
}

ef_status ef__sq_number(ef__sq_conn *conn, const char *sql, int64_t *out, ef_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(conn->db, sql, -1, &stmt, NULL);
    ef_status st;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(stmt, 0);
    st = ef__sq_fail(conn, rc, sql, err);
    sqlite3_finalize(stmt);
    return st;
}

ef_status ef__sq_set_number(ef__sq_conn *conn, const char *pragma, int64_t value, ef_error *err)
{
    char sql[80];

    (void)snprintf(sql, sizeof sql, "PRAGMA %s=%" PRId64, pragma, value);
    return ef__sq_exec(conn, sql, err);
}

/* The first region of the wal-index, which this connection has mapped already. The mapping stays
 * until the last connection of the process to this file is closed. */
const volatile uint32_t *ef__sq_wal_map(ef__sq_conn *conn)
{
    enum { REGION_BYTES = 32768 }; /* of the wal-index format */
    sqlite3_file *file = NULL;
    volatile void *region = NULL;

    if (!conn->wal_header &&
        sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK &&
        file && file->pMethods && file->pMethods->iVersion >= 2 && file->pMethods->xShmMap &&
        file->pMethods->xShmMap(file, 0, REGION_BYTES, 0, &region) == SQLITE_OK)
        conn->wal_header = region;
    return conn->wal_header;
}

bool ef__sq_wal_read_header(const ef__sq_conn *conn, ef__sq_wal_header *out)
{
    for (size_t i = 0; conn->wal_header && i < sizeof out->words / sizeof out->words[0]; i++)
        out->words[i] = conn->wal_header[i];
    return conn->wal_header != NULL;
}

/* A commit changes the header before any process can read what was committed. */
bool ef__sq_wal_is_unchanged(const ef__sq_conn *conn, const ef__sq_wal_header *header)
{
    for (size_t i = 0; conn->wal_header && i < sizeof header->words / sizeof header->words[0]; i++)
        if (header->words[i] != conn->wal_header[i])
            return false;
    return conn->wal_header != NULL;
}

/* --- rows ------------------------------------------------------------------------------------- */

bool ef__sq_rows_next(ef__sq_rows *rows)
{
    int rc;

    if (rows->status != EF_OK) {
        (void)ef__sq_rows_end(rows);
        return false;
    }
    assert(rows->stmt); /* the last row was not read before */
    rc = sqlite3_step(rows->stmt);
    if (rc == SQLITE_ROW)
        return true;
    rows->status = ef__sq_fail(rows->conn, rc, "reading", rows->err);
    (void)ef__sq_rows_end(rows);
    return false;
}

static ef_str read_text(ef__sq_rows *rows, ef_str text)
{
    if (!rows->arena)
        return text;
    text = ef__arena_copy(rows->arena, text);
    if (!text.ptr)
        rows->status = EF_NO_MEMORY;
    return text;
}

ef_str ef__sq_rows_text(ef__sq_rows *rows, int column)
{
    return read_text(rows, ef__sq_column_str(rows->stmt, column));
}

ef_str ef__sq_rows_blob(ef__sq_rows *rows, int column)
{
    return read_text(rows, ef__sq_column_blob(rows->stmt, column));
}

bool ef__sq_rows_check(ef__sq_rows *rows)
{
    if (rows->status == EF_OK)
        return true;
    rows->status = ef__no_memory(rows->err);
    (void)ef__sq_rows_end(rows);
    return false;
}

void *ef__sq_rows_add(ef__sq_rows *rows, const void *items, size_t *count, const void *row,
                      size_t size)
{
    char *grown = ef__arena_grow(rows->arena, (void *)items, *count, size, &rows->capacity);

    if (!grown) {
        rows->status = ef__no_memory(rows->err);
        return (void *)items;
    }
    memcpy(grown + *count * size, row, size);
    *count += 1;
    return grown;
}

ef_status ef__sq_rows_end(ef__sq_rows *rows)
{
    if (rows->stmt)
        sqlite3_reset(rows->stmt);
    rows->stmt = NULL;
    return rows->status;
}

void ef__sq_column_bytes(sqlite3_stmt *stmt, int column, void *out, size_t size)
{
    ef_str bytes = ef__sq_column_blob(stmt, column);

    memset(out, 0, size);
    if (bytes.len == size)
        memcpy(out, bytes.ptr, size);
}

/* --- values ----------------------------------------------------------------------------------- */

void ef__sq_bind_str(sqlite3_stmt *stmt, int index, ef_str text)
{
    sqlite3_bind_text(stmt, index, text.ptr ? text.ptr : "", (int)text.len, SQLITE_STATIC);
}

void ef__sq_bind_blob(sqlite3_stmt *stmt, int index, ef_str bytes)
{
    sqlite3_bind_blob(stmt, index, bytes.ptr ? bytes.ptr : "", (int)bytes.len, SQLITE_STATIC);
}

ef_str ef__sq_value_str(sqlite3_value *value)
{
    ef_str s;
    s.ptr = (const char *)sqlite3_value_text(value);
    s.len = (size_t)sqlite3_value_bytes(value);
    return s;
}

ef_str ef__sq_column_str(sqlite3_stmt *stmt, int column)
{
    ef_str s;
    s.ptr = (const char *)sqlite3_column_text(stmt, column);
    s.len = (size_t)sqlite3_column_bytes(stmt, column);
    return s;
}

ef_str ef__sq_column_blob(sqlite3_stmt *stmt, int column)
{
    ef_str s;
    s.ptr = sqlite3_column_blob(stmt, column);
    s.len = (size_t)sqlite3_column_bytes(stmt, column);
    return s;
}
