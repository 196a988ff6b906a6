/*
 * run.c - runs on PostgreSQL. core/run_rule.h has the transitions; this file checks which caller
 * may make them.
 */
#include "store.h"

#include "../../core/run_rule.h"

typedef struct run_job {
    pg_store *store;
    const ef_run *run;
    ef_str id;
    const ef_lease_key *lease;
    int64_t token;
    ef_run_list *out;
} run_job;

/* --- listing ---------------------------------------------------------------------------------- */

static ef_run run_of(const PGresult *result, int i, ef__arena *arena)
{
    return (ef_run){.id = pg_copy_text(result, i, 0, arena),
                    .mode = (ef_run_mode)ef__pg_int(result, i, 1),
                    .projection = pg_copy_text(result, i, 2, arena),
                    .tenant = pg_copy_text(result, i, 3, arena),
                    .state = (ef_run_state)ef__pg_int(result, i, 4),
                    .requested_us = ef__pg_int(result, i, 5),
                    .started_us = ef__pg_int(result, i, 6),
                    .finished_us = ef__pg_int(result, i, 7),
                    .from = ef__pg_int(result, i, 8),
                    .to = ef__pg_int(result, i, 9),
                    .processed = ef__pg_int(result, i, 10),
                    .total = ef__pg_int(result, i, 11),
                    .last_position = ef__pg_int(result, i, 12),
                    .error = pg_copy_text(result, i, 13, arena),
                    .reason = pg_copy_text(result, i, 14, arena),
                    .requester = pg_copy_text(result, i, 15, arena),
                    .detail = pg_copy_text(result, i, 16, arena),
                    .cancel = ef__pg_bool(result, i, 17)};
}

static ef_status list_runs(const PGresult *result, ef_run_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_run *items = pg_items_alloc(arena, PQntuples(result), sizeof *items);

    out->count = 0;
    if (!items)
        return ef__no_memory(err);
    for (int i = 0; i < PQntuples(result); i++) {
        const ef_run *r = &items[i];
        items[i] = run_of(result, i, arena);
        if (!r->id.ptr || !r->projection.ptr || !r->tenant.ptr || !r->error.ptr || !r->reason.ptr ||
            !r->requester.ptr || !r->detail.ptr)
            return ef__no_memory(err);
        out->count++;
    }
    out->items = items;
    return EF_OK;
}

ef_status pg_run_ls(ef_journal *journal, const ef__run_query *query, ef_run_list *out,
                    ef_error *err)
{
    int which = query->id.len      ? PJ_RUN_GET
                : query->tenant    ? PJ_RUN_NEWEST_TENANT
                : query->open_only ? PJ_RUN_NEWEST_OPEN
                                   : PJ_RUN_NEWEST;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    if (query->id.len)
        ef__pg_add_str(&params, query->id);
    else
        ef__pg_add_int(&params, (int64_t)query->limit);
    if (which == PJ_RUN_NEWEST_TENANT) {
        ef__pg_add_str(&params, *query->tenant);
        ef__pg_add_bool(&params, query->open_only);
    }
    st = ef__pg_read(pg_store_of(journal)->pool, which, &params, &result, err);
    if (st == EF_OK)
        st = list_runs(result, out, err);
    PQclear(result);
    return st;
}

/* --- filing ----------------------------------------------------------------------------------- */

static ef_status check_scope(const ef_run *run, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    ef__pg_add_str(&params, run->tenant);
    ef__pg_add_str(&params, run->projection);
    st = ef__pg_query(conn, PJ_RUN_OPEN, &params, &result, err);
    if (st == EF_OK && PQntuples(result)) {
        st = ef__refuse_run(ef__pg_str(result, 0, 0), ef__pg_str(result, 0, 1),
                            (ef_run_state)ef__pg_int(result, 0, 2), err);
    }
    PQclear(result);
    return st;
}

static ef_status send_file(const run_job *job, ef__pg_conn *conn, ef_error *err)
{
    const ef_run *run = job->run;
    ef__pg_params params = {0};

    ef__pg_add_str(&params, run->id);
    ef__pg_add_int(&params, run->mode);
    ef__pg_add_str(&params, run->projection);
    ef__pg_add_str(&params, run->tenant);
    pg_add_clock(job->store, &params);
    ef__pg_add_int(&params, run->from);
    ef__pg_add_int(&params, run->to);
    ef__pg_add_int(&params, run->total);
    ef__pg_add_str(&params, run->reason);
    ef__pg_add_str(&params, run->requester);
    ef__pg_add_str(&params, run->detail);
    return ef__pg_send(conn, PJ_RUN_FILE, &params, err);
}

