/*
 * generation.c - builds of projections: adding, listing, states, routes, removing.
 */
#include "store.h"

/* Run `which` with an id, and a number behind it where it has one. */
static ef_status run_with(ef__sq_conn *conn, int which, int64_t id, int64_t second, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, which, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, id);
    if (sqlite3_bind_parameter_count(stmt) > 1)
        sqlite3_bind_int64(stmt, 2, second);
    return ef__sq_done(conn, stmt, err);
}

static ef_status activate(vq_store *store, int64_t id, int32_t replaced, ef_error *err)
{
    int64_t now_us = vq_now_us(store);
    sqlite3_stmt *stmt;
    ef_status st = run_with(&store->conn, VQ_GENERATION_DEACTIVATE, id, now_us, err);

    if (st == EF_OK)
        st = ef__sq_stmt(&store->conn, VQ_GENERATION_ACTIVATE, &stmt, err);
    if (st == EF_OK) {
        sqlite3_bind_int64(stmt, 1, id);
        sqlite3_bind_int64(stmt, 2, now_us);
        sqlite3_bind_int(stmt, 3, replaced);
        st = ef__sq_done(&store->conn, stmt, err);
    }
    return st == EF_OK ? ef__sq_run(&store->conn, VQ_LIVE_SET_CHANGED, err) : st;
}

static ef_status insert(vq_store *store, const ef__generation *g, ef_error *err)
{
    int64_t now_us = vq_now_us(store);
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(&store->conn, VQ_GENERATION_ADD, &stmt, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, g->name);
    sqlite3_bind_int(stmt, 2, g->version);
    sqlite3_bind_int(stmt, 3, g->by_log);
    ef__sq_bind_str(stmt, 4, g->program);
    sqlite3_bind_int64(stmt, 5, (int64_t)g->program_hash);
    ef__sq_bind_str(stmt, 6, g->index_paths);
    sqlite3_bind_int(stmt, 7, g->schema);
    sqlite3_bind_int(stmt, 8, (int)g->state);
    sqlite3_bind_int64(stmt, 9, g->position);
    sqlite3_bind_int64(stmt, 10, g->seam);
    sqlite3_bind_int64(stmt, 11, g->created_us ? g->created_us : now_us);
    sqlite3_bind_int64(stmt, 12, now_us);
    sqlite3_bind_int(stmt, 13, g->number);
    sqlite3_bind_int(stmt, 14, (int)g->on_error);
    st = ef__sq_done(&store->conn, stmt, err);
    return st == EF_OK && sqlite3_changes(store->conn.db) == 0
               ? ef__generation_number_exists(g->name, g->number, err)
               : st;
}

ef_status vq_generation_add(ef_views *views, const ef__generation *generation, int64_t *out_id,
                            ef_error *err)
{
    vq_store *store = vq_store_of(views);
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    st = insert(store, generation, err);
    *out_id = st == EF_OK ? sqlite3_last_insert_rowid(store->conn.db) : 0;
    if (st == EF_OK && generation->state == EF__GENERATION_LIVE)
        st = ef__sq_run(&store->conn, VQ_LIVE_SET_CHANGED, err);
    if (st == EF_OK && generation->active)
        st = activate(store, *out_id, 0, err);
    return vq_write_end(store, st, err);
}

/* --- listing ---------------------------------------------------------------------------------- */

static bool read_generation(sqlite3_stmt *stmt, ef__arena *arena, ef__generation *g)
{
    uint64_t digest[2] = {(uint64_t)sqlite3_column_int64(stmt, 20),
                          (uint64_t)sqlite3_column_int64(stmt, 21)};

    *g = (ef__generation){
        .id = sqlite3_column_int64(stmt, 0),
        .name = ef__arena_copy(arena, ef__sq_column_str(stmt, 1)),
        .version = sqlite3_column_int(stmt, 2),
        .number = sqlite3_column_int(stmt, 3),
        .by_log = sqlite3_column_int(stmt, 4) != 0,
        .program = ef__arena_copy(arena, ef__sq_column_str(stmt, 5)),
        .program_hash = (uint64_t)sqlite3_column_int64(stmt, 6),
        .index_paths = ef__arena_copy(arena, ef__sq_column_str(stmt, 7)),
        .schema = sqlite3_column_int(stmt, 8),
        .state = (ef__generation_state)sqlite3_column_int(stmt, 9),
        .active = sqlite3_column_int(stmt, 10) != 0,
        .era = sqlite3_column_int64(stmt, 11),
        .position = sqlite3_column_int64(stmt, 12),
        .seam = sqlite3_column_int64(stmt, 13),
        .created_us = sqlite3_column_int64(stmt, 14),
        .updated_us = sqlite3_column_int64(stmt, 15),
        .views = sqlite3_column_int64(stmt, 16),
        .applied = sqlite3_column_int64(stmt, 17),
        .ignored = sqlite3_column_int64(stmt, 18),
        .skipped = sqlite3_column_int64(stmt, 19),
        .own_cursors = sqlite3_column_int64(stmt, 22),
        .own_lowest = sqlite3_column_int64(stmt, 23),
        .own_waiting = sqlite3_column_int64(stmt, 24),
        .on_error = (ef_on_error)sqlite3_column_int(stmt, 25),
        .replaced = sqlite3_column_int(stmt, 26),
        .superseded_us = sqlite3_column_int64(stmt, 27),
    };
    ef__digest_bytes(digest, g->digest);
    return g->name.ptr && g->program.ptr && g->index_paths.ptr;
}

