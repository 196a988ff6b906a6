/*
 * outbox_revision.c - requeue, skip and replay of rows by operators, and the audit log, on
 * PostgreSQL.
 */
#include "outbox.h"

#include <inttypes.h>

/* --- revising rows ---------------------------------------------------------------------------- */

typedef struct revise_job {
    pg_store *store;
    const ef__revision_request *is;
    int64_t now_us;
    int64_t id; /* of the audit entry */
    ef_row_list *out;
} revise_job;

/* Queued rows of publishers become retry rows. */
static ef_status move_from_queue(ef__pg_conn *conn, ef__pg_array *lanes, ef__pg_array *positions,
                                 int64_t now_us, ef_error *err)
{
    ef__pg_params params = {0}, touched = {0};
    ef__pg_array of[2];
    PGresult *moved = NULL;
    ef_status st;

    ef__pg_add_array(&params, lanes);
    ef__pg_add_array(&params, positions);
    ef__pg_add_int(&params, now_us);
    st = ef__pg_query(conn, PJ_RETRY_ROW_FROM_QUEUE, &params, &moved, err);
    for (int c = 0; c < 2; c++) {
        ef__pg_array_init(&of[c], EF__PG_INT);
        for (int i = 0; st == EF_OK && i < PQntuples(moved); i++)
            ef__pg_array_int(&of[c], ef__pg_int(moved, i, c));
        ef__pg_add_array(&touched, &of[c]);
    }
    if (st == EF_OK && of[0].count)
        st = ef__pg_send(conn, PJ_RETRY_ROW_SET_FIRST, &touched, err);
    for (int c = 0; c < 2; c++)
        ef__pg_array_release(&of[c]);
    PQclear(moved);
    return st;
}

static ef_status revise_rows(const revise_job *job, ef__pg_conn *conn, PGresult **out,
                             ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array lanes, positions;
    ef_status st = EF_OK;

    ef__pg_array_init(&lanes, EF__PG_TEXT);
    ef__pg_array_init(&positions, EF__PG_INT);
    for (size_t i = 0; i < job->is->count; i++) {
        ef__pg_array_str(&lanes, job->is->rows[i].lane);
        ef__pg_array_int(&positions, job->is->rows[i].position);
    }
    ef__pg_add_array(&params, &lanes);
    ef__pg_add_array(&params, &positions);
    ef__pg_add_int(&params, job->is->what);
    ef__pg_add_int(&params, job->now_us);
    if (job->is->what == EF__REVISION_SKIP)
        st = move_from_queue(conn, &lanes, &positions, job->now_us, err);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_RETRY_ROW_REVISE, &params, out, err);
    ef__pg_array_release(&lanes);
    ef__pg_array_release(&positions);
    return st;
}

static ef_status add_skips(const revise_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array projections, versions, positions;
    ef_status st = EF_OK;

    ef__pg_array_init(&projections, EF__PG_TEXT);
    ef__pg_array_init(&versions, EF__PG_INT);
    ef__pg_array_init(&positions, EF__PG_INT);
    for (size_t i = 0; i < job->is->count; i++)
        for (size_t v = 0; v < job->is->rows[i].version_count; v++) {
            ef__pg_array_str(&projections, job->is->rows[i].lane);
            ef__pg_array_int(&versions, job->is->rows[i].versions[v]);
            ef__pg_array_int(&positions, job->is->rows[i].position);
        }
    ef__pg_add_array(&params, &projections);
    ef__pg_add_array(&params, &versions);
    ef__pg_add_array(&params, &positions);
    ef__pg_add_str(&params, job->is->act->actor);
    ef__pg_add_str(&params, job->is->act->reason);
    ef__pg_add_int(&params, job->now_us);
    if (projections.count)
        st = ef__pg_send(conn, PJ_SKIP_INSERT_OF_ROWS, &params, err);
    ef__pg_array_release(&projections);
    ef__pg_array_release(&versions);
    ef__pg_array_release(&positions);
    return st;
}

