/*
 * query.c - runs a query: selects the first `limit` candidates that match and follow the cursor. If
 * candidates are not in the order of the result, a heap keeps the best so far, the worst on top.
 */
#include "query.h"

#include "query_priv.h"

#include <stdlib.h>

/* A view that may be in the result: one block of memory that includes its strings. Candidates in
 * order are never dropped again, so they are allocated in the memory of the result. */
typedef struct found {
    ef__view view;
    ef__query_place place;
    size_t bytes;
} found;

typedef struct run {
    const ef__query *query;
    ef__query_plan plan;
    ef__match *match; /* opened when a view is read: the index may suffice */
    size_t limit;
    bool has_cursor;
    ef__query_place cursor;
    found **items; /* in order, or a heap */
    size_t count;
    size_t bytes;
    int64_t views_read, matched;
    bool more; /* there are matches after the page */
    ef__buf keys[EF__QUERY_SORTS_MAX];
    ef__arena arena;
    ef__arena *answer;
    ef_status st;
    ef_error *err;
} run;

/* --- order ------------------------------------------------------------------------------------ */

int ef__query_place_compare(const ef__query *query, const ef__query_place *a,
                            const ef__query_place *b)
{
    int order;

    for (size_t i = 0; i < query->sort_count; i++) {
        order = ef__str_compare(a->keys[i], b->keys[i]);
        if (order != 0)
            return query->sorts[i].descending ? -order : order;
    }
    order = query->any_tenant ? ef__str_compare(a->tenant, b->tenant) : 0;
    if (order == 0)
        order = ef__str_compare(a->id, b->id);
    return query->sort_count > 0 && query->sorts[0].descending ? -order : order;
}

static bool is_after(const run *r, const found *a, const found *b)
{
    return ef__query_place_compare(r->query, &a->place, &b->place) > 0;
}

static void sift_up(run *r, size_t at)
{
    while (at > 0 && is_after(r, r->items[at], r->items[(at - 1) / 2])) {
        found *item = r->items[at];
        r->items[at] = r->items[(at - 1) / 2];
        r->items[(at - 1) / 2] = item;
        at = (at - 1) / 2;
    }
}

static void sift_down(run *r, size_t at)
{
    for (;;) {
        size_t last = at, child = 2 * at + 1;
        found *item = r->items[at];
        for (size_t i = child; i < child + 2 && i < r->count; i++)
            if (is_after(r, r->items[i], r->items[last]))
                last = i;
        if (last == at)
            return;
        r->items[at] = r->items[last];
        r->items[last] = item;
        at = last;
    }
}

static void drop_last(run *r)
{
    found *last = r->items[0];

    r->bytes -= last->bytes;
    r->items[0] = r->items[--r->count];
    sift_down(r, 0);
    free(last);
    r->more = true;
}

/* --- candidates ------------------------------------------------------------------------------- */

static ef_status open_match(run *r, const ef__view *view)
{
    ef_status st = r->match ? EF_OK : ef__match_open(&r->match, r->err);

    return st == EF_OK ? ef__match_row(r->match, view->id, view->last_position, view->data, r->err)
                       : st;
}

static ef_status make_place(run *r, const ef__view *view, ef__query_place *out)
{
    ef__value v;
    bool cut;
    ef_status st = EF_OK;

    *out = (ef__query_place){.tenant = view->tenant, .id = view->id};
    for (size_t i = 0; st == EF_OK && i < r->query->sort_count; i++) {
        st = ef__match_value(r->match, r->query->sorts[i].by, &v, r->err);
        ef__buf_reset(&r->keys[i]);
        if (st == EF_OK)
            st = ef__sort_key(v, EF__KEY_BYTES, &r->keys[i], &cut, r->err);
        out->keys[i] = ef__buf_str(&r->keys[i]);
    }
    return st;
}

