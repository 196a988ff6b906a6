/*
 * outbox_ls.c - pages and counts of the outbox on SQLite.
 *
 * A page is made lane by lane: each lane gives at most a page's rows from an index that is in the
 * order of positions, then they are put together. So a page costs the same however much is behind
 * it.
 */
#include "outbox.h"

#include "../../base/cursor.h"

#define ROW_CURSOR 'o'
#define PUBLISHED_CURSOR 'd' /* it goes down */
#define POSITION_END (INT64_C(1) << 48)

/* What is looked through, all in one read transaction. */
typedef struct looking {
    sq_store *store;
    ef__sq_conn *conn;
    ef__arena *arena;
    const ef_outbox_query *query;
    sq_lane *lanes; /* by name */
    size_t lane_count;
    sq_hands hands; /* of the lane that is looked at now */
    int32_t partitions;
} looking;

/* --- queued rows ------------------------------------------------------------------------------ */

static ef_status bind_queued(looking *look, const sq_lane *lane, int64_t after, sqlite3_stmt **out,
                             ef_error *err)
{
    bool any = look->query->any_tenant;
    ef_status st =
        ef__sq_stmt(look->conn, any ? SQ_OUTBOX_AFTER : SQ_OUTBOX_AFTER_OF_TENANT, out, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(*out, 1, lane->id);
    sqlite3_bind_int64(*out, 2, after);
    if (!any)
        ef__sq_bind_str(*out, 3, look->query->tenant);
    return EF_OK;
}

/* Up to `limit` queued rows of the lane, all or those with a status. */
static ef_status find_queued(looking *look, const sq_lane *lane, const ef_row_status *status,
                             int64_t after, size_t limit, sq_spots *spots, ef_error *err)
{
    size_t full = spots->count + limit;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_hands_load(look->store, look->conn, lane, &look->hands, err);

    if (st == EF_OK)
        st = bind_queued(look, lane, after, &stmt, err);
    if (st != EF_OK)
        return st;
    while (spots->count < full && (st = ef__sq_row(look->conn, stmt, &row, err)) == EF_OK && row) {
        sq_spot spot = {.lane = lane,
                        .position = sqlite3_column_int64(stmt, 0),
                        .partition = sqlite3_column_int(stmt, 1),
                        .queued = true};
        spot.status = sq_in_hand(&look->hands, spot.partition, spot.position) ? EF_ROW_PROCESSING
                                                                              : EF_ROW_PENDING;
        if (status && *status != spot.status)
            continue;
        if ((st = sq_spots_add(spots, &spot, err)) != EF_OK)
            break;
    }
    sqlite3_reset(stmt);
    return st;
}

/* --- a page ----------------------------------------------------------------------------------- */

/* One row more than the page, so that the page knows whether it is the last. */
static ef_status find_in_lane(looking *look, const sq_lane *lane, int64_t after, sq_spots *spots,
                              ef_error *err)
{
    const ef_outbox_query *query = look->query;
    const ef_row_status pending = EF_ROW_PENDING;
    const ef_row_status *status = query->status;
    bool queued = !query->blocked_only &&
                  (!status || *status == EF_ROW_PENDING || *status == EF_ROW_PROCESSING);
    ef_status st = EF_OK;

    if (query->blocked_only && status && *status != EF_ROW_PENDING)
        return EF_OK;
    if (queued)
        st = find_queued(look, lane, status, after, query->limit + 1, spots, err);
    if (st == EF_OK)
        st = sq_spots_of_exceptions(look->conn, lane, query->blocked_only ? &pending : status,
                                    after, query, query->limit + 1, spots, err);
    return st;
}

/* Rows at the cursor's position come before it up to its lane, and after it from there on. */
static ef_status find_page(looking *look, int64_t position, int64_t lane_id, sq_spots *spots,
                           ef_error *err)
{
    ef_str at = {0};
    ef_status st = EF_OK;

    for (size_t i = 0; i < look->lane_count; i++)
        if (look->lanes[i].id == lane_id)
            at = look->lanes[i].name;
    if (lane_id && !at.len)
        return ef_fail(err, EF_BAD_INPUT, "after is not a cursor of this journal");
    for (size_t i = 0, passed = 0; st == EF_OK && i < look->lane_count; i++) {
        const sq_lane *lane = &look->lanes[i];
        if (!look->query->lane.len || ef_str_equal(lane->name, look->query->lane))
            st = find_in_lane(look, lane, passed ? position - 1 : position, spots, err);
        passed = passed || (lane_id && lane->id == lane_id);
    }
    sq_spots_sort(spots);
    return st;
}

/* --- a page of what was published --------------------------------------------------------------
 */

/* Up to a page and one row more of what a lane has published below a position. */
static ef_status find_published(looking *look, const sq_lane *lane, int64_t below, sq_spots *spots,
                                ef_error *err)
{
    size_t full = spots->count + look->query->limit + 1;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(look->conn, SQ_PUBLISHED_BEFORE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, below < POSITION_END ? below : POSITION_END);
    sqlite3_bind_int64(stmt, 3,
                       look->query->from < POSITION_END ? look->query->from : POSITION_END);
    while (spots->count < full && (st = ef__sq_row(look->conn, stmt, &row, err)) == EF_OK && row) {
        sq_spot spot = {.lane = lane,
                        .position = sqlite3_column_int64(stmt, 0),
                        .partition = look->partitions,
                        .status = EF_ROW_PUBLISHED,
                        .published_us = sqlite3_column_int64(stmt, 1)};
        if ((st = sq_spots_add(spots, &spot, err)) != EF_OK)
            break;
    }
    sqlite3_reset(stmt);
    return st;
}

/* Rows at the cursor's position come behind it when their lane's name is before its lane's. */
static ef_status find_published_page(looking *look, int64_t position, int64_t lane_id,
                                     sq_spots *spots, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row, passed = !lane_id;
    ef_status st = ef__sq_stmt(look->conn, SQ_STATE_PARTITIONS, &stmt, err);

    if (st == EF_OK && (st = ef__sq_row(look->conn, stmt, &row, err)) == EF_OK && row) {
        look->partitions = sqlite3_column_int(stmt, 0);
        sqlite3_reset(stmt);
    }
    for (size_t i = 0; st == EF_OK && i < look->lane_count; i++) {
        const sq_lane *lane = &look->lanes[i];
        passed = passed || lane->id == lane_id;
        if (!look->query->lane.len || ef_str_equal(lane->name, look->query->lane))
            st = find_published(look, lane, passed ? position : position + 1, spots, err);
    }
    if (st == EF_OK && !passed)
        st = ef_fail(err, EF_BAD_INPUT, "after is not a cursor of this journal");
    sq_spots_sort_down(spots);
    return st;
}

static ef_status list_page(looking *look, int64_t position, int64_t lane_id, ef_row_list *out,
                           ef_error *err)
{
    bool published = ef__query_published(look->query);
    sq_spots spots = {.arena = look->arena};
    size_t count;
    ef_status st =
        sq_lanes_load(look->conn, (ef_str){0}, look->arena, &look->lanes, &look->lane_count, err);

    if (st == EF_OK)
        st = published ? find_published_page(look, position, lane_id, &spots, err)
                       : find_page(look, position, lane_id, &spots, err);
    if (st != EF_OK)
        return st;
    count = spots.count < look->query->limit ? spots.count : look->query->limit;
    if (count < spots.count)
        ef__cursor_format(published ? PUBLISHED_CURSOR : ROW_CURSOR,
                          spots.items[count - 1].position, spots.items[count - 1].lane->id,
                          out->next);
    return sq_rows_make(look->conn, spots.items, count, out, err);
}

/* Where a page begins: behind the cursor, or where the positions asked for begin. */
static ef_status page_begin(const ef_outbox_query *query, int64_t *position, int64_t *lane_id,
                            ef_error *err)
{
    bool published = ef__query_published(query);
    ef_status st = ef__cursor_parse(published ? PUBLISHED_CURSOR : ROW_CURSOR, query->after,
                                    position, lane_id, err);

    if (st != EF_OK)
        return st;
    if (published && !query->after.len)
        *position = POSITION_END;
    if (published && query->upto && query->upto < *position) {
        *position = query->upto + 1;
        *lane_id = 0;
    }
    if (!published && query->from > *position + 1) {
        *position = query->from - 1;
        *lane_id = 0;
    }
    return EF_OK;
}

ef_status sq_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    looking look = {.store = store, .arena = &out->room->arena, .query = query};
    sq_reader *reader;
    int64_t position, lane_id;
    ef_status st = page_begin(query, &position, &lane_id, err);

    if (st == EF_OK)
        st = sq_read_begin(store, &reader, err);
    if (st != EF_OK)
        return st;
    look.conn = &reader->conn;
    st = list_page(&look, position, lane_id, out, err);
    sq_read_end(store, reader);
    return st;
}

