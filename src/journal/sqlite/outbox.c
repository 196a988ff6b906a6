/*
 * outbox.c - taking from the outbox and marking what was taken, on SQLite.
 *
 * Taking reads in a read transaction of its own, events and all, so that the writer's lock is held
 * for the note alone: which rows are in hand, under which token. The note compares tokens and marks
 * with what was read. Rows come in the order of positions and only a mark removes them, so between
 * the two nothing that was read can have changed while the marks have not.
 *
 * Per lane and partition: rows are all above the mark; `hand` is above it while a batch is in hand,
 * else 0. What was in hand under an older token is suspect until the mark has passed it.
 */
#include "outbox.h"

#include "../../core/placement.h"

#include <inttypes.h>

#define EVENT_BYTES_MAX (2 * EF_LIMIT_DATA_BYTES) /* an event with all its texts fits in this */

typedef struct mark_row {
    int64_t position, hand, hand_token, suspect;
} mark_row;

/* Which holding a partition is of: index + 1, 0 where it is not held. */
typedef struct held_map {
    uint16_t of[EF_LIMIT_PARTITIONS];
} held_map;

static void map_held(held_map *map, const ef_holding *held, size_t count)
{
    memset(map, 0, sizeof *map);
    for (size_t i = 0; i < count; i++)
        map->of[held[i].partition] = (uint16_t)(i + 1);
}

/* The index of the holding, or -1. */
static int find_held(const held_map *map, int32_t partition)
{
    return partition >= 0 && partition < EF_LIMIT_PARTITIONS ? map->of[partition] - 1 : -1;
}

static ef_status need_lane(sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_status st = sq_lane_find(conn, name, out, err);

    if (st == EF_OK && out->id == 0)
        st = ef_fail(err, EF_NOT_FOUND, "there is no lane \"%.*s\"", EF_STR_ARG(name));
    return st;
}

/* All zero when nothing was ever taken there. */
static ef_status get_mark(sq_conn *conn, int64_t lane, int32_t partition, mark_row *out,
                          ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_OUTBOX_MARK_GET, &stmt, err);

    *out = (mark_row){0};
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int(stmt, 2, partition);
    st = sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    *out = (mark_row){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                      sqlite3_column_int64(stmt, 2), sqlite3_column_int64(stmt, 3)};
    sqlite3_reset(stmt);
    return EF_OK;
}

