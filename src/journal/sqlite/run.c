/*
 * run.c - runs on SQLite. core/run_rule.h has the transitions; this file checks who may make them.
 *
 * A run records the lease under which it was last driven, so that a cancellation without a lease
 * can check whether a worker still drives it.
 */
#include "outbox.h"

#include "../../core/run_rule.h"

#include <inttypes.h>

typedef struct run_job {
    sq_job base;
    const ef_run *run;
    ef_run_list *out;
    const ef_lease_key *lease;
    int64_t token;
} run_job;

/* --- listing ---------------------------------------------------------------------------------- */

static bool run_from_row(sqlite3_stmt *stmt, ef__arena *arena, ef_run *out)
{
    *out = (ef_run){.id = sq_column_copy(stmt, 0, arena),
                    .mode = (ef_run_mode)sqlite3_column_int(stmt, 1),
                    .projection = sq_column_copy(stmt, 2, arena),
                    .tenant = sq_column_copy(stmt, 3, arena),
                    .state = (ef_run_state)sqlite3_column_int(stmt, 4),
                    .requested_us = sqlite3_column_int64(stmt, 5),
                    .started_us = sqlite3_column_int64(stmt, 6),
                    .finished_us = sqlite3_column_int64(stmt, 7),
                    .from = sqlite3_column_int64(stmt, 8),
                    .to = sqlite3_column_int64(stmt, 9),
                    .processed = sqlite3_column_int64(stmt, 10),
                    .total = sqlite3_column_int64(stmt, 11),
                    .last_position = sqlite3_column_int64(stmt, 12),
                    .error = sq_column_copy(stmt, 13, arena),
                    .reason = sq_column_copy(stmt, 14, arena),
                    .requester = sq_column_copy(stmt, 15, arena),
                    .detail = sq_column_copy(stmt, 16, arena),
                    .cancel = sqlite3_column_int(stmt, 17) != 0};
    return out->detail.ptr && out->id.ptr && out->projection.ptr && out->tenant.ptr &&
           out->error.ptr && out->reason.ptr && out->requester.ptr;
}

/* Reads the rows of a bound statement into a list. */
static ef_status list_rows(ef__sq_conn *conn, sqlite3_stmt *stmt, size_t limit, ef_run_list *out,
                           ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_run *items = NULL;
    bool row = true;
    ef_status st = EF_OK;

    out->count = 0;
    while (out->count < limit && (st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        items = sq_list_grow(arena, items, out->count, sizeof *items);
        if (!items || !run_from_row(stmt, arena, &items[out->count])) {
            st = ef__no_memory(err);
            break;
        }
        out->items = items;
        out->count++;
    }
    sqlite3_reset(stmt);
    return st;
}

static ef_status list_runs(ef__sq_conn *conn, const ef__run_query *query, ef_run_list *out,
                           ef_error *err)
{
    sqlite3_stmt *stmt;
    int which = query->id.len      ? SQ_RUN_GET
                : query->tenant    ? SQ_RUN_NEWEST_TENANT
                : query->open_only ? SQ_RUN_NEWEST_OPEN
                                   : SQ_RUN_NEWEST;
    ef_status st = ef__sq_stmt(conn, which, &stmt, err);

    if (st != EF_OK)
        return st;
    if (query->id.len || query->tenant)
        ef__sq_bind_str(stmt, 1, query->id.len ? query->id : *query->tenant);
    if (which == SQ_RUN_NEWEST_TENANT)
        sqlite3_bind_int(stmt, 2, query->open_only);
    return list_rows(conn, stmt, query->limit, out, err);
}

ef_status sq_run_ls(ef_journal *journal, const ef__run_query *query, ef_run_list *out,
                    ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = list_runs(&reader->conn, query, out, err);
    sq_read_end(store, reader);
    return st;
}

/* --- filing ----------------------------------------------------------------------------------- */

static ef_status check_scope(ef__sq_conn *conn, const ef_run *run, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_RUN_OPEN, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, run->tenant);
    ef__sq_bind_str(stmt, 2, run->projection);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st == EF_OK && row) {
        st = ef__refuse_run(ef__sq_column_str(stmt, 0), ef__sq_column_str(stmt, 1),
                            (ef_run_state)sqlite3_column_int(stmt, 2), err);
        sqlite3_reset(stmt);
    }
    return st;
}

static ef_status insert_run(sq_store *store, ef__sq_conn *conn, const ef_run *run, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_RUN_FILE, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, run->id);
    sqlite3_bind_int(stmt, 2, (int)run->mode);
    ef__sq_bind_str(stmt, 3, run->projection);
    ef__sq_bind_str(stmt, 4, run->tenant);
    sqlite3_bind_int64(stmt, 5, sq_now_us(store));
    sqlite3_bind_int64(stmt, 6, run->from);
    sqlite3_bind_int64(stmt, 7, run->to);
    sqlite3_bind_int64(stmt, 8, run->total);
    ef__sq_bind_str(stmt, 9, run->reason);
    ef__sq_bind_str(stmt, 10, run->requester);
    ef__sq_bind_str(stmt, 11, run->detail);
    return ef__sq_done(conn, stmt, err);
}

