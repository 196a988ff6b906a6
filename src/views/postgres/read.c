/*
 * read.c - single views and watermarks, lists of watermarks, cursors and failures, snapshots.
 */
#include "store.h"

#include <stdlib.h>

/* --- one view, one watermark ------------------------------------------------------------------ */

/* The view of a row, whose data is in the arena already. */
static ef_status complete_view(const vp_view_row *row, ef_str tenant, ef_str id, ef__arena *arena,
                               ef__view *out, ef_error *err)
{
    *out = row->view;
    out->tenant = ef__arena_copy(arena, tenant);
    out->id = ef__arena_copy(arena, id);
    ef__digest_sums(row->digest, out->digest);
    return out->tenant.ptr && out->id.ptr ? EF_OK
                                          : ef_fail(err, EF_NO_MEMORY, "memory ran out for a view");
}

ef_status vp_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                      ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    vp_view_row row;
    ef_status st;

    *out_found = false;
    st = vp_one_view_get(vp_on(views), &(struct vp_view_get){generation, tenant, id}, arena, &row,
                         out_found, err);
    return st == EF_OK && *out_found ? complete_view(&row, tenant, id, arena, out, err) : st;
}

ef_status vp_watermark_get(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                           ef__watermark *out, bool *out_found, ef_error *err)
{
    *out = (ef__watermark){0};
    *out_found = false;
    return vp_one_watermark_get(
        vp_on(views), &(struct vp_watermark_get){generation, tenant, stream}, out, out_found, err);
}

ef_status vp_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err)
{
    *out_token = 0;
    return vp_one_fence_get(vp_on(views), scope, out_token, NULL, err);
}

/* --- many at once ----------------------------------------------------------------------------- */

static void add_keys(const ef__view_key *keys, size_t count, ef__pg_array *tenants,
                     ef__pg_array *names)
{
    for (size_t i = 0; i < count; i++) {
        ef__pg_array_str(tenants, keys[i].tenant);
        ef__pg_array_str(names, keys[i].name);
    }
}

ef_status vp_view_get_many(ef_views *views, int64_t generation, const ef__view_key *keys,
                           size_t count, ef__arena *arena, ef__view *out, ef_error *err)
{
    struct vp_view_get_many wanted = {.generation = generation};
    vp_view_row row;
    ef__pg_rows rows;

    memset(out, 0, count * sizeof *out);
    add_keys(keys, count, &wanted.tenants, &wanted.names);
    rows = vp_each_view_get_many(vp_on(views), &wanted, arena, err);
    while (vp_next_view_get_many(&rows, &row)) {
        const ef__view_key *key = &keys[row.n - 1];
        rows.status = complete_view(&row, key->tenant, key->name, arena, &out[row.n - 1], err);
    }
    return ef__pg_rows_end(&rows);
}

ef_status vp_watermark_get_many(ef_views *views, int64_t generation, const ef__view_key *keys,
                                size_t count, ef__watermark *out, ef_error *err)
{
    struct vp_watermark_get_many wanted = {.generation = generation};
    ef__watermark_row row;
    ef__pg_rows rows;

    memset(out, 0, count * sizeof *out);
    add_keys(keys, count, &wanted.tenants, &wanted.names);
    rows = vp_each_watermark_get_many(vp_on(views), &wanted, err);
    while (vp_next_watermark_get_many(&rows, &row))
        out[row.n - 1] = row.is;
    return ef__pg_rows_end(&rows);
}

/* --- all watermarks --------------------------------------------------------------------------- */

enum { WATERMARKS_PER_PAGE = 2000 };

typedef struct watermark_scan {
    int64_t generation;
    ef__each_watermark *each;
    void *context;
    bool begun;
} watermark_scan;

