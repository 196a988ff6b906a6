/*
 * worker.c - workers and their heartbeats on PostgreSQL. pg_lease_many lets a worker join.
 */
#include "store.h"

typedef struct worker_job {
    pg_store *store;
    ef_str id;
    int64_t older_than_ms, interval_ms;
    int64_t purged;
} worker_job;

static ef_status leave_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const worker_job *job = context;
    ef__pg_params params = {0};

    ef__pg_add_str(&params, job->id);
    return ef__pg_query(conn, PJ_WORKER_LEAVE, &params, NULL, err);
}

ef_status pg_worker_leave(ef_journal *journal, ef_str id, ef_error *err)
{
    worker_job job = {.store = pg_store_of(journal), .id = id};

    return pg_write_idempotent(job.store, leave_work, &job, err);
}

static ef_status purge_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    worker_job *job = context;
    ef__pg_params claim = {0}, purge = {0};
    int64_t claimed = 0;
    ef_status st;

    job->purged = 0;
    pg_add_clock(job->store, &claim);
    ef__pg_add_int(&claim, job->interval_ms * 1000);
    pg_add_clock(job->store, &purge);
    ef__pg_add_int(&purge, job->older_than_ms * 1000);
    st = ef__pg_change(conn, PJ_WORKER_PURGE_CLAIM, &claim, &claimed, err);
    if (st == EF_OK && claimed)
        st = ef__pg_change(conn, PJ_WORKER_PURGE, &purge, &job->purged, err);
    return st;
}

ef_status pg_worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                          int64_t *out_purged, ef_error *err)
{
    worker_job job = {
        .store = pg_store_of(journal), .older_than_ms = older_than_ms, .interval_ms = interval_ms};
    ef_status st = pg_write_idempotent(job.store, purge_work, &job, err);

    *out_purged = st == EF_OK ? job.purged : 0;
    return st;
}

ef_status pg_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef__arena *arena = &out->room->arena;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_worker *items = NULL;
    ef_status st;

    pg_add_clock(store, &params);
    st = ef__pg_read(store->pool, PJ_WORKER_ALL, &params, &result, err);
    if (st == EF_OK && !(items = pg_items_alloc(arena, PQntuples(result), sizeof *items)))
        st = ef__no_memory(err);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        ef_worker *w = &items[i];
        *w = (ef_worker){.id = pg_copy_text(result, i, 0, arena),
                         .host = pg_copy_text(result, i, 1, arena),
                         .pid = ef__pg_int(result, i, 2),
                         .started_us = ef__pg_int(result, i, 3),
                         .updated_us = ef__pg_int(result, i, 4),
                         .heartbeat_until_us = ef__pg_int(result, i, 5),
                         .state = ef__pg_int(result, i, 7) ? EF_WORKER_IDLE : EF_WORKER_WORKING};
        ef__worker_judge(w, ef__pg_int(result, i, 6));
        if (!w->id.ptr || !w->host.ptr)
            st = ef__no_memory(err);
        out->count++;
    }
    out->items = items;
    PQclear(result);
    return st;
}
