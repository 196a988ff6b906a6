/*
 * route.c - which handlers take a type, and what else others may ask of a program.
 *
 * A type that the program names in full is found by halving; the handlers that take it, by name or
 * by prefix, stand ready in their order. Any other type can only be taken by a prefix.
 */
#include "ast.h"
#include "check.h"

#include <stdlib.h>

static int compare_types(ef_str a, ef_str b)
{
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_routes(const void *a, const void *b)
{
    const ef__route *x = a;
    const ef__route *y = b;

    return compare_types(x->type, y->type);
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

static size_t collect_types(const ef__program *program, ef__route *out)
{
    size_t count = 0;

    for (const ef__handler *h = program->handlers; h; h = h->next)
        for (const ef__pattern *p = h->patterns; p; p = p->next)
            if (!p->prefix) {
                if (out)
                    out[count].type = p->text;
                count++;
            }
    return count;
}

static size_t drop_doubles(ef__route *routes, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (kept == 0 || !ef_str_equal(routes[kept - 1].type, routes[i].type))
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

bool ef__program_route(ef__program *program)
{
    size_t count = collect_types(program, NULL);

    program->wild = collect_handlers(program, NULL);
    program->routes = ef__arena_zalloc(&program->arena, count + 1, sizeof *program->routes);
    if (!program->wild || !program->routes)
        return false;
    collect_types(program, program->routes);
    qsort(program->routes, count, sizeof *program->routes, compare_routes);
    program->route_count = drop_doubles(program->routes, count);
    for (size_t i = 0; i < program->route_count; i++) {
        program->routes[i].handlers = collect_handlers(program, &program->routes[i].type);
        if (!program->routes[i].handlers)
            return false;
    }
    return true;
}

static const ef__handler *next_in(const ef__handler **list, const ef__handler *after)
{
    while (*list && after && (*list)->number <= after->number)
        list++;
    return *list;
}

const ef__handler *ef__program_handler_next(const ef__program *program, ef_str type,
                                            const ef__handler *after)
{
    ef__route key = {.type = type};
    const ef__route *route = bsearch(&key, program->routes, program->route_count,
                                     sizeof *program->routes, compare_routes);

    if (route)
        return next_in(route->handlers, after);
    for (const ef__handler *h = next_in(program->wild, after); h; h = next_in(program->wild, h))
        if (handler_takes(h, type, true))
            return h;
    return NULL;
}

ef_str ef__program_type(const ef__program *program, ef_str type)
{
    for (const ef__alias *a = program->aliases; a; a = a->next)
        if (ef_str_equal(a->from, type))
            return a->to;
    return type;
}

bool ef__program_handles(const ef__program *program, ef_str type)
{
    return ef__program_handler_next(program, ef__program_type(program, type), NULL) != NULL;
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
    for (const ef__migration *m = program->migrations; m; m = m->next)
        if (m->from == from_schema)
            return true; /* the check has seen that there is no gap behind it */
    return false;
}

int64_t ef__program_schema(const ef__program *program)
{
    return program->schema;
}

bool ef__program_by_log(const ef__program *program)
{
    return program->order == EF__FOLD_BY_LOG;
}

ef_str ef__program_file(const ef__program *program)
{
    return program->file;
}

ef_str ef__program_source(const ef__program *program)
{
    return program->source;
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

size_t ef__program_lookup_count(const ef__program *program)
{
    size_t count = 0;

    for (const ef__lookup_name *lookup = program->lookups; lookup; lookup = lookup->next)
        count++;
    return count;
}

ef_str ef__program_lookup(const ef__program *program, size_t i)
{
    const ef__lookup_name *lookup = program->lookups;

    while (i-- > 0)
        lookup = lookup->next;
    return lookup->name;
}

size_t ef__program_pattern_count(const ef__program *program)
{
    size_t count = 0;

    for (const ef__alias *alias = program->aliases; alias; alias = alias->next)
        count++;
    for (const ef__handler *h = program->handlers; h; h = h->next)
        for (const ef__pattern *p = h->patterns; p; p = p->next)
            count++;
    return count;
}

/* A prefix is followed by its * in the source, so the text with it is one byte longer. */
static ef_str pattern_text(const ef__pattern *pattern)
{
    ef_str text = pattern->text;

    text.len += pattern->prefix;
    return text;
}

ef_str ef__program_pattern(const ef__program *program, size_t i)
{
    for (const ef__handler *h = program->handlers; h; h = h->next)
        for (const ef__pattern *p = h->patterns; p; p = p->next)
            if (i-- == 0)
                return pattern_text(p);
    const ef__alias *alias = program->aliases;
    while (i-- > 0)
        alias = alias->next;
    return alias->from;
}
