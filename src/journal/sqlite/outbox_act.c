/*
 * outbox_act.c - what operators do to exceptions: requeue and skip, each with its record.
 *
 * No lease is needed: an act only changes when an exception is taken next and how, and whoever
 * takes it holds the lease.
 */
#include "outbox.h"

#include <inttypes.h>

typedef struct act_job {
    sq_job base;
    const ef_outbox_act *act; /* one event; or NULL: up to `limit` dead rows */
    ef_str lane, who;
    size_t limit;
    ef_row_list *out;
} act_job;

/* --- one row ---------------------------------------------------------------------------------- */

static ef_status add_act(ef__sq_conn *conn, const ef_act *act, int64_t now_us, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_ACT_INSERT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, now_us);
    ef__sq_bind_str(stmt, 2, act->act);
    ef__sq_bind_str(stmt, 3, act->who);
    ef__sq_bind_str(stmt, 4, act->reason);
    ef__sq_bind_str(stmt, 5, act->lane);
    ef__sq_bind_str(stmt, 6, act->tenant);
    ef__sq_bind_str(stmt, 7, act->stream);
    sqlite3_bind_int64(stmt, 8, act->seq);
    return ef__sq_done(conn, stmt, err);
}

static ef_status note_act(ef__sq_conn *conn, const char *word, ef_str who, ef_str reason,
                          const ef_row *row, int64_t now_us, ef_error *err)
{
    return add_act(conn,
                   &(ef_act){.act = ef_str_from(word),
                             .who = who,
                             .reason = reason,
                             .lane = row->lane,
                             .tenant = row->tenant,
                             .stream = row->stream,
                             .seq = row->seq},
                   now_us, err);
}

/* Pending, no attempts, due now, no error. */
static ef_status requeue_spots(ef__sq_conn *conn, const sq_spots *spots, int64_t now_us,
                               ef_error *err)
{
    sq_exception fresh = {.status = EF_ROW_PENDING, .due_us = now_us, .updated_us = now_us};
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < spots->count; i++)
        st = sq_exception_update(conn, spots->items[i].lane->id, spots->items[i].position, &fresh,
                                 err);
    return st;
}

/* Pending and due: the lane passes it next, and what waited behind it is no longer blocked. */
static ef_status skip_spots(ef__sq_conn *conn, const sq_spots *spots, int64_t now_us, ef_error *err)
{
    sq_exception x;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < spots->count; i++) {
        const sq_spot *spot = &spots->items[i];
        st = sq_exception_get(conn, spot->lane->id, spot->position, spots->arena, &x, err);
        if (st != EF_OK)
            return st;
        x.status = EF_ROW_PENDING;
        x.skip = true;
        x.due_us = x.updated_us = now_us;
        st = sq_exception_update(conn, spot->lane->id, spot->position, &x, err);
    }
    return st;
}

/* Show the rows as they are after the act, and note it for each. */
static ef_status show_and_note(ef__sq_conn *conn, const sq_spots *spots, const act_job *job,
                               const char *word, int64_t now_us, ef_error *err)
{
    ef_str reason = job->act ? job->act->reason : (ef_str){0};
    ef_status st = sq_rows_make(conn, spots->items, spots->count, job->out, err);

    for (size_t i = 0; st == EF_OK && i < spots->count; i++)
        st = note_act(conn, word, job->who, reason, &job->out->items[i], now_us, err);
    return st;
}

/* --- finding the rows ------------------------------------------------------------------------- */

/* The id of a stream; 0 when there is none. */
static ef_status find_stream(ef__sq_conn *conn, ef_str tenant, ef_str name, int64_t *out,
                             ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_STREAM_BY_NAME, &stmt, err);

    *out = 0;
    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, tenant);
    ef__sq_bind_str(stmt, 2, name);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st == EF_OK && row) {
        *out = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return st;
}

static ef_status find_in_lane(ef__sq_conn *conn, const sq_lane *lane, int64_t stream, int64_t seq,
                              bool dead_only, sq_spots *spots, ef_error *err)
{
    sq_spot spot = {.lane = lane};
    sq_exception x;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_EXCEPTION_OF_EVENT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, lane->id);
    sqlite3_bind_int64(stmt, 2, stream);
    sqlite3_bind_int64(stmt, 3, seq);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    spot.position = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    st = sq_exception_get(conn, lane->id, spot.position, NULL, &x, err);
    if (st != EF_OK || (dead_only && x.status != EF_ROW_DEAD))
        return st;
    return sq_spots_add(spots, &spot, err);
}

/* The exceptions of the act's event: in its lane, or in all of them. */
static ef_status find_event(ef__sq_conn *conn, const ef_outbox_act *act, bool dead_only,
                            sq_spots *spots, ef_error *err)
{
    sq_lane *lanes;
    size_t lane_count;
    int64_t stream;
    ef_status st = find_stream(conn, act->tenant, act->stream, &stream, err);

    if (st == EF_OK)
        st = sq_lanes_load(conn, act->lane, spots->arena, &lanes, &lane_count, err);
    for (size_t i = 0; st == EF_OK && stream && i < lane_count; i++)
        st = find_in_lane(conn, &lanes[i], stream, act->seq, dead_only, spots, err);
    if (st == EF_OK && spots->count == 0)
        st = ef__act_on_nothing(act, dead_only, err);
    return st;
}

