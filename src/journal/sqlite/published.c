/*
 * published.c - lanes of publishers on SQLite: published rows, and dropping a lane.
 */
#include "outbox.h"

typedef struct lane_job {
    sq_job base;
    ef_str lane;
    bool discard;
    const ef_partition_lease *held;
    size_t limit;
    int64_t *out;
} lane_job;

static ef_status get_publisher_lane(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_status st = sq_lane_need(conn, name, out, err);

    return st == EF_OK ? ef__lane_publishes(name, out->kind, err) : st;
}

/* --- dropping a lane -------------------------------------------------------------------------- */

static ef_status run_drop(sq_store *store, sq_job *base, ef_error *err)
{
    static ef_status (*const clears[])(ef__sq_conn * conn, int64_t lane, ef_error * err) = {
        sq_run_lane_clear_queue, sq_run_lane_clear_retry_rows, sq_run_lane_clear_published,
        sq_run_lane_clear_in_flight, sq_run_lane_clear};
    const lane_job *job = (lane_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    sq_lane lane;
    ef_status st = get_publisher_lane(conn, job->lane, &lane, err);

    if (st == EF_OK)
        st = sq_one_lane_rows(conn, lane.id, job->out, NULL, err);
    if (st == EF_OK)
        st = ef__lane_drop_check(job->lane, *job->out, job->discard, err);
    for (size_t i = 0; st == EF_OK && i < sizeof clears / sizeof *clears; i++)
        st = clears[i](conn, lane.id, err);
    return st == EF_OK ? ef__sq_run(conn, SQ_STATE_LANES_CHANGED, err) : st;
}

ef_status sq_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                       ef_error *err)
{
    lane_job job = {.base = {.run = run_drop}, .lane = lane, .discard = discard, .out = out_rows};

    return sq_submit(sq_store_of(journal), &job.base, err);
}

/* --- published rows --------------------------------------------------------------------------- */

static ef_status get_held_lane(sq_store *store, const lane_job *job, sq_lane *out, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef_status st = get_publisher_lane(conn, job->lane, out, err);

    return st == EF_OK ? sq_held_check(store, conn, out, job->held, 1, err) : st;
}

static ef_status write_under_lease(ef_journal *journal,
                                   ef_status (*run)(sq_store *store, sq_job *base, ef_error *err),
                                   ef_str lane, const ef_partition_lease *held, size_t limit,
                                   int64_t *out_count, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    lane_job job = {
        .base = {.run = run}, .lane = lane, .held = held, .limit = limit, .out = out_count};

    return sq_count_refused(store, sq_submit(store, &job.base, err));
}

static ef_status run_purge(sq_store *store, sq_job *base, ef_error *err)
{
    const lane_job *job = (lane_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    sq_lane lane;
    ef_status st = get_held_lane(store, job, &lane, err);

    if (st == EF_OK)
        st = sq_run_published_purge(
            conn,
            &(struct sq_published_purge){.lane = lane.id,
                                         .limit = (int64_t)job->limit,
                                         .before = sq_now_us(store) - lane.retain_us},
            err);
    if (st == EF_OK)
        *job->out = sqlite3_changes64(conn->db);
    return st;
}

ef_status sq_published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                             size_t limit, int64_t *out_count, ef_error *err)
{
    return write_under_lease(journal, run_purge, lane, held, limit, out_count, err);
}

static ef_status run_requeue(sq_store *store, sq_job *base, ef_error *err)
{
    const lane_job *job = (lane_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    int64_t position;
    bool found;
    sq_lane lane;
    ef_status st = get_held_lane(store, job, &lane, err);

    *job->out = 0;
    for (size_t n = 0; st == EF_OK && n < job->limit; n++) {
        st = sq_one_published_first(conn, lane.id, &position, &found, err);
        if (st != EF_OK || !found)
            break;
        st = sq_retry_row_again(store, &lane, position, err);
        if (st == EF_OK)
            st = sq_run_published_delete(
                conn, &(struct sq_published_delete){.lane = lane.id, .position = position}, err);
        (*job->out)++;
    }
    return st;
}

ef_status sq_published_requeue(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                               size_t limit, int64_t *out_count, ef_error *err)
{
    return write_under_lease(journal, run_requeue, lane, held, limit, out_count, err);
}

static ef_status count_published(ef__sq_conn *conn, ef_str name, size_t most, int64_t *out,
                                 ef_error *err)
{
    sq_lane lane;
    ef_status st = get_publisher_lane(conn, name, &lane, err);

    return st == EF_OK
               ? sq_one_published_count(
                     conn, &(struct sq_published_count){.lane = lane.id, .most = (int64_t)most},
                     out, NULL, err)
               : st;
}

ef_status sq_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                             ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = count_published(&reader->conn, lane, most, out_count, err);
    sq_read_end(store, reader);
    return st;
}
