/*
 * outbox_ack.c - acknowledging a batch on SQLite: retry rows, offsets and queued rows in one
 * transaction.
 */
#include "outbox.h"

#include "../../core/placement.h"

#include <assert.h>
#include <inttypes.h>

/* --- offsets and held leases
 * ----------------------------------------------------------------------- */

void sq_held_map_init(sq_held_map *map, const ef_partition_lease *held, size_t count)
{
    memset(map, 0, sizeof *map);
    for (size_t i = 0; i < count; i++)
        map->of[held[i].partition] = (uint16_t)(i + 1);
}

int sq_held_find(const sq_held_map *map, int32_t partition)
{
    return partition >= 0 && partition < EF_LIMIT_PARTITIONS ? map->of[partition] - 1 : -1;
}

ef_status sq_offset_get(ef__sq_conn *conn, int64_t lane, int32_t partition, sq_offset_row *out,
                        ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_LANE_OFFSET_GET, &stmt, err);

    *out = (sq_offset_row){0};
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int(stmt, 2, partition);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    *out = (sq_offset_row){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                           sqlite3_column_int64(stmt, 2), sqlite3_column_int64(stmt, 3)};
    sqlite3_reset(stmt);
    return EF_OK;
}

ef_status sq_offset_put(ef__sq_conn *conn, int64_t lane, int32_t partition,
                        const sq_offset_row *offset, int64_t now_us, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_LANE_OFFSET_PUT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int(stmt, 2, partition);
    sqlite3_bind_int64(stmt, 3, offset->position);
    sqlite3_bind_int64(stmt, 4, offset->in_flight);
    sqlite3_bind_int64(stmt, 5, offset->in_flight_token);
    sqlite3_bind_int64(stmt, 6, offset->suspect);
    sqlite3_bind_int64(stmt, 7, now_us);
    return ef__sq_done(conn, stmt, err);
}

/* --- acks ---------------------------------------------------------------------------------- */

typedef struct ack_job {
    sq_job base;
    const ef__ack_request *is;
    sq_held_map map;
} ack_job;

/* The event of a retry row, and its rows in the outbox. */
typedef struct acked_event {
    int64_t stream, seq;
    int32_t partition;
    bool queued;     /* in the acknowledged lane */
    sq_retry_row is; /* the existing retry row */
} acked_event;

/* Only rows that were claimed under the same token can be acknowledged. */
static ef_status check_upto(ef__sq_conn *conn, const sq_lane *lane, const ef_partition_lease *held,
                            ef_error *err)
{
    sq_offset_row offset;
    int64_t most;
    ef_status st = sq_offset_get(conn, lane->id, held->partition, &offset, err);

    if (st != EF_OK || held->upto == 0)
        return st;
    most = offset.position;
    if (offset.in_flight_token == held->token && offset.in_flight > most)
        most = offset.in_flight;
    if (held->upto >= offset.position && held->upto <= most)
        return EF_OK;
    return ef__refuse_upto(lane->name, held, offset.position, most, err);
}

/* Rows that a publisher has published are recorded for the retention time of the lane. */
static ef_status record_published(ef__sq_conn *conn, const sq_lane *lane, int64_t lowest,
                                  int64_t highest, int64_t now_us, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_PUBLISHED_ACKED, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, lowest);
    sqlite3_bind_int64(stmt, 3, highest);
    sqlite3_bind_int64(stmt, 4, now_us);
    return ef__sq_done(conn, stmt, err);
}

static ef_status record_published_row(ef__sq_conn *conn, int64_t lane, int64_t position,
                                      int64_t now_us, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_PUBLISHED_PUT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    sqlite3_bind_int64(stmt, 3, now_us);
    return ef__sq_done(conn, stmt, err);
}

/* is_acked(partition, position), for outbox.sql. */
static void is_acked(sqlite3_context *context, int count, sqlite3_value **values)
{
    const int64_t *passed = sqlite3_user_data(context);
    int64_t partition = sqlite3_value_int64(values[0]);

    (void)count;
    sqlite3_result_int(context, partition >= 0 && partition < EF_LIMIT_PARTITIONS &&
                                    sqlite3_value_int64(values[1]) <= passed[partition]);
}

ef_status sq_is_acked_register(sq_store *store, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;

    return ef__sq_fail(conn,
                       sqlite3_create_function_v2(conn->db, "is_acked", 2,
                                                  SQLITE_UTF8 | SQLITE_DIRECTONLY, store->passed,
                                                  is_acked, NULL, NULL, NULL),
                       "opening the journal", err);
}