static ef_status put_mark(sq_conn *conn, int64_t lane, int32_t partition, const mark_row *mark,
                          int64_t now_us, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = sq_stmt(conn, SQ_OUTBOX_MARK_PUT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int(stmt, 2, partition);
    sqlite3_bind_int64(stmt, 3, mark->position);
    sqlite3_bind_int64(stmt, 4, mark->hand);
    sqlite3_bind_int64(stmt, 5, mark->hand_token);
    sqlite3_bind_int64(stmt, 6, mark->suspect);
    sqlite3_bind_int64(stmt, 7, now_us);
    return sq_done(conn, stmt, err);
}

static bool same_mark(const mark_row *a, const mark_row *b)
{
    return a->position == b->position && a->hand == b->hand && a->hand_token == b->hand_token &&
           a->suspect == b->suspect;
}

/* --- taking: reading -------------------------------------------------------------------------- */

/* A row that was found, before its event is read. */
typedef struct pick {
    int64_t position;
    ef_taken item; /* without its event */
} pick;

typedef struct taking {
    sq_job base; /* the note */
    sq_store *store;
    sq_conn *conn; /* while reading */
    sq_lane lane;
    const ef_holding *held;
    size_t held_count, limit;
    held_map map;
    ef_taken_batch *out;
    ef__arena *arena; /* out's */
    pick *picks;
    size_t pick_count;
    mark_row *marks; /* per holding, as read … */
    mark_row *notes; /* … and as they are to be */
    bool changed;    /* the marks are others than were read: read again */
} taking;

static ef_status add_pick(taking *t, pick picked, ef_error *err)
{
    pick *picks = sq_list_grow(t->arena, t->picks, t->pick_count, sizeof *picks);

    if (!picks)
        return ef__room_full(err);
    picks[t->pick_count++] = picked;
    t->picks = picks;
    return EF_OK;
}

static ef_status load_event(taking *t, int64_t position, ef_event *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(t->conn, SQ_EVENT_AT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, position);
    st = sq_row(t->conn, stmt, &row, err);
    if (st != EF_OK)
        return st;
    if (!row)
        return ef_fail(err, EF_DAMAGED, "an outbox row is for position %" PRId64 ", which is gone",
                       position);
    st = sq_event_from_row(t->store, t->conn, stmt, t->arena, out, err);
    sqlite3_reset(stmt);
    return st;
}

/* Make the batch of the picks; it ends early when the room is nearly full. */
static ef_status load_picks(taking *t, ef_error *err)
{
    size_t count = t->pick_count < t->limit ? t->pick_count : t->limit;
    ef_taken *items = ef__arena_zalloc(t->arena, count + 1, sizeof *items);
    ef_event *events = ef__arena_zalloc(t->arena, count + 1, sizeof *events);
    size_t i;
    ef_status st = items && events ? EF_OK : ef__room_full(err);

    for (i = 0; st == EF_OK && i < count; i++) {
        if (i > 0 && t->arena->used_bytes + EVENT_BYTES_MAX > t->arena->max_bytes)
            break;
        items[i] = t->picks[i].item;
        items[i].event = &events[i];
        st = load_event(t, t->picks[i].position, &events[i], err);
    }
    if (st != EF_OK)
        return st;
    t->out->items = items;
    t->out->events.events = events;
    t->out->count = t->out->events.count = i;
    t->out->more = i < t->pick_count;
    return EF_OK;
}

static ef_status load_marks(taking *t, int64_t *out_lowest, ef_error *err)
{
    ef_status st = EF_OK;

    *out_lowest = INT64_MAX;
    t->marks = ef__arena_zalloc(t->arena, t->held_count, sizeof *t->marks);
    t->notes = ef__arena_zalloc(t->arena, t->held_count, sizeof *t->notes);
    if (!t->marks || !t->notes)
        return ef__room_full(err);
    for (size_t i = 0; st == EF_OK && i < t->held_count; i++) {
        st = get_mark(t->conn, t->lane.id, t->held[i].partition, &t->marks[i], err);
        t->notes[i] = t->marks[i];
        if (t->marks[i].position < *out_lowest)
            *out_lowest = t->marks[i].position;
    }
    return st;
}

/* A new owner finds what the last one left in hand: nobody can say what became of it. */
static bool is_suspect(const mark_row *mark, int64_t token, int64_t position)
{
    return position <= mark->suspect || (mark->hand_token != token && position <= mark->hand);
}

static ef_status find_queued(taking *t, ef_str lane, ef_error *err)
{
    int64_t lowest;
    sqlite3_stmt *stmt;
    bool row = true;
    ef_status st = load_marks(t, &lowest, err);

    if (st == EF_OK)
        st = sq_stmt(t->conn, SQ_OUTBOX_AFTER, &stmt, err);
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, t->lane.id);
    sqlite3_bind_int64(stmt, 2, lowest);
    while (t->pick_count <= t->limit && (st = sq_row(t->conn, stmt, &row, err)) == EF_OK && row) {
        int64_t position = sqlite3_column_int64(stmt, 0);
        int32_t partition = sqlite3_column_int(stmt, 1);
        int h = find_held(&t->map, partition);
        if (h < 0 || position <= t->marks[h].position)
            continue;
        bool suspect = is_suspect(&t->marks[h], t->held[h].token, position);
        ef_taken item = {.lane = lane, .partition = partition, .suspect = suspect};
        if ((st = add_pick(t, (pick){position, item}, err)) != EF_OK)
            break;
    }
    sqlite3_reset(stmt);
    return st;
}

