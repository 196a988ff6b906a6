/*
 * generation.c - builds of projections: adding, listing, states, activating, removing.
 *
 * A transaction that changes an era has the generation's lock exclusively, and that of the live set
 * when its number changes: so values that a commit has compared under the shared locks stay the
 * same until it has ended.
 */
#include "store.h"

/* A generation as it is under its lock. */
typedef struct locked {
    int64_t id, era, position, seam;
    ef__generation_state state;
    bool active;
} locked;

/* The requested change: the input of every attempt of its transaction. */
typedef struct change {
    vp_store *store;
    int64_t id, era;
    int32_t replaced;                 /* by the generation that becomes active */
    ef__generation_state state;       /* to set */
    const ef__generation *generation; /* to add, or with the new program */
    int64_t limit;                    /* of rows deleted at a time … */
    bool more;                        /* … and whether there are others */
} change;

/* --- pieces ----------------------------------------------------------------------------------- */

static ef_status run_with(ef__pg_conn *conn, int which, int64_t id, const int64_t *second,
                          ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_int(&params, id);
    if (second)
        ef__pg_add_int(&params, *second);
    return ef__pg_send(conn, which, &params, err);
}

static ef_status read_locked(ef__pg_conn *conn, int64_t id, locked *out, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array ids;
    PGresult *rows = NULL;
    ef_status st;

    ef__pg_array_init(&ids, EF__PG_INT);
    ef__pg_array_int(&ids, id);
    ef__pg_add_array(&params, &ids);
    st = ef__pg_query(conn, VP_GENERATION_GET, &params, &rows, err);
    if (st == EF_OK && PQntuples(rows) == 0)
        st = ef__generation_missing(id, err);
    if (st == EF_OK)
        *out = (locked){.id = id,
                        .era = ef__pg_int(rows, 0, 1),
                        .state = (ef__generation_state)ef__pg_int(rows, 0, 2),
                        .active = ef__pg_bool(rows, 0, 3),
                        .position = ef__pg_int(rows, 0, 4),
                        .seam = ef__pg_int(rows, 0, 5)};
    PQclear(rows);
    ef__pg_array_release(&ids);
    return st;
}

static ef_status read_expected_era(ef__pg_conn *conn, const change *c, locked *out, ef_error *err)
{
    ef_status st = read_locked(conn, c->id, out, err);

    if (st == EF_OK && c->era && c->era != out->era)
        st = ef__generation_moved(c->id, c->era, out->era, err);
    return st;
}

static ef_status put_generation(vp_store *store, ef__pg_conn *conn, const locked *g, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_int(&params, g->id);
    ef__pg_add_int(&params, (int64_t)g->state);
    ef__pg_add_int(&params, g->position);
    ef__pg_add_int(&params, g->seam);
    ef__pg_add_int(&params, vp_now_us(store));
    return ef__pg_send(conn, VP_GENERATION_PUT, &params, err);
}

/* Called under the lock of the live set, so that no other generation is activated meanwhile. Locks
 * the active generation too: its era changes as well, which refuses its commits. */
static ef_status lock_active(ef__pg_conn *conn, int64_t id, ef_error *err)
{
    int64_t ids[2] = {id, id};
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef_status st;

    ef__pg_add_int(&params, id);
    st = ef__pg_query(conn, VP_GENERATION_ACTIVE, &params, &rows, err);
    if (st == EF_OK && PQntuples(rows) > 0) {
        int64_t before = ef__pg_int(rows, 0, 0);
        ids[0] = before < id ? before : id;
        ids[1] = before < id ? id : before;
    }
    PQclear(rows);
    return st == EF_OK ? vp_lock(conn, true, ids, 2, err) : st;
}

static ef_status activate_locked(const change *c, ef__pg_conn *conn, ef_error *err)
{
    int64_t now_us = vp_now_us(c->store);
    ef__pg_params params = {0};
    ef_status st = run_with(conn, VP_GENERATION_DEACTIVATE, c->id, &now_us, err);

    ef__pg_add_int(&params, c->id);
    ef__pg_add_int(&params, now_us);
    ef__pg_add_int(&params, c->replaced);
    if (st == EF_OK)
        st = ef__pg_send(conn, VP_GENERATION_ACTIVATE, &params, err);
    return st == EF_OK ? ef__pg_send(conn, VP_LIVE_SET_CHANGED, NULL, err) : st;
}