/* --- the summary ------------------------------------------------------------------------------ */

/* What is found beside the counts: the oldest rows, each when its position is not 0. */
typedef struct oldest {
    sq_spot waiting; /* pending and not blocked, or failed */
    int64_t blocked; /* position */
} oldest;

static void keep_older(oldest *keep, const sq_spot *spot)
{
    if (!keep->waiting.position || spot->position < keep->waiting.position)
        keep->waiting = *spot;
}

/* Step a statement that yields a number, and maybe a second one (0 for NULL). */
static ef_status numbers(ef__sq_conn *conn, sqlite3_stmt *stmt, int64_t *out, int64_t *out_second,
                         ef_error *err)
{
    bool row;
    ef_status st = ef__sq_row(conn, stmt, &row, err);

    *out = 0;
    if (st != EF_OK || !row)
        return st;
    *out = sqlite3_column_int64(stmt, 0);
    if (out_second)
        *out_second = sqlite3_column_int64(stmt, 1);
    sqlite3_reset(stmt);
    return EF_OK;
}

static ef_status count_queued(looking *look, const sq_lane *lane, int64_t *out, ef_error *err)
{
    bool any = look->query->any_tenant;
    sqlite3_stmt *stmt;
    ef_status st =
        ef__sq_stmt(look->conn, any ? SQ_OUTBOX_COUNT : SQ_OUTBOX_COUNT_OF_TENANT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    if (!any)
        ef__sq_bind_str(stmt, 2, look->query->tenant);
    return numbers(look->conn, stmt, out, NULL, err);
}

static ef_status count_in_hand(looking *look, const sq_lane *lane, int32_t partition, int64_t *out,
                               ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(look->conn, SQ_OUTBOX_COUNT_IN_HAND, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int(stmt, 2, partition);
    sqlite3_bind_int64(stmt, 3, look->hands.of[partition].mark);
    sqlite3_bind_int64(stmt, 4, look->hands.of[partition].upto);
    sqlite3_bind_int(stmt, 5, look->query->any_tenant);
    ef__sq_bind_str(stmt, 6, look->query->tenant);
    return numbers(look->conn, stmt, out, NULL, err);
}

static ef_status sum_queued(looking *look, const sq_lane *lane, ef_outbox_summary *out,
                            oldest *keep, ef_error *err)
{
    const ef_row_status pending = EF_ROW_PENDING;
    sq_spots first = {.arena = look->arena};
    int64_t queued = 0, in_hand = 0, processing = 0;
    ef_status st = find_queued(look, lane, &pending, 0, 1, &first, err);

    if (st == EF_OK && first.count)
        keep_older(keep, &first.items[0]);
    if (st == EF_OK)
        st = count_queued(look, lane, &queued, err);
    for (int32_t p = 0; st == EF_OK && p < EF_LIMIT_PARTITIONS; p++) {
        if (look->hands.of[p].upto == 0)
            continue;
        st = count_in_hand(look, lane, p, &in_hand, err);
        processing += in_hand;
    }
    out->processing += processing;
    out->pending += queued - processing;
    return st;
}

static ef_status count_status(looking *look, const sq_lane *lane, ef_row_status status,
                              int64_t *out, int64_t *out_oldest, ef_error *err)
{
    bool any = look->query->any_tenant;
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(look->conn, any ? SQ_EXCEPTION_COUNT : SQ_EXCEPTION_COUNT_OF_TENANT,
                               &stmt, err);

    *out_oldest = 0;
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int(stmt, 2, (int)status);
    if (!any)
        ef__sq_bind_str(stmt, 3, look->query->tenant);
    return numbers(look->conn, stmt, out, out_oldest, err);
}

static void sum_waiting_row(const sq_lane *lane, int64_t position, bool blocked,
                            ef_outbox_summary *out, oldest *keep)
{
    sq_spot spot = {.lane = lane, .position = position, .status = EF_ROW_PENDING};

    out->pending++;
    if (!blocked) {
        keep_older(keep, &spot);
        return;
    }
    out->blocked++;
    if (!keep->blocked || position < keep->blocked)
        keep->blocked = position;
}

static ef_status sum_waiting(looking *look, const sq_lane *lane, ef_outbox_summary *out,
                             oldest *keep, ef_error *err)
{
    sq_blocker blocker = {0};
    sqlite3_stmt *stmt;
    bool row, blocked;
    ef_status st = ef__sq_stmt(look->conn, SQ_EXCEPTION_WAITING, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int(stmt, 2, look->query->any_tenant);
    ef__sq_bind_str(stmt, 3, look->query->tenant);
    while ((st = ef__sq_row(look->conn, stmt, &row, err)) == EF_OK && row) {
        st = sq_blocked(look->conn, &blocker, lane->id, sqlite3_column_int64(stmt, 0),
                        sqlite3_column_int64(stmt, 1), &blocked, err);
        if (st != EF_OK) {
            sqlite3_reset(stmt);
            return st;
        }
        sum_waiting_row(lane, sqlite3_column_int64(stmt, 2), blocked, out, keep);
    }
    return st;
}

static ef_status sum_lane(looking *look, const sq_lane *lane, ef_outbox_summary *out, oldest *keep,
                          ef_error *err)
{
    int64_t failed = 0, dead = 0, position;
    ef_status st = sum_queued(look, lane, out, keep, err);

    if (st == EF_OK)
        st = count_status(look, lane, EF_ROW_DEAD, &dead, &position, err);
    if (st == EF_OK)
        st = count_status(look, lane, EF_ROW_FAILED, &failed, &position, err);
    if (st == EF_OK && failed)
        keep_older(keep, &(sq_spot){.lane = lane, .position = position, .status = EF_ROW_FAILED});
    out->dead += dead;
    out->failed += failed;
    return st == EF_OK ? sum_waiting(look, lane, out, keep, err) : st;
}

/* Show the oldest row, and when the oldest blocked one was enqueued. */
static ef_status show_oldest(looking *look, const oldest *keep, ef_outbox_summary *out,
                             ef_error *err)
{
    sq_spot blocked = {.lane = look->lanes, .position = keep->blocked, .queued = true};
    sq_blocker blocker = {0};
    ef_row row;
    ef_status st = EF_OK;

    if (keep->blocked)
        st = sq_row_make(look->conn, &blocked, &blocker, look->arena, &row, err);
    if (st == EF_OK && keep->blocked)
        out->blocked_oldest_us = row.enqueued_us;
    if (st == EF_OK)
        st = sq_rows_make(look->conn, &keep->waiting, keep->waiting.position ? 1 : 0, &out->oldest,
                          err);
    return st;
}

static ef_status summarise(looking *look, ef_outbox_summary *out, ef_error *err)
{
    oldest keep = {0};
    ef_status st = sq_lanes_load(look->conn, look->query->lane, look->arena, &look->lanes,
                                 &look->lane_count, err);

    for (size_t i = 0; st == EF_OK && i < look->lane_count; i++)
        st = sum_lane(look, &look->lanes[i], out, &keep, err);
    return st == EF_OK ? show_oldest(look, &keep, out, err) : st;
}

ef_status sq_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    looking look = {.store = store, .arena = &out->oldest.room->arena, .query = query};
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    look.conn = &reader->conn;
    st = summarise(&look, out, err);
    sq_read_end(store, reader);
    return st;
}

ef_status sq_outbox_waits(ef_journal *journal, bool *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    sqlite3_stmt *stmt;
    int64_t waits = 0;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = ef__sq_stmt(&reader->conn, SQ_OUTBOX_WAITS, &stmt, err);
    if (st == EF_OK)
        st = numbers(&reader->conn, stmt, &waits, NULL, err);
    sq_read_end(store, reader);
    *out = waits != 0;
    return st;
}
