/*
 * lease.c - leases, workers with their heartbeats, and counters per minute on PostgreSQL: the rules
 * of core/lease_rule.h, by the server clock, on locked rows. A write locks the row of its lease, so
 * that it cannot be taken over before the commit.
 *
 * The number of partitions is changed under the locks of appends and retry rows, so no row is added
 * to a partition that is being removed.
 */
#include "store.h"

/* --- under a lease ---------------------------------------------------------------------------- */

ef__pg_array pg_array_of_partitions(const ef_partition_lease *held, size_t count)
{
    ef__pg_array array = {0};

    for (size_t i = 0; i < count; i++)
        ef__pg_array_int(&array, held[i].partition);
    return array;
}

ef_status pg_leases_send(pg_store *store, ef__pg_conn *conn, const pg_lane *lane, ef_str name,
                         const ef_partition_lease *held, size_t count, ef_error *err)
{
    ef_lease_key key = ef__lane_lease(lane->kind, name, 0);
    ef__pg_array partitions = pg_array_of_partitions(held, count);

    return pj_send_lease_lock_held(conn, key.kind, key.name, &partitions, pg_clock(store), err);
}

/* Checks that the lease of a key is live under `token`. */
static ef_status check_lease(ef__pg_rows rows, const ef_lease_key *key, int64_t token,
                             ef_error *err)
{
    pg_lease_row found;
    int64_t found_token = 0;

    while (pj_next_lease_lock_held(&rows, &found)) {
        if (found.key.partition != key->partition)
            continue;
        if (ef__lease_check(&found.row, token, found.now_us) == EF_OK)
            return EF_OK;
        found_token = found.row.token;
    }
    return ef__refuse_lost_lease(key, token, found_token, err);
}

ef_status pg_leases_receive(ef__pg_conn *conn, const pg_lane *lane, ef_str name,
                            const ef_partition_lease *held, size_t count, ef_error *err)
{
    ef__pg_rows rows = ef__pg_rows_receive(conn, NULL, err);

    for (size_t i = 0; rows.status == EF_OK && i < count; i++) {
        ef_lease_key key = ef__lane_lease(lane->kind, name, held[i].partition);
        rows.status = check_lease(rows, &key, held[i].token, err);
    }
    return ef__pg_rows_end(&rows);
}

ef_status pg_token_check(pg_store *store, ef__pg_conn *conn, const ef_lease_key *key, int64_t token,
                         ef_error *err)
{
    ef__pg_array partitions = {0};
    ef__pg_rows rows;

    ef__pg_array_int(&partitions, key->partition);
    rows = pj_each_lease_lock_held(ef__pg_on_conn(conn), key->kind, key->name, &partitions,
                                     pg_clock(store), NULL, err);
    if (rows.status == EF_OK)
        rows.status = check_lease(rows, key, token, err);
    return ef__pg_rows_end(&rows);
}

/* --- calls ------------------------------------------------------------------------------------ */

typedef struct lease_job {
    pg_store *store;
    ef_lease_call *calls;
    size_t count;
    const ef__heartbeat *beat;
    ef_error *refusal;
    bool refused;
} lease_job;

static bool may_create(const ef_lease_call *call)
{
    return call->verb == EF_LEASE_ACQUIRE || call->verb == EF_LEASE_RENEW_OR_ACQUIRE;
}

static ef_status send_create(const lease_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_lease_create made = {0};

    for (size_t i = 0; i < job->count; i++) {
        if (!may_create(&job->calls[i]))
            continue;
        ef__pg_array_int(&made.kinds, job->calls[i].key.kind);
        ef__pg_array_str(&made.names, job->calls[i].key.name);
        ef__pg_array_int(&made.partitions, job->calls[i].key.partition);
    }
    return made.kinds.count ? pj_send_lease_create(conn, &made, err) : EF_OK;
}

/* Creates the rows of leases that may be acquired, then reads and locks all. */
static ef__pg_rows lock_rows(const lease_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_lease_lock all = {.now = pg_clock(job->store)};
    ef_status st = send_create(job, conn, err);

    if (st != EF_OK)
        return (ef__pg_rows){.status = st};
    for (size_t i = 0; i < job->count; i++) {
        ef__pg_array_int(&all.kinds, job->calls[i].key.kind);
        ef__pg_array_str(&all.names, job->calls[i].key.name);
        ef__pg_array_int(&all.partitions, job->calls[i].key.partition);
    }
    return pj_each_lease_lock(ef__pg_on_conn(conn), &all, NULL, err);
}

