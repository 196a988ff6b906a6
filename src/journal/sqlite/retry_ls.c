/*
 * retry_ls.c - streams that have retry rows in a lane, on SQLite.
 */
#include "outbox.h"

static ef_status bind_query(ef__sq_conn *conn, int64_t lane, const ef__retry_query *query,
                            sqlite3_stmt **out, ef_error *err)
{
    bool one = query->stream.len > 0;
    ef_status st = ef__sq_stmt(conn, one ? SQ_RETRY_STREAM : SQ_RETRY_STREAMS, out, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(*out, 1, lane);
    if (one) {
        ef__sq_bind_str(*out, 2, query->tenant);
        ef__sq_bind_str(*out, 3, query->stream);
    } else {
        sqlite3_bind_int64(*out, 2, query->after);
        sqlite3_bind_int(*out, 3, query->any_tenant);
        ef__sq_bind_str(*out, 4, query->tenant);
    }
    sqlite3_bind_int64(*out, one ? 4 : 5, query->above_seq);
    sqlite3_bind_int(*out, one ? 5 : 6, query->counts);
    return EF_OK;
}

static ef_status add_stream(sqlite3_stmt *stmt, ef__arena *arena, ef__retry_stream_list *out,
                            ef_error *err)
{
    ef__retry_stream *items =
        sq_list_grow(arena, (void *)out->items, out->count, sizeof *out->items);
    ef__retry_stream *to = items ? &items[out->count] : NULL;

    if (!to)
        return ef__no_memory(err);
    *to = (ef__retry_stream){.tenant = sq_column_copy(stmt, 0, arena),
                             .stream = sq_column_copy(stmt, 1, arena),
                             .seq = sqlite3_column_int64(stmt, 2),
                             .position = sqlite3_column_int64(stmt, 3),
                             .status = (ef_row_status)sqlite3_column_int(stmt, 4),
                             .error = sq_column_copy(stmt, 5, arena),
                             .last_seq = sqlite3_column_int64(stmt, 6),
                             .rows = sqlite3_column_int64(stmt, 7)};
    out->items = items;
    out->count++;
    return to->tenant.ptr && to->stream.ptr && to->error.ptr ? EF_OK : ef__no_memory(err);
}

static ef_status list_streams(ef__sq_conn *conn, const ef__retry_query *query,
                              ef__retry_stream_list *out, ef_error *err)
{
    sq_lane lane;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = sq_lane_find(conn, query->lane, &lane, err);

    if (st != EF_OK || lane.id == 0)
        return st;
    st = bind_query(conn, lane.id, query, &stmt, err);
    if (st != EF_OK)
        return st;
    while (out->count < query->limit && (st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row)
        if ((st = add_stream(stmt, &out->room->arena, out, err)) != EF_OK)
            break;
    sqlite3_reset(stmt);
    return st;
}

ef_status sq_retry_streams(ef_journal *journal, const ef__retry_query *query,
                           ef__retry_stream_list *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = list_streams(&reader->conn, query, out, err);
    sq_read_end(store, reader);
    return st;
}
