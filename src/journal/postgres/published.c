/*
 * published.c - lanes of publishers on PostgreSQL: published rows, and dropping a lane.
 */
#include "store.h"

#include "../../core/placement.h"

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

/* --- dropping a lane
 * ---------------------------------------------------------------------------------- */

static ef_status drop_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const lane_job *job = context;
    ef__pg_params count = {0}, clear = {0};
    PGresult *result = NULL;
    pg_lane lane;
    ef_status st = get_publisher_lane(job, conn, &lane, err);

    ef__pg_add_int(&count, lane.id);
    ef__pg_add_int(&clear, lane.id);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_LANE_ROWS, &count, &result, err);
    if (st == EF_OK) {
        *job->out = ef__pg_int(result, 0, 0);
        st = ef__lane_drop_check(job->lane, *job->out, job->discard, err);
    }
    PQclear(result);
    return st == EF_OK ? ef__pg_send(conn, PJ_LANE_CLEAR, &clear, err) : st;
}

ef_status pg_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                       ef_error *err)
{
    lane_job job = {
        .store = pg_store_of(journal), .lane = lane, .discard = discard, .out = out_rows};
    ef_status st = pg_sequence_arrivals(
        job.store, err); /* arrivals become rows of the lane when they get positions */

    return st == EF_OK ? pg_write(job.store, drop_work, &job, err) : st;
}

/* --- published rows ------------------------------------------------------------------------
 */

static ef_status get_held_lane(const lane_job *job, ef__pg_conn *conn, pg_lane *out, ef_error *err)
{
    ef_status st = get_publisher_lane(job, conn, out, err);

    if (st == EF_OK)
        st = pg_leases_send(job->store, conn, out, job->lane, job->held, 1, err);
    return st == EF_OK ? pg_leases_receive(conn, out, job->lane, job->held, 1, err) : st;
}

static ef_status
write_under_lease(ef_journal *journal,
                  ef_status (*work)(void *context, ef__pg_conn *conn, ef_error *err), ef_str lane,
                  const ef_partition_lease *held, size_t limit, int64_t *out_count, ef_error *err)
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
    ef__pg_params params = {0};
    PGresult *result = NULL;
    pg_lane lane;
    ef_status st = get_held_lane(job, conn, &lane, err);

    ef__pg_add_int(&params, lane.id);
    ef__pg_add_int(&params, (int64_t)job->limit);
    pg_add_clock(job->store, &params);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_PUBLISHED_PURGE, &params, &result, err);
    if (st == EF_OK)
        *job->out = PQntuples(result);
    PQclear(result);
    return st;
}

ef_status pg_published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                             size_t limit, int64_t *out_count, ef_error *err)
{
    return write_under_lease(journal, purge_work, lane, held, limit, out_count, err);
}

enum { PUT_COLUMNS = 13, PUT_ERROR = 9 };

/* Creates a pending retry row for each, unless it has one. */
static ef_status requeue_rows(const lane_job *job, ef__pg_conn *conn, int32_t lane,
                              const PGresult *rows, int64_t now_us, ef_error *err)
{
    ef__pg_params params = {0}, touched = {0};
    ef__pg_array put[PUT_COLUMNS];
    ef_status st = EF_OK;

    for (int c = 0; c < PUT_COLUMNS; c++)
        ef__pg_array_init(&put[c], c == PUT_ERROR ? EF__PG_TEXT : EF__PG_INT);
    for (int i = 0; i < PQntuples(rows); i++) {
        int64_t values[PUT_COLUMNS] = {[0] = lane,
                                       [1] = ef__pg_int(rows, i, 0),
                                       [2] = ef__partition_of(ef__pg_str(rows, i, 3),
                                                              ef__pg_str(rows, i, 4),
                                                              (int32_t)ef__pg_int(rows, i, 5)),
                                       [3] = ef__pg_int(rows, i, 1),
                                       [4] = ef__pg_int(rows, i, 2),
                                       [8] = now_us,
                                       [10] = now_us};
        for (int c = 0; c < PUT_COLUMNS && !ef__pg_bool(rows, i, 6); c++)
            if (c == PUT_ERROR)
                ef__pg_array_str(&put[c], EF_STR(""));
            else
                ef__pg_array_int(&put[c], values[c]);
    }
    for (int c = 0; c < PUT_COLUMNS; c++)
        ef__pg_add_array(&params, &put[c]);
    ef__pg_add_array(&touched, &put[0]);
    ef__pg_add_array(&touched, &put[3]);
    if (put[0].count)
        st = ef__pg_send(conn, PJ_RETRY_ROW_PUT, &params, err);
    if (st == EF_OK && put[0].count)
        st = ef__pg_send(conn, PJ_RETRY_ROW_SET_FIRST, &touched, err);
    *job->out = PQntuples(rows);
    for (int c = 0; c < PUT_COLUMNS; c++)
        ef__pg_array_release(&put[c]);
    return st;
}

static ef_status requeue_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const lane_job *job = context;
    ef__pg_params drain = {0}, clock = {0};
    PGresult *rows = NULL, *now = NULL;
    pg_lane lane;
    ef_status st = get_held_lane(job, conn, &lane, err);

    ef__pg_add_int(&drain, lane.id);
    ef__pg_add_int(&drain, (int64_t)job->limit);
    pg_add_clock(job->store, &clock);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_CLOCK, &clock, &now, err);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_PUBLISHED_DRAIN, &drain, &rows, err);
    if (st == EF_OK)
        st = requeue_rows(job, conn, lane.id, rows, ef__pg_int(now, 0, 0), err);
    PQclear(rows);
    PQclear(now);
    return st;
}

ef_status pg_published_requeue(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                               size_t limit, int64_t *out_count, ef_error *err)
{
    /* A repeated commit requeues further rows, and none is lost. */
    return write_under_lease(journal, requeue_work, lane, held, limit, out_count, err);
}

ef_status pg_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                             ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    ef__pg_add_str(&params, lane);
    ef__pg_add_int(&params, (int64_t)most);
    st = ef__pg_read(pg_store_of(journal)->pool, PJ_PUBLISHED_COUNT, &params, &result, err);
    if (st == EF_OK && PQntuples(result) == 0)
        st = ef__refuse_unknown_lane(lane, err);
    if (st == EF_OK)
        st = ef__lane_publishes(lane, (ef_lane_kind)ef__pg_int(result, 0, 0), err);
    if (st == EF_OK)
        *out_count = ef__pg_int(result, 0, 1);
    PQclear(result);
    return st;
}
