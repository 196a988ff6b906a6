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

    return sq_run_worker_beat(
        conn,
        &(struct sq_worker_beat){.worker = worker,
                                 .now = now_us,
                                 .heartbeat_until = now_us + heartbeat_ms * 1000,
                                 .idle = worker->state == EF_WORKER_IDLE},
        err);
}

static ef_status run_leave(sq_store *store, sq_job *base, ef_error *err)
{
    return sq_run_worker_leave(&store->writer.conn, ((worker_job *)base)->id, err);
}

static ef_status run_purge(sq_store *store, sq_job *base, ef_error *err)
{
    worker_job *job = (worker_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    int64_t now_us = sq_clock_us(store);
    ef_status st = sq_run_worker_purge_claim(
        conn, &(struct sq_worker_purge_claim){.now = now_us, .interval = job->interval_ms * 1000},
        err);

    job->purged = 0;
    if (st != EF_OK || sqlite3_changes(conn->db) == 0)
        return st;
    st = sq_run_worker_purge(conn, now_us - job->older_than_ms * 1000, err);
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

static ef_status list_workers(sq_store *store, ef__sq_conn *conn, ef_worker_list *out,
                              ef_error *err)
{
    int64_t now_us = sq_clock_us(store);
    ef__sq_rows rows = sq_each_worker_all(conn, &out->room->arena, err);
    ef_worker worker;

    while (sq_next_worker_all(&rows, &worker)) {
        worker.state = worker.state ? EF_WORKER_IDLE : EF_WORKER_WORKING;
        ef__worker_judge(&worker, now_us);
        out->items = ef__sq_rows_add(&rows, out->items, &out->count, &worker, sizeof worker);
    }
    return ef__sq_rows_end(&rows);
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
