/*
 * cursor.c - the cursors of single tenants: writing, finding, listing.
 */
#include "store.h"

static void bind_cursor(sqlite3_stmt *stmt, int at, const ef__tenant_cursor *c)
{
    sqlite3_bind_int64(stmt, at, c->position);
    sqlite3_bind_int64(stmt, at + 1, c->waiting);
    sqlite3_bind_int64(stmt, at + 2, c->attempts);
    sqlite3_bind_int64(stmt, at + 3, c->due_us);
}

/* Run a change of one row: `which`, with `now` where it is bound first, and `was` behind it. */
static ef_status run_change(vq_store *store, int which, int64_t generation, ef_str tenant,
                            const ef__tenant_cursor *now, const ef__tenant_cursor *was,
                            ef_error *err)
{
    bool changed = false;
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(&store->conn, which, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, generation);
    ef__sq_bind_str(stmt, 2, tenant);
    bind_cursor(stmt, 3, now);
    if (was)
        bind_cursor(stmt, 7, was);
    if (which != VQ_CURSOR_DELETE)
        sqlite3_bind_int64(stmt, was ? 11 : 7, vq_now_us(store));
    st = ef__sq_change(&store->conn, stmt, &changed, err);
    return st != EF_OK || changed ? st : ef__tenant_cursor_moved(tenant, err);
}

static ef_status write_cursor(vq_store *store, const vq_generation *g,
                              const ef__tenant_cursor_change *c, ef_error *err)
{
    bool is_new = ef__tenant_cursor_is_none(&c->before), goes = c->after.position == g->position;
    ef_status st = EF_OK;

    if (is_new)
        st = run_change(store, VQ_CURSOR_INSERT, g->id, c->tenant, &c->after, NULL, err);
    if (st == EF_OK && goes)
        return run_change(store, VQ_CURSOR_DELETE, g->id, c->tenant,
                          is_new ? &c->after : &c->before, NULL, err);
    if (st != EF_OK || is_new)
        return st;
    return run_change(store, VQ_CURSOR_UPDATE, g->id, c->tenant, &c->after, &c->before, err);
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

static ef__tenant_cursor_item read_item(sqlite3_stmt *stmt, ef_str tenant)
{
    return (ef__tenant_cursor_item){.tenant = tenant,
                                    .cursor = {.position = sqlite3_column_int64(stmt, 1),
                                               .waiting = sqlite3_column_int64(stmt, 2),
                                               .attempts = sqlite3_column_int64(stmt, 3),
                                               .due_us = sqlite3_column_int64(stmt, 4)},
                                    .updated_us = sqlite3_column_int64(stmt, 5)};
}

ef_status vq_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                               ef__tenant_cursor_item *out, bool *out_found, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    sqlite3_stmt *stmt;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    *out = (ef__tenant_cursor_item){.tenant = tenant};
    *out_found = false;
    if (st != EF_OK)
        return st;
    st = ef__sq_stmt(conn, VQ_CURSOR_GET, &stmt, err);
    if (st == EF_OK) {
        sqlite3_bind_int64(stmt, 1, generation);
        ef__sq_bind_str(stmt, 2, tenant);
        st = ef__sq_row(conn, stmt, out_found, err);
    }
    if (st == EF_OK && *out_found) {
        *out = read_item(stmt, tenant);
        sqlite3_reset(stmt);
    }
    vq_read_end(store, reader);
    return st;
}

static ef_status read_items(ef__sq_conn *conn, sqlite3_stmt *stmt, ef__tenant_cursor_list *out,
                            ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__tenant_cursor_item *items = NULL;
    size_t cap = 0;
    bool row;
    ef_status st;

    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        items = ef__arena_grow(arena, items, out->count, sizeof *items, &cap);
        if (items)
            items[out->count] = read_item(stmt, ef__arena_copy(arena, ef__sq_column_str(stmt, 0)));
        if (!items || !items[out->count].tenant.ptr) {
            sqlite3_reset(stmt);
            return ef__no_memory(err);
        }
        out->items = items;
        out->count++;
    }
    return st;
}

ef_status vq_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                              ef__tenant_cursor_list *out, ef_error *err)
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
    st = ef__sq_stmt(conn, VQ_CURSOR_DUE, &stmt, err);
    if (st == EF_OK) {
        sqlite3_bind_int64(stmt, 1, generation);
        sqlite3_bind_int64(stmt, 2, due_us);
        sqlite3_bind_int64(stmt, 3, limit > INT32_MAX ? INT32_MAX : (int64_t)limit);
        st = read_items(conn, stmt, out, err);
    }
    vq_read_end(store, reader);
    return st;
}
