/*
 * outbox_row.c - listing and counting rows of the outbox on PostgreSQL.
 */
#include "store.h"

ef_status pg_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef__arena *arena = &out->room->arena;
    const ef__listed_row *rows;
    size_t count;
    ef__row_page page;
    ef_status st = ef__row_page_init(&page, query, err);

    if (st != EF_OK)
        return st;
    if (ef__query_published(query)) {
        st = pj_list_published_before(pg_on_pool(store), &page, arena, &rows, &count, err);
    } else {
        st = pg_clock_now(store, pg_on_pool(store), &page.now_us, err);
        if (st == EF_OK)
            st = pj_list_row_after(pg_on_log(store), &page, arena, &rows, &count, err);
    }
    return st == EF_OK ? ef__rows_take(rows, count, query->limit, out, err) : st;
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
    ef__row_page waiting = ef__row_page_oldest(s->query, s->now_us);
    ef_row_list oldest = s->out->oldest;
    const ef__listed_row *rows;
    size_t count;
    ef_status st = pj_send_row_count(conn, s->query, s->now_us, err);

    if (st == EF_OK)
        st = pj_send_row_after(conn, &waiting, err);
    if (st == EF_OK)
        st = pj_receive_row_count(conn, s->out, NULL, err);
    s->out->oldest = oldest;
    if (st == EF_OK)
        st = pj_receive_row_after(conn, &oldest.room->arena, &rows, &count, err);
    return st == EF_OK ? ef__rows_take(rows, count, 1, &s->out->oldest, err) : st;
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