/* The parameters of a page point into the one before it. */
static ef_status scan_watermarks(void *context, ef__pg_conn *conn, ef_error *err)
{
    watermark_scan *s = context;
    struct vp_watermark_scan page = {.generation = s->generation, .limit = WATERMARKS_PER_PAGE};
    ef__pg_rows rows = {0}, before;
    ef__watermark_row row;
    bool more = true;

    do {
        before = rows;
        rows = vp_each_watermark_scan(ef__pg_on_conn(conn), &page, NULL, err);
        (void)ef__pg_rows_end(&before);
        while (more && vp_next_watermark_scan(&rows, &row)) {
            s->begun = true;
            more = s->each(s->context, row.tenant, row.stream, &row.is);
            page.tenant = row.tenant;
            page.stream = row.stream;
        }
    } while (more && rows.count == WATERMARKS_PER_PAGE);
    if (rows.status != EF_OK && s->begun)
        conn->fault =
            EF__PG_NO_FAULT; /* no retry here: rows that were shown must not be shown twice */
    return ef__pg_rows_end(&rows);
}

ef_status vp_watermark_scan(ef_views *views, int64_t generation, ef__each_watermark *each,
                            void *context, ef_error *err)
{
    watermark_scan s = {generation, each, context, false};

    return ef__pg_transaction(vp_store_of(views)->pool, EF__PG_SNAPSHOT, scan_watermarks, &s, err);
}

/* --- cursors of tenants, failures ------------------------------------------------------------- */

ef_status vp_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                               ef__tenant_cursor_item *out, bool *out_found, ef_error *err)
{
    ef_status st;

    *out = (ef__tenant_cursor_item){0};
    *out_found = false;
    st = vp_one_cursor_get(vp_on(views), generation, tenant, out, out_found, err);
    out->tenant = tenant;
    return st;
}

ef_status vp_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                              ef__tenant_cursor_list *out, ef_error *err)
{
    struct vp_cursor_due due = {
        .generation = generation, .due_us = due_us, .limit = ef__sql_limit(limit)};
    ef_status st = ef__list_prepare(out, err);

    return st == EF_OK ? vp_list_cursor_due(vp_on(views), &due, &out->room->arena, &out->items,
                                            &out->count, err)
                       : st;
}

ef_status vp_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                        size_t limit, ef__failure_list *out, ef_error *err)
{
    struct vp_failure_newest wanted = {.generation = generation,
                                       .limit = ef__sql_limit(limit),
                                       .all_tenants = tenant == NULL,
                                       .tenant = tenant ? *tenant : EF_STR("")};
    ef_status st = ef__list_prepare(out, err);

    if (st != EF_OK)
        return st;
    return (open_only ? vp_list_failure_newest_open : vp_list_failure_newest)(
        vp_on(views), &wanted, &out->room->arena, &out->items, &out->count, err);
}

/* --- snapshots -------------------------------------------------------------------------------- */

/* The pool ends the transaction. */
static void snapshot_close(ef_views *views)
{
    vp_store *snapshot = vp_store_of(views);

    ef__pg_pool_put(snapshot->pool, snapshot->snapshot);
    free(snapshot);
}

static const ef__views_ops SNAPSHOT_OPS = {
    .name = "postgres snapshot",
    .close = snapshot_close,
    .view_get = vp_view_get,
    .watermark_get = vp_watermark_get,
    .view_get_many = vp_view_get_many,
    .watermark_get_many = vp_watermark_get_many,
};

ef_status vp_snapshot_open(ef_views *views, ef_views **out, ef_error *err)
{
    vp_store *snapshot = malloc(sizeof *snapshot);
    ef_status st;

    *out = NULL;
    if (!snapshot)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a snapshot");
    *snapshot = *vp_store_of(views);
    snapshot->base.ops = &SNAPSHOT_OPS;
    st = ef__pg_pool_get(snapshot->pool, &snapshot->snapshot, err);
    if (st == EF_OK) {
        snapshot->snapshot->in_transaction = true;
        st = ef__pg_send(snapshot->snapshot, VP_BEGIN_READ, NULL, err);
        if (st == EF_OK)
            st = ef__pg_send_path(snapshot->snapshot, err);
    }
    if (st != EF_OK) {
        snapshot_close(&snapshot->base);
        return st;
    }
    *out = &snapshot->base;
    return EF_OK;
}
