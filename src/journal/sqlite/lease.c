/*
 * lease.c - workers on SQLite: leases, heartbeats, throughput and partitions. The rules of leases
 * are in core/lease_rule.h.
 *
 * A row of a lease stays after it was released, because its token must never be given again: view
 * stores record the highest token of a write, and refuse lower ones. For rows that are pruned
 * state.token_floor keeps the highest token.
 *
 * Leases use the unmodified clock, not sq_now_us: after the clock was set back, sq_now_us does not
 * advance, and no lease would expire. The rules handle a clock that was set back.
 *
 * The number of partitions is in the state row, and so in the cached state of every process
 * (state.h), which is compared with the store in each writing transaction.
 */
#include "outbox.h"

#include <errno.h>
#include <inttypes.h>

int64_t sq_clock_us(const sq_store *store)
{
    const ef_clock *clock = store->base.options.clock;

    return clock->wall_us(clock->context);
}

ef_status sq_lease_check(sq_store *store, ef__sq_conn *conn, const ef_lease_key *key, int64_t token,
                         ef_error *err)
{
    ef__sq_rows rows = sq_each_lease_get(conn, key, NULL, err);
    ef__lease_row row;

    if (sq_next_lease_get(&rows, &row) && ef__lease_check(&row, token, sq_clock_us(store)) != EF_OK)
        rows.status = ef__refuse_lost_lease(key, token, row.token, err);
    return ef__sq_rows_end(&rows);
}

/* Whether all of them are held, by one scan. */
static ef_status scan_held(sq_store *store, ef__sq_conn *conn, const sq_lane *lane,
                           const ef_partition_lease *held, size_t count, bool *out, ef_error *err)
{
    ef_lease_key key = ef__lane_lease(lane->kind, lane->name, held[0].partition);
    struct sq_lease_between range = {key.kind, key.name, key.partition, key.partition};
    int64_t now_us = sq_clock_us(store);
    struct sq_lease_between_row found;
    ef__held_map map;
    size_t live = 0;

    ef__held_map_init(&map, held, count);
    for (size_t i = 1; i < count; i++) {
        range.first = held[i].partition < range.first ? held[i].partition : range.first;
        range.last = held[i].partition > range.last ? held[i].partition : range.last;
    }
    ef__sq_rows rows = sq_each_lease_between(conn, &range, NULL, err);
    while (sq_next_lease_between(&rows, &found)) {
        int h = ef__held_find(&map, (int32_t)found.partition);
        ef__lease_row row = {.owner = found.owner,
                             .token = found.token,
                             .until_us = found.until_us,
                             .updated_us = found.updated_us};
        live += h >= 0 && ef__lease_check(&row, held[h].token, now_us) == EF_OK;
    }
    *out = live == count;
    return ef__sq_rows_end(&rows);
}

ef_status sq_held_check(sq_store *store, ef__sq_conn *conn, const sq_lane *lane,
                        const ef_partition_lease *held, size_t count, ef_error *err)
{
    bool all = false;
    ef_status st = count > 2 ? scan_held(store, conn, lane, held, count, &all, err) : EF_OK;

    for (size_t i = 0; st == EF_OK && !all && i < count; i++) {
        ef_lease_key key = ef__lane_lease(lane->kind, lane->name, held[i].partition);
        st = sq_lease_check(store, conn, &key, held[i].token, err);
    }
    return st;
}

ef_status sq_count_refused(sq_store *store, ef_status st)
{
    if (st == EF_LEASE_LOST)
        atomic_fetch_add(&store->stale_refused, 1);
    return st;
}

/* lease_live(owner, until, updated, now), for statements. A lease without a row has no owner. */
static void lease_live(sqlite3_context *context, int count, sqlite3_value **values)
{
    ef__lease_row row = {.owner = ef__sq_value_str(values[0]),
                         .until_us = sqlite3_value_int64(values[1]),
                         .updated_us = sqlite3_value_int64(values[2])};

    (void)count;
    sqlite3_result_int(context, ef__lease_live(&row, sqlite3_value_int64(values[3])));
}

ef_status sq_lease_live_register(ef__sq_conn *conn, ef_error *err)
{
    return ef__sq_function(conn, "lease_live", 4, lease_live, NULL, err);
}

/* --- calls and heartbeats --------------------------------------------------------------------- */

typedef struct lease_calls {
    ef_lease_call *calls;
    size_t count;
} lease_calls;

/* Runs one call; the status is the store's. `refusal` (may be NULL) gets a refusal's reason. */
static ef_status call_one(sq_store *store, ef__sq_conn *conn, ef_lease_call *call,
                          ef_error *refusal, ef_error *err)
{
    ef__sq_rows rows = sq_each_lease_get(conn, &call->key, NULL, err);
    ef__lease_row found, changed;

    if (sq_next_lease_get(&rows, &found) &&
        ef__lease_call_decide(call, &found, sq_clock_us(store), &changed, refusal) == EF_OK)
        rows.status = sq_run_lease_put(conn, &call->key, &changed, err);
    return ef__sq_rows_end(&rows);
}

