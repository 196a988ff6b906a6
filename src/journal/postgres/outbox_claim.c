/*
 * outbox_claim.c - claiming rows of the outbox on PostgreSQL.
 *
 * One transaction of two round trips: leases, offsets, rows and events; then the record of the rows
 * in flight, which must be committed before the caller gets the rows: after a crash the next owner
 * knows which events may have caused it. Leases stay locked, and with them the offsets. Rows are in
 * order of position, and positions are given one transaction at a time, so no row appears below one
 * that was read.
 */
#include "store.h"

#include <inttypes.h>

/* --- offsets ---------------------------------------------------------------------------------- */

ef_status pg_offsets_send(ef__pg_conn *conn, int32_t lane, const ef_partition_lease *held,
                          size_t count, ef_error *err)
{
    ef__pg_array partitions = pg_array_of_partitions(held, count);

    return pj_send_lane_offset_get(conn, lane, &partitions, err);
}

ef_status pg_offsets_receive(ef__pg_conn *conn, const ef__held_map *map, ef__lane_offset *out,
                             ef_error *err)
{
    ef__pg_rows rows = ef__pg_rows_receive(conn, NULL, err);
    pg_offset_row row;

    while (pj_next_lane_offset_get(&rows, &row))
        out[ef__held_find(map, row.partition)] = row.offset;
    return ef__pg_rows_end(&rows);
}

ef_status pg_offsets_put(pg_store *store, ef__pg_conn *conn, int32_t lane,
                         const ef_partition_lease *held, size_t count,
                         const ef__lane_offset *before, const ef__lane_offset *now, ef_error *err)
{
    struct pj_lane_offset_put put = {.lane = lane, .now = pg_clock(store)};

    for (size_t i = 0; i < count; i++) {
        if (ef__lane_offset_same(&before[i], &now[i]))
            continue;
        ef__pg_array_int(&put.partitions, held[i].partition);
        ef__pg_array_int(&put.positions, now[i].position);
        ef__pg_array_int(&put.in_flight, now[i].in_flight);
        ef__pg_array_int(&put.in_flight_tokens, now[i].in_flight_token);
        ef__pg_array_int(&put.suspects, now[i].suspect);
    }
    return put.partitions.count ? pj_send_lane_offset_put(conn, &put, err) : EF_OK;
}

/* --- claiming --------------------------------------------------------------------------------- */

typedef struct claim_job {
    pg_store *store;
    const ef__claim_request *is;
    ef__held_map map;
    ef_claimed_batch *out;
    pg_lane lane;
    ef__lane_offset *before, *now; /* by held lease: as read, and as they will be */
} claim_job;

/* Columns after those of the event. */
enum {
    AT_PARTITION = PG_EVENT_COLUMNS,
    AT_LANE,
    AT_ATTEMPTS,
    AT_SKIP,
    AT_FOLLOWS,
    AT_ERROR,
    AT_FILED,
    AT_TRYING
};

static ef_status fill_row(const claim_job *job, const PGresult *result, int row,
                          ef_claimed_row *item, ef_error *err)
{
    ef__arena *arena = &job->out->events.room->arena;

    item->event = &job->out->events.events[row];
    item->partition = (int32_t)ef__pg_int(result, row, AT_PARTITION);
    if (!job->is->due) {
        item->lane = row ? job->out->items[0].lane : ef__arena_copy(arena, job->is->lane);
        return item->lane.ptr ? EF_OK : ef__no_memory(err);
    }
    item->lane = ef__arena_copy(arena, ef__pg_str(result, row, AT_LANE));
    item->attempts = (int32_t)ef__pg_int(result, row, AT_ATTEMPTS);
    item->skip = ef__pg_bool(result, row, AT_SKIP);
    item->follows = ef__pg_bool(result, row, AT_FOLLOWS);
    item->error = ef__arena_copy(arena, ef__pg_str(result, row, AT_ERROR));
    item->filed = ef__pg_int(result, row, AT_FILED);
    item->interrupted = ef__pg_bool(result, row, AT_TRYING);
    return item->lane.ptr && item->error.ptr ? EF_OK : ef__no_memory(err);
}

/* Fills the batch with the rows of a result; it ends early at the byte limit. */
static ef_status fill_batch(claim_job *job, const ef__pg_rows *rows, size_t limit, bool suspect,
                            ef_error *err)
{
    ef_claimed_batch *out = job->out;
    ef_claimed_row *items =
        ef__arena_zalloc(&out->events.room->arena, (size_t)rows->count + 1, sizeof *items);
    ef_status st =
        items ? pg_events_copy(rows, limit, false, &out->events, err) : ef__no_memory(err);

    out->items = items;
    for (size_t i = 0; st == EF_OK && i < out->events.count; i++) {
        items[i].suspect = suspect;
        st = fill_row(job, rows->result, (int)i, &items[i], err);
    }
    if (st != EF_OK)
        return st;
    out->count = out->events.count;
    out->more = out->events.more;
    return EF_OK;
}

/* Claims suspect rows of one partition: EF_SUSPECT_PIECE of many, or a single one of few, so that
 * the event that causes the crash is found. */
