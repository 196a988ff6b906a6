/*
 * outbox_take.c - taking from the outbox, on PostgreSQL.
 *
 * One transaction, in two trips: leases, marks, rows and events; then the note of what is in hand.
 * Leases and marks are locked meanwhile. Rows come in the order of positions and whoever gives
 * positions is alone, so no row comes below one that was seen.
 */
#include "outbox.h"

#include <inttypes.h>

/* --- marks ------------------------------------------------------------------------------------ */

void pg_held_map_init(pg_held_map *map, const ef_holding *held, size_t count)
{
    memset(map, 0, sizeof *map);
    for (size_t i = 0; i < count; i++)
        map->of[held[i].partition] = (uint16_t)(i + 1);
}

int pg_held_find(const pg_held_map *map, int32_t partition)
{
    return partition >= 0 && partition < EF_LIMIT_PARTITIONS ? map->of[partition] - 1 : -1;
}

ef_status pg_marks_send(ef__pg_conn *conn, int32_t lane, const ef_holding *held, size_t count,
                        ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array partitions;
    ef_status st;

    pg_array_of_partitions(&partitions, held, count);
    ef__pg_add_int(&params, lane);
    ef__pg_add_array(&params, &partitions);
    st = ef__pg_send(conn, PJ_OUTBOX_MARK_LOCK, &params, err);
    ef__pg_array_release(&partitions);
    return st;
}

ef_status pg_marks_take(ef__pg_conn *conn, const pg_held_map *map, pg_mark_row *out, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_take(conn, &result, err);

    for (int i = 0; st == EF_OK && i < PQntuples(result); i++)
        out[pg_held_find(map, (int32_t)ef__pg_int(result, i, 0))] =
            (pg_mark_row){ef__pg_int(result, i, 1), ef__pg_int(result, i, 2),
                          ef__pg_int(result, i, 3), ef__pg_int(result, i, 4)};
    PQclear(result);
    return st;
}

static bool same_mark(const pg_mark_row *a, const pg_mark_row *b)
{
    return a->position == b->position && a->hand == b->hand && a->hand_token == b->hand_token &&
           a->suspect == b->suspect;
}

ef_status pg_marks_put(pg_store *store, ef__pg_conn *conn, int32_t lane, const ef_holding *held,
                       size_t count, const pg_mark_row *before, const pg_mark_row *now,
                       ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array columns[5];
    ef_status st = EF_OK;

    for (int c = 0; c < 5; c++)
        ef__pg_array_init(&columns[c], EF__PG_INT);
    for (size_t i = 0; i < count; i++) {
        if (same_mark(&before[i], &now[i]))
            continue;
        ef__pg_array_int(&columns[0], held[i].partition);
        ef__pg_array_int(&columns[1], now[i].position);
        ef__pg_array_int(&columns[2], now[i].hand);
        ef__pg_array_int(&columns[3], now[i].hand_token);
        ef__pg_array_int(&columns[4], now[i].suspect);
    }
    ef__pg_add_int(&params, lane);
    for (int c = 0; c < 5; c++)
        ef__pg_add_array(&params, &columns[c]);
    pg_add_clock(store, &params);
    if (columns[0].count)
        st = ef__pg_send(conn, PJ_OUTBOX_MARK_PUT, &params, err);
    for (int c = 0; c < 5; c++)
        ef__pg_array_release(&columns[c]);
    return st;
}

/* --- taking ----------------------------------------------------------------------------------- */

typedef struct taking {
    pg_store *store;
    ef_str lane_name;
    bool due;
    const ef_holding *held;
    size_t held_count;
    int64_t after;
    size_t limit;
    pg_held_map map;
    ef_taken_batch *out;
    pg_lane lane;
    pg_mark_row *marks, *notes; /* per holding: as they are, and as they are to be */
} taking;

/* Columns behind the event's own. */
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

