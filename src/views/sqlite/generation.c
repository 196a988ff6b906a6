/*
 * generation.c - builds of projections: adding, listing, states, activating, removing. And the
 * state of a projection beside them: on_error, retired versions.
 */
#include "store.h"

static ef_status activate_generation(vq_store *store, int64_t id, int32_t replaced, ef_error *err)
{
    int64_t now_us = ef__views_now_us(&store->base);
    ef_status st = vq_run_generation_deactivate(
        &store->conn, &(struct vq_generation_deactivate){.id = id, .updated = now_us}, err);

    if (st == EF_OK)
        st = vq_run_generation_activate(
            &store->conn,
            &(struct vq_generation_activate){.id = id, .updated = now_us, .replaced = replaced},
            err);
    return st == EF_OK ? ef__sq_run(&store->conn, VQ_LIVE_SET_CHANGED, err) : st;
}

static ef_status insert_generation(vq_store *store, const ef__generation *g, ef_error *err)
{
    int64_t now_us = ef__views_now_us(&store->base);
    ef_status st = vq_run_generation_add(
        &store->conn,
        &(struct vq_generation_add){
            .g = g, .created = g->created_us ? g->created_us : now_us, .updated = now_us},
        err);

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
    st = insert_generation(store, generation, err);
    *out_id = st == EF_OK ? sqlite3_last_insert_rowid(store->conn.db) : 0;
    if (st == EF_OK && generation->state == EF__GENERATION_LIVE)
        st = ef__sq_run(&store->conn, VQ_LIVE_SET_CHANGED, err);
    if (st == EF_OK && generation->active)
        st = activate_generation(store, *out_id, 0, err);
    return vq_write_end(store, st, err);
}

/* --- listing ---------------------------------------------------------------------------------- */

ef_status vq_generation_ls(ef_views *views, ef_str only_name, ef__generation_list *out,
                           ef_error *err)
{
    ef__generation_row row;
    ef__sq_rows rows;
    ef_status st;
    VQ_READING vq_reader *reader = vq_list_begin(views, true, out, &st, err);

    if (!reader)
        return st;
    rows = vq_each_generation_ls(reader->conn, only_name, &out->room->arena, err);
    while (vq_next_generation_ls(&rows, &row)) {
        out->live_set = row.live_set;
        if (row.is.id == 0)
            continue;
        ef__digest_bytes(row.digest, row.is.digest);
        out->items = ef__sq_rows_add(&rows, out->items, &out->count, &row.is, sizeof row.is);
    }
    return ef__sq_rows_end(&rows);
}

/* --- one generation --------------------------------------------------------------------------- */

/* Begins a writing transaction and reads the generation. The transaction is open after EF_OK. */
static ef_status begin_with(vq_store *store, int64_t id, int64_t era, vq_generation *out,
                            ef_error *err)
{
    bool found;
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    st = vq_one_generation_get(&store->conn, id, out, &found, err);
    if (st == EF_OK && !found)
        st = ef__generation_missing(id, err);
    if (st == EF_OK && era && era != out->era)
        st = ef__generation_moved(id, era, out->era, err);
    return st == EF_OK ? EF_OK : vq_write_end(store, st, err);
}

ef_status vq_generation_change(ef_views *views, int64_t id, int64_t era, ef__generation_state state,
                               const ef__generation *with, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_generation g;
    bool live_changes;
    ef_status st = begin_with(store, id, era, &g, err);

    if (st != EF_OK)
        return st;
    live_changes = with || (g.state == EF__GENERATION_LIVE) != (state == EF__GENERATION_LIVE);
    g.state = state;
    g.era++;
    st = vq_run_generation_put(&store->conn, &g, ef__views_now_us(views), err);
    if (st == EF_OK && with)
        st = vq_run_generation_replace(&store->conn, id, with, err);
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
        st = activate_generation(store, id, replaced, err);
    return vq_write_end(store, st, err);
}

/* Deletes up to `limit` rows of the generation. *out_more: there may be others. */
static ef_status cut_contents(ef__sq_conn *conn, int64_t id, int64_t limit, bool *out_more,
                              ef_error *err)
{
    static ef_status (*const CUT[])(ef__sq_conn * conn, const struct vq_cursor_cut *params,
                                    ef_error *err) = {
        vq_run_view_cut,    vq_run_index_cut,  vq_run_watermark_cut, vq_run_cursor_cut,
        vq_run_failure_cut, vq_run_follow_cut, vq_run_change_cut};
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && limit > 0 && i < sizeof CUT / sizeof CUT[0]; i++) {
        st = CUT[i](conn, &(struct vq_cursor_cut){.generation = id, .limit = limit}, err);
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
        st = vq_run_follow_floor_cut(&store->conn, id, err);
    if (st == EF_OK && !*out_more)
        st = vq_run_generation_remove(&store->conn, id, err);
    if (st == EF_OK && !*out_more && g.state == EF__GENERATION_LIVE)
        st = ef__sq_run(&store->conn, VQ_LIVE_SET_CHANGED, err);
    return vq_write_end(store, st, err);
}

/* --- the projection beside its generations --------------------------------------------------- */

ef_status vq_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    return vq_write_end(store, vq_run_on_error_set(&store->conn, name, on_error, err), err);
}

ef_status vq_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    return vq_write_end(store, vq_run_version_retire(&store->conn, name, version, err), err);
}

ef_status vq_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                ef_error *err)
{
    ef_status st;
    VQ_READING vq_reader *reader = vq_read_begin(views, true, &st, err);

    *out = false;
    return reader ? vq_one_version_is_retired(reader->conn, name, version, out, err) : st;
}