static ef_status request_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const run_job *job = context;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st = ef__pg_send(conn, PJ_RUN_SCOPE_LOCK, NULL, err);

    if (st == EF_OK)
        st = check_scope(job->run, conn, err);
    if (st == EF_OK)
        st = send_file(job, conn, err);
    ef__pg_add_str(&params, job->run->id);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_RUN_GET, &params, &result, err);
    if (st == EF_OK)
        st = list_runs(result, job->out, err);
    PQclear(result);
    return st;
}

ef_status pg_run_request(ef_journal *journal, const ef_run *run, ef_run_list *out, ef_error *err)
{
    run_job job = {.store = pg_store_of(journal), .run = run, .out = out};

    return pg_write(job.store, request_work, &job, err);
}

/* --- transitions
 * ----------------------------------------------------------------------------------- */

typedef struct run_state {
    ef_run_state state;
    int64_t started_us, now_us;
    bool driven; /* its last lease is live */
} run_state;

/* Reads and locks a run, and checks that it may become `to`. */
static ef_status lock_run(const run_job *job, ef_str id, ef_run_state to, ef__pg_conn *conn,
                          run_state *out, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    ef__pg_add_str(&params, id);
    pg_add_clock(job->store, &params);
    st = ef__pg_query(conn, PJ_RUN_DRIVER, &params, &result, err);
    if (st == EF_OK && PQntuples(result) == 0)
        st = ef__refuse_unknown_run(id, err);
    if (st == EF_OK) {
        *out = (run_state){(ef_run_state)ef__pg_int(result, 0, 0), ef__pg_int(result, 0, 1),
                           ef__pg_int(result, 0, 2), ef__pg_bool(result, 0, 3)};
        if (!ef__run_may_move(out->state, to))
            st = ef__refuse_run_state(id, out->state, to, err);
    }
    PQclear(result);
    return st;
}

static ef_status send_move(const run_job *job, const run_state *is, ef__pg_conn *conn,
                           ef_error *err)
{
    const ef_run *run = job->run;
    bool starts = is->state == EF_RUN_QUEUED && run->state == EF_RUN_RUNNING;
    ef__pg_params params = {0};

    ef__pg_add_str(&params, run->id);
    ef__pg_add_int(&params, run->state);
    ef__pg_add_int(&params, starts ? is->now_us : is->started_us);
    ef__pg_add_int(&params, ef__run_is_open(run->state) ? 0 : is->now_us);
    ef__pg_add_int(&params, run->processed);
    ef__pg_add_int(&params, run->total);
    ef__pg_add_int(&params, run->last_position);
    ef__pg_add_str(&params, run->error);
    ef__pg_add_str(&params, run->detail);
    ef__pg_add_int(&params, job->lease ? (int64_t)job->lease->kind : -1);
    ef__pg_add_str(&params, job->lease ? job->lease->name : (ef_str){0});
    ef__pg_add_int(&params, job->lease ? job->lease->partition : -1);
    return ef__pg_send(conn, PJ_RUN_MOVE, &params, err);
}

static ef_status update_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const run_job *job = context;
    run_state is;
    ef_status st = lock_run(job, job->run->id, job->run->state, conn, &is, err);

    /* Under the token of the driver; or a cancellation while no worker drives it. */
    if (st == EF_OK && job->lease)
        st = pg_token_check(job->store, conn, job->lease, job->token, err);
    else if (st == EF_OK && is.state == EF_RUN_RUNNING && is.driven)
        st = ef__refuse_driven_run(job->run->id, err);
    return st == EF_OK ? send_move(job, &is, conn, err) : st;
}

ef_status pg_run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                        int64_t token, ef_error *err)
{
    run_job job = {.store = pg_store_of(journal), .run = run, .lease = lease, .token = token};

    return pg_write(job.store, update_work, &job, err);
}

static ef_status cancel_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const run_job *job = context;
    ef__pg_params params = {0};
    run_state is;
    ef_status st = lock_run(job, job->id, EF_RUN_CANCELLED, conn, &is, err);

    if (st != EF_OK)
        return st;
    ef__pg_add_str(&params, job->id);
    ef__pg_add_int(&params, is.now_us);
    return ef__pg_send(conn, PJ_RUN_CANCEL, &params, err);
}

ef_status pg_run_cancel(ef_journal *journal, ef_str id, ef_error *err)
{
    run_job job = {.store = pg_store_of(journal), .id = id};

    return pg_write(job.store, cancel_work, &job, err);
}