static ef_status fill_item(const taking *t, const PGresult *result, int row, ef_taken *item,
                           ef_error *err)
{
    ef__arena *arena = &t->out->events.room->arena;

    item->event = &t->out->events.events[row];
    item->partition = (int32_t)ef__pg_int(result, row, AT_PARTITION);
    if (!t->due) {
        item->lane = row ? t->out->items[0].lane : ef__arena_copy(arena, t->lane_name);
        return item->lane.ptr ? EF_OK : ef__room_full(err);
    }
    item->lane = pg_copy(result, row, AT_LANE, arena);
    item->attempts = (int32_t)ef__pg_int(result, row, AT_ATTEMPTS);
    item->skip = ef__pg_bool(result, row, AT_SKIP);
    item->follows = ef__pg_bool(result, row, AT_FOLLOWS);
    item->error = pg_copy(result, row, AT_ERROR, arena);
    item->filed = ef__pg_int(result, row, AT_FILED);
    item->interrupted = ef__pg_bool(result, row, AT_TRYING);
    return item->lane.ptr && item->error.ptr ? EF_OK : ef__room_full(err);
}

/* Make the batch of the rows that were found; it ends early when it has grown large enough. */
static ef_status fill_batch(taking *t, const PGresult *result, size_t limit, bool suspect,
                            ef_error *err)
{
    ef_taken_batch *out = t->out;
    ef_taken *items = pg_items(&out->events.room->arena, PQntuples(result), sizeof *items);
    ef_status st =
        items ? pg_events_copy(result, limit, false, &out->events, err) : ef__room_full(err);

    out->items = items;
    for (size_t i = 0; st == EF_OK && i < out->events.count; i++) {
        items[i].suspect = suspect;
        st = fill_item(t, result, (int)i, &items[i], err);
    }
    if (st != EF_OK)
        return st;
    out->count = out->events.count;
    out->more = out->events.more;
    return EF_OK;
}

/* A new owner finds what the last one left in hand: nobody can say what became of it. */
static int64_t suspect_upto(const pg_mark_row *mark, int64_t token)
{
    return mark->hand_token != token && mark->hand ? mark->hand : mark->suspect;
}

/* What is suspect in one of the partitions held: a piece of much, or one of few. */
static ef_status take_suspects(taking *t, ef__pg_conn *conn, ef_error *err)
{
    size_t piece = t->limit < EF_SUSPECT_PIECE ? t->limit : EF_SUSPECT_PIECE;
    ef_status st = EF_OK;

    for (size_t h = 0; st == EF_OK && t->out->count == 0 && h < t->held_count; h++) {
        int64_t upto = suspect_upto(&t->marks[h], t->held[h].token);
        ef__pg_params params = {0};
        PGresult *result = NULL;

        if (upto <= t->marks[h].position)
            continue;
        ef__pg_add_int(&params, t->lane.id);
        ef__pg_add_int(&params, t->held[h].partition);
        ef__pg_add_int(&params, t->marks[h].position);
        ef__pg_add_int(&params, upto);
        ef__pg_add_int(&params, EF_SUSPECT_PIECE + 1);
        ef__pg_add_int(&params, PG_TAKE_BYTES_ENOUGH);
        st = ef__pg_query(conn, PJ_OUTBOX_TAKE_SUSPECT, &params, &result, err);
        if (st == EF_OK && PQntuples(result))
            st = fill_batch(t, result, PQntuples(result) > EF_SUSPECT_PIECE ? piece : 1, true, err);
        PQclear(result);
    }
    return st;
}

/* What the marks are to say: what is in hand is this batch, and what it follows on, not more. */
static void plan_notes(taking *t)
{
    for (size_t h = 0; h < t->held_count; h++) {
        t->notes[h] = t->marks[h];
        if (t->notes[h].hand_token == t->held[h].token && t->after == 0)
            t->notes[h].hand = 0;
    }
    for (size_t i = 0; i < t->out->count; i++) {
        int h = pg_held_find(&t->map, t->out->items[i].partition);
        pg_mark_row *note = &t->notes[h];
        if (note->hand_token != t->held[h].token) {
            note->suspect = note->hand ? note->hand : note->suspect;
            note->hand_token = t->held[h].token;
            note->hand = 0;
        }
        if (t->out->items[i].event->position > note->hand)
            note->hand = t->out->items[i].event->position;
    }
}

/*
 * A batch has a limit of bytes, and adding them up costs the server half as much again. So it is
 * asked not to while events are small: of more than a few shares of the limit none is sent. Where
 * one was not the batch is asked for again, with its bytes added up; and so are the next, until one
 * has none so large.
 */
