/*
 * outbox_row.c - listing and counting rows of the outbox on PostgreSQL; requeue, skip and replay by
 * operators.
 */
#include "store.h"

ef_status pg_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef__arena *arena = &out->room->arena;
    const ef__listed_row *rows;
    size_t count;
    ef__row_page page;
    ef_status st = ef__row_page_init(&page, query, err);

    if (st != EF_OK)
        return st;
    if (ef__query_published(query)) {
        st =
            pj_list_published_before(ef__pg_on_pool(store->pool), &page, arena, &rows, &count, err);
    } else {
        st = pg_clock_now(store, ef__pg_on_pool(store->pool), &page.now_us, err);
        if (st == EF_OK)
            st = pj_list_row_after(pg_on_log(store), &page, arena, &rows, &count, err);
    }
    return st == EF_OK ? ef__rows_take(rows, count, query->limit, out, err) : st;
}

/* --- the summary ------------------------------------------------------------------------------ */

typedef struct summary {
    pg_store *store;
    const ef_outbox_query *query;
    int64_t now_us;
    ef_outbox_summary *out;
} summary;

static ef_status summary_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const summary *s = context;
    ef__row_page waiting = ef__row_page_oldest(s->query, s->now_us);
    ef_row_list oldest = s->out->oldest;
    const ef__listed_row *rows;
    size_t count;
    ef_status st = pj_send_row_count(conn, s->query, s->now_us, err);

    if (st == EF_OK)
        st = pj_send_row_after(conn, &waiting, err);
    if (st == EF_OK)
        st = pj_receive_row_count(conn, s->out, NULL, err);
    s->out->oldest = oldest;
    if (st == EF_OK)
        st = pj_receive_row_after(conn, &oldest.room->arena, &rows, &count, err);
    return st == EF_OK ? ef__rows_take(rows, count, 1, &s->out->oldest, err) : st;
}

ef_status pg_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err)
{
    summary s = {.store = pg_store_of(journal), .query = query, .out = out};
    ef_status st = pg_place_unplaced(s.store, err);

    if (st == EF_OK)
        st = pg_clock_now(s.store, ef__pg_on_pool(s.store->pool), &s.now_us, err);
    if (st == EF_OK)
        st = ef__pg_transaction(s.store->pool, EF__PG_SNAPSHOT, summary_work, &s, err);
    return st;
}

/* --- delivery --------------------------------------------------------------------------------- */

typedef struct delivery {
    const ef__retry_query *query;
    int64_t position;
    ef__retry_stream_list *streams;
} delivery;

static ef_status send_delivery(ef__pg_conn *conn, const ef__retry_query *query, ef_error *err)
{
    ef_status st = ef__pg_send(conn, PJ_OUTBOX_DELIVERED, NULL, err);

    return st == EF_OK ? pj_send_retry_streams(conn, query, err) : st;
}

static ef_status receive_delivery(const delivery *d, ef__pg_conn *conn, int64_t *out, ef_error *err)
{
    ef__retry_stream_list *streams = d->streams;
    ef_status st = ef__memory_prepare(&streams->room, err);

    if (st == EF_OK)
        st = pj_receive_outbox_delivered(conn, out, NULL, err);
    return st == EF_OK ? pj_receive_retry_streams(conn, &streams->room->arena, &streams->items,
                                                  &streams->count, err)
                       : st;
}

static ef_status read_delivery(void *context, ef__pg_conn *conn, ef_error *err)
{
    delivery *d = context;
    ef_status st = send_delivery(conn, d->query, err);

    return st == EF_OK ? receive_delivery(d, conn, &d->position, err) : st;
}

/* Without a check for events that have no position yet: those are not delivered. */
void *pg_delivery_send(ef_journal *journal, const ef__retry_query *query)
{
    ef__pg_pool *pool = pg_store_of(journal)->pool;
    ef__pg_conn *conn = NULL;
    ef_status st = ef__pg_pool_get(pool, &conn, NULL);

    if (st == EF_OK)
        st = send_delivery(conn, query, NULL);
    if (st == EF_OK)
        st = ef__pg_sync(conn, NULL);
    if (st == EF_OK)
        return conn;
    ef__pg_pool_put(pool, conn);
    return NULL;
}

ef_status pg_delivery_receive(ef_journal *journal, void *sent, const ef__retry_query *query,
                              int64_t *out_delivered, ef__retry_stream_list *out, ef_error *err)
{
    ef__pg_pool *pool = pg_store_of(journal)->pool;
    delivery d = {.query = query, .streams = out};
    ef_status st = sent ? receive_delivery(&d, sent, &d.position, NULL) : EF_BUSY;

    ef__pg_pool_put(pool, sent);
    if (st != EF_OK)
        st = ef__pg_with_conn(pool, read_delivery, &d, err);
    *out_delivered = d.position;
    return st;
}

/* --- revisions -------------------------------------------------------------------------------- */

