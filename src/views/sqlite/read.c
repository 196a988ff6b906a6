/*
 * read.c - single views and watermarks, and lists of watermarks and failures.
 */
#include "store.h"

#include <stdlib.h>

static void bind_key(sqlite3_stmt *stmt, int64_t generation, ef_str tenant, ef_str name)
{
    sqlite3_bind_int64(stmt, 1, generation);
    ef__sq_bind_str(stmt, 2, tenant);
    ef__sq_bind_str(stmt, 3, name);
}

static ef_status copy_view(sqlite3_stmt *stmt, ef_str tenant, ef_str id, ef__arena *arena,
                           ef__view *out, ef_error *err)
{
    *out = (ef__view){
        .tenant = ef__arena_copy(arena, tenant),
        .id = ef__arena_copy(arena, id),
        .data = ef__arena_copy(arena, ef__sq_column_str(stmt, 0)),
        .last_position = sqlite3_column_int64(stmt, 1),
        .last_seq = sqlite3_column_int64(stmt, 2),
        .schema = sqlite3_column_int(stmt, 3),
        .digest = {(uint64_t)sqlite3_column_int64(stmt, 4),
                   (uint64_t)sqlite3_column_int64(stmt, 5)},
    };
    return out->tenant.ptr && out->id.ptr && out->data.ptr
               ? EF_OK
               : ef_fail(err, EF_NO_MEMORY, "memory ran out for a view");
}

static ef_status get_view(ef__sq_conn *conn, int64_t generation, ef_str tenant, ef_str id,
                          ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, VQ_VIEW_GET, &stmt, err);

    if (st != EF_OK)
        return st;
    bind_key(stmt, generation, tenant, id);
    st = ef__sq_row(conn, stmt, out_found, err);
    if (st == EF_OK && *out_found) {
        st = copy_view(stmt, tenant, id, arena, out, err);
        sqlite3_reset(stmt);
    }
    return st;
}

ef_status vq_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                      ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    *out_found = false;
    if (st != EF_OK)
        return st;
    st = get_view(conn, generation, tenant, id, arena, out, out_found, err);
    vq_read_end(store, reader);
    return st;
}

static ef_status get_views(ef__sq_conn *conn, int64_t generation, const ef__view_key *keys,
                           size_t count, ef__arena *arena, ef__view *out, ef_error *err)
{
    ef_status st = EF_OK;
    bool found;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        out[i] = (ef__view){0};
        st = get_view(conn, generation, keys[i].tenant, keys[i].name, arena, &out[i], &found, err);
    }
    return st;
}

ef_status vq_view_get_many(ef_views *views, int64_t generation, const ef__view_key *keys,
                           size_t count, ef__arena *arena, ef__view *out, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    if (st != EF_OK)
        return st;
    st = get_views(conn, generation, keys, count, arena, out, err);
    vq_read_end(store, reader);
    return st;
}

/* --- watermarks ------------------------------------------------------------------------------- */

static ef__watermark read_watermark(sqlite3_stmt *stmt)
{
    ef__watermark w = {.applied_seq = sqlite3_column_int64(stmt, 0),
                       .expected_next_seq = sqlite3_column_int64(stmt, 1)};
    ef_str hash = ef__sq_column_blob(stmt, 2);

    if (hash.len == sizeof w.hash)
        memcpy(w.hash, hash.ptr, sizeof w.hash);
    return w;
}

static ef_status get_watermark(ef__sq_conn *conn, int64_t generation, ef_str tenant, ef_str stream,
                               ef__watermark *out, bool *out_found, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, VQ_WATERMARK_GET, &stmt, err);

    if (st != EF_OK)
        return st;
    bind_key(stmt, generation, tenant, stream);
    st = ef__sq_row(conn, stmt, out_found, err);
    if (st == EF_OK && *out_found) {
        *out = read_watermark(stmt);
        sqlite3_reset(stmt);
    }
    return st;
}

ef_status vq_watermark_get(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                           ef__watermark *out, bool *out_found, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    *out = (ef__watermark){0};
    *out_found = false;
    if (st != EF_OK)
        return st;
    st = get_watermark(conn, generation, tenant, stream, out, out_found, err);
    vq_read_end(store, reader);
    return st;
}

