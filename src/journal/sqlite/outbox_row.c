/*
 * outbox_row.c - rows of the outbox as people see them.
 *
 * Whether a queued row is pending or processing, and whether an exception is blocked, is worked out
 * from marks, leases and the rows before it; none of it is stored.
 */
#include "outbox.h"

#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- exceptions ------------------------------------------------------------------------------- */

ef_status sq_exception_get(ef__sq_conn *conn, int64_t lane, int64_t position, ef__arena *arena,
                           sq_exception *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_EXCEPTION_GET, &stmt, err);

    *out = (sq_exception){0};
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    *out = (sq_exception){.found = true,
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
        st = ef__room_full(err);
    sqlite3_reset(stmt);
    return st;
}

ef_status sq_exception_update(ef__sq_conn *conn, int64_t lane, int64_t position,
                              const sq_exception *x, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_EXCEPTION_UPDATE, &stmt, err);

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
        st = ef__sq_stmt(conn, SQ_EXCEPTION_FIRST_DEAD, &stmt, err);
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

/* --- what is in hand -------------------------------------------------------------------------- */

static ef_status hand_lives(sq_store *store, ef__sq_conn *conn, const sq_lane *lane,
                            int32_t partition, int64_t token, bool *out, ef_error *err)
{
    ef_lease_key key = sq_lane_lease(lane, partition);
    sq_lease_row lease;
    ef_status st = sq_lease_get(conn, &key, &lease, err);

    *out = st == EF_OK && ef__lease_check(&lease.row, token, sq_clock_us(store)) == EF_OK;
    return st;
}

ef_status sq_hands_load(sq_store *store, ef__sq_conn *conn, const sq_lane *lane, sq_hands *out,
                        ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row, lives = false;
    ef_status st = ef__sq_stmt(conn, SQ_OUTBOX_MARK_IN_HAND, &stmt, err);

    memset(out, 0, sizeof *out);
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        int32_t partition = sqlite3_column_int(stmt, 0);
        if (partition < 0 || partition >= EF_LIMIT_PARTITIONS)
            continue;
        st = hand_lives(store, conn, lane, partition, sqlite3_column_int64(stmt, 3), &lives, err);
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
        return ef_fail(err, EF_DAMAGED, "an outbox row is for position %" PRId64 ", which is gone",
                       position);
    out->tenant = sq_column_copy(stmt, 0, arena);
    out->stream = sq_column_copy(stmt, 1, arena);
    out->seq = sqlite3_column_int64(stmt, 2);
    out->event_type = sq_column_copy(stmt, 3, arena);
    out->enqueued_us = out->updated_us = sqlite3_column_int64(stmt, 4);
    sqlite3_reset(stmt);
    return out->tenant.ptr && out->stream.ptr && out->event_type.ptr ? EF_OK : ef__room_full(err);
}

static ef_status show_exception(ef__sq_conn *conn, const sq_spot *spot, sq_blocker *blocker,
                                ef__arena *arena, ef_row *out, ef_error *err)
{
    sq_exception x;
    ef_status st = sq_exception_get(conn, spot->lane->id, spot->position, arena, &x, err);

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
        st = sq_blocked(conn, blocker, spot->lane->id, x.stream, x.seq, &out->blocked, err);
    return st;
}

ef_status sq_row_make(ef__sq_conn *conn, const sq_spot *spot, sq_blocker *blocker, ef__arena *arena,
                      ef_row *out, ef_error *err)
{
    ef_status st;

    *out = (ef_row){.lane = ef__arena_copy(arena, spot->lane->name),
                    .position = spot->position,
                    .status = spot->status,
                    .partition = spot->partition,
                    .last_error = EF_STR("")};
    if (!out->lane.ptr)
        return ef__room_full(err);
    st = show_event(conn, spot->position, arena, out, err);
    if (st == EF_OK && spot->status == EF_ROW_PUBLISHED) {
        out->updated_us = out->published_us = spot->published_us;
        out->partition = ef__partition_of(out->tenant, out->stream, spot->partition);
    } else if (st == EF_OK && !spot->queued) {
        st = show_exception(conn, spot, blocker, arena, out, err);
    }
    return st;
}

ef_status sq_rows_make(ef__sq_conn *conn, const sq_spot *spots, size_t count, ef_row_list *out,
                       ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_row *items = ef__arena_zalloc(arena, count + 1, sizeof *items);
    sq_blocker blocker = {0};
    ef_status st = items ? EF_OK : ef__room_full(err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = sq_row_make(conn, &spots[i], &blocker, arena, &items[i], err);
    out->items = items;
    out->count = st == EF_OK ? count : 0;
    return st;
}

/* --- spots ------------------------------------------------------------------------------------ */

ef_status sq_spots_add(sq_spots *spots, const sq_spot *spot, ef_error *err)
{
    sq_spot *items = sq_list_grow(spots->arena, spots->items, spots->count, sizeof *items);

    if (!items)
        return ef__room_full(err);
    items[spots->count++] = *spot;
    spots->items = items;
    return EF_OK;
}

/* Lanes come from one array that is in the order of names, so their addresses have that order. */
static int compare_spots(const void *a, const void *b)
{
    const sq_spot *x = a, *y = b;

    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return (x->lane > y->lane) - (x->lane < y->lane);
}

void sq_spots_sort(sq_spots *spots)
{
    if (spots->count)
        qsort(spots->items, spots->count, sizeof *spots->items, compare_spots);
}

static int compare_down(const void *a, const void *b)
{
    return compare_spots(b, a);
}

void sq_spots_sort_down(sq_spots *spots)
{
    if (spots->count)
        qsort(spots->items, spots->count, sizeof *spots->items, compare_down);
}

/* Step a bound statement of (position, stream, seq, status) until `limit` spots are found. */
static ef_status collect(ef__sq_conn *conn, sqlite3_stmt *stmt, const sq_lane *lane,
                         const ef_outbox_query *query, size_t limit, sq_spots *spots, ef_error *err)
{
    size_t full = spots->count + limit;
    sq_blocker blocker = {0};
    bool row, blocked = false;
    ef_status st = EF_OK;

    while (spots->count < full && (st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        sq_spot spot = {.lane = lane,
                        .position = sqlite3_column_int64(stmt, 0),
                        .status = (ef_row_status)sqlite3_column_int(stmt, 3)};
        if (query->blocked_only)
            st = sq_blocked(conn, &blocker, lane->id, sqlite3_column_int64(stmt, 1),
                            sqlite3_column_int64(stmt, 2), &blocked, err);
        if (st == EF_OK && (blocked || !query->blocked_only))
            st = sq_spots_add(spots, &spot, err);
        if (st != EF_OK)
            break;
    }
    sqlite3_reset(stmt);
    return st;
}

ef_status sq_spots_of_exceptions(ef__sq_conn *conn, const sq_lane *lane,
                                 const ef_row_status *status, int64_t after,
                                 const ef_outbox_query *query, size_t limit, sq_spots *spots,
                                 ef_error *err)
{
    sqlite3_stmt *stmt;
    int which = status ? SQ_EXCEPTION_AFTER_OF_STATUS : SQ_EXCEPTION_AFTER;
    ef_status st = ef__sq_stmt(conn, which, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, after);
    sqlite3_bind_int(stmt, 3, query->any_tenant);
    ef__sq_bind_str(stmt, 4, query->tenant);
    if (status)
        sqlite3_bind_int(stmt, 5, (int)*status);
    return collect(conn, stmt, lane, query, limit, spots, err);
}
