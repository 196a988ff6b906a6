/*
 * request.c - taking a request apart.
 */
#include "request.h"

#include "../base/hash.h"
#include "../base/limits.h"
#include "../base/same.h"

#include <assert.h>
#include <stdarg.h>

ef_status ef__request_decode(ef__request *r, ef_str text, bool plus, ef_str *out, ef_error *err)
{
    char *room = ef__arena_alloc(&r->arena, text.len + 1);
    size_t n = 0;

    if (!room)
        return ef_fail(err, EF_TOO_LARGE, "the request is too long");
    for (size_t i = 0; i < text.len; i++) {
        int high, low;
        if (text.ptr[i] != '%') {
            room[n++] = plus && text.ptr[i] == '+' ? ' ' : text.ptr[i];
            continue;
        }
        high = i + 2 < text.len ? ef__hex_digit(text.ptr[i + 1]) : -1;
        low = i + 2 < text.len ? ef__hex_digit(text.ptr[i + 2]) : -1;
        if (high < 0 || low < 0 || (high == 0 && low == 0))
            return ef_fail(err, EF_BAD_INPUT, "'%.*s' has a bad escape at byte %zu",
                           EF_STR_ARG(text), i);
        room[n++] = (char)(high * 16 + low);
        i += 2;
    }
    room[n] = '\0';
    *out = (ef_str){room, n};
    return EF_OK;
}

static ef_status add_parameter(ef__request *r, ef_str pair, ef_error *err)
{
    ef_str value = pair, name = ef__str_split(&value, '=');
    ef__parameter *p;
    ef_status st;

    if (pair.len == 0)
        return EF_OK;
    if (r->parameter_count == EF__REQUEST_PARAMETERS)
        return ef_fail(err, EF_TOO_LARGE, "the query has more than %d parameters",
                       EF__REQUEST_PARAMETERS);
    p = &r->parameters[r->parameter_count];
    *p = (ef__parameter){0};
    st = ef__request_decode(r, name, true, &p->name, err);
    if (st == EF_OK)
        st = ef__request_decode(r, value, true, &p->value, err);
    for (size_t i = 0; st == EF_OK && i < r->parameter_count; i++)
        if (ef_str_equal(r->parameters[i].name, p->name))
            st = ef_fail(err, EF_BAD_INPUT, "%.*s is given twice", EF_STR_ARG(p->name));
    r->parameter_count += st == EF_OK;
    return st;
}

/* A reverse proxy may pass its prefix on, or take it off. */
static void drop_prefix(ef__request *r, ef_str prefix)
{
    ef_str path = r->path;

    if (!prefix.len || path.len < prefix.len || memcmp(path.ptr, prefix.ptr, prefix.len) != 0)
        return;
    r->at_prefix = path.len == prefix.len;
    if (r->at_prefix)
        r->path = EF_STR("/");
    else if (path.ptr[prefix.len] == '/')
        r->path = (ef_str){path.ptr + prefix.len, path.len - prefix.len};
}

ef_status ef__request_target(ef__request *r, ef_str target, ef_error *err)
{
    ef_str query = ef__arena_copy(&r->arena, target);
    ef_status st = query.ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");

    if (st != EF_OK)
        return st;
    r->path = ef__str_split(&query, '?');
    drop_prefix(r, ef_str_from(r->server->options.path));
    while (st == EF_OK && query.len > 0)
        st = add_parameter(r, ef__str_split(&query, '&'), err);
    return st;
}

void ef__request_add_header(ef__request *r, const char *name, const char *value)
{
    if (r->header_count < EF__REQUEST_HEADERS && value)
        r->headers[r->header_count++] = (ef__header){name, value};
}

/* --- the body --------------------------------------------------------------------------------- */

ef_str ef__request_media(ef__request *r)
{
    ef_str type = ef__arena_copy(&r->arena, ef__request_header(r, "Content-Type"));
    size_t n = 0;

    if (!type.ptr)
        return EF_STR("");
    while (n < type.len && type.ptr[n] != ';' && type.ptr[n] != ' ') {
        char c = type.ptr[n];
        ((char *)(uintptr_t)type.ptr)[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    return (ef_str){type.ptr, n};
}

void ef__json_printf(ef__json_writer *w, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    assert(length > 0 && (size_t)length < sizeof(text));
    ef__json_raw(w, (ef_str){text, (size_t)length});
}

void ef__request_write(ef__request *r, const void *items, size_t count)
{
    const ef__operation *route = r->route;
    ef__json_writer w = ef__request_writer(r);

    assert(route->shape && (!route->member || count > 0));
    if (route->member)
        ef__shape_write(&w, route->shape, items);
    else
        ef__shape_write_array(&w, route->shape, route->more, items, count);
    r->status = route->answer_status;
}

void ef__request_write_count(ef__request *r, const char *key, int64_t count)
{
    ef__json_writer w = ef__request_writer(r);

    ef__json_open(&w, '{');
    ef__json_member_int(&w, key, count);
    ef__json_close(&w, '}');
}

ef_status ef__request_note(ef__request *r, const char *action, ef_str what, ef_str reason,
                           ef_error *err)
{
    return ef_audit_add(r->server->options.journal,
                        &(ef_audit_entry){.action = ef_str_from(action),
                                          .actor = ef_str_from(r->who.name),
                                          .reason = reason,
                                          .lane = what,
                                          .tenant = r->tenant},
                        err);
}

void ef__request_release(ef__request *r)
{
    ef__buf_release(&r->body);
    ef__buf_release(&r->out);
    ef__arena_release(&r->arena);
}
