/*
 * retry_ls.c - streams that have retry rows in a lane, on SQLite.
 */
#include "outbox.h"

static ef_status list_streams(ef__sq_conn *conn, const ef__retry_query *query,
                              ef__retry_stream_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__retry_stream stream;
    ef__sq_rows rows;
    sq_lane lane;
    ef_status st = sq_lane_find(conn, query->lane, &lane, err);

    if (st != EF_OK || lane.id == 0)
        return st;
    rows = (query->stream.len ? sq_each_retry_stream : sq_each_retry_streams)(conn, lane.id, query,
                                                                              arena, err);
    while (out->count < query->limit && sq_next_retry_streams(&rows, &stream))
        out->items = ef__sq_rows_add(&rows, out->items, &out->count, &stream, sizeof stream);
    return ef__sq_rows_end(&rows);
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
