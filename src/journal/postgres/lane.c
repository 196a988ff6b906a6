/*
 * lane.c - lanes of the outbox on PostgreSQL, and the published rows of publishers. Lanes are never
 * removed and keep their kind and id, so the store caches them.
 */
#include "store.h"

static bool find_cached(pg_store *store, ef_str name, pg_lane *out)
{
    const pg_lane *known;

    (void)pthread_mutex_lock(&store->lock);
    known = ef__pair_map_find(&store->lanes, (ef_str){0}, name);
    if (known)
        *out = *known;
    (void)pthread_mutex_unlock(&store->lock);
    return known != NULL;
}

/* Without memory for it, the lane is looked up again next time. */
static void cache_lane(pg_store *store, ef_str name, pg_lane lane)
{
    pg_lane *known;
    bool is_new;

    (void)pthread_mutex_lock(&store->lock);
    known = ef__pair_map_at(&store->lanes, (ef_str){0}, name, &is_new);
    if (known)
        *known = lane;
    (void)pthread_mutex_unlock(&store->lock);
}

static ef_status read_lane(ef__pg_conn *conn, ef_str name, pg_lane *out, ef_error *err)
{
    ef__pg_array names = {0};

    ef__pg_array_str(&names, name);
    return pj_one_lane_by_name(ef__pg_on_conn(conn), &names, out, NULL, err);
}

ef_status pg_lane_get(pg_store *store, ef__pg_conn *conn, ef_str name, pg_lane *out, ef_error *err)
{
    ef_status st;

    *out = (pg_lane){0};
    if (find_cached(store, name, out))
        return EF_OK;
    st = read_lane(conn, name, out, err);
    if (st == EF_OK && out->id == 0)
        return ef__refuse_unknown("lane", name, err);
    if (st == EF_OK)
        cache_lane(store, name, *out);
    return st;
}

/* A new lane is not cached: its transaction may still be rolled back. */
ef_status pg_lane_find_or_create(pg_store *store, ef__pg_conn *conn, ef_str name, pg_lane *out,
                                 ef_error *err)
{
    ef__pg_array names = {0};
    ef_status st;

    if (find_cached(store, name, out))
        return EF_OK;
    ef__pg_array_str(&names, name);
    st = pj_run_lane_make(ef__pg_on_conn(conn), &names, NULL, err);
    return st == EF_OK ? read_lane(conn, name, out, err) : st;
}

typedef struct set_job {
    const ef_lane *lane, *expected;
} set_job;

static ef_status set_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const set_job *job = context;
    ef__pg_on on = ef__pg_on_conn(conn);
    bool found = true;
    ef_status st = EF_OK;

    if (job->expected)
        st = pj_one_lane_matches(on, job->expected, &found, err);
    if (st == EF_OK && !found)
        st = ef__lane_changed(job->expected->name, err);
    if (st == EF_OK)
        st = pj_one_lane_put(on, job->lane, &found, err);
    /* Its rows are claimed under leases of its kind, which another kind would not have. */
    if (st == EF_OK && !found)
        st = ef__refuse_lane_kind(job->lane->name, err);
    return st;
}

static ef_status lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                          ef_error *err)
{
    set_job job = {lane, expected};

    return pg_write_idempotent(pg_store_of(journal), set_work, &job, err);
}

static ef_status lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    return pj_list_lane_in_order(ef__pg_on_pool(pg_store_of(journal)->pool), &out->room->arena,
                                 &out->items, &out->count, err);
}

/* --- lanes of publishers ---------------------------------------------------------------------- */

typedef struct lane_job {
    pg_store *store;
    ef_str lane;
    bool discard;
    const ef_partition_lease *held;
    size_t limit;
    int64_t *out;
} lane_job;

static ef_status get_publisher_lane(const lane_job *job, ef__pg_conn *conn, pg_lane *out,
                                    ef_error *err)
{
    ef_status st = pg_lane_get(job->store, conn, job->lane, out, err);

    return st == EF_OK ? ef__lane_publishes(job->lane, out->kind, err) : st;
}

static ef_status drop_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const lane_job *job = context;
    pg_lane lane;
    ef_status st = get_publisher_lane(job, conn, &lane, err);

    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);
    if (st == EF_OK)
        st = pj_one_lane_rows(ef__pg_on_conn(conn), lane.id, job->out, NULL, err);
    if (st == EF_OK)
        st = ef__lane_drop_check(job->lane, *job->out, job->discard, err);
    return st == EF_OK ? pj_send_lane_clear(conn, lane.id, err) : st;
}

static ef_status lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                           ef_error *err)
{
    lane_job job = {
        .store = pg_store_of(journal), .lane = lane, .discard = discard, .out = out_rows};
    ef_status st = pg_place_unplaced(
        job.store, err); /* events become rows of the lane when they get positions */

    return st == EF_OK ? pg_write(job.store, drop_work, &job, err) : st;
}

/* --- published rows --------------------------------------------------------------------------- */

static ef_status get_held_lane(const lane_job *job, ef__pg_conn *conn, pg_lane *out, ef_error *err)
{
    ef_status st = get_publisher_lane(job, conn, out, err);

    if (st == EF_OK)
        st = pg_leases_send(job->store, conn, out, job->lane, job->held, 1, err);
    return st == EF_OK ? pg_leases_receive(conn, out, job->lane, job->held, 1, err) : st;
}

