/*
 * cursor.c - the cursors of single tenants: writing, finding, listing. They are few and rarely
 * written, under the exclusive lock of the generation.
 */
#include "store.h"

static void add_cursor(ef__pg_params *params, const ef__tenant_cursor *c)
{
    ef__pg_add_int(params, c->position);
    ef__pg_add_int(params, c->waiting);
    ef__pg_add_int(params, c->attempts);
    ef__pg_add_int(params, c->due_us);
}

/* Runs the statement `which`, which changes one row. `now` is bound first, then `was`. */
static ef_status run_change(ef__pg_conn *conn, int which, int64_t generation, ef_str tenant,
                            const ef__tenant_cursor *now, const ef__tenant_cursor *was,
                            int64_t now_us, ef_error *err)
{
    ef__pg_params params = {0};
    int64_t changed = 0;
    ef_status st;

    ef__pg_add_int(&params, generation);
    ef__pg_add_str(&params, tenant);
    add_cursor(&params, now);
    if (was)
        add_cursor(&params, was);
    if (which != VP_CURSOR_DELETE)
        ef__pg_add_int(&params, now_us);
    st = ef__pg_change(conn, which, &params, &changed, err);
    return st != EF_OK || changed ? st : ef__tenant_cursor_moved(tenant, err);
}

ef_status vp_cursor_write(ef__pg_conn *conn, int64_t generation, int64_t position,
                          const ef__tenant_cursor_change *c, int64_t now_us, ef_error *err)
{
    bool is_new = ef__tenant_cursor_is_none(&c->before), goes = c->after.position == position;
    ef_status st = EF_OK;

    if (is_new)
        st =
            run_change(conn, VP_CURSOR_INSERT, generation, c->tenant, &c->after, NULL, now_us, err);
    if (st == EF_OK && goes)
        return run_change(conn, VP_CURSOR_DELETE, generation, c->tenant,
                          is_new ? &c->after : &c->before, NULL, now_us, err);
    if (st != EF_OK || is_new)
        return st;
    return run_change(conn, VP_CURSOR_UPDATE, generation, c->tenant, &c->after, &c->before, now_us,
                      err);
}

/* --- reading ---------------------------------------------------------------------------------- */

static ef__tenant_cursor_item read_item(const PGresult *rows, int row, ef_str tenant)
{
    return (ef__tenant_cursor_item){.tenant = tenant,
                                    .cursor = {.position = ef__pg_int(rows, row, 1),
                                               .waiting = ef__pg_int(rows, row, 2),
                                               .attempts = ef__pg_int(rows, row, 3),
                                               .due_us = ef__pg_int(rows, row, 4)},
                                    .updated_us = ef__pg_int(rows, row, 5)};
}

ef_status vp_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                               ef__tenant_cursor_item *out, bool *out_found, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef_status st;

    *out = (ef__tenant_cursor_item){.tenant = tenant};
    *out_found = false;
    ef__pg_add_int(&params, generation);
    ef__pg_add_str(&params, tenant);
    st = ef__pg_read(vp_store_of(views)->pool, VP_CURSOR_GET, &params, &rows, err);
    if (st == EF_OK && PQntuples(rows) > 0) {
        *out = read_item(rows, 0, tenant);
        *out_found = true;
    }
    PQclear(rows);
    return st;
}

ef_status vp_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                              ef__tenant_cursor_list *out, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef__tenant_cursor_item *items = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    if (st != EF_OK)
        return st;
    ef__pg_add_int(&params, generation);
    ef__pg_add_int(&params, due_us);
    ef__pg_add_int(&params, limit > INT32_MAX ? INT32_MAX : (int64_t)limit);
    st = ef__pg_read(vp_store_of(views)->pool, VP_CURSOR_DUE, &params, &rows, err);
    if (st == EF_OK) {
        items = ef__arena_zalloc(&out->room->arena, (size_t)PQntuples(rows) + 1, sizeof *items);
        st = items ? EF_OK : ef__no_memory(err);
    }
    for (int i = 0; st == EF_OK && i < PQntuples(rows); i++) {
        ef_str tenant = ef__arena_copy(&out->room->arena, ef__pg_str(rows, i, 0));
        items[i] = read_item(rows, i, tenant);
        st = tenant.ptr ? EF_OK : ef__no_memory(err);
    }
    if (st == EF_OK) {
        out->items = items;
        out->count = (size_t)PQntuples(rows);
    }
    PQclear(rows);
    return st;
}
