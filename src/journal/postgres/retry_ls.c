/*
 * retry_ls.c - streams that have retry rows in a lane, on PostgreSQL.
 */
#include "store.h"

static void bind_query(ef__pg_params *params, const ef__retry_query *query)
{
    ef__pg_add_str(params, query->lane);
    if (query->stream.len) {
        ef__pg_add_str(params, query->tenant);
        ef__pg_add_str(params, query->stream);
    } else {
        ef__pg_add_int(params, query->after);
        ef__pg_add_bool(params, query->any_tenant);
        ef__pg_add_str(params, query->tenant);
    }
    ef__pg_add_int(params, query->above_seq);
    ef__pg_add_bool(params, query->counts);
    if (!query->stream.len)
        ef__pg_add_int(params, (int64_t)query->limit);
}

static ef_status list_streams(const PGresult *result, ef__retry_stream_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    int rows = PQntuples(result);
    ef__retry_stream *items = pg_items_alloc(arena, rows, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    out->items = items;
    for (int i = 0; i < rows; i++) {
        items[i] = (ef__retry_stream){.tenant = pg_copy_text(result, i, 0, arena),
                                      .stream = pg_copy_text(result, i, 1, arena),
                                      .seq = ef__pg_int(result, i, 2),
                                      .position = ef__pg_int(result, i, 3),
                                      .status = (ef_row_status)ef__pg_int(result, i, 4),
                                      .error = pg_copy_text(result, i, 5, arena),
                                      .last_seq = ef__pg_int(result, i, 6),
                                      .rows = ef__pg_int(result, i, 7)};
        if (!items[i].tenant.ptr || !items[i].stream.ptr || !items[i].error.ptr)
            return ef__no_memory(err);
        out->count++;
    }
    return EF_OK;
}

ef_status pg_retry_streams(ef_journal *journal, const ef__retry_query *query,
                           ef__retry_stream_list *out, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    bind_query(&params, query);
    st = pg_read(pg_store_of(journal), query->stream.len ? PJ_RETRY_STREAM : PJ_RETRY_STREAMS,
                 &params, &result, err);
    if (st == EF_OK)
        st = list_streams(result, out, err);
    PQclear(result);
    return st;
}
