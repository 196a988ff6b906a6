/*
 * read.c - single views and watermarks, lists of watermarks and failures, snapshots.
 */
#include "store.h"

#include <stdlib.h>

static void add_key(ef__pg_params *params, int64_t generation, ef_str tenant, ef_str name)
{
    ef__pg_add_int(params, generation);
    ef__pg_add_str(params, tenant);
    ef__pg_add_str(params, name);
}

/* --- one view, one watermark ------------------------------------------------------------------ */

static void read_digest(ef_str bytes, uint64_t out[2])
{
    out[0] = out[1] = 0;
    if (bytes.len == EF__DIGEST_BYTES)
        ef__digest_sums((const uint8_t *)bytes.ptr, out);
}

/* Reads a view from the columns `first` and after, which are in the order of view_get. */
static ef_status copy_view(const PGresult *rows, int row, int first, ef_str tenant, ef_str id,
                           ef__arena *arena, ef__view *out, ef_error *err)
{
    *out = (ef__view){
        .tenant = ef__arena_copy(arena, tenant),
        .id = ef__arena_copy(arena, id),
        .data = ef__arena_copy(arena, ef__pg_str(rows, row, first)),
        .last_position = ef__pg_int(rows, row, first + 1),
        .last_seq = ef__pg_int(rows, row, first + 2),
        .schema = (int32_t)ef__pg_int(rows, row, first + 3),
    };
    read_digest(ef__pg_str(rows, row, first + 4), out->digest);
    return out->tenant.ptr && out->id.ptr && out->data.ptr
               ? EF_OK
               : ef_fail(err, EF_NO_MEMORY, "memory ran out for a view");
}

/* On the connection `conn`, or on one of the pool if it is NULL. */
static ef_status query_one(vp_store *store, ef__pg_conn *conn, int which,
                           const ef__pg_params *params, PGresult **out, ef_error *err)
{
    return conn ? ef__pg_query(conn, which, params, out, err)
                : ef__pg_read(store->pool, which, params, out, err);
}

static ef_status get_view(vp_store *store, ef__pg_conn *conn, int64_t generation, ef_str tenant,
                          ef_str id, ef__arena *arena, ef__view *out, bool *out_found,
                          ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef_status st;

    *out_found = false;
    add_key(&params, generation, tenant, id);
    st = query_one(store, conn, VP_VIEW_GET, &params, &rows, err);
    if (st == EF_OK && PQntuples(rows) > 0) {
        *out_found = true;
        st = copy_view(rows, 0, 0, tenant, id, arena, out, err);
    }
    PQclear(rows);
    return st;
}

static ef__watermark read_watermark(const PGresult *rows, int row, int first)
{
    ef__watermark w = {.applied_seq = ef__pg_int(rows, row, first),
                       .expected_next_seq = ef__pg_int(rows, row, first + 1)};
    ef_str hash = ef__pg_str(rows, row, first + 2);

    if (hash.len == sizeof w.hash)
        memcpy(w.hash, hash.ptr, sizeof w.hash);
    return w;
}

static ef_status get_watermark(vp_store *store, ef__pg_conn *conn, int64_t generation,
                               ef_str tenant, ef_str stream, ef__watermark *out, bool *out_found,
                               ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef_status st;

    *out = (ef__watermark){0};
    *out_found = false;
    add_key(&params, generation, tenant, stream);
    st = query_one(store, conn, VP_WATERMARK_GET, &params, &rows, err);
    if (st == EF_OK && PQntuples(rows) > 0) {
        *out_found = true;
        *out = read_watermark(rows, 0, 0);
    }
    PQclear(rows);
    return st;
}

ef_status vp_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                      ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    return get_view(vp_store_of(views), NULL, generation, tenant, id, arena, out, out_found, err);
}

ef_status vp_watermark_get(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                           ef__watermark *out, bool *out_found, ef_error *err)
{
    return get_watermark(vp_store_of(views), NULL, generation, tenant, stream, out, out_found, err);
}

ef_status vp_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef_status st;

    ef__pg_add_str(&params, scope);
    st = ef__pg_read(vp_store_of(views)->pool, VP_FENCE_GET, &params, &rows, err);
    if (st == EF_OK)
        *out_token = PQntuples(rows) > 0 ? ef__pg_int(rows, 0, 0) : 0;
    PQclear(rows);
    return st;
}

/* --- many at once ----------------------------------------------------------------------------- */

static ef_status query_many(vp_store *store, ef__pg_conn *conn, int which, int64_t generation,
                            const ef__view_key *keys, size_t count, PGresult **out, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array tenants, names;
    ef_status st;

    ef__pg_array_init(&tenants, EF__PG_TEXT);
    ef__pg_array_init(&names, EF__PG_TEXT);
    for (size_t i = 0; i < count; i++) {
        ef__pg_array_str(&tenants, keys[i].tenant);
        ef__pg_array_str(&names, keys[i].name);
    }
    ef__pg_add_int(&params, generation);
    ef__pg_add_array(&params, &tenants);
    ef__pg_add_array(&params, &names);
    st = query_one(store, conn, which, &params, out, err);
    ef__pg_array_release(&tenants);
    ef__pg_array_release(&names);
    return st;
}

