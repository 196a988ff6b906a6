/*
 * cursor.c - the cursors of single tenants: writing, finding, listing.
 */
#include "store.h"

/* A change that changed no row found a cursor that differs from what was read. */
static ef_status check_changed(vq_store *store, ef_status st, ef_str tenant, ef_error *err)
{
    return st != EF_OK || sqlite3_changes(store->conn.db) ? st
                                                          : ef__tenant_cursor_moved(tenant, err);
}

static ef_status write_cursor(vq_store *store, const vq_generation *g,
                              const ef__tenant_cursor_change *c, ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    bool is_new = ef__tenant_cursor_is_none(&c->before);
    ef_status st = EF_OK;

    if (is_new) {
        st =
            vq_run_cursor_insert(conn, &(struct vq_cursor_insert){g->id, c, vq_now_us(store)}, err);
        st = check_changed(store, st, c->tenant, err);
    }
    if (st == EF_OK && c->after.position == g->position)
        st = vq_run_cursor_delete(conn, g->id, c->tenant, is_new ? &c->after : &c->before, err);
    else if (st == EF_OK && !is_new)
        st =
            vq_run_cursor_update(conn, &(struct vq_cursor_update){g->id, c, vq_now_us(store)}, err);
    return check_changed(store, st, c->tenant, err);
}

ef_status vq_cursors_write(vq_store *store, const vq_generation *generation,
                           const ef__generation_change *change, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < change->tenant_count; i++)
        st = write_cursor(store, generation, &change->tenants[i], err);
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

ef_status vq_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                               ef__tenant_cursor_item *out, bool *out_found, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    *out = (ef__tenant_cursor_item){0};
    *out_found = false;
    if (st == EF_OK) {
        st = vq_one_cursor_get(conn, generation, tenant, out, out_found, err);
        vq_read_end(store, reader);
    }
    out->tenant = tenant;
    return st;
}

ef_status vq_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                              ef__tenant_cursor_list *out, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    if (st == EF_OK)
        st = vq_read_begin(store, true, &reader, &conn, err);
    if (st != EF_OK)
        return st;
    st = vq_list_cursor_due(
        conn,
        &(struct vq_cursor_due){.generation = generation, .due = due_us, .limit = vq_limit(limit)},
        &out->room->arena, &out->items, &out->count, err);
    vq_read_end(store, reader);
    return st;
}
