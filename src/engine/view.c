/*
 * view.c - reads views: one, several, all.
 */
#include "read.h"
#include "scope.h"

#include "../journal/journal.h"
#include "../views/query.h"

#include <stdlib.h>

static bool is_whole(const ef_view *view)
{
    return view->view_type.ptr && view->tenant.ptr && view->view_id.ptr && view->data.ptr;
}

/* --- one view --------------------------------------------------------------------------------- */

/* The position that a read reflects. A read with a token has the token's events, although the
 * acknowledgement that moves the position of the target may come later. */
static int64_t position_of_read(const ef__read_target *target, const ef_freshness *freshness)
{
    ef_token token;
    int64_t first;

    if (!freshness || freshness->at_least.len == 0 ||
        ef_token_parse(freshness->at_least, &token, NULL) != EF_OK)
        return target->as_of;
    first = token.first ? token.first : token.position;
    return first <= target->as_of + 1 && token.position > target->as_of ? token.position
                                                                        : target->as_of;
}

/* `by` is the store, or a reader of it. */
static ef_status get_by(ef_views *by, ef_engine *engine, ef_str projection, ef_str tenant,
                        ef_str id, const ef_freshness *freshness, ef_view_list *out, ef_error *err)
{
    ef__read_target *target = NULL;
    ef__view view;
    bool found = false;
    int64_t blocked = 0;
    ef_view *item;
    ef_status st = ef__list_prepare(out, err);

    if (st == EF_OK)
        st = ef__read_target_wait(engine, projection, &tenant, freshness, false, &target, &blocked,
                                  err);
    if (st == EF_OK)
        st = by->ops->view_get(by, target->generation->id, tenant, id, &out->room->arena, &view,
                               &found, err);
    if (st == EF_OK && !found)
        st = ef_fail(err, EF_NOT_FOUND, "projection \"%.*s\" has no view \"%.*s\"",
                     EF_STR_ARG(projection), EF_STR_ARG(id));
    if (st == EF_OK)
        st = ef__view_migrate(engine, target->generation, &out->room->arena, &view, err);
    if (st == EF_OK) {
        item = ef__arena_alloc(&out->room->arena, sizeof *item);
        if (item) /* the store has set the other members */
            *item =
                (ef_view){.view_type = ef__arena_copy(&out->room->arena, target->generation->name),
                          .version = target->generation->version,
                          .tenant = view.tenant,
                          .view_id = view.id,
                          .last_event_sequence = view.last_position,
                          .data = view.data};
        st = item && is_whole(item) ? EF_OK : ef__no_memory(err);
        out->items = item;
        out->count = st == EF_OK;
        out->as_of = position_of_read(target, freshness);
        out->blocked_streams = blocked;
    }
    ef__read_target_release(engine, target);
    return st;
}

ef_status ef_view_get(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                      const ef_freshness *freshness, ef_view_list *out, ef_error *err)
{
    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    return get_by(engine->views, engine, projection, tenant, id, freshness, out, err);
}

bool ef_view_is_remote(const ef_engine *engine)
{
    return engine &&
           (engine->views->ops->is_remote || (engine->journal->caps & EF__JOURNAL_REMOTE));
}

/* --- a reader --------------------------------------------------------------------------------- */

struct ef_view_reader {
    ef_engine *engine;
    ef_views *own; /* a reader of the store; NULL: the store itself is used */
};