/* Joins, or extends the heartbeat. */
static ef_status beat_worker(sq_store *store, ef__sq_conn *conn, const ef__heartbeat *beat,
                             ef_error *err)
{
    int64_t now_us = sq_clock_us(store);
    struct sq_lease_bring_back clock = {.now = now_us, .slack = EF__CLOCK_SLACK_US};
    ef_status st = sq_run_lease_bring_back(conn, &clock, err);

    if (st == EF_OK)
        st = sq_run_worker_bring_back(conn, &clock, err);
    if (st != EF_OK)
        return st;
    return sq_run_worker_beat(
        conn,
        &(struct sq_worker_beat){.worker = beat->worker,
                                 .now = now_us,
                                 .heartbeat_until = now_us + beat->heartbeat_ms * 1000,
                                 .idle = beat->worker->state == EF_WORKER_IDLE},
        err);
}

/* Adds to the rows of these minutes, and deletes rows older than a day. */
static ef_status add_throughput(ef__sq_conn *conn, const ef_throughput *minutes, size_t count,
                                ef_error *err)
{
    int64_t newest_us = 0;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        st = sq_run_throughput_add(conn, &minutes[i], err);
        newest_us = minutes[i].at_us > newest_us ? minutes[i].at_us : newest_us;
    }
    newest_us -= (EF_THROUGHPUT_MINUTES - 1) * EF__MINUTE_US;
    return st == EF_OK ? sq_run_throughput_drop(conn, newest_us, err) : st;
}

static ef_status run_calls(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                           ef_error *err)
{
    const ef__heartbeat *beat = asked;
    const lease_calls *these = out;
    ef_error *refusal = err;
    ef_status st = EF_OK;

    if (beat->worker)
        st = beat_worker(store, conn, beat, err);
    if (st == EF_OK && beat->minute_count)
        st = add_throughput(conn, beat->minutes, beat->minute_count, err);
    for (size_t i = 0; st == EF_OK && i < these->count; i++) {
        st = call_one(store, conn, &these->calls[i], refusal, err);
        if (these->calls[i].status != EF_OK)
            refusal = NULL; /* the first refusal is reported */
    }
    return st;
}

static ef_status lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                            const ef__heartbeat *beat, ef_error *err)
{
    lease_calls these = {calls, count};
    sq_job job = {.call = run_calls, .asked = beat, .out = &these, .keeps_state = true};
    sq_store *store = sq_store_of(journal);
    ef_status st = sq_submit(store, &job, err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        (void)sq_count_refused(store, calls[i].status);
    return st;
}

static ef_status lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                          ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK
               ? sq_list_lease_all(&reader->conn,
                                   &(struct sq_lease_all){.kind = kind ? (int64_t)*kind : -1,
                                                          .now = sq_clock_us(reader->store)},
                                   &out->room->arena, &out->items, &out->count, err)
               : st;
}

static ef_status throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                               ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK ? sq_list_throughput_all(&reader->conn, from_us, &out->room->arena,
                                                &out->items, &out->count, err)
                       : st;
}

/* --- workers ---------------------------------------------------------------------------------- */

static ef_status delete_worker(sq_store *store, ef__sq_conn *conn, const void *id, void *out,
                               ef_error *err)
{
    (void)store, (void)out;
    return sq_run_worker_leave(conn, *(const ef_str *)id, err);
}

static ef_status worker_leave(ef_journal *journal, ef_str id, ef_error *err)
{
    sq_job job = {.call = delete_worker, .asked = &id, .plans_first = true};

    return sq_submit(sq_store_of(journal), &job, err);
}

typedef struct worker_purge_request {
    int64_t older_than_ms, interval_ms;
} worker_purge_request;

static ef_status purge_workers(sq_store *store, ef__sq_conn *conn, const void *asked,
                               void *out_purged, ef_error *err)
{
    const worker_purge_request *is = asked;
    int64_t *purged = out_purged, now_us = sq_clock_us(store);
    ef_status st = sq_run_worker_purge_claim(
        conn, &(struct sq_worker_purge_claim){.now = now_us, .interval = is->interval_ms * 1000},
        err);

    *purged = 0;
    if (st != EF_OK || sqlite3_changes(conn->db) == 0)
        return st;
    st = sq_run_worker_purge(conn, now_us - is->older_than_ms * 1000, err);
    *purged = st == EF_OK ? sqlite3_changes64(conn->db) : 0;
    return st;
}

