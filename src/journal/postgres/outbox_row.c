/*
 * outbox_row.c - listing and counting rows of the outbox on PostgreSQL.
 */
#include "outbox.h"

#include "../../base/cursor.h"
#include "../../core/placement.h"

#include <inttypes.h>

#define ROW_CURSOR 'o'
#define PUBLISHED_CURSOR 'd' /* descending */

/* The filter of row_after. */
enum { SHOW_ALL, SHOW_BLOCKED, SHOW_WAITING };

static ef_row row_of(const PGresult *result, int i, ef__arena *arena)
{
    return (ef_row){.lane = pg_copy_text(result, i, 0, arena),
                    .tenant = pg_copy_text(result, i, 1, arena),
                    .stream = pg_copy_text(result, i, 2, arena),
                    .seq = ef__pg_int(result, i, 3),
                    .position = ef__pg_int(result, i, 4),
                    .event_type = pg_copy_text(result, i, 5, arena),
                    .status = (ef_row_status)ef__pg_int(result, i, 6),
                    .blocked = ef__pg_bool(result, i, 7),
                    .skip = ef__pg_bool(result, i, 8),
                    .partition = (int32_t)ef__pg_int(result, i, 9),
                    .attempt_count = (int32_t)ef__pg_int(result, i, 10),
                    .next_attempt_us = ef__pg_int(result, i, 11),
                    .last_error = pg_copy_text(result, i, 12, arena),
                    .enqueued_us = ef__pg_int(result, i, 13),
                    .updated_us = ef__pg_int(result, i, 14)};
}

/* A published row has a time of its own; its partition is computed from the stream. */
static void set_published(const PGresult *result, int i, ef_row *row)
{
    row->published_us = row->updated_us;
    row->partition = ef__partition_of(row->tenant, row->stream, (int32_t)ef__pg_int(result, i, 16));
}

static void set_retry(const PGresult *result, int i, ef_row *row)
{
    row->filed = ef__pg_int(result, i, 16);
    row->trying = ef__pg_bool(result, i, 17);
}

ef_status pg_rows_list(const PGresult *result, size_t limit, ef_row_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    int rows = PQntuples(result);
    bool published = false;
    ef_row *items = pg_items_alloc(arena, rows, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    out->items = items;
    for (int i = 0; i < rows && out->count < limit; i++) {
        const ef_row *row = &items[i];
        items[i] = row_of(result, i, arena);
        if (!row->lane.ptr || !row->tenant.ptr || !row->stream.ptr || !row->event_type.ptr ||
            !row->last_error.ptr)
            return ef__no_memory(err);
        published = row->status == EF_ROW_PUBLISHED;
        if (published)
            set_published(result, i, &items[i]);
        else
            set_retry(result, i, &items[i]);
        out->count++;
    }
    if ((size_t)rows > limit && limit > 0)
        ef__cursor_format(published ? PUBLISHED_CURSOR : ROW_CURSOR, items[limit - 1].position,
                          ef__pg_int(result, (int)limit - 1, 15), out->next);
    return EF_OK;
}

ef_status pg_clock_now(pg_store *store, int64_t *out, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    pg_add_clock(store, &params);
    st = ef__pg_read(store->pool, PJ_CLOCK, &params, &result, err);
    if (st == EF_OK)
        *out = ef__pg_int(result, 0, 0);
    PQclear(result);
    return st;
}

/* The parameters of row_after. */
static void bind_rows(ef__pg_params *params, const ef_outbox_query *query, int show, int64_t after,
                      int64_t lane, size_t limit, int64_t now_us)
{
    ef__pg_add_str(params, query->lane);
    ef__pg_add_bool(params, query->any_tenant);
    ef__pg_add_str(params, query->tenant);
    ef__pg_add_int(params, query->status && show != SHOW_WAITING ? (int64_t)*query->status : -1);
    ef__pg_add_int(params, show);
    ef__pg_add_int(params, query->from > after ? query->from : after);
    ef__pg_add_int(params, after);
    ef__pg_add_int(params, lane);
    ef__pg_add_int(params, (int64_t)limit);
    ef__pg_add_int(params, now_us);
}

static ef_status list_published(pg_store *store, const ef_outbox_query *query, ef_row_list *out,
                                ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    int64_t below, lane;
    ef_status st = ef__cursor_parse(PUBLISHED_CURSOR, query->after, &below, &lane, err);

    if (st != EF_OK)
        return st;
    if (!query->after.len)
        below = INT64_MAX;
    if (query->upto && query->upto < below) {
        below = query->upto + 1;
        lane = 0;
    }
    ef__pg_add_str(&params, query->lane);
    ef__pg_add_int(&params, query->from);
    ef__pg_add_int(&params, below);
    ef__pg_add_int(&params, lane);
    ef__pg_add_int(&params, (int64_t)query->limit + 1);
    st = ef__pg_read(store->pool, PJ_PUBLISHED_BEFORE, &params, &result, err);
    if (st == EF_OK)
        st = pg_rows_list(result, query->limit, out, err);
    PQclear(result);
    return st;
}

ef_status pg_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err)
{
    if (ef__query_published(query))
        return list_published(pg_store_of(journal), query, out, err);

    pg_store *store = pg_store_of(journal);
    ef__pg_params params = {0};
    PGresult *result = NULL;
    int64_t after, lane, now_us = 0;
    ef_status st = ef__cursor_parse(ROW_CURSOR, query->after, &after, &lane, err);

    if (st == EF_OK)
        st = pg_clock_now(store, &now_us, err);
    if (st != EF_OK)
        return st;
    bind_rows(&params, query, query->blocked_only ? SHOW_BLOCKED : SHOW_ALL, after, lane,
              query->limit + 1, now_us);
    st = pg_read(store, PJ_ROW_AFTER, &params, &result, err);
    if (st == EF_OK)
        st = pg_rows_list(result, query->limit, out, err);
    PQclear(result);
    return st;
}