static ef_status find_due(taking *t, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row = true;
    ef_status st = sq_stmt(t->conn, SQ_EXCEPTION_DUE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, t->lane.id);
    sqlite3_bind_int64(stmt, 2, sq_now_us(t->store));
    while (t->pick_count <= t->limit && (st = sq_row(t->conn, stmt, &row, err)) == EF_OK && row) {
        ef_taken item = {.partition = sqlite3_column_int(stmt, 1),
                         .attempts = sqlite3_column_int(stmt, 2),
                         .skip = sqlite3_column_int(stmt, 3) != 0};
        if (find_held(&t->map, item.partition) < 0)
            continue;
        item.lane = sq_column_copy(stmt, 4, t->arena);
        st = item.lane.ptr ? add_pick(t, (pick){sqlite3_column_int64(stmt, 0), item}, err)
                           : ef__room_full(err);
        if (st != EF_OK)
            break;
    }
    sqlite3_reset(stmt);
    return st;
}

/* One read transaction: leases, marks, rows and events as of one moment. `lane` "" is the own lanes
 * of all projections, which are held as "*" is. */
static ef_status read_batch(taking *t, ef_str lane, bool due, ef_error *err)
{
    sq_reader *reader;
    ef_str name = {0};
    ef_status st = sq_read_begin(t->store, &reader, err);

    if (st != EF_OK)
        return st;
    t->conn = &reader->conn;
    t->lane = (sq_lane){.kind = EF_LANE_KIND_APPLY};
    if (lane.len)
        st = need_lane(t->conn, lane, &t->lane, err);
    if (st == EF_OK)
        st = sq_held_check(t->store, t->conn, &t->lane, t->held, t->held_count, err);
    if (st == EF_OK && !(name = ef__arena_copy(t->arena, lane)).ptr)
        st = ef__room_full(err);
    if (st == EF_OK)
        st = due ? find_due(t, err) : find_queued(t, name, err);
    if (st == EF_OK)
        st = load_picks(t, err);
    sq_read_end(t->store, reader);
    return st;
}

/* --- taking: the note ------------------------------------------------------------------------- */

/* What the marks are to say; false when they say so already. */
static bool plan_notes(taking *t)
{
    bool any = false;

    for (size_t i = 0; i < t->out->count; i++) {
        int h = find_held(&t->map, t->out->items[i].partition);
        mark_row *note = &t->notes[h];
        if (note->hand_token != t->held[h].token) {
            note->suspect = note->hand > note->suspect ? note->hand : note->suspect;
            note->hand_token = t->held[h].token;
            note->hand = 0;
        }
        if (t->out->items[i].event->position > note->hand)
            note->hand = t->out->items[i].event->position;
    }
    for (size_t h = 0; h < t->held_count; h++)
        any = any || !same_mark(&t->notes[h], &t->marks[h]);
    return any;
}

static ef_status run_note(sq_store *store, sq_job *base, ef_error *err)
{
    taking *t = (taking *)base;
    sq_conn *conn = &store->writer.conn;
    int64_t now_us = sq_now_us(store);
    mark_row now;
    ef_status st = sq_held_check(store, conn, &t->lane, t->held, t->held_count, err);

    t->changed = false;
    for (size_t h = 0; st == EF_OK && h < t->held_count; h++) {
        st = get_mark(conn, t->lane.id, t->held[h].partition, &now, err);
        t->changed = t->changed || !same_mark(&now, &t->marks[h]);
    }
    for (size_t h = 0; st == EF_OK && !t->changed && h < t->held_count; h++)
        if (!same_mark(&t->notes[h], &t->marks[h]))
            st = put_mark(conn, t->lane.id, t->held[h].partition, &t->notes[h], now_us, err);
    return st;
}

static ef_status take_once(taking *t, ef_str lane, bool due, ef_error *err)
{
    ef_status st = ef__room_ready(&t->out->events.room, err);

    t->arena = &t->out->events.room->arena;
    t->picks = NULL;
    t->pick_count = 0;
    t->changed = false;
    if (st == EF_OK)
        st = read_batch(t, lane, due, err);
    /* What is due is not noted: it is an exception, and counts its attempts itself. And an engine
     * that finds nothing writes nothing. */
    if (st != EF_OK || due || !plan_notes(t))
        return st;
    return sq_submit(t->store, &t->base, err);
}

