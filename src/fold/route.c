/*
 * route.c - finds the handlers of a type; other accessors of a program.
 *
 * A type that the program names in full is found by binary search, with a list of its handlers, by
 * name or by prefix, in their order. Any other type can only match a prefix; there may be any
 * number of those, so nothing is kept for each.
 */
#include "ast.h"
#include "check.h"

#include "../base/same.h"

#include <stdlib.h>

static int compare_routes(const void *a, const void *b)
{
    return ef__str_compare(((const ef__type_route *)a)->stored,
                           ((const ef__type_route *)b)->stored);
}

static bool handler_takes(const ef__handler *handler, ef_str type, bool by_prefix_only)
{
    ef__pattern exact = {.text = type};

    for (const ef__pattern *p = handler->patterns; p; p = p->next)
        if ((p->prefix || !by_prefix_only) && ef__pattern_covers(p, &exact))
            return true;
    return false;
}

static bool has_prefix(const ef__handler *handler)
{
    for (const ef__pattern *p = handler->patterns; p; p = p->next)
        if (p->prefix)
            return true;
    return false;
}

static void add_type(ef__type_route *out, size_t *count, ef_str type)
{
    if (out)
        out[*count].stored = type;
    ++*count;
}

/* The types that the program names in full, some twice; `out` NULL: only their number. */
static size_t collect_types(const ef__program *program, ef__type_route *out)
{
    size_t count = 0;

    for (const ef__handler *h = program->handlers; h; h = h->next)
        for (const ef__pattern *p = h->patterns; p; p = p->next)
            if (!p->prefix)
                add_type(out, &count, p->text);
    for (const ef__alias *a = program->aliases; a; a = a->next)
        add_type(out, &count, a->from);
    for (const ef__step *upcast = program->upcasts; upcast; upcast = upcast->next)
        add_type(out, &count, upcast->type);
    return count;
}

static size_t drop_doubles(ef__type_route *routes, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (kept == 0 || !ef_str_equal(routes[kept - 1].stored, routes[i].stored))
            routes[kept++] = routes[i];
    return kept;
}

/* Handlers of a type, or with any prefix when `type` is NULL; ends in NULL. */
static const ef__handler **collect_handlers(ef__program *program, const ef_str *type)
{
    const ef__handler **list;
    size_t count = 0;

    for (const ef__handler *h = program->handlers; h; h = h->next)
        count += type ? handler_takes(h, *type, false) : has_prefix(h);
    list = ef__arena_zalloc(&program->arena, count + 1, sizeof *list);
    if (!list)
        return NULL;
    count = 0;
    for (const ef__handler *h = program->handlers; h; h = h->next)
        if (type ? handler_takes(h, *type, false) : has_prefix(h))
            list[count++] = h;
    return list;
}

static bool fill_route(ef__program *program, ef__type_route *route)
{
    route->type = route->stored;
    for (const ef__alias *a = program->aliases; a; a = a->next)
        if (ef_str_equal(a->from, route->stored)) {
            route->type = a->to;
            break;
        }
    for (const ef__step *upcast = program->upcasts; upcast; upcast = upcast->next)
        route->upcasts |= ef_str_equal(upcast->type, route->type);
    route->handlers = collect_handlers(program, &route->type);
    return route->handlers != NULL;
}

bool ef__program_compile_routes(ef__program *program)
{
    size_t count = collect_types(program, NULL);

    program->others.handlers = collect_handlers(program, NULL);
    program->others.by_prefix = true;
    program->routes = ef__arena_zalloc(&program->arena, count + 1, sizeof *program->routes);
    if (!program->others.handlers || !program->routes)
        return false;
    collect_types(program, program->routes);
    qsort(program->routes, count, sizeof *program->routes, compare_routes);
    program->route_count = drop_doubles(program->routes, count);
    for (size_t i = 0; i < program->route_count; i++)
        if (!fill_route(program, &program->routes[i]))
            return false;
    return true;
}

const ef__type_route *ef__program_route(const ef__program *program, ef_str stored)
{
    ef__type_route key = {.stored = stored};
    const ef__type_route *route = bsearch(&key, program->routes, program->route_count,
                                          sizeof *program->routes, compare_routes);

    return route ? route : &program->others;
}

const ef__handler *ef__route_next(const ef__type_route *route, ef_str stored, size_t *at)
{
    const ef__handler *handler;

    while ((handler = route->handlers[*at]) != NULL) {
        ++*at;
        if (!route->by_prefix || handler_takes(handler, stored, true))
            return handler;
    }
    return NULL;
}

ef_str ef__program_name(const ef__program *program)
{
    return program->name;
}

int64_t ef__program_version(const ef__program *program)
{
    return program->version;
}

bool ef__program_migrates(const ef__program *program, int64_t from_schema)
{
    /* check.c has checked that there is no gap after it */
    return ef__step_from(program->migrations, EF_STR(""), from_schema) != NULL;
}

const ef__step *ef__step_from(const ef__step *first, ef_str type, int64_t from)
{
    while (first && (first->from != from || !ef_str_equal(first->type, type)))
        first = first->next;
    return first;
}

int64_t ef__program_schema(const ef__program *program)
{
    return program->schema;
}

bool ef__program_by_log(const ef__program *program)
{
    return program->order == EF__FOLD_BY_LOG;
}

ef_str ef__program_hash(const ef__program *program)
{
    return ef_str_from(program->hash);
}

size_t ef__program_index_count(const ef__program *program)
{
    size_t count = 0;

    for (const ef__index *index = program->indexes; index; index = index->next)
        count++;
    return count;
}

ef_str ef__program_index(const ef__program *program, size_t i)
{
    const ef__index *index = program->indexes;

    while (i-- > 0)
        index = index->next;
    return index->text;
}