static ef_status send_audit(pg_store *store, ef__pg_conn *conn, const ef_audit_entry *act,
                            int64_t rows, PGresult **out, ef_error *err)
{
    ef__pg_params params = {0};

    pg_add_clock(store, &params);
    ef__pg_add_str(&params, act->action);
    ef__pg_add_str(&params, act->actor);
    ef__pg_add_str(&params, act->reason);
    ef__pg_add_str(&params, act->lane);
    ef__pg_add_str(&params, act->tenant);
    ef__pg_add_str(&params, act->stream);
    ef__pg_add_int(&params, act->seq);
    ef__pg_add_int(&params, rows);
    return ef__pg_query(conn, PJ_AUDIT_INSERT, &params, out, err);
}

static ef_status send_revision_audit(revise_job *job, ef__pg_conn *conn, int64_t rows,
                                     ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *made = NULL;
    ef_status st;

    if (rows == 0)
        return EF_OK;
    if (job->is->act->id) {
        ef__pg_add_int(&params, job->is->act->id);
        ef__pg_add_int(&params, rows);
        return ef__pg_send(conn, PJ_AUDIT_GROW, &params, err);
    }
    st = send_audit(job->store, conn, job->is->act, rows, &made, err);
    if (st == EF_OK)
        job->id = ef__pg_int(made, 0, 0);
    PQclear(made);
    return st;
}

/* Reads the rows after the change. */
static ef_status read_rows(const revise_job *job, ef__pg_conn *conn, const PGresult *revised,
                           ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array lanes, positions;
    PGresult *rows = NULL;
    ef_status st;

    ef__pg_array_init(&lanes, EF__PG_INT);
    ef__pg_array_init(&positions, EF__PG_INT);
    for (int i = 0; i < PQntuples(revised); i++) {
        ef__pg_array_int(&lanes, ef__pg_int(revised, i, 0));
        ef__pg_array_int(&positions, ef__pg_int(revised, i, 1));
    }
    ef__pg_add_array(&params, &lanes);
    ef__pg_add_array(&params, &positions);
    st = ef__pg_query(conn, PJ_RETRY_ROW_DETAILS, &params, &rows, err);
    if (st == EF_OK)
        st = pg_rows_list(rows, (size_t)PQntuples(rows), job->out, err);
    PQclear(rows);
    ef__pg_array_release(&lanes);
    ef__pg_array_release(&positions);
    return st;
}

static ef_status revise_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    revise_job *job = context;
    PGresult *revised = NULL;
    ef_status st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);

    job->out->count = 0;
    if (st == EF_OK)
        st = revise_rows(job, conn, &revised, err);
    if (st == EF_OK)
        st = add_skips(job, conn, err);
    if (st == EF_OK)
        st = send_revision_audit(job, conn, PQntuples(revised), err);
    if (st == EF_OK)
        st = read_rows(job, conn, revised, err);
    PQclear(revised);
    return st;
}

ef_status pg_revise(ef_journal *journal, const ef__revision_request *revise, ef_row_list *out,
                    ef_error *err)
{
    revise_job job = {.store = pg_store_of(journal), .is = revise, .out = out};
    ef_status st = pg_clock_now(job.store, &job.now_us, err);

    if (st == EF_OK)
        st = pg_write(job.store, revise_work, &job, err);
    if (st == EF_OK && job.id)
        *revise->out_id = job.id;
    return st;
}

/* --- skips ------------------------------------------------------------------------------------ */

typedef struct skip_job {
    pg_store *store;
    const ef__skip_entry *entry;
} skip_job;

static ef_status skip_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const skip_job *job = context;
    ef__pg_params params = {0};
    ef_status st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);

    ef__pg_add_str(&params, job->entry->projection);
    ef__pg_add_int(&params, job->entry->version);
    ef__pg_add_str(&params, job->entry->tenant);
    ef__pg_add_str(&params, job->entry->stream);
    ef__pg_add_int(&params, job->entry->seq);
    ef__pg_add_str(&params, job->entry->actor);
    ef__pg_add_str(&params, job->entry->reason);
    pg_add_clock(job->store, &params);
    return st == EF_OK ? ef__pg_query(conn, PJ_SKIP_INSERT, &params, NULL, err) : st;
}

