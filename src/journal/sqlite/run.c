/*
 * run.c - runs on SQLite. core/run_rule.h has the transitions; this file checks which caller may
 * make them.
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

static ef_status list_runs(ef__sq_conn *conn, const ef__run_query *query, ef_run_list *out,
                           ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__sq_rows rows;
    ef_run run;

    if (query->id.len)
        rows = sq_each_run_get(conn, query->id, arena, err);
    else if (query->tenant)
        rows = sq_each_run_newest_tenant(conn, *query->tenant, query->open_only, arena, err);
    else
        rows = (query->open_only ? sq_each_run_newest_open : sq_each_run_newest)(conn, arena, err);
    out->items = NULL;
    out->count = 0;
    while (out->count < query->limit && sq_next_run_get(&rows, &run))
        out->items = ef__sq_rows_add(&rows, out->items, &out->count, &run, sizeof run);
    return ef__sq_rows_end(&rows);
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
    ef__sq_rows rows = sq_each_run_open(
        conn, &(struct sq_run_open){.tenant = run->tenant, .projection = run->projection}, NULL,
        err);
    struct sq_run_open_row open;

    if (sq_next_run_open(&rows, &open))
        rows.status = ef__refuse_run(open.id, open.projection, (ef_run_state)open.state, err);
    return ef__sq_rows_end(&rows);
}

static ef_status run_request(sq_store *store, sq_job *base, ef_error *err)
{
    run_job *job = (run_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    ef_status st = check_scope(conn, job->run, err);

    if (st == EF_OK)
        st = sq_run_run_file(conn, job->run, sq_now_us(store), err);
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

static ef_status is_driver_live(sq_store *store, ef__sq_conn *conn,
                                const struct sq_run_driver_row *driver, bool *out, ef_error *err)
{
    ef_lease_key key = {.kind = (ef_lease_kind)driver->lease_kind,
                        .name = driver->lease_name,
                        .partition = (int32_t)driver->lease_partition};
    sq_lease_row lease;
    ef_status st;

    *out = false;
    if (driver->lease_kind < 0)
        return EF_OK;
    st = sq_lease_get(conn, &key, &lease, err);
    if (st == EF_OK)
        *out = ef__lease_live(&lease.row, sq_clock_us(store));
    return st;
}

static ef_status read_before(sq_store *store, ef__sq_conn *conn, ef_str id, run_before *out,
                             ef_error *err)
{
    ef__sq_rows rows = sq_each_run_driver(conn, id, NULL, err);
    struct sq_run_driver_row driver;

    if (sq_next_run_driver(&rows, &driver)) {
        *out = (run_before){.state = (ef_run_state)driver.state, .started_us = driver.started};
        rows.status = is_driver_live(store, conn, &driver, &out->driven, err);
    } else if (rows.status == EF_OK) {
        rows.status = ef__refuse_unknown_run(id, err);
    }
    return ef__sq_rows_end(&rows);
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

    return sq_run_run_move(
        conn,
        &(struct sq_run_move){.run = run,
                              .started = starts ? now_us : before->started_us,
                              .finished = ef__run_is_open(run->state) ? 0 : now_us},
        err);
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
        st = sq_run_run_drive(conn, job->run->id, job->lease, err);
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
    ef_status st = read_before(store, conn, run->id, &before, err);

    if (st == EF_OK && !ef__run_may_move(before.state, EF_RUN_CANCELLED))
        st = ef__refuse_run_state(run->id, before.state, EF_RUN_CANCELLED, err);
    return st == EF_OK ? sq_run_run_cancel(conn, run->id, sq_now_us(store), err) : st;
}

ef_status sq_run_cancel(ef_journal *journal, ef_str id, ef_error *err)
{
    ef_run run = {.id = id};
    run_job job = {.base = {.run = run_cancel}, .run = &run};

    return sq_submit(sq_store_of(journal), &job.base, err);
}
