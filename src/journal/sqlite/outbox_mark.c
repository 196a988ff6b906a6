/*
 * outbox_mark.c - settling a batch on SQLite: exceptions, marks and rows in one transaction.
 *
 * Per lane and partition: rows are all above the mark; `hand` is above it while a batch is in hand,
 * else 0.
 */
#include "outbox.h"

#include "../../core/placement.h"

#include <inttypes.h>

/* --- marks and holdings ----------------------------------------------------------------------- */

void sq_held_map_init(sq_held_map *map, const ef_holding *held, size_t count)
{
    memset(map, 0, sizeof *map);
    for (size_t i = 0; i < count; i++)
        map->of[held[i].partition] = (uint16_t)(i + 1);
}

int sq_held_find(const sq_held_map *map, int32_t partition)
{
    return partition >= 0 && partition < EF_LIMIT_PARTITIONS ? map->of[partition] - 1 : -1;
}

ef_status sq_mark_get(ef__sq_conn *conn, int64_t lane, int32_t partition, sq_mark_row *out,
                      ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_OUTBOX_MARK_GET, &stmt, err);

    *out = (sq_mark_row){0};
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int(stmt, 2, partition);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    *out = (sq_mark_row){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                         sqlite3_column_int64(stmt, 2), sqlite3_column_int64(stmt, 3)};
    sqlite3_reset(stmt);
    return EF_OK;
}

ef_status sq_mark_put(ef__sq_conn *conn, int64_t lane, int32_t partition, const sq_mark_row *mark,
                      int64_t now_us, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_OUTBOX_MARK_PUT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int(stmt, 2, partition);
    sqlite3_bind_int64(stmt, 3, mark->position);
    sqlite3_bind_int64(stmt, 4, mark->hand);
    sqlite3_bind_int64(stmt, 5, mark->hand_token);
    sqlite3_bind_int64(stmt, 6, mark->suspect);
    sqlite3_bind_int64(stmt, 7, now_us);
    return ef__sq_done(conn, stmt, err);
}

/* --- marking ---------------------------------------------------------------------------------- */

typedef struct mark_job {
    sq_job base;
    const ef__marking *is;
    sq_held_map map;
} mark_job;

/* The event that an exception is for, and what there is of it in the outbox. */
typedef struct excepted {
    int64_t stream, seq;
    int32_t partition;
    bool queued;     /* in the lane that is marked */
    sq_exception is; /* the exception as it is */
} excepted;

/* Nobody marks what was not given out under the token. */
static ef_status check_upto(ef__sq_conn *conn, const sq_lane *lane, const ef_holding *held,
                            ef_error *err)
{
    sq_mark_row mark;
    int64_t most;
    ef_status st = sq_mark_get(conn, lane->id, held->partition, &mark, err);

    if (st != EF_OK || held->upto == 0)
        return st;
    most = mark.position;
    if (mark.hand_token == held->token && mark.hand > most)
        most = mark.hand;
    if (held->upto >= mark.position && held->upto <= most)
        return EF_OK;
    return ef_fail_numbers(err, EF_BAD_INPUT, held->upto, most,
                           "lane \"%.*s\", partition %" PRId32 ": upto is %" PRId64
                           ", the mark is at %" PRId64 " and %" PRId64 " was taken",
                           EF_STR_ARG(lane->name), held->partition, held->upto, mark.position,
                           most);
}

/* What a publisher is through with is kept for a while. */
static ef_status keep_passed(ef__sq_conn *conn, const sq_lane *lane, int64_t lowest,
                             int64_t highest, int64_t now_us, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_PUBLISHED_PASSED, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, lowest);
    sqlite3_bind_int64(stmt, 3, highest);
    sqlite3_bind_int64(stmt, 4, now_us);
    return ef__sq_done(conn, stmt, err);
}

static ef_status keep_one(ef__sq_conn *conn, int64_t lane, int64_t position, int64_t now_us,
                          ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_PUBLISHED_INSERT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    sqlite3_bind_int64(stmt, 3, now_us);
    return ef__sq_done(conn, stmt, err);
}

