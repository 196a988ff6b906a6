/*
 * outbox_claim.c - claiming rows of the outbox on SQLite.
 *
 * A claim reads rows and events in a read transaction, so that the write lock is needed only to
 * record which rows are in flight, under which token. The write compares tokens and offsets with
 * what was read. Rows are in order of position and only an ack removes them, so as long as the
 * offsets are unchanged, nothing that was read has changed.
 */
#include "outbox.h"
#include "row.h"

#include <inttypes.h>

#define TAKE_BYTES_ENOUGH (16u << 20) /* a batch ends here even if more rows were requested */
#define STEPS_FOR_A_SEARCH 4          /* events to step over before a search is cheaper */

/* --- reading ---------------------------------------------------------------------------------- */

/* A row that was found, before its event is read. */
typedef struct pick {
    int64_t position;
    ef_claimed_row item; /* without its event */
} pick;

typedef struct claim_job {
    sq_store *store;
    ef__sq_conn *conn; /* while reading */
    sq_lane lane;
    const ef__claim_request *is;
    size_t limit; /* of this batch */
    ef__held_map map;
    ef_claimed_batch *out;
    ef__arena *arena; /* of `out` */
    pick *picks;
    size_t pick_count, pick_cap;
    ef__lane_offset *before;  /* by held lease, as read … */
    ef__lane_offset *planned; /* … and as they will be */
    bool *recorded; /* by held lease: this claim reads rows of it, or changes its offset */
    bool changed;   /* a recorded offset has changed since: read again */
} claim_job;

static ef_status add_pick(claim_job *job, pick picked, ef_error *err)
{
    pick *picks =
        ef__arena_grow(job->arena, job->picks, job->pick_count, sizeof *picks, &job->pick_cap);

    if (!picks)
        return ef__no_memory(err);
    picks[job->pick_count++] = picked;
    job->picks = picks;
    return EF_OK;
}

/* Finds the event at `position`. Picks are mostly close to each other, and a step is much cheaper
 * than a search, so the statement is stepped on from `*at` if that is near; 0: it has no row. */
static ef_status find_event(claim_job *job, ef__sq_rows *rows, int64_t *at, int64_t position,
                            ef_error *err)
{
    if (*at == 0 || position <= *at || position - *at > STEPS_FOR_A_SEARCH) {
        (void)ef__sq_rows_end(rows);
        *rows = sq_each_event_after(job->conn, position - 1, err);
        *at = 0;
    }
    while (*at < position && ef__sq_rows_next(rows))
        *at = sqlite3_column_int64(rows->stmt, SQ_COLUMN_POSITION);
    if (rows->status == EF_OK && *at != position)
        return ef_fail(err, EF_DAMAGED,
                       "an outbox row has no event: position %" PRId64 " is missing", position);
    return rows->status;
}

/* Publishers only: whether the stream of the current event has an earlier retry row. */
static ef_status check_blocked(claim_job *job, sqlite3_stmt *event, bool *out, ef_error *err)
{
    return sq_one_retry_row_before(
        job->conn,
        &(struct sq_retry_row_before){.lane = job->lane.id,
                                      .stream = sqlite3_column_int64(event, SQ_COLUMN_STREAM),
                                      .seq = sqlite3_column_int64(event, SQ_COLUMN_SEQ)},
        out, err);
}

/* Whether that has to be checked: most lanes have no retry row. */
static ef_status lane_may_block(claim_job *job, bool *out, ef_error *err)
{
    *out = false;
    if (job->lane.kind != EF_LANE_KIND_PUBLISHER || job->is->due)
        return EF_OK;
    return sq_one_retry_row_any(job->conn, job->lane.id, out, err);
}

