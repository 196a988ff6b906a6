/*
 * lane.c - lanes on SQLite.
 *
 * Every process caches the lanes (state.h), because an append queues rows for them; a change
 * increments state.lanes_version in the same transaction, by which other processes notice it.
 */
#include "outbox.h"

typedef struct lane_job {
    sq_job base;
    const ef_lane *lane, *expected;
} lane_job;

ef_status sq_lane_find(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_LANE_BY_NAME, &stmt, err);

    *out = (sq_lane){.name = name};
    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, name);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st == EF_OK && row) {
        out->id = sqlite3_column_int64(stmt, 0);
        out->kind = (ef_lane_kind)sqlite3_column_int(stmt, 1);
        out->enabled = sqlite3_column_int(stmt, 2) != 0;
        out->retain_us = sqlite3_column_int64(stmt, 3);
        sqlite3_reset(stmt);
    }
    return st;
}

ef_status sq_lane_need(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_status st = sq_lane_find(conn, name, out, err);

    if (st == EF_OK && out->id == 0)
        st = ef__refuse_unknown_lane(name, err);
    return st;
}

static ef_status lane_write(ef__sq_conn *conn, int which, const ef_lane *lane, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, which, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, lane->name);
    sqlite3_bind_int(stmt, 2, (int)lane->kind);
    sqlite3_bind_int(stmt, 3, lane->enabled);
    ef__sq_bind_str(stmt, 4, lane->types);
    ef__sq_bind_str(stmt, 5, lane->settings);
    sqlite3_bind_int64(stmt, 6, lane->retain_us);
    st = ef__sq_done(conn, stmt, err);
    return st == EF_OK ? ef__sq_run(conn, SQ_STATE_LANES_CHANGED, err) : st;
}

ef_status sq_lane_find_or_make(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_lane made = {.name = name, .kind = EF_LANE_KIND_PROJECTION, .enabled = true};
    ef_status st = sq_lane_find(conn, name, out, err);

    if (st != EF_OK || out->id)
        return st;
    st = lane_write(conn, SQ_LANE_INSERT, &made, err);
    return st == EF_OK ? sq_lane_find(conn, name, out, err) : st;
}

static ef_status check_expected(ef__sq_conn *conn, const ef_lane *expected, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row = false;
    ef_status st = ef__sq_stmt(conn, SQ_LANE_MATCHES, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, expected->name);
    sqlite3_bind_int(stmt, 2, expected->enabled);
    ef__sq_bind_str(stmt, 3, expected->types);
    ef__sq_bind_str(stmt, 4, expected->settings);
    sqlite3_bind_int64(stmt, 5, expected->retain_us);
    st = ef__sq_row(conn, stmt, &row, err);
    sqlite3_reset(stmt);
    return st == EF_OK && !row ? ef__lane_changed(expected->name, err) : st;
}

static ef_status run_set(sq_store *store, sq_job *base, ef_error *err)
{
    const lane_job *job = (lane_job *)base;
    const ef_lane *lane = job->lane;
    sq_lane found;
    ef_status st = sq_lane_find(&store->writer.conn, lane->name, &found, err);

    if (st == EF_OK && job->expected)
        st = check_expected(&store->writer.conn, job->expected, err);
    if (st != EF_OK)
        return st;
    /* Its rows are claimed under leases of its kind, which another kind would not have. */
    if (found.id && found.kind != lane->kind)
        return ef__refuse_lane_kind(lane->name, err);
    return lane_write(&store->writer.conn, found.id ? SQ_LANE_UPDATE : SQ_LANE_INSERT, lane, err);
}

ef_status sq_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                      ef_error *err)
{
    lane_job job = {.base = {.run = run_set}, .lane = lane, .expected = expected};

    return sq_submit(sq_store_of(journal), &job.base, err);
}

static bool lane_from_row(sqlite3_stmt *stmt, ef__arena *arena, sq_lane *out)
{
    out->id = sqlite3_column_int64(stmt, 0);
    out->name = sq_column_copy(stmt, 1, arena);
    out->kind = (ef_lane_kind)sqlite3_column_int(stmt, 2);
    out->enabled = sqlite3_column_int(stmt, 3) != 0;
    out->types = sq_column_copy(stmt, 4, arena);
    out->settings = sq_column_copy(stmt, 5, arena);
    out->retain_us = sqlite3_column_int64(stmt, 6);
    out->progress = sq_column_copy(stmt, 7, arena);
    return out->name.ptr && out->types.ptr && out->settings.ptr && out->progress.ptr;
}

ef_status sq_lanes_load(ef__sq_conn *conn, ef_str only, ef__arena *arena, sq_lane **out,
                        size_t *count, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_LANE_IN_ORDER, &stmt, err);

    *out = NULL;
    *count = 0;
    if (st != EF_OK)
        return st;
    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        sq_lane *lanes = *out;

        if (only.len && !ef_str_equal(ef__sq_column_str(stmt, 1), only))
            continue;
        lanes = sq_list_grow(arena, lanes, *count, sizeof *lanes);
        if (!lanes || !lane_from_row(stmt, arena, &lanes[*count])) {
            sqlite3_reset(stmt);
            return ef__no_memory(err);
        }
        *out = lanes;
        (*count)++;
    }
    return st;
}

ef_status sq_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    ef__arena *arena = &out->room->arena;
    sq_reader *reader;
    sq_lane *lanes;
    ef_lane *items = NULL;
    size_t count;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = sq_lanes_load(&reader->conn, (ef_str){0}, arena, &lanes, &count, err);
    sq_read_end(store, reader);
    if (st == EF_OK && !(items = ef__arena_zalloc(arena, count, sizeof *items)))
        st = ef__no_memory(err);
    if (st != EF_OK)
        return st;
    for (size_t i = 0; i < count; i++)
        items[i] = (ef_lane){.name = lanes[i].name,
                             .kind = lanes[i].kind,
                             .enabled = lanes[i].enabled,
                             .types = lanes[i].types,
                             .settings = lanes[i].settings,
                             .retain_us = lanes[i].retain_us,
                             .progress = lanes[i].progress};
    out->items = items;
    out->count = count;
    return EF_OK;
}