ef_status sq_take(ef_journal *journal, ef_str lane, bool due_exceptions, const ef_holding *held,
                  size_t held_count, size_t limit, ef_taken_batch *out, ef_error *err)
{
    taking t = {.base = {.run = run_note},
                .store = sq_store_of(journal),
                .held = held,
                .held_count = held_count,
                .limit = limit,
                .out = out};
    ef_status st;

    map_held(&t.map, held, held_count);
    /* Only another thread under the same tokens can have moved the marks between reading and
     * noting: every round but the last means that it got on. */
    do
        st = take_once(&t, lane, due_exceptions, err);
    while (st == EF_OK && t.changed);
    return sq_refused(t.store, st);
}

/* --- marking ---------------------------------------------------------------------------------- */

typedef struct mark_job {
    sq_job base;
    ef_str lane;
    const ef_holding *held;
    size_t held_count;
    held_map map;
    const ef_exception *exceptions;
    size_t exception_count;
} mark_job;

/* The event that an exception is for, and what there is of it in the outbox. */
typedef struct excepted {
    int64_t stream, seq;
    int32_t partition;
    bool queued;     /* in the lane that is marked */
    sq_exception is; /* the exception as it is */
} excepted;

/* Nobody marks what was not given out under the token. */
static ef_status check_upto(sq_conn *conn, const sq_lane *lane, const ef_holding *held,
                            ef_error *err)
{
    mark_row mark;
    int64_t most;
    ef_status st = get_mark(conn, lane->id, held->partition, &mark, err);

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

static ef_status move_marks(sq_conn *conn, const sq_lane *lane, const mark_job *job, int64_t now_us,
                            ef_error *err)
{
    int64_t lowest = INT64_MAX, highest = 0;
    sqlite3_stmt *stmt;
    mark_row mark;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < job->held_count; i++) {
        const ef_holding *held = &job->held[i];
        st = get_mark(conn, lane->id, held->partition, &mark, err);
        if (st != EF_OK || held->upto <= mark.position)
            continue;
        lowest = mark.position < lowest ? mark.position : lowest;
        highest = held->upto > highest ? held->upto : highest;
        mark.position = held->upto;
        mark.hand = mark.hand > held->upto ? mark.hand : 0;
        mark.suspect = mark.suspect > held->upto ? mark.suspect : 0;
        st = put_mark(conn, lane->id, held->partition, &mark, now_us, err);
    }
    if (st == EF_OK && highest)
        st = sq_stmt(conn, SQ_OUTBOX_DROP, &stmt, err);
    if (st != EF_OK || !highest)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, lowest);
    sqlite3_bind_int64(stmt, 3, highest);
    return sq_done(conn, stmt, err);
}

/* --- marking: exceptions ---------------------------------------------------------------------- */

/* The event's stream, seq and, by its names, its partition. */
static ef_status find_event(sq_store *store, sq_conn *conn, int64_t position, excepted *out,
                            ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_stmt(conn, SQ_ROW_EVENT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, position);
    st = sq_row(conn, stmt, &row, err);
    if (st != EF_OK)
        return st;
    if (!row)
        return ef_fail(err, EF_BAD_INPUT, "there is no event at position %" PRId64, position);
    out->partition =
        ef__partition_of(sq_column_str(stmt, 0), sq_column_str(stmt, 1), store->base.partitions);
    out->seq = sqlite3_column_int64(stmt, 2);
    out->stream = sqlite3_column_int64(stmt, 5);
    sqlite3_reset(stmt);
    return EF_OK;
}