/* Fills the batch with the picks; it ends early at the byte limit. */
static ef_status load_picks(claim_job *job, ef_error *err)
{
    size_t count = job->pick_count < job->limit ? job->pick_count : job->limit;
    ef_claimed_row *items = ef__arena_zalloc(job->arena, count + 1, sizeof *items);
    ef_event *events = ef__arena_zalloc(job->arena, count + 1, sizeof *events);
    ef__sq_rows found = {0}; /* rows of event_after */
    sq_rows rows = {0};
    int64_t at = 0;
    bool look = false;
    size_t i;
    ef_status st = items && events ? EF_OK : ef__no_memory(err);

    if (st == EF_OK)
        st = lane_may_block(job, &look, err);
    if (st == EF_OK)
        st = sq_rows_init(&rows, job->store, job->conn, job->arena, count, err);
    for (i = 0; st == EF_OK && i < count; i++) {
        if (i > 0 && job->arena->used_bytes > TAKE_BYTES_ENOUGH)
            break;
        items[i] = job->picks[i].item;
        items[i].event = &events[i];
        st = find_event(job, &found, &at, job->picks[i].position, err);
        if (st == EF_OK && look)
            st = check_blocked(job, found.stmt, &items[i].waits, err);
        if (st == EF_OK)
            st = sq_rows_event(&rows, found.stmt, &events[i], err);
    }
    sq_rows_release(&rows);
    (void)ef__sq_rows_end(&found);
    if (st != EF_OK)
        return st;
    job->out->items = items;
    job->out->events.events = events;
    job->out->count = job->out->events.count = i;
    job->out->more = job->out->more || i < job->pick_count; /* suspects: the rest one by one */
    return EF_OK;
}

static ef_status load_offsets(claim_job *job, int64_t *out_lowest, ef_error *err)
{
    size_t count = job->is->held_count;
    struct sq_lane_offset_between range = {.lane = job->lane.id, .first = EF_LIMIT_PARTITIONS};
    struct sq_lane_offset_between_row row;
    ef_status st;

    *out_lowest = INT64_MAX;
    job->before = ef__arena_zalloc(job->arena, count, sizeof *job->before);
    job->planned = ef__arena_zalloc(job->arena, count, sizeof *job->planned);
    job->recorded = ef__arena_zalloc(job->arena, count, sizeof *job->recorded);
    if (!job->before || !job->planned || !job->recorded)
        return ef__no_memory(err);
    for (size_t i = 0; i < count; i++) {
        int32_t partition = job->is->held[i].partition;
        range.first = partition < range.first ? partition : range.first;
        range.last = partition > range.last ? partition : range.last;
    }
    ef__sq_rows rows = sq_each_lane_offset_between(job->conn, &range, err);
    while (sq_next_lane_offset_between(&rows, &row)) {
        int h = ef__held_find(&job->map, (int32_t)row.partition);
        if (h >= 0)
            job->before[h] = (ef__lane_offset){row.position, row.in_flight, row.in_flight_token,
                                               row.suspect};
    }
    st = ef__sq_rows_end(&rows);
    for (size_t i = 0; i < count; i++) {
        job->planned[i] = job->before[i];
        if (job->before[i].position < *out_lowest)
            *out_lowest = job->before[i].position;
    }
    return st;
}

/* Picks queued rows above `after` in the held partitions, or in that of lease `only` up to `upto`;
 * one more than `limit`, in order to know whether there are more. */
static ef_status pick_queued(claim_job *job, ef_str lane, int64_t after, int only, int64_t upto,
                             size_t limit, ef_error *err)
{
    ef__sq_rows rows = sq_each_outbox_after(
        job->conn, &(struct sq_outbox_after){.lane = job->lane.id, .position = after}, err);
    struct sq_outbox_after_row row;

    while (job->pick_count <= limit && sq_next_outbox_after(&rows, &row) && row.position <= upto) {
        int h = ef__held_find(&job->map, (int32_t)row.partition);
        ef_claimed_row item = {
            .lane = lane, .partition = (int32_t)row.partition, .suspect = only >= 0};
        if (h >= 0 && row.position > job->before[h].position && (only < 0 || h == only))
            rows.status = add_pick(job, (pick){row.position, item}, err);
    }
    return ef__sq_rows_end(&rows);
}

/* Picks suspect rows of one partition: EF_SUSPECT_PIECE of many, or a single one of few, so that
 * the event that causes the crash is found. */
static ef_status find_suspects(claim_job *job, ef_str lane, ef_error *err)
{
    size_t piece = job->limit < EF_SUSPECT_PIECE ? job->limit : EF_SUSPECT_PIECE;
    ef_status st = EF_OK;

    for (size_t h = 0; st == EF_OK && job->pick_count == 0 && h < job->is->held_count; h++) {
        int64_t upto = ef__lane_offset_suspect(&job->before[h], job->is->held[h].token);
        if (upto > job->before[h].position)
            st = pick_queued(job, lane, job->before[h].position, (int)h, upto, EF_SUSPECT_PIECE,
                             err);
    }
    if (job->pick_count)
        job->limit = job->pick_count > EF_SUSPECT_PIECE ? piece : 1;
    return st;
}