static ef_status write_under_lease(ef_journal *journal, ef__pg_work work, ef_str lane,
                                   const ef_partition_lease *held, size_t limit, int64_t *out_count,
                                   ef_error *err)
{
    lane_job job = {.store = pg_store_of(journal),
                    .lane = lane,
                    .held = held,
                    .limit = limit,
                    .out = out_count};

    return pg_write_idempotent(job.store, work, &job, err);
}

static ef_status purge_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const lane_job *job = context;
    pg_lane lane;
    ef_status st = get_held_lane(job, conn, &lane, err);

    if (st != EF_OK)
        return st;
    return pj_run_published_purge(ef__pg_on_conn(conn),
                                  &(struct pj_published_purge){.lane = lane.id,
                                                               .limit = (int64_t)job->limit,
                                                               .now = pg_clock(job->store)},
                                  job->out, err);
}

static ef_status published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                 size_t limit, int64_t *out_count, ef_error *err)
{
    return write_under_lease(journal, purge_work, lane, held, limit, out_count, err);
}

/* Creates a pending retry row for each, unless it has one. */
static ef_status requeue_rows(ef__pg_rows *rows, ef__pg_conn *conn, int32_t lane, int64_t now_us,
                              ef_error *err)
{
    struct pj_retry_row_put put = {0};
    struct pj_retry_row_set_first touched = {0};
    ef_retry_row pending = {.status = EF_ROW_PENDING, .error = EF_STR("")};
    struct pj_published_drain_row row;
    ef_status st;

    while (pj_next_published_drain(rows, &row)) {
        pg_retry_row retry = {.lane = lane,
                              .position = row.position,
                              .event = {.stream = row.stream,
                                        .seq = row.seq,
                                        .tenant = row.tenant,
                                        .name = row.name,
                                        .partitions = EF_LIMIT_PUBLISHER_PARTITIONS}};
        if (row.has_retry_row)
            continue;
        ef__retry_state_write(&retry.event.row, &pending, false, now_us);
        pg_retry_row_add(&put, &retry);
        ef__pg_array_int(&touched.lanes, lane);
        ef__pg_array_int(&touched.streams, row.stream);
    }
    if (put.lanes.count == 0)
        return EF_OK;
    st = pj_send_retry_row_put(conn, &put, err);
    return st == EF_OK ? pj_send_retry_row_set_first(conn, &touched, err) : st;
}

static ef_status requeue_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const lane_job *job = context;
    struct pj_published_drain drain = {.limit = (int64_t)job->limit};
    ef__pg_on on = ef__pg_on_conn(conn);
    int64_t now_us = 0;
    ef__pg_rows rows;
    pg_lane lane;
    ef_status st = get_held_lane(job, conn, &lane, err);

    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);
    if (st == EF_OK)
        st = pg_clock_now(job->store, on, &now_us, err);
    if (st != EF_OK)
        return st;
    drain.lane = lane.id;
    rows = pj_each_published_drain(on, &drain, NULL, err);
    *job->out = rows.count;
    if (rows.status == EF_OK)
        rows.status = requeue_rows(&rows, conn, lane.id, now_us, err);
    return ef__pg_rows_end(&rows);
}

static ef_status published_requeue(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                   size_t limit, int64_t *out_count, ef_error *err)
{
    /* A repeated commit requeues further rows, and none is lost. */
    return write_under_lease(journal, requeue_work, lane, held, limit, out_count, err);
}

static ef_status published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                                 ef_error *err)
{
    struct pj_published_count_row row = {0};
    bool found;
    ef_status st = pj_one_published_count(ef__pg_on_pool(pg_store_of(journal)->pool), lane,
                                          (int64_t)most, &row, &found, err);

    if (st == EF_OK && !found)
        st = ef__refuse_unknown("lane", lane, err);
    if (st == EF_OK)
        st = ef__lane_publishes(lane, (ef_lane_kind)row.kind, err);
    if (st == EF_OK)
        *out_count = row.count;
    return st;
}

/* --- retry rows ------------------------------------------------------------------------------- */

static ef_status outbox_has_work(ef_journal *journal, bool *out, ef_error *err)
{
    *out = false;
    return pj_one_outbox_has_work(pg_on_log(pg_store_of(journal)), out, NULL, err);
}

static ef_status retry_streams(ef_journal *journal, const ef__retry_query *query,
                               ef__retry_stream_list *out, ef_error *err)
{
    ef__pg_on on = pg_on_log(pg_store_of(journal));
    ef__arena *arena = &out->room->arena;

    if (query->stream.len)
        return pj_list_retry_stream(on, query, arena, &out->items, &out->count, err);
    return pj_list_retry_streams(on, query, arena, &out->items, &out->count, err);
}

const ef__outbox_ops pg_outbox_ops = {
    .lane_set = lane_set,
    .lane_ls = lane_ls,
    .lane_drop = lane_drop,
    .published_purge = published_purge,
    .published_requeue = published_requeue,
    .published_count = published_count,
    .claim = pg_claim,
    .ack = pg_ack,
    .ls = pg_outbox_ls,
    .summarise = pg_outbox_summarise,
    .has_work = outbox_has_work,
    .retry_streams = retry_streams,
    .delivery_send = pg_delivery_send,
    .delivery_receive = pg_delivery_receive,
    .revise = pg_revise,
};
