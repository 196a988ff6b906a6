/*
 * lease.c - leases on SQLite: the rules of core/lease_rule.h on stored rows.
 *
 * A row stays after its lease was released, because its token must never be given again: view
 * stores record the highest token of a write, and refuse lower ones. For rows that are pruned
 * (partition.c) state.token_floor keeps the highest token.
 *
 * Leases use the unmodified clock, not sq_now_us: after the clock was set back, that one stands
 * still, and no lease would expire. The rules handle a clock that goes back.
 */
#include "outbox.h"

#include <inttypes.h>

typedef struct lease_job {
    sq_job base;
    ef_lease_call *calls;
    size_t count;
    const ef__heartbeat *beat;
} lease_job;

static void bind_key(sqlite3_stmt *stmt, const ef_lease_key *key)
{
    sqlite3_bind_int(stmt, 1, (int)key->kind);
    ef__sq_bind_str(stmt, 2, key->name);
    sqlite3_bind_int(stmt, 3, key->partition);
}

ef_status sq_lease_get(ef__sq_conn *conn, const ef_lease_key *key, sq_lease_row *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_str owner;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_LEASE_GET, &stmt, err);

    out->row = (ef__lease_row){0};
    if (st != EF_OK)
        return st;
    bind_key(stmt, key);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st == EF_OK && !row)
        return ef__sq_run_number(conn, SQ_LEASE_TOKEN_FLOOR, &out->row.token, err);
    if (st != EF_OK)
        return st;
    owner = ef__sq_column_str(stmt, 0);
    if (owner.len > sizeof out->owner)
        st = ef_fail(err, EF_DAMAGED, "the owner of a lease has %zu bytes", owner.len);
    else if (owner.len)
        memcpy(out->owner, owner.ptr, owner.len);
    out->row = (ef__lease_row){{out->owner, owner.len},
                               sqlite3_column_int64(stmt, 1),
                               sqlite3_column_int64(stmt, 2),
                               sqlite3_column_int64(stmt, 3)};
    sqlite3_reset(stmt);
    return st;
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

static ef_status put_lease(ef__sq_conn *conn, const ef_lease_key *key, const ef__lease_row *row,
                           ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_LEASE_PUT, &stmt, err);

    if (st != EF_OK)
        return st;
    bind_key(stmt, key);
    ef__sq_bind_str(stmt, 4, row->owner);
    sqlite3_bind_int64(stmt, 5, row->token);
    sqlite3_bind_int64(stmt, 6, row->until_us);
    sqlite3_bind_int64(stmt, 7, row->updated_us);
    return ef__sq_done(conn, stmt, err);
}

/* --- calls ------------------------------------------------------------------------------------ */

static ef__lease_answer decide_call(const ef__lease_row *row, const ef_lease_call *call,
                                    int64_t now_us)
{
    switch (call->verb) {
    case EF_LEASE_ACQUIRE:
        return ef__lease_acquire(row, call->holder, now_us, call->lease_ms);
    case EF_LEASE_RENEW_OR_ACQUIRE:
        return ef__lease_renew_or_acquire(row, call->holder, call->token, now_us, call->lease_ms);
    case EF_LEASE_RENEW:
        return ef__lease_renew(row, call->token, now_us, call->lease_ms);
    default:
        return ef__lease_release(row, call->token, now_us);
    }
}

/* Runs one call; the status is that of the store. `refusal` (may be NULL) gets the reason of a
 * refusal. */
static ef_status call_one(sq_store *store, ef_lease_call *call, ef_error *refusal, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    sq_lease_row found;
    ef__lease_answer answer;
    ef_status st = sq_lease_get(conn, &call->key, &found, err);

    if (st != EF_OK)
        return st;
    answer = decide_call(&found.row, call, sq_clock_us(store));
    call->status = answer.status;
    call->left_ms = answer.left_ms;
    if (answer.status == EF_LEASE_HELD)
        (void)ef__refuse_held_lease(call, &answer, refusal);
    else if (answer.status != EF_OK)
        (void)ef__refuse_lost_lease(&call->key, call->token, found.row.token, refusal);
    if (answer.status != EF_OK)
        return EF_OK;
    call->token = answer.row.token;
    call->until_us = answer.row.until_us;
    return put_lease(conn, &call->key, &answer.row, err);
}

static ef_status bring_back(sq_store *store, int statement, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, statement, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, sq_clock_us(store));
    sqlite3_bind_int64(stmt, 2, EF__CLOCK_SLACK_US);
    return ef__sq_done(conn, stmt, err);
}

static ef_status run_calls(sq_store *store, sq_job *base, ef_error *err)
{
    lease_job *job = (lease_job *)base;
    ef_error *refusal = err;
    ef_status st = EF_OK;

    if (job->beat->worker)
        st = bring_back(store, SQ_LEASE_BRING_BACK, err);
    if (st == EF_OK && job->beat->worker)
        st = bring_back(store, SQ_WORKER_BRING_BACK, err);
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
    lease_job job = {.base = {.run = run_calls, .keeps_state = true}, .calls = calls, .count = count, .beat = beat};
    sq_store *store = sq_store_of(journal);
    ef_status st = sq_submit(store, &job.base, err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        (void)sq_count_refused(store, calls[i].status);
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

static bool lease_from_row(sq_store *store, sqlite3_stmt *stmt, ef__arena *arena, ef_lease *out)
{
    ef__lease_row row;

    *out = (ef_lease){.key = {.kind = (ef_lease_kind)sqlite3_column_int(stmt, 0),
                              .name = sq_column_copy(stmt, 1, arena),
                              .partition = sqlite3_column_int(stmt, 2)},
                      .holder = sq_column_copy(stmt, 3, arena),
                      .token = sqlite3_column_int64(stmt, 4),
                      .until_us = sqlite3_column_int64(stmt, 5),
                      .updated_us = sqlite3_column_int64(stmt, 6)};
    row = (ef__lease_row){out->holder, out->token, out->until_us, out->updated_us};
    out->live = ef__lease_live(&row, sq_clock_us(store));
    return out->key.name.ptr && out->holder.ptr;
}

ef_status sq_leases_load(sq_store *store, ef__sq_conn *conn, const ef_lease_kind *kind,
                         ef_lease_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_lease *items = NULL;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_LEASE_ALL, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int(stmt, 1, kind ? (int)*kind : -1);
    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        items = sq_list_grow(arena, items, out->count, sizeof *items);
        if (!items || !lease_from_row(store, stmt, arena, &items[out->count])) {
            sqlite3_reset(stmt);
            return ef__no_memory(err);
        }
        out->items = items;
        out->count++;
    }
    return st;
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