static ef_status claim_suspects(claim_job *job, ef__pg_conn *conn, ef_error *err)
{
    size_t piece = job->is->limit < EF_SUSPECT_PIECE ? job->is->limit : EF_SUSPECT_PIECE;
    ef_status st = EF_OK;

    for (size_t h = 0; st == EF_OK && job->out->count == 0 && h < job->is->held_count; h++) {
        int64_t upto = ef__lane_offset_suspect(&job->before[h], job->is->held[h].token);
        ef__pg_rows rows;

        if (upto <= job->before[h].position)
            continue;
        rows = pj_each_outbox_claim_suspect(
            ef__pg_on_conn(conn),
            &(struct pj_outbox_claim_suspect){.lane = job->lane.id,
                                              .partition = job->is->held[h].partition,
                                              .after = job->before[h].position,
                                              .upto = upto,
                                              .limit = EF_SUSPECT_PIECE + 1,
                                              .bytes = PG_CLAIM_BYTES_ENOUGH},
            err);
        if (rows.count)
            rows.status =
                fill_batch(job, &rows, rows.count > EF_SUSPECT_PIECE ? piece : 1, true, err);
        st = ef__pg_rows_end(&rows);
    }
    return st;
}

/*
 * A batch has a byte limit, and adding up bytes costs the server half as much again. So it is not
 * done while events are small: an event of more than a few shares of the limit comes without data.
 * Then the batch is read again with added up bytes, and so are the next ones, until one has no
 * large event.
 */
static int64_t small_bytes(const claim_job *job)
{
    return PG_CLAIM_BYTES_ENOUGH / (int64_t)job->is->limit * 4;
}

static ef_status send_claim(const claim_job *job, ef__pg_conn *conn, bool bounded, ef_error *err)
{
    struct pj_outbox_claim claim = {
        .lane = job->lane.id,
        .partitions = pg_array_of_partitions(job->is->held, job->is->held_count),
        .limit = (int64_t)job->is->limit + 1,
        .bytes = bounded ? PG_CLAIM_BYTES_ENOUGH : small_bytes(job),
        .after = job->is->after,
    };

    return bounded ? pj_send_outbox_claim_bounded(conn, &claim, err)
                   : pj_send_outbox_claim(conn, &claim, err);
}

static bool any_large(const claim_job *job, const ef__pg_rows *rows)
{
    int64_t small = small_bytes(job);

    for (int i = 0; i < rows->count; i++)
        if (ef__pg_null(rows->result, i, PG_EVENT_DATA) ||
            PQgetlength(rows->result, i, PG_EVENT_DATA) > small)
            return true;
    return false;
}

/* Receives the rows; reads them again `bounded` if one is large. */
static ef__pg_rows receive_rows(const claim_job *job, ef__pg_conn *conn, bool bounded,
                                ef_error *err)
{
    ef__pg_rows rows = ef__pg_rows_receive(conn, NULL, err);
    bool large = any_large(job, &rows);

    if (rows.status != EF_OK)
        return rows;
    atomic_store(&job->store->large_events, large);
    if (!large || bounded)
        return rows;
    (void)ef__pg_rows_end(&rows);
    rows.status = send_claim(job, conn, true, err);
    return rows.status == EF_OK ? ef__pg_rows_receive(conn, NULL, err) : rows;
}

static bool any_suspect(const claim_job *job)
{
    for (size_t h = 0; h < job->is->held_count; h++)
        if (ef__lane_offset_suspect(&job->before[h], job->is->held[h].token) >
            job->before[h].position)
            return true;
    return false;
}

/* Publishers only: sets `waits` for events whose stream has an earlier retry row. */
static ef_status find_blocked(claim_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef_claimed_row *items = (ef_claimed_row *)job->out->items; /* allocated by fill_batch */
    ef__pg_array positions = {0};
    ef__pg_rows rows;
    int64_t position;

    for (size_t i = 0; i < job->out->count; i++)
        ef__pg_array_int(&positions, items[i].event->position);
    rows = pj_each_retry_row_before(ef__pg_on_conn(conn), job->lane.id, &positions, err);
    while (pj_next_retry_row_before(&rows, &position))
        for (size_t i = 0; i < job->out->count; i++)
            if (items[i].event->position == position)
                items[i].waits = true;
    return ef__pg_rows_end(&rows);
}

/* A partition without rows keeps its offset, and the next claims would begin there: so it is moved
 * up to the last row of the batch, below which the partition has none, now and then. */
static void move_idle_offsets(const claim_job *job)
{
    int64_t last = job->out->items[job->out->count - 1].event->position;

    for (size_t h = 0; h < job->is->held_count; h++)
        if (job->now[h].in_flight <= job->now[h].position &&
            job->now[h].position < last - PG_IDLE_POSITIONS)
            job->now[h].position = last;
}

