/*
 * outbox.c - the outbox on SQLite: lanes, published rows, streams that have retry rows; rows with
 * their events.
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
        st = ef__refuse_unknown("lane", name, err);
    return st;
}

static ef_status put_lane(ef__sq_conn *conn, const ef_lane *lane, ef_error *err)
{
    bool written;
    ef_status st = sq_one_lane_put(conn, lane, &written, err);

    /* Its rows are claimed under leases of its kind, which another kind would not have. */
    if (st == EF_OK && !written)
        return ef__refuse_lane_kind(lane->name, err);
    return st == EF_OK ? ef__sq_run(conn, SQ_STATE_LANES_CHANGED, err) : st;
}

ef_status sq_lane_find_or_make(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_lane made = {.name = name, .kind = EF_LANE_KIND_PROJECTION, .enabled = true};
    ef_status st = sq_lane_find(conn, name, out, err);

    if (st != EF_OK || out->id)
        return st;
    st = put_lane(conn, &made, err);
    return st == EF_OK ? sq_lane_find(conn, name, out, err) : st;
}

typedef struct lane_change {
    const ef_lane *lane, *expected;
} lane_change;

static ef_status set_lane(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                          ef_error *err)
{
    const lane_change *change = asked;
    bool matches = true;
    ef_status st = EF_OK;

    (void)store, (void)out;
    if (change->expected)
        st = sq_one_lane_matches(conn, change->expected, &matches, err);
    if (st == EF_OK && !matches)
        st = ef__lane_changed(change->expected->name, err);
    return st == EF_OK ? put_lane(conn, change->lane, err) : st;
}

static ef_status lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                          ef_error *err)
{
    return sq_write(journal, set_lane, &(lane_change){lane, expected}, NULL, err);
}

static ef_status lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK ? sq_list_lane_in_order(&reader->conn, &out->room->arena, &out->items,
                                               &out->count, err)
                       : st;
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
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    if (st == EF_OK)
        st = get_publisher_lane(&reader->conn, name, &lane, err);
    return st == EF_OK ? sq_one_published_count(
                             &reader->conn,
                             &(struct sq_published_count){.lane = lane.id, .most = (int64_t)most},
                             out_count, NULL, err)
                       : st;
}

/* --- retry rows ------------------------------------------------------------------------------- */

static ef_status retry_streams(ef_journal *journal, const ef__retry_query *query,
                               ef__retry_stream_list *out, ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK ? (query->stream.len ? sq_list_retry_stream : sq_list_retry_streams)(
                             &reader->conn, query, &out->room->arena, &out->items, &out->count, err)
                       : st;
}

static ef_status has_work(ef_journal *journal, bool *out, ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    *out = false;
    return st == EF_OK ? sq_one_outbox_has_work(&reader->conn, out, NULL, err) : st;
}

/* --- pages and counts -------------------------------------------------------------------------
 *
 * Whether a queued row is pending or processing, and whether a retry row is blocked, is derived
 * from offsets, leases and earlier rows by the statements, and not stored.
 */

/* A cursor has the lane of the last row. */
static ef_status check_cursor(ef__sq_conn *conn, const ef__row_page *page, ef_error *err)
{
    bool exists = true;
    ef_status st =
        page->after_lane ? sq_one_lane_exists(conn, page->after_lane, &exists, err) : EF_OK;

    return exists ? st : ef__refuse_cursor(err);
}

static ef_status outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                           ef_error *err)
{
    const ef__listed_row *rows;
    size_t count;
    SQ_READER sq_reader *reader = NULL;
    ef__row_page page;
    ef_status st = ef__row_page_init(&page, query, err);

    if (st == EF_OK)
        st = sq_read_begin(journal, &reader, err);
    if (st == EF_OK)
        st = check_cursor(&reader->conn, &page, err);
    page.now_us = sq_clock_us(sq_store_of(journal));
    if (st == EF_OK)
        st = (ef__query_published(query) ? sq_list_published_before : sq_list_row_after)(
            &reader->conn, &page, &out->room->arena, &rows, &count, err);
    return st == EF_OK ? ef__rows_take(rows, count, query->limit, out, err) : st;
}

static ef_status read_summary(sq_reader *reader, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err)
{
    int64_t now_us = sq_clock_us(reader->store);
    ef__row_page waiting = ef__row_page_oldest(query, now_us);
    ef_row_list oldest = out->oldest;
    const ef__listed_row *rows;
    size_t count;
    ef_status st = sq_one_row_count(&reader->conn, query, now_us, out, NULL, err);

    out->oldest = oldest;
    if (st == EF_OK)
        st = sq_list_row_after(&reader->conn, &waiting, &oldest.room->arena, &rows, &count, err);
    return st == EF_OK ? ef__rows_take(rows, count, 1, &out->oldest, err) : st;
}

static ef_status summarise_outbox(ef_journal *journal, const ef_outbox_query *query,
                                  ef_outbox_summary *out, ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK ? read_summary(reader, query, out, err) : st;
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
    .ls = outbox_ls,
    .summarise = summarise_outbox,
    .has_work = has_work,
    .retry_streams = retry_streams,
    .revise = sq_revise,
};