static ef_status move_offsets(sq_store *store, const sq_lane *lane, const ack_job *job,
                              int64_t now_us, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    int64_t lowest = INT64_MAX, highest = 0;
    sqlite3_stmt *stmt;
    sq_offset_row offset;
    ef_status st = EF_OK;

    memset(store->passed, 0, sizeof store->passed);
    for (size_t i = 0; st == EF_OK && i < job->is->held_count; i++) {
        const ef_partition_lease *held = &job->is->held[i];
        st = sq_offset_get(conn, lane->id, held->partition, &offset, err);
        if (st != EF_OK || held->upto <= offset.position)
            continue;
        store->passed[held->partition] = held->upto;
        lowest = offset.position < lowest ? offset.position : lowest;
        highest = held->upto > highest ? held->upto : highest;
        offset.position = held->upto;
        offset.in_flight = offset.in_flight > held->upto ? offset.in_flight : 0;
        offset.suspect = offset.suspect > held->upto ? offset.suspect : 0;
        st = sq_offset_put(conn, lane->id, held->partition, &offset, now_us, err);
    }
    if (st == EF_OK && highest && lane->retain_us)
        st = record_published(conn, lane, lowest, highest, now_us, err);
    if (st == EF_OK && highest)
        st = ef__sq_stmt(conn, SQ_OUTBOX_DELETE_ACKED, &stmt, err);
    if (st != EF_OK || !highest)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, lowest);
    sqlite3_bind_int64(stmt, 3, highest);
    return ef__sq_done(conn, stmt, err);
}

/* --- retry rows ---------------------------------------------------------------------- */

/* Reads stream and seq of an event, and computes its partition. */
static ef_status find_event(sq_store *store, ef__sq_conn *conn, int64_t position, acked_event *out,
                            ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_find(conn, SQ_ROW_EVENT, position, &stmt, &row, err);

    if (st != EF_OK)
        return st;
    if (!row)
        return ef__refuse_unknown_position(position, err);
    out->partition = ef__partition_of(ef__sq_column_str(stmt, 0), ef__sq_column_str(stmt, 1),
                                      store->writer.txn.progress.partitions);
    out->seq = sqlite3_column_int64(stmt, 2);
    out->stream = sqlite3_column_int64(stmt, 5);
    sqlite3_reset(stmt);
    return EF_OK;
}

/* Whether it is queued in the acknowledged lane; the row has the partition that it was queued in.
 */
static ef_status find_row(ef__sq_conn *conn, int64_t lane, int64_t position, acked_event *out,
                          ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_OUTBOX_GET, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    st = ef__sq_row(conn, stmt, &out->queued, err);
    if (st == EF_OK && out->queued) {
        out->partition = sqlite3_column_int(stmt, 0);
        sqlite3_reset(stmt);
    }
    return st;
}

/* The lane of a retry row; that of a projection is created if it is new. */
static ef_status retry_row_lane(ef__sq_conn *conn, const sq_lane *acked_lane, const ef_retry_row *x,
                                sq_lane *out, ef_error *err)
{
    bool fits;
    ef_status st;

    if (acked_lane->kind == EF_LANE_KIND_PUBLISHER) {
        *out = *acked_lane;
        fits = ef_str_equal(x->lane, acked_lane->name);
    } else {
        st = sq_lane_find_or_make(conn, x->lane, out, err);
        if (st != EF_OK)
            return st;
        fits = out->kind == EF_LANE_KIND_PROJECTION;
    }
    return fits ? EF_OK : ef__refuse_retry_lane(x->lane, acked_lane->name, err);
}

/* Rows are added and deleted one at a time, so only the first two of a stream can have a wrong
 * `first`. */
static ef_status update_first(ef__sq_conn *conn, int64_t lane, int64_t stream, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_RETRY_ROW_SET_FIRST, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, stream);
    return ef__sq_done(conn, stmt, err);
}

static ef_status delete_retry_row(ef__sq_conn *conn, int64_t lane, int64_t position, int64_t stream,
                                  ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_RETRY_ROW_DELETE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    st = ef__sq_done(conn, stmt, err);
    return st == EF_OK ? update_first(conn, lane, stream, err) : st;
}

