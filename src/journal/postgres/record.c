/*
 * record.c - types of events, and runs, on PostgreSQL. core/run_rule.h has the transitions of a
 * run; this file checks which caller may make them.
 */
#include "store.h"

#include "../../core/run_rule.h"

/* --- types ------------------------------------------------------------------------------------ */

static ef_status check_alias(ef__pg_conn *conn, const ef_type *type, ef_error *err)
{
    struct pj_type_alias_check_row found = {0};
    ef_status st = pj_one_type_alias_check(ef__pg_on_conn(conn), type, &found, NULL, err);

    if (st == EF_OK && found.alias_of_alias)
        st = ef__refuse_alias_of_alias(type->name, type->alias_of, err);
    if (st == EF_OK && found.has_alias)
        st = ef__refuse_alias(type->name, err);
    return st;
}

static ef_status send_types(ef__pg_conn *conn, const ef_type *type, ef_error *err)
{
    struct pj_type_insert types = {0};

    ef__pg_array_str(&types.names, type->name);
    ef__pg_array_null(&types.tenants);
    if (type->alias_of.len) { /* creates the canonical type too */
        ef__pg_array_str(&types.names, type->alias_of);
        ef__pg_array_null(&types.tenants);
    }
    return pj_send_type_insert(conn, &types, err);
}

static ef_status set_type(void *context, ef__pg_conn *conn, ef_error *err)
{
    const ef_type *type = context;
    ef_status st = ef__pg_send(conn, PJ_TYPE_LOCK, NULL, err);

    if (st == EF_OK && type->alias_of.len)
        st = check_alias(conn, type, err);
    if (st == EF_OK)
        st = send_types(conn, type, err);
    return st == EF_OK ? pj_send_type_update(conn, type, err) : st;
}

static ef_status type_set(ef_journal *journal, const ef_type *type, ef_error *err)
{
    return pg_write_idempotent(pg_store_of(journal), set_type, (void *)type, err);
}

static ef_status type_ls(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                         ef_error *err)
{
    ef__pg_on on = pg_on_log(pg_store_of(journal));
    ef__arena *arena = &out->room->arena;

    if (query->not_folded)
        return pj_list_type_not_folded(on, arena, &out->items, &out->count, err);
    return pj_list_type_all(on, query->name, arena, &out->items, &out->count, err);
}

/* --- runs ------------------------------------------------------------------------------------- */

typedef struct run_job {
    pg_store *store;
    const ef_run *run;
    ef_str id;
    const ef_lease_key *lease;
    int64_t token;
    ef_run_list *out;
} run_job;

static ef_status run_ls(ef_journal *journal, const ef_run_query *query, ef_run_list *out,
                        ef_error *err)
{
    ef__pg_on on = ef__pg_on_pool(pg_store_of(journal)->pool);
    ef__arena *arena = &out->room->arena;
    int64_t limit = (int64_t)query->limit;

    if (query->id)
        return pj_list_run_get(on, *query->id, arena, &out->items, &out->count, err);
    if (query->tenant)
        return pj_list_run_newest_tenant(on, limit, *query->tenant, query->open_only, arena,
                                         &out->items, &out->count, err);
    if (query->open_only)
        return pj_list_run_newest_open(on, limit, arena, &out->items, &out->count, err);
    return pj_list_run_newest(on, limit, arena, &out->items, &out->count, err);
}

static ef_status check_scope(const ef_run *run, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_rows rows = pj_each_run_open(ef__pg_on_conn(conn), run, NULL, err);
    struct pj_run_open_row open;

    if (pj_next_run_open(&rows, &open))
        rows.status = ef__refuse_run(open.id, open.projection, (ef_run_state)open.state, err);
    return ef__pg_rows_end(&rows);
}

static ef_status request_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const run_job *job = context;
    ef_status st = ef__pg_send(conn, PJ_RUN_SCOPE_LOCK, NULL, err);

    if (st == EF_OK)
        st = check_scope(job->run, conn, err);
    if (st == EF_OK)
        st = pj_send_run_file(conn, job->run, pg_clock(job->store), err);
    if (st == EF_OK)
        st = pj_list_run_get(ef__pg_on_conn(conn), job->run->id, &job->out->room->arena,
                             &job->out->items, &job->out->count, err);
    return st;
}

static ef_status run_request(ef_journal *journal, const ef_run *run, ef_run_list *out,
                             ef_error *err)
{
    run_job job = {.store = pg_store_of(journal), .run = run, .out = out};

    return pg_write(job.store, request_work, &job, err);
}

