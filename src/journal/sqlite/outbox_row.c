/*
 * outbox_row.c - rows of the outbox with their events.
 *
 * Whether a queued row is pending or processing, and whether a retry row is blocked, is derived
 * from offsets, leases and earlier rows, and not stored.
 */
#include "outbox.h"

#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- retry rows ------------------------------------------------------------------------------- */

ef_status sq_retry_row_get(ef__sq_conn *conn, int64_t lane, int64_t position, ef__arena *arena,
                           sq_retry_row *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_RETRY_ROW_GET, &stmt, err);

    *out = (sq_retry_row){0};
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    *out = (sq_retry_row){.found = true,
                          .partition = sqlite3_column_int(stmt, 0),
                          .stream = sqlite3_column_int64(stmt, 1),
                          .seq = sqlite3_column_int64(stmt, 2),
                          .status = (ef_row_status)sqlite3_column_int(stmt, 3),
                          .skip = sqlite3_column_int(stmt, 4) != 0,
                          .attempts = sqlite3_column_int(stmt, 5),
                          .due_us = sqlite3_column_int64(stmt, 6),
                          .updated_us = sqlite3_column_int64(stmt, 8),
                          .filed = sqlite3_column_int64(stmt, 9),
                          .trying = sqlite3_column_int(stmt, 10) != 0};
    if (arena && !(out->error = sq_column_copy(stmt, 7, arena)).ptr)
        st = ef__no_memory(err);
    sqlite3_reset(stmt);
    return st;
}

ef_status sq_retry_row_update(ef__sq_conn *conn, int64_t lane, int64_t position,
                              const sq_retry_row *x, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_RETRY_ROW_UPDATE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    sqlite3_bind_int(stmt, 3, (int)x->status);
    sqlite3_bind_int(stmt, 4, x->skip);
    sqlite3_bind_int(stmt, 5, x->attempts);
    sqlite3_bind_int64(stmt, 6, x->due_us);
    ef__sq_bind_str(stmt, 7, x->error);
    sqlite3_bind_int64(stmt, 8, x->updated_us);
    sqlite3_bind_int(stmt, 9, x->trying);
    return ef__sq_done(conn, stmt, err);
}

ef_status sq_blocked(ef__sq_conn *conn, sq_blocker *blocker, int64_t lane, int64_t stream,
                     int64_t seq, bool *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = EF_OK;

    if (blocker->lane != lane || blocker->stream != stream) {
        *blocker = (sq_blocker){0};
        st = ef__sq_stmt(conn, SQ_RETRY_ROW_FIRST_DEAD, &stmt, err);
        if (st != EF_OK)
            return st;
        sqlite3_bind_int64(stmt, 1, lane);
        sqlite3_bind_int64(stmt, 2, stream);
        st = ef__sq_row(conn, stmt, &row, err);
        if (st != EF_OK)
            return st;
        *blocker = (sq_blocker){lane, stream, row ? sqlite3_column_int64(stmt, 0) : INT64_MAX};
        sqlite3_reset(stmt);
    }
    *out = seq > blocker->dead_seq;
    return st;
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
    sqlite3_stmt *stmt;
    bool row, lives = false;
    ef_status st = ef__sq_stmt(conn, SQ_LANE_OFFSET_IN_FLIGHT, &stmt, err);

    memset(out, 0, sizeof *out);
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        int32_t partition = sqlite3_column_int(stmt, 0);
        if (partition < 0 || partition >= EF_LIMIT_PARTITIONS)
            continue;
        st =
            is_lease_live(store, conn, lane, partition, sqlite3_column_int64(stmt, 3), &lives, err);
        if (st != EF_OK) {
            sqlite3_reset(stmt);
            return st;
        }
        if (lives) {
            out->of[partition].mark = sqlite3_column_int64(stmt, 1);
            out->of[partition].upto = sqlite3_column_int64(stmt, 2);
        }
    }
    return st;
}

/* --- rows ------------------------------------------------------------------------------------- */

static ef_status show_event(ef__sq_conn *conn, int64_t position, ef__arena *arena, ef_row *out,
                            ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_find(conn, SQ_ROW_EVENT, position, &stmt, &row, err);

    if (st != EF_OK)
        return st;
    if (!row)
        return ef_fail(err, EF_DAMAGED,
                       "an outbox row has no event: position %" PRId64 " is missing", position);
    out->tenant = sq_column_copy(stmt, 0, arena);
    out->stream = sq_column_copy(stmt, 1, arena);
    out->seq = sqlite3_column_int64(stmt, 2);
    out->event_type = sq_column_copy(stmt, 3, arena);
    out->enqueued_us = out->updated_us = sqlite3_column_int64(stmt, 4);
    sqlite3_reset(stmt);
    return out->tenant.ptr && out->stream.ptr && out->event_type.ptr ? EF_OK : ef__no_memory(err);
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
        st = sq_blocked(conn, blocker, place->lane->id, x.stream, x.seq, &out->blocked, err);
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

ef_status sq_rows_make(ef__sq_conn *conn, const sq_row_place *places, size_t count,
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

/* --- places ----------------------------------------------------------------------------------- */

ef_status sq_spots_add(sq_row_places *places, const sq_row_place *place, ef_error *err)
{
    sq_row_place *items = sq_list_grow(places->arena, places->items, places->count, sizeof *items);

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

void sq_spots_sort(sq_row_places *places)
{
    if (places->count)
        qsort(places->items, places->count, sizeof *places->items, compare_places);
}

static int compare_places_descending(const void *a, const void *b)
{
    return compare_places(b, a);
}

void sq_spots_sort_down(sq_row_places *places)
{
    if (places->count)
        qsort(places->items, places->count, sizeof *places->items, compare_places_descending);
}

/* Steps a bound statement of (position, stream, seq, status) until `limit` places are found. */
static ef_status collect_places(ef__sq_conn *conn, sqlite3_stmt *stmt, const sq_lane *lane,
                                const ef_outbox_query *query, size_t limit, sq_row_places *places,
                                ef_error *err)
{
    size_t full = places->count + limit;
    sq_blocker blocker = {0};
    bool row, blocked = false;
    ef_status st = EF_OK;

    while (places->count < full && (st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        sq_row_place place = {.lane = lane,
                              .position = sqlite3_column_int64(stmt, 0),
                              .status = (ef_row_status)sqlite3_column_int(stmt, 3)};
        if (query->blocked_only)
            st = sq_blocked(conn, &blocker, lane->id, sqlite3_column_int64(stmt, 1),
                            sqlite3_column_int64(stmt, 2), &blocked, err);
        if (st == EF_OK && (blocked || !query->blocked_only))
            st = sq_spots_add(places, &place, err);
        if (st != EF_OK)
            break;
    }
    sqlite3_reset(stmt);
    return st;
}

ef_status sq_spots_of_retry_rows(ef__sq_conn *conn, const sq_lane *lane,
                                 const ef_row_status *status, int64_t after,
                                 const ef_outbox_query *query, size_t limit, sq_row_places *places,
                                 ef_error *err)
{
    sqlite3_stmt *stmt;
    int which = status ? SQ_RETRY_ROW_AFTER_OF_STATUS : SQ_RETRY_ROW_AFTER;
    ef_status st = ef__sq_stmt(conn, which, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, after);
    sqlite3_bind_int(stmt, 3, query->any_tenant);
    ef__sq_bind_str(stmt, 4, query->tenant);
    if (status)
        sqlite3_bind_int(stmt, 5, (int)*status);
    return collect_places(conn, stmt, lane, query, limit, places, err);
}
