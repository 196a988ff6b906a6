/*
 * outbox.c - the outbox on SQLite: lanes, published rows, and streams that have retry rows.
 *
 * Every process caches the lanes (state.h), because an append queues rows for them; a change
 * increments state.lanes_version in the same transaction, by which other processes notice it.
 */
#include "outbox.h"

/* --- lanes ------------------------------------------------------------------------------------ */

ef_status sq_lane_find(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_status st;

    *out = (sq_lane){0};
    st = sq_one_lane_by_name(conn, name, out, NULL, err);
    out->name = name;
    return st;
}

ef_status sq_lane_need(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_status st = sq_lane_find(conn, name, out, err);

    if (st == EF_OK && out->id == 0)
        st = ef__refuse_unknown_lane(name, err);
    return st;
}

static ef_status lane_write(ef__sq_conn *conn, bool is_new, const ef_lane *lane, ef_error *err)
{
    ef_status st = (is_new ? sq_run_lane_insert : sq_run_lane_update)(conn, lane, err);

    return st == EF_OK ? ef__sq_run(conn, SQ_STATE_LANES_CHANGED, err) : st;
}

ef_status sq_lane_find_or_make(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_lane made = {.name = name, .kind = EF_LANE_KIND_PROJECTION, .enabled = true};
    ef_status st = sq_lane_find(conn, name, out, err);

    if (st != EF_OK || out->id)
        return st;
    st = lane_write(conn, true, &made, err);
    return st == EF_OK ? sq_lane_find(conn, name, out, err) : st;
}

typedef struct lane_change {
    const ef_lane *lane, *expected;
} lane_change;

static ef_status set_lane(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                          ef_error *err)
{
    const lane_change *change = asked;
    const ef_lane *lane = change->lane;
    bool matches = true;
    sq_lane found;
    ef_status st = sq_lane_find(conn, lane->name, &found, err);

    (void)store, (void)out;
    if (st == EF_OK && change->expected)
        st = sq_one_lane_matches(conn, change->expected, &matches, err);
    if (st != EF_OK)
        return st;
    if (!matches)
        return ef__lane_changed(change->expected->name, err);
    /* Its rows are claimed under leases of its kind, which another kind would not have. */
    if (found.id && found.kind != lane->kind)
        return ef__refuse_lane_kind(lane->name, err);
    return lane_write(conn, found.id == 0, lane, err);
}

static ef_status lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                          ef_error *err)
{
    return sq_write(journal, set_lane, &(lane_change){lane, expected}, NULL, err);
}

static ef_status lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    if (st == EF_OK)
        st = sq_list_lane_in_order(&reader->conn, &out->room->arena, &out->items, &out->count, err);
    return sq_read_end(reader, st);
}

static ef_status get_publisher_lane(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_status st = sq_lane_need(conn, name, out, err);

    return st == EF_OK ? ef__lane_publishes(name, out->kind, err) : st;
}

typedef struct lane_drop_request {
    ef_str lane;
    bool discard;
} lane_drop_request;

static ef_status drop_lane(sq_store *store, ef__sq_conn *conn, const void *asked, void *out_rows,
                           ef_error *err)
{
    static ef_status (*const clears[])(ef__sq_conn * conn, int64_t lane, ef_error * err) = {
        sq_run_lane_clear_queue, sq_run_lane_clear_retry_rows, sq_run_lane_clear_published,
        sq_run_lane_clear_in_flight, sq_run_lane_clear};
    const lane_drop_request *is = asked;
    int64_t *rows = out_rows;
    sq_lane lane;
    ef_status st = get_publisher_lane(conn, is->lane, &lane, err);

    (void)store;
    if (st == EF_OK)
        st = sq_one_lane_rows(conn, lane.id, rows, NULL, err);
    if (st == EF_OK)
        st = ef__lane_drop_check(is->lane, *rows, is->discard, err);
    for (size_t i = 0; st == EF_OK && i < sizeof clears / sizeof *clears; i++)
        st = clears[i](conn, lane.id, err);
    return st == EF_OK ? ef__sq_run(conn, SQ_STATE_LANES_CHANGED, err) : st;
}

static ef_status lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                           ef_error *err)
{
    return sq_write(journal, drop_lane, &(lane_drop_request){lane, discard}, out_rows, err);
}

