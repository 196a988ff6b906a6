/*
 * lease.c - leases on PostgreSQL: the rules of core/lease_rule.h, by the server clock, on locked
 * rows. A write locks the row of its lease, so that it cannot be taken over before the commit.
 */
#include "store.h"

#include "../lease_call.h"

/* --- under a lease ---------------------------------------------------------------------------- */

void pg_array_of_partitions(ef__pg_array *array, const ef_partition_lease *held_parts, size_t count)
{
    ef__pg_array_init(array, EF__PG_INT);
    for (size_t i = 0; i < count; i++)
        ef__pg_array_int(array, held_parts[i].partition);
}

static ef_lease_key lane_lease(const pg_lane *lane, ef_str name, int32_t partition)
{
    if (lane->kind == EF_LANE_KIND_PUBLISHER)
        return (ef_lease_key){EF_LEASE_PUBLISHER, name, partition};
    return (ef_lease_key){EF_LEASE_PARTITION, {0}, partition};
}

static ef_status send_lock_shared(pg_store *store, ef__pg_conn *conn, const ef_lease_key *key,
                                  ef__pg_array *partitions, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_int(&params, key->kind);
    ef__pg_add_str(&params, key->name);
    ef__pg_add_array(&params, partitions);
    pg_add_clock(store, &params);
    return ef__pg_send(conn, PJ_LEASE_LOCK_SHARED, &params, err);
}

ef_status pg_leases_send(pg_store *store, ef__pg_conn *conn, const pg_lane *lane, ef_str name,
                         const ef_partition_lease *held_parts, size_t count, ef_error *err)
{
    ef_lease_key key = lane_lease(lane, name, 0);
    ef__pg_array partitions;
    ef_status st;

    pg_array_of_partitions(&partitions, held_parts, count);
    st = send_lock_shared(store, conn, &key, &partitions, err);
    ef__pg_array_release(&partitions);
    return st;
}

/* Checks that the lease of a key is live under `token`. */
static ef_status check_lease(const PGresult *result, const ef_lease_key *key, int64_t token,
                             ef_error *err)
{
    int64_t found = 0;

    for (int i = 0; i < PQntuples(result); i++) {
        ef__lease_row row = {ef__pg_str(result, i, 1), ef__pg_int(result, i, 2),
                             ef__pg_int(result, i, 3), ef__pg_int(result, i, 4)};
        if (ef__pg_int(result, i, 0) != key->partition)
            continue;
        if (ef__lease_check(&row, token, ef__pg_int(result, i, 5)) == EF_OK)
            return EF_OK;
        found = row.token;
    }
    return ef__refuse_lost_lease(key, token, found, err);
}

ef_status pg_leases_receive(ef__pg_conn *conn, const pg_lane *lane, ef_str name,
                            const ef_partition_lease *held_parts, size_t count, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_receive(conn, &result, err);

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        ef_lease_key key = lane_lease(lane, name, held_parts[i].partition);
        st = check_lease(result, &key, held_parts[i].token, err);
    }
    PQclear(result);
    return st;
}

