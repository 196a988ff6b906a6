/*
 * outbox_ls.c - rows of the outbox with their events: pages and counts.
 *
 * Whether a queued row is pending or processing, and whether a retry row is blocked, is derived
 * from offsets, leases and earlier rows, and not stored.
 *
 * A page is read lane by lane: each lane returns at most the rows of a page, from an index in order
 * of position, then they are merged. So the cost of a page does not depend on the number of rows.
 */
#include "outbox.h"

#include "../../base/cursor.h"
#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

#define ROW_CURSOR 'o'
#define PUBLISHED_CURSOR 'd' /* descending */
#define POSITION_END (INT64_C(1) << 48)

/* Whether a pending row of this seq is blocked. */
static ef_status is_blocked(ef__sq_conn *conn, sq_blocker *blocker, int64_t lane, int64_t stream,
                            int64_t seq, bool *out, ef_error *err)
{
    ef_status st;

    if (blocker->lane != lane || blocker->stream != stream) {
        int64_t dead_seq = INT64_MAX;
        *blocker = (sq_blocker){0};
        st = sq_one_retry_row_first_dead(
            conn, &(struct sq_retry_row_first_dead){.lane = lane, .stream = stream}, &dead_seq,
            NULL, err);
        if (st != EF_OK)
            return st;
        *blocker = (sq_blocker){lane, stream, dead_seq};
    }
    *out = seq > blocker->dead_seq;
    return EF_OK;
}

/* --- rows in flight --------------------------------------------------------------------------- */

static ef_status is_lease_live(sq_store *store, ef__sq_conn *conn, const sq_lane *lane,
                               int32_t partition, int64_t token, bool *out, ef_error *err)
{
    ef_lease_key key = sq_lane_lease(lane, partition);
    sq_lease_row lease;
    ef_status st = sq_lease_get(conn, &key, &lease, err);

    *out = st == EF_OK && ef__lease_check(&lease.row, token, sq_clock_us(store)) == EF_OK;
    return st;
}

ef_status sq_hands_load(sq_store *store, ef__sq_conn *conn, const sq_lane *lane, sq_in_flight *out,
                        ef_error *err)
{
    struct sq_lane_offset_in_flight_row row;
    ef__sq_rows rows = sq_each_lane_offset_in_flight(conn, lane->id, err);
    bool live = false;

    memset(out, 0, sizeof *out);
    while (sq_next_lane_offset_in_flight(&rows, &row)) {
        if (row.partition < 0 || row.partition >= EF_LIMIT_PARTITIONS)
            continue;
        rows.status =
            is_lease_live(store, conn, lane, (int32_t)row.partition, row.token, &live, err);
        if (rows.status == EF_OK && live) {
            out->of[row.partition].mark = row.position;
            out->of[row.partition].upto = row.in_flight;
        }
    }
    return ef__sq_rows_end(&rows);
}

/* --- rows ------------------------------------------------------------------------------------- */

static ef_status show_event(ef__sq_conn *conn, int64_t position, ef__arena *arena, ef_row *out,
                            ef_error *err)
{
    ef__sq_rows rows = sq_each_row_event(conn, position, arena, err);
    struct sq_row_event_row event;

    if (sq_next_row_event(&rows, &event)) {
        out->tenant = event.tenant;
        out->stream = event.stream;
        out->seq = event.seq;
        out->event_type = event.type;
        out->enqueued_us = out->updated_us = event.recorded;
    } else if (rows.status == EF_OK) {
        rows.status =
            ef_fail(err, EF_DAMAGED, "an outbox row has no event: position %" PRId64 " is missing",
                    position);
    }
    return ef__sq_rows_end(&rows);
}

static ef_status show_retry_row(ef__sq_conn *conn, const sq_row_place *place, sq_blocker *blocker,
                                ef__arena *arena, ef_row *out, ef_error *err)
{
    sq_retry_row x;
    ef_status st = sq_retry_row_get(conn, place->lane->id, place->position, arena, &x, err);

    if (st != EF_OK)
        return st;
    out->status = x.status;
    out->skip = x.skip;
    out->partition = x.partition;
    out->attempt_count = x.attempts;
    out->next_attempt_us = x.due_us;
    out->last_error = x.error;
    out->updated_us = x.updated_us;
    out->filed = x.filed;
    out->trying = x.trying;
    if (x.status == EF_ROW_PENDING)
        st = is_blocked(conn, blocker, place->lane->id, x.stream, x.seq, &out->blocked, err);
    return st;
}

