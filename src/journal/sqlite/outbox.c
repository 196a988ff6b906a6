/*
 * outbox.c - taking from the outbox, on SQLite.
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
#include "row.h"

#include <inttypes.h>

#define TAKE_BYTES_ENOUGH (16u << 20) /* a batch ends here even if more was asked for */
#define STEPS_FOR_A_SEARCH 4          /* events that are stepped over rather than searched past */

static bool same_mark(const sq_mark_row *a, const sq_mark_row *b)
{
    return a->position == b->position && a->hand == b->hand && a->hand_token == b->hand_token &&
           a->suspect == b->suspect;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A row that was found, before its event is read. */
typedef struct pick {
    int64_t position;
    ef_taken item; /* without its event */
} pick;

typedef struct taking {
    sq_job base; /* the note */
    sq_store *store;
    ef__sq_conn *conn; /* while reading */
    sq_lane lane;
    const ef_holding *held;
    size_t held_count;
    int64_t after;
    size_t asked, limit; /* the limit of the caller, and of this batch */
    sq_held_map map;
    ef_taken_batch *out;
    ef__arena *arena; /* out's */
    pick *picks;
    size_t pick_count;
    sq_mark_row *marks; /* per holding, as read … */
    sq_mark_row *notes; /* … and as they are to be */
    bool changed;       /* the marks are others than were read: read again */
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

/* The row of the event at `position`. Picks follow one another closely as a rule, and a step is
 * much cheaper than a search, so the log is read on from `*at` where that is near; 0: nothing is.
 */
static ef_status find_event(taking *t, sqlite3_stmt *stmt, int64_t *at, int64_t position,
                            ef_error *err)
{
    bool row = true;
    ef_status st = EF_OK;

    if (*at == 0 || position <= *at || position - *at > STEPS_FOR_A_SEARCH) {
        sqlite3_reset(stmt);
        sqlite3_bind_int64(stmt, 1, position - 1);
        *at = 0;
    }
    while (st == EF_OK && row && *at < position) {
        st = ef__sq_row(t->conn, stmt, &row, err);
        *at = st == EF_OK && row ? sqlite3_column_int64(stmt, SQ_COLUMN_POSITION) : 0;
    }
    if (st == EF_OK && *at != position)
        st = ef_fail(err, EF_DAMAGED, "an outbox row is for position %" PRId64 ", which is gone",
                     position);
    return st;
}

/* Of publishers: does the event that the statement shows wait behind an exception? */
static ef_status look_before(taking *t, sqlite3_stmt *event, bool *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(t->conn, SQ_EXCEPTION_BEFORE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, t->lane.id);
    sqlite3_bind_int64(stmt, 2, sqlite3_column_int64(event, SQ_COLUMN_STREAM));
    sqlite3_bind_int64(stmt, 3, sqlite3_column_int64(event, SQ_COLUMN_SEQ));
    st = ef__sq_row(t->conn, stmt, out, err);
    if (st == EF_OK && *out)
        sqlite3_reset(stmt);
    return st;
}

/* Whether that has to be looked at: of most lanes there is no exception. */
static ef_status may_wait(taking *t, bool due, bool *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = EF_OK;

    *out = false;
    if (t->lane.kind != EF_LANE_KIND_PUBLISHER || due)
        return EF_OK;
    st = ef__sq_find(t->conn, SQ_EXCEPTION_ANY, t->lane.id, &stmt, out, err);
    if (st == EF_OK && *out)
        sqlite3_reset(stmt);
    return st;
}

/* Make the batch of the picks; it ends early when it has grown large enough. */
static ef_status load_picks(taking *t, bool due, ef_error *err)
{
    size_t count = t->pick_count < t->limit ? t->pick_count : t->limit;
    ef_taken *items = ef__arena_zalloc(t->arena, count + 1, sizeof *items);
    ef_event *events = ef__arena_zalloc(t->arena, count + 1, sizeof *events);
    sqlite3_stmt *stmt = NULL;
    sq_rows rows = {0};
    int64_t at = 0;
    bool look = false;
    size_t i;
    ef_status st =
        items && events ? ef__sq_stmt(t->conn, SQ_EVENT_AFTER, &stmt, err) : ef__room_full(err);

    if (st == EF_OK)
        st = may_wait(t, due, &look, err);
    if (st == EF_OK)
        st = sq_rows_init(&rows, t->store, t->conn, t->arena, count, err);
    for (i = 0; st == EF_OK && i < count; i++) {
        if (i > 0 && t->arena->used_bytes > TAKE_BYTES_ENOUGH)
            break;
        items[i] = t->picks[i].item;
        items[i].event = &events[i];
        st = find_event(t, stmt, &at, t->picks[i].position, err);
        if (st == EF_OK && look)
            st = look_before(t, stmt, &items[i].waits, err);
        if (st == EF_OK)
            st = sq_rows_event(&rows, stmt, &events[i], err);
    }
    sq_rows_release(&rows);
    sqlite3_reset(stmt);
    if (st != EF_OK)
        return st;
    t->out->items = items;
    t->out->events.events = events;
    t->out->count = t->out->events.count = i;
    t->out->more = i < t->pick_count; /* of suspects: the rest, one by one */
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
        st = sq_mark_get(t->conn, t->lane.id, t->held[i].partition, &t->marks[i], err);
        t->notes[i] = t->marks[i];
        if (t->marks[i].position < *out_lowest)
            *out_lowest = t->marks[i].position;
    }
    return st;
}

/* A new owner finds what the last one left in hand: nobody can say what became of it. */
static int64_t suspect_upto(const sq_mark_row *mark, int64_t token)
{
    return mark->hand_token != token && mark->hand ? mark->hand : mark->suspect;
}

/* Pick what is queued above `after` in the partitions held, or in holding `only` up to `upto`; one
 * more than `limit`, so that it is known whether there is more. */
static ef_status pick_queued(taking *t, ef_str lane, int64_t after, int only, int64_t upto,
                             size_t limit, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row = true;
    ef_status st = ef__sq_stmt(t->conn, SQ_OUTBOX_AFTER, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, t->lane.id);
    sqlite3_bind_int64(stmt, 2, after);
    while (t->pick_count <= limit && (st = ef__sq_row(t->conn, stmt, &row, err)) == EF_OK && row) {
        int64_t position = sqlite3_column_int64(stmt, 0);
        int32_t partition = sqlite3_column_int(stmt, 1);
        int h = sq_held_find(&t->map, partition);
        if (position > upto)
            break;
        if (h < 0 || position <= t->marks[h].position || (only >= 0 && h != only))
            continue;
        ef_taken item = {.lane = lane, .partition = partition, .suspect = only >= 0};
        if ((st = add_pick(t, (pick){position, item}, err)) != EF_OK)
            break;
    }
    sqlite3_reset(stmt);
    return st;
}

/* What is suspect in one of the partitions held: a piece of much, or one of few. */
static ef_status find_suspects(taking *t, ef_str lane, ef_error *err)
{
    size_t piece = t->limit < EF_SUSPECT_PIECE ? t->limit : EF_SUSPECT_PIECE;
    ef_status st = EF_OK;

    for (size_t h = 0; st == EF_OK && t->pick_count == 0 && h < t->held_count; h++) {
        int64_t upto = suspect_upto(&t->marks[h], t->held[h].token);
        if (upto > t->marks[h].position)
            st = pick_queued(t, lane, t->marks[h].position, (int)h, upto, EF_SUSPECT_PIECE, err);
    }
    if (t->pick_count)
        t->limit = t->pick_count > EF_SUSPECT_PIECE ? piece : 1;
    return st;
}

static ef_status find_queued(taking *t, ef_str lane, ef_error *err)
{
    int64_t lowest;
    ef_status st = load_marks(t, &lowest, err);

    if (st == EF_OK && t->lane.kind != EF_LANE_KIND_PUBLISHER)
        st = find_suspects(t, lane, err);
    if (st != EF_OK || t->pick_count)
        return st;
    return pick_queued(t, lane, lowest > t->after ? lowest : t->after, -1, INT64_MAX, t->limit,
                       err);
}

/* The pending ones of its stream that wait behind an exception that was picked, up to one that is
 * another owner's: after a change of the number of partitions a stream may have rows in two. */
static ef_status find_behind(taking *t, const ef_taken *first, int64_t lane, int64_t stream,
                             int64_t seq, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row = true;
    ef_status st = ef__sq_stmt(t->conn, SQ_EXCEPTION_BEHIND, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane);
    sqlite3_bind_int64(stmt, 2, stream);
    sqlite3_bind_int64(stmt, 3, seq);
    while (t->pick_count <= t->limit && (st = ef__sq_row(t->conn, stmt, &row, err)) == EF_OK &&
           row) {
        ef_taken item = *first;
        item.partition = sqlite3_column_int(stmt, 4);
        if (sqlite3_column_int(stmt, 3) != EF_ROW_PENDING ||
            sq_held_find(&t->map, item.partition) < 0)
            break;
        item.attempts = sqlite3_column_int(stmt, 1);
        item.skip = sqlite3_column_int(stmt, 2) != 0;
        item.follows = true;
        item.interrupted = false;
        item.filed = sqlite3_column_int64(stmt, 5);
        item.error = (ef_str){0};
        if ((st = add_pick(t, (pick){sqlite3_column_int64(stmt, 0), item}, err)) != EF_OK)
            break;
    }
    sqlite3_reset(stmt);
    return st;
}

static ef_status find_next_due(taking *t, int64_t now_us, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(t->conn, SQ_EXCEPTION_NEXT_DUE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, t->lane.id);
    sqlite3_bind_int64(stmt, 2, now_us);
    st = ef__sq_row(t->conn, stmt, &row, err);
    if (st == EF_OK && row) {
        t->out->next_due_us = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return st;
}

static ef_status find_due(taking *t, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row = true;
    int64_t now_us = sq_now_us(t->store);
    ef_status st = ef__sq_stmt(t->conn, SQ_EXCEPTION_DUE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, t->lane.id);
    sqlite3_bind_int64(stmt, 2, now_us);
    while (t->pick_count <= t->limit && (st = ef__sq_row(t->conn, stmt, &row, err)) == EF_OK &&
           row) {
        ef_taken item = {.partition = sqlite3_column_int(stmt, 1),
                         .attempts = sqlite3_column_int(stmt, 2),
                         .skip = sqlite3_column_int(stmt, 3) != 0,
                         .filed = sqlite3_column_int64(stmt, 9),
                         .interrupted = sqlite3_column_int(stmt, 10) != 0};
        if (sq_held_find(&t->map, item.partition) < 0)
            continue;
        item.lane = sq_column_copy(stmt, 4, t->arena);
        item.error = sq_column_copy(stmt, 8, t->arena);
        st = item.lane.ptr && item.error.ptr
                 ? add_pick(t, (pick){sqlite3_column_int64(stmt, 0), item}, err)
                 : ef__room_full(err);
        if (st == EF_OK)
            st = find_behind(t, &item, sqlite3_column_int64(stmt, 5), sqlite3_column_int64(stmt, 6),
                             sqlite3_column_int64(stmt, 7), err);
        if (st != EF_OK)
            break;
    }
    sqlite3_reset(stmt);
    return st == EF_OK ? find_next_due(t, now_us, err) : st;
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
        st = sq_lane_need(t->conn, lane, &t->lane, err);
    if (st == EF_OK)
        st = sq_held_check(t->store, t->conn, &t->lane, t->held, t->held_count, err);
    if (st == EF_OK && t->after)
        st = ef__lane_publishes(lane, t->lane.kind, err);
    if (st == EF_OK && !(name = ef__arena_copy(t->arena, lane)).ptr)
        st = ef__room_full(err);
    if (st == EF_OK)
        st = due ? find_due(t, err) : find_queued(t, name, err);
    if (st == EF_OK)
        st = load_picks(t, due, err);
    sq_read_end(t->store, reader);
    return st;
}

/* --- the note --------------------------------------------------------------------------------- */

/* What the marks are to say; false when they say so already. */
static bool plan_notes(taking *t)
{
    bool any = false;

    /* What is in hand is this batch, and what it follows on, not more: of a second process that
     * ends over it, less is suspect than of the first. A partition of which nothing was taken is
     * left as it is, unless something of it was in hand: an engine that finds nothing writes
     * nothing. */
    for (size_t h = 0; t->after == 0 && h < t->held_count; h++) {
        sq_mark_row *note = &t->notes[h];
        if (note->hand_token == t->held[h].token)
            note->hand = 0;
    }
    for (size_t i = 0; i < t->out->count; i++) {
        int h = sq_held_find(&t->map, t->out->items[i].partition);
        sq_mark_row *note = &t->notes[h];
        if (note->hand_token != t->held[h].token) {
            note->suspect = note->hand ? note->hand : note->suspect;
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
    ef__sq_conn *conn = &store->writer.conn;
    int64_t now_us = sq_now_us(store);
    sq_mark_row now;
    ef_status st = sq_held_check(store, conn, &t->lane, t->held, t->held_count, err);

    t->changed = false;
    for (size_t h = 0; st == EF_OK && h < t->held_count; h++) {
        st = sq_mark_get(conn, t->lane.id, t->held[h].partition, &now, err);
        t->changed = t->changed || !same_mark(&now, &t->marks[h]);
    }
    for (size_t h = 0; st == EF_OK && !t->changed && h < t->held_count; h++)
        if (!same_mark(&t->notes[h], &t->marks[h]))
            st = sq_mark_put(conn, t->lane.id, t->held[h].partition, &t->notes[h], now_us, err);
    return st;
}

static ef_status take_once(taking *t, ef_str lane, bool due, ef_error *err)
{
    ef_status st = ef__room_ready(&t->out->events.room, err);

    t->arena = &t->out->events.room->arena;
    t->picks = NULL;
    t->pick_count = 0;
    t->limit = t->asked;
    t->changed = false;
    if (st == EF_OK)
        st = read_batch(t, lane, due, err);
    /* What is due is not noted: it is an exception, and counts its attempts itself. And an engine
     * that finds nothing writes nothing. */
    if (st != EF_OK || due || !plan_notes(t))
        return st;
    return sq_submit(t->store, &t->base, err);
}

ef_status sq_take(ef_journal *journal, const ef__taking *take, ef_taken_batch *out, ef_error *err)
{
    /* The note tells the next owner what a process had in hand when it ended, and for that it need
     * only outlive the process. With a power cut all processes end, which is not the fault of what
     * any of them had in hand: then nothing is suspect, and rows are taken as they are queued. */
    taking t = {.base = {.run = run_note, .may_be_lost = true},
                .store = sq_store_of(journal),
                .held = take->held,
                .held_count = take->held_count,
                .after = take->after,
                .asked = take->limit,
                .out = out};
    ef_status st;

    sq_held_map_init(&t.map, take->held, take->held_count);
    /* Only another thread under the same tokens can have moved the marks between reading and
     * noting: every round but the last means that it got on. */
    do
        st = take_once(&t, take->lane, take->due, err);
    while (st == EF_OK && t.changed);
    return sq_refused(t.store, st);
}
