/*
 * partition.c - partitions on PostgreSQL: their rows, and their number.
 *
 * The number is changed under the locks of appends and retry rows, so no row is added to a
 * partition that is being removed.
 */
#include "store.h"

ef_status pg_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef__arena *arena = &out->room->arena;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_partition *items = NULL;
    ef_status st;

    pg_add_clock(store, &params);
    st = pg_read(store, PJ_PARTITION_ALL, &params, &result, err);
    if (st == EF_OK && !(items = pg_items_alloc(arena, PQntuples(result), sizeof *items)))
        st = ef__no_memory(err);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        items[i] = (ef_partition){.number = (int32_t)ef__pg_int(result, i, 0),
                                  .holder = pg_copy_text(result, i, 1, arena),
                                  .token = ef__pg_int(result, i, 2),
                                  .until_us = ef__pg_int(result, i, 3),
                                  .live = ef__pg_bool(result, i, 4),
                                  .in_flight = ef__pg_int(result, i, 6),
                                  .retry_rows = ef__pg_int(result, i, 7)};
        items[i].pending = ef__pg_int(result, i, 5) - items[i].in_flight;
        if (!items[i].holder.ptr)
            st = ef__no_memory(err);
        out->count++;
    }
    out->items = items;
    PQclear(result);
    return st;
}

typedef struct sync_job {
    pg_store *store;
    const ef_partition_change *change;
    ef_partition_sync_result *out;
} sync_job;

static ef_status check_waiting(ef__pg_conn *conn, int32_t count, ef_error *err)
{
    ef__waiting_rows waiting = {.count = count};
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    ef__pg_add_int(&params, count);
    st = ef__pg_query(conn, PJ_PARTITION_WAITING, &params, &result, err);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++)
        ef__waiting_add(&waiting, (int32_t)ef__pg_int(result, i, 0), ef__pg_int(result, i, 1));
    PQclear(result);
    return st == EF_OK ? ef__waiting_check(&waiting, err) : st;
}

static ef_status prune_leases(const sync_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params count = {0}, prune = {0};
    PGresult *result = NULL;
    ef_status st;

    ef__pg_add_int(&count, job->out->after);
    pg_add_clock(job->store, &count);
    ef__pg_add_int(&prune, job->out->after);
    pg_add_clock(job->store, &prune);
    st = ef__pg_query(conn, PJ_LEASE_BEYOND, &count, &result, err);
    if (st == EF_OK) {
        job->out->kept = ef__pg_int(result, 0, 0);
        job->out->pruned = job->change->prune ? ef__pg_int(result, 0, 1) : 0;
    }
    PQclear(result);
    if (st == EF_OK && job->out->pruned && !job->change->dry_run)
        st = ef__pg_query(conn, PJ_LEASE_PRUNE, &prune, NULL, err);
    return st;
}

static ef_status sync_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const sync_job *job = context;
    ef_partition_sync_result *out = job->out;
    ef__pg_params params = {0};
    pg_end end = {0};
    ef_status st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);

    if (st == EF_OK)
        st = pg_sequence_begin(job->store, conn, &end, err);
    *out = (ef_partition_sync_result){.before = end.partitions};
    out->after = job->change->count ? job->change->count : out->before;
    pg_end_release(&end);
    if (st == EF_OK)
        st = check_waiting(conn, out->after, err);
    if (st == EF_OK)
        st = prune_leases(job, conn, err);
    ef__pg_add_int(&params, out->after);
    if (st == EF_OK && out->after != out->before && !job->change->dry_run)
        st = ef__pg_query(conn, PJ_STATE_PARTITIONS_SET, &params, NULL, err);
    return st;
}

ef_status pg_partition_sync(ef_journal *journal, const ef_partition_change *change,
                            ef_partition_sync_result *out, ef_error *err)
{
    sync_job job = {pg_store_of(journal), change, out};
    ef__pg_lock_wait lock_wait = {.lock_ms = journal->options.busy_ms};
    ef_status st = pg_transaction_in_sequence(job.store, &lock_wait, sync_work, &job, err);

    if (st == EF_OK)
        atomic_fetch_add(&job.store->commits, 1);
    return st;
}