ef_status sq_row_make(ef__sq_conn *conn, const sq_row_place *place, sq_blocker *blocker,
                      ef__arena *arena, ef_row *out, ef_error *err)
{
    ef_status st;

    *out = (ef_row){.lane = ef__arena_copy(arena, place->lane->name),
                    .position = place->position,
                    .status = place->status,
                    .partition = place->partition,
                    .last_error = EF_STR("")};
    if (!out->lane.ptr)
        return ef__no_memory(err);
    st = show_event(conn, place->position, arena, out, err);
    if (st == EF_OK && place->status == EF_ROW_PUBLISHED) {
        out->updated_us = out->published_us = place->published_us;
        out->partition = ef__partition_of(out->tenant, out->stream, place->partition);
    } else if (st == EF_OK && !place->queued) {
        st = show_retry_row(conn, place, blocker, arena, out, err);
    }
    return st;
}

/* The rows at `count` places, as items of a list. */
static ef_status make_rows(ef__sq_conn *conn, const sq_row_place *places, size_t count,
                           ef_row_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_row *items = ef__arena_zalloc(arena, count + 1, sizeof *items);
    sq_blocker blocker = {0};
    ef_status st = items ? EF_OK : ef__no_memory(err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = sq_row_make(conn, &places[i], &blocker, arena, &items[i], err);
    out->items = items;
    out->count = st == EF_OK ? count : 0;
    return st;
}

/* --- places -----------------------------------------------------------------------------------
 *
 * They are found lane by lane, then sorted by position and lane.
 */

typedef struct row_places {
    ef__arena *arena;
    sq_row_place *items;
    size_t count, cap;
} row_places;

static ef_status add_place(row_places *places, const sq_row_place *place, ef_error *err)
{
    sq_row_place *items =
        ef__arena_grow(places->arena, places->items, places->count, sizeof *items, &places->cap);

    if (!items)
        return ef__no_memory(err);
    items[places->count++] = *place;
    places->items = items;
    return EF_OK;
}

/* Lanes are in one array in order of name, so their addresses have that order. */
static int compare_places(const void *a, const void *b)
{
    const sq_row_place *x = a, *y = b;

    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return (x->lane > y->lane) - (x->lane < y->lane);
}

static int compare_places_descending(const void *a, const void *b)
{
    return compare_places(b, a);
}

/* A scan of the outbox, in one read transaction. */
typedef struct row_scan {
    sq_store *store;
    ef__sq_conn *conn;
    ef__arena *arena;
    const ef_outbox_query *query;
    const sq_lane *lanes; /* by name */
    size_t lane_count;
    sq_in_flight in_flight; /* of the current lane */
    int64_t partitions;
} row_scan;

/* --- queued rows and retry rows --------------------------------------------------------------- */

static ef__sq_rows each_queued(const row_scan *scan, int64_t lane, int64_t after, ef_error *err)
{
    struct sq_outbox_after all = {lane, after};
    struct sq_outbox_after_of_tenant some = {lane, after, scan->query->tenant};

    return scan->query->any_tenant ? sq_each_outbox_after(scan->conn, &all, err)
                                   : sq_each_outbox_after_of_tenant(scan->conn, &some, err);
}

/* Up to `limit` queued rows of the lane, all or those with a status. */
static ef_status find_queued(row_scan *scan, const sq_lane *lane, const ef_row_status *status,
                             int64_t after, size_t limit, row_places *places, ef_error *err)
{
    size_t full = places->count + limit;
    struct sq_outbox_after_row row;
    ef__sq_rows rows;
    ef_status st = sq_hands_load(scan->store, scan->conn, lane, &scan->in_flight, err);

    if (st != EF_OK)
        return st;
    rows = each_queued(scan, lane->id, after, err);
    while (places->count < full && sq_next_outbox_after(&rows, &row)) {
        sq_row_place place = {.lane = lane,
                              .position = row.position,
                              .partition = (int32_t)row.partition,
                              .queued = true};
        place.status = sq_is_in_flight(&scan->in_flight, place.partition, place.position)
                           ? EF_ROW_PROCESSING
                           : EF_ROW_PENDING;
        if (!status || *status == place.status)
            rows.status = add_place(places, &place, err);
    }
    return ef__sq_rows_end(&rows);
}

/* Up to `limit` retry rows of a lane after a position, in order: all, or those with a status.
 * Filters by tenant and blocked_only of the query; blocked rows are pending. */
static ef_status find_retry_rows(row_scan *scan, const sq_lane *lane, const ef_row_status *status,
                                 int64_t after, size_t limit, row_places *places, ef_error *err)
{
    ef__sq_conn *conn = scan->conn;
    const ef_outbox_query *query = scan->query;
    size_t full = places->count + limit;
    struct sq_retry_row_after all = {lane->id, after, query->any_tenant, query->tenant};
    struct sq_retry_row_after_of_status some = {lane->id, after, query->any_tenant, query->tenant,
                                                status ? (int64_t)*status : 0};
    ef__sq_rows rows = status ? sq_each_retry_row_after_of_status(conn, &some, err)
                              : sq_each_retry_row_after(conn, &all, err);
    struct sq_retry_row_after_row row;
    sq_blocker blocker = {0};
    bool blocked = false;

    while (places->count < full && sq_next_retry_row_after(&rows, &row)) {
        sq_row_place place = {
            .lane = lane, .position = row.position, .status = (ef_row_status)row.status};
        if (query->blocked_only)
            rows.status = is_blocked(conn, &blocker, lane->id, row.stream, row.seq, &blocked, err);
        if (rows.status == EF_OK && (blocked || !query->blocked_only))
            rows.status = add_place(places, &place, err);
    }
    return ef__sq_rows_end(&rows);
}

/* --- a page ----------------------------------------------------------------------------------- */

/* One row more than the page, in order to know whether it is the last. */
static ef_status find_in_lane(row_scan *scan, const sq_lane *lane, int64_t after,
                              row_places *places, ef_error *err)
{
    const ef_outbox_query *query = scan->query;
    const ef_row_status pending = EF_ROW_PENDING;
    const ef_row_status *status = query->status;
    bool queued = !query->blocked_only &&
                  (!status || *status == EF_ROW_PENDING || *status == EF_ROW_PROCESSING);
    ef_status st = EF_OK;

    if (query->blocked_only && status && *status != EF_ROW_PENDING)
        return EF_OK;
    if (queued)
        st = find_queued(scan, lane, status, after, query->limit + 1, places, err);
    if (st == EF_OK)
        st = find_retry_rows(scan, lane, query->blocked_only ? &pending : status, after,
                             query->limit + 1, places, err);
    return st;
}

/* Up to a page and one row of the published rows of a lane below a position. */
static ef_status find_published(row_scan *scan, const sq_lane *lane, int64_t below,
                                row_places *places, ef_error *err)
{
    size_t full = places->count + scan->query->limit + 1;
    int64_t from = scan->query->from;
    struct sq_published_before_row row;
    ef__sq_rows rows = sq_each_published_before(
        scan->conn,
        &(struct sq_published_before){.lane = lane->id,
                                      .below = below < POSITION_END ? below : POSITION_END,
                                      .from = from < POSITION_END ? from : POSITION_END},
        err);

    while (places->count < full && sq_next_published_before(&rows, &row)) {
        sq_row_place place = {.lane = lane,
                              .position = row.position,
                              .partition = (int32_t)scan->partitions,
                              .status = EF_ROW_PUBLISHED,
                              .published_us = row.published};
        rows.status = add_place(places, &place, err);
    }
    return ef__sq_rows_end(&rows);
}

/* The order is that of positions, then lanes; of published rows the reverse. So rows at the
 * position of the cursor are on the page if their lane is after its lane in that order. */
static ef_status find_page(row_scan *scan, int64_t position, int64_t lane_id, row_places *places,
                           ef_error *err)
{
    bool published = ef__query_published(scan->query);
    size_t at = 0;
    ef_status st = EF_OK;

    while (lane_id && at < scan->lane_count && scan->lanes[at].id != lane_id)
        at++;
    if (lane_id && at == scan->lane_count)
        return ef__refuse_cursor(err);
    if (published)
        st = sq_one_state_partitions(scan->conn, &scan->partitions, NULL, err);
    for (size_t i = 0; st == EF_OK && i < scan->lane_count; i++) {
        const sq_lane *lane = &scan->lanes[i];
        bool also_at = lane_id && (published ? i < at : i > at);
        if (scan->query->lane.len && !ef_str_equal(lane->name, scan->query->lane))
            continue;
        st = published ? find_published(scan, lane, position + also_at, places, err)
                       : find_in_lane(scan, lane, position - also_at, places, err);
    }
    return st;
}

static ef_status list_page(row_scan *scan, int64_t position, int64_t lane_id, ef_row_list *out,
                           ef_error *err)
{
    bool published = ef__query_published(scan->query);
    row_places places = {.arena = scan->arena};
    size_t count;
    ef_status st = sq_list_lane_kinds(scan->conn, EF_STR(""), scan->arena, &scan->lanes,
                                      &scan->lane_count, err);

    if (st == EF_OK)
        st = find_page(scan, position, lane_id, &places, err);
    if (st != EF_OK)
        return st;
    if (places.count)
        qsort(places.items, places.count, sizeof *places.items,
              published ? compare_places_descending : compare_places);
    count = places.count < scan->query->limit ? places.count : scan->query->limit;
    if (count < places.count)
        ef__cursor_format(published ? PUBLISHED_CURSOR : ROW_CURSOR,
                          places.items[count - 1].position, places.items[count - 1].lane->id,
                          out->next);
    return make_rows(scan->conn, places.items, count, out, err);
}

/* The start of a page: after the cursor, or at the first requested position. */
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
    sq_reader *reader = NULL;
    int64_t position, lane_id;
    ef_status st = page_begin(query, &position, &lane_id, err);

    if (st == EF_OK)
        st = sq_read_begin(journal, &reader, err);
    if (st == EF_OK) {
        row_scan scan = {.store = reader->store,
                         .conn = &reader->conn,
                         .arena = &out->room->arena,
                         .query = query};
        st = list_page(&scan, position, lane_id, out, err);
    }
    return sq_read_end(reader, st);
}

