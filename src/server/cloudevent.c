/*
 * cloudevent.c - see cloudevent.h.
 */
#include "cloudevent.h"

#include "../base/limits.h"
#include "../shape/incoming.h"

#include <inttypes.h>
#include <stdio.h>

#define MEDIA "application/cloudevents"
#define META_BYTES_MAX EF_LIMIT_META_BYTES

static bool is(ef_str a, const char *b)
{
    return ef_str_equal(a, ef_str_from(b));
}

static bool begins(ef_str text, const char *prefix)
{
    size_t n = strlen(prefix);

    return text.len >= n && strncasecmp(text.ptr, prefix, n) == 0;
}

/* --- in ------------------------------------------------------------------------------------------
 */

/* Attributes of an event, and what becomes of them. */
typedef struct taking {
    ef_new_event *event;
    ef__arena *arena;
    ef_str version, source, subject, content;
    ef__buf meta;
    ef__json_writer w;
} taking;

static ef_status take_extension(taking *t, const ef__slice *member, ef_error *err)
{
    char key[65];

    if (!ef__cloudevent_is_name(member->key))
        return ef_fail(err, EF_BAD_INPUT,
                       "'%.*s' is not the name of an attribute: lower-case letters and digits",
                       EF_STR_ARG(member->key));
    if (member->raw.ptr[0] == '{' || member->raw.ptr[0] == '[')
        return ef_fail(err, EF_BAD_INPUT, "%.*s is neither text, a number nor true or false",
                       EF_STR_ARG(member->key));
    if (is(member->raw, "null"))
        return EF_OK;
    (void)snprintf(key, sizeof(key), "%.*s", EF_STR_ARG(member->key));
    ef__json_key(&t->w, key);
    ef__json_raw(&t->w, member->raw);
    return EF_OK;
}

static ef_status take_time(taking *t, ef_str raw, ef_error *err)
{
    ef_str text;
    ef_status st = ef__slice_text("time", raw, t->arena, &text, err);

    if (st == EF_OK && ef_time_parse(text.ptr, text.len, &t->event->time_us) != 0)
        st = ef_fail(err, EF_BAD_INPUT, "time is '%.*s', not RFC 3339", EF_STR_ARG(text));
    return st;
}

static ef_status take_attribute(taking *t, const ef__slice *m, ef_error *err)
{
    if (is(m->key, "specversion"))
        return ef__slice_text("specversion", m->raw, t->arena, &t->version, err);
    if (is(m->key, "id"))
        return ef__slice_text("id", m->raw, t->arena, &t->event->id, err);
    if (is(m->key, "type"))
        return ef__slice_text("type", m->raw, t->arena, &t->event->type, err);
    if (is(m->key, "subject"))
        return ef__slice_text("subject", m->raw, t->arena, &t->subject, err);
    if (is(m->key, "datacontenttype"))
        return ef__slice_text("datacontenttype", m->raw, t->arena, &t->content, err);
    if (is(m->key, "time"))
        return take_time(t, m->raw, err);
    if (is(m->key, "data_base64"))
        return ef_fail(err, EF_BAD_INPUT, "data_base64: only JSON data is taken");
    if (is(m->key, "data")) {
        t->event->data = m->raw;
        return EF_OK;
    }
    if (is(m->key, "sequence") || is(m->key, "recordedtime"))
        return EF_OK; /* ours, of an event that was read and comes back */
    if (is(m->key, "source")) {
        ef_status st = ef__slice_text("source", m->raw, t->arena, &t->source, err);
        return st == EF_OK ? take_extension(t, m, err) : st;
    }
    return take_extension(t, m, err);
}

static ef_status check_attributes(const taking *t, ef_error *err)
{
    if (!is(t->version, "1.0"))
        return ef_fail(err, EF_BAD_INPUT, "specversion is '%.*s'; 1.0 is needed",
                       EF_STR_ARG(t->version));
    if (t->event->id.len == 0 || t->source.len == 0 || t->event->type.len == 0)
        return ef_fail(err, EF_BAD_INPUT, "a CloudEvent needs id, source and type");
    if (t->content.len > 0 && !begins(t->content, "application/json") &&
        !memmem(t->content.ptr, t->content.len, "+json", 5))
        return ef_fail(err, EF_BAD_INPUT, "datacontenttype is '%.*s'; only JSON is taken",
                       EF_STR_ARG(t->content));
    if (t->event->stream.len == 0)
        return ef_fail(err, EF_BAD_INPUT, "subject is missing: it names the stream");
    return EF_OK;
}

