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
    ef__pg_rows rows =
        pj_each_partition_all(pg_on_log(store), pg_clock(store), &out->room->arena, err);
    ef_partition *items = ef__pg_rows_items(&rows, sizeof *items);

    out->items = items;
    while (pj_next_partition_all(&rows, &items[out->count])) {
        items[out->count].pending -= items[out->count].in_flight;
        out->count++;
    }
    return ef__pg_rows_end(&rows);
}

typedef struct sync_job {
    pg_store *store;
    const ef_partition_change *change;
    ef_partition_sync_result *out;
} sync_job;

static ef_status check_waiting(ef__pg_conn *conn, int32_t count, ef_error *err)
{
    ef__waiting_rows waiting = {.count = count};
    ef__pg_rows rows = pj_each_partition_waiting(ef__pg_on_conn(conn), count, err);
    struct pj_partition_waiting_row row;
    ef_status st;

    while (pj_next_partition_waiting(&rows, &row))
        ef__waiting_add(&waiting, (int32_t)row.partition, row.rows);
    st = ef__pg_rows_end(&rows);
    return st == EF_OK ? ef__waiting_check(&waiting, err) : st;
}

static ef_status prune_leases(const sync_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef_partition_sync_result *out = job->out;
    ef__pg_clock now = pg_clock(job->store);
    struct pj_lease_beyond_row beyond = {0};
    ef_status st = pj_one_lease_beyond(ef__pg_on_conn(conn), out->after, now, &beyond, NULL, err);

    if (st != EF_OK)
        return st;
    out->kept = beyond.held;
    out->pruned = job->change->prune ? beyond.free : 0;
    if (out->pruned == 0 || job->change->dry_run)
        return EF_OK;
    return pj_run_lease_prune(ef__pg_on_conn(conn), out->after, now, NULL, err);
}

static ef_status sync_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const sync_job *job = context;
    ef_partition_sync_result *out = job->out;
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
    if (st == EF_OK && out->after != out->before && !job->change->dry_run)
        st = pj_run_state_partitions_set(ef__pg_on_conn(conn), out->after, NULL, err);
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