/* --- the summary ------------------------------------------------------------------------------ */

typedef struct summary {
    pg_store *store;
    const ef_outbox_query *query;
    int64_t now_us;
    ef_outbox_summary *out;
} summary;

static ef_status summary_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const summary *s = context;
    ef__pg_params counts = {0}, rows = {0};
    PGresult *counted = NULL, *oldest = NULL;
    ef_status st;

    ef__pg_add_str(&counts, s->query->lane);
    ef__pg_add_bool(&counts, s->query->any_tenant);
    ef__pg_add_str(&counts, s->query->tenant);
    ef__pg_add_int(&counts, s->now_us);
    bind_rows(&rows, s->query, SHOW_WAITING, 0, 0, 1, s->now_us);
    st = ef__pg_send(conn, PJ_ROW_COUNT, &counts, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_ROW_AFTER, &rows, err);
    if (st == EF_OK)
        st = ef__pg_receive(conn, &counted, err);
    if (st == EF_OK)
        st = ef__pg_receive(conn, &oldest, err);
    if (st == EF_OK) {
        s->out->processing = ef__pg_int(counted, 0, 1);
        s->out->pending =
            ef__pg_int(counted, 0, 0) - s->out->processing + ef__pg_int(counted, 0, 2);
        s->out->failed = ef__pg_int(counted, 0, 3);
        s->out->dead = ef__pg_int(counted, 0, 4);
        s->out->blocked = ef__pg_int(counted, 0, 5);
        s->out->blocked_oldest_us = ef__pg_int(counted, 0, 6);
        s->out->oldest.count = 0;
        st = pg_rows_list(oldest, 1, &s->out->oldest, err);
    }
    PQclear(counted);
    PQclear(oldest);
    return st;
}

ef_status pg_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err)
{
    summary s = {.store = pg_store_of(journal), .query = query, .out = out};
    ef_status st = pg_sequence_arrivals(s.store, err);

    if (st == EF_OK)
        st = pg_clock_now(s.store, &s.now_us, err);
    if (st == EF_OK)
        st = ef__pg_transaction(s.store->pool, EF__PG_SNAPSHOT, summary_work, &s, err);
    return st;
}

ef_status pg_outbox_has_work(ef_journal *journal, bool *out, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = pg_read(pg_store_of(journal), PJ_OUTBOX_HAS_WORK, NULL, &result, err);

    *out = st == EF_OK && ef__pg_bool(result, 0, 0);
    PQclear(result);
    return st;
}
