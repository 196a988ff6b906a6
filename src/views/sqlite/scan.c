/*
 * scan.c - ranges of views, by id or by an index.
 */
#include "store.h"

#include "../range.h"

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

static void bind_places(sqlite3_stmt *stmt, const ef__view_scan *s, const ef__view_place *from,
                        const ef__view_place *to)
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
    const ef__view_place *start = s->descending ? to : from, *end = s->descending ? from : to;
    sqlite3_bind_int64(stmt, 1, s->generation);
    ef__sq_bind_str(stmt, 2, s->tenant);
    sqlite3_bind_int64(stmt, 3, start->first);
    ef__sq_bind_blob(stmt, 4, ef__buf_str(&start->second));
    ef__sq_bind_str(stmt, 5, ef__buf_str(&start->third));
    ef__sq_bind_blob(stmt, 6, ef__buf_str(&end->second)); /* its id is "", see range.c */
}

static ef_status scan_places(vq_store *store, const ef__view_scan *s, const ef__view_place *from,
                             const ef__view_place *to,
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
    ef__view_place from = EF__VIEW_PLACE_INIT, to = EF__VIEW_PLACE_INIT;
    ef_status st = ef__view_range(scan, &from, &to, err);

    if (st == EF_OK)
        st = scan_places(vq_store_of(views), scan, &from, &to, each, context, err);
    ef__view_place_release(&from);
    ef__view_place_release(&to);
    return st;
}
