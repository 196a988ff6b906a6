/*
 * scan.c - ranges of views, by id or by an index.
 *
 * A range goes from one place up to, but not including, another; a place is a whole key. Bounds,
 * pages and directions only choose the two places. Keys and names are compared by bytes, so that
 * the place right behind x is x with a NUL behind it: nothing fits in between.
 */
#include "store.h"

#include "../../base/buf.h"

#define TEXT_MAX (64 * 1024 * 1024) /* a key comes out of one view */

/* One end: (generation, tenant, id) of views, or (idx, key, id) of an index. */
typedef struct place {
    int64_t first;
    ef__buf second, third;
} place;

static void place_set(place *p, int64_t first, ef_str second, ef_str third)
{
    p->first = first;
    ef__buf_reset(&p->second);
    ef__buf_reset(&p->third);
    ef__buf_add_str(&p->second, second);
    ef__buf_add_str(&p->third, third);
}

static void behind(ef__buf *text)
{
    ef__buf_add_char(text, '\0');
}

/* --- views by id ------------------------------------------------------------------------------ */

static void id_ends(const ef__view_scan *s, place *from, place *to)
{
    ef_str none = {0};
    ef_str after_tenant = s->any_tenant ? s->after_tenant : s->tenant;

    if (s->any_tenant) {
        place_set(from, s->generation, none, none);
        place_set(to, s->generation + 1, none, none);
    } else {
        place_set(from, s->generation, s->tenant, s->has_low ? s->low : none);
        if (s->has_low && s->low_open)
            behind(&from->third);
        place_set(to, s->generation, s->tenant, s->has_high ? s->high : none);
        if (!s->has_high)
            behind(&to->second);
        else if (!s->high_open)
            behind(&to->third);
    }
    if (s->has_after && s->descending) {
        place_set(to, s->generation, after_tenant, s->after_id);
    } else if (s->has_after) {
        place_set(from, s->generation, after_tenant, s->after_id);
        behind(&from->third);
    }
}

/* --- an index --------------------------------------------------------------------------------- */

/* No key is longer than EF__KEY_BYTES, so none lies above one more byte of 255. */
static void above_all_keys(place *p, int32_t index)
{
    char bytes[EF__KEY_BYTES + 1];

    memset(bytes, 0xff, sizeof bytes);
    place_set(p, index, (ef_str){bytes, sizeof bytes}, (ef_str){0});
}

static void index_ends(const ef__view_scan *s, place *from, place *to)
{
    ef_str none = {0};

    place_set(from, s->index, s->has_low ? s->low : none, none);
    if (s->has_low && s->low_open)
        behind(&from->second);
    if (s->has_high) {
        place_set(to, s->index, s->high, none);
        if (!s->high_open)
            behind(&to->second);
    } else {
        above_all_keys(to, s->index);
    }
    if (s->has_after && s->descending) {
        place_set(to, s->index, s->after_key, s->after_id);
    } else if (s->has_after) {
        place_set(from, s->index, s->after_key, s->after_id);
        behind(&from->third);
    }
}

/* --- the scan --------------------------------------------------------------------------------- */

static ef__view view_of_row(sqlite3_stmt *stmt)
{
    return (ef__view){
        .data = ef__sq_column_str(stmt, 0),
        .last_position = sqlite3_column_int64(stmt, 1),
        .last_seq = sqlite3_column_int64(stmt, 2),
        .schema = sqlite3_column_int(stmt, 3),
        .digest = {(uint64_t)sqlite3_column_int64(stmt, 4),
                   (uint64_t)sqlite3_column_int64(stmt, 5)},
        .tenant = ef__sq_column_str(stmt, 6),
        .id = ef__sq_column_str(stmt, 7),
    };
}

static ef__view view_of_entry(sqlite3_stmt *stmt, ef_str tenant)
{
    return (ef__view){
        .data = ef__sq_column_str(stmt, 0),
        .last_position = sqlite3_column_int64(stmt, 1),
        .last_seq = sqlite3_column_int64(stmt, 2),
        .schema = sqlite3_column_int(stmt, 3),
        .tenant = tenant,
        .id = ef__sq_column_str(stmt, 4),
    };
}

