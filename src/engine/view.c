/*
 * view.c - reading views: one, many, all.
 */
#include "fresh.h"
#include "migrate.h"
#include "view_names.h"

#include "../journal/journal.h"
#include "../views/query.h"

#include <stdlib.h>

static ef_status list_ready(ef_view_list *out, ef_error *err)
{
    struct ef__batch_room *room = out->room;

    *out = (ef_view_list){.room = room};
    return ef__room_ready(&out->room, err);
}

void ef_view_list_release(ef_view_list *list)
{
    if (!list)
        return;
    ef__room_release(&list->room);
    *list = (ef_view_list){0};
}

static bool is_whole(const ef_view *view)
{
    return view->view_type.ptr && view->tenant.ptr && view->view_id.ptr && view->data.ptr;
}

/* --- one
 * -------------------------------------------------------------------------------------------- */

/* By the store, or by a reader of it. */
static ef_status get_by(ef_views *by, ef_engine *e, ef_str projection, ef_str tenant, ef_str id,
                        const ef_freshness *freshness, ef_view_list *out, ef_error *err)
{
    ef__route *route = NULL;
    ef__view view;
    bool found = false;
    int64_t blocked = 0;
    ef_view *item;
    ef_status st = list_ready(out, err);

    if (st == EF_OK)
        st = ef__fresh_route(e, projection, &tenant, freshness, false, &route, &blocked, err);
    if (st == EF_OK)
        st = by->ops->view_get(by, route->generation->id, tenant, id, &out->room->arena, &view,
                               &found, err);
    if (st == EF_OK && !found)
        st = ef_fail(err, EF_NOT_FOUND, "projection \"%.*s\" has no view \"%.*s\"",
                     EF_STR_ARG(projection), EF_STR_ARG(id));
    if (st == EF_OK)
        st = ef__view_migrate(e, route->generation, &out->room->arena, &view, err);
    if (st == EF_OK) {
        item = ef__arena_alloc(&out->room->arena, sizeof *item);
        if (item) /* the store has put the rest there */
            *item =
                (ef_view){.view_type = ef__arena_copy(&out->room->arena, route->generation->name),
                          .version = route->generation->version,
                          .tenant = view.tenant,
                          .view_id = view.id,
                          .last_event_sequence = view.last_position,
                          .data = view.data};
        st = item && is_whole(item) ? EF_OK : ef__room_full(err);
        out->items = item;
        out->count = st == EF_OK;
        out->as_of = route->as_of;
        out->blocked_streams = blocked;
    }
    ef__route_give(e, route);
    return st;
}

ef_status ef_view_get(ef_engine *e, ef_str projection, ef_str tenant, ef_str id,
                      const ef_freshness *freshness, ef_view_list *out, ef_error *err)
{
    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    return get_by(e->views, e, projection, tenant, id, freshness, out, err);
}

bool ef_view_is_remote(const ef_engine *e)
{
    return e && (e->views->ops->is_remote || (e->journal->ops->caps & EF__JOURNAL_REMOTE));
}

/* --- one after the other
 * ---------------------------------------------------------------------------- */

struct ef_view_reader {
    ef_engine *engine;
    ef_views *own; /* the store's reader; NULL: the store itself does as well */
};

ef_status ef_view_reader_open(ef_engine *e, ef_view_reader **out, ef_error *err)
{
    ef_view_reader *reader;
    ef_status st = EF_OK;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    *out = NULL;
    reader = calloc(1, sizeof *reader);
    if (!reader)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a reader");
    reader->engine = e;
    if (e->views->ops->reader_open)
        st = e->views->ops->reader_open(e->views, &reader->own, err);
    if (st != EF_OK) {
        free(reader);
        return st;
    }
    *out = reader;
    return EF_OK;
}

