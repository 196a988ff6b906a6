/*
 * read.c - single views and watermarks, ranges of views, lists of watermarks and failures, and
 * readers that keep a transaction.
 */
#include "store.h"

#include "../range.h"

#include <stdlib.h>

/* With `shown`, without digest and seq, which only a writer of the view needs. */
static ef_status get_view(ef__sq_conn *conn, bool shown, int64_t generation, ef_str tenant,
                          ef_str id, ef__arena *arena, ef__view *out, bool *out_found,
                          ef_error *err)
{
    ef_status st = (shown ? vq_one_view_show : vq_one_view_get)(
        conn, &(struct vq_view_get){.generation = generation, .tenant = tenant, .id = id}, arena,
        out, out_found, err);

    if (st != EF_OK || !*out_found)
        return st;
    out->tenant = ef__arena_copy(arena, tenant);
    out->id = ef__arena_copy(arena, id);
    return out->tenant.ptr && out->id.ptr ? EF_OK : ef__no_memory(err);
}

ef_status vq_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                      ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    ef_status st;
    VQ_READING vq_reader *reader = vq_read_begin(views, true, &st, err);

    *out_found = false;
    return reader
               ? get_view(reader->conn, false, generation, tenant, id, arena, out, out_found, err)
               : st;
}

ef_status vq_view_get_many(ef_views *views, int64_t generation, const ef__view_key *keys,
                           size_t count, ef__arena *arena, ef__view *out, ef_error *err)
{
    ef_status st;
    VQ_READING vq_reader *reader = vq_read_begin(views, true, &st, err);
    bool found;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        out[i] = (ef__view){0};
        st = get_view(reader->conn, false, generation, keys[i].tenant, keys[i].name, arena, &out[i],
                      &found, err);
    }
    return st;
}

/* --- watermarks ------------------------------------------------------------------------------- */

static ef_status get_watermark(ef__sq_conn *conn, int64_t generation, ef_str tenant, ef_str stream,
                               ef__watermark *out, bool *out_found, ef_error *err)
{
    *out = (ef__watermark){0};
    return vq_one_watermark_get(
        conn,
        &(struct vq_watermark_get){.generation = generation, .tenant = tenant, .stream = stream},
        out, out_found, err);
}

ef_status vq_watermark_get(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                           ef__watermark *out, bool *out_found, ef_error *err)
{
    ef_status st;
    VQ_READING vq_reader *reader = vq_read_begin(views, true, &st, err);

    *out_found = false;
    return reader ? get_watermark(reader->conn, generation, tenant, stream, out, out_found, err)
                  : st;
}

ef_status vq_watermark_get_many(ef_views *views, int64_t generation, const ef__view_key *keys,
                                size_t count, ef__watermark *out, ef_error *err)
{
    ef_status st;
    VQ_READING vq_reader *reader = vq_read_begin(views, true, &st, err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = get_watermark(reader->conn, generation, keys[i].tenant, keys[i].name, &out[i], NULL,
                           err);
    return st;
}

ef_status vq_watermark_scan(ef_views *views, int64_t generation, ef__each_watermark *each,
                            void *context, ef_error *err)
{
    ef_status st;
    VQ_READING vq_reader *reader = vq_read_begin(views, false, &st, err);
    ef__watermark_row row;
    ef__sq_rows rows;

    if (!reader)
        return st;
    rows = vq_each_watermark_scan(reader->conn, generation, NULL, err);
    while (vq_next_watermark_scan(&rows, &row))
        if (!each(context, row.tenant, row.stream, &row.is))
            break;
    return ef__sq_rows_end(&rows);
}

/* --- cursors of tenants, fences, failures ----------------------------------------------------- */

ef_status vq_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                               ef__tenant_cursor_item *out, bool *out_found, ef_error *err)
{
    ef_status st;
    VQ_READING vq_reader *reader = vq_read_begin(views, true, &st, err);

    *out = (ef__tenant_cursor_item){0};
    *out_found = false;
    if (reader)
        st = vq_one_cursor_get(reader->conn, generation, tenant, out, out_found, err);
    out->tenant = tenant;
    return st;
}

ef_status vq_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                              ef__tenant_cursor_list *out, ef_error *err)
{
    struct vq_cursor_due asked = {
        .generation = generation, .due = due_us, .limit = ef__sql_limit(limit)};
    ef_status st;
    VQ_READING vq_reader *reader = vq_list_begin(views, true, out, &st, err);

    return reader ? vq_list_cursor_due(reader->conn, &asked, &out->room->arena, &out->items,
                                       &out->count, err)
                  : st;
}

ef_status vq_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err)
{
    ef_status st;
    VQ_READING vq_reader *reader = vq_read_begin(views, true, &st, err);

    *out_token = 0;
    return reader ? vq_one_fence_get(reader->conn, scope, out_token, NULL, err) : st;
}

