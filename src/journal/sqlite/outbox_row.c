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
    ef__sq_rows rows = sq_each_retry_row_get(
        conn, &(struct sq_retry_row_get){.lane = lane, .position = position}, arena, err);

    *out = (sq_retry_row){0};
    out->found = sq_next_retry_row_get(&rows, out);
    if (!arena)
        out->error = (ef_str){0};
    return ef__sq_rows_end(&rows);
}

ef_status sq_blocked(ef__sq_conn *conn, sq_blocker *blocker, int64_t lane, int64_t stream,
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

void *sq_list_grow(ef__arena *arena, void *items, size_t count, size_t size)
{
    const size_t first = 16;
    bool full = count == 0 || (count >= first && (count & (count - 1)) == 0);
    void *grown;

    if (!full)
        return items;
    grown = ef__arena_alloc(arena, (count < first ? first : count * 2) * size);
    if (grown && count)
        memcpy(grown, items, count * size);
    return grown;
}

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

ef_status sq_spots_of_retry_rows(ef__sq_conn *conn, const sq_lane *lane,
                                 const ef_row_status *status, int64_t after,
                                 const ef_outbox_query *query, size_t limit, sq_row_places *places,
                                 ef_error *err)
{
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
            rows.status = sq_blocked(conn, &blocker, lane->id, row.stream, row.seq, &blocked, err);
        if (rows.status == EF_OK && (blocked || !query->blocked_only))
            rows.status = sq_spots_add(places, &place, err);
    }
    return ef__sq_rows_end(&rows);
}
