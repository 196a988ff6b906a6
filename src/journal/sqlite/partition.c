/*
 * partition.c - partitions on SQLite: their rows, and their number.
 *
 * The number is in the state row, and so in the cached state of every process (state.h), which is
 * compared with the store in each writing transaction.
 */
#include "outbox.h"

ef_status sq_partition_count(ef_journal *journal, int32_t *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    int64_t count = 0;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = sq_one_state_partitions(&reader->conn, &count, NULL, err);
    sq_read_end(store, reader);
    *out = (int32_t)count;
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

typedef struct partition_listing {
    ef_partition *items;
    int32_t count;
} partition_listing;

static ef_status set_rows(ef__sq_conn *conn, int64_t lane, partition_listing *l, ef_error *err)
{
    ef__sq_rows rows =
        sq_each_partition_queued(conn, &(struct sq_partition_queued){.lane = lane}, err);
    struct sq_partition_queued_row row;
    ef_status st;

    while (sq_next_partition_queued(&rows, &row))
        if (row.partition < l->count)
            l->items[row.partition].pending = row.count;
    st = ef__sq_rows_end(&rows);
    if (st != EF_OK)
        return st;
    rows = sq_each_partition_retry_rows(
        conn, &(struct sq_partition_retry_rows){.kind = EF_LANE_KIND_PROJECTION}, err);
    while (sq_next_partition_queued(&rows, &row))
        if (row.partition < l->count)
            l->items[row.partition].retry_rows = row.count;
    return ef__sq_rows_end(&rows);
}

/* A queued row in flight is not pending. */
static ef_status set_in_flight(sq_store *store, ef__sq_conn *conn, const sq_lane *lane,
                               partition_listing *l, ef_error *err)
{
    sq_in_flight hands;
    ef_status st = sq_hands_load(store, conn, lane, &hands, err);

    for (int32_t p = 0; st == EF_OK && p < l->count; p++) {
        if (hands.of[p].upto == 0)
            continue;
        st = sq_one_outbox_count_in_flight(
            conn,
            &(struct sq_outbox_count_in_flight){.lane = lane->id,
                                                .partition = p,
                                                .offset = hands.of[p].mark,
                                                .in_flight = hands.of[p].upto,
                                                .any_tenant = true},
            &l->items[p].in_flight, NULL, err);
        l->items[p].pending -= l->items[p].in_flight;
    }
    return st;
}

static ef_status set_owner(sq_store *store, ef__sq_conn *conn, ef__arena *arena, ef_partition *out,
                           ef_error *err)
{
    ef_lease_key key = {.kind = EF_LEASE_PARTITION, .partition = out->number};
    sq_lease_row lease;
    ef_status st = sq_lease_get(conn, &key, &lease, err);

    if (st != EF_OK)
        return st;
    out->holder = ef__arena_copy(arena, lease.row.owner);
    out->token = lease.row.token;
    out->until_us = lease.row.until_us;
    out->live = ef__lease_live(&lease.row, sq_clock_us(store));
    return out->holder.ptr ? EF_OK : ef__no_memory(err);
}

static ef_status list_partitions(sq_store *store, ef__sq_conn *conn, ef_partition_list *out,
                                 ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    sq_lane lane;
    int64_t count = 0;
    partition_listing l;
    ef_status st = sq_one_state_partitions(conn, &count, NULL, err);

    if (st == EF_OK)
        st = sq_lane_need(conn, EF_STR(EF_LANE_APPLY), &lane, err);
    if (st != EF_OK)
        return st;
    l = (partition_listing){ef__arena_zalloc(arena, (size_t)count, sizeof *l.items),
                            (int32_t)count};
    if (!l.items)
        return ef__no_memory(err);
    for (int32_t p = 0; st == EF_OK && p < l.count; p++) {
        l.items[p].number = p;
        st = set_owner(store, conn, arena, &l.items[p], err);
    }
    if (st == EF_OK)
        st = set_rows(conn, lane.id, &l, err);
    if (st == EF_OK)
        st = set_in_flight(store, conn, &lane, &l, err);
    out->items = l.items;
    out->count = (size_t)l.count;
    return st;
}

ef_status sq_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = list_partitions(store, &reader->conn, out, err);
    sq_read_end(store, reader);
    return st;
}

