/*
 * view_names.c - queries that name a field which no view has.
 *
 * The program says which fields it writes. A view may have others all the same: those that it was
 * seeded with, and those that a program before it has written. So a name that the program does not
 * know is an error only if no view of the query has it. That costs a scan, as the query would have.
 */
#include "view_names.h"

#include <stdlib.h>

typedef struct search {
    ef_engine *engine;
    const ef__query *query;
    ef_error *err;
    ef_status status;
    ef_str wanted; /* as it stands in the text of a view: "name": */
    bool found;
} search;

static bool look_into_view(void *context, ef_str key, const ef__view *view)
{
    search *s = context;

    (void)key;
    s->found = memmem(view->data.ptr, view->data.len, s->wanted.ptr, s->wanted.len) != NULL;
    return !s->found;
}

/* True also when that could not be found out. */
static bool is_in_views(void *context, ef_str name)
{
    search *s = context;
    ef_views *views = s->engine->views;
    ef__buf text = EF__BUF_INIT(1 << 20);
    ef__view_scan all = {.generation = s->query->generation,
                         .tenant = s->query->tenant,
                         .any_tenant = s->query->any_tenant,
                         .index = -1};

    ef__json_write_string(&text, name);
    ef__buf_add_char(&text, ':');
    s->wanted = ef__buf_str(&text);
    s->found = false;
    if (s->status == EF_OK)
        s->status = text.failed ? ef_fail(s->err, EF_NO_MEMORY, "memory ran out in a query")
                                : views->ops->view_scan(views, &all, look_into_view, s, s->err);
    ef__buf_release(&text);
    return s->found || s->status != EF_OK;
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

static ef_status check_filter(search *s, const ef__program *program, const char *what,
                              const ef__filter *filter, ef__diagnostics *diagnostics)
{
    if (!filter || s->status != EF_OK)
        return s->status;
    ef__diagnostics_init(diagnostics, EF_STR(""));
    ef__filter_check_names(filter, program, is_in_views, s, diagnostics);
    if (s->status == EF_OK && diagnostics->count)
        s->status = fail_shown(what, filter, diagnostics, s->err);
    return s->status;
}

ef_status ef__view_names_check(ef_engine *e, const ef__generation *generation,
                               const ef__query *query, ef_error *err)
{
    search s = {.engine = e, .query = query, .err = err};
    const ef__program *program = NULL;
    ef__diagnostics *diagnostics;

    if ((!query->filter && !query->sort_count && !query->field_count) ||
        generation->program.len == 0 || ef__engine_program(e, generation, &program, NULL) != EF_OK)
        return EF_OK;
    diagnostics = malloc(sizeof *diagnostics);
    if (!diagnostics)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out in a query");
    (void)check_filter(&s, program, "where", query->filter, diagnostics);
    for (size_t i = 0; i < query->sort_count; i++)
        (void)check_filter(&s, program, "sort", query->sorts[i].by, diagnostics);
    for (size_t i = 0; i < query->field_count; i++)
        (void)check_filter(&s, program, "fields", query->fields[i], diagnostics);
    free(diagnostics);
    return s.status;
}
