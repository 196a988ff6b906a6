/*
 * lease.c - leases on SQLite: core/lease_rule.h decides, this fetches and stores.
 *
 * A row stays when its lease is given back, for its token must never be given out again. `updated`
 * never goes back, and a lease is judged at the later of it and now: two processes whose clocks
 * differ agree on what has run out as far as the row itself can tell them.
 */
#include "outbox.h"

#include <inttypes.h>

typedef struct lease_job {
    sq_job base;
    const ef_lease_key *key;
    ef_str owner;
    int64_t token;
    int64_t lease_ms;
    int64_t until_us;
} lease_job;

static void bind_key(sqlite3_stmt *stmt, const ef_lease_key *key)
{
    sqlite3_bind_int(stmt, 1, (int)key->kind);
    sq_bind_str(stmt, 2, key->name);
    sqlite3_bind_int(stmt, 3, key->partition);
}

ef_status sq_lease_get(sq_conn *conn, const ef_lease_key *key, sq_lease_row *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_str owner;
    bool row;
    ef_status st = sq_stmt(conn, SQ_LEASE_GET, &stmt, err);

    out->row = (ef__lease_row){0};
    out->updated_us = 0;
    if (st != EF_OK)
        return st;
    bind_key(stmt, key);
    st = sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    owner = sq_column_str(stmt, 0);
    if (owner.len > sizeof out->owner)
        st = ef_fail(err, EF_DAMAGED, "the owner of a lease has %zu bytes", owner.len);
    else if (owner.len)
        memcpy(out->owner, owner.ptr, owner.len);
    out->row = (ef__lease_row){
        {out->owner, owner.len}, sqlite3_column_int64(stmt, 1), sqlite3_column_int64(stmt, 2)};
    out->updated_us = sqlite3_column_int64(stmt, 3);
    sqlite3_reset(stmt);
    return st;
}

int64_t sq_lease_now(sq_store *store, const sq_lease_row *row)
{
    int64_t now_us = sq_now_us(store);

    return now_us > row->updated_us ? now_us : row->updated_us;
}

static ef_status lost(const ef_lease_key *key, int64_t token, const ef__lease_row *found,
                      ef_error *err)
{
    return ef_fail_numbers(
        err, EF_LEASE_LOST, token, found->token,
        "lease %s \"%.*s\" %" PRId32 ": token %" PRId64 " is not live, the present one is %" PRId64,
        ef_lease_kind_name(key->kind), EF_STR_ARG(key->name), key->partition, token, found->token);
}

ef_status sq_lease_check(sq_store *store, sq_conn *conn, const ef_lease_key *key, int64_t token,
                         ef_error *err)
{
    sq_lease_row lease;
    ef_status st = sq_lease_get(conn, key, &lease, err);

    if (st != EF_OK)
        return st;
    if (ef__lease_check(&lease.row, token, sq_lease_now(store, &lease)) != EF_OK)
        return lost(key, token, &lease.row, err);
    return EF_OK;
}

ef_lease_key sq_lane_lease(const sq_lane *lane, int32_t partition)
{
    if (lane->kind == EF_LANE_KIND_PUBLISHER)
        return (ef_lease_key){EF_LEASE_PUBLISHER, lane->name, partition};
    return (ef_lease_key){EF_LEASE_PARTITION, {0}, partition};
}

ef_status sq_held_check(sq_store *store, sq_conn *conn, const sq_lane *lane, const ef_holding *held,
                        size_t count, ef_error *err)
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

static ef_status put(sq_conn *conn, const ef_lease_key *key, const ef__lease_row *row,
                     int64_t now_us, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = sq_stmt(conn, SQ_LEASE_PUT, &stmt, err);

    if (st != EF_OK)
        return st;
    bind_key(stmt, key);
    sq_bind_str(stmt, 4, row->owner);
    sqlite3_bind_int64(stmt, 5, row->token);
    sqlite3_bind_int64(stmt, 6, row->until_us);
    sqlite3_bind_int64(stmt, 7, now_us);
    return sq_done(conn, stmt, err);
}

static ef_status run_acquire(sq_store *store, sq_job *base, ef_error *err)
{
    lease_job *job = (lease_job *)base;
    sq_conn *conn = &store->writer.conn;
    sq_lease_row found;
    ef__lease_answer answer;
    int64_t now_us;
    ef_status st = sq_lease_get(conn, job->key, &found, err);

    if (st != EF_OK)
        return st;
    now_us = sq_lease_now(store, &found);
    answer = ef__lease_acquire(&found.row, job->owner, now_us, job->lease_ms);
    if (answer.status != EF_OK)
        return ef_fail_numbers(err, answer.status, job->lease_ms, answer.left_ms,
                               "lease %s \"%.*s\" %" PRId32 " is held by \"%.*s\" for %" PRId64
                               " ms more",
                               ef_lease_kind_name(job->key->kind), EF_STR_ARG(job->key->name),
                               job->key->partition, EF_STR_ARG(found.row.owner), answer.left_ms);
    job->token = answer.row.token;
    job->until_us = answer.row.until_us;
    return put(conn, job->key, &answer.row, now_us, err);
}