/* With a terminating NUL, like all strings of a result. */
static ef_str append_text(char **at, ef_str text)
{
    ef_str copy = {*at, text.len};

    if (text.len)
        memcpy(*at, text.ptr, text.len);
    (*at)[text.len] = '\0';
    *at += text.len + 1;
    return copy;
}

static size_t found_bytes(const run *r, const ef__view *view, const ef__query_place *place)
{
    size_t bytes = sizeof(found) + view->id.len + 1 + view->data.len + 1;

    if (r->query->any_tenant)
        bytes += view->tenant.len + 1;

    for (size_t i = 0; i < r->query->sort_count; i++)
        bytes += place->keys[i].len + 1;
    return bytes;
}

static found *found_make(const run *r, const ef__view *view, const ef__query_place *place)
{
    size_t bytes = found_bytes(r, view, place);
    found *f = r->plan.in_order ? ef__arena_alloc(r->answer, bytes) : malloc(bytes);
    char *at;

    if (!f)
        return NULL;
    at = (char *)(f + 1);
    f->view = *view;
    f->bytes = bytes;
    f->view.id = append_text(&at, view->id);
    f->view.data = append_text(&at, view->data);
    f->view.tenant = r->query->any_tenant ? append_text(&at, view->tenant) : (ef_str){0};
    f->place = (ef__query_place){.tenant = f->view.tenant, .id = f->view.id};
    for (size_t i = 0; i < r->query->sort_count; i++)
        f->place.keys[i] = append_text(&at, place->keys[i]);
    return f;
}

/* Keeps the view if it is among the first. A page of large views becomes shorter: its last views
 * are dropped, and the cursor leads to them. */
static ef_status keep_view(run *r, const ef__view *view, const ef__query_place *place)
{
    found *f;

    if (r->count == r->limit &&
        (r->plan.in_order || ef__query_place_compare(r->query, place, &r->items[0]->place) > 0)) {
        r->more = true;
        return EF_OK;
    }
    if (r->plan.in_order && r->count > 0 &&
        r->bytes + found_bytes(r, view, place) > EF__QUERY_BYTES) {
        r->limit = r->count;
        r->more = true;
        return EF_OK;
    }
    f = found_make(r, view, place);
    if (!f)
        return ef_fail(r->err, EF_NO_MEMORY, "memory ran out for a query");
    if (r->count == r->limit)
        drop_last(r);
    r->items[r->count++] = f;
    r->bytes += f->bytes;
    if (r->plan.in_order)
        return EF_OK;
    sift_up(r, r->count - 1);
    while (r->bytes > EF__QUERY_BYTES && r->count > 1) {
        drop_last(r);
        r->limit = r->count;
    }
    return EF_OK;
}

/* Whether the key by which the candidate was found proves that it matches. */
static bool is_covered(const run *r, ef_str key)
{
    const ef__query_plan *plan = &r->plan;

    return plan->covers && key.len < EF__KEY_BYTES &&
           (!plan->has_low || ef__sort_key_is_plain(key, ef__buf_str(&plan->low))) &&
           (!plan->has_high || ef__sort_key_is_plain(key, ef__buf_str(&plan->high)));
}

/* Tests a candidate and finds its place. Values that the index has are not read from the view. */
static ef_status test_view(run *r, ef_str key, const ef__view *view, bool *out_holds,
                           ef__query_place *out)
{
    bool covered = !r->query->filter || is_covered(r, key);
    bool placed = r->plan.in_order && r->plan.index >= 0;
    ef_status st = EF_OK;

    *out_holds = true;
    *out = (ef__query_place){.tenant = view->tenant, .id = view->id, .keys = {key}};
    if (!covered || !placed)
        st = open_match(r, view);
    if (st == EF_OK && !covered)
        st = ef__match_test(r->match, r->query->filter, out_holds, r->err);
    if (st == EF_OK && *out_holds && !placed)
        st = make_place(r, view, out);
    return st;
}

/* Charges the steps since the last call, and one for the view. */
static ef_status charge_meter(run *r)
{
    return r->query->meter ? ef__meter_charge(r->query->meter,
                                              1 + (r->match ? ef__match_used(r->match) : 0), r->err)
                           : EF_OK;
}