ef_status ef_view_reader_open(ef_engine *engine, ef_view_reader **out, ef_error *err)
{
    ef_view_reader *reader;
    ef_status st = EF_OK;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    *out = NULL;
    reader = calloc(1, sizeof *reader);
    if (!reader)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a reader");
    reader->engine = engine;
    if (engine->views->ops->reader_open)
        st = engine->views->ops->reader_open(engine->views, &reader->own, err);
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

void ef_view_reader_idle(ef_view_reader *reader)
{
    if (reader && reader->own)
        reader->own->ops->release_snapshot(reader->own);
}

void ef_view_reader_close(ef_view_reader *reader)
{
    if (!reader)
        return;
    ef__views_close(reader->own);
    free(reader);
}

/* --- queries ---------------------------------------------------------------------------------- */

#define FIELDS_MAX 64
#define EXPRESSIONS_MAX (1 + EF__QUERY_SORTS_MAX + FIELDS_MAX)

/* A query with its compiled expressions: `where`, then those of `sort` and `fields`. */
struct question {
    ef__filter *filters[EXPRESSIONS_MAX];
    const char *parts[EXPRESSIONS_MAX]; /* the part of the query that each belongs to */
    size_t filter_count;
    ef__query_sort sorts[EF__QUERY_SORTS_MAX];
    ef__query query;
};

static void close_question(struct question *question)
{
    for (size_t i = 0; i < question->filter_count; i++)
        ef__filter_close(question->filters[i]);
}

/* EF_BAD_INPUT; the message shows the place in the expression with a caret. */
static ef_status fail_shown(const char *what, ef_str source, const ef__diagnostics *diagnostics,
                            ef_error *err)
{
    EF__AUTO(ef__buf) shown = EF__BUF_INIT(4096);

    (void)ef__diagnostic_render(diagnostics, 0, source, &shown);
    while (shown.len && shown.ptr[shown.len - 1] == '\n')
        shown.ptr[--shown.len] = '\0';
    return ef_fail(err, EF_BAD_INPUT, "%s: %.*s", what, EF_STR_ARG(ef__buf_str(&shown)));
}

static ef_status add_expression(struct question *question, const char *part, ef_str text,
                                ef_error *err)
{
    ef__diagnostics *diagnostics = malloc(sizeof *diagnostics);
    ef_status st;

    if (!diagnostics)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out in a query");
    st = ef__filter_compile(text, &question->filters[question->filter_count], diagnostics, err);
    if (st == EF_BAD_INPUT && diagnostics->count)
        st = fail_shown(part, text, diagnostics, err);
    if (st == EF_OK)
        question->parts[question->filter_count++] = part;
    free(diagnostics);
    return st;
}

/* The next item of a comma-separated list, trimmed. */
static ef_str next_item(ef_str *list)
{
    return ef__str_trim(ef__str_split(list, ','));
}

static ef_status compile_question(struct question *question, const ef_view_query *query,
                                  ef_error *err)
{
    ef__query *compiled = &question->query;
    ef_str sorts = query->sort, fields = query->fields;
    ef_status st = query->where.len ? add_expression(question, "where", query->where, err) : EF_OK;

    compiled->filter = question->filters[0];
    compiled->sorts = question->sorts;
    while (st == EF_OK && sorts.len) {
        ef_str by = next_item(&sorts);
        bool down = by.len && by.ptr[0] == '-';
        if (compiled->sort_count == EF__QUERY_SORTS_MAX)
            return ef_fail(err, EF_BAD_INPUT, "sort: at most %d fields", EF__QUERY_SORTS_MAX);
        by = down ? (ef_str){by.ptr + 1, by.len - 1} : by;
        st = add_expression(question, "sort", by, err);
        if (st == EF_OK)
            question->sorts[compiled->sort_count++] =
                (ef__query_sort){question->filters[question->filter_count - 1], down};
    }
    compiled->fields = (const ef__filter *const *)&question->filters[question->filter_count];
    while (st == EF_OK && fields.len) {
        if (compiled->field_count == FIELDS_MAX)
            return ef_fail(err, EF_BAD_INPUT, "fields: at most %d fields", FIELDS_MAX);
        st = add_expression(question, "fields", next_item(&fields), err);
        compiled->field_count += st == EF_OK;
    }
    return st;
}

/* --- names in queries ------------------------------------------------------------------------- */

/*
 * The program declares the fields that it writes. A view may have others: from a seed, or from an
 * earlier program. So a name that the program does not write is an error only if no view of the
 * query has it, which costs one scan, like the query itself.
 */
typedef struct name_search {
    ef_engine *engine;
    const ef__query *query;
    ef_error *err;
    ef_status status;
    ef_str wanted; /* as written in the JSON of a view: "name": */
    bool found;
} name_search;

static bool search_view(void *context, ef_str key, const ef__view *view)
{
    name_search *search = context;

    (void)key;
    search->found =
        memmem(view->data.ptr, view->data.len, search->wanted.ptr, search->wanted.len) != NULL;
    return !search->found;
}

/* True also if the views could not be read. */
static bool is_in_views(void *context, ef_str name)
{
    name_search *search = context;
    ef_views *views = search->engine->views;
    EF__AUTO(ef__buf) text = EF__BUF_INIT(1 << 20);
    ef__view_scan all = {.generation = search->query->generation,
                         .tenant = search->query->tenant,
                         .any_tenant = search->query->any_tenant,
                         .index = -1};

    ef__json_write_string(&text, name);
    ef__buf_add_char(&text, ':');
    search->wanted = ef__buf_str(&text);
    search->found = false;
    if (search->status == EF_OK)
        search->status = text.failed
                             ? ef_fail(search->err, EF_NO_MEMORY, "memory ran out in a query")
                             : views->ops->view_scan(views, &all, search_view, search, search->err);
    return search->found || search->status != EF_OK;
}

/* EF_BAD_INPUT: the filter, the sort order or the field list of the query uses a field that the
 * generation's program does not write and that no view of the result has. */
static ef_status check_names(ef_engine *engine, const ef__generation *generation,
                             const struct question *question, ef_error *err)
{
    name_search search = {.engine = engine, .query = &question->query, .err = err};
    const ef__program *program = NULL;
    ef__diagnostics *diagnostics;

    if (!question->filter_count || generation->program.len == 0 ||
        ef__engine_program(engine, generation, &program, NULL) != EF_OK)
        return EF_OK;
    diagnostics = malloc(sizeof *diagnostics);
    if (!diagnostics)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out in a query");
    for (size_t i = 0; search.status == EF_OK && i < question->filter_count; i++) {
        const ef__filter *filter = question->filters[i];
        ef__diagnostics_init(diagnostics, EF_STR(""));
        ef__filter_check_names(filter, program, is_in_views, &search, diagnostics);
        if (search.status == EF_OK && diagnostics->count)
            search.status =
                fail_shown(question->parts[i], ef__filter_source(filter), diagnostics, err);
    }
    free(diagnostics);
    return search.status;
}

/* --- results ---------------------------------------------------------------------------------- */

/* The rows are in the memory of the list already. */
static ef_status fill_items(const ef__generation *generation, const ef_view_query *query,
                            const ef__query_result *result, ef_view_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_view *items = ef__arena_alloc(arena, (result->count + 1) * sizeof *items);
    ef_str name = ef__arena_copy(arena, generation->name),
           tenant = ef__arena_copy(arena, query->tenant);

    if (!items || !name.ptr || !tenant.ptr)
        return ef__no_memory(err);
    out->items = items;
    out->looked = result->views_read;
    out->version = generation->version;
    out->total = result->total;
    out->next = result->cursor.ptr ? result->cursor : EF_STR("");
    for (size_t i = 0; i < result->count && !query->count_only; i++) {
        const ef__query_row *row = &result->rows[i];
        items[out->count++] = (ef_view){.view_type = name,
                                        .version = generation->version,
                                        .tenant = query->any_tenant ? row->tenant : tenant,
                                        .view_id = row->id,
                                        .last_event_sequence = row->last_position,
                                        .data = row->data};
    }
    return EF_OK;
}

static ef_status explain_plan(ef_views *views, const ef__query *query, ef_view_list *out,
                              ef_error *err)
{
    EF__AUTO(ef__buf) words = EF__BUF_INIT(65536);
    ef_status st = ef__query_explain(views, query, &words, err);

    out->plan = ef__buf_str(&words);
    return st == EF_OK ? ef__arena_own(&out->room->arena, err, &out->plan, NULL) : st;
}

ef_status ef_view_find(ef_engine *engine, const ef_view_query *query, ef_view_list *out,
                       ef_error *err)
{
    ef__read_target *target = NULL;
    ef__query_result result = EF__QUERY_RESULT_INIT;
    const ef__generation *generation = NULL;
    struct question question = {0};
    ef__meter meter;
    ef_status st;

    if (!engine || !query || !out)
        return ef_fail(err, EF_BAD_INPUT, "an argument is NULL");
    st = ef__list_prepare(out, err);
    if (st == EF_OK)
        st = compile_question(&question, query, err);
    if (st == EF_OK)
        st = ef__read_target_wait(engine, query->projection,
                                  query->any_tenant ? NULL : &query->tenant, &query->freshness,
                                  true, &target, &out->blocked_streams, err);
    if (st == EF_OK) {
        generation = target->generation;
        out->as_of = position_of_read(target, &query->freshness);
        question.query.generation = generation->id;
        question.query.tenant = query->tenant;
        question.query.any_tenant = query->any_tenant;
        question.query.index_paths = generation->index_paths;
        question.query.limit = query->limit;
        question.query.cursor = query->after;
        question.query.meter = &meter;
        question.query.count = query->count_only;
        meter = ef__meter_begin(&query->budget, engine->options.clock);
        result.room = out->room;
        st = check_names(engine, generation, &question, err);
        if (st == EF_OK)
            st = ef__query_run(engine->views, &question.query, &result, err);
    }
    if (st == EF_OK)
        st = fill_items(generation, query, &result, out, err);
    if (st == EF_OK && query->explain)
        st = explain_plan(engine->views, &question.query, out, err);
    ef__read_target_release(engine, target);
    close_question(&question);
    return st;
}

/* --- export ----------------------------------------------------------------------------------- */

struct view_export {
    const ef__generation *generation;
    bool (*each)(void *context, const ef_view *view);
    void *context;
};

static bool export_one(void *context, ef_str key, const ef__view *v)
{
    const struct view_export *export = context;

    (void)key;
    return export->each(export->context, &(ef_view){.view_type = export->generation->name,
                                                    .version = export->generation->version,
                                                    .tenant = v->tenant,
                                                    .view_id = v->id,
                                                    .last_event_sequence = v->last_position,
                                                    .data = v->data});
}

ef_status ef_view_export(ef_engine *engine, ef_str projection, ef_str tenant, bool any_tenant,
                         bool (*each)(void *context, const ef_view *view), void *context,
                         int64_t *out_as_of, ef_error *err)
{
    ef__read_target *target = NULL;
    struct view_export export = {.each = each, .context = context};
    int64_t blocked;
    ef_status st;

    if (!engine || !each)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "each" : "engine");
    st = ef__read_target_wait(engine, projection, any_tenant ? NULL : &tenant, NULL, true, &target,
                              &blocked, err);
    if (out_as_of)
        *out_as_of = st == EF_OK ? target->as_of : 0;
    export.generation = st == EF_OK ? target->generation : NULL;
    if (st == EF_OK)
        st = engine->views->ops->view_scan(engine->views,
                                           &(ef__view_scan){.generation = export.generation->id,
                                                            .tenant = tenant,
                                                            .any_tenant = any_tenant,
                                                            .index = -1},
                                           export_one, &export, err);
    ef__read_target_release(engine, target);
    return st;
}