static ef_status run_renew(sq_store *store, sq_job *base, ef_error *err)
{
    lease_job *job = (lease_job *)base;
    sq_conn *conn = &store->writer.conn;
    sq_lease_row found;
    ef__lease_answer answer;
    int64_t now_us;
    ef_status st = sq_lease_get(conn, job->key, &found, err);

    if (st != EF_OK)
        return st;
    now_us = sq_lease_now(store, &found);
    answer = ef__lease_renew(&found.row, job->token, now_us, job->lease_ms);
    if (answer.status != EF_OK)
        return lost(job->key, job->token, &found.row, err);
    job->until_us = answer.row.until_us;
    return put(conn, job->key, &answer.row, now_us, err);
}

static ef_status run_release(sq_store *store, sq_job *base, ef_error *err)
{
    lease_job *job = (lease_job *)base;
    sq_conn *conn = &store->writer.conn;
    sq_lease_row found;
    ef__lease_answer answer;
    ef_status st = sq_lease_get(conn, job->key, &found, err);

    if (st != EF_OK)
        return st;
    answer = ef__lease_release(&found.row, job->token);
    if (answer.status != EF_OK)
        return lost(job->key, job->token, &found.row, err);
    return put(conn, job->key, &answer.row, sq_lease_now(store, &found), err);
}

ef_status sq_lease_acquire(ef_journal *journal, const ef_lease_key *key, ef_str owner,
                           int64_t lease_ms, int64_t *out_token, int64_t *out_until_us,
                           ef_error *err)
{
    lease_job job = {.base = {.run = run_acquire, .plans_first = true},
                     .key = key,
                     .owner = owner,
                     .lease_ms = lease_ms};
    ef_status st = sq_submit(sq_store_of(journal), &job.base, err);

    if (st == EF_OK) {
        *out_token = job.token;
        *out_until_us = job.until_us;
    }
    return st;
}

ef_status sq_lease_renew(ef_journal *journal, const ef_lease_key *key, int64_t token,
                         int64_t lease_ms, int64_t *out_until_us, ef_error *err)
{
    lease_job job = {.base = {.run = run_renew, .plans_first = true},
                     .key = key,
                     .token = token,
                     .lease_ms = lease_ms};
    sq_store *store = sq_store_of(journal);
    ef_status st = sq_refused(store, sq_submit(store, &job.base, err));

    if (st == EF_OK)
        *out_until_us = job.until_us;
    return st;
}

ef_status sq_lease_release(ef_journal *journal, const ef_lease_key *key, int64_t token,
                           ef_error *err)
{
    lease_job job = {.base = {.run = run_release, .plans_first = true}, .key = key, .token = token};
    sq_store *store = sq_store_of(journal);

    return sq_refused(store, sq_submit(store, &job.base, err));
}

static bool lease_from_row(sq_store *store, sqlite3_stmt *stmt, ef__arena *arena, ef_lease *out)
{
    sq_lease_row row = {.updated_us = sqlite3_column_int64(stmt, 6)};

    *out = (ef_lease){.key = {.kind = (ef_lease_kind)sqlite3_column_int(stmt, 0),
                              .name = sq_column_copy(stmt, 1, arena),
                              .partition = sqlite3_column_int(stmt, 2)},
                      .owner = sq_column_copy(stmt, 3, arena),
                      .token = sqlite3_column_int64(stmt, 4),
                      .until_us = sqlite3_column_int64(stmt, 5),
                      .updated_us = row.updated_us};
    row.row = (ef__lease_row){out->owner, out->token, out->until_us};
    out->live = ef__lease_live(&row.row, sq_lease_now(store, &row));
    return out->key.name.ptr && out->owner.ptr;
}

static ef_status list(sq_store *store, sq_conn *conn, const ef_lease_kind *kind, ef_lease_list *out,
                      ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_lease *items = NULL;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_LEASE_ALL, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int(stmt, 1, kind ? (int)*kind : -1);
    while ((st = sq_row(conn, stmt, &row, err)) == EF_OK && row) {
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
    st = list(store, &reader->conn, kind, out, err);
    sq_read_end(store, reader);
    return st;
}