/* Reads and locks a run, and checks that it may become `to`. */
static ef_status lock_run(const run_job *job, ef_str id, ef_run_state to, ef__pg_conn *conn,
                          struct pj_run_driver_row *out, ef_error *err)
{
    bool found;
    ef_status st =
        pj_one_run_driver(ef__pg_on_conn(conn), id, pg_clock(job->store), out, &found, err);

    if (st == EF_OK && !found)
        return ef__refuse_unknown("run", id, err);
    if (st == EF_OK && !ef__run_may_move((ef_run_state)out->state, to))
        return ef__refuse_run_state(id, (ef_run_state)out->state, to, err);
    return st;
}

static ef_status send_move(const run_job *job, const struct pj_run_driver_row *is,
                           ef__pg_conn *conn, ef_error *err)
{
    const ef_run *run = job->run;
    bool starts = is->state == EF_RUN_QUEUED && run->state == EF_RUN_RUNNING;
    struct pj_run_move move = {.run = run,
                               .started = starts ? is->now : is->started,
                               .finished = ef__run_is_open(run->state) ? 0 : is->now,
                               .lease_kind = -1,
                               .lease_partition = -1};

    if (job->lease) {
        move.lease_kind = job->lease->kind;
        move.lease_name = job->lease->name;
        move.lease_partition = job->lease->partition;
    }
    return pj_send_run_move(conn, &move, err);
}

static ef_status update_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const run_job *job = context;
    struct pj_run_driver_row is;
    ef_status st = lock_run(job, job->run->id, job->run->state, conn, &is, err);

    /* Under the token of the driver; or a cancellation while no worker drives it. */
    if (st == EF_OK && job->lease)
        st = pg_token_check(job->store, conn, job->lease, job->token, err);
    else if (st == EF_OK && is.state == EF_RUN_RUNNING && is.driven)
        st = ef__refuse_driven_run(job->run->id, err);
    return st == EF_OK ? send_move(job, &is, conn, err) : st;
}

static ef_status run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                            int64_t token, ef_error *err)
{
    run_job job = {.store = pg_store_of(journal), .run = run, .lease = lease, .token = token};

    return pg_write(job.store, update_work, &job, err);
}

static ef_status cancel_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const run_job *job = context;
    struct pj_run_driver_row is;
    ef_status st = lock_run(job, job->id, EF_RUN_CANCELLED, conn, &is, err);

    return st == EF_OK ? pj_send_run_cancel(conn, job->id, is.now, err) : st;
}

static ef_status run_cancel(ef_journal *journal, ef_str id, ef_error *err)
{
    run_job job = {.store = pg_store_of(journal), .id = id};

    return pg_write(job.store, cancel_work, &job, err);
}

/* --- skips ------------------------------------------------------------------------------------ */

typedef struct skip_job {
    pg_store *store;
    const ef__skip_entry *entry;
} skip_job;

static ef_status skip_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const skip_job *job = context;
    ef_status st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);

    if (st != EF_OK)
        return st;
    return pj_run_skip_insert(ef__pg_on_conn(conn), job->entry, pg_clock(job->store), NULL, err);
}

static ef_status skip_add(ef_journal *journal, const ef__skip_entry *entry, ef_error *err)
{
    skip_job job = {pg_store_of(journal), entry};

    return pg_write(job.store, skip_work, &job, err);
}

static ef_status skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                         size_t limit, ef__skip_list *out, ef_error *err)
{
    return pj_list_skip_after(
        ef__pg_on_pool(pg_store_of(journal)->pool),
        &(struct pj_skip_after){
            .projection = projection, .version = version, .after = after, .limit = (int64_t)limit},
        &out->room->arena, &out->items, &out->count, err);
}

/* --- the audit log ---------------------------------------------------------------------------- */

static ef_status audit_add(ef_journal *journal, const ef_audit_entry *given, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    int64_t id;

    return pj_one_audit_insert(pg_on_write(store), pg_clock(store), given, 0, &id, NULL, err);
}

static ef_status audit_ls(ef_journal *journal, const ef_audit_query *query, ef_audit_list *out,
                          ef_error *err)
{
    return pj_list_audit_newest(ef__pg_on_pool(pg_store_of(journal)->pool), query,
                                query->tenant == NULL, query->tenant ? *query->tenant : EF_STR(""),
                                &out->room->arena, &out->items, &out->count, err);
}

const ef__record_ops pg_record_ops = {
    .type_set = type_set,
    .type_ls = type_ls,
    .run_request = run_request,
    .run_update = run_update,
    .run_cancel = run_cancel,
    .run_ls = run_ls,
    .audit_add = audit_add,
    .audit_ls = audit_ls,
    .skip_add = skip_add,
    .skip_ls = skip_ls,
};