static ef_status insert_retry_row(ef__sq_conn *conn, int64_t lane, int64_t position,
                                  const acked_event *event, const sq_retry_row *x, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_RETRY_ROW_INSERT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    sqlite3_bind_int(stmt, 3, event->partition);
    sqlite3_bind_int64(stmt, 4, event->stream);
    sqlite3_bind_int64(stmt, 5, event->seq);
    sqlite3_bind_int(stmt, 6, (int)x->status);
    sqlite3_bind_int(stmt, 7, x->attempts);
    sqlite3_bind_int64(stmt, 8, x->due_us);
    ef__sq_bind_str(stmt, 9, x->error);
    sqlite3_bind_int64(stmt, 10, x->updated_us);
    sqlite3_bind_int(stmt, 11, x->trying);
    st = ef__sq_done(conn, stmt, err);
    return st == EF_OK ? update_first(conn, lane, event->stream, err) : st;
}

static ef_status write_retry_row(ef__sq_conn *conn, int64_t lane, const ef_retry_row *x,
                                 const acked_event *event, int64_t now_us, ef_error *err)
{
    sq_retry_row to = event->is;

    to.status = x->status;
    to.skip = to.skip && !x->skip; /* the skip was applied; the row stays for other versions */
    /* An operator skipped it during its last attempt: it becomes pending instead of dead. */
    if (to.skip && x->status == EF_ROW_DEAD)
        to.status = EF_ROW_PENDING;
    to.attempts = x->attempts;
    to.due_us = to.status == EF_ROW_DEAD ? 0 : x->due_us ? x->due_us : now_us;
    to.error = x->error;
    to.updated_us = now_us;
    to.trying = x->trying;
    if (event->is.found)
        return sq_retry_row_update(conn, lane, x->position, &to, err);
    return insert_retry_row(conn, lane, x->position, event, &to, err);
}

/* An existing row is only counted. */
static ef_status count_filing(ef__sq_conn *conn, int64_t lane, int64_t position, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_RETRY_ROW_ADD_FILING, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    return ef__sq_done(conn, stmt, err);
}

/* Withdraws a skip that came during the attempt that applied the event. */
static ef_status withdraw_skip(ef__sq_conn *conn, const sq_lane *lane, const acked_event *event,
                               int64_t now_us, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_SKIP_WITHDRAW, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, lane->name);
    sqlite3_bind_int64(stmt, 2, event->stream);
    sqlite3_bind_int64(stmt, 3, event->seq);
    sqlite3_bind_int64(stmt, 4, now_us);
    return ef__sq_done(conn, stmt, err);
}

/* Deletes the row, unless it was filed again since it was claimed: then it is due again. Without a
 * lease, a row that was filed again is not changed. */
static ef_status finish_retry_row(ef__sq_conn *conn, const sq_lane *lane, const ef_retry_row *x,
                                  const acked_event *event, bool is_leased, int64_t now_us,
                                  ef_error *err)
{
    ef_retry_row again = {.position = x->position, .status = EF_ROW_PENDING};
    ef_status st = EF_OK;

    if (!event->is.found || (!is_leased && event->is.filed != x->filed))
        return EF_OK;
    if (event->is.filed != x->filed)
        return write_retry_row(conn, lane->id, &again, event, now_us, err);
    if (event->is.skip && !x->skip && lane->kind == EF_LANE_KIND_PROJECTION)
        st = withdraw_skip(conn, lane, event, now_us, err);
    if (st == EF_OK && lane->retain_us && !event->is.skip)
        st = record_published_row(conn, lane->id, x->position, now_us, err);
    return st == EF_OK ? delete_retry_row(conn, lane->id, x->position, event->stream, err) : st;
}

static ef_status ack_retry_row(sq_store *store, const sq_lane *acked_lane, const ack_job *job,
                               const ef_retry_row *x, int64_t now_us, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    acked_event event = {0};
    sq_lane lane;
    int h;
    ef_status st = find_event(store, conn, x->position, &event, err);

    if (st == EF_OK)
        st = find_row(conn, acked_lane->id, x->position, &event, err);
    if (st == EF_OK)
        st = retry_row_lane(conn, acked_lane, x, &lane, err);
    if (st == EF_OK)
        st = sq_retry_row_get(conn, lane.id, x->position, NULL, &event.is, err);
    if (st != EF_OK)
        return st;
    /* The number of partitions may have changed since. */
    if (event.is.found && !event.queued)
        event.partition = event.is.partition;
    h = sq_held_find(&job->map, event.partition);
    if (h < 0 && job->is->held_count)
        return ef__refuse_partition(x->position, event.partition, err);
    if (x->status == EF_ROW_DONE)
        return finish_retry_row(conn, &lane, x, &event, job->is->held_count > 0, now_us, err);
    if (!job->is->held_count)
        return event.is.found ? count_filing(conn, lane.id, x->position, err)
                              : write_retry_row(conn, lane.id, x, &event, now_us, err);
    /* A deleted row is not created again, unless this ack moves the offset past the queued event;
     * and in that case an existing row keeps its attempts. */
    if (event.is.found == (event.queued && x->position <= job->is->held[h].upto))
        return EF_OK;
    return write_retry_row(conn, lane.id, x, &event, now_us, err);
}

