/*
 * sq.c - see sq.h. All knowledge of SQLite's result codes is in sq_fail.
 */
#include "sq.h"

#include <everfold/clock.h>

#include <inttypes.h>
#include <string.h>
#include <time.h>

/* Debian's SQLite (before 3.51.3) can lose pages when a commit wraps the log while a checkpoint
 * runs; checkpoint.c keeps the two apart. Nothing here may checkpoint on its own. */
static const char SETUP[] = "PRAGMA synchronous=FULL;"
                            "PRAGMA wal_autocheckpoint=0;"
                            "PRAGMA journal_size_limit=67108864;"
                            "PRAGMA mmap_size=0;"
                            "PRAGMA cell_size_check=ON;"
                            "PRAGMA trusted_schema=OFF;"
                            "PRAGMA temp_store=MEMORY;"
                            "PRAGMA cache_size=-8192;";

ef_status sq_fail(sq_conn *conn, int rc, const char *what, ef_error *err)
{
    ef_status status;

    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW:
        return EF_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        status = EF_BUSY;
        break;
    case SQLITE_FULL:
        return ef_fail(err, EF_FULL,
                       "the disk is full: nothing was written; free some space and try again");
    case SQLITE_NOMEM:
        status = EF_NO_MEMORY;
        break;
    case SQLITE_CORRUPT:
        status = EF_DAMAGED;
        break;
    case SQLITE_NOTADB:
        status = EF_WRONG_STORE;
        break;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    default:
        status = EF_IO;
        break;
    }
    return ef_fail(err, status, "%s: %s (SQLite %d)", what,
                   conn && conn->db ? sqlite3_errmsg(conn->db) : sqlite3_errstr(rc),
                   conn && conn->db ? sqlite3_extended_errcode(conn->db) : rc);
}

/* Wait for another process's lock in short, growing sleeps until the deadline. SQLite's own busy
 * timeout sleeps in whole milliseconds, which is many commits long. */
static int wait_for_lock(void *context, int tries)
{
    sq_conn *conn = context;
    int64_t now_us = ef_clock_system()->mono_us(ef_clock_system()->context);
    int64_t sleep_us = tries < 20 ? 50 + 10 * tries : 1000;

    if (tries == 0)
        conn->busy_since_us = now_us;
    if (now_us - conn->busy_since_us >= conn->busy_ms * 1000)
        return 0;
    nanosleep(&(struct timespec){.tv_nsec = sleep_us * 1000}, NULL);
    return 1;
}

/* journal_mode=WAL can fail and leave the old mode with no error code: read it back. */
ef_status sq_conn_use_log(sq_conn *conn, bool read_only, ef_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        conn->db, read_only ? "PRAGMA journal_mode" : "PRAGMA journal_mode=WAL", -1, &stmt, NULL);
    ef_status st = EF_OK;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    /* Two that turn it on at once would wait for each other, so SQLite gives up without asking its
     * busy handler: begin again. */
    for (int tries = 0; (rc & 0xff) == SQLITE_BUSY && wait_for_lock(conn, tries); tries++) {
        sqlite3_reset(stmt);
        rc = sqlite3_step(stmt);
    }
    if (rc != SQLITE_ROW)
        st = sq_fail(conn, rc == SQLITE_DONE ? SQLITE_IOERR : rc, "turning on the log", err);
    else if (strcmp((const char *)sqlite3_column_text(stmt, 0), "wal") != 0)
        st = ef_fail(err, EF_IO, "the store would not turn on its log (journal mode is %s)",
                     (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    return st;
}

static ef_status set_up(sq_conn *conn, unsigned flags, ef_error *err)
{
    int off = 0;
    ef_status st;

    sqlite3_busy_handler(conn->db, wait_for_lock, conn);
    sqlite3_extended_result_codes(conn->db, 1);
    (void)sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, &off);
    if (!conn->borrowed)
        (void)sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DEFENSIVE, 1, &off);
    st = sq_fail(conn, sqlite3_exec(conn->db, SETUP, NULL, NULL, NULL), "setting up", err);
    if (st == EF_OK && (flags & SQ_OPEN_NO_SYNC))
        st = sq_fail(conn, sqlite3_exec(conn->db, "PRAGMA synchronous=OFF", NULL, NULL, NULL),
                     "setting up", err);
    return st;
}

