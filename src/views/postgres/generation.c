/*
 * generation.c - builds of projections: adding, listing, states, activating, removing. And the
 * state of a projection beside them: on_error, retired versions.
 *
 * A transaction that changes an era has the generation's lock exclusively, and that of the live set
 * when its number changes: so values that a commit has compared under the shared locks stay the
 * same until it has ended.
 */
#include "store.h"

/* The requested change: the input of every attempt of its transaction. */
typedef struct change {
    ef_views *views;
    int64_t id, era;
    int32_t replaced;           /* by the generation that becomes active */
    ef__generation_state state; /* to set */
    const ef__generation *with; /* to add, or with the new program */
    int64_t limit;              /* of rows deleted at a time … */
    bool more;                  /* … and whether there are others */
    ef_str name;                /* of a projection, for … */
    ef_on_error on_error;       /* … this … */
    int32_t version;            /* … or a retired version */
} change;

/* --- pieces ----------------------------------------------------------------------------------- */

ef_status vp_generation_find(ef__pg_conn *conn, int64_t id, vp_generation *out, ef_error *err)
{
    ef__pg_array ids = {0};
    ef__pg_rows rows;

    ef__pg_array_int(&ids, id);
    rows = vp_each_generation_get(ef__pg_on_conn(conn), &ids, err);
    if (!vp_next_generation_get(&rows, out) && rows.status == EF_OK)
        rows.status = ef__generation_missing(id, err);
    return ef__pg_rows_end(&rows);
}

static ef_status find_in_era(ef__pg_conn *conn, const change *c, vp_generation *out, ef_error *err)
{
    ef_status st = vp_generation_find(conn, c->id, out, err);

    if (st == EF_OK && c->era && c->era != out->era)
        st = ef__generation_moved(c->id, c->era, out->era, err);
    return st;
}

/* Called under the lock of the live set, so that no other generation is activated meanwhile. Locks
 * the active generation too: its era changes as well, which refuses its commits. */
static ef_status lock_active(ef__pg_conn *conn, int64_t id, ef_error *err)
{
    int64_t active = id;
    ef_status st = vp_one_generation_active(ef__pg_on_conn(conn), id, &active, NULL, err);
    int64_t ids[2] = {active < id ? active : id, active < id ? id : active};

    return st == EF_OK ? vp_lock(conn, true, ids, 2, err) : st;
}

static ef_status activate_locked(const change *c, ef__pg_conn *conn, ef_error *err)
{
    int64_t now_us = ef__views_now_us(c->views);
    ef_status st = vp_send_generation_deactivate(
        conn, &(struct vp_generation_deactivate){.id = c->id, .updated_us = now_us}, err);

    if (st == EF_OK)
        st = vp_send_generation_activate(conn,
                                         &(struct vp_generation_activate){.id = c->id,
                                                                          .updated_us = now_us,
                                                                          .replaced = c->replaced},
                                         err);
    return st == EF_OK ? ef__pg_send(conn, VP_LIVE_SET_CHANGED, NULL, err) : st;
}

/* --- adding ----------------------------------------------------------------------------------- */

static ef_status insert_generation(change *c, ef__pg_conn *conn, ef_error *err)
{
    const ef__generation *g = c->with;
    int64_t now_us = ef__views_now_us(c->views);
    bool added;
    ef_status st = vp_one_generation_add(
        ef__pg_on_conn(conn),
        &(struct vp_generation_add){
            .g = g, .created_us = g->created_us ? g->created_us : now_us, .updated_us = now_us},
        &c->id, &added, err);

    return st != EF_OK || added ? st : ef__generation_number_exists(g->name, g->number, err);
}

/* Under the lock of the live set, because the new number is one above the highest. */
static ef_status add_generation(void *context, ef__pg_conn *conn, ef_error *err)
{
    change *c = context;
    ef_status st = vp_lock(conn, true, (int64_t[]){0}, 1, err);

    if (st == EF_OK)
        st = insert_generation(c, conn, err);
    if (st == EF_OK && c->with->state == EF__GENERATION_LIVE)
        st = ef__pg_send(conn, VP_LIVE_SET_CHANGED, NULL, err);
    if (st == EF_OK && c->with->active)
        st = lock_active(conn, c->id, err);
    if (st == EF_OK && c->with->active)
        st = activate_locked(c, conn, err);
    return st;
}