static ef_status worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                              int64_t *out_purged, ef_error *err)
{
    worker_purge_request asked = {older_than_ms, interval_ms};

    return sq_write(journal, purge_workers, &asked, out_purged, err);
}

static ef_status worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err)
{
    int64_t now_us = sq_clock_us(sq_store_of(journal));
    SQ_READER sq_reader *reader;
    ef__sq_rows rows;
    ef_worker worker;
    ef_status st = sq_read_begin(journal, &reader, err);

    if (st != EF_OK)
        return st;
    rows = sq_each_worker_all(&reader->conn, &out->room->arena, err);
    while (sq_next_worker_all(&rows, &worker)) {
        ef__worker_judge(&worker, now_us);
        out->items = ef__sq_rows_add(&rows, out->items, &out->count, &worker, sizeof worker);
    }
    return ef__sq_rows_end(&rows);
}

/* --- partitions ------------------------------------------------------------------------------- */

static ef_status partition_count(ef_journal *journal, int32_t *out, ef_error *err)
{
    int64_t count = 0;
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    if (st == EF_OK)
        st = sq_one_state_partitions(&reader->conn, &count, NULL, err);
    *out = (int32_t)count;
    return st;
}

static ef_status partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK ? sq_list_partition_all(&reader->conn, sq_clock_us(reader->store),
                                               &out->room->arena, &out->items, &out->count, err)
                       : st;
}

/* --- the number of partitions ----------------------------------------------------------------- */

static ef_status check_waiting(sq_writer *writer, int32_t count, ef_error *err)
{
    ef__waiting_rows waiting = {.count = count};
    ef__sq_rows rows = sq_each_partition_waiting(&writer->conn, count, err);
    struct sq_partition_waiting_row row;
    ef_status st;

    while (sq_next_partition_waiting(&rows, &row))
        ef__waiting_add(&waiting, (int32_t)row.partition, row.rows);
    st = ef__sq_rows_end(&rows);
    /* Rows that were queued in this transaction are not written yet. */
    for (size_t i = 0; i < writer->txn.queued_count; i++)
        if (writer->txn.queued[i].id >> 48 == 1)
            ef__waiting_add(&waiting, writer->txn.queued[i].partition, 1);
    return st == EF_OK ? ef__waiting_check(&waiting, err) : st;
}

static ef_status prune_leases(sq_store *store, ef__sq_conn *conn, const ef_partition_change *change,
                              ef_partition_sync_result *out, ef_error *err)
{
    struct sq_lease_beyond beyond = {.count = out->after, .now = sq_clock_us(store)};
    struct sq_lease_beyond_row found = {0};
    ef_status st = sq_one_lease_beyond(conn, &beyond, &found, NULL, err);

    out->kept = found.held;
    out->pruned = change->prune ? found.free : 0;
    if (st != EF_OK || out->pruned == 0 || change->dry_run)
        return st;
    st = sq_run_lease_token_floor_raise(conn, &beyond, err);
    return st == EF_OK ? sq_run_lease_prune(conn, &beyond, err) : st;
}

static ef_status sync_partitions(sq_store *store, ef__sq_conn *conn, const void *asked,
                                 void *result, ef_error *err)
{
    const ef_partition_change *change = asked;
    ef_partition_sync_result *out = result;
    int32_t *partitions = &store->writer.txn.progress.partitions;
    ef_status st;

    *out = (ef_partition_sync_result){.before = *partitions};
    out->after = change->count ? change->count : out->before;
    st = check_waiting(&store->writer, out->after, err);
    if (st == EF_OK)
        st = prune_leases(store, conn, change, out, err);
    if (st != EF_OK || out->after == out->before || change->dry_run)
        return st;
    st = sq_run_state_partitions_set(conn, out->after, err);
    if (st == EF_OK)
        *partitions = out->after; /* for later jobs of this transaction */
    return st;
}

static ef_status partition_sync(ef_journal *journal, const ef_partition_change *change,
                                ef_partition_sync_result *out, ef_error *err)
{
    return sq_write(journal, sync_partitions, change, out, err);
}

static ef_status wake_waiters(ef_journal *journal, ef_error *err)
{
    if (!sq_headfile_set_wake(&sq_store_of(journal)->writer.head))
        return ef_fail(err, EF_IO, "the head file could not be written: %s", strerror(errno));
    return EF_OK;
}

const ef__lease_ops sq_lease_ops = {
    .lease_many = lease_many,
    .lease_ls = lease_ls,
    .worker_leave = worker_leave,
    .worker_purge = worker_purge,
    .worker_ls = worker_ls,
    .throughput_ls = throughput_ls,
    .partition_ls = partition_ls,
    .partition_sync = partition_sync,
    .partition_count = partition_count,
    .wake = wake_waiters,
};
