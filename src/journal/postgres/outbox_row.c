/*
 * outbox_row.c - listing and counting rows of the outbox, and streams with retry rows, on
 * PostgreSQL.
 */
#include "store.h"

#include "../../base/cursor.h"
#include "../../core/placement.h"

#define ROW_CURSOR 'o'
#define PUBLISHED_CURSOR 'd' /* descending */

/* The filter of row_after. */
enum { SHOW_ALL, SHOW_BLOCKED, SHOW_WAITING };

ef_status pg_rows_list(ef__pg_rows rows, bool (*next)(ef__pg_rows *rows, pg_row *out), size_t limit,
                       ef_row_list *out)
{
    ef_row *items = ef__pg_rows_items(&rows, sizeof *items);
    char cursor = ROW_CURSOR;
    pg_row found = {0};

    out->items = items;
    while (out->count < limit && next(&rows, &found)) {
        ef_row *row = &items[out->count++];
        *row = found.row;
        if (row->status != EF_ROW_PUBLISHED)
            continue;
        /* It has a time of its own; its partition is computed from the stream. */
        row->published_us = row->updated_us;
        row->partition = ef__partition_of(row->tenant, row->stream, found.partitions);
        cursor = PUBLISHED_CURSOR;
    }
    if (rows.status == EF_OK && (size_t)rows.count > limit && limit > 0)
        ef__cursor_format(cursor, found.row.position, found.lane_id, out->next);
    return ef__pg_rows_end(&rows);
}

/* The parameters of row_after. */
static struct pj_row_after rows_after(const ef_outbox_query *query, int show, int64_t after,
                                      int64_t lane, size_t limit, int64_t now_us)
{
    return (struct pj_row_after){
        .lane = query->lane,
        .any_tenant = query->any_tenant,
        .tenant = query->tenant,
        .status = query->status && show != SHOW_WAITING ? (int64_t)*query->status : -1,
        .show = show,
        .from = query->from > after ? query->from : after,
        .after = after,
        .after_lane = lane,
        .limit = (int64_t)limit,
        .now = now_us,
    };
}

static ef_status list_published(pg_store *store, const ef_outbox_query *query, ef_row_list *out,
                                ef_error *err)
{
    struct pj_published_before asked = {
        .lane = query->lane, .from = query->from, .limit = (int64_t)query->limit + 1};
    ef_status st =
        ef__cursor_parse(PUBLISHED_CURSOR, query->after, &asked.upto, &asked.lane_id, err);

    if (st != EF_OK)
        return st;
    if (!query->after.len)
        asked.upto = INT64_MAX;
    if (query->upto && query->upto < asked.upto) {
        asked.upto = query->upto + 1;
        asked.lane_id = 0;
    }
    return pg_rows_list(pj_each_published_before(pg_on_pool(store), &asked, &out->room->arena, err),
                        pj_next_published_before, query->limit, out);
}

ef_status pg_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    struct pj_row_after asked;
    int64_t after, lane, now_us = 0;
    ef_status st;

    if (ef__query_published(query))
        return list_published(store, query, out, err);
    st = ef__cursor_parse(ROW_CURSOR, query->after, &after, &lane, err);
    if (st == EF_OK)
        st = pg_clock_now(store, pg_on_pool(store), &now_us, err);
    if (st != EF_OK)
        return st;
    asked = rows_after(query, query->blocked_only ? SHOW_BLOCKED : SHOW_ALL, after, lane,
                       query->limit + 1, now_us);
    return pg_rows_list(pj_each_row_after(pg_on_log(store), &asked, &out->room->arena, err),
                        pj_next_retry_row_details, query->limit, out);
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
    struct pj_row_after waiting = rows_after(s->query, SHOW_WAITING, 0, 0, 1, s->now_us);
    struct pj_row_count_row counts = {0};
    ef_status st = pj_send_row_count(conn, s->query, s->now_us, err);

    if (st == EF_OK)
        st = pj_send_row_after(conn, &waiting, err);
    if (st == EF_OK)
        st = pj_receive_row_count(conn, &counts, NULL, err);
    if (st != EF_OK)
        return st;
    s->out->processing = counts.in_flight;
    s->out->pending = counts.queued - counts.in_flight + counts.pending;
    s->out->failed = counts.failed;
    s->out->dead = counts.dead;
    s->out->blocked = counts.blocked;
    s->out->blocked_oldest_us = counts.blocked_oldest;
    s->out->oldest.count = 0;
    return pg_rows_list(ef__pg_rows_receive(conn, &s->out->oldest.room->arena, err),
                        pj_next_retry_row_details, 1, &s->out->oldest);
}

ef_status pg_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err)
{
    summary s = {.store = pg_store_of(journal), .query = query, .out = out};
    ef_status st = pg_sequence_arrivals(s.store, err);

    if (st == EF_OK)
        st = pg_clock_now(s.store, pg_on_pool(s.store), &s.now_us, err);
    if (st == EF_OK)
        st = ef__pg_transaction(s.store->pool, EF__PG_SNAPSHOT, summary_work, &s, err);
    return st;
}
