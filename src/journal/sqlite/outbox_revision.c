/*
 * outbox_revision.c - requeue, skip and replay of rows by operators, each with an audit entry.
 *
 * No lease is needed: a revision changes only when and how a retry row is claimed next, and the
 * claim is made under a lease.
 */
#include "outbox.h"

#include <inttypes.h>

typedef struct revise_job {
    const ef__revision_request *is;
    ef_row_list *out;
    int64_t now_us;
} revise_job;

/* --- the audit entry -------------------------------------------------------------------------- */

static ef_status audit_revision(ef__sq_conn *conn, const revise_job *job, ef_error *err)
{
    const ef_audit_entry *entry = job->is->act;
    int64_t rows = (int64_t)job->out->count;
    ef_status st;

    if (rows == 0)
        return EF_OK;
    if (entry->id)
        return sq_run_audit_grow(conn, &(struct sq_audit_grow){.id = entry->id, .rows = rows}, err);
    st = sq_run_audit_insert(
        conn, &(struct sq_audit_insert){.at = job->now_us, .entry = entry, .rows = rows}, err);
    *job->is->out_id = sqlite3_last_insert_rowid(conn->db);
    return st;
}

/* --- one row ---------------------------------------------------------------------------------- */

static void revise_row(ef__revision what, int64_t now_us, sq_retry_row *x)
{
    if (what == EF__REVISION_REQUEUE) {
        x->attempts = 0;
        x->error = (ef_str){0};
    }
    if (what != EF__REVISION_REPLAY || x->status == EF_ROW_DEAD)
        x->status = EF_ROW_PENDING;
    x->skip = what == EF__REVISION_SKIP || (x->skip && what == EF__REVISION_REPLAY);
    x->trying = false;
    x->due_us = x->updated_us = now_us;
}

static ef_status add_skips(ef__sq_conn *conn, const revise_job *job, const ef__revised_row *row,
                           const ef_row *shown, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < row->version_count; i++)
        st = sq_run_skip_insert(conn,
                                &(ef__skip_entry){.projection = row->lane,
                                                  .version = row->versions[i],
                                                  .tenant = shown->tenant,
                                                  .stream = shown->stream,
                                                  .seq = shown->seq,
                                                  .actor = job->is->act->actor,
                                                  .reason = job->is->act->reason},
                                job->now_us, err);
    return st;
}

/* The retry row. A queued row of a publisher becomes one when it is skipped. */
static ef_status find_retry_row(sq_store *store, ef__revision what, const sq_lane *lane,
                                int64_t position, ef__arena *arena, sq_retry_row *out,
                                ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef_status st = sq_retry_row_get(conn, lane->id, position, arena, out, err);

    if (st != EF_OK || out->found || what != EF__REVISION_SKIP ||
        lane->kind != EF_LANE_KIND_PUBLISHER)
        return st;
    st = sq_retry_row_from_queue(store, lane, position, err);
    return st == EF_OK ? sq_retry_row_get(conn, lane->id, position, arena, out, err) : st;
}

/* `lane` is that of the previous row, which is mostly the same. */
static ef_status revise_one(sq_store *store, const revise_job *job, const ef__revised_row *row,
                            sq_lane *lane, ef_row *items, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef__arena *arena = &job->out->room->arena;
    sq_row_place spot = {.lane = lane, .position = row->position};
    sq_blocker blocker = {0}; /* the previous row may have blocked this one */
    sq_retry_row x;
    ef_status st = EF_OK;

    if (!lane->id || !ef_str_equal(lane->name, row->lane))
        st = sq_lane_find(conn, row->lane, lane, err);
    if (st == EF_OK)
        st = find_retry_row(store, job->is->what, lane, row->position, arena, &x, err);
    if (st != EF_OK || !x.found ||
        (job->is->what == EF__REVISION_REQUEUE && x.status != EF_ROW_DEAD))
        return st;
    revise_row(job->is->what, job->now_us, &x);
    st = sq_run_retry_row_update(conn, &(struct sq_retry_row_update){lane->id, row->position, &x},
                                 err);
    if (st == EF_OK)
        st = sq_row_make(conn, &spot, &blocker, arena, &items[job->out->count], err);
    if (st == EF_OK)
        st = add_skips(conn, job, row, &items[job->out->count], err);
    job->out->count += st == EF_OK;
    return st;
}

static ef_status revise_rows(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                             ef_error *err)
{
    revise_job job = {.is = asked, .out = out, .now_us = sq_now_us(store)};
    ef_row *items = ef__arena_zalloc(&job.out->room->arena, job.is->count + 1, sizeof *items);
    sq_lane lane = {0};
    ef_status st = items ? EF_OK : ef__no_memory(err);

    job.out->items = items;
    job.out->count = 0;
    for (size_t i = 0; st == EF_OK && i < job.is->count; i++)
        st = revise_one(store, &job, &job.is->rows[i], &lane, items, err);
    return st == EF_OK ? audit_revision(conn, &job, err) : st;
}

ef_status sq_revise(ef_journal *journal, const ef__revision_request *revise, ef_row_list *out,
                    ef_error *err)
{
    return sq_write(journal, revise_rows, revise, out, err);
}