/* --- adding ----------------------------------------------------------------------------------- */

static ef_status insert_generation(const change *c, ef__pg_conn *conn, int64_t *out_id,
                                   ef_error *err)
{
    const ef__generation *g = c->generation;
    int64_t now_us = vp_now_us(c->store);
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef_status st;

    ef__pg_add_str(&params, g->name);
    ef__pg_add_int(&params, g->version);
    ef__pg_add_bool(&params, g->by_log);
    ef__pg_add_str(&params, g->program);
    ef__pg_add_int(&params, (int64_t)g->program_hash);
    ef__pg_add_str(&params, g->index_paths);
    ef__pg_add_int(&params, g->schema);
    ef__pg_add_int(&params, (int64_t)g->state);
    ef__pg_add_int(&params, g->position);
    ef__pg_add_int(&params, g->seam);
    ef__pg_add_int(&params, g->created_us ? g->created_us : now_us);
    ef__pg_add_int(&params, now_us);
    ef__pg_add_int(&params, g->number);
    ef__pg_add_int(&params, (int64_t)g->on_error);
    st = ef__pg_query(conn, VP_GENERATION_ADD, &params, &rows, err);
    if (st == EF_OK && PQntuples(rows) == 0)
        st = ef__generation_number_exists(g->name, g->number, err);
    *out_id = st == EF_OK ? ef__pg_int(rows, 0, 0) : 0;
    PQclear(rows);
    return st;
}

/* Under the lock of the live set, because the new number is one above the highest. */
static ef_status add_generation(void *context, ef__pg_conn *conn, ef_error *err)
{
    change *c = context;
    ef_status st = vp_lock(conn, true, (int64_t[]){0}, 1, err);

    if (st == EF_OK)
        st = insert_generation(c, conn, &c->id, err);
    if (st == EF_OK && c->generation->state == EF__GENERATION_LIVE)
        st = ef__pg_send(conn, VP_LIVE_SET_CHANGED, NULL, err);
    if (st == EF_OK && c->generation->active)
        st = lock_active(conn, c->id, err);
    if (st == EF_OK && c->generation->active)
        st = activate_locked(c, conn, err);
    return st;
}