typedef struct revise_job {
    pg_store *store;
    const ef__revision_request *is;
    int64_t now_us;
    int64_t id; /* of the audit entry */
    ef_row_list *out;
} revise_job;

/* Queued rows of publishers become retry rows. */
static ef_status move_from_queue(const revise_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_retry_row_from_queue queued = {.now = job->now_us};
    struct pj_retry_row_set_first touched = {0};
    struct pj_retry_row_from_queue_row moved;
    ef__pg_rows rows;

    for (size_t i = 0; i < job->is->count; i++) {
        ef__pg_array_str(&queued.lanes, job->is->rows[i].lane);
        ef__pg_array_int(&queued.positions, job->is->rows[i].position);
    }
    rows = pj_each_retry_row_from_queue(ef__pg_on_conn(conn), &queued, err);
    while (pj_next_retry_row_from_queue(&rows, &moved)) {
        ef__pg_array_int(&touched.lanes, moved.lane);
        ef__pg_array_int(&touched.streams, moved.stream);
    }
    if (touched.lanes.count)
        rows.status = pj_send_retry_row_set_first(conn, &touched, err);
    return ef__pg_rows_end(&rows);
}

static ef__pg_rows revise_rows(const revise_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_retry_row_revise revise = {.action = job->is->what, .now = job->now_us};
    ef_status st = EF_OK;

    if (job->is->what == EF__REVISION_SKIP)
        st = move_from_queue(job, conn, err);
    if (st != EF_OK)
        return (ef__pg_rows){.status = st};
    for (size_t i = 0; i < job->is->count; i++) {
        ef__pg_array_str(&revise.lanes, job->is->rows[i].lane);
        ef__pg_array_int(&revise.positions, job->is->rows[i].position);
    }
    return pj_each_retry_row_revise(ef__pg_on_conn(conn), &revise, err);
}

static ef_status add_skips(const revise_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_skip_insert_of_rows skips = {
        .actor = job->is->act->actor, .reason = job->is->act->reason, .now = job->now_us};

    for (size_t i = 0; i < job->is->count; i++)
        for (size_t v = 0; v < job->is->rows[i].version_count; v++) {
            ef__pg_array_str(&skips.projections, job->is->rows[i].lane);
            ef__pg_array_int(&skips.versions, job->is->rows[i].versions[v]);
            ef__pg_array_int(&skips.positions, job->is->rows[i].position);
        }
    return skips.projections.count ? pj_send_skip_insert_of_rows(conn, &skips, err) : EF_OK;
}

static ef_status send_revision_audit(revise_job *job, ef__pg_conn *conn, int64_t rows,
                                     ef_error *err)
{
    const ef_audit_entry *act = job->is->act;

    if (rows == 0)
        return EF_OK;
    if (act->id)
        return pj_send_audit_grow(conn, &(struct pj_audit_grow){.id = act->id, .rows = rows}, err);
    return pj_one_audit_insert(ef__pg_on_conn(conn), pg_clock(job->store), act, rows, &job->id,
                               NULL, err);
}

/* Reads the rows after the change. */
static ef_status read_rows(const revise_job *job, ef__pg_conn *conn, ef__pg_rows *revised,
                           ef_error *err)
{
    struct pj_retry_row_details details = {0};
    struct pj_retry_row_revise_row row;
    const ef__listed_row *rows;
    size_t count;
    ef_status st;

    while (pj_next_retry_row_revise(revised, &row)) {
        ef__pg_array_int(&details.lanes, row.lane);
        ef__pg_array_int(&details.positions, row.position);
    }
    st = pj_list_retry_row_details(ef__pg_on_conn(conn), &details, &job->out->room->arena, &rows,
                                   &count, err);
    return st == EF_OK ? ef__rows_take(rows, count, count, job->out, err) : st;
}

static ef_status revise_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    revise_job *job = context;
    ef__pg_rows revised = {0};
    ef_status st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);

    job->out->count = 0;
    if (st != EF_OK)
        return st;
    revised = revise_rows(job, conn, err);
    if (revised.status == EF_OK)
        revised.status = add_skips(job, conn, err);
    if (revised.status == EF_OK)
        revised.status = send_revision_audit(job, conn, revised.count, err);
    if (revised.status == EF_OK)
        revised.status = read_rows(job, conn, &revised, err);
    return ef__pg_rows_end(&revised);
}

ef_status pg_revise(ef_journal *journal, const ef__revision_request *revise, ef_row_list *out,
                    ef_error *err)
{
    revise_job job = {.store = pg_store_of(journal), .is = revise, .out = out};
    ef_status st = pg_clock_now(job.store, ef__pg_on_pool(job.store->pool), &job.now_us, err);

    if (st == EF_OK)
        st = pg_write(job.store, revise_work, &job, err);
    if (st == EF_OK && job.id)
        *revise->out_id = job.id;
    return st;
}