/* Is it queued in the lane that is marked? The row knows its partition best. */
static ef_status find_row(sq_conn *conn, int64_t lane, int64_t position, excepted *out,
                          ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = sq_stmt(conn, SQ_OUTBOX_GET, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    st = sq_row(conn, stmt, &out->queued, err);
    if (st == EF_OK && out->queued) {
        out->partition = sqlite3_column_int(stmt, 0);
        sqlite3_reset(stmt);
    }
    return st;
}

/* The lane of an exception; made when it is a projection's and new. */
static ef_status exception_lane(sq_conn *conn, const sq_lane *marked, const ef_exception *x,
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

static ef_status delete_exception(sq_conn *conn, int64_t lane, int64_t position, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = sq_stmt(conn, SQ_EXCEPTION_DELETE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, position);
    return sq_done(conn, stmt, err);
}

static ef_status insert_exception(sq_conn *conn, int64_t lane, int64_t position,
                                  const excepted *event, const sq_exception *x, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = sq_stmt(conn, SQ_EXCEPTION_INSERT, &stmt, err);

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
    sq_bind_str(stmt, 9, x->error);
    sqlite3_bind_int64(stmt, 10, x->updated_us);
    return sq_done(conn, stmt, err);
}

static ef_status write_exception(sq_conn *conn, int64_t lane, const ef_exception *x,
                                 const excepted *event, int64_t now_us, ef_error *err)
{
    sq_exception to = event->is;

    to.status = x->status;
    /* An operator's skip came while its last attempt was under way: it is passed, it does not die.
     */
    if (to.skip && x->status == EF_ROW_DEAD)
        to.status = EF_ROW_PENDING;
    to.attempts = x->attempts;
    to.due_us = to.status == EF_ROW_DEAD ? 0 : x->due_us ? x->due_us : now_us;
    to.error = x->error;
    to.updated_us = now_us;
    if (event->is.found)
        return sq_exception_update(conn, lane, x->position, &to, err);
    return insert_exception(conn, lane, x->position, event, &to, err);
}

static ef_status settle_exception(sq_store *store, const sq_lane *marked, const mark_job *job,
                                  const ef_exception *x, int64_t now_us, ef_error *err)
{
    sq_conn *conn = &store->writer.conn;
    excepted event = {0};
    sq_lane lane;
    int h;
    ef_status st = find_event(store, conn, x->position, &event, err);

    if (st == EF_OK)
        st = find_row(conn, marked->id, x->position, &event, err);
    if (st != EF_OK)
        return st;
    h = find_held(&job->map, event.partition);
    if (h < 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "position %" PRId64 " is in partition %" PRId32 ", which is not held",
                       x->position, event.partition);
    st = exception_lane(conn, marked, x, &lane, err);
    if (st == EF_OK)
        st = sq_exception_get(conn, lane.id, x->position, NULL, &event.is, err);
    if (st != EF_OK)
        return st;
    if (x->status == EF_ROW_DONE)
        return event.is.found ? delete_exception(conn, lane.id, x->position, err) : EF_OK;
    /* One whose row is gone stays gone, unless this call moves the mark past the queued event. */
    if (!event.is.found && !(event.queued && x->position <= job->held[h].upto))
        return EF_OK;
    return write_exception(conn, lane.id, x, &event, now_us, err);
}

static ef_status run_mark(sq_store *store, sq_job *base, ef_error *err)
{
    mark_job *job = (mark_job *)base;
    sq_conn *conn = &store->writer.conn;
    int64_t now_us = sq_now_us(store);
    sq_lane lane;
    ef_status st = need_lane(conn, job->lane, &lane, err);

    if (st == EF_OK)
        st = sq_held_check(store, conn, &lane, job->held, job->held_count, err);
    for (size_t i = 0; st == EF_OK && i < job->held_count; i++)
        st = check_upto(conn, &lane, &job->held[i], err);
    for (size_t i = 0; st == EF_OK && i < job->exception_count; i++)
        st = settle_exception(store, &lane, job, &job->exceptions[i], now_us, err);
    return st == EF_OK ? move_marks(conn, &lane, job, now_us, err) : st;
}

ef_status sq_mark(ef_journal *journal, ef_str lane, const ef_holding *held, size_t held_count,
                  const ef_exception *exceptions, size_t exception_count, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    mark_job job = {.base = {.run = run_mark},
                    .lane = lane,
                    .held = held,
                    .held_count = held_count,
                    .exceptions = exceptions,
                    .exception_count = exception_count};

    map_held(&job.map, held, held_count);
    return sq_refused(store, sq_submit(store, &job.base, err));
}