/* is_passed(partition, position), for outbox.sql. */
static void is_passed(sqlite3_context *context, int count, sqlite3_value **values)
{
    const int64_t *passed = sqlite3_user_data(context);
    int64_t partition = sqlite3_value_int64(values[0]);

    (void)count;
    sqlite3_result_int(context, partition >= 0 && partition < EF_LIMIT_PARTITIONS &&
                                    sqlite3_value_int64(values[1]) <= passed[partition]);
}

ef_status sq_passed_ready(sq_store *store, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;

    return ef__sq_fail(conn,
                       sqlite3_create_function_v2(conn->db, "is_passed", 2,
                                                  SQLITE_UTF8 | SQLITE_DIRECTONLY, store->passed,
                                                  is_passed, NULL, NULL, NULL),
                       "opening the journal", err);
}

static ef_status move_marks(sq_store *store, const sq_lane *lane, const mark_job *job,
                            int64_t now_us, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    int64_t lowest = INT64_MAX, highest = 0;
    sqlite3_stmt *stmt;
    sq_mark_row mark;
    ef_status st = EF_OK;

    memset(store->passed, 0, sizeof store->passed);
    for (size_t i = 0; st == EF_OK && i < job->is->held_count; i++) {
        const ef_holding *held = &job->is->held[i];
        st = sq_mark_get(conn, lane->id, held->partition, &mark, err);
        if (st != EF_OK || held->upto <= mark.position)
            continue;
        store->passed[held->partition] = held->upto;
        lowest = mark.position < lowest ? mark.position : lowest;
        highest = held->upto > highest ? held->upto : highest;
        mark.position = held->upto;
        mark.hand = mark.hand > held->upto ? mark.hand : 0;
        mark.suspect = mark.suspect > held->upto ? mark.suspect : 0;
        st = sq_mark_put(conn, lane->id, held->partition, &mark, now_us, err);
    }
    if (st == EF_OK && highest && lane->retain_us)
        st = keep_passed(conn, lane, lowest, highest, now_us, err);
    if (st == EF_OK && highest)
        st = ef__sq_stmt(conn, SQ_OUTBOX_DROP, &stmt, err);
    if (st != EF_OK || !highest)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, lowest);
    sqlite3_bind_int64(stmt, 3, highest);
    return ef__sq_done(conn, stmt, err);
}

/* --- marking: exceptions ---------------------------------------------------------------------- */

/* The event's stream, seq and, by its names, its partition. */
static ef_status find_event(sq_store *store, ef__sq_conn *conn, int64_t position, excepted *out,
                            ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_find(conn, SQ_ROW_EVENT, position, &stmt, &row, err);

    if (st != EF_OK)
        return st;
    if (!row)
        return ef_fail(err, EF_BAD_INPUT, "there is no event at position %" PRId64, position);
    out->partition = ef__partition_of(ef__sq_column_str(stmt, 0), ef__sq_column_str(stmt, 1),
                                      store->writer.txn.progress.partitions);
    out->seq = sqlite3_column_int64(stmt, 2);
    out->stream = sqlite3_column_int64(stmt, 5);
    sqlite3_reset(stmt);
    return EF_OK;
}

/* Is it queued in the lane that is marked? The row knows its partition best. */
static ef_status find_row(ef__sq_conn *conn, int64_t lane, int64_t position, excepted *out,
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

/* The lane of an exception; made when it is a projection's and new. */
static ef_status exception_lane(ef__sq_conn *conn, const sq_lane *marked, const ef_exception *x,
                                sq_lane *out, ef_error *err)
{
    bool fits;
    ef_status st;

    if (marked->kind == EF_LANE_KIND_PUBLISHER) {
        *out = *marked;
        fits = ef_str_equal(x->lane, marked->name);
    } else {
        st = sq_lane_find_or_make(conn, x->lane, out, err);
        if (st != EF_OK)
            return st;
        fits = out->kind == EF_LANE_KIND_PROJECTION;
    }
    return fits ? EF_OK
                : ef_fail(err, EF_BAD_INPUT,
                          "an exception of lane \"%.*s\" cannot be marked in lane \"%.*s\"",
                          EF_STR_ARG(x->lane), EF_STR_ARG(marked->name));
}

/* Only the two at the head of a stream can be wrong about which is first, for one comes or goes at
 * a time. */
static ef_status settle_first(ef__sq_conn *conn, int64_t lane, int64_t stream, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_EXCEPTION_FIRST, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, stream);
    return ef__sq_done(conn, stmt, err);
}