static ef_status get_views(vp_store *store, ef__pg_conn *conn, int64_t generation,
                           const ef__view_key *keys, size_t count, ef__arena *arena, ef__view *out,
                           ef_error *err)
{
    PGresult *rows = NULL;
    ef_status st = query_many(store, conn, VP_VIEW_GET_MANY, generation, keys, count, &rows, err);

    memset(out, 0, count * sizeof *out);
    for (int i = 0; st == EF_OK && i < PQntuples(rows); i++) {
        size_t at = (size_t)ef__pg_int(rows, i, 0) - 1;
        st = copy_view(rows, i, 1, keys[at].tenant, keys[at].name, arena, &out[at], err);
    }
    PQclear(rows);
    return st;
}

static ef_status get_watermarks(vp_store *store, ef__pg_conn *conn, int64_t generation,
                                const ef__view_key *keys, size_t count, ef__watermark *out,
                                ef_error *err)
{
    PGresult *rows = NULL;
    ef_status st =
        query_many(store, conn, VP_WATERMARK_GET_MANY, generation, keys, count, &rows, err);

    memset(out, 0, count * sizeof *out);
    for (int i = 0; st == EF_OK && i < PQntuples(rows); i++)
        out[ef__pg_int(rows, i, 0) - 1] = read_watermark(rows, i, 1);
    PQclear(rows);
    return st;
}

ef_status vp_view_get_many(ef_views *views, int64_t generation, const ef__view_key *keys,
                           size_t count, ef__arena *arena, ef__view *out, ef_error *err)
{
    return get_views(vp_store_of(views), NULL, generation, keys, count, arena, out, err);
}

ef_status vp_watermark_get_many(ef_views *views, int64_t generation, const ef__view_key *keys,
                                size_t count, ef__watermark *out, ef_error *err)
{
    return get_watermarks(vp_store_of(views), NULL, generation, keys, count, out, err);
}

/* --- all watermarks --------------------------------------------------------------------------- */

enum { WATERMARKS_PER_PAGE = 2000 };

typedef struct watermark_scan {
    int64_t generation;
    bool (*each)(void *context, ef_str tenant, ef_str stream, const ef__watermark *watermark);
    void *context;
    bool begun;
} watermark_scan;

/* Reads the page after the last row of `before`. The caller clears `before` after this call,
 * because the parameters point into it. */
static ef_status read_watermark_page(const watermark_scan *s, ef__pg_conn *conn,
                                     const PGresult *before, PGresult **out, ef_error *err)
{
    int last = before ? PQntuples(before) - 1 : 0;
    ef__pg_params params = {0};

    add_key(&params, s->generation, before ? ef__pg_str(before, last, 3) : (ef_str){"", 0},
            before ? ef__pg_str(before, last, 4) : (ef_str){"", 0});
    ef__pg_add_int(&params, WATERMARKS_PER_PAGE);
    return ef__pg_query(conn, VP_WATERMARK_SCAN, &params, out, err);
}

static ef_status scan_watermarks(void *context, ef__pg_conn *conn, ef_error *err)
{
    watermark_scan *s = context;
    PGresult *rows = NULL, *next = NULL;
    bool more = true;
    ef_status st = read_watermark_page(s, conn, NULL, &rows, err);

    while (st == EF_OK && more) {
        int count = PQntuples(rows);
        for (int i = 0; more && i < count; i++) {
            ef__watermark w = read_watermark(rows, i, 0);
            s->begun = true;
            more = s->each(s->context, ef__pg_str(rows, i, 3), ef__pg_str(rows, i, 4), &w);
        }
        more = more && count == WATERMARKS_PER_PAGE;
        if (more) {
            st = read_watermark_page(s, conn, rows, &next, err);
            PQclear(rows);
            rows = next;
            next = NULL;
        }
    }
    PQclear(rows);
    if (st != EF_OK && s->begun)
        conn->fault =
            EF__PG_NO_FAULT; /* no retry here: rows that were shown must not be shown twice */
    return st;
}

ef_status vp_watermark_scan(ef_views *views, int64_t generation,
                            bool (*each)(void *context, ef_str tenant, ef_str stream,
                                         const ef__watermark *watermark),
                            void *context, ef_error *err)
{
    watermark_scan s = {generation, each, context, false};

    return ef__pg_transaction(vp_store_of(views)->pool, EF__PG_SNAPSHOT, scan_watermarks, &s, err);
}

/* --- failures --------------------------------------------------------------------------------- */