static ef_status walk(ef__sq_conn *conn, sqlite3_stmt *stmt, const ef__view_scan *s,
                      bool (*each)(void *context, ef_str key, const ef__view *view), void *context,
                      ef_error *err)
{
    bool row, indexed = s->index >= 0;
    ef_status st;

    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        ef__view view = indexed ? view_of_entry(stmt, s->tenant) : view_of_row(stmt);
        ef_str key = indexed ? ef__sq_column_blob(stmt, 5) : (ef_str){"", 0};
        if (!each(context, key, &view)) {
            sqlite3_reset(stmt);
            break;
        }
    }
    return st;
}

static void bind_places(sqlite3_stmt *stmt, const ef__view_scan *s, const place *from,
                        const place *to)
{
    if (s->index < 0) {
        sqlite3_bind_int64(stmt, 1, from->first);
        ef__sq_bind_str(stmt, 2, ef__buf_str(&from->second));
        ef__sq_bind_str(stmt, 3, ef__buf_str(&from->third));
        sqlite3_bind_int64(stmt, 4, to->first);
        ef__sq_bind_str(stmt, 5, ef__buf_str(&to->second));
        ef__sq_bind_str(stmt, 6, ef__buf_str(&to->third));
        return;
    }
    const place *start = s->descending ? to : from, *end = s->descending ? from : to;
    sqlite3_bind_int64(stmt, 1, s->generation);
    ef__sq_bind_str(stmt, 2, s->tenant);
    sqlite3_bind_int64(stmt, 3, start->first);
    ef__sq_bind_blob(stmt, 4, ef__buf_str(&start->second));
    ef__sq_bind_str(stmt, 5, ef__buf_str(&start->third));
    ef__sq_bind_blob(stmt, 6, ef__buf_str(&end->second)); /* its id is "", see index_ends */
}

static ef_status scan_places(vq_store *store, const ef__view_scan *s, const place *from,
                             const place *to,
                             bool (*each)(void *context, ef_str key, const ef__view *view),
                             void *context, ef_error *err)
{
    static const int WHICH[2][2] = {{VQ_VIEW_SCAN_UP, VQ_VIEW_SCAN_DOWN},
                                    {VQ_INDEX_SCAN_UP, VQ_INDEX_SCAN_DOWN}};
    vq_reader *reader;
    ef__sq_conn *conn;
    sqlite3_stmt *stmt;
    ef_status st = vq_read_begin(store, false, &reader, &conn, err);

    if (st != EF_OK)
        return st;
    st = ef__sq_stmt(conn, WHICH[s->index >= 0][s->descending], &stmt, err);
    if (st == EF_OK) {
        bind_places(stmt, s, from, to);
        st = walk(conn, stmt, s, each, context, err);
    }
    vq_read_end(store, reader);
    return st;
}

ef_status vq_view_scan(ef_views *views, const ef__view_scan *scan,
                       bool (*each)(void *context, ef_str key, const ef__view *view), void *context,
                       ef_error *err)
{
    place from = {0, EF__BUF_INIT(TEXT_MAX), EF__BUF_INIT(TEXT_MAX)};
    place to = {0, EF__BUF_INIT(TEXT_MAX), EF__BUF_INIT(TEXT_MAX)};
    ef_status st;

    if (scan->index < 0)
        id_ends(scan, &from, &to);
    else
        index_ends(scan, &from, &to);
    if (from.second.failed || from.third.failed || to.second.failed || to.third.failed)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out for a scan");
    else
        st = scan_places(vq_store_of(views), scan, &from, &to, each, context, err);
    ef__buf_release(&from.second);
    ef__buf_release(&from.third);
    ef__buf_release(&to.second);
    ef__buf_release(&to.third);
    return st;
}
