/*
 * read.c - reading the PostgreSQL journal: events and streams.
 */
#include "store.h"

#include "../../base/cursor.h"

#define STREAM_CURSOR 's'

ef_status pg_read_stream(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                         size_t limit, ef_batch *out, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    int64_t seq, position;
    ef_status st;

    ef__pg_add_str(&params, tenant);
    ef__pg_add_str(&params, stream);
    ef__pg_add_int(&params, from_seq);
    ef__pg_add_int(&params, (int64_t)limit + 1);
    ef__pg_add_int(&params, PG_READ_BYTES_ENOUGH);
    st = pg_read(pg_store_of(journal), PJ_EVENT_OF_STREAM, &params, &result, err);
    if (st == EF_OK)
        st = pg_events_copy(result, limit, false, out, err);
    PQclear(result);
    if (st != EF_OK || out->count)
        return st;
    st = pg_stream_head(journal, tenant, stream, &seq, &position, err);
    if (st == EF_OK && seq == 0)
        st = ef__refuse_unknown_stream(stream, err);
    return st;
}

ef_status pg_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef__pg_params params = {0};
    PGresult *result = NULL;
    int64_t head;
    ef_status st;

    ef__pg_add_int(&params, query->after);
    ef__pg_add_int(&params, (int64_t)query->limit + 1);
    ef__pg_add_bool(&params, query->any_tenant);
    ef__pg_add_str(&params, query->tenant);
    ef__pg_add_str(&params, query->type);
    ef__pg_add_int(&params, PG_READ_BYTES_ENOUGH);
    st = pg_read(store, PJ_EVENT_AFTER, &params, &result, err);
    if (st != EF_OK)
        return st;
    head = ef__pg_int(result, 0, PG_EVENT_COLUMNS);
    /* Without an event there is one row, which has the head only. */
    if (!ef__pg_null(result, 0, 0))
        st = pg_events_copy(result, query->limit, query->stored_types, out, err);
    PQclear(result);
    if (st != EF_OK)
        return st;
    *query->out_reached = out->more             ? out->events[out->count - 1].position
                          : head > query->after ? head
                                                : query->after;
    pg_record_seen(store, head);
    return EF_OK;
}

ef_status pg_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    ef__pg_add_str(&params, tenant);
    ef__pg_add_str(&params, id);
    st = pg_read(pg_store_of(journal), PJ_EVENT_BY_ID, &params, &result, err);
    if (st == EF_OK && PQntuples(result) == 0)
        st = ef__refuse_unknown_event(id, err);
    if (st == EF_OK)
        st = pg_events_copy(result, 1, false, out, err);
    PQclear(result);
    return st;
}

ef_status pg_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                         int64_t *out_position, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    ef__pg_add_str(&params, tenant);
    ef__pg_add_str(&params, stream);
    st = pg_read(pg_store_of(journal), PJ_STREAM_HEAD_GET, &params, &result, err);
    *out_seq = *out_position = 0;
    if (st == EF_OK && PQntuples(result)) {
        *out_seq = ef__pg_int(result, 0, 0);
        *out_position = ef__pg_int(result, 0, 1);
    }
    PQclear(result);
    return st;
}

static ef_status list_streams(const PGresult *result, size_t limit, ef_stream_list *out,
                              ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    int rows = PQntuples(result);
    ef_stream *items = pg_items_alloc(arena, rows, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    out->items = items;
    for (int i = 0; i < rows && out->count < limit; i++) {
        items[i] = (ef_stream){.tenant = pg_copy_text(result, i, 1, arena),
                               .name = pg_copy_text(result, i, 2, arena),
                               .seq = ef__pg_int(result, i, 3),
                               .position = ef__pg_int(result, i, 4)};
        if (!items[i].tenant.ptr || !items[i].name.ptr)
            return ef__no_memory(err);
        out->count++;
    }
    if ((size_t)rows > limit)
        ef__cursor_format(STREAM_CURSOR, ef__pg_int(result, (int)limit - 1, 0), 0, out->next);
    return EF_OK;
}

ef_status pg_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                       size_t limit, ef_stream_list *out, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    int64_t from, rest;
    ef_status st = ef__cursor_parse(STREAM_CURSOR, after, &from, &rest, err);

    if (st == EF_OK && from < 0)
        st = ef__refuse_cursor(err);
    if (st != EF_OK)
        return st;
    ef__pg_add_int(&params, from);
    ef__pg_add_bool(&params, any_tenant);
    ef__pg_add_str(&params, tenant);
    ef__pg_add_int(&params, (int64_t)limit + 1);
    st = pg_read(pg_store_of(journal), PJ_STREAM_AFTER, &params, &result, err);
    if (st == EF_OK)
        st = list_streams(result, limit, out, err);
    PQclear(result);
    return st;
}