ef_status ef_view_reader_get(ef_view_reader *reader, ef_str projection, ef_str tenant, ef_str id,
                             ef_view_list *out, ef_error *err)
{
    if (!reader || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", reader ? "out" : "reader");
    return get_by(reader->own ? reader->own : reader->engine->views, reader->engine, projection,
                  tenant, id, NULL, out, err);
}

void ef_view_reader_rest(ef_view_reader *reader)
{
    if (reader && reader->own)
        reader->own->ops->rest(reader->own);
}

void ef_view_reader_close(ef_view_reader *reader)
{
    if (!reader)
        return;
    ef__views_close(reader->own);
    free(reader);
}

/* --- many
 * ------------------------------------------------------------------------------------------- */

/* The compiled parts of a question. */
struct question {
    ef__filter *where;
    ef__filter *sorts[EF__QUERY_SORTS_MAX];
    ef__query_sort order[EF__QUERY_SORTS_MAX];
    size_t sort_count;
    ef__filter *fields[64];
    size_t field_count;
    ef__query query;
};

static void close_question(struct question *q)
{
    ef__filter_close(q->where);
    for (size_t i = 0; i < q->sort_count; i++)
        ef__filter_close(q->sorts[i]);
    for (size_t i = 0; i < q->field_count; i++)
        ef__filter_close(q->fields[i]);
}

/* Compile an expression; a mistake is shown with its place and a caret. */
static ef_status compile(const char *what, ef_str text, ef__filter **out, ef_error *err)
{
    ef__diagnostics *diagnostics = malloc(sizeof *diagnostics);
    ef__buf shown = EF__BUF_INIT(4096);
    ef_status st;

    if (!diagnostics)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out in a query");
    st = ef__filter_compile(text, out, diagnostics, err);
    if (st == EF_BAD_INPUT && diagnostics->count) {
        (void)ef__diagnostic_render(diagnostics, 0, text, &shown);
        while (shown.len && shown.ptr[shown.len - 1] == '\n')
            shown.ptr[--shown.len] = '\0';
        st = ef_fail(err, EF_BAD_INPUT, "%s: %.*s", what, EF_STR_ARG(ef__buf_str(&shown)));
    }
    ef__buf_release(&shown);
    free(diagnostics);
    return st;
}

/* The next of a comma list, trimmed; "" at the end. */
static ef_str next_of(ef_str *list)
{
    const char *comma = list->len ? memchr(list->ptr, ',', list->len) : NULL;
    ef_str part = {list->ptr, comma ? (size_t)(comma - list->ptr) : list->len};

    list->ptr += part.len + (comma != NULL);
    list->len -= part.len + (comma != NULL);
    while (part.len && part.ptr[0] == ' ')
        part = (ef_str){part.ptr + 1, part.len - 1};
    while (part.len && part.ptr[part.len - 1] == ' ')
        part.len--;
    return part;
}

static ef_status compile_lists(struct question *q, const ef_view_query *query, ef_error *err)
{
    ef_str sorts = query->sort, fields = query->fields;
    ef_status st = EF_OK;

    while (st == EF_OK && sorts.len) {
        ef_str by = next_of(&sorts);
        bool down = by.len && by.ptr[0] == '-';
        if (q->sort_count == EF__QUERY_SORTS_MAX)
            return ef_fail(err, EF_BAD_INPUT, "sort: at most %d fields", EF__QUERY_SORTS_MAX);
        by = down ? (ef_str){by.ptr + 1, by.len - 1} : by;
        st = compile("sort", by, &q->sorts[q->sort_count], err);
        q->order[q->sort_count] = (ef__query_sort){q->sorts[q->sort_count], down};
        q->sort_count += st == EF_OK;
    }
    while (st == EF_OK && fields.len) {
        if (q->field_count == 64)
            return ef_fail(err, EF_BAD_INPUT, "fields: at most 64 fields");
        st = compile("fields", next_of(&fields), &q->fields[q->field_count], err);
        q->field_count += st == EF_OK;
    }
    return st;
}

static ef_status compile_question(struct question *q, const ef_view_query *query, ef_error *err)
{
    ef_status st = query->where.len ? compile("where", query->where, &q->where, err) : EF_OK;

    return st == EF_OK ? compile_lists(q, query, err) : st;
}

/* The rows are in the list's own memory already. */
static ef_status take_rows(const ef__generation *g, const ef_view_query *query,
                           const ef__query_result *result, ef_view_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_view *items = ef__arena_alloc(arena, (result->count + 1) * sizeof *items);
    ef_str name = ef__arena_copy(arena, g->name), tenant = ef__arena_copy(arena, query->tenant);

    if (!items || !name.ptr || !tenant.ptr)
        return ef__room_full(err);
    out->items = items;
    out->looked = result->looked_at;
    out->total = result->total;
    out->next = result->cursor.ptr ? result->cursor : EF_STR("");
    for (size_t i = 0; i < result->count && !query->count_only; i++) {
        const ef__query_row *row = &result->rows[i];
        items[out->count++] = (ef_view){.view_type = name,
                                        .version = g->version,
                                        .tenant = query->any_tenant ? row->tenant : tenant,
                                        .view_id = row->id,
                                        .last_event_sequence = row->last_position,
                                        .data = row->data};
    }
    return EF_OK;
}

static ef_status explain(ef_views *views, const ef__query *query, ef_view_list *out, ef_error *err)
{
    ef__buf words = EF__BUF_INIT(65536);
    ef_status st = ef__query_explain(views, query, &words, err);

    if (st == EF_OK) {
        out->plan = ef__arena_copy(&out->room->arena, ef__buf_str(&words));
        st = out->plan.ptr ? EF_OK : ef__room_full(err);
    }
    ef__buf_release(&words);
    return st;
}

ef_status ef_view_find(ef_engine *e, const ef_view_query *query, ef_view_list *out, ef_error *err)
{
    ef__route *route = NULL;
    ef__query_result result = EF__QUERY_RESULT_INIT;
    const ef__generation *g = NULL;
    struct question q = {0};
    ef__meter meter;
    ef_status st;

    if (!e || !query || !out)
        return ef_fail(err, EF_BAD_INPUT, "an argument is NULL");
    st = list_ready(out, err);
    if (st == EF_OK)
        st = compile_question(&q, query, err);
    if (st == EF_OK)
        st = ef__fresh_route(e, query->projection, query->any_tenant ? NULL : &query->tenant,
                             &query->freshness, true, &route, &out->blocked_streams, err);
    if (st == EF_OK) {
        g = route->generation;
        out->as_of = route->as_of;
        q.query = (ef__query){.generation = g->id,
                              .tenant = query->tenant,
                              .any_tenant = query->any_tenant,
                              .index_paths = g->index_paths,
                              .filter = q.where,
                              .sorts = q.order,
                              .sort_count = q.sort_count,
                              .fields = (const ef__filter *const *)q.fields,
                              .field_count = q.field_count,
                              .limit = query->limit,
                              .cursor = query->after,
                              .meter = &meter,
                              .count = query->count_only};
        meter = ef__meter_begin(&query->budget, e->options.clock);
        result.room = out->room;
        st = ef__view_names_check(e, g, &q.query, err);
        if (st == EF_OK)
            st = ef__query_run(e->views, &q.query, &result, err);
    }
    if (st == EF_OK)
        st = take_rows(g, query, &result, out, err);
    if (st == EF_OK && query->explain)
        st = explain(e->views, &q.query, out, err);
    ef__route_give(e, route);
    close_question(&q);
    return st;
}

/* --- all
 * -------------------------------------------------------------------------------------------- */

struct export
{
    const ef__generation *generation;
    bool (*each)(void *context, const ef_view *view);
    void *context;
};

static bool export_one(void *context, ef_str key, const ef__view *v)
{
    const struct export *x = context;

    (void)key;
    return x->each(x->context, &(ef_view){.view_type = x->generation->name,
                                          .version = x->generation->version,
                                          .tenant = v->tenant,
                                          .view_id = v->id,
                                          .last_event_sequence = v->last_position,
                                          .data = v->data});
}

ef_status ef_view_export(ef_engine *e, ef_str projection, ef_str tenant, bool any_tenant,
                         bool (*each)(void *context, const ef_view *view), void *context,
                         int64_t *out_as_of, ef_error *err)
{
    ef__route *route = NULL;
    struct export x = {.each = each, .context = context};
    int64_t blocked;
    ef_status st;

    if (!e || !each)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "each" : "engine");
    st = ef__fresh_route(e, projection, any_tenant ? NULL : &tenant, NULL, true, &route, &blocked,
                         err);
    if (out_as_of)
        *out_as_of = st == EF_OK ? route->as_of : 0;
    x.generation = st == EF_OK ? route->generation : NULL;
    if (st == EF_OK)
        st = e->views->ops->view_scan(e->views,
                                      &(ef__view_scan){.generation = x.generation->id,
                                                       .tenant = tenant,
                                                       .any_tenant = any_tenant,
                                                       .index = -1},
                                      export_one, &x, err);
    ef__route_give(e, route);
    return st;
}