/* A row, changed call by call. */
typedef struct lease_state {
    pg_lease_row is;
    bool changed;
} lease_state;

static lease_state *find_state(lease_state *states, int count, const ef_lease_key *key)
{
    for (int i = 0; i < count; i++) {
        const ef_lease_key *found = &states[i].is.key;
        if (found->kind == key->kind && found->partition == key->partition &&
            ef_str_equal(found->name, key->name))
            return &states[i];
    }
    return NULL;
}

static ef_status call_one(lease_state *state, ef_lease_call *call, int64_t now_us, ef_error *err)
{
    ef__lease_row none = {0};
    ef__lease_row *row = state ? &state->is.row : &none;
    ef_status st = ef__lease_call_decide(call, row, now_us, row, err);

    if (state)
        state->changed = state->changed || st == EF_OK;
    return st;
}

static ef_status send_changes(const lease_state *states, int count, ef__pg_conn *conn,
                              ef_error *err)
{
    struct pj_lease_put put = {0};

    for (int i = 0; i < count; i++) {
        const pg_lease_row *lease = &states[i].is;
        if (!states[i].changed)
            continue;
        ef__pg_array_int(&put.kinds, lease->key.kind);
        ef__pg_array_str(&put.names, lease->key.name);
        ef__pg_array_int(&put.partitions, lease->key.partition);
        ef__pg_array_str(&put.owners, lease->row.owner);
        ef__pg_array_int(&put.tokens, lease->row.token);
        ef__pg_array_int(&put.untils, lease->row.until_us);
        ef__pg_array_int(&put.updated, lease->row.updated_us);
    }
    return put.tokens.count ? pj_send_lease_put(conn, &put, err) : EF_OK;
}

static ef_status call_all(lease_job *job, ef__pg_conn *conn, ef__pg_rows *rows, ef_error *err)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(EF_LIMIT_BATCH_BYTES);
    lease_state *states = ef__arena_zalloc(&arena, (size_t)rows->count + 1, sizeof *states);
    int count = 0;
    ef_status st = states ? rows->status : ef__no_memory(err);

    while (st == EF_OK && pj_next_lease_lock(rows, &states[count].is))
        count++;
    for (size_t i = 0; st == EF_OK && i < job->count; i++) {
        ef_lease_call *call = &job->calls[i];
        lease_state *state = find_state(states, count, &call->key);
        if (!state && may_create(call))
            st = ef__pg_request_retry(conn, "a lease was pruned at the same time", err);
        else
            call->status =
                call_one(state, call, states[0].is.now_us, job->refused ? NULL : job->refusal);
        job->refused = job->refused || call->status != EF_OK;
    }
    if (st == EF_OK)
        st = send_changes(states, count, conn, err);
    return st;
}

static ef_status lock_and_call(lease_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_rows rows = lock_rows(job, conn, err);

    if (rows.status == EF_OK)
        rows.status = call_all(job, conn, &rows, err);
    return ef__pg_rows_end(&rows);
}

/* --- heartbeats and throughput ---------------------------------------------------------------- */

static ef_status send_bring_back(const lease_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_clock now = pg_clock(job->store);
    ef_status st = pj_send_lease_bring_back(conn, now, EF__CLOCK_SLACK_US, err);

    return st == EF_OK ? pj_send_worker_bring_back(conn, now, EF__CLOCK_SLACK_US, err) : st;
}

/* Adds to the rows of these minutes, and drops those that are older than a day. */
static ef_status send_throughput(ef__pg_conn *conn, const ef_throughput *minutes, size_t count,
                                 ef_error *err)
{
    int64_t newest_us = 0;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        st = pj_send_throughput_add(conn, &minutes[i], err);
        newest_us = minutes[i].at_us > newest_us ? minutes[i].at_us : newest_us;
    }
    if (st != EF_OK)
        return st;
    return pj_send_throughput_drop(conn, newest_us - (EF_THROUGHPUT_MINUTES - 1) * EF__MINUTE_US,
                                   err);
}

static ef_status throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                               ef_error *err)
{
    return pj_list_throughput_all(ef__pg_on_pool(pg_store_of(journal)->pool), from_us,
                                  &out->room->arena, &out->items, &out->count, err);
}