static int64_t small_bytes(const taking *t)
{
    return PG_TAKE_BYTES_ENOUGH / (int64_t)t->limit * 4;
}

static ef_status send_take(const taking *t, ef__pg_conn *conn, bool bounded, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array partitions;
    ef_status st;

    pg_array_of_partitions(&partitions, t->held, t->held_count);
    ef__pg_add_int(&params, t->lane.id);
    ef__pg_add_array(&params, &partitions);
    ef__pg_add_int(&params, (int64_t)t->limit + 1);
    ef__pg_add_int(&params, bounded ? PG_TAKE_BYTES_ENOUGH : small_bytes(t));
    ef__pg_add_int(&params, t->after);
    st = ef__pg_send(conn, bounded ? PJ_OUTBOX_TAKE_BOUNDED : PJ_OUTBOX_TAKE, &params, err);
    ef__pg_array_release(&partitions);
    return st;
}

static bool any_large(const taking *t, const PGresult *rows)
{
    int64_t small = small_bytes(t);

    for (int i = 0; i < PQntuples(rows); i++)
        if (ef__pg_null(rows, i, PG_EVENT_DATA) || PQgetlength(rows, i, PG_EVENT_DATA) > small)
            return true;
    return false;
}

/* The rows that were asked for, `bounded` or not. */
static ef_status take_rows(const taking *t, ef__pg_conn *conn, bool bounded, PGresult **out,
                           ef_error *err)
{
    ef_status st = ef__pg_take(conn, out, err);
    bool large = st == EF_OK && any_large(t, *out);

    if (st != EF_OK)
        return st;
    atomic_store(&t->store->large_events, large);
    if (!large || bounded)
        return EF_OK;
    PQclear(*out);
    *out = NULL;
    st = send_take(t, conn, true, err);
    return st == EF_OK ? ef__pg_take(conn, out, err) : st;
}

static bool any_suspect(const taking *t)
{
    for (size_t h = 0; h < t->held_count; h++)
        if (suspect_upto(&t->marks[h], t->held[h].token) > t->marks[h].position)
            return true;
    return false;
}

/* Of publishers: which of them wait behind an exception of their stream? */
static ef_status look_before(taking *t, ef__pg_conn *conn, ef_error *err)
{
    ef_taken *items = (ef_taken *)t->out->items; /* made by fill_batch, ours to change */
    ef__pg_params params = {0};
    ef__pg_array positions;
    PGresult *rows = NULL;
    ef_status st;

    ef__pg_array_init(&positions, EF__PG_INT);
    for (size_t i = 0; i < t->out->count; i++)
        ef__pg_array_int(&positions, items[i].event->position);
    ef__pg_add_int(&params, t->lane.id);
    ef__pg_add_array(&params, &positions);
    st = ef__pg_query(conn, PJ_EXCEPTION_BEFORE, &params, &rows, err);
    for (int r = 0; st == EF_OK && r < PQntuples(rows); r++)
        for (size_t i = 0; i < t->out->count; i++)
            if (items[i].event->position == ef__pg_int(rows, r, 0))
                items[i].waits = true;
    PQclear(rows);
    ef__pg_array_release(&positions);
    return st;
}

static ef_status take_queued(taking *t, ef__pg_conn *conn, ef_error *err)
{
    PGresult *rows = NULL;
    bool bounded = atomic_load(&t->store->large_events);
    ef_status st = pg_marks_send(conn, t->lane.id, t->held, t->held_count, err);

    if (st == EF_OK)
        st = send_take(t, conn, bounded, err);
    if (st == EF_OK)
        st = pg_hold_take(conn, &t->lane, t->lane_name, t->held, t->held_count, err);
    if (st == EF_OK)
        st = pg_marks_take(conn, &t->map, t->marks, err);
    if (st == EF_OK)
        st = take_rows(t, conn, bounded, &rows, err);
    if (st == EF_OK && t->lane.kind != EF_LANE_KIND_PUBLISHER && any_suspect(t))
        st = take_suspects(t, conn, err);
    if (st == EF_OK && t->out->count == 0)
        st = fill_batch(t, rows, t->limit, false, err);
    PQclear(rows);
    if (st == EF_OK && t->out->count && t->lane.kind == EF_LANE_KIND_PUBLISHER)
        st = look_before(t, conn, err);
    if (st != EF_OK)
        return st;
    plan_notes(t);
    return pg_marks_put(t->store, conn, t->lane.id, t->held, t->held_count, t->marks, t->notes,
                        err);
}