static bool read_failure(const PGresult *rows, int row, ef__arena *arena, ef__failure *f)
{
    *f = (ef__failure){
        .id = ef__pg_int(rows, row, 0),
        .generation = ef__pg_int(rows, row, 1),
        .tenant = ef__arena_copy(arena, ef__pg_str(rows, row, 2)),
        .stream = ef__arena_copy(arena, ef__pg_str(rows, row, 3)),
        .seq = ef__pg_int(rows, row, 4),
        .position = ef__pg_int(rows, row, 5),
        .event_id = ef__arena_copy(arena, ef__pg_str(rows, row, 6)),
        .code = ef__arena_copy(arena, ef__pg_str(rows, row, 7)),
        .message = ef__arena_copy(arena, ef__pg_str(rows, row, 8)),
        .attempts = (int32_t)ef__pg_int(rows, row, 9),
        .open = ef__pg_bool(rows, row, 10),
        .recorded_us = ef__pg_int(rows, row, 11),
        .resolved_us = ef__pg_int(rows, row, 12),
        .line = (int32_t)ef__pg_int(rows, row, 13),
    };
    return f->tenant.ptr && f->stream.ptr && f->event_id.ptr && f->code.ptr && f->message.ptr;
}

ef_status vp_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                        size_t limit, ef__failure_list *out, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef__failure *items = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    if (st != EF_OK)
        return st;
    ef__pg_add_int(&params, generation);
    ef__pg_add_int(&params, limit > INT32_MAX ? INT32_MAX : (int64_t)limit);
    ef__pg_add_bool(&params, tenant == NULL);
    ef__pg_add_str(&params, tenant ? *tenant : EF_STR(""));
    st = ef__pg_read(vp_store_of(views)->pool,
                     open_only ? VP_FAILURE_NEWEST_OPEN : VP_FAILURE_NEWEST, &params, &rows, err);
    if (st == EF_OK) {
        items = ef__arena_zalloc(&out->room->arena, (size_t)PQntuples(rows) + 1, sizeof *items);
        st = items ? EF_OK : ef__no_memory(err);
    }
    for (int i = 0; st == EF_OK && i < PQntuples(rows); i++)
        st = read_failure(rows, i, &out->room->arena, &items[i]) ? EF_OK : ef__no_memory(err);
    if (st == EF_OK) {
        out->items = items;
        out->count = (size_t)PQntuples(rows);
    }
    PQclear(rows);
    return st;
}

/* --- snapshots -------------------------------------------------------------------------------- */

/* Has its own connection, in a transaction from the first read to the end. */
typedef struct snapshot {
    ef_views base; /* first, so that an ef_views * is this */
    vp_store *store;
    ef__pg_conn *conn;
} snapshot;

static ef_status snapshot_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                                   ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    snapshot *s = (snapshot *)views;

    return get_view(s->store, s->conn, generation, tenant, id, arena, out, out_found, err);
}

static ef_status snapshot_watermark_get(ef_views *views, int64_t generation, ef_str tenant,
                                        ef_str stream, ef__watermark *out, bool *out_found,
                                        ef_error *err)
{
    snapshot *s = (snapshot *)views;

    return get_watermark(s->store, s->conn, generation, tenant, stream, out, out_found, err);
}

static ef_status snapshot_view_get_many(ef_views *views, int64_t generation,
                                        const ef__view_key *keys, size_t count, ef__arena *arena,
                                        ef__view *out, ef_error *err)
{
    snapshot *s = (snapshot *)views;

    return get_views(s->store, s->conn, generation, keys, count, arena, out, err);
}

static ef_status snapshot_watermark_get_many(ef_views *views, int64_t generation,
                                             const ef__view_key *keys, size_t count,
                                             ef__watermark *out, ef_error *err)
{
    snapshot *s = (snapshot *)views;

    return get_watermarks(s->store, s->conn, generation, keys, count, out, err);
}

/* The pool ends the transaction. */
static void snapshot_close(ef_views *views)
{
    snapshot *s = (snapshot *)views;

    ef__pg_pool_put(s->store->pool, s->conn);
    free(s);
}

static const ef__views_ops SNAPSHOT_OPS = {
    .name = "postgres snapshot",
    .close = snapshot_close,
    .view_get = snapshot_view_get,
    .watermark_get = snapshot_watermark_get,
    .view_get_many = snapshot_view_get_many,
    .watermark_get_many = snapshot_watermark_get_many,
};

ef_status vp_snapshot_open(ef_views *views, ef_views **out, ef_error *err)
{
    snapshot *s = malloc(sizeof *s);
    ef_status st;

    *out = NULL;
    if (!s)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a snapshot");
    *s = (snapshot){.base = *views, .store = vp_store_of(views)};
    s->base.ops = &SNAPSHOT_OPS;
    st = ef__pg_pool_get(s->store->pool, &s->conn, err);
    if (st == EF_OK) {
        s->conn->in_transaction = true;
        st = ef__pg_send(s->conn, VP_BEGIN_READ, NULL, err);
        if (st == EF_OK)
            st = ef__pg_send_path(s->conn, err);
    }
    if (st != EF_OK) {
        ef__pg_pool_put(s->store->pool, s->conn);
        free(s);
        return st;
    }
    *out = &s->base;
    return EF_OK;
}
