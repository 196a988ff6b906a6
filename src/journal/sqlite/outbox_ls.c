/*
 * outbox_ls.c - rows of the outbox with their events: pages and counts.
 *
 * Whether a queued row is pending or processing, and whether a retry row is blocked, is derived
 * from offsets, leases and earlier rows by the statements, and not stored.
 */
#include "outbox.h"

/* A cursor has the lane of the last row. */
static ef_status check_cursor(ef__sq_conn *conn, const ef__row_page *page, ef_error *err)
{
    bool exists = true;
    ef_status st =
        page->after_lane ? sq_one_lane_exists(conn, page->after_lane, &exists, err) : EF_OK;

    return exists ? st : ef__refuse_cursor(err);
}

ef_status sq_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err)
{
    const ef__listed_row *rows;
    size_t count;
    sq_reader *reader = NULL;
    ef__row_page page;
    ef_status st = ef__row_page_init(&page, query, err);

    if (st == EF_OK)
        st = sq_read_begin(journal, &reader, err);
    if (st == EF_OK)
        st = check_cursor(&reader->conn, &page, err);
    page.now_us = sq_clock_us(sq_store_of(journal));
    if (st == EF_OK)
        st = (ef__query_published(query) ? sq_list_published_before : sq_list_row_after)(
            &reader->conn, &page, &out->room->arena, &rows, &count, err);
    if (st == EF_OK)
        st = ef__rows_take(rows, count, query->limit, out, err);
    return sq_read_end(reader, st);
}

static ef_status read_summary(sq_reader *reader, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err)
{
    int64_t now_us = sq_clock_us(reader->store);
    ef__row_page waiting = ef__row_page_oldest(query, now_us);
    ef_row_list oldest = out->oldest;
    const ef__listed_row *rows;
    size_t count;
    ef_status st = sq_one_row_count(&reader->conn, query, now_us, out, NULL, err);

    out->oldest = oldest;
    if (st == EF_OK)
        st = sq_list_row_after(&reader->conn, &waiting, &oldest.room->arena, &rows, &count, err);
    return st == EF_OK ? ef__rows_take(rows, count, 1, &out->oldest, err) : st;
}

ef_status sq_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err)
{
    sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    if (st == EF_OK)
        st = read_summary(reader, query, out, err);
    return sq_read_end(reader, st);
}