ef_status pg_skip_add(ef_journal *journal, const ef__skip_entry *entry, ef_error *err)
{
    skip_job job = {pg_store_of(journal), entry};

    return pg_write(job.store, skip_work, &job, err);
}

ef_status pg_skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                     size_t limit, ef__skip_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef__skip *items = NULL;
    ef_status st;

    ef__pg_add_str(&params, projection);
    ef__pg_add_int(&params, version);
    ef__pg_add_int(&params, after);
    ef__pg_add_int(&params, (int64_t)limit);
    st = ef__pg_read(pg_store_of(journal)->pool, PJ_SKIP_AFTER, &params, &result, err);
    if (st == EF_OK && !(items = pg_items_alloc(arena, PQntuples(result), sizeof *items)))
        st = ef__no_memory(err);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        items[i] = (ef__skip){.id = ef__pg_int(result, i, 0),
                              .tenant = pg_copy_text(result, i, 1, arena),
                              .stream = pg_copy_text(result, i, 2, arena),
                              .seq = ef__pg_int(result, i, 3),
                              .withdrawn = ef__pg_bool(result, i, 4)};
        if (!items[i].tenant.ptr || !items[i].stream.ptr)
            st = ef__no_memory(err);
        out->count++;
    }
    out->items = items;
    PQclear(result);
    return st;
}

/* --- the audit log ---------------------------------------------------------------------------- */

typedef struct audit_job {
    pg_store *store;
    const ef_audit_entry *act;
} audit_job;

static ef_status audit_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const audit_job *job = context;

    return send_audit(job->store, conn, job->act, 0, NULL, err);
}

ef_status pg_audit_add(ef_journal *journal, const ef_audit_entry *given, ef_error *err)
{
    audit_job job = {pg_store_of(journal), given};

    return pg_write(job.store, audit_work, &job, err);
}

ef_status pg_audit_ls(ef_journal *journal, const ef_audit_query *query, ef_audit_list *out,
                      ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_audit_entry *items = NULL;
    ef_status st;

    ef__pg_add_int(&params, query->after);
    ef__pg_add_int(&params, query->before);
    ef__pg_add_str(&params, query->action);
    ef__pg_add_str(&params, query->lane);
    ef__pg_add_int(&params, (int64_t)query->limit);
    ef__pg_add_bool(&params, query->tenant == NULL);
    ef__pg_add_str(&params, query->tenant ? *query->tenant : EF_STR(""));
    st = ef__pg_read(pg_store_of(journal)->pool, PJ_AUDIT_NEWEST, &params, &result, err);
    if (st == EF_OK && !(items = pg_items_alloc(arena, PQntuples(result), sizeof *items)))
        st = ef__no_memory(err);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        const ef_audit_entry *a = &items[i];
        items[i] = (ef_audit_entry){.id = ef__pg_int(result, i, 0),
                                    .at_us = ef__pg_int(result, i, 1),
                                    .action = pg_copy_text(result, i, 2, arena),
                                    .actor = pg_copy_text(result, i, 3, arena),
                                    .reason = pg_copy_text(result, i, 4, arena),
                                    .lane = pg_copy_text(result, i, 5, arena),
                                    .tenant = pg_copy_text(result, i, 6, arena),
                                    .stream = pg_copy_text(result, i, 7, arena),
                                    .seq = ef__pg_int(result, i, 8),
                                    .rows = ef__pg_int(result, i, 9)};
        if (!a->action.ptr || !a->actor.ptr || !a->reason.ptr || !a->lane.ptr || !a->tenant.ptr ||
            !a->stream.ptr)
            st = ef__no_memory(err);
        out->count++;
    }
    out->items = items;
    PQclear(result);
    return st;
}