/* --- the summary ------------------------------------------------------------------------------ */

/* The oldest rows; position 0: none. */
typedef struct oldest {
    sq_row_place waiting; /* pending and not blocked, or failed */
    int64_t blocked;      /* position */
} oldest;

static void keep_older(oldest *keep, const sq_row_place *place)
{
    if (!keep->waiting.position || place->position < keep->waiting.position)
        keep->waiting = *place;
}

static ef_status count_queued(row_scan *scan, const sq_lane *lane, int64_t *out, ef_error *err)
{
    return scan->query->any_tenant ? sq_one_outbox_count(scan->conn, lane->id, out, NULL, err)
                                   : sq_one_outbox_count_of_tenant(
                                         scan->conn, lane->id, scan->query->tenant, out, NULL, err);
}

static ef_status count_in_flight(row_scan *scan, const sq_lane *lane, int32_t partition,
                                 int64_t *out, ef_error *err)
{
    return sq_one_outbox_count_in_flight(
        scan->conn,
        &(struct sq_outbox_count_in_flight){.lane = lane->id,
                                            .partition = partition,
                                            .offset = scan->in_flight.of[partition].mark,
                                            .in_flight = scan->in_flight.of[partition].upto,
                                            .any_tenant = scan->query->any_tenant,
                                            .tenant = scan->query->tenant},
        out, NULL, err);
}