static bool scan_view(void *context, ef_str key, const ef__view *view)
{
    run *r = context;
    ef__query_place place;
    bool holds;

    r->views_read++;
    r->st = test_view(r, key, view, &holds, &place);
    if (r->st == EF_OK)
        r->st = charge_meter(r);
    if (r->st != EF_OK || !holds)
        return r->st == EF_OK;
    r->matched++;
    if (r->st == EF_OK &&
        (!r->has_cursor || ef__query_place_compare(r->query, &place, &r->cursor) > 0))
        r->st = keep_view(r, view, &place);
    /* In order, one view more than the page shows that there is a next page. */
    return r->st == EF_OK && !(r->plan.in_order && r->more && !r->query->count);
}

static ef_status scan_views(run *r, ef_views *views)
{
    const ef__query_plan *plan = &r->plan;
    ef__view_scan s = {.generation = r->query->generation,
                       .tenant = r->query->tenant,
                       .any_tenant = r->query->any_tenant,
                       .index = plan->index,
                       .has_low = plan->has_low,
                       .has_high = plan->has_high,
                       .low_open = plan->low_open,
                       .high_open = plan->high_open,
                       .low = ef__buf_str(&plan->low),
                       .high = ef__buf_str(&plan->high),
                       .descending = plan->descending,
                       .filter = ef__query_plan_store_filter(r->query, plan)};
    ef_status st;

    if (r->has_cursor && plan->in_order && !r->query->count) {
        s.has_after = true;
        s.after_key = r->query->sort_count ? r->cursor.keys[0] : s.low;
        s.after_tenant = r->cursor.tenant;
        s.after_id = r->cursor.id;
    }
    st = views->ops->view_scan(views, &s, scan_view, r, r->err);
    return st == EF_OK ? r->st : st;
}

/* --- the answer ------------------------------------------------------------------------------- */

static ef_status print_fields(run *r, const ef__view *view, ef__buf *out)
{
    ef__json_writer w = EF__JSON_WRITER(out);
    ef__value v;
    ef_status st = open_match(r, view);

    ef__buf_reset(out);
    ef__json_open(&w, '{');
    for (size_t i = 0; st == EF_OK && i < r->query->field_count; i++) {
        if (i > 0)
            ef__buf_add_char(out, ',');
        ef__json_write_string(out, ef__filter_source(r->query->fields[i]));
        ef__buf_add_char(out, ':');
        st = ef__match_value(r->match, r->query->fields[i], &v, r->err);
        if (st == EF_OK)
            st = ef__value_print(v, out, r->err);
    }
    ef__buf_add_char(out, '}');
    return st == EF_OK && out->failed ? ef__no_memory(r->err) : st;
}

/* Views found in order are in the memory of the result already. */
static ef_str result_text(const run *r, ef__arena *arena, ef_str text)
{
    return r->plan.in_order ? text : ef__arena_copy(arena, text);
}

static ef_status fill_row(run *r, const found *f, ef__buf *scratch, ef__arena *arena,
                          ef__query_row *out)
{
    ef_str data;
    ef_status st = EF_OK;

    if (r->query->field_count > 0) {
        st = print_fields(r, &f->view, scratch);
        if (st == EF_OK)
            st = charge_meter(r);
        data = ef__arena_copy(arena, ef__buf_str(scratch));
    } else {
        data = result_text(r, arena, f->view.data);
    }
    *out = (ef__query_row){.tenant = result_text(r, arena, f->view.tenant),
                           .id = result_text(r, arena, f->view.id),
                           .data = data,
                           .last_position = f->view.last_position,
                           .last_seq = f->view.last_seq,
                           .schema = f->view.schema};
    return st != EF_OK ? st : out->id.ptr && out->data.ptr ? EF_OK : ef__no_memory(r->err);
}