static ef_status find_queued(claim_job *job, ef_str lane, ef_error *err)
{
    int64_t lowest;
    ef_status st = load_offsets(job, &lowest, err);

    if (st == EF_OK && job->lane.kind != EF_LANE_KIND_PUBLISHER)
        st = find_suspects(job, lane, err);
    if (st != EF_OK || job->pick_count)
        return st;
    return pick_queued(job, lane, lowest > job->is->after ? lowest : job->is->after, -1, INT64_MAX,
                       job->limit, err);
}

/* A due row that is the first of its stream. */
typedef struct due_row {
    pick first;
    int64_t lane, stream, seq;
} due_row;

/* Picks up to `space` pending rows after a retry row in its stream, up to one of another partition:
 * after a change of the number of partitions, a stream can have rows in two. Without space it only
 * sets `more`. */
static ef_status pick_following(claim_job *job, const due_row *due, size_t *space, ef_error *err)
{
    ef__sq_rows rows = sq_each_retry_row_following(
        job->conn,
        &(struct sq_retry_row_following){.lane = due->lane, .stream = due->stream, .seq = due->seq},
        err);
    struct sq_retry_row_following_row row;

    while ((*space || !job->out->more) && sq_next_retry_row_following(&rows, &row)) {
        ef_claimed_row item = {.lane = due->first.item.lane,
                               .partition = (int32_t)row.partition,
                               .attempts = (int32_t)row.attempts,
                               .skip = row.skip,
                               .follows = true,
                               .filed = row.filed};
        if (row.status != EF_ROW_PENDING || ef__held_find(&job->map, item.partition) < 0)
            break;
        if (*space == 0) {
            job->out->more = true;
            break;
        }
        rows.status = add_pick(job, (pick){row.position, item}, err);
        --*space;
    }
    return ef__sq_rows_end(&rows);
}

/* Finds due rows; one more than the limit, in order to know whether there are more. */
static ef_status find_due_rows(claim_job *job, int64_t now_us, due_row **out, size_t *out_count,
                               ef_error *err)
{
    ef__sq_rows rows = sq_each_retry_row_due(
        job->conn, &(struct sq_retry_row_due){.lane = job->lane.id, .now = now_us}, job->arena,
        err);
    struct sq_retry_row_due_row row;
    size_t cap = 0;

    while (*out_count <= job->limit && sq_next_retry_row_due(&rows, &row)) {
        ef_claimed_row item = {.lane = row.lane,
                               .partition = (int32_t)row.partition,
                               .attempts = (int32_t)row.attempts,
                               .skip = row.skip,
                               .error = row.error,
                               .filed = row.filed,
                               .interrupted = row.trying};
        due_row *due;
        if (ef__held_find(&job->map, item.partition) < 0)
            continue;
        due = ef__arena_grow(job->arena, *out, *out_count, sizeof *due, &cap);
        if (!due) {
            rows.status = ef__no_memory(err);
            continue;
        }
        due[(*out_count)++] = (due_row){{row.position, item}, row.lane_id, row.stream, row.seq};
        *out = due;
    }
    return ef__sq_rows_end(&rows);
}

/* The rows that follow get the space that due rows leave: if a thousand streams fail, their next
 * thousand rows each are not read with every attempt. */
static ef_status find_due(claim_job *job, ef_error *err)
{
    int64_t now_us = sq_now_us(job->store);
    due_row *due = NULL;
    size_t count = 0, space;
    ef_status st = find_due_rows(job, now_us, &due, &count, err);

    space = count < job->limit ? job->limit - count : 0;
    job->out->more = count > job->limit;
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        st = add_pick(job, due[i].first, err);
        if (st == EF_OK)
            st = pick_following(job, &due[i], &space, err);
    }
    return st == EF_OK
               ? sq_one_retry_row_next_due(
                     job->conn, &(struct sq_retry_row_next_due){job->lane.id, .now = now_us},
                     &job->out->next_due_us, NULL, err)
               : st;
}

/* One read transaction: leases, offsets, rows and events of one snapshot. `lane` "" means the lanes
 * of all projections, which need the leases of "*". */