static ef_status claim_queued(claim_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_rows rows = {0};
    bool bounded = atomic_load(&job->store->large_events);
    ef_status st = pg_offsets_send(conn, job->lane.id, job->is->held, job->is->held_count, err);

    if (st == EF_OK)
        st = send_claim(job, conn, bounded, err);
    if (st == EF_OK)
        st = pg_leases_receive(conn, &job->lane, job->is->lane, job->is->held, job->is->held_count,
                               err);
    if (st == EF_OK)
        st = pg_offsets_receive(conn, &job->map, job->before, err);
    if (st == EF_OK) {
        rows = receive_rows(job, conn, bounded, err);
        st = rows.status;
    }
    if (st == EF_OK && job->lane.kind != EF_LANE_KIND_PUBLISHER && any_suspect(job))
        st = claim_suspects(job, conn, err);
    if (st == EF_OK && job->out->count == 0)
        st = fill_batch(job, &rows, job->is->limit, false, err);
    (void)ef__pg_rows_end(&rows);
    if (st == EF_OK && job->out->count && job->lane.kind == EF_LANE_KIND_PUBLISHER)
        st = find_blocked(job, conn, err);
    if (st != EF_OK)
        return st;
    memcpy(job->now, job->before, job->is->held_count * sizeof *job->now);
    ef__lane_offsets_claim(job->now, job->is->held, job->is->held_count, &job->map, job->out,
                           job->is->after != 0);
    if (job->out->count && !job->out->items[0].suspect)
        move_idle_offsets(job);
    return pg_offsets_put(job->store, conn, job->lane.id, job->is->held, job->is->held_count,
                          job->before, job->now, err);
}

static ef_status send_due(const claim_job *job, ef__pg_conn *conn, int64_t now_us, ef_error *err)
{
    struct pj_retry_row_due due = {
        .lane = job->lane.id,
        .partitions = pg_array_of_partitions(job->is->held, job->is->held_count),
        .now = now_us,
        .limit = (int64_t)job->is->limit + 1,
        .bytes = PG_CLAIM_BYTES_ENOUGH,
    };
    struct pj_retry_row_next_due next = {.lane = due.lane, .now = now_us};
    ef_status st = pj_send_retry_row_due(conn, &due, err);

    if (st != EF_OK)
        return st;
    next.partitions = pg_array_of_partitions(job->is->held, job->is->held_count);
    return pj_send_retry_row_next_due(conn, &next, err);
}

/* Due rows are not recorded as in flight: a retry row counts its own attempts. */
static ef_status claim_due(claim_job *job, ef__pg_conn *conn, ef_error *err)
{
    int64_t now_us = 0, next_due_us = 0;
    ef__pg_rows rows;
    ef_status st =
        pg_leases_receive(conn, &job->lane, job->is->lane, job->is->held, job->is->held_count, err);

    if (st == EF_OK)
        st = pg_clock_now(job->store, ef__pg_on_conn(conn), &now_us, err);
    if (st == EF_OK)
        st = send_due(job, conn, now_us, err);
    if (st != EF_OK)
        return st;
    rows = ef__pg_rows_receive(conn, NULL, err);
    if (rows.status == EF_OK)
        rows.status = pj_receive_retry_row_next_due(conn, &next_due_us, NULL, err);
    if (rows.status == EF_OK)
        rows.status = fill_batch(job, &rows, job->is->limit, false, err);
    if (rows.status == EF_OK)
        job->out->next_due_us = next_due_us;
    return ef__pg_rows_end(&rows);
}

static ef_status claim_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    claim_job *job = context;
    ef_status st = ef__memory_prepare(&job->out->events.room, err);

    job->out->count = job->out->events.count = 0;
    job->lane = (pg_lane){.kind = EF_LANE_KIND_APPLY};
    if (st == EF_OK) {
        ef__arena *arena = &job->out->events.room->arena;
        job->before = ef__arena_zalloc(arena, job->is->held_count + 1, sizeof *job->before);
        job->now = ef__arena_zalloc(arena, job->is->held_count + 1, sizeof *job->now);
        if (!job->before || !job->now)
            st = ef__no_memory(err);
    }
    /* "" means the lanes of all projections, which need the leases of "*". */
    if (st == EF_OK && job->is->lane.len)
        st = pg_lane_get(job->store, conn, job->is->lane, &job->lane, err);
    if (st == EF_OK && job->is->after)
        st = ef__lane_publishes(job->is->lane, job->lane.kind, err);
    if (st == EF_OK)
        st = pg_leases_send(job->store, conn, &job->lane, job->is->lane, job->is->held,
                            job->is->held_count, err);
    if (st != EF_OK)
        return st;
    return job->is->due ? claim_due(job, conn, err) : claim_queued(job, conn, err);
}

ef_status pg_claim(ef_journal *journal, const ef__claim_request *request, ef_claimed_batch *out,
                   ef_error *err)
{
    claim_job job = {.store = pg_store_of(journal), .is = request, .out = out};
    ef_status st = request->due ? EF_OK : pg_place_unplaced(job.store, err);

    ef__held_map_init(&job.map, request->held, request->held_count);
    if (st == EF_OK)
        st = pg_write_idempotent(job.store, claim_work, &job,
                                 err); /* a repeated claim returns the same rows */
    return st;
}
