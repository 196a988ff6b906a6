/*
 * worker.c - workers and their heartbeats on SQLite.
 */
#include "outbox.h"

typedef struct worker_job {
    sq_job base;
    ef_str id;
    int64_t older_than_ms, interval_ms;
    int64_t purged;
} worker_job;

ef_status sq_worker_beat(sq_store *store, const ef_worker *worker, int64_t heartbeat_ms,
                         ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    int64_t now_us = sq_clock_us(store);
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_WORKER_BEAT, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, worker->id);
    ef__sq_bind_str(stmt, 2, worker->host);
    sqlite3_bind_int64(stmt, 3, worker->pid);
    sqlite3_bind_int64(stmt, 4, now_us);
    sqlite3_bind_int64(stmt, 5, now_us + heartbeat_ms * 1000);
    sqlite3_bind_int(stmt, 6, worker->state == EF_WORKER_IDLE);
    return ef__sq_done(conn, stmt, err);
}

static ef_status run_leave(sq_store *store, sq_job *base, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_WORKER_LEAVE, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, ((worker_job *)base)->id);
    return ef__sq_done(conn, stmt, err);
}

static ef_status run_purge(sq_store *store, sq_job *base, ef_error *err)
{
    worker_job *job = (worker_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    int64_t now_us = sq_clock_us(store);
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_WORKER_PURGE_CLAIM, &stmt, err);

    job->purged = 0;
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, now_us);
    sqlite3_bind_int64(stmt, 2, job->interval_ms * 1000);
    st = ef__sq_done(conn, stmt, err);
    if (st != EF_OK || sqlite3_changes(conn->db) == 0)
        return st;
    st = ef__sq_stmt(conn, SQ_WORKER_PURGE, &stmt, err);
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, now_us - job->older_than_ms * 1000);
    st = ef__sq_done(conn, stmt, err);
    job->purged = st == EF_OK ? sqlite3_changes64(conn->db) : 0;
    return st;
}

ef_status sq_worker_leave(ef_journal *journal, ef_str id, ef_error *err)
{
    worker_job job = {.base = {.run = run_leave, .plans_first = true}, .id = id};

    return sq_submit(sq_store_of(journal), &job.base, err);
}

ef_status sq_worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                          int64_t *out_purged, ef_error *err)
{
    worker_job job = {
        .base = {.run = run_purge}, .older_than_ms = older_than_ms, .interval_ms = interval_ms};
    ef_status st = sq_submit(sq_store_of(journal), &job.base, err);

    if (st == EF_OK)
        *out_purged = job.purged;
    return st;
}

static bool worker_from_row(sqlite3_stmt *stmt, int64_t now_us, ef__arena *arena, ef_worker *out)
{
    *out = (ef_worker){.id = sq_column_copy(stmt, 0, arena),
                       .host = sq_column_copy(stmt, 1, arena),
                       .pid = sqlite3_column_int64(stmt, 2),
                       .started_us = sqlite3_column_int64(stmt, 3),
                       .updated_us = sqlite3_column_int64(stmt, 4),
                       .heartbeat_until_us = sqlite3_column_int64(stmt, 5),
                       .state = sqlite3_column_int(stmt, 6) ? EF_WORKER_IDLE : EF_WORKER_WORKING};
    ef__worker_judge(out, now_us);
    return out->id.ptr && out->host.ptr;
}

static ef_status list_workers(sq_store *store, ef__sq_conn *conn, ef_worker_list *out,
                              ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    int64_t now_us = sq_clock_us(store);
    ef_worker *items = NULL;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_WORKER_ALL, &stmt, err);

    if (st != EF_OK)
        return st;
    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        items = sq_list_grow(arena, items, out->count, sizeof *items);
        if (!items || !worker_from_row(stmt, now_us, arena, &items[out->count])) {
            sqlite3_reset(stmt);
            return ef__no_memory(err);
        }
        out->items = items;
        out->count++;
    }
    return st;
}

ef_status sq_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = list_workers(store, &reader->conn, out, err);
    sq_read_end(store, reader);
    return st;
}