ef_status vp_generation_add(ef_views *views, const ef__generation *generation, int64_t *out_id,
                            ef_error *err)
{
    change c = {.views = views, .with = generation};
    ef_status st = vp_write(views, false, add_generation, &c, err);

    *out_id = st == EF_OK ? c.id : 0;
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

ef_status vp_generation_ls(ef_views *views, ef_str only_name, ef__generation_list *out,
                           ef_error *err)
{
    ef__generation_row row;
    ef__generation *items;
    ef__pg_rows rows;
    ef_status st = ef__list_prepare(out, err);

    if (st != EF_OK)
        return st;
    rows = vp_each_generation_ls(vp_on(views), only_name, &out->room->arena, err);
    out->items = items = ef__pg_rows_items(&rows, sizeof *items);
    while (vp_next_generation_ls(&rows, &row)) {
        out->live_set = row.live_set;
        if (row.is.id == 0)
            continue;
        ef__digest_bytes(row.digest, row.is.digest);
        items[out->count++] = row.is;
    }
    return ef__pg_rows_end(&rows);
}

/* --- changing --------------------------------------------------------------------------------- */

/* Sets the state, and the program if there is one. */
static ef_status change_generation(void *context, ef__pg_conn *conn, ef_error *err)
{
    const change *c = context;
    vp_generation g;
    bool live_changes;
    ef_status st = vp_lock(conn, true, (int64_t[]){0, c->id}, 2, err);

    if (st == EF_OK)
        st = find_in_era(conn, c, &g, err);
    if (st != EF_OK)
        return st;
    live_changes = c->with || (g.state == EF__GENERATION_LIVE) != (c->state == EF__GENERATION_LIVE);
    g.state = c->state;
    st = vp_send_generation_put(conn, &g, ef__views_now_us(c->views), err);
    if (st == EF_OK && c->with)
        st = vp_send_generation_replace(conn, c->id, c->with, err);
    return st == EF_OK && live_changes ? ef__pg_send(conn, VP_LIVE_SET_CHANGED, NULL, err) : st;
}

ef_status vp_generation_change(ef_views *views, int64_t id, int64_t era, ef__generation_state state,
                               const ef__generation *with, ef_error *err)
{
    change c = {.views = views, .id = id, .era = era, .state = state, .with = with};

    return vp_write(views, false, change_generation, &c, err);
}

static ef_status set_active(void *context, ef__pg_conn *conn, ef_error *err)
{
    const change *c = context;
    vp_generation g;
    ef_status st = vp_lock(conn, true, (int64_t[]){0}, 1, err);

    if (st == EF_OK)
        st = lock_active(conn, c->id, err);
    if (st == EF_OK)
        st = find_in_era(conn, c, &g, err);
    return st == EF_OK && !g.active ? activate_locked(c, conn, err) : st;
}

ef_status vp_generation_activate(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                 ef_error *err)
{
    change c = {.views = views, .id = id, .era = era, .replaced = replaced};

    return vp_write(views, false, set_active, &c, err);
}

/* --- removing --------------------------------------------------------------------------------- */

/* Locks a generation to delete its contents, which may take long. Commits of other generations wait
 * for it only if it is live, because only then the live set changes. */
static ef_status lock_contents(ef__pg_conn *conn, const change *c, vp_generation *out,
                               ef_error *err)
{
    bool live;
    ef_status st = vp_generation_find(conn, c->id, out, err);

    if (st != EF_OK)
        return st;
    live = out->state == EF__GENERATION_LIVE;
    st = live ? vp_lock(conn, true, (int64_t[]){0, c->id}, 2, err)
              : vp_lock(conn, true, &c->id, 1, err);
    if (st == EF_OK)
        st = find_in_era(conn, c, out, err);
    if (st == EF_OK && !live && out->state == EF__GENERATION_LIVE)
        st = ef__pg_request_retry(conn, "the generation went live meanwhile", err);
    return st;
}

/* Deletes up to `limit` rows of the generation. *out_more: there may be others. */
static ef_status cut_contents(ef__pg_conn *conn, int64_t id, int64_t limit, bool *out_more,
                              ef_error *err)
{
    static ef_status (*const CUT[])(ef__pg_on on, const struct vp_cursor_cut *params,
                                    int64_t *out_changed, ef_error *err) = {
        vp_run_view_cut,    vp_run_index_cut,  vp_run_watermark_cut, vp_run_cursor_cut,
        vp_run_failure_cut, vp_run_follow_cut, vp_run_change_cut};
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && limit > 0 && i < sizeof CUT / sizeof CUT[0]; i++) {
        int64_t changed = 0;
        st = CUT[i](ef__pg_on_conn(conn), &(struct vp_cursor_cut){.generation = id, .limit = limit},
                    &changed, err);
        limit -= changed;
    }
    *out_more = limit <= 0;
    return st;
}

static ef_status remove_generation(void *context, ef__pg_conn *conn, ef_error *err)
{
    change *c = context;
    vp_generation g;
    ef_status st = lock_contents(conn, c, &g, err);

    c->more = false;
    if (st == EF_OK && g.active)
        st = ef__generation_is_active(c->id, err);
    if (st == EF_OK)
        st = cut_contents(conn, c->id, c->limit, &c->more, err);
    if (st != EF_OK || c->more)
        return st;
    st = vp_send_generation_uncount(conn, c->id, err);
    if (st == EF_OK)
        st = vp_send_follow_floor_cut(conn, c->id, err);
    if (st == EF_OK)
        st = vp_send_generation_remove(conn, c->id, err);
    if (st == EF_OK && g.state == EF__GENERATION_LIVE)
        st = ef__pg_send(conn, VP_LIVE_SET_CHANGED, NULL, err);
    return st;
}

ef_status vp_generation_remove(ef_views *views, int64_t id, int64_t era, int64_t limit,
                               bool *out_more, ef_error *err)
{
    change c = {.views = views, .id = id, .era = era, .limit = limit};
    ef_status st = vp_write(views, false, remove_generation, &c, err);

    *out_more = st == EF_OK && c.more;
    return st;
}

/* --- the projection beside its generations ---------------------------------------------------- */

/* Under the lock of the live set: a generation that is being added has the new value too. */
static ef_status set_on_error(void *context, ef__pg_conn *conn, ef_error *err)
{
    const change *c = context;
    ef_status st = vp_lock(conn, true, (int64_t[]){0}, 1, err);

    return st == EF_OK ? vp_send_on_error_set(conn, c->name, c->on_error, err) : st;
}

ef_status vp_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err)
{
    change c = {.name = name, .on_error = on_error};

    return vp_write(views, false, set_on_error, &c, err);
}

static ef_status retire_version(void *context, ef__pg_conn *conn, ef_error *err)
{
    const change *c = context;

    return vp_send_version_retire(conn, c->name, c->version, err);
}

ef_status vp_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err)
{
    change c = {.name = name, .version = version};

    return vp_write(views, false, retire_version, &c, err);
}

ef_status vp_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                ef_error *err)
{
    *out = false;
    return vp_one_version_is_retired(vp_on(views), name, version, out, err);
}
