/*
 * scan.c - ranges of views, by id or by an index.
 *
 * Rows are read in pages, in one snapshot. The first page is small, because most queries want few
 * rows, and no page has much more than PAGE_BYTES. With a needle (where.h) the server reads a page
 * of the same size and sends only the rows that match it: so its work for a page has the same
 * bounds, and the last row of a page is always known.
 */
#include "store.h"

#include "where.h"

#include "../range.h"

#define PAGE_BYTES (8l * 1024 * 1024)

enum { ROWS_FIRST = 64, ROWS_MAX = 4096 };

typedef struct scan {
    const ef__view_scan *asked;
    ef__view_place from, to;
    vp_where where;
    bool sieved; /* the server preselects by `where` */
    ef__each_view *each;
    void *context;
    bool begun;
} scan;

/* --- pages ------------------------------------------------------------------------------------ */

/* Columns of a row: of the view, then of its place, and with a sieve two about the page. */
enum { DATA, LAST_POSITION, LAST_SEQ, SCHEMA, DIGEST, TENANT_OR_KEY, ID, PLACE, BYTES };

static ef__view view_of_row(const PGresult *rows, int row, const ef__view_scan *asked)
{
    ef_str digest = ef__pg_str(rows, row, DIGEST);
    ef__view view = {
        .data = ef__pg_str(rows, row, DATA),
        .last_position = ef__pg_int(rows, row, LAST_POSITION),
        .last_seq = ef__pg_int(rows, row, LAST_SEQ),
        .schema = (int32_t)ef__pg_int(rows, row, SCHEMA),
        .tenant = asked->index >= 0 ? asked->tenant : ef__pg_str(rows, row, TENANT_OR_KEY),
        .id = ef__pg_str(rows, row, ID),
    };

    if (digest.len == EF__DIGEST_BYTES)
        ef__digest_sums((const uint8_t *)digest.ptr, view.digest);
    return view;
}

static ef_status read_page(const scan *s, ef__pg_conn *conn, int64_t limit, PGresult **out,
                           ef_error *err)
{
    static const int WHICH[2][2][2] = {
        {{VP_VIEW_SCAN_UP, VP_VIEW_SCAN_DOWN}, {VP_INDEX_SCAN_UP, VP_INDEX_SCAN_DOWN}},
        {{VP_VIEW_SIEVE_UP, VP_VIEW_SIEVE_DOWN}, {VP_INDEX_SIEVE_UP, VP_INDEX_SIEVE_DOWN}}};
    const ef__view_scan *asked = s->asked;
    bool indexed = asked->index >= 0;
    ef__pg_params params = {0};

    if (indexed) {
        ef__pg_add_int(&params, asked->generation);
        ef__pg_add_str(&params, asked->tenant);
        ef__pg_add_int(&params, s->from.first);
        ef__pg_add_bytes(&params, ef__place_str(&s->from.second));
        ef__pg_add_str(&params, ef__place_str(&s->from.third));
        ef__pg_add_bytes(&params, ef__place_str(&s->to.second));
        ef__pg_add_str(&params, ef__place_str(&s->to.third));
    } else {
        ef__pg_add_int(&params, s->from.first);
        ef__pg_add_str(&params, ef__place_str(&s->from.second));
        ef__pg_add_str(&params, ef__place_str(&s->from.third));
        ef__pg_add_int(&params, s->to.first);
        ef__pg_add_str(&params, ef__place_str(&s->to.second));
        ef__pg_add_str(&params, ef__place_str(&s->to.third));
    }
    ef__pg_add_int(&params, limit);
    if (s->sieved) {
        ef__pg_add_int(&params, s->where.bytes_max);
        ef__pg_add_str(&params, ef__buf_str(&s->where.needle));
    }
    return ef__pg_query(conn, WHICH[s->sieved][indexed][asked->descending], &params, out, err);
}

/* The next page begins after the last row of this one, or ends before it if descending. */
static void set_next_page(scan *s, const PGresult *rows, int last)
{
    bool down = s->asked->descending;

    ef__view_place_at(down ? &s->to : &s->from, s->from.first,
                      ef__pg_str(rows, last, TENANT_OR_KEY), ef__pg_str(rows, last, ID), !down);
}

/* Passes rows of a page to `each`; false when it wants no more. Rows without data do not match. */
static bool show_page(scan *s, const PGresult *rows)
{
    bool indexed = s->asked->index >= 0, more = true;

    for (int i = 0; more && i < PQntuples(rows); i++) {
        ef__view view = view_of_row(rows, i, s->asked);
        if (ef__pg_null(rows, i, DATA))
            continue;
        s->begun = true;
        more =
            s->each(s->context, indexed ? ef__pg_str(rows, i, TENANT_OR_KEY) : EF_STR(""), &view);
    }
    return more;
}

/* The number of rows that the server read for a page, and the bytes of their data. */
static void page_size(const scan *s, const PGresult *rows, long *out_rows, long *out_bytes)
{
    int last = PQntuples(rows) - 1;

    *out_rows = last + 1;
    *out_bytes = 0;
    for (int i = 0; i <= last && !s->sieved; i++)
        *out_bytes += (long)ef__pg_str(rows, i, DATA).len;
    if (s->sieved && last >= 0) {
        *out_rows = ef__pg_int(rows, last, PLACE);
        *out_bytes = ef__pg_int(rows, last, BYTES);
    }
}

static long rows_next(long rows, long bytes)
{
    long fit = PAGE_BYTES / (bytes / rows + 1), next = rows * 4;

    next = next < ROWS_MAX ? next : ROWS_MAX;
    next = next < fit ? next : fit;
    return next > 0 ? next : 1;
}

static ef_status scan_pages(void *context, ef__pg_conn *conn, ef_error *err)
{
    scan *s = context;
    long limit = ROWS_FIRST, row_count, bytes;
    bool more = true;
    ef_status st = EF_OK;

    /* A retry begins at the start again: it has another snapshot, and no row was shown yet. */
    ef__view_range(s->asked, &s->from, &s->to);
    while (st == EF_OK && more) {
        PGresult *rows = NULL;
        st = read_page(s, conn, limit, &rows, err);
        if (st == EF_OK) {
            page_size(s, rows, &row_count, &bytes);
            more = show_page(s, rows) && row_count == limit;
        }
        if (st == EF_OK && more) {
            set_next_page(s, rows, PQntuples(rows) - 1);
            limit = rows_next(limit, bytes);
        }
        PQclear(rows);
    }
    if (st != EF_OK && s->begun)
        conn->fault =
            EF__PG_NO_FAULT; /* no retry here: rows that were shown must not be shown twice */
    return st;
}

ef_status vp_view_scan(ef_views *views, const ef__view_scan *asked, ef__each_view *each,
                       void *context, ef_error *err)
{
    scan s = {.asked = asked, .where = VP_WHERE_INIT, .each = each, .context = context};
    ef_status st;

    s.sieved = vp_where_make(asked->filter, &s.where);
    st = ef__pg_transaction(vp_store_of(views)->pool, EF__PG_SNAPSHOT, scan_pages, &s, err);
    vp_where_release(&s.where);
    return st;
}