ef_status ef__cloudevent_take(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                              ef_new_event *out, ef_error *err)
{
    taking t = {.event = out, .arena = arena, .meta = EF__BUF_INIT(META_BYTES_MAX)};
    ef__slice member;
    size_t at = 0;
    bool more = true;
    ef_status st = EF_OK;

    *out = *defaults;
    t.w = (ef__json_writer)EF__JSON_WRITER(&t.meta);
    ef__json_open(&t.w, '{');
    while (st == EF_OK) {
        st = ef__slice_next(text, &at, arena, &member, &more, err);
        if (st != EF_OK || !more)
            break;
        st = take_attribute(&t, &member, err);
    }
    ef__json_close(&t.w, '}');
    if (st == EF_OK && out->stream.len == 0)
        out->stream = t.subject;
    if (st == EF_OK)
        st = check_attributes(&t, err);
    if (st == EF_OK && t.meta.failed)
        st = ef_fail(err, EF_TOO_LARGE, "the extensions have more than %d bytes", META_BYTES_MAX);
    if (st == EF_OK) {
        out->meta = ef__arena_copy(arena, ef__buf_str(&t.meta));
        st = out->meta.ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    }
    ef__buf_release(&t.meta);
    return st;
}

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

    if (!begins(name, "ce-") || name.len - 3 >= sizeof(key))
        return true;
    for (size_t i = 3; i < name.len; i++)
        key[i - 3] =
            (char)(name.ptr[i] >= 'A' && name.ptr[i] <= 'Z' ? name.ptr[i] + 32 : name.ptr[i]);
    walk->st = ef__request_decode(walk->r, value, false, &text, walk->err);
    ef__json_key(walk->w, key);
    ef__json_str(walk->w, text);
    return walk->st == EF_OK;
}

ef_status ef__cloudevent_from_headers(ef__request *r, ef_str *out, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(EF_LIMIT_LINE_BYTES);
    ef__json_writer w = EF__JSON_WRITER(&text);
    header_walk walk = {r, &w, EF_OK, err};
    ef_str content = ef__request_header(r, "Content-Type");

    ef__json_open(&w, '{');
    ef__request_each_header(r, take_header, &walk);
    if (content.len > 0) {
        ef__json_key(&w, "datacontenttype");
        ef__json_str(&w, content);
    }
    if (r->body.len > 0) {
        ef__json_key(&w, "data");
        ef__json_raw(&w, ef__buf_str(&r->body));
    }
    ef__json_close(&w, '}');
    if (walk.st == EF_OK)
        walk.st = text.failed ? ef_fail(err, EF_TOO_LARGE, "the event is too large")
                              : ef__json_check(ef__buf_str(&text), EF_LIMIT_LINE_BYTES, NULL, err);
    *out = ef__arena_copy(&r->arena, ef__buf_str(&text));
    ef__buf_release(&text);
    if (walk.st == EF_OK && !out->ptr)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    return walk.st;
}

/* --- out -----------------------------------------------------------------------------------------
 */

bool ef__cloudevent_wanted(const ef__request *r)
{
    ef_str accept = ef__request_header(r, "Accept");

    return accept.len > 0 && memmem(accept.ptr, accept.len, MEDIA, strlen(MEDIA)) != NULL;
}

/* --- trace context -------------------------------------------------------------------------------
 */

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
    ef__json_key(&w, "traceparent");
    ef__json_str(&w, parent);
    if (state.len > 0 && state.len <= 512) {
        ef__json_key(&w, "tracestate");
        ef__json_str(&w, state);
    }
    ef__json_close(&w, '}');
    *out = ef__arena_copy(&r->arena, ef__buf_str(&text));
    ef__buf_release(&text);
    return out->ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
}
