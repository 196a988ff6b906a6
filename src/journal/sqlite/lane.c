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
    struct sq_lane_by_name_row found = {0};
    ef_status st = sq_one_lane_by_name(conn, name, &found, NULL, err);

    *out = (sq_lane){.name = name,
                     .id = found.id,
                     .kind = (ef_lane_kind)found.kind,
                     .enabled = found.enabled,
                     .retain_us = found.retain};
    return st;
}

ef_status sq_lane_need(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_status st = sq_lane_find(conn, name, out, err);

    if (st == EF_OK && out->id == 0)
        st = ef__refuse_unknown_lane(name, err);
    return st;
}

static ef_status lane_write(ef__sq_conn *conn, bool is_new, const ef_lane *lane, ef_error *err)
{
    ef_status st = (is_new ? sq_run_lane_insert : sq_run_lane_update)(conn, lane, err);

    return st == EF_OK ? ef__sq_run(conn, SQ_STATE_LANES_CHANGED, err) : st;
}

ef_status sq_lane_find_or_make(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err)
{
    ef_lane made = {.name = name, .kind = EF_LANE_KIND_PROJECTION, .enabled = true};
    ef_status st = sq_lane_find(conn, name, out, err);

    if (st != EF_OK || out->id)
        return st;
    st = lane_write(conn, true, &made, err);
    return st == EF_OK ? sq_lane_find(conn, name, out, err) : st;
}

static ef_status check_expected(ef__sq_conn *conn, const ef_lane *expected, ef_error *err)
{
    bool matches;
    ef_status st = sq_one_lane_matches(conn, expected, &matches, err);

    return st == EF_OK && !matches ? ef__lane_changed(expected->name, err) : st;
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
    return lane_write(&store->writer.conn, found.id == 0, lane, err);
}

ef_status sq_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                      ef_error *err)
{
    lane_job job = {.base = {.run = run_set}, .lane = lane, .expected = expected};

    return sq_submit(sq_store_of(journal), &job.base, err);
}

ef_status sq_lanes_load(ef__sq_conn *conn, ef_str only, ef__arena *arena, sq_lane **out,
                        size_t *count, ef_error *err)
{
    ef__sq_rows rows = sq_each_lane_in_order(conn, arena, err);
    struct sq_lane_in_order_row row;

    *out = NULL;
    *count = 0;
    while (sq_next_lane_in_order(&rows, &row)) {
        sq_lane lane = {.id = row.id,
                        .name = row.name,
                        .kind = (ef_lane_kind)row.kind,
                        .enabled = row.enabled,
                        .types = row.types,
                        .settings = row.settings,
                        .retain_us = row.retain,
                        .progress = row.progress};
        if (!only.len || ef_str_equal(lane.name, only))
            *out = ef__sq_rows_add(&rows, *out, count, &lane, sizeof lane);
    }
    return ef__sq_rows_end(&rows);
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