static ef_status get_watermarks(ef__sq_conn *conn, int64_t generation, const ef__view_key *keys,
                                size_t count, ef__watermark *out, ef_error *err)
{
    ef_status st = EF_OK;
    bool found;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        out[i] = (ef__watermark){0};
        st = get_watermark(conn, generation, keys[i].tenant, keys[i].name, &out[i], &found, err);
    }
    return st;
}

ef_status vq_watermark_get_many(ef_views *views, int64_t generation, const ef__view_key *keys,
                                size_t count, ef__watermark *out, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    if (st != EF_OK)
        return st;
    st = get_watermarks(conn, generation, keys, count, out, err);
    vq_read_end(store, reader);
    return st;
}

ef_status vq_watermark_scan(ef_views *views, int64_t generation,
                            bool (*each)(void *context, ef_str tenant, ef_str stream,
                                         const ef__watermark *watermark),
                            void *context, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    sqlite3_stmt *stmt;
    bool row = true;
    ef_status st = vq_read_begin(store, false, &reader, &conn, err);

    if (st != EF_OK)
        return st;
    st = ef__sq_stmt(conn, VQ_WATERMARK_SCAN, &stmt, err);
    if (st == EF_OK)
        sqlite3_bind_int64(stmt, 1, generation);
    while (st == EF_OK && (st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        ef__watermark w = read_watermark(stmt);
        if (!each(context, ef__sq_column_str(stmt, 3), ef__sq_column_str(stmt, 4), &w)) {
            sqlite3_reset(stmt);
            break;
        }
    }
    vq_read_end(store, reader);
    return st;
}

/* --- failures --------------------------------------------------------------------------------- */

static bool read_failure(sqlite3_stmt *stmt, ef__arena *arena, ef__failure *f)
{
    *f = (ef__failure){
        .id = sqlite3_column_int64(stmt, 0),
        .generation = sqlite3_column_int64(stmt, 1),
        .tenant = ef__arena_copy(arena, ef__sq_column_str(stmt, 2)),
        .stream = ef__arena_copy(arena, ef__sq_column_str(stmt, 3)),
        .seq = sqlite3_column_int64(stmt, 4),
        .position = sqlite3_column_int64(stmt, 5),
        .event_id = ef__arena_copy(arena, ef__sq_column_str(stmt, 6)),
        .code = ef__arena_copy(arena, ef__sq_column_str(stmt, 7)),
        .message = ef__arena_copy(arena, ef__sq_column_str(stmt, 8)),
        .attempts = sqlite3_column_int(stmt, 9),
        .open = sqlite3_column_int(stmt, 10) != 0,
        .recorded_us = sqlite3_column_int64(stmt, 11),
        .resolved_us = sqlite3_column_int64(stmt, 12),
    };
    return f->tenant.ptr && f->stream.ptr && f->event_id.ptr && f->code.ptr && f->message.ptr;
}

static ef_status read_failures(ef__sq_conn *conn, sqlite3_stmt *stmt, ef__failure_list *out,
                               ef_error *err)
{
    ef__failure *items = NULL;
    size_t cap = 0;
    bool row;
    ef_status st;

    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        items = ef__arena_grow(&out->room->arena, items, out->count, sizeof *items, &cap);
        if (!items || !read_failure(stmt, &out->room->arena, &items[out->count])) {
            sqlite3_reset(stmt);
            return ef__no_memory(err);
        }
        out->items = items;
        out->count++;
    }
    return st;
}

ef_status vq_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                        size_t limit, ef__failure_list *out, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    sqlite3_stmt *stmt;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    if (st == EF_OK)
        st = vq_read_begin(store, false, &reader, &conn, err);
    if (st != EF_OK)
        return st;
    st = ef__sq_stmt(conn, open_only ? VQ_FAILURE_NEWEST_OPEN : VQ_FAILURE_NEWEST, &stmt, err);
    if (st == EF_OK) {
        sqlite3_bind_int64(stmt, 1, generation);
        sqlite3_bind_int64(stmt, 2, limit > INT32_MAX ? INT32_MAX : (int64_t)limit);
        sqlite3_bind_int(stmt, 3, tenant == NULL);
        ef__sq_bind_str(stmt, 4, tenant ? *tenant : EF_STR(""));
        st = read_failures(conn, stmt, out, err);
    }
    vq_read_end(store, reader);
    return st;
}