ef_status vq_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                        size_t limit, ef__failure_list *out, ef_error *err)
{
    struct vq_failure_newest asked = {.generation = generation,
                                      .limit = ef__sql_limit(limit),
                                      .any_tenant = tenant == NULL,
                                      .tenant = tenant ? *tenant : EF_STR("")};
    ef_status st;
    VQ_READING vq_reader *reader = vq_list_begin(views, false, out, &st, err);

    if (!reader)
        return st;
    return (open_only ? vq_list_failure_newest_open : vq_list_failure_newest)(
        reader->conn, &asked, &out->room->arena, &out->items, &out->count, err);
}

/* --- ranges of views, by id or by an index ---------------------------------------------------- */

static ef_status scan_views(ef__sq_conn *conn, const ef__view_scan *scan,
                            const ef__view_place *from, const ef__view_place *to,
                            ef__each_view *each, void *context, ef_error *err)
{
    struct vq_view_scan_up range = {.generation = from->first,
                                    .tenant = ef__place_str(&from->second),
                                    .id = ef__place_str(&from->third),
                                    .end_generation = to->first,
                                    .end_tenant = ef__place_str(&to->second),
                                    .end_id = ef__place_str(&to->third)};
    ef__sq_rows rows =
        (scan->descending ? vq_each_view_scan_down : vq_each_view_scan_up)(conn, &range, NULL, err);
    ef__view view;

    while (vq_next_view_scan_up(&rows, &view))
        if (!each(context, EF_STR(""), &view))
            break;
    return ef__sq_rows_end(&rows);
}

static ef_status scan_index(ef__sq_conn *conn, const ef__view_scan *scan,
                            const ef__view_place *from, const ef__view_place *to,
                            ef__each_view *each, void *context, ef_error *err)
{
    const ef__view_place *start = scan->descending ? to : from;
    const ef__view_place *end = scan->descending ? from : to;
    struct vq_index_scan_up range = {.generation = scan->generation,
                                     .tenant = scan->tenant,
                                     .idx = start->first,
                                     .key = ef__place_str(&start->second),
                                     .id = ef__place_str(&start->third),
                                     .end_key = ef__place_str(&end->second)}; /* its id is "" */
    ef__sq_rows rows = (scan->descending ? vq_each_index_scan_down
                                         : vq_each_index_scan_up)(conn, &range, NULL, err);
    vq_entry_row entry;

    while (vq_next_index_scan_up(&rows, &entry)) {
        entry.view.tenant = scan->tenant;
        if (!each(context, entry.key, &entry.view))
            break;
    }
    return ef__sq_rows_end(&rows);
}

ef_status vq_view_scan(ef_views *views, const ef__view_scan *scan, ef__each_view *each,
                       void *context, ef_error *err)
{
    ef__view_place from, to;
    ef_status st;
    VQ_READING vq_reader *reader = vq_read_begin(views, false, &st, err);

    if (!reader)
        return st;
    ef__view_range(scan, &from, &to);
    return (scan->index < 0 ? scan_views : scan_index)(reader->conn, scan, &from, &to, each,
                                                       context, err);
}

/* --- snapshots -------------------------------------------------------------------------------- */

static void snapshot_close(ef_views *views)
{
    vq_snapshot *snapshot = (vq_snapshot *)views;

    ef__sq_rollback(snapshot->reader->conn); /* it has only read */
    vq_read_end(&snapshot->reader);
    free(snapshot);
}

const ef__views_ops vq_snapshot_ops = {
    .name = "sqlite snapshot",
    .close = snapshot_close,
    .view_get = vq_view_get,
    .watermark_get = vq_watermark_get,
    .view_get_many = vq_view_get_many,
    .watermark_get_many = vq_watermark_get_many,
};

ef_status vq_snapshot_open(ef_views *views, ef_views **out, ef_error *err)
{
    vq_snapshot *snapshot = malloc(sizeof *snapshot);
    ef_status st;

    *out = NULL;
    if (!snapshot)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a snapshot");
    *snapshot = (vq_snapshot){.base = *views};
    snapshot->base.ops = &vq_snapshot_ops;
    snapshot->reader = vq_read_begin(views, true, &st, err);
    if (st == EF_OK)
        st = ef__sq_run(snapshot->reader->conn, VQ_BEGIN_READ, err);
    if (st != EF_OK) {
        vq_read_end(&snapshot->reader);
        free(snapshot);
        return st;
    }
    snapshot->shared = (vq_reader){.conn = snapshot->reader->conn};
    *out = &snapshot->base;
    return EF_OK;
}