static ef_status delete_exception(ef__sq_conn *conn, int64_t lane, int64_t position, int64_t stream,
                                  ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_EXCEPTION_DELETE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    st = ef__sq_done(conn, stmt, err);
    return st == EF_OK ? settle_first(conn, lane, stream, err) : st;
}

static ef_status insert_exception(ef__sq_conn *conn, int64_t lane, int64_t position,
                                  const excepted *event, const sq_exception *x, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_EXCEPTION_INSERT, &stmt, err);

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
    return st == EF_OK ? settle_first(conn, lane, event->stream, err) : st;
}

static ef_status write_exception(ef__sq_conn *conn, int64_t lane, const ef_exception *x,
                                 const excepted *event, int64_t now_us, ef_error *err)
{
    sq_exception to = event->is;

    to.status = x->status;
    to.skip = to.skip && !x->skip; /* it was passed where it held; this is about the others */
    /* An operator's skip came while its last attempt was under way: it is passed, it does not die.
     */
    if (to.skip && x->status == EF_ROW_DEAD)
        to.status = EF_ROW_PENDING;
    to.attempts = x->attempts;
    to.due_us = to.status == EF_ROW_DEAD ? 0 : x->due_us ? x->due_us : now_us;
    to.error = x->error;
    to.updated_us = now_us;
    to.trying = x->trying;
    if (event->is.found)
        return sq_exception_update(conn, lane, x->position, &to, err);
    return insert_exception(conn, lane, x->position, event, &to, err);
}

/* One that is there stays as it is. */
static ef_status file_again(ef__sq_conn *conn, int64_t lane, int64_t position, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_EXCEPTION_FILED, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    return ef__sq_done(conn, stmt, err);
}

/* An operator's skip came while the attempt was under way that applied the event. */
static ef_status withdraw_skip(ef__sq_conn *conn, const sq_lane *lane, const excepted *event,
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

/* It is over, unless it was filed again since it was taken: then it is due anew, and one that is
 * removed without a lease stays as it is. */
static ef_status finish_exception(ef__sq_conn *conn, const sq_lane *lane, const ef_exception *x,
                                  const excepted *event, bool is_leased, int64_t now_us,
                                  ef_error *err)
{
    ef_exception again = {.position = x->position, .status = EF_ROW_PENDING};
    ef_status st = EF_OK;

    if (!event->is.found || (!is_leased && event->is.filed != x->filed))
        return EF_OK;
    if (event->is.filed != x->filed)
        return write_exception(conn, lane->id, &again, event, now_us, err);
    if (event->is.skip && !x->skip && lane->kind == EF_LANE_KIND_PROJECTION)
        st = withdraw_skip(conn, lane, event, now_us, err);
    if (st == EF_OK && lane->retain_us && !event->is.skip)
        st = keep_one(conn, lane->id, x->position, now_us, err);
    return st == EF_OK ? delete_exception(conn, lane->id, x->position, event->stream, err) : st;
}

static ef_status settle_exception(sq_store *store, const sq_lane *marked, const mark_job *job,
                                  const ef_exception *x, int64_t now_us, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    excepted event = {0};
    sq_lane lane;
    int h;
    ef_status st = find_event(store, conn, x->position, &event, err);

    if (st == EF_OK)
        st = find_row(conn, marked->id, x->position, &event, err);
    if (st == EF_OK)
        st = exception_lane(conn, marked, x, &lane, err);
    if (st == EF_OK)
        st = sq_exception_get(conn, lane.id, x->position, NULL, &event.is, err);
    if (st != EF_OK)
        return st;
    /* The number of partitions may have changed since. */
    if (event.is.found && !event.queued)
        event.partition = event.is.partition;
    h = sq_held_find(&job->map, event.partition);
    if (h < 0 && job->is->held_count)
        return ef_fail(err, EF_BAD_INPUT,
                       "position %" PRId64 " is in partition %" PRId32 ", which is not held",
                       x->position, event.partition);
    if (x->status == EF_ROW_DONE)
        return finish_exception(conn, &lane, x, &event, job->is->held_count > 0, now_us, err);
    if (!job->is->held_count)
        return event.is.found ? file_again(conn, lane.id, x->position, err)
                              : write_exception(conn, lane.id, x, &event, now_us, err);
    /* One whose row is gone stays gone, unless this call moves the mark past the queued event; and
     * then one that was filed before stays as it is, with the attempts that it has had. */
    if (event.is.found == (event.queued && x->position <= job->is->held[h].upto))
        return EF_OK;
    return write_exception(conn, lane.id, x, &event, now_us, err);
}

ef_status sq_exception_again(sq_store *store, const sq_lane *lane, int64_t position, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef_exception pending = {.position = position, .status = EF_ROW_PENDING};
    excepted event = {0};
    ef_status st = find_event(store, conn, position, &event, err);

    if (st == EF_OK)
        st = sq_exception_get(conn, lane->id, position, NULL, &event.is, err);
    if (st != EF_OK || event.is.found)
        return st;
    return write_exception(conn, lane->id, &pending, &event, sq_now_us(store), err);
}

ef_status sq_exception_from_queue(sq_store *store, const sq_lane *lane, int64_t position,
                                  ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef_exception pending = {.position = position, .status = EF_ROW_PENDING};
    excepted event = {0};
    sqlite3_stmt *stmt;
    ef_status st = find_event(store, conn, position, &event, err);

    if (st == EF_OK)
        st = find_row(conn, lane->id, position, &event, err);
    if (st == EF_OK && event.queued)
        st = write_exception(conn, lane->id, &pending, &event, sq_now_us(store), err);
    if (st == EF_OK && event.queued)
        st = ef__sq_stmt(conn, SQ_OUTBOX_DELETE, &stmt, err);
    if (st != EF_OK || !event.queued)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, position);
    return ef__sq_done(conn, stmt, err);
}