static ef_status run_request(sq_store *store, sq_job *base, ef_error *err)
{
    run_job *job = (run_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    ef_status st = check_scope(conn, job->run, err);

    if (st == EF_OK)
        st = insert_run(store, conn, job->run, err);
    return st == EF_OK
               ? list_runs(conn, &(ef__run_query){.id = job->run->id, .limit = 1}, job->out, err)
               : st;
}

ef_status sq_run_request(ef_journal *journal, const ef_run *run, ef_run_list *out, ef_error *err)
{
    run_job job = {.base = {.run = run_request}, .run = run, .out = out};

    return sq_submit(sq_store_of(journal), &job.base, err);
}

/* --- transitions ------------------------------------------------------------------------------ */

/* The state before a transition. */
typedef struct run_before {
    ef_run_state state;
    int64_t started_us;
    bool driven; /* its last lease is live */
} run_before;

/* The name of the lease is borrowed from the row: read the lease before the row is reset. */
static ef_status is_driver_live(sq_store *store, ef__sq_conn *conn, sqlite3_stmt *row, bool *out,
                                ef_error *err)
{
    ef_lease_key key = {.kind = (ef_lease_kind)sqlite3_column_int(row, 2),
                        .name = ef__sq_column_str(row, 3),
                        .partition = sqlite3_column_int(row, 4)};
    sq_lease_row lease;
    ef_status st;

    *out = false;
    if (sqlite3_column_int(row, 2) < 0)
        return EF_OK;
    st = sq_lease_get(conn, &key, &lease, err);
    if (st == EF_OK)
        *out = ef__lease_live(&lease.row, sq_clock_us(store));
    return st;
}

static ef_status read_before(sq_store *store, ef__sq_conn *conn, ef_str id, run_before *out,
                             ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_RUN_DRIVER, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, id);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st != EF_OK)
        return st;
    if (!row)
        return ef__refuse_unknown_run(id, err);
    out->state = (ef_run_state)sqlite3_column_int(stmt, 0);
    out->started_us = sqlite3_column_int64(stmt, 1);
    st = is_driver_live(store, conn, stmt, &out->driven, err);
    sqlite3_reset(stmt);
    return st;
}

static ef_status check_move(sq_store *store, const run_job *job, const run_before *before,
                            ef_error *err)
{
    const ef_run *run = job->run;

    if (!ef__run_may_move(before->state, run->state))
        return ef__refuse_run_state(run->id, before->state, run->state, err);
    if (job->lease)
        return sq_lease_check(store, &store->writer.conn, job->lease, job->token, err);
    if (before->state == EF_RUN_RUNNING && before->driven)
        return ef__refuse_driven_run(run->id, err);
    return EF_OK;
}

static ef_status move_run(ef__sq_conn *conn, const ef_run *run, const run_before *before,
                          int64_t now_us, ef_error *err)
{
    bool starts = before->state == EF_RUN_QUEUED && run->state == EF_RUN_RUNNING;
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_RUN_MOVE, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, run->id);
    sqlite3_bind_int(stmt, 2, (int)run->state);
    sqlite3_bind_int64(stmt, 3, starts ? now_us : before->started_us);
    sqlite3_bind_int64(stmt, 4, ef__run_is_open(run->state) ? 0 : now_us);
    sqlite3_bind_int64(stmt, 5, run->processed);
    sqlite3_bind_int64(stmt, 6, run->total);
    sqlite3_bind_int64(stmt, 7, run->last_position);
    ef__sq_bind_str(stmt, 8, run->error);
    ef__sq_bind_str(stmt, 9, run->detail);
    return ef__sq_done(conn, stmt, err);
}

static ef_status record_driver(ef__sq_conn *conn, ef_str id, const ef_lease_key *lease,
                               ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_RUN_DRIVE, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, id);
    sqlite3_bind_int(stmt, 2, (int)lease->kind);
    ef__sq_bind_str(stmt, 3, lease->name);
    sqlite3_bind_int(stmt, 4, lease->partition);
    return ef__sq_done(conn, stmt, err);
}

static ef_status run_update(sq_store *store, sq_job *base, ef_error *err)
{
    run_job *job = (run_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    run_before before;
    ef_status st = read_before(store, conn, job->run->id, &before, err);

    if (st == EF_OK)
        st = check_move(store, job, &before, err);
    if (st == EF_OK)
        st = move_run(conn, job->run, &before, sq_now_us(store), err);
    if (st == EF_OK && job->lease)
        st = record_driver(conn, job->run->id, job->lease, err);
    return st;
}

ef_status sq_run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                        int64_t token, ef_error *err)
{
    run_job job = {.base = {.run = run_update}, .run = run, .lease = lease, .token = token};
    sq_store *store = sq_store_of(journal);

    return sq_count_refused(store, sq_submit(store, &job.base, err));
}

/* --- cancelling ------------------------------------------------------------------------------- */

static ef_status run_cancel(sq_store *store, sq_job *base, ef_error *err)
{
    const ef_run *run = ((run_job *)base)->run;
    ef__sq_conn *conn = &store->writer.conn;
    run_before before;
    sqlite3_stmt *stmt;
    ef_status st = read_before(store, conn, run->id, &before, err);

    if (st == EF_OK && !ef__run_may_move(before.state, EF_RUN_CANCELLED))
        st = ef__refuse_run_state(run->id, before.state, EF_RUN_CANCELLED, err);
    if (st == EF_OK)
        st = ef__sq_stmt(conn, SQ_RUN_CANCEL, &stmt, err);
    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, run->id);
    sqlite3_bind_int64(stmt, 2, sq_now_us(store));
    return ef__sq_done(conn, stmt, err);
}

ef_status sq_run_cancel(ef_journal *journal, ef_str id, ef_error *err)
{
    ef_run run = {.id = id};
    run_job job = {.base = {.run = run_cancel}, .run = &run};

    return sq_submit(sq_store_of(journal), &job.base, err);
}