/* --- consecutive reads ------------------------------------------------------------------------
 *
 * A single read begins and ends a transaction, which acquires and releases a lock of the file: two
 * system calls, which take as long as the read itself. A series keeps the transaction open instead,
 * and checks before each read whether any process has committed since it began. So a result is
 * never older than that of a single read.
 *
 * The series has its own connection, so no writer waits for it. Its first read is a single read,
 * because that is the fastest way for a read that no other follows.
 *
 * Views are cached until the transaction ends, because it would read the same again.
 */

enum {
    KEPT = 16,              /* views that a series caches … */
    KEPT_VIEW_BYTES = 2048, /* … with at most this much data each … */
    KEPT_BYTES = 65536      /* … and in all; a full cache is emptied */
};

typedef struct kept_view {
    int64_t generation; /* 0: none is kept here */
    ef__view view;
} kept_view;

/* Consecutive reads: from the second on in one transaction, until another connection commits or the
 * snapshot is released. */
typedef struct view_series {
    ef_views base; /* first, so that an ef_views * is this */
    vq_store *store;
    bool begun;              /* there was a read since the last release */
    vq_reader *reader;       /* with the transaction; NULL: there is none */
    ef__sq_wal_header began; /* the log, before it */
    kept_view kept[KEPT];    /* views that the transaction has read, in … */
    ef__arena arena;         /* … this memory */
} view_series;

/* The slot of a view in the cache. Ids that are read together differ in their last letters. */
static kept_view *kept_place(view_series *series, ef_str id)
{
    size_t number = id.len;

    for (size_t i = id.len > 4 ? id.len - 4 : 0; i < id.len; i++)
        number = number * 31 + (unsigned char)id.ptr[i];
    return &series->kept[number % KEPT];
}

static void drop_kept_views(view_series *series)
{
    for (size_t i = 0; i < KEPT; i++)
        series->kept[i].generation = 0;
    ef__arena_reset(&series->arena);
}

static void keep_view(view_series *series, int64_t generation, const ef__view *view)
{
    kept_view *kept = kept_place(series, view->id);

    if (view->data.len > KEPT_VIEW_BYTES)
        return;
    *kept = (kept_view){.view = *view};
    if (ef__texts_own(&ef__view_texts, &kept->view, &series->arena))
        kept->generation = generation;
    else
        drop_kept_views(series);
}

static const ef__view *find_kept(view_series *series, int64_t generation, ef_str tenant, ef_str id)
{
    const kept_view *kept = kept_place(series, id);

    return generation && kept->generation == generation && ef_str_equal(kept->view.id, id) &&
                   ef_str_equal(kept->view.tenant, tenant)
               ? &kept->view
               : NULL;
}

static void end_series(view_series *series)
{
    if (!series->reader)
        return;
    drop_kept_views(series);
    ef__sq_rollback(series->reader->conn); /* it has only read */
    vq_read_end(&series->reader);
}

static ef_status begin_series(view_series *series, ef_error *err)
{
    ef_status st;

    series->reader = vq_read_begin(&series->store->base, false, &st, err);
    /* A connection that has not read yet has no header of the log: this read is a single one. */
    if (st == EF_OK && ef__sq_wal_read_header(series->reader->conn, &series->began))
        st = ef__sq_run(series->reader->conn, VQ_BEGIN_READ, err);
    return st;
}

static ef_status series_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                                 ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    view_series *series = (view_series *)views;
    const ef__view *kept = NULL;
    ef_status st = EF_OK;

    *out_found = false;
    if (!series->begun) {
        series->begun = true;
        return vq_view_get(&series->store->base, generation, tenant, id, arena, out, out_found,
                           err);
    }
    if (series->reader && !ef__sq_wal_is_unchanged(series->reader->conn, &series->began))
        end_series(series);
    if (series->reader && (kept = find_kept(series, generation, tenant, id)) != NULL) {
        *out_found = true;
        *out = *kept;
        return ef__texts_own(&ef__view_texts, out, arena) ? EF_OK : ef__no_memory(err);
    }
    if (!series->reader)
        st = begin_series(series, err);
    if (st == EF_OK)
        st = get_view(series->reader->conn, true, generation, tenant, id, arena, out, out_found,
                      err);
    if (st == EF_OK && *out_found)
        keep_view(series, generation, out);
    if (st == EF_OK)
        ef__sq_wal_map(series->reader->conn);
    if (st != EF_OK || sqlite3_get_autocommit(series->reader->conn->db))
        end_series(series);
    return st;
}

static void series_release(ef_views *views)
{
    view_series *series = (view_series *)views;

    end_series(series);
    series->begun = false;
}

static void series_close(ef_views *views)
{
    view_series *series = (view_series *)views;

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
    view_series *series = malloc(sizeof *series);

    *out = NULL;
    if (!series)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a reader");
    *series = (view_series){
        .base = *views, .store = vq_store_of(views), .arena = EF__ARENA_INIT(KEPT_BYTES)};
    series->base.ops = &SERIES_OPS;
    *out = &series->base;
    return EF_OK;
}