static ef_status many_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    lease_job *job = context;
    const ef__heartbeat *beat = job->beat;
    ef_status st = EF_OK;

    job->refused = false;
    if (beat->worker)
        st = send_bring_back(job, conn, err);
    if (st == EF_OK && job->count)
        st = lock_and_call(job, conn, err);
    if (st == EF_OK && beat->worker)
        st = pj_send_worker_beat(
            conn,
            &(struct pj_worker_beat){.worker = beat->worker,
                                     .now = pg_clock(job->store),
                                     .heartbeat_us = beat->heartbeat_ms * 1000,
                                     .idle = beat->worker->state == EF_WORKER_IDLE},
            err);
    if (st == EF_OK && beat->minute_count)
        st = send_throughput(conn, beat->minutes, beat->minute_count, err);
    return st;
}

static ef_status lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                            const ef__heartbeat *beat, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef_error refusal = EF_ERROR_INIT;
    lease_job job = {store, calls, count, beat, &refusal, false};
    /* Idempotent: repeated, a renewed or acquired lease has its token, a released one is lost. */
    ef_status st = pg_write_idempotent(store, many_work, &job, err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        (void)pg_count_refused(store, calls[i].status);
    if (st == EF_OK && job.refused && err)
        *err = refusal;
    return st;
}

/* --- leases and workers in lists -------------------------------------------------------------- */

static ef_status lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                          ef_error *err)
{
    pg_store *store = pg_store_of(journal);

    return pj_list_lease_all(ef__pg_on_pool(store->pool), kind ? (int64_t)*kind : -1,
                             pg_clock(store), &out->room->arena, &out->items, &out->count, err);
}

static ef_status worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef__pg_rows rows =
        pj_each_worker_all(ef__pg_on_pool(store->pool), pg_clock(store), &out->room->arena, err);
    ef_worker *items = ef__pg_rows_items(&rows, sizeof *items);
    pg_worker_row row;

    out->items = items;
    while (pj_next_worker_all(&rows, &row)) {
        ef__worker_judge(&row.worker, row.now_us);
        items[out->count++] = row.worker;
    }
    return ef__pg_rows_end(&rows);
}

/* --- workers that end ------------------------------------------------------------------------- */

static ef_status worker_leave(ef_journal *journal, ef_str id, ef_error *err)
{
    return pj_run_worker_leave(pg_on_write_idempotent(pg_store_of(journal)), id, NULL, err);
}

typedef struct purge_job {
    pg_store *store;
    int64_t older_than_ms, interval_ms;
    int64_t purged;
} purge_job;

static ef_status purge_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    purge_job *job = context;
    ef__pg_clock now = pg_clock(job->store);
    ef__pg_on on = ef__pg_on_conn(conn);
    int64_t claimed = 0;
    ef_status st = pj_run_worker_purge_claim(on, now, job->interval_ms * 1000, &claimed, err);

    job->purged = 0;
    if (st != EF_OK || claimed == 0)
        return st;
    return pj_run_worker_purge(on, now, job->older_than_ms * 1000, &job->purged, err);
}

static ef_status worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                              int64_t *out_purged, ef_error *err)
{
    purge_job job = {pg_store_of(journal), older_than_ms, interval_ms, 0};
    ef_status st = pg_write_idempotent(job.store, purge_work, &job, err);

    *out_purged = st == EF_OK ? job.purged : 0;
    return st;
}

/* --- partitions ------------------------------------------------------------------------------- */

static ef_status partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err)
{
    pg_store *store = pg_store_of(journal);

    return pj_list_partition_all(pg_on_log(store), pg_clock(store), &out->room->arena, &out->items,
                                 &out->count, err);
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
    ef__buf_release(&end.scratch);
    if (st == EF_OK)
        st = check_waiting(conn, out->after, err);
    if (st == EF_OK)
        st = prune_leases(job, conn, err);
    if (st == EF_OK && out->after != out->before && !job->change->dry_run)
        st = pj_run_state_partitions_set(ef__pg_on_conn(conn), out->after, NULL, err);
    return st;
}

static ef_status partition_sync(ef_journal *journal, const ef_partition_change *change,
                                ef_partition_sync_result *out, ef_error *err)
{
    sync_job job = {pg_store_of(journal), change, out};

    return pg_write(job.store, sync_work, &job, err);
}

static ef_status partition_count(ef_journal *journal, int32_t *out, ef_error *err)
{
    ef__pg_rows rows = pj_each_state_get(ef__pg_on_pool(pg_store_of(journal)->pool), NULL, err);
    struct pj_state_get_row state;

    if (pj_next_state_get(&rows, &state))
        *out = (int32_t)state.partitions;
    return ef__pg_rows_end(&rows);
}

static ef_status wake_waiters(ef_journal *journal, ef_error *err)
{
    return pj_run_notify(ef__pg_on_pool(pg_store_of(journal)->pool), NULL, err);
}

const ef__lease_ops pg_lease_ops = {
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
