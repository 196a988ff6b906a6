/*
 * scan.c - ranges of views, by id or by an index.
 *
 * A range goes from one place up to, but not including, another; a place is a whole key. Bounds,
 * pages and directions only choose the two places. Keys and names are compared by bytes, so that
 * the place right behind a key x is x with a NUL behind it: nothing fits in between. No name has a
 * NUL in it (and no text of PostgreSQL's), so behind a name comes the name with a byte of 1.
 *
 * Rows come by pages, in one snapshot: the first are few, for most who ask want few, and none holds
 * much more than PAGE_BYTES.
 */
#include "store.h"

#include "../../base/buf.h"

#define TEXT_MAX (64 * 1024 * 1024) /* a key comes out of one view */
#define PAGE_BYTES (8l * 1024 * 1024)

enum { ROWS_FIRST = 64, ROWS_MAX = 4096 };

/* One end: (generation, tenant, id) of views, or (idx, key, id) of an index. */
typedef struct place {
    int64_t first;
    ef__buf second, third;
} place;

typedef struct scan {
    const ef__view_scan *asked;
    place from, to;
    bool (*each)(void *context, ef_str key, const ef__view *view);
    void *context;
    bool begun;
} scan;

static void place_set(place *p, int64_t first, ef_str second, ef_str third)
{
    p->first = first;
    ef__buf_reset(&p->second);
    ef__buf_reset(&p->third);
    ef__buf_add_str(&p->second, second);
    ef__buf_add_str(&p->third, third);
}

static void behind_name(ef__buf *name)
{
    ef__buf_add_char(name, '\x01');
}

static void behind_key(ef__buf *key)
{
    ef__buf_add_char(key, '\0');
}

/* --- views by id ------------------------------------------------------------------------------ */

static void id_ends(const ef__view_scan *s, place *from, place *to)
{
    ef_str none = {0};
    ef_str after_tenant = s->any_tenant ? s->after_tenant : s->tenant;

    if (s->any_tenant) {
        place_set(from, s->generation, none, none);
        place_set(to, s->generation + 1, none, none);
    } else {
        place_set(from, s->generation, s->tenant, s->has_low ? s->low : none);
        if (s->has_low && s->low_open)
            behind_name(&from->third);
        place_set(to, s->generation, s->tenant, s->has_high ? s->high : none);
        if (!s->has_high)
            behind_name(&to->second);
        else if (!s->high_open)
            behind_name(&to->third);
    }
    if (s->has_after && s->descending) {
        place_set(to, s->generation, after_tenant, s->after_id);
    } else if (s->has_after) {
        place_set(from, s->generation, after_tenant, s->after_id);
        behind_name(&from->third);
    }
}

/* --- an index --------------------------------------------------------------------------------- */

/* No key is longer than EF__KEY_BYTES, so none lies above one more byte of 255. */
static void above_all_keys(place *p, int32_t index)
{
    char bytes[EF__KEY_BYTES + 1];

    memset(bytes, 0xff, sizeof bytes);
    place_set(p, index, (ef_str){bytes, sizeof bytes}, (ef_str){0});
}

static void index_ends(const ef__view_scan *s, place *from, place *to)
{
    ef_str none = {0};

    place_set(from, s->index, s->has_low ? s->low : none, none);
    if (s->has_low && s->low_open)
        behind_key(&from->second);
    if (s->has_high) {
        place_set(to, s->index, s->high, none);
        if (!s->high_open)
            behind_key(&to->second);
    } else {
        above_all_keys(to, s->index);
    }
    if (s->has_after && s->descending) {
        place_set(to, s->index, s->after_key, s->after_id);
    } else if (s->has_after) {
        place_set(from, s->index, s->after_key, s->after_id);
        behind_name(&from->third);
    }
}

/* --- pages ------------------------------------------------------------------------------------ */

static ef__view view_of_row(const PGresult *rows, int row)
{
    ef_str digest = ef__pg_str(rows, row, 4);
    ef__view view = {
        .data = ef__pg_str(rows, row, 0),
        .last_position = ef__pg_int(rows, row, 1),
        .last_seq = ef__pg_int(rows, row, 2),
        .schema = (int32_t)ef__pg_int(rows, row, 3),
        .tenant = ef__pg_str(rows, row, 5),
        .id = ef__pg_str(rows, row, 6),
    };

    if (digest.len == EF__DIGEST_BYTES)
        ef__digest_sums((const uint8_t *)digest.ptr, view.digest);
    return view;
}

static ef__view view_of_entry(const PGresult *rows, int row, ef_str tenant)
{
    return (ef__view){
        .data = ef__pg_str(rows, row, 0),
        .last_position = ef__pg_int(rows, row, 1),
        .last_seq = ef__pg_int(rows, row, 2),
        .schema = (int32_t)ef__pg_int(rows, row, 3),
        .tenant = tenant,
        .id = ef__pg_str(rows, row, 4),
    };
}