ef_status pg_token_check(pg_store *store, ef__pg_conn *conn, const ef_lease_key *key, int64_t token,
                         ef_error *err)
{
    ef__pg_array partitions;
    PGresult *result = NULL;
    ef_status st;

    ef__pg_array_init(&partitions, EF__PG_INT);
    ef__pg_array_int(&partitions, key->partition);
    st = send_lock_shared(store, conn, key, &partitions, err);
    if (st == EF_OK)
        st = ef__pg_receive(conn, &result, err);
    if (st == EF_OK)
        st = check_lease(result, key, token, err);
    PQclear(result);
    ef__pg_array_release(&partitions);
    return st;
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

typedef struct key_arrays {
    ef__pg_array kinds, names, partitions;
} key_arrays;

static void keys_init(key_arrays *keys)
{
    ef__pg_array_init(&keys->kinds, EF__PG_INT);
    ef__pg_array_init(&keys->names, EF__PG_TEXT);
    ef__pg_array_init(&keys->partitions, EF__PG_INT);
}

static void keys_release(key_arrays *keys)
{
    ef__pg_array_release(&keys->kinds);
    ef__pg_array_release(&keys->names);
    ef__pg_array_release(&keys->partitions);
}

static void keys_add(key_arrays *keys, const ef_lease_key *key)
{
    ef__pg_array_int(&keys->kinds, key->kind);
    ef__pg_array_str(&keys->names, key->name);
    ef__pg_array_int(&keys->partitions, key->partition);
}

static void keys_bind(key_arrays *keys, ef__pg_params *params)
{
    ef__pg_add_array(params, &keys->kinds);
    ef__pg_add_array(params, &keys->names);
    ef__pg_add_array(params, &keys->partitions);
}

static bool may_create(const ef_lease_call *call)
{
    return call->verb == EF_LEASE_ACQUIRE || call->verb == EF_LEASE_RENEW_OR_ACQUIRE;
}

/* Creates the rows of leases that may be acquired, then reads and locks all. */
static ef_status lock_rows(const lease_job *job, ef__pg_conn *conn, PGresult **out, ef_error *err)
{
    ef__pg_params make = {0}, lock = {0};
    key_arrays made, all;
    ef_status st = EF_OK;

    keys_init(&made);
    keys_init(&all);
    for (size_t i = 0; i < job->count; i++) {
        keys_add(&all, &job->calls[i].key);
        if (may_create(&job->calls[i]))
            keys_add(&made, &job->calls[i].key);
    }
    keys_bind(&made, &make);
    keys_bind(&all, &lock);
    pg_add_clock(job->store, &lock);
    if (made.kinds.count)
        st = ef__pg_send(conn, PJ_LEASE_CREATE, &make, err);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_LEASE_LOCK, &lock, out, err);
    keys_release(&made);
    keys_release(&all);
    return st;
}

/* A row, changed call by call. */
typedef struct lease_state {
    ef_lease_key key;
    ef__lease_row row;
    bool changed;
} lease_state;

static lease_state *find_state(lease_state *states, int count, const ef_lease_key *key)
{
    for (int i = 0; i < count; i++)
        if (states[i].key.kind == key->kind && states[i].key.partition == key->partition &&
            ef_str_equal(states[i].key.name, key->name))
            return &states[i];
    return NULL;
}

static ef_status call_one(lease_state *state, ef_lease_call *call, int64_t now_us, ef_error *err)
{
    ef__lease_row none = {0};
    ef__lease_row *row = state ? &state->row : &none;
    ef_status st = ef__lease_call_decide(call, row, now_us, row, err);

    if (state)
        state->changed = state->changed || st == EF_OK;
    return st;
}

static ef_status send_changes(const lease_state *states, int count, ef__pg_conn *conn,
                              ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array owners, tokens, untils, updated;
    key_arrays keys;
    ef_status st = EF_OK;

    keys_init(&keys);
    ef__pg_array_init(&owners, EF__PG_TEXT);
    ef__pg_array_init(&tokens, EF__PG_INT);
    ef__pg_array_init(&untils, EF__PG_INT);
    ef__pg_array_init(&updated, EF__PG_INT);
    for (int i = 0; i < count; i++) {
        if (!states[i].changed)
            continue;
        keys_add(&keys, &states[i].key);
        ef__pg_array_str(&owners, states[i].row.owner);
        ef__pg_array_int(&tokens, states[i].row.token);
        ef__pg_array_int(&untils, states[i].row.until_us);
        ef__pg_array_int(&updated, states[i].row.updated_us);
    }
    keys_bind(&keys, &params);
    ef__pg_add_array(&params, &owners);
    ef__pg_add_array(&params, &tokens);
    ef__pg_add_array(&params, &untils);
    ef__pg_add_array(&params, &updated);
    if (tokens.count)
        st = ef__pg_send(conn, PJ_LEASE_PUT, &params, err);
    keys_release(&keys);
    ef__pg_array_release(&owners);
    ef__pg_array_release(&tokens);
    ef__pg_array_release(&untils);
    ef__pg_array_release(&updated);
    return st;
}

static ef_status send_bring_back(const lease_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params[2] = {0};
    ef_status st;

    for (int i = 0; i < 2; i++) {
        pg_add_clock(job->store, &params[i]);
        ef__pg_add_int(&params[i], EF__CLOCK_SLACK_US);
    }
    st = ef__pg_send(conn, PJ_LEASE_BRING_BACK, &params[0], err);
    return st == EF_OK ? ef__pg_send(conn, PJ_WORKER_BRING_BACK, &params[1], err) : st;
}