/* How far a publisher's lane is, in its owner's own terms. */
static ef_status note_progress(ef__sq_conn *conn, const sq_lane *lane, ef_str progress,
                               ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__lane_publishes(lane->name, lane->kind, err);

    if (st == EF_OK)
        st = ef__sq_stmt(conn, SQ_LANE_NOTE, &stmt, err);
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    ef__sq_bind_str(stmt, 2, progress);
    return ef__sq_done(conn, stmt, err);
}

static ef_status run_mark(sq_store *store, sq_job *base, ef_error *err)
{
    mark_job *job = (mark_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    int64_t now_us = sq_now_us(store);
    sq_lane lane;
    ef_status st = sq_lane_need(conn, job->is->lane, &lane, err);

    if (st == EF_OK)
        st = sq_held_check(store, conn, &lane, job->is->held, job->is->held_count, err);
    if (st == EF_OK && job->is->progress.len)
        st = note_progress(conn, &lane, job->is->progress, err);
    for (size_t i = 0; st == EF_OK && i < job->is->held_count; i++)
        st = check_upto(conn, &lane, &job->is->held[i], err);
    for (size_t i = 0; st == EF_OK && i < job->is->exception_count; i++)
        st = settle_exception(store, &lane, job, &job->is->exceptions[i], now_us, err);
    return st == EF_OK ? move_marks(store, &lane, job, now_us, err) : st;
}

ef_status sq_mark(ef_journal *journal, const ef__marking *mark, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    /* A mark of "*" that files nothing need not be on the disk when we return. A power cut takes
     * it back together with all that was committed since the last sync, so the rows are there again
     * and are taken again. The views of the batch were synced before it was marked, and their
     * watermarks decide: what comes again is a duplicate. So nothing goes from the outbox whose
     * views are not safe, and nothing counts twice. An acknowledged append syncs what was committed
     * before it, too. A publisher has no such witness, and of an exception the attempts count. */
    bool may_be_lost =
        mark->exception_count == 0 && ef_str_equal(mark->lane, EF_STR(EF_LANE_APPLY));
    mark_job job = {.base = {.run = run_mark, .may_be_lost = may_be_lost}, .is = mark};

    sq_held_map_init(&job.map, mark->held, mark->held_count);
    return sq_refused(store, sq_submit(store, &job.base, err));
}