/* --- snapshots -------------------------------------------------------------------------------- */

static ef_status snapshot_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                                   ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    *out_found = false;
    return get_view(((vq_snapshot *)views)->conn, generation, tenant, id, arena, out, out_found,
                    err);
}

static ef_status snapshot_watermark_get(ef_views *views, int64_t generation, ef_str tenant,
                                        ef_str stream, ef__watermark *out, bool *out_found,
                                        ef_error *err)
{
    *out = (ef__watermark){0};
    *out_found = false;
    return get_watermark(((vq_snapshot *)views)->conn, generation, tenant, stream, out, out_found,
                         err);
}

static ef_status snapshot_view_get_many(ef_views *views, int64_t generation,
                                        const ef__view_key *keys, size_t count, ef__arena *arena,
                                        ef__view *out, ef_error *err)
{
    return get_views(((vq_snapshot *)views)->conn, generation, keys, count, arena, out, err);
}

static ef_status snapshot_watermark_get_many(ef_views *views, int64_t generation,
                                             const ef__view_key *keys, size_t count,
                                             ef__watermark *out, ef_error *err)
{
    return get_watermarks(((vq_snapshot *)views)->conn, generation, keys, count, out, err);
}

static void snapshot_close(ef_views *views)
{
    vq_snapshot *snapshot = (vq_snapshot *)views;

    ef__sq_rollback(snapshot->conn); /* it has only read */
    vq_read_end(snapshot->store, snapshot->reader);
    free(snapshot);
}

static const ef__views_ops SNAPSHOT_OPS = {
    .name = "sqlite snapshot",
    .close = snapshot_close,
    .view_get = snapshot_view_get,
    .watermark_get = snapshot_watermark_get,
    .view_get_many = snapshot_view_get_many,
    .watermark_get_many = snapshot_watermark_get_many,
};

ef_status vq_snapshot_open(ef_views *views, ef_views **out, ef_error *err)
{
    vq_snapshot *snapshot = malloc(sizeof *snapshot);
    ef_status st;

    *out = NULL;
    if (!snapshot)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a snapshot");
    *snapshot = (vq_snapshot){.base = *views, .store = vq_store_of(views)};
    snapshot->base.ops = &SNAPSHOT_OPS;
    st = vq_read_begin(snapshot->store, true, &snapshot->reader, &snapshot->conn, err);
    if (st == EF_OK) {
        st = ef__sq_run(snapshot->conn, VQ_BEGIN_READ, err);
        if (st != EF_OK)
            vq_read_end(snapshot->store, snapshot->reader);
    }
    if (st != EF_OK) {
        free(snapshot);
        return st;
    }
    *out = &snapshot->base;
    return EF_OK;
}

/* --- reads in a row ---------------------------------------------------------------------------
 *
 * A read by itself begins and ends a transaction, which takes and gives back a lock of the file:
 * two calls to the system, and as long as all the rest. The transaction is kept instead, and asked
 * before each read whether anything was committed since it began, by whomever. So an answer is
 * never older than that of a read by itself would be, whoever asked, and whatever he has seen.
 *
 * It has a connection of its own, not the writing one: nobody who writes waits for it. The first
 * read is one by itself: a lone one is best off so.
 *
 * What many ask for at once is read once: as long as the transaction stands it would read the same.
 */

/* Where a view is kept: ids that are asked for together mostly differ in their last letters. */
static vq_kept *kept_place(vq_series *series, ef_str id)
{
    size_t number = id.len;

    for (size_t i = id.len > 4 ? id.len - 4 : 0; i < id.len; i++)
        number = number * 31 + (unsigned char)id.ptr[i];
    return &series->kept[number % VQ_KEPT];
}

static void forget(vq_series *series)
{
    for (size_t i = 0; i < VQ_KEPT; i++)
        series->kept[i].generation = 0;
    ef__arena_reset(&series->arena);
}

static bool copy_shown(const ef__view *from, ef__arena *arena, ef__view *out)
{
    *out = *from;
    out->tenant = ef__arena_copy(arena, from->tenant);
    out->id = ef__arena_copy(arena, from->id);
    out->data = ef__arena_copy(arena, from->data);
    return out->tenant.ptr && out->id.ptr && out->data.ptr;
}