/* A heap returns the last view first, so the result is filled from its end. */
static void sort_heap(run *r)
{
    size_t all = r->count;

    while (r->count > 1) {
        found *last = r->items[0];
        r->items[0] = r->items[--r->count];
        sift_down(r, 0);
        r->items[r->count] = last;
    }
    r->count = all;
}

static ef_status build_result(run *r, ef__query_result *out)
{
    ef__arena *arena = &out->room->arena;
    ef__buf scratch = EF__BUF_INIT(EF__QUERY_BYTES);
    ef__query_row *rows = ef__arena_zalloc(arena, r->count + 1, sizeof *rows);
    ef_status st = rows ? EF_OK : ef__no_memory(r->err);

    if (!r->plan.in_order)
        sort_heap(r);
    for (size_t i = 0; st == EF_OK && i < r->count; i++)
        st = fill_row(r, r->items[i], &scratch, arena, &rows[i]);
    if (st == EF_OK && r->more && r->count > 0 &&
        !ef__query_cursor_print(r->query, &r->items[r->count - 1]->place, arena, &out->cursor))
        st = ef__no_memory(r->err);
    ef__buf_release(&scratch);
    out->rows = rows;
    out->count = st == EF_OK ? r->count : 0;
    out->total = r->query->count ? r->matched : -1;
    out->views_read = r->views_read;
    return st;
}

static ef_status prepare_run(run *r)
{
    const ef__query *query = r->query;
    ef_status st;

    if (query->limit > EF__QUERY_LIMIT_MAX)
        return ef_fail_numbers(r->err, EF_BAD_INPUT, EF__QUERY_LIMIT_MAX, (int64_t)query->limit,
                               "limit is %zu, at most %d is allowed", query->limit,
                               EF__QUERY_LIMIT_MAX);
    if (query->sort_count > EF__QUERY_SORTS_MAX)
        return ef_fail_numbers(r->err, EF_BAD_INPUT, EF__QUERY_SORTS_MAX,
                               (int64_t)query->sort_count, "%zu sort keys, at most %d are allowed",
                               query->sort_count, EF__QUERY_SORTS_MAX);
    r->limit = query->limit ? query->limit : EF__QUERY_LIMIT_DEFAULT;
    r->items = calloc(r->limit, sizeof *r->items);
    if (!r->items)
        return ef_fail(r->err, EF_NO_MEMORY, "memory ran out for a query");
    st = ef__query_plan_make(query, &r->plan, r->err);
    if (st == EF_OK && query->cursor.len > 0) {
        r->has_cursor = true;
        st = ef__query_cursor_read(query, &r->arena, &r->cursor, r->err);
    }
    return st;
}

ef_status ef__query_run(ef_views *views, const ef__query *query, ef__query_result *out,
                        ef_error *err)
{
    run r = {.query = query, .err = err, .arena = EF__ARENA_INIT(1024 * 1024)};
    ef_status st = ef__memory_prepare(&out->room, err);

    *out = (ef__query_result){.total = -1, .room = out->room};
    r.answer = out->room ? &out->room->arena : NULL;
    for (size_t i = 0; i < EF__QUERY_SORTS_MAX; i++)
        r.keys[i] = (ef__buf)EF__BUF_INIT(2 * EF__KEY_BYTES);
    if (st == EF_OK)
        st = prepare_run(&r);
    if (st == EF_OK)
        st = scan_views(&r, views);
    if (st == EF_OK)
        st = build_result(&r, out);
    for (size_t i = 0; i < r.count && !r.plan.in_order; i++)
        free(r.items[i]);
    free(r.items);
    for (size_t i = 0; i < EF__QUERY_SORTS_MAX; i++)
        ef__buf_release(&r.keys[i]);
    ef__query_plan_release(&r.plan);
    ef__match_close(r.match);
    ef__arena_release(&r.arena);
    return st;
}

void ef__query_result_release(ef__query_result *result)
{
    ef_memory_release(&result->room);
    *result = (ef__query_result)EF__QUERY_RESULT_INIT;
}
