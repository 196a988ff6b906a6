/*
 * view_names.c - rejects queries with a field that no view has.
 *
 * The program declares the fields that it writes. A view may have others: from a seed, or from an
 * earlier program. So a name that the program does not write is an error only if no view of the
 * query has it, which costs one scan, like the query itself.
 */
#include "view_names.h"

#include <stdlib.h>

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
    ef__buf text = EF__BUF_INIT(1 << 20);
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
    ef__buf_release(&text);
    return search->found || search->status != EF_OK;
}

static ef_status fail_shown(const char *what, const ef__filter *filter,
                            const ef__diagnostics *diagnostics, ef_error *err)
{
    ef__buf shown = EF__BUF_INIT(4096);

    (void)ef__diagnostic_render(diagnostics, 0, ef__filter_source(filter), &shown);
    while (shown.len && shown.ptr[shown.len - 1] == '\n')
        shown.ptr[--shown.len] = '\0';
    ef_status st = ef_fail(err, EF_BAD_INPUT, "%s: %.*s", what, EF_STR_ARG(ef__buf_str(&shown)));
    ef__buf_release(&shown);
    return st;
}

static ef_status check_filter(name_search *search, const ef__program *program, const char *what,
                              const ef__filter *filter, ef__diagnostics *diagnostics)
{
    if (!filter || search->status != EF_OK)
        return search->status;
    ef__diagnostics_init(diagnostics, EF_STR(""));
    ef__filter_check_names(filter, program, is_in_views, search, diagnostics);
    if (search->status == EF_OK && diagnostics->count)
        search->status = fail_shown(what, filter, diagnostics, search->err);
    return search->status;
}

ef_status ef__view_names_check(ef_engine *engine, const ef__generation *generation,
                               const ef__query *query, ef_error *err)
{
    name_search search = {.engine = engine, .query = query, .err = err};
    const ef__program *program = NULL;
    ef__diagnostics *diagnostics;

    if ((!query->filter && !query->sort_count && !query->field_count) ||
        generation->program.len == 0 ||
        ef__engine_program(engine, generation, &program, NULL) != EF_OK)
        return EF_OK;
    diagnostics = malloc(sizeof *diagnostics);
    if (!diagnostics)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out in a query");
    (void)check_filter(&search, program, "where", query->filter, diagnostics);
    for (size_t i = 0; i < query->sort_count; i++)
        (void)check_filter(&search, program, "sort", query->sorts[i].by, diagnostics);
    for (size_t i = 0; i < query->field_count; i++)
        (void)check_filter(&search, program, "fields", query->fields[i], diagnostics);
    free(diagnostics);
    return search.status;
}
