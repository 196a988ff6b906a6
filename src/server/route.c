/*
 * route.c - finds the operation of a method and a path.
 *
 * A pattern is compared with the raw path segment by segment, including escapes, so that an escaped
 * slash is part of a name. A segment {name} matches any non-empty text; {name}:verb matches text
 * that ends in :verb.
 */
#include "request.h"

#include <assert.h>
#include <pthread.h>

const ef__http_route *const ef__route_tables[] = {
    ef__routes_events,    ef__routes_views,   ef__routes_projections,
    ef__routes_outbox,    ef__routes_runs,    ef__routes_workers,
    ef__routes_subscribe, ef__routes_health,  ef__routes_metrics,
    ef__routes_openapi,   ef__routes_history, ef__routes_publishers,
    ef__routes_tokens,    ef__routes_monitor, NULL,
};

/* The next segment of a path that begins with a slash; the rest stays in *path. */
static ef_str next_segment(ef_str *path)
{
    ef_str out = {path->ptr + 1, 0};

    while (out.len + 1 < path->len && out.ptr[out.len] != '/')
        out.len++;
    path->ptr += out.len + 1;
    path->len -= out.len + 1;
    return out;
}

/* Whether a segment matches its pattern; *out_name is the text of the name, if it has one. */
static bool segment_fits(ef_str pattern, ef_str text, ef_str *out_name)
{
    const char *close = memchr(pattern.ptr, '}', pattern.len);
    ef_str verb;

    *out_name = (ef_str){NULL, 0};
    if (pattern.len == 0 || pattern.ptr[0] != '{' || !close)
        return ef_str_equal(pattern, text);
    verb = (ef_str){close + 1, pattern.len - (size_t)(close + 1 - pattern.ptr)};
    if (text.len <= verb.len || memcmp(text.ptr + text.len - verb.len, verb.ptr, verb.len) != 0)
        return false;
    *out_name = (ef_str){text.ptr, text.len - verb.len};
    return true;
}

/* All routes in the order of their tables, each with the letter after "/v1/" in its path, or 0. The
 * letter excludes nearly all routes without reading the tables, which are large. */
typedef struct lead {
    const ef__http_route *route;
    char letter;
} lead;

static lead leads[EF__ROUTES_MAX + 1]; /* ends in a NULL route */
static pthread_once_t leads_made = PTHREAD_ONCE_INIT;

static char letter_of(ef_str path)
{
    return path.len > 4 && memcmp(path.ptr, "/v1/", 4) == 0 ? path.ptr[4] : '\0';
}

static void make_leads(void)
{
    size_t count = 0;

    for (size_t t = 0; ef__route_tables[t]; t++)
        for (const ef__http_route *route = ef__route_tables[t]; route->operation; route++) {
            char letter = letter_of(ef_str_from(route->operation->pattern));
            assert(count < EF__ROUTES_MAX && letter != '{');
            leads[count++] = (lead){route, letter};
        }
}

ef_status ef__routes_check(const ef__http_route *const *tables, ef_error *err)
{
    tables = tables ? tables : ef__route_tables;
    for (size_t t = 0; tables[t]; t++)
        for (const ef__http_route *route = tables[t]; route->operation; route++) {
            const ef__operation *o = route->operation;
            if (o->tenancy <= EF__TENANCY_UNDECLARED || o->tenancy > EF__TENANCY_UNBOUND)
                return ef_fail(err, EF_MISUSE,
                               "route %s %s does not declare what a token of one tenant gets of it",
                               o->method, o->pattern);
        }
    return EF_OK;
}

const ef__http_route *ef__route_at(size_t number)
{
    (void)pthread_once(&leads_made, make_leads);
    return leads[number].route;
}

size_t ef__route_number(const ef__operation *operation)
{
    size_t number = 0;
    const ef__http_route *route;

    while ((route = ef__route_at(number)) != NULL && route->operation != operation)
        number++;
    return operation && route ? number : EF__ROUTES_MAX;
}

/* Compares up to the first name of the pattern, which excludes most patterns. */
static bool begins_alike(const char *pattern, ef_str path)
{
    size_t i = 0;

    while (i < path.len && pattern[i] == path.ptr[i] && pattern[i] && pattern[i] != '{')
        i++;
    return pattern[i] == '{' || (pattern[i] == '\0' && i == path.len);
}

static bool pattern_matches(const char *pattern_text, ef_str path, ef_str *parts, size_t part_max)
{
    ef_str pattern;
    size_t count = 0;

    if (!begins_alike(pattern_text, path))
        return false;
    pattern = ef_str_from(pattern_text);
    while (pattern.len > 0 && path.len > 0) {
        ef_str name;
        if (!segment_fits(next_segment(&pattern), next_segment(&path), &name))
            return false;
        if (name.ptr && count < part_max)
            parts[count++] = name;
    }
    return pattern.len == 0 && path.len == 0;
}

/* "GET, HEAD, POST", each once. */
static void allow_method(char allowed[EF__ROUTE_METHODS_MAX], const char *method)
{
    size_t used = strlen(allowed);

    if (strstr(allowed, method))
        return;
    (void)snprintf(allowed + used, EF__ROUTE_METHODS_MAX - used, "%s%s", used ? ", " : "", method);
    if (strcmp(method, "GET") == 0)
        allow_method(allowed, "HEAD");
}

static bool has_method(const ef__operation *operation, ef_str method)
{
    return ef_str_equal(method, ef_str_from(operation->method)) ||
           ef_str_equal(method, EF_STR("OPTIONS")) ||
           (ef_str_equal(method, EF_STR("HEAD")) && strcmp(operation->method, "GET") == 0);
}

static ef_status refuse_method(ef_str method, const char *allowed, ef_error *err)
{
    if (allowed[0])
        return ef_fail(err, EF_BAD_METHOD, "%.*s is not a method of this path; it has: %s",
                       (int)(method.len < 20 ? method.len : 20), method.ptr, allowed);
    return ef_fail(err, EF_NOT_FOUND, "there is nothing at this path; see /openapi.json");
}

ef_status ef__route_find(ef_str method, ef_str path, const ef__http_route **out, ef_str *parts,
                         size_t part_max, char allowed[EF__ROUTE_METHODS_MAX], ef_error *err)
{
    const ef__http_route *found = NULL;
    bool all = ef_str_equal(method, EF_STR("OPTIONS"));
    char letter = letter_of(path);

    (void)pthread_once(&leads_made, make_leads);
    allowed[0] = '\0';
    for (const lead *l = leads; l->route && (!found || all); l++) {
        if (l->letter != letter || path.len == 0 || path.ptr[0] != '/' ||
            !pattern_matches(l->route->operation->pattern, path, parts, part_max))
            continue;
        if (!found && has_method(l->route->operation, method))
            found = l->route;
        if (all || !found)
            allow_method(allowed, l->route->operation->method);
    }
    if (allowed[0])
        allow_method(allowed, "OPTIONS");
    *out = found;
    return found ? EF_OK : refuse_method(method, allowed, err);
}