ef_status vp_generation_add(ef_views *views, const ef__generation *generation, int64_t *out_id,
                            ef_error *err)
{
    change c = {.store = vp_store_of(views), .generation = generation};
    ef_status st = vp_write(c.store, false, add_generation, &c, err);

    *out_id = st == EF_OK ? c.id : 0;
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

static bool read_generation(const PGresult *rows, int row, ef__arena *arena, ef__generation *g)
{
    uint64_t digest[2] = {(uint64_t)ef__pg_int(rows, row, 20), (uint64_t)ef__pg_int(rows, row, 21)};

    *g = (ef__generation){
        .id = ef__pg_int(rows, row, 0),
        .name = ef__arena_copy(arena, ef__pg_str(rows, row, 1)),
        .version = (int32_t)ef__pg_int(rows, row, 2),
        .number = (int32_t)ef__pg_int(rows, row, 3),
        .by_log = ef__pg_bool(rows, row, 4),
        .program = ef__arena_copy(arena, ef__pg_str(rows, row, 5)),
        .program_hash = (uint64_t)ef__pg_int(rows, row, 6),
        .index_paths = ef__arena_copy(arena, ef__pg_str(rows, row, 7)),
        .schema = (int32_t)ef__pg_int(rows, row, 8),
        .state = (ef__generation_state)ef__pg_int(rows, row, 9),
        .active = ef__pg_bool(rows, row, 10),
        .era = ef__pg_int(rows, row, 11),
        .position = ef__pg_int(rows, row, 12),
        .seam = ef__pg_int(rows, row, 13),
        .created_us = ef__pg_int(rows, row, 14),
        .updated_us = ef__pg_int(rows, row, 15),
        .views = ef__pg_int(rows, row, 16),
        .applied = ef__pg_int(rows, row, 17),
        .ignored = ef__pg_int(rows, row, 18),
        .skipped = ef__pg_int(rows, row, 19),
        .own_cursors = ef__pg_int(rows, row, 22),
        .own_lowest = ef__pg_int(rows, row, 23),
        .own_waiting = ef__pg_int(rows, row, 24),
        .on_error = (ef_on_error)ef__pg_int(rows, row, 25),
        .replaced = (int32_t)ef__pg_int(rows, row, 26),
        .superseded_us = ef__pg_int(rows, row, 27),
    };
    ef__digest_bytes(digest, g->digest);
    return g->name.ptr && g->program.ptr && g->index_paths.ptr;
}

ef_status vp_generation_ls(ef_views *views, ef_str only_name, ef__generation_list *out,
                           ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef__generation *items = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    if (st != EF_OK)
        return st;
    if (only_name.len)
        ef__pg_add_str(&params, only_name);
    st =
        ef__pg_read(vp_store_of(views)->pool,
                    only_name.len ? VP_GENERATION_OF_NAME : VP_GENERATION_ALL, &params, &rows, err);
    if (st == EF_OK) {
        items = ef__arena_zalloc(&out->room->arena, (size_t)PQntuples(rows) + 1, sizeof *items);
        st = items ? EF_OK : ef__no_memory(err);
    }
    for (int i = 0; st == EF_OK && i < PQntuples(rows); i++)
        st = read_generation(rows, i, &out->room->arena, &items[i]) ? EF_OK : ef__no_memory(err);
    if (st == EF_OK) {
        out->items = items;
        out->count = (size_t)PQntuples(rows);
    }
    PQclear(rows);
    return st;
}

ef_status vp_live_set_get(ef_views *views, int64_t *out, ef_error *err)
{
    PGresult *rows = NULL;
    ef_status st = ef__pg_read(vp_store_of(views)->pool, VP_LIVE_SET_GET, NULL, &rows, err);

    if (st == EF_OK)
        *out = ef__pg_int(rows, 0, 0);
    PQclear(rows);
    return st;
}

/* --- changing --------------------------------------------------------------------------------- */

static ef_status set_state(void *context, ef__pg_conn *conn, ef_error *err)
{
    const change *c = context;
    locked g;
    bool was_live;
    ef_status st = vp_lock(conn, true, (int64_t[]){0, c->id}, 2, err);

    if (st == EF_OK)
        st = read_expected_era(conn, c, &g, err);
    if (st != EF_OK)
        return st;
    was_live = g.state == EF__GENERATION_LIVE;
    g.state = c->state;
    st = put_generation(c->store, conn, &g, err);
    if (st == EF_OK && was_live != (c->state == EF__GENERATION_LIVE))
        st = ef__pg_send(conn, VP_LIVE_SET_CHANGED, NULL, err);
    return st;
}

ef_status vp_generation_set_state(ef_views *views, int64_t id, int64_t era,
                                  ef__generation_state state, ef_error *err)
{
    change c = {.store = vp_store_of(views), .id = id, .era = era, .state = state};

    return vp_write(c.store, false, set_state, &c, err);
}

static ef_status put_program(const change *c, ef__pg_conn *conn, ef_error *err)
{
    const ef__generation *with = c->generation;
    ef__pg_params params = {0};

    ef__pg_add_int(&params, c->id);
    ef__pg_add_int(&params, with->version);
    ef__pg_add_str(&params, with->program);
    ef__pg_add_int(&params, (int64_t)with->program_hash);
    ef__pg_add_int(&params, with->schema);
    ef__pg_add_int(&params, with->replaced);
    ef__pg_add_int(&params, with->superseded_us);
    return ef__pg_send(conn, VP_GENERATION_REPLACE, &params, err);
}

static ef_status replace_program(void *context, ef__pg_conn *conn, ef_error *err)
{
    const change *c = context;
    locked g;
    ef_status st = vp_lock(conn, true, (int64_t[]){0, c->id}, 2, err);

    if (st == EF_OK)
        st = read_expected_era(conn, c, &g, err);
    if (st != EF_OK)
        return st;
    g.state = c->generation->state;
    st = put_generation(c->store, conn, &g, err);
    if (st == EF_OK)
        st = put_program(c, conn, err);
    return st == EF_OK ? ef__pg_send(conn, VP_LIVE_SET_CHANGED, NULL, err) : st;
}

ef_status vp_generation_replace(ef_views *views, int64_t id, int64_t era,
                                const ef__generation *with, ef_error *err)
{
    change c = {.store = vp_store_of(views), .id = id, .era = era, .generation = with};

    return vp_write(c.store, false, replace_program, &c, err);
}

static ef_status set_active(void *context, ef__pg_conn *conn, ef_error *err)
{
    const change *c = context;
    locked g;
    ef_status st = vp_lock(conn, true, (int64_t[]){0}, 1, err);

    if (st == EF_OK)
        st = lock_active(conn, c->id, err);
    if (st == EF_OK)
        st = read_expected_era(conn, c, &g, err);
    return st == EF_OK && !g.active ? activate_locked(c, conn, err) : st;
}

ef_status vp_generation_activate(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                 ef_error *err)
{
    change c = {.store = vp_store_of(views), .id = id, .era = era, .replaced = replaced};

    return vp_write(c.store, false, set_active, &c, err);
}

/* Locks a generation to delete its contents, which may take long. Commits of other generations wait
 * for it only if it is live, because only then the live set changes. */
static ef_status lock_contents(ef__pg_conn *conn, const change *c, locked *out, ef_error *err)
{
    locked before;
    bool live;
    ef_status st = read_locked(conn, c->id, &before, err);

    if (st != EF_OK)
        return st;
    live = before.state == EF__GENERATION_LIVE;
    st = live ? vp_lock(conn, true, (int64_t[]){0, c->id}, 2, err)
              : vp_lock(conn, true, &c->id, 1, err);
    if (st == EF_OK)
        st = read_expected_era(conn, c, out, err);
    if (st == EF_OK && !live && out->state == EF__GENERATION_LIVE)
        st = ef__pg_request_retry(conn, "the generation went live meanwhile", err);
    return st;
}

/* Deletes up to `limit` rows of the generation. *out_more: there may be others. */
static ef_status cut_contents(ef__pg_conn *conn, int64_t id, int64_t limit, bool *out_more,
                              ef_error *err)
{
    static const int WHICH[] = {VP_VIEW_CUT,    VP_INDEX_CUT,  VP_WATERMARK_CUT, VP_CURSOR_CUT,
                                VP_FAILURE_CUT, VP_FOLLOW_CUT, VP_CHANGE_CUT};
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && limit > 0 && i < sizeof WHICH / sizeof WHICH[0]; i++) {
        ef__pg_params params = {0};
        int64_t changed = 0;
        ef__pg_add_int(&params, id);
        ef__pg_add_int(&params, limit);
        st = ef__pg_change(conn, WHICH[i], &params, &changed, err);
        limit -= changed;
    }
    *out_more = limit <= 0;
    return st;
}

