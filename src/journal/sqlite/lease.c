/*
 * lease.c - leases on SQLite: core/lease_rule.h decides, this fetches and stores.
 *
 * A row stays when its lease is given back, for its token must never be given out again: view
 * stores remember the highest that they have seen, and refuse what is lower. Where a row is pruned
 * (partition.c) state.token_floor remembers for all of them.
 *
 * The clock is taken as it is, not as sq_now_us has it: after a clock that was ahead for a while
 * that one stands still, and nothing would run out. The rule knows what to do when the clock goes
 * back.
 */
#include "outbox.h"

#include <inttypes.h>

typedef struct lease_job {
    sq_job base;
    ef_lease_call *calls;
    size_t count;
    const ef__beat *beat;
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

static ef_status lost(const ef_lease_key *key, int64_t token, const ef__lease_row *found,
                      ef_error *err)
{
    return ef_fail_numbers(
        err, EF_LEASE_LOST, token, found->token,
        "lease %s \"%.*s\" %" PRId32 ": token %" PRId64 " is not live, the present one is %" PRId64,
        ef_lease_kind_name(key->kind), EF_STR_ARG(key->name), key->partition, token, found->token);
}

ef_status sq_lease_check(sq_store *store, ef__sq_conn *conn, const ef_lease_key *key, int64_t token,
                         ef_error *err)
{
    sq_lease_row lease;
    ef_status st = sq_lease_get(conn, key, &lease, err);

    if (st != EF_OK)
        return st;
    if (ef__lease_check(&lease.row, token, sq_clock_us(store)) != EF_OK)
        return lost(key, token, &lease.row, err);
    return EF_OK;
}

ef_lease_key sq_lane_lease(const sq_lane *lane, int32_t partition)
{
    if (lane->kind == EF_LANE_KIND_PUBLISHER)
        return (ef_lease_key){EF_LEASE_PUBLISHER, lane->name, partition};
    return (ef_lease_key){EF_LEASE_PARTITION, {0}, partition};
}

ef_status sq_held_check(sq_store *store, ef__sq_conn *conn, const sq_lane *lane,
                        const ef_holding *held, size_t count, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        ef_lease_key key = sq_lane_lease(lane, held[i].partition);
        st = sq_lease_check(store, conn, &key, held[i].token, err);
    }
    return st;
}

ef_status sq_refused(sq_store *store, ef_status st)
{
    if (st == EF_LEASE_LOST)
        atomic_fetch_add(&store->stale_refused, 1);
    return st;
}

static ef_status held(const ef_lease_call *call, const ef__lease_answer *answer, ef_error *err)
{
    return ef_fail_numbers(err, EF_LEASE_HELD, call->lease_ms, answer->left_ms,
                           "lease %s \"%.*s\" %" PRId32 " is held by \"%.*s\" for %" PRId64
                           " ms more",
                           ef_lease_kind_name(call->key.kind), EF_STR_ARG(call->key.name),
                           call->key.partition, EF_STR_ARG(answer->row.owner), answer->left_ms);
}

static ef_status put(ef__sq_conn *conn, const ef_lease_key *key, const ef__lease_row *row,
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

static ef__lease_answer decide(const ef__lease_row *row, const ef_lease_call *call, int64_t now_us)
{
    switch (call->verb) {
    case EF_LEASE_ACQUIRE:
        return ef__lease_acquire(row, call->owner, now_us, call->lease_ms);
    case EF_LEASE_TAKE:
        return ef__lease_take(row, call->owner, call->token, now_us, call->lease_ms);
    case EF_LEASE_RENEW:
        return ef__lease_renew(row, call->token, now_us, call->lease_ms);
    default:
        return ef__lease_release(row, call->token, now_us);
    }
}

/* Make one call and answer it; a failure is the store's. `words` gets the refusal; may be NULL. */
static ef_status call_one(sq_store *store, ef_lease_call *call, ef_error *words, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    sq_lease_row found;
    ef__lease_answer answer;
    ef_status st = sq_lease_get(conn, &call->key, &found, err);

    if (st != EF_OK)
        return st;
    answer = decide(&found.row, call, sq_clock_us(store));
    call->status = answer.status;
    call->left_ms = answer.left_ms;
    if (answer.status == EF_LEASE_HELD)
        (void)held(call, &answer, words);
    else if (answer.status != EF_OK)
        (void)lost(&call->key, call->token, &found.row, words);
    if (answer.status != EF_OK)
        return EF_OK;
    call->token = answer.row.token;
    call->until_us = answer.row.until_us;
    return put(conn, &call->key, &answer.row, err);
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
    ef_error *words = err;
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
        st = call_one(store, &job->calls[i], words, err);
        if (job->calls[i].status != EF_OK)
            words = NULL; /* the first refusal is told */
    }
    return st;
}

ef_status sq_lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                        const ef__beat *beat, ef_error *err)
{
    lease_job job = {.base = {.run = run_calls}, .calls = calls, .count = count, .beat = beat};
    sq_store *store = sq_store_of(journal);
    ef_status st = sq_submit(store, &job.base, err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        (void)sq_refused(store, calls[i].status);
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

static bool lease_from_row(sq_store *store, sqlite3_stmt *stmt, ef__arena *arena, ef_lease *out)
{
    ef__lease_row row;

    *out = (ef_lease){.key = {.kind = (ef_lease_kind)sqlite3_column_int(stmt, 0),
                              .name = sq_column_copy(stmt, 1, arena),
                              .partition = sqlite3_column_int(stmt, 2)},
                      .owner = sq_column_copy(stmt, 3, arena),
                      .token = sqlite3_column_int64(stmt, 4),
                      .until_us = sqlite3_column_int64(stmt, 5),
                      .updated_us = sqlite3_column_int64(stmt, 6)};
    row = (ef__lease_row){out->owner, out->token, out->until_us, out->updated_us};
    out->live = ef__lease_live(&row, sq_clock_us(store));
    return out->key.name.ptr && out->owner.ptr;
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
            return ef__room_full(err);
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