static void keep(vq_series *series, int64_t generation, const ef__view *view)
{
    vq_kept *kept = kept_place(series, view->id);

    if (view->data.len > VQ_KEPT_VIEW_BYTES)
        return;
    kept->generation = 0;
    if (copy_shown(view, &series->arena, &kept->view))
        kept->generation = generation;
    else
        forget(series);
}

static const ef__view *find_kept(vq_series *series, int64_t generation, ef_str tenant, ef_str id)
{
    const vq_kept *kept = kept_place(series, id);

    return generation && kept->generation == generation && ef_str_equal(kept->view.id, id) &&
                   ef_str_equal(kept->view.tenant, tenant)
               ? &kept->view
               : NULL;
}

static void end_series(vq_series *series)
{
    if (!series->reader)
        return;
    forget(series);
    ef__sq_rollback(&series->reader->conn); /* it has only read */
    vq_read_end(series->store, series->reader);
    series->reader = NULL;
}

static ef_status begin_series(vq_series *series, ef_error *err)
{
    ef__sq_conn *conn;
    ef_status st = vq_read_begin(series->store, false, &series->reader, &conn, err);

    if (st != EF_OK)
        return st;
    /* One that has not read yet has no mark: it reads this time by itself. */
    if (ef__sq_wal_read_header(conn, &series->began))
        st = ef__sq_run(conn, VQ_BEGIN_READ, err);
    return st;
}

/* What is shown of a view: its digest and seq are for those who write it. */
static ef_status show_view(ef__sq_conn *conn, int64_t generation, ef_str tenant, ef_str id,
                           ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, VQ_VIEW_SHOW, &stmt, err);

    if (st != EF_OK)
        return st;
    bind_key(stmt, generation, tenant, id);
    st = ef__sq_row(conn, stmt, out_found, err);
    if (st != EF_OK || !*out_found)
        return st;
    if (!copy_shown(&(ef__view){.tenant = tenant,
                                .id = id,
                                .data = ef__sq_column_blob(stmt, 0),
                                .last_position = sqlite3_column_int64(stmt, 1),
                                .schema = sqlite3_column_int(stmt, 2)},
                    arena, out))
        st = ef__no_memory(err);
    sqlite3_reset(stmt);
    return st;
}

static ef_status series_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                                 ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    vq_series *series = (vq_series *)views;
    const ef__view *kept = NULL;
    ef_status st = EF_OK;

    *out_found = false;
    if (!series->begun) {
        series->begun = true;
        return vq_view_get(&series->store->base, generation, tenant, id, arena, out, out_found,
                           err);
    }
    if (series->reader && !ef__sq_wal_is_unchanged(&series->reader->conn, &series->began))
        end_series(series);
    if (series->reader && (kept = find_kept(series, generation, tenant, id)) != NULL) {
        *out_found = true;
        return copy_shown(kept, arena, out) ? EF_OK : ef__no_memory(err);
    }
    if (!series->reader)
        st = begin_series(series, err);
    if (st == EF_OK)
        st = show_view(&series->reader->conn, generation, tenant, id, arena, out, out_found, err);
    if (st == EF_OK && *out_found)
        keep(series, generation, out);
    if (st == EF_OK)
        ef__sq_wal_map(&series->reader->conn);
    if (st != EF_OK || sqlite3_get_autocommit(series->reader->conn.db))
        end_series(series);
    return st;
}

static void series_release(ef_views *views)
{
    vq_series *series = (vq_series *)views;

    end_series(series);
    series->begun = false;
}

static void series_close(ef_views *views)
{
    vq_series *series = (vq_series *)views;

    end_series(series);
    ef__arena_release(&series->arena);
    free(series);
}

static const ef__views_ops SERIES_OPS = {
    .name = "sqlite reader",
    .close = series_close,
    .view_get = series_view_get,
    .release_snapshot = series_release,
};

ef_status vq_reader_open(ef_views *views, ef_views **out, ef_error *err)
{
    vq_series *series = malloc(sizeof *series);

    *out = NULL;
    if (!series)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a reader");
    *series = (vq_series){
        .base = *views, .store = vq_store_of(views), .arena = EF__ARENA_INIT(VQ_KEPT_BYTES)};
    series->base.ops = &SERIES_OPS;
    *out = &series->base;
    return EF_OK;
}