static ef_status remove_generation(void *context, ef__pg_conn *conn, ef_error *err)
{
    change *c = context;
    locked g;
    ef_status st = lock_contents(conn, c, &g, err);

    c->more = false;
    if (st == EF_OK && g.active)
        st = ef__generation_is_active(c->id, err);
    if (st == EF_OK)
        st = cut_contents(conn, c->id, c->limit, &c->more, err);
    if (st != EF_OK || c->more)
        return st;
    st = run_with(conn, VP_GENERATION_UNCOUNT, c->id, NULL, err);
    if (st == EF_OK)
        st = run_with(conn, VP_FOLLOW_FLOOR_CUT, c->id, NULL, err);
    if (st == EF_OK)
        st = run_with(conn, VP_GENERATION_REMOVE, c->id, NULL, err);
    if (st == EF_OK && g.state == EF__GENERATION_LIVE)
        st = ef__pg_send(conn, VP_LIVE_SET_CHANGED, NULL, err);
    return st;
}

ef_status vp_generation_remove(ef_views *views, int64_t id, int64_t era, int64_t limit,
                               bool *out_more, ef_error *err)
{
    change c = {.store = vp_store_of(views), .id = id, .era = era, .limit = limit};
    ef_status st = vp_write(c.store, false, remove_generation, &c, err);

    *out_more = st == EF_OK && c.more;
    return st;
}