static ef_status send_beat(const lease_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_str(&params, job->beat->worker->id);
    ef__pg_add_str(&params, job->beat->worker->host);
    ef__pg_add_int(&params, job->beat->worker->pid);
    pg_add_clock(job->store, &params);
    ef__pg_add_int(&params, job->beat->heartbeat_ms * 1000);
    ef__pg_add_int(&params, job->beat->worker->state == EF_WORKER_IDLE);
    return ef__pg_send(conn, PJ_WORKER_BEAT, &params, err);
}

static ef_status call_all(lease_job *job, ef__pg_conn *conn, const PGresult *rows, ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(EF_LIMIT_BATCH_BYTES);
    int count = PQntuples(rows);
    lease_state *states = pg_items_alloc(&arena, count, sizeof *states);
    int64_t now_us = count ? ef__pg_int(rows, 0, 7) : 0;
    ef_status st = states ? EF_OK : ef__no_memory(err);

    for (int i = 0; st == EF_OK && i < count; i++)
        states[i] = (lease_state){.key = {(ef_lease_kind)ef__pg_int(rows, i, 0),
                                          ef__pg_str(rows, i, 1), (int32_t)ef__pg_int(rows, i, 2)},
                                  .row = {ef__pg_str(rows, i, 3), ef__pg_int(rows, i, 4),
                                          ef__pg_int(rows, i, 5), ef__pg_int(rows, i, 6)}};
    for (size_t i = 0; st == EF_OK && i < job->count; i++) {
        ef_lease_call *call = &job->calls[i];
        lease_state *state = find_state(states, count, &call->key);
        if (!state && may_create(call))
            st = ef__pg_request_retry(conn, "a lease was pruned at the same time", err);
        else
            call->status = call_one(state, call, now_us, job->refused ? NULL : job->refusal);
        job->refused = job->refused || call->status != EF_OK;
    }
    if (st == EF_OK)
        st = send_changes(states, count, conn, err);
    ef__arena_release(&arena);
    return st;
}

static ef_status many_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    lease_job *job = context;
    PGresult *rows = NULL;
    ef_status st = EF_OK;

    job->refused = false;
    if (job->beat->worker)
        st = send_bring_back(job, conn, err);
    if (st == EF_OK && job->count)
        st = lock_rows(job, conn, &rows, err);
    if (st == EF_OK && job->count)
        st = call_all(job, conn, rows, err);
    if (st == EF_OK && job->beat->worker)
        st = send_beat(job, conn, err);
    if (st == EF_OK && job->beat->minute_count)
        st = pg_throughput_send(conn, job->beat->minutes, job->beat->minute_count, err);
    PQclear(rows);
    return st;
}

ef_status pg_lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                        const ef__heartbeat *beat, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef_error refusal = EF_ERROR_INIT;
    lease_job job = {store, calls, count, beat, &refusal, false};
    /* Idempotent: a repeated call finds a renewed or acquired lease under its token, and a released
     * one lost. */
    ef_status st = pg_write_idempotent(store, many_work, &job, err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        (void)pg_count_refused(store, calls[i].status);
    if (st == EF_OK && job.refused && err)
        *err = refusal;
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

ef_status pg_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                      ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef__arena *arena = &out->room->arena;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_lease *items = NULL;
    ef_status st;

    ef__pg_add_int(&params, kind ? (int64_t)*kind : -1);
    pg_add_clock(store, &params);
    st = ef__pg_read(store->pool, PJ_LEASE_ALL, &params, &result, err);
    if (st == EF_OK && !(items = pg_items_alloc(arena, PQntuples(result), sizeof *items)))
        st = ef__no_memory(err);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        ef__lease_row row = {pg_copy_text(result, i, 3, arena), ef__pg_int(result, i, 4),
                             ef__pg_int(result, i, 5), ef__pg_int(result, i, 6)};
        items[i] = (ef_lease){.key = {(ef_lease_kind)ef__pg_int(result, i, 0),
                                      pg_copy_text(result, i, 1, arena),
                                      (int32_t)ef__pg_int(result, i, 2)},
                              .holder = row.owner,
                              .token = row.token,
                              .until_us = row.until_us,
                              .updated_us = row.updated_us,
                              .live = ef__lease_live(&row, ef__pg_int(result, i, 7))};
        if (!items[i].key.name.ptr || !items[i].holder.ptr)
            st = ef__no_memory(err);
        out->count++;
    }
    out->items = items;
    PQclear(result);
    return st;
}