ef_status sq_conn_open(sq_conn *conn, const char *path, unsigned flags, int64_t busy_ms,
                       ef_error *err)
{
    int how = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
    int rc;
    ef_status st;

    *conn = (sq_conn){.busy_ms = busy_ms};
    how |= flags & SQ_OPEN_READ_ONLY ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    how |= flags & SQ_OPEN_CREATE ? SQLITE_OPEN_CREATE : 0;
    rc = sqlite3_open_v2(path, &conn->db, how, NULL);
    if (rc != SQLITE_OK) {
        st = sq_fail(conn, rc, path, err);
        sq_conn_close(conn);
        return st;
    }
    st = set_up(conn, flags, err);
    if (st != EF_OK)
        sq_conn_close(conn);
    return st;
}

void sq_conn_borrow(sq_conn *conn, sqlite3 *db, int64_t busy_ms)
{
    *conn = (sq_conn){.db = db, .busy_ms = busy_ms, .borrowed = true};
    sqlite3_busy_handler(db, wait_for_lock, conn);
}

ef_status sq_conn_set_up(sq_conn *conn, ef_error *err)
{
    return set_up(conn, 0, err);
}

void sq_conn_close(sq_conn *conn)
{
    for (int i = 0; i < SQ_COUNT; i++) {
        sqlite3_finalize(conn->stmts[i]);
        conn->stmts[i] = NULL;
    }
    if (conn->borrowed)
        sqlite3_busy_handler(conn->db, NULL, NULL);
    else
        (void)sqlite3_close(conn->db);
    conn->db = NULL;
}

ef_status sq_stmt(sq_conn *conn, int which, sqlite3_stmt **out, ef_error *err)
{
    if (!conn->stmts[which]) {
        int rc = sqlite3_prepare_v3(conn->db, sq_sql[which], -1, SQLITE_PREPARE_PERSISTENT,
                                    &conn->stmts[which], NULL);
        if (rc != SQLITE_OK)
            return sq_fail(conn, rc, sq_names[which], err);
    }
    *out = conn->stmts[which];
    return EF_OK;
}

ef_status sq_done(sq_conn *conn, sqlite3_stmt *stmt, ef_error *err)
{
    int rc = sqlite3_step(stmt);
    ef_status st = sq_fail(conn, rc, "writing", err);

    sqlite3_reset(stmt);
    return st;
}

ef_status sq_row(sq_conn *conn, sqlite3_stmt *stmt, bool *out_row, ef_error *err)
{
    int rc = sqlite3_step(stmt);
    ef_status st = sq_fail(conn, rc, "reading", err);

    *out_row = rc == SQLITE_ROW;
    if (!*out_row)
        sqlite3_reset(stmt);
    return st;
}

ef_status sq_find(sq_conn *conn, int which, int64_t key, sqlite3_stmt **out, bool *out_row,
                  ef_error *err)
{
    ef_status st = sq_stmt(conn, which, out, err);

    *out_row = false;
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(*out, 1, key);
    return sq_row(conn, *out, out_row, err);
}

ef_status sq_run(sq_conn *conn, int which, ef_error *err)
{
    sqlite3_stmt *stmt = NULL;
    ef_status st = sq_stmt(conn, which, &stmt, err);

    if (st != EF_OK)
        return st;
    st = sq_fail(conn, sqlite3_step(stmt), sq_names[which], err);
    sqlite3_reset(stmt);
    return st;
}

ef_status sq_number(sq_conn *conn, int which, int64_t *out, ef_error *err)
{
    sqlite3_stmt *stmt = NULL;
    bool row = false;
    ef_status st = sq_stmt(conn, which, &stmt, err);

    if (st == EF_OK)
        st = sq_row(conn, stmt, &row, err);
    if (st == EF_OK && row) {
        *out = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return st;
}

void sq_bind_str(sqlite3_stmt *stmt, int index, ef_str text)
{
    sqlite3_bind_text(stmt, index, text.ptr ? text.ptr : "", (int)text.len, SQLITE_STATIC);
}

ef_str sq_column_str(sqlite3_stmt *stmt, int column)
{
    ef_str s;
    s.ptr = (const char *)sqlite3_column_text(stmt, column);
    s.len = (size_t)sqlite3_column_bytes(stmt, column);
    return s;
}