static ef_status read_all(ef__sq_conn *conn, sqlite3_stmt *stmt, ef__generation_list *out,
                          ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__generation *items = NULL;
    size_t cap = 0;
    bool row;
    ef_status st;

    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        items = ef__arena_grow(arena, items, out->count, sizeof *items, &cap);
        if (!items || !read_generation(stmt, arena, &items[out->count])) {
            sqlite3_reset(stmt);
            return ef__no_memory(err);
        }
        out->items = items;
        out->count++;
    }
    return st;
}

ef_status vq_generation_ls(ef_views *views, ef_str only_name, ef__generation_list *out,
                           ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    sqlite3_stmt *stmt;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    if (st == EF_OK)
        st = vq_read_begin(store, true, &reader, &conn, err);
    if (st != EF_OK)
        return st;
    st = ef__sq_stmt(conn, only_name.len ? VQ_GENERATION_OF_NAME : VQ_GENERATION_ALL, &stmt, err);
    if (st == EF_OK) {
        if (only_name.len)
            ef__sq_bind_str(stmt, 1, only_name);
        st = read_all(conn, stmt, out, err);
    }
    vq_read_end(store, reader);
    return st;
}

/* --- one generation --------------------------------------------------------------------------- */

ef_status vq_generation_find(ef__sq_conn *conn, int64_t id, vq_generation *out, bool *out_found,
                             ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, VQ_GENERATION_GET, &stmt, err);

    *out_found = false;
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, id);
    st = ef__sq_row(conn, stmt, out_found, err);
    if (st != EF_OK || !*out_found)
        return st;
    *out = (vq_generation){
        .id = id,
        .era = sqlite3_column_int64(stmt, 0),
        .state = (ef__generation_state)sqlite3_column_int(stmt, 1),
        .active = sqlite3_column_int(stmt, 2) != 0,
        .position = sqlite3_column_int64(stmt, 3),
        .seam = sqlite3_column_int64(stmt, 4),
        .views = sqlite3_column_int64(stmt, 5),
        .applied = sqlite3_column_int64(stmt, 6),
        .ignored = sqlite3_column_int64(stmt, 7),
        .skipped = sqlite3_column_int64(stmt, 8),
        .digest = {(uint64_t)sqlite3_column_int64(stmt, 9),
                   (uint64_t)sqlite3_column_int64(stmt, 10)},
        .indexed = sqlite3_column_int(stmt, 11) != 0,
        .followed = sqlite3_column_type(stmt, 12) != SQLITE_NULL,
        .follow_ends_us = sqlite3_column_int64(stmt, 12),
    };
    sqlite3_reset(stmt);
    return EF_OK;
}

ef_status vq_generation_put(vq_store *store, const vq_generation *g, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(&store->conn, VQ_GENERATION_PUT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, g->id);
    sqlite3_bind_int64(stmt, 2, g->era);
    sqlite3_bind_int(stmt, 3, (int)g->state);
    sqlite3_bind_int64(stmt, 4, g->position);
    sqlite3_bind_int64(stmt, 5, g->seam);
    sqlite3_bind_int64(stmt, 6, g->views);
    sqlite3_bind_int64(stmt, 7, g->applied);
    sqlite3_bind_int64(stmt, 8, g->ignored);
    sqlite3_bind_int64(stmt, 9, g->skipped);
    sqlite3_bind_int64(stmt, 10, (int64_t)g->digest[0]);
    sqlite3_bind_int64(stmt, 11, (int64_t)g->digest[1]);
    sqlite3_bind_int64(stmt, 12, vq_now_us(store));
    return ef__sq_done(&store->conn, stmt, err);
}