ef_status sq_retry_row_again(sq_store *store, const sq_lane *lane, int64_t position, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef_retry_row pending = {.position = position, .status = EF_ROW_PENDING};
    acked_event event = {0};
    ef_status st = find_event(store, conn, position, &event, err);

    if (st == EF_OK)
        st = sq_retry_row_get(conn, lane->id, position, NULL, &event.is, err);
    if (st != EF_OK || event.is.found)
        return st;
    return write_retry_row(conn, lane->id, &pending, &event, sq_now_us(store), err);
}

ef_status sq_retry_row_from_queue(sq_store *store, const sq_lane *lane, int64_t position,
                                  ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef_retry_row pending = {.position = position, .status = EF_ROW_PENDING};
    acked_event event = {0};
    sqlite3_stmt *stmt;
    ef_status st = find_event(store, conn, position, &event, err);

    if (st == EF_OK)
        st = find_row(conn, lane->id, position, &event, err);
    if (st == EF_OK && event.queued)
        st = write_retry_row(conn, lane->id, &pending, &event, sq_now_us(store), err);
    if (st == EF_OK && event.queued)
        st = ef__sq_stmt(conn, SQ_OUTBOX_DELETE, &stmt, err);
    if (st != EF_OK || !event.queued)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, position);
    return ef__sq_done(conn, stmt, err);
}

/* Stores the progress of a publisher, in a format of its own. */
static ef_status set_progress(ef__sq_conn *conn, const sq_lane *lane, ef_str progress,
                              ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__lane_publishes(lane->name, lane->kind, err);

    if (st == EF_OK)
        st = ef__sq_stmt(conn, SQ_LANE_PROGRESS_SET, &stmt, err);
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    ef__sq_bind_str(stmt, 2, progress);
    return ef__sq_done(conn, stmt, err);
}

static ef_status run_ack(sq_store *store, sq_job *base, ef_error *err)
{
    ack_job *job = (ack_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    int64_t now_us = sq_now_us(store);
    sq_lane lane;
    ef_status st = sq_lane_need(conn, job->is->lane, &lane, err);

    if (st == EF_OK)
        st = sq_held_check(store, conn, &lane, job->is->held, job->is->held_count, err);
    if (st == EF_OK && job->is->progress.len)
        st = set_progress(conn, &lane, job->is->progress, err);
    for (size_t i = 0; st == EF_OK && i < job->is->held_count; i++)
        st = check_upto(conn, &lane, &job->is->held[i], err);
    for (size_t i = 0; st == EF_OK && i < job->is->retry_row_count; i++)
        st = ack_retry_row(store, &lane, job, &job->is->retry_rows[i], now_us, err);
    return st == EF_OK ? move_offsets(store, &lane, job, now_us, err) : st;
}

ef_status sq_ack(ef_journal *journal, void *connection, const ef__ack_request *mark, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    /* An ack of "*" without retry rows needs no sync of its own. A power cut undoes it together
     * with all later unsynced commits, so the rows are claimed again. The views of the batch were
     * synced before this ack, and their watermarks drop the duplicates. So no row is deleted whose
     * views are not durable, and no event is applied twice. The next acknowledged append syncs it.
     * A publisher has no watermark, and the attempts of a retry row must not be lost: those are
     * synced. */
    bool is_apply = ef_str_equal(mark->lane, EF_STR(EF_LANE_APPLY));
    ack_job job = {.base = {.run = run_ack,
                            .lazy_sync = is_apply && mark->retry_row_count == 0,
                            .keeps_state = is_apply},
                   .is = mark};

    assert(!connection);
    (void)connection;
    sq_held_map_init(&job.map, mark->held, mark->held_count);
    return sq_count_refused(store, sq_submit(store, &job.base, err));
}