static ef_status sum_queued(row_scan *scan, const sq_lane *lane, ef_outbox_summary *out,
                            oldest *keep, ef_error *err)
{
    const ef_row_status pending = EF_ROW_PENDING;
    row_places first = {.arena = scan->arena};
    int64_t queued = 0, claimed = 0, processing = 0;
    ef_status st = find_queued(scan, lane, &pending, 0, 1, &first, err);

    if (st == EF_OK && first.count)
        keep_older(keep, &first.items[0]);
    if (st == EF_OK)
        st = count_queued(scan, lane, &queued, err);
    for (int32_t p = 0; st == EF_OK && p < EF_LIMIT_PARTITIONS; p++) {
        if (scan->in_flight.of[p].upto == 0)
            continue;
        st = count_in_flight(scan, lane, p, &claimed, err);
        processing += claimed;
    }
    out->processing += processing;
    out->pending += queued - processing;
    return st;
}

static ef_status count_status(row_scan *scan, const sq_lane *lane, ef_row_status status,
                              int64_t *out, int64_t *out_oldest, ef_error *err)
{
    struct sq_retry_row_count all = {lane->id, status};
    struct sq_retry_row_count_of_tenant some = {lane->id, status, scan->query->tenant};
    struct sq_retry_row_count_row row = {0};
    ef_status st = scan->query->any_tenant
                       ? sq_one_retry_row_count(scan->conn, &all, &row, NULL, err)
                       : sq_one_retry_row_count_of_tenant(scan->conn, &some, &row, NULL, err);

    *out = row.count;
    *out_oldest = row.oldest;
    return st;
}