/* The generation, inside a writing transaction that is open when this answers EF_OK. */
static ef_status begin_with(vq_store *store, int64_t id, int64_t era, vq_generation *out,
                            ef_error *err)
{
    bool found;
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    st = vq_generation_find(&store->conn, id, out, &found, err);
    if (st == EF_OK && !found)
        st = ef__generation_missing(id, err);
    if (st == EF_OK && era && era != out->era)
        st = ef__generation_moved(id, era, out->era, err);
    return st == EF_OK ? EF_OK : vq_write_end(store, st, err);
}

ef_status vq_generation_set_state(ef_views *views, int64_t id, int64_t era,
                                  ef__generation_state state, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_generation g;
    bool live_changes;
    ef_status st = begin_with(store, id, era, &g, err);

    if (st != EF_OK)
        return st;
    live_changes = (g.state == EF__GENERATION_LIVE) != (state == EF__GENERATION_LIVE);
    g.state = state;
    g.era++;
    st = vq_generation_put(store, &g, err);
    if (st == EF_OK && live_changes)
        st = ef__sq_run(&store->conn, VQ_LIVE_SET_CHANGED, err);
    return vq_write_end(store, st, err);
}

ef_status vq_generation_activate(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                 ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_generation g;
    ef_status st = begin_with(store, id, era, &g, err);

    if (st != EF_OK)
        return st;
    if (!g.active)
        st = activate(store, id, replaced, err);
    return vq_write_end(store, st, err);
}

static ef_status put_program(ef__sq_conn *conn, int64_t id, const ef__generation *with,
                             ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, VQ_GENERATION_REPLACE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, id);
    sqlite3_bind_int(stmt, 2, with->version);
    ef__sq_bind_str(stmt, 3, with->program);
    sqlite3_bind_int64(stmt, 4, (int64_t)with->program_hash);
    sqlite3_bind_int(stmt, 5, with->schema);
    sqlite3_bind_int(stmt, 6, with->replaced);
    sqlite3_bind_int64(stmt, 7, with->superseded_us);
    return ef__sq_done(conn, stmt, err);
}

ef_status vq_generation_replace(ef_views *views, int64_t id, int64_t era,
                                const ef__generation *with, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_generation g;
    ef_status st = begin_with(store, id, era, &g, err);

    if (st != EF_OK)
        return st;
    g.state = with->state;
    g.era++;
    st = vq_generation_put(store, &g, err);
    if (st == EF_OK)
        st = put_program(&store->conn, id, with, err);
    if (st == EF_OK)
        st = ef__sq_run(&store->conn, VQ_LIVE_SET_CHANGED, err);
    return vq_write_end(store, st, err);
}

/* Up to `limit` rows of all that is its own. *out_more: there may be others. */
static ef_status cut_contents(ef__sq_conn *conn, int64_t id, int64_t limit, bool *out_more,
                              ef_error *err)
{
    static const int WHICH[] = {VQ_VIEW_CUT,    VQ_INDEX_CUT,  VQ_WATERMARK_CUT, VQ_CURSOR_CUT,
                                VQ_FAILURE_CUT, VQ_FOLLOW_CUT, VQ_CHANGE_CUT};
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && limit > 0 && i < sizeof WHICH / sizeof WHICH[0]; i++) {
        st = run_with(conn, WHICH[i], id, limit, err);
        limit -= sqlite3_changes(conn->db);
    }
    *out_more = limit <= 0;
    return st;
}

ef_status vq_generation_remove(ef_views *views, int64_t id, int64_t era, int64_t limit,
                               bool *out_more, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_generation g;
    ef_status st = begin_with(store, id, era, &g, err);

    *out_more = false;
    if (st != EF_OK)
        return st;
    if (g.active)
        st = ef__generation_is_active(id, err);
    if (st == EF_OK)
        st = cut_contents(&store->conn, id, limit, out_more, err);
    if (st == EF_OK && !*out_more)
        st = run_with(&store->conn, VQ_FOLLOW_FLOOR_CUT, id, 0, err);
    if (st == EF_OK && !*out_more)
        st = run_with(&store->conn, VQ_GENERATION_REMOVE, id, 0, err);
    if (st == EF_OK && !*out_more && g.state == EF__GENERATION_LIVE)
        st = ef__sq_run(&store->conn, VQ_LIVE_SET_CHANGED, err);
    return vq_write_end(store, st, err);
}

ef_status vq_live_set_get(ef_views *views, int64_t *out, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    if (st != EF_OK)
        return st;
    st = ef__sq_stmt(conn, VQ_LIVE_SET_GET, &stmt, err);
    if (st == EF_OK)
        st = ef__sq_row(conn, stmt, &row, err);
    if (st == EF_OK && row) {
        *out = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    vq_read_end(store, reader);
    return st;
}
