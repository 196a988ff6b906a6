/*
 * cloudevent.c - see cloudevent.h.
 */
#include "cloudevent.h"

#include "../base/limits.h"

#define MEDIA "application/cloudevents"

static bool begins_with(ef_str text, const char *prefix)
{
    size_t n = strlen(prefix);

    return text.len >= n && strncasecmp(text.ptr, prefix, n) == 0;
}

/* --- in --------------------------------------------------------------------------------------- */

bool ef__cloudevent_binary(const ef__request *r)
{
    return ef__request_header(r, "ce-specversion").len > 0;
}

typedef struct header_walk {
    ef__request *r;
    ef__json_writer *w;
    ef_status st;
    ef_error *err;
} header_walk;

/* ce-NAME: VALUE, percent-encoded as the HTTP binding has it. */
static bool take_header(void *context, ef_str name, ef_str value)
{
    header_walk *walk = context;
    char key[65] = "";
    ef_str text = {NULL, 0};

    if (!begins_with(name, "ce-") || name.len - 3 >= sizeof(key))
        return true;
    for (size_t i = 3; i < name.len; i++)
        key[i - 3] =
            (char)(name.ptr[i] >= 'A' && name.ptr[i] <= 'Z' ? name.ptr[i] + 32 : name.ptr[i]);
    walk->st = ef__request_decode(walk->r, value, false, &text, walk->err);
    ef__json_member_str(walk->w, key, text);
    return walk->st == EF_OK;
}

ef_status ef__cloudevent_from_headers(ef__request *r, ef_str *out, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(EF_LIMIT_LINE_BYTES);
    ef__json_writer w = EF__JSON_WRITER(&text);
    header_walk walk = {r, &w, EF_OK, err};
    ef_str content = ef__request_header(r, "Content-Type");
    /* By itself first: it must be one value, or it would add attributes to those of the headers. */
    ef_status st = r->body.len > 0
                       ? ef__json_check(ef__buf_str(&r->body), EF_LIMIT_LINE_BYTES, NULL, err)
                       : EF_OK;

    *out = (ef_str){NULL, 0};
    if (st != EF_OK)
        return st;
    ef__json_open(&w, '{');
    ef__request_each_header(r, take_header, &walk);
    if (content.len > 0)
        ef__json_member_str(&w, "datacontenttype", content);
    if (r->body.len > 0)
        ef__json_member_raw(&w, "data", ef__buf_str(&r->body));
    ef__json_close(&w, '}');
    if (walk.st == EF_OK)
        walk.st = text.failed
                      ? ef_fail(err, EF_TOO_LARGE, "the event is too large")
                      : ef__json_check_envelope(ef__buf_str(&text), EF_LIMIT_LINE_BYTES, NULL, err);
    *out = ef__arena_copy(&r->arena, ef__buf_str(&text));
    ef__buf_release(&text);
    if (walk.st == EF_OK && !out->ptr)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    return walk.st;
}

/* --- out -------------------------------------------------------------------------------------- */

bool ef__cloudevent_wanted(const ef__request *r)
{
    ef_str accept = ef__request_header(r, "Accept");

    return accept.len > 0 && memmem(accept.ptr, accept.len, MEDIA, strlen(MEDIA)) != NULL;
}

/* --- trace context ---------------------------------------------------------------------------- */

/* 00-32 digits-16 digits-2 digits, of a version that we know or a later one. */
static bool is_trace_parent(ef_str text)
{
    static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

    if (text.len < sizeof(form) - 1 || text.len > 256)
        return false;
    for (size_t i = 0; i < sizeof(form) - 1; i++) {
        char c = text.ptr[i];
        if (form[i] == '-' ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return true;
}

ef_str ef__trace_id(ef_str parent)
{
    return is_trace_parent(parent) ? (ef_str){parent.ptr + 3, 32} : EF_STR("");
}

ef_status ef__trace_meta(ef__request *r, ef_str *out, ef_error *err)
{
    ef_str parent = ef__request_header(r, "traceparent");
    ef_str state = ef__request_header(r, "tracestate");
    ef__buf text = EF__BUF_INIT(4096);
    ef__json_writer w = EF__JSON_WRITER(&text);

    if (!is_trace_parent(parent))
        return ef_fail(err, EF_BAD_INPUT, "traceparent is '%.*s', which is no trace context",
                       EF_STR_ARG(parent));
    ef__json_open(&w, '{');
    ef__json_member_str(&w, "traceparent", parent);
    if (state.len > 0 && state.len <= 512)
        ef__json_member_str(&w, "tracestate", state);
    ef__json_close(&w, '}');
    *out = ef__arena_copy(&r->arena, ef__buf_str(&text));
    ef__buf_release(&text);
    return out->ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
}