/* --- published rows --------------------------------------------------------------------------- */

typedef struct published_request {
    ef_str lane;
    const ef_partition_lease *held;
    size_t limit;
} published_request;

static ef_status get_held_lane(sq_store *store, ef__sq_conn *conn, const published_request *is,
                               sq_lane *out, ef_error *err)
{
    ef_status st = get_publisher_lane(conn, is->lane, out, err);

    return st == EF_OK ? sq_held_check(store, conn, out, is->held, 1, err) : st;
}

static ef_status purge_published(sq_store *store, ef__sq_conn *conn, const void *asked,
                                 void *out_count, ef_error *err)
{
    const published_request *is = asked;
    sq_lane lane;
    ef_status st = get_held_lane(store, conn, is, &lane, err);

    if (st == EF_OK)
        st = sq_run_published_purge(
            conn,
            &(struct sq_published_purge){.lane = lane.id,
                                         .limit = (int64_t)is->limit,
                                         .before = sq_now_us(store) - lane.retain_us},
            err);
    if (st == EF_OK)
        *(int64_t *)out_count = sqlite3_changes64(conn->db);
    return st;
}

static ef_status published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                 size_t limit, int64_t *out_count, ef_error *err)
{
    published_request asked = {lane, held, limit};

    return sq_count_refused(sq_store_of(journal),
                            sq_write(journal, purge_published, &asked, out_count, err));
}

static ef_status requeue_published(sq_store *store, ef__sq_conn *conn, const void *asked,
                                   void *out_count, ef_error *err)
{
    const published_request *is = asked;
    int64_t *count = out_count, position;
    bool found;
    sq_lane lane;
    ef_status st = get_held_lane(store, conn, is, &lane, err);

    *count = 0;
    for (size_t n = 0; st == EF_OK && n < is->limit; n++) {
        st = sq_one_published_first(conn, lane.id, &position, &found, err);
        if (st != EF_OK || !found)
            break;
        st = sq_retry_row_again(store, &lane, position, err);
        if (st == EF_OK)
            st = sq_run_published_delete(
                conn, &(struct sq_published_delete){.lane = lane.id, .position = position}, err);
        (*count)++;
    }
    return st;
}

static ef_status published_requeue(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                   size_t limit, int64_t *out_count, ef_error *err)
{
    published_request asked = {lane, held, limit};

    return sq_count_refused(sq_store_of(journal),
                            sq_write(journal, requeue_published, &asked, out_count, err));
}

static ef_status published_count(ef_journal *journal, ef_str name, size_t most, int64_t *out_count,
                                 ef_error *err)
{
    sq_lane lane;
    sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    if (st == EF_OK)
        st = get_publisher_lane(&reader->conn, name, &lane, err);
    if (st == EF_OK)
        st = sq_one_published_count(
            &reader->conn, &(struct sq_published_count){.lane = lane.id, .most = (int64_t)most},
            out_count, NULL, err);
    return sq_read_end(reader, st);
}

/* --- retry rows ------------------------------------------------------------------------------- */

static ef_status retry_streams(ef_journal *journal, const ef__retry_query *query,
                               ef__retry_stream_list *out, ef_error *err)
{
    sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    if (st == EF_OK)
        st = (query->stream.len ? sq_list_retry_stream : sq_list_retry_streams)(
            &reader->conn, query, &out->room->arena, &out->items, &out->count, err);
    return sq_read_end(reader, st);
}

static ef_status has_work(ef_journal *journal, bool *out, ef_error *err)
{
    sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    *out = false;
    if (st == EF_OK)
        st = sq_one_outbox_has_work(&reader->conn, out, NULL, err);
    return sq_read_end(reader, st);
}

const ef__outbox_ops sq_outbox_ops = {
    .lane_set = lane_set,
    .lane_ls = lane_ls,
    .lane_drop = lane_drop,
    .published_purge = published_purge,
    .published_requeue = published_requeue,
    .published_count = published_count,
    .claim = sq_claim,
    .ack = sq_ack,
    .ls = sq_outbox_ls,
    .summarise = sq_outbox_summarise,
    .has_work = has_work,
    .retry_streams = retry_streams,
    .revise = sq_revise,
};