static ef_status clock_now(const taking *t, ef__pg_conn *conn, int64_t *out, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    pg_add_clock(t->store, &params);
    st = ef__pg_query(conn, PJ_CLOCK, &params, &result, err);
    if (st == EF_OK)
        *out = ef__pg_int(result, 0, 0);
    PQclear(result);
    return st;
}

static ef_status ask_due(taking *t, ef__pg_conn *conn, ef__pg_array *partitions, ef_error *err)
{
    ef__pg_params due = {0}, next = {0};
    PGresult *rows = NULL, *then = NULL;
    int64_t now_us = 0;
    ef_status st = clock_now(t, conn, &now_us, err);

    ef__pg_add_int(&due, t->lane.id);
    ef__pg_add_array(&due, partitions);
    ef__pg_add_int(&due, now_us);
    ef__pg_add_int(&due, (int64_t)t->limit + 1);
    ef__pg_add_int(&due, PG_TAKE_BYTES_ENOUGH);
    ef__pg_add_int(&next, t->lane.id);
    ef__pg_add_array(&next, partitions);
    ef__pg_add_int(&next, now_us);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_EXCEPTION_DUE, &due, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_EXCEPTION_NEXT_DUE, &next, err);
    if (st == EF_OK)
        st = ef__pg_take(conn, &rows, err);
    if (st == EF_OK)
        st = ef__pg_take(conn, &then, err);
    if (st == EF_OK)
        st = fill_batch(t, rows, t->limit, false, err);
    if (st == EF_OK)
        t->out->next_due_us = ef__pg_int(then, 0, 0);
    PQclear(rows);
    PQclear(then);
    return st;
}

/* What is due is not noted: it is an exception, and counts its attempts itself. */
static ef_status take_due(taking *t, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_array partitions;
    ef_status st = pg_hold_take(conn, &t->lane, t->lane_name, t->held, t->held_count, err);

    pg_array_of_partitions(&partitions, t->held, t->held_count);
    if (st == EF_OK)
        st = ask_due(t, conn, &partitions, err);
    ef__pg_array_release(&partitions);
    return st;
}

static ef_status take_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    taking *t = context;
    ef_status st = ef__room_ready(&t->out->events.room, err);

    t->out->count = t->out->events.count = 0;
    t->lane = (pg_lane){.kind = EF_LANE_KIND_APPLY};
    if (st == EF_OK) {
        ef__arena *arena = &t->out->events.room->arena;
        t->marks = ef__arena_zalloc(arena, t->held_count + 1, sizeof *t->marks);
        t->notes = ef__arena_zalloc(arena, t->held_count + 1, sizeof *t->notes);
        if (!t->marks || !t->notes)
            st = ef__room_full(err);
    }
    /* "" is the own lanes of all projections, which are held as "*" is. */
    if (st == EF_OK && t->lane_name.len)
        st = pg_lane_need(t->store, conn, t->lane_name, &t->lane, err);
    if (st == EF_OK && t->after)
        st = ef__lane_publishes(t->lane_name, t->lane.kind, err);
    if (st == EF_OK)
        st = pg_hold_send(t->store, conn, &t->lane, t->lane_name, t->held, t->held_count, err);
    if (st != EF_OK)
        return st;
    return t->due ? take_due(t, conn, err) : take_queued(t, conn, err);
}

ef_status pg_take(ef_journal *journal, const ef__taking *take, ef_taken_batch *out, ef_error *err)
{
    taking t = {.store = pg_store_of(journal),
                .lane_name = take->lane,
                .due = take->due,
                .held = take->held,
                .held_count = take->held_count,
                .after = take->after,
                .limit = take->limit,
                .out = out};
    ef_status st = take->due ? EF_OK : pg_settle(t.store, err);

    pg_held_map_init(&t.map, take->held, take->held_count);
    if (st == EF_OK)
        st = pg_write_again(t.store, take_work, &t, err); /* gives the same rows again */
    return st;
}