static ef_status read_page(const scan *s, ef__pg_conn *conn, int64_t limit, PGresult **out,
                           ef_error *err)
{
    static const int WHICH[2][2] = {{VP_VIEW_SCAN_UP, VP_VIEW_SCAN_DOWN},
                                    {VP_INDEX_SCAN_UP, VP_INDEX_SCAN_DOWN}};
    const ef__view_scan *asked = s->asked;
    bool indexed = asked->index >= 0;
    ef__pg_params params = {0};

    if (indexed) {
        ef__pg_add_int(&params, asked->generation);
        ef__pg_add_str(&params, asked->tenant);
        ef__pg_add_int(&params, s->from.first);
        ef__pg_add_bytes(&params, ef__buf_str(&s->from.second));
        ef__pg_add_str(&params, ef__buf_str(&s->from.third));
        ef__pg_add_bytes(&params, ef__buf_str(&s->to.second));
        ef__pg_add_str(&params, ef__buf_str(&s->to.third));
    } else {
        ef__pg_add_int(&params, s->from.first);
        ef__pg_add_str(&params, ef__buf_str(&s->from.second));
        ef__pg_add_str(&params, ef__buf_str(&s->from.third));
        ef__pg_add_int(&params, s->to.first);
        ef__pg_add_str(&params, ef__buf_str(&s->to.second));
        ef__pg_add_str(&params, ef__buf_str(&s->to.third));
    }
    ef__pg_add_int(&params, limit);
    return ef__pg_query(conn, WHICH[indexed][asked->descending], &params, out, err);
}

/* The next page begins, or going down ends, at the last row of this one. */
static ef_status go_on_behind(scan *s, const PGresult *rows, int last, ef_error *err)
{
    bool indexed = s->asked->index >= 0;
    place *p = s->asked->descending ? &s->to : &s->from;

    place_set(p, indexed ? s->asked->index : s->asked->generation, ef__pg_str(rows, last, 5),
              ef__pg_str(rows, last, indexed ? 4 : 6));
    if (!s->asked->descending)
        behind_name(&p->third);
    return p->second.failed || p->third.failed
               ? ef_fail(err, EF_NO_MEMORY, "memory ran out for a scan")
               : EF_OK;
}

/* Show a page; false when `each` has seen enough. *out_bytes is what it held. */
static bool show(scan *s, const PGresult *rows, long *out_bytes)
{
    bool indexed = s->asked->index >= 0, more = true;

    *out_bytes = 0;
    for (int i = 0; more && i < PQntuples(rows); i++) {
        ef__view view = indexed ? view_of_entry(rows, i, s->asked->tenant) : view_of_row(rows, i);
        s->begun = true;
        *out_bytes += (long)view.data.len;
        more = s->each(s->context, indexed ? ef__pg_str(rows, i, 5) : (ef_str){"", 0}, &view);
    }
    return more;
}

static long rows_next(long rows, long bytes)
{
    long fit = PAGE_BYTES / (bytes / rows + 1), next = rows * 4;

    next = next < ROWS_MAX ? next : ROWS_MAX;
    next = next < fit ? next : fit;
    return next > 0 ? next : 1;
}

static ef_status walk(void *context, ef__pg_conn *conn, ef_error *err)
{
    scan *s = context;
    long limit = ROWS_FIRST, bytes;
    bool more = true;
    ef_status st = EF_OK;

    while (st == EF_OK && more) {
        PGresult *rows = NULL;
        st = read_page(s, conn, limit, &rows, err);
        if (st == EF_OK)
            more = show(s, rows, &bytes) && PQntuples(rows) == limit;
        if (st == EF_OK && more) {
            st = go_on_behind(s, rows, PQntuples(rows) - 1, err);
            limit = rows_next(limit, bytes);
        }
        PQclear(rows);
    }
    if (st != EF_OK && s->begun)
        conn->fault = EF__PG_SOUND; /* what was shown is not shown again: the caller starts over */
    return st;
}

ef_status vp_view_scan(ef_views *views, const ef__view_scan *asked,
                       bool (*each)(void *context, ef_str key, const ef__view *view), void *context,
                       ef_error *err)
{
    scan s = {.asked = asked,
              .from = {0, EF__BUF_INIT(TEXT_MAX), EF__BUF_INIT(TEXT_MAX)},
              .to = {0, EF__BUF_INIT(TEXT_MAX), EF__BUF_INIT(TEXT_MAX)},
              .each = each,
              .context = context};
    ef_status st;

    if (asked->index < 0)
        id_ends(asked, &s.from, &s.to);
    else
        index_ends(asked, &s.from, &s.to);
    if (s.from.second.failed || s.from.third.failed || s.to.second.failed || s.to.third.failed)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out for a scan");
    else
        st = ef__pg_transaction(vp_store_of(views)->pool, EF__PG_SNAPSHOT, walk, &s, err);
    ef__buf_release(&s.from.second);
    ef__buf_release(&s.from.third);
    ef__buf_release(&s.to.second);
    ef__buf_release(&s.to.third);
    return st;
}
