/*
 * lease.c - leases on SQLite: the rules of core/lease_rule.h on stored rows.
 *
 * A row stays after its lease was released, because its token must never be given again: view
 * stores record the highest token of a write, and refuse lower ones. For rows that are pruned
 * (partition.c) state.token_floor keeps the highest token.
 *
 * Leases use the unmodified clock, not sq_now_us: after the clock was set back, sq_now_us does not
 * advance, and no lease would expire. The rules handle a clock that was set back.
 */
#include "outbox.h"

#include "../lease_call.h"

#include <inttypes.h>

typedef struct lease_job {
    sq_job base;
    ef_lease_call *calls;
    size_t count;
    const ef__heartbeat *beat;
} lease_job;

ef_status sq_lease_get(ef__sq_conn *conn, const ef_lease_key *key, sq_lease_row *out, ef_error *err)
{
    ef__sq_rows rows = sq_each_lease_get(conn, key, NULL, err);
    struct sq_lease_get_row found;

    out->row = (ef__lease_row){0};
    if (!sq_next_lease_get(&rows, &found))
        return rows.status == EF_OK ? sq_one_lease_token_floor(conn, &out->row.token, NULL, err)
                                    : rows.status;
    if (found.owner.len > sizeof out->owner)
        rows.status =
            ef_fail(err, EF_DAMAGED, "the owner of a lease has %zu bytes", found.owner.len);
    else if (found.owner.len)
        memcpy(out->owner, found.owner.ptr, found.owner.len);
    out->row =
        (ef__lease_row){{out->owner, found.owner.len}, found.token, found.until, found.updated};
    return ef__sq_rows_end(&rows);
}

int64_t sq_clock_us(const sq_store *store)
{
    const ef_clock *clock = store->base.options.clock;

    return clock->wall_us(clock->context);
}

ef_status sq_lease_check(sq_store *store, ef__sq_conn *conn, const ef_lease_key *key, int64_t token,
                         ef_error *err)
{
    sq_lease_row lease;
    ef_status st = sq_lease_get(conn, key, &lease, err);

    if (st != EF_OK)
        return st;
    if (ef__lease_check(&lease.row, token, sq_clock_us(store)) != EF_OK)
        return ef__refuse_lost_lease(key, token, lease.row.token, err);
    return EF_OK;
}

ef_lease_key sq_lane_lease(const sq_lane *lane, int32_t partition)
{
    if (lane->kind == EF_LANE_KIND_PUBLISHER)
        return (ef_lease_key){EF_LEASE_PUBLISHER, lane->name, partition};
    return (ef_lease_key){EF_LEASE_PARTITION, {0}, partition};
}

ef_status sq_held_check(sq_store *store, ef__sq_conn *conn, const sq_lane *lane,
                        const ef_partition_lease *held, size_t count, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        ef_lease_key key = sq_lane_lease(lane, held[i].partition);
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

/* --- calls ------------------------------------------------------------------------------------ */

/* Runs one call; the status is that of the store. `refusal` (may be NULL) gets the reason of a
 * refusal. */
static ef_status call_one(sq_store *store, ef_lease_call *call, ef_error *refusal, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    sq_lease_row found;
    ef__lease_row changed;
    ef_status st = sq_lease_get(conn, &call->key, &found, err);

    if (st != EF_OK ||
        ef__lease_call_decide(call, &found.row, sq_clock_us(store), &changed, refusal) != EF_OK)
        return st;
    return sq_run_lease_put(conn, &call->key, &changed, err);
}

static ef_status run_calls(sq_store *store, sq_job *base, ef_error *err)
{
    lease_job *job = (lease_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    struct sq_lease_bring_back clock = {.now = sq_clock_us(store), .slack = EF__CLOCK_SLACK_US};
    ef_error *refusal = err;
    ef_status st = EF_OK;

    if (job->beat->worker)
        st = sq_run_lease_bring_back(conn, &clock, err);
    if (st == EF_OK && job->beat->worker)
        st = sq_run_worker_bring_back(conn, &clock, err);
    if (st == EF_OK && job->beat->worker)
        st = sq_worker_beat(store, job->beat->worker, job->beat->heartbeat_ms, err);
    if (st == EF_OK && job->beat->minute_count)
        st = sq_throughput_add(store, job->beat->minutes, job->beat->minute_count, err);
    for (size_t i = 0; st == EF_OK && i < job->count; i++) {
        st = call_one(store, &job->calls[i], refusal, err);
        if (job->calls[i].status != EF_OK)
            refusal = NULL; /* the first refusal is reported */
    }
    return st;
}

ef_status sq_lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                        const ef__heartbeat *beat, ef_error *err)
{
    lease_job job = {.base = {.run = run_calls, .keeps_state = true},
                     .calls = calls,
                     .count = count,
                     .beat = beat};
    sq_store *store = sq_store_of(journal);
    ef_status st = sq_submit(store, &job.base, err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        (void)sq_count_refused(store, calls[i].status);
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

ef_status sq_leases_load(sq_store *store, ef__sq_conn *conn, const ef_lease_kind *kind,
                         ef_lease_list *out, ef_error *err)
{
    ef__sq_rows rows = sq_each_lease_all(conn, kind ? (int64_t)*kind : -1, &out->room->arena, err);
    ef_lease lease;

    while (sq_next_lease_all(&rows, &lease)) {
        ef__lease_row row = {lease.holder, lease.token, lease.until_us, lease.updated_us};
        lease.live = ef__lease_live(&row, sq_clock_us(store));
        out->items = ef__sq_rows_add(&rows, out->items, &out->count, &lease, sizeof lease);
    }
    return ef__sq_rows_end(&rows);
}

ef_status sq_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                      ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = sq_leases_load(store, &reader->conn, kind, out, err);
    sq_read_end(store, reader);
    return st;
}