static void sum_pending_row(const sq_lane *lane, int64_t position, bool blocked,
                            ef_outbox_summary *out, oldest *keep)
{
    sq_row_place place = {.lane = lane, .position = position, .status = EF_ROW_PENDING};

    out->pending++;
    if (!blocked) {
        keep_older(keep, &place);
        return;
    }
    out->blocked++;
    if (!keep->blocked || position < keep->blocked)
        keep->blocked = position;
}

static ef_status sum_pending(row_scan *scan, const sq_lane *lane, ef_outbox_summary *out,
                             oldest *keep, ef_error *err)
{
    const ef_outbox_query *query = scan->query;
    ef__sq_rows rows =
        sq_each_retry_row_pending(scan->conn, lane->id, query->any_tenant, query->tenant, err);
    struct sq_retry_row_pending_row row;
    sq_blocker blocker = {0};
    bool blocked;

    while (sq_next_retry_row_pending(&rows, &row)) {
        rows.status =
            is_blocked(scan->conn, &blocker, lane->id, row.stream, row.seq, &blocked, err);
        if (rows.status == EF_OK)
            sum_pending_row(lane, row.position, blocked, out, keep);
    }
    return ef__sq_rows_end(&rows);
}

static ef_status sum_lane(row_scan *scan, const sq_lane *lane, ef_outbox_summary *out, oldest *keep,
                          ef_error *err)
{
    int64_t failed = 0, dead = 0, position;
    ef_status st = sum_queued(scan, lane, out, keep, err);

    if (st == EF_OK)
        st = count_status(scan, lane, EF_ROW_DEAD, &dead, &position, err);
    if (st == EF_OK)
        st = count_status(scan, lane, EF_ROW_FAILED, &failed, &position, err);
    if (st == EF_OK && failed)
        keep_older(keep,
                   &(sq_row_place){.lane = lane, .position = position, .status = EF_ROW_FAILED});
    out->dead += dead;
    out->failed += failed;
    return st == EF_OK ? sum_pending(scan, lane, out, keep, err) : st;
}

/* Reads the oldest row, and the time of the oldest blocked one. */
static ef_status show_oldest(row_scan *scan, const oldest *keep, ef_outbox_summary *out,
                             ef_error *err)
{
    sq_row_place blocked = {.lane = scan->lanes, .position = keep->blocked, .queued = true};
    sq_blocker blocker = {0};
    ef_row row;
    ef_status st = EF_OK;

    if (keep->blocked)
        st = sq_row_make(scan->conn, &blocked, &blocker, scan->arena, &row, err);
    if (st == EF_OK && keep->blocked)
        out->blocked_oldest_us = row.enqueued_us;
    if (st == EF_OK)
        st = make_rows(scan->conn, &keep->waiting, keep->waiting.position ? 1 : 0, &out->oldest,
                       err);
    return st;
}

static ef_status summarise_lanes(row_scan *scan, ef_outbox_summary *out, ef_error *err)
{
    oldest keep = {0};
    ef_status st = sq_list_lane_kinds(scan->conn, scan->query->lane, scan->arena, &scan->lanes,
                                      &scan->lane_count, err);

    for (size_t i = 0; st == EF_OK && i < scan->lane_count; i++)
        st = sum_lane(scan, &scan->lanes[i], out, &keep, err);
    return st == EF_OK ? show_oldest(scan, &keep, out, err) : st;
}

ef_status sq_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err)
{
    sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    if (st == EF_OK) {
        row_scan scan = {.store = reader->store,
                         .conn = &reader->conn,
                         .arena = &out->oldest.room->arena,
                         .query = query};
        st = summarise_lanes(&scan, out, err);
    }
    return sq_read_end(reader, st);
}