static ef_status read_batch(claim_job *job, ef_error *err)
{
    ef_str lane = job->is->lane, name = {0};
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(&job->store->base, &reader, err);

    if (st != EF_OK)
        return st;
    job->conn = &reader->conn;
    job->lane = (sq_lane){.kind = EF_LANE_KIND_APPLY};
    if (lane.len)
        st = sq_lane_need(job->conn, lane, &job->lane, err);
    if (st == EF_OK)
        st = sq_held_check(job->store, job->conn, &job->lane, job->is->held, job->is->held_count,
                           err);
    if (st == EF_OK && job->is->after)
        st = ef__lane_publishes(lane, job->lane.kind, err);
    if (st == EF_OK && !(name = ef__arena_copy(job->arena, lane)).ptr)
        st = ef__no_memory(err);
    if (st == EF_OK)
        st = job->is->due ? find_due(job, err) : find_queued(job, name, err);
    return st == EF_OK ? load_picks(job, err) : st;
}

/* --- recording rows in flight ----------------------------------------------------------------- */

/* Computes the new offsets; false when nothing changes. */
static bool plan_offsets(claim_job *job)
{
    bool changes = false;

    ef__lane_offsets_claim(job->planned, job->is->held, job->is->held_count, &job->map, job->out,
                           job->is->after != 0);
    for (size_t h = 0; h < job->is->held_count; h++) {
        job->recorded[h] = !ef__lane_offset_same(&job->planned[h], &job->before[h]);
        changes = changes || job->recorded[h];
    }
    for (size_t i = 0; i < job->out->count; i++)
        job->recorded[ef__held_find(&job->map, job->out->items[i].partition)] = true;
    return changes;
}

/* Compares one lease and its offset with what was read. */
static ef_status check_unchanged(claim_job *job, ef__sq_conn *conn, size_t h, ef_error *err)
{
    const ef_partition_lease *held = &job->is->held[h];
    ef__lane_offset now;
    ef_status st = sq_held_check(job->store, conn, &job->lane, held, 1, err);

    if (st == EF_OK)
        st = sq_offset_get(conn, job->lane.id, held->partition, &now, err);
    job->changed =
        job->changed || (st == EF_OK && !ef__lane_offset_same(&now, &job->before[h]));
    return st;
}

/* Leases without a row of this batch are not compared again: one that was lost since loses nothing
 * to this claim. */
static ef_status record_claim(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                              ef_error *err)
{
    claim_job *job = out;
    int64_t now_us = sq_now_us(store);
    ef_status st = EF_OK;

    (void)asked;
    job->changed = false;
    for (size_t h = 0; st == EF_OK && h < job->is->held_count; h++)
        if (job->recorded[h])
            st = check_unchanged(job, conn, h, err);
    for (size_t h = 0; st == EF_OK && !job->changed && h < job->is->held_count; h++)
        if (!ef__lane_offset_same(&job->planned[h], &job->before[h]))
            st = sq_run_lane_offset_put(conn,
                                        &(struct sq_lane_offset_put){job->lane.id,
                                                                     job->is->held[h].partition,
                                                                     &job->planned[h], now_us},
                                        err);
    return st;
}

static ef_status claim_once(claim_job *job, ef_error *err)
{
    /* The record is for the next owner after a crash of the process, so it need not survive a power
     * cut: a power cut ends all processes, for which no event is suspect. So it needs no sync of
     * its own. */
    sq_job write = {.call = record_claim, .out = job, .lazy_sync = true, .keeps_state = true};
    ef_status st = ef__memory_prepare(&job->out->events.room, err);

    job->arena = &job->out->events.room->arena;
    job->picks = NULL;
    job->pick_count = job->pick_cap = 0;
    job->limit = job->is->limit;
    job->changed = job->out->more = false;
    if (st == EF_OK)
        st = read_batch(job, err);
    /* Due rows are not recorded: a retry row counts its own attempts. And a claim that finds
     * nothing writes nothing. */
    if (st != EF_OK || job->is->due || !plan_offsets(job))
        return st;
    return sq_submit(job->store, &write, err);
}

ef_status sq_claim(ef_journal *journal, const ef__claim_request *request, ef_claimed_batch *out,
                   ef_error *err)
{
    claim_job job = {.store = sq_store_of(journal), .is = request, .out = out};
    ef_status st;

    ef__held_map_init(&job.map, request->held, request->held_count);
    /* Only another thread under the same tokens can have moved the offsets between the read and the
     * write: each repetition means that the other one made progress. */
    do
        st = claim_once(&job, err);
    while (st == EF_OK && job.changed);
    return sq_count_refused(job.store, st);
}
