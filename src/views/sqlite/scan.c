/*
 * scan.c - ranges of views, by id or by an index.
 */
#include "store.h"

#include "../range.h"

typedef bool view_each(void *context, ef_str key, const ef__view *view);

static ef_status scan_views(ef__sq_conn *conn, const ef__view_scan *scan,
                            const ef__view_place *from, const ef__view_place *to, view_each *each,
                            void *context, ef_error *err)
{
    struct vq_view_scan_up range = {.generation = from->first,
                                    .tenant = ef__buf_str(&from->second),
                                    .id = ef__buf_str(&from->third),
                                    .end_generation = to->first,
                                    .end_tenant = ef__buf_str(&to->second),
                                    .end_id = ef__buf_str(&to->third)};
    ef__sq_rows rows = scan->descending ? vq_each_view_scan_down(conn, &range, NULL, err)
                                        : vq_each_view_scan_up(conn, &range, NULL, err);
    ef__view view;

    while (vq_next_view_scan_up(&rows, &view))
        if (!each(context, EF_STR(""), &view))
            break;
    return ef__sq_rows_end(&rows);
}

static ef_status scan_index(ef__sq_conn *conn, const ef__view_scan *scan,
                            const ef__view_place *from, const ef__view_place *to, view_each *each,
                            void *context, ef_error *err)
{
    const ef__view_place *start = scan->descending ? to : from;
    const ef__view_place *end = scan->descending ? from : to;
    struct vq_index_scan_up range = {.generation = scan->generation,
                                     .tenant = scan->tenant,
                                     .idx = start->first,
                                     .key = ef__buf_str(&start->second),
                                     .id = ef__buf_str(&start->third),
                                     .end_key = ef__buf_str(&end->second)}; /* its id is "" */
    ef__sq_rows rows = scan->descending ? vq_each_index_scan_down(conn, &range, NULL, err)
                                        : vq_each_index_scan_up(conn, &range, NULL, err);
    vq_entry_row entry;

    while (vq_next_index_scan_up(&rows, &entry)) {
        entry.view.tenant = scan->tenant;
        if (!each(context, entry.key, &entry.view))
            break;
    }
    return ef__sq_rows_end(&rows);
}

static ef_status scan_places(vq_store *store, const ef__view_scan *scan, const ef__view_place *from,
                             const ef__view_place *to, view_each *each, void *context,
                             ef_error *err)
{
    vq_reader *reader;
    ef__sq_conn *conn;
    ef_status st = vq_read_begin(store, false, &reader, &conn, err);

    if (st != EF_OK)
        return st;
    st = (scan->index < 0 ? scan_views : scan_index)(conn, scan, from, to, each, context, err);
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