/* --- the number of partitions ----------------------------------------------------------------- */

typedef struct sync_job {
    sq_job base;
    const ef_partition_change *change;
    ef_partition_sync_result *out;
} sync_job;

static ef_status add_waiting(ef__sq_rows rows, ef__waiting_rows *waiting)
{
    struct sq_partition_queued_row row;

    while (sq_next_partition_queued(&rows, &row))
        ef__waiting_add(waiting, (int32_t)row.partition, row.count);
    return ef__sq_rows_end(&rows);
}

static ef_status check_waiting(sq_writer *writer, int32_t count, ef_error *err)
{
    ef__sq_conn *conn = &writer->conn;
    ef__waiting_rows waiting = {.count = count};
    ef_status st = add_waiting(
        sq_each_partition_queued(conn, &(struct sq_partition_queued){.lowest = count}, err),
        &waiting);

    /* Rows that were queued in this transaction are not written yet. */
    for (size_t i = 0; i < writer->txn.queued_count; i++)
        ef__waiting_add(&waiting, writer->txn.queued[i].partition, 1);
    if (st == EF_OK)
        st = add_waiting(
            sq_each_partition_retry_rows(
                conn, &(struct sq_partition_retry_rows){.kind = -1, .lowest = count}, err),
            &waiting);
    return st == EF_OK ? ef__waiting_check(&waiting, err) : st;
}

static ef_status prune_lease(ef__sq_conn *conn, const ef_lease *lease, ef_error *err)
{
    ef_status st = sq_run_lease_token_floor_raise(conn, lease->token, err);

    return st == EF_OK ? sq_run_lease_prune(conn, &lease->key, err) : st;
}

static bool is_beyond(const ef_lease_key *key, int32_t count)
{
    return (key->kind == EF_LEASE_PARTITION || key->kind == EF_LEASE_PUBLISHER) &&
           key->partition >= count;
}

static ef_status prune_leases(sq_store *store, const sync_job *job, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef_lease_list list = {0};
    ef_status st = ef__memory_prepare(&list.room, err);

    if (st == EF_OK)
        st = sq_leases_load(store, conn, NULL, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        bool live = list.items[i].live, goes = !live && job->change->prune;
        if (!is_beyond(&list.items[i].key, job->out->after))
            continue;
        job->out->kept += live;
        job->out->pruned += goes;
        if (goes && !job->change->dry_run)
            st = prune_lease(conn, &list.items[i], err);
    }
    ef_memory_release(&list.room);
    return st;
}

static ef_status set_count(sq_store *store, int32_t count, ef_error *err)
{
    ef_status st = sq_run_state_partitions_set(&store->writer.conn, count, err);

    if (st == EF_OK)
        store->writer.txn.progress.partitions = count; /* for later jobs of this transaction */
    return st;
}

static ef_status run_sync(sq_store *store, sq_job *base, ef_error *err)
{
    sync_job *job = (sync_job *)base;
    ef_partition_sync_result *out = job->out;
    ef_status st;

    *out = (ef_partition_sync_result){.before = store->writer.txn.progress.partitions};
    out->after = job->change->count ? job->change->count : out->before;
    st = check_waiting(&store->writer, out->after, err);
    if (st == EF_OK)
        st = prune_leases(store, job, err);
    if (st == EF_OK && out->after != out->before && !job->change->dry_run)
        st = set_count(store, out->after, err);
    return st;
}

ef_status sq_partition_sync(ef_journal *journal, const ef_partition_change *change,
                            ef_partition_sync_result *out, ef_error *err)
{
    sync_job job = {.base = {.run = run_sync}, .change = change, .out = out};

    return sq_submit(sq_store_of(journal), &job.base, err);
}