/* The oldest dead rows. Each lane can have all of them, so each is asked for as many. */
static ef_status find_dead(ef__sq_conn *conn, ef_str lane, size_t limit, sq_spots *spots,
                           ef_error *err)
{
    const ef_row_status dead = EF_ROW_DEAD;
    const ef_outbox_query all = {.any_tenant = true};
    sq_lane *lanes;
    size_t lane_count;
    ef_status st = sq_lanes_load(conn, lane, spots->arena, &lanes, &lane_count, err);

    for (size_t i = 0; st == EF_OK && i < lane_count; i++)
        st = sq_spots_of_exceptions(conn, &lanes[i], &dead, 0, &all, limit, spots, err);
    sq_spots_sort(spots);
    if (spots->count > limit)
        spots->count = limit;
    return st;
}

/* --- the acts --------------------------------------------------------------------------------- */

static ef_status run_requeue(sq_store *store, sq_job *base, ef_error *err)
{
    act_job *job = (act_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    int64_t now_us = sq_now_us(store);
    sq_spots spots = {.arena = &job->out->room->arena};
    ef_status st;

    if (job->act)
        st = find_event(conn, job->act, true, &spots, err);
    else
        st = find_dead(conn, job->lane, job->limit, &spots, err);
    if (st == EF_OK)
        st = requeue_spots(conn, &spots, now_us, err);
    return st == EF_OK ? show_and_note(conn, &spots, job, "requeue", now_us, err) : st;
}

static ef_status run_skip(sq_store *store, sq_job *base, ef_error *err)
{
    act_job *job = (act_job *)base;
    ef__sq_conn *conn = &store->writer.conn;
    int64_t now_us = sq_now_us(store);
    sq_spots spots = {.arena = &job->out->room->arena};
    ef_status st = find_event(conn, job->act, false, &spots, err);

    if (st == EF_OK)
        st = skip_spots(conn, &spots, now_us, err);
    return st == EF_OK ? show_and_note(conn, &spots, job, "skip", now_us, err) : st;
}

ef_status sq_requeue(ef_journal *journal, const ef_outbox_act *act, ef_row_list *out, ef_error *err)
{
    act_job job = {.base = {.run = run_requeue}, .act = act, .who = act->who, .out = out};

    return sq_submit(sq_store_of(journal), &job.base, err);
}

ef_status sq_requeue_dead(ef_journal *journal, ef_str lane, ef_str who, size_t limit,
                          ef_row_list *out, ef_error *err)
{
    act_job job = {
        .base = {.run = run_requeue}, .lane = lane, .who = who, .limit = limit, .out = out};

    return sq_submit(sq_store_of(journal), &job.base, err);
}

ef_status sq_skip(ef_journal *journal, const ef_outbox_act *act, ef_row_list *out, ef_error *err)
{
    act_job job = {.base = {.run = run_skip}, .act = act, .who = act->who, .out = out};

    return sq_submit(sq_store_of(journal), &job.base, err);
}

/* --- what was done ---------------------------------------------------------------------------- */

typedef struct note_job {
    sq_job base;
    const ef_act *act;
} note_job;

static ef_status run_note(sq_store *store, sq_job *base, ef_error *err)
{
    return add_act(&store->writer.conn, ((note_job *)base)->act, sq_now_us(store), err);
}

ef_status sq_act_add(ef_journal *journal, const ef_act *act, ef_error *err)
{
    note_job job = {.base = {.run = run_note}, .act = act};

    return sq_submit(sq_store_of(journal), &job.base, err);
}

static bool act_from_row(sqlite3_stmt *stmt, ef__arena *arena, ef_act *out)
{
    *out = (ef_act){.id = sqlite3_column_int64(stmt, 0),
                    .at_us = sqlite3_column_int64(stmt, 1),
                    .act = sq_column_copy(stmt, 2, arena),
                    .who = sq_column_copy(stmt, 3, arena),
                    .reason = sq_column_copy(stmt, 4, arena),
                    .lane = sq_column_copy(stmt, 5, arena),
                    .tenant = sq_column_copy(stmt, 6, arena),
                    .stream = sq_column_copy(stmt, 7, arena),
                    .seq = sqlite3_column_int64(stmt, 8)};
    return out->act.ptr && out->who.ptr && out->reason.ptr && out->lane.ptr && out->tenant.ptr &&
           out->stream.ptr;
}

static ef_status list_acts(ef__sq_conn *conn, const ef_act_query *query, ef_act_list *out,
                           ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_act *items = NULL;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_ACT_NEWEST, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, query->after);
    sqlite3_bind_int64(stmt, 2, query->before);
    ef__sq_bind_str(stmt, 3, query->act);
    ef__sq_bind_str(stmt, 4, query->lane);
    sqlite3_bind_int64(stmt, 5, (int64_t)query->limit);
    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        items = sq_list_grow(arena, items, out->count, sizeof *items);
        if (!items || !act_from_row(stmt, arena, &items[out->count])) {
            sqlite3_reset(stmt);
            return ef__room_full(err);
        }
        out->items = items;
        out->count++;
    }
    return st;
}

ef_status sq_act_ls(ef_journal *journal, const ef_act_query *query, ef_act_list *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = list_acts(&reader->conn, query, out, err);
    sq_read_end(store, reader);
    return st;
}
