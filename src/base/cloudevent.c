/*
 * cloudevent.c - see cloudevent.h.
 */
#include "cloudevent.h"

#include "incoming.h"
#include "limits.h"

#include <everfold/clock.h>

#include <stdio.h>
#include <strings.h>

#define POSITION_DIGITS 20
#define META_ARENA (16u * EF_LIMIT_META_BYTES) /* a tree takes some times its text */

bool ef__cloudevent_is_name(ef_str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!((name.ptr[i] >= 'a' && name.ptr[i] <= 'z') ||
              (name.ptr[i] >= '0' && name.ptr[i] <= '9')))
            return false;
    return name.len > 0 && name.len <= 64;
}

static bool is(ef_str text, const char *word)
{
    return ef_str_equal(text, ef_str_from(word));
}

/* What we write ourselves: a member of meta by such a name would be there twice. */
static bool is_ours(ef_str name, bool published)
{
    static const char *const names[] = {"specversion", "id",   "type",
                                        "subject",     "time", "recordedtime",
                                        "sequence",    "data", "datacontenttype",
                                        "data_base64", NULL};

    for (const char *const *n = names; *n; n++)
        if (is(name, *n))
            return true;
    return published &&
           (is(name, "tenant") || is(name, "streamsequence") || is(name, "partitionkey"));
}

/* Members of meta that may be attributes; the others have no place in a CloudEvent. */
static void write_meta(ef__json_writer *w, const ef_event *event, bool published, bool *out_source)
{
    ef__arena arena = EF__ARENA_INIT(META_ARENA); /* for names with escapes: hardly ever */
    ef__json_kind kind = EF__JSON_NULL;
    ef__slice m;
    size_t at = 0;
    bool more = event->meta.len > 2 && /* {} */
                ef__json_check(event->meta, EF_LIMIT_META_BYTES, &kind, NULL) == EF_OK &&
                kind == EF__JSON_OBJECT;

    while (more && ef__slice_next(event->meta, &at, &arena, &m, &more, NULL) == EF_OK && more) {
        char key[65];
        if (!ef__cloudevent_is_name(m.key) || is_ours(m.key, published) || m.raw.ptr[0] == '{' ||
            m.raw.ptr[0] == '[' || is(m.raw, "null"))
            continue;
        (void)snprintf(key, sizeof(key), "%.*s", EF_STR_ARG(m.key));
        *out_source = *out_source || is(m.key, "source");
        ef__json_key(w, key);
        ef__json_raw(w, m.raw);
    }
    ef__arena_release(&arena);
}

static void write_place(ef__json_writer *w, const ef_event *event, ef_str key)
{
    if (event->tenant.len) {
        ef__json_key(w, "tenant");
        ef__json_str(w, event->tenant);
    }
    ef__json_key(w, "streamsequence");
    ef__json_int(w, event->seq);
    ef__json_key(w, "partitionkey");
    ef__json_str(w, key);
}

/* In as many digits as any of them: so that they sort as texts, too. By hand, for there are many.
 */
static void write_position(int64_t position, char out[POSITION_DIGITS + 1])
{
    out[POSITION_DIGITS] = '\0';
    for (int i = POSITION_DIGITS - 1; i >= 0; i--, position /= 10)
        out[i] = (char)('0' + position % 10);
}

void ef__cloudevent_write(ef__json_writer *w, const ef_event *event, const ef_str *key)
{
    char sequence[POSITION_DIGITS + 1];
    bool source = false;

    write_position(event->position, sequence);
    ef__json_open(w, '{');
    ef__json_key(w, "specversion");
    ef__json_str(w, EF_STR("1.0"));
    ef__json_key(w, "id");
    ef__json_str(w, event->id);
    ef__json_key(w, "type");
    ef__json_str(w, event->type);
    ef__json_key(w, "subject");
    ef__json_str(w, event->stream);
    ef__json_key(w, "time");
    ef__json_time(w, event->time_us);
    ef__json_key(w, "recordedtime");
    ef__json_time(w, event->recorded_us);
    ef__json_key(w, "sequence");
    ef__json_str(w, ef_str_from(sequence));
    if (key)
        write_place(w, event, *key);
    write_meta(w, event, key != NULL, &source);
    if (!source) {
        ef__json_key(w, "source");
        ef__json_str(w, EF_STR("/everfold"));
    }
    ef__json_key(w, "datacontenttype");
    ef__json_str(w, EF_STR("application/json"));
    ef__json_key(w, "data");
    ef__json_raw(w, event->data);
    ef__json_close(w, '}');
}

ef_str ef__meta_text(ef_str meta, const char *name, ef__arena *arena)
{
    ef__json *tree = NULL;
    const ef__json *value;

    /* Few have it, and a tree of each would be most of what a message costs. */
    if (!memmem(meta.ptr, meta.len, name, strlen(name)) && !memchr(meta.ptr, '\\', meta.len))
        return EF_STR("");
    if (meta.len <= 2 || ef__json_parse(meta, EF_LIMIT_META_BYTES, arena, &tree, NULL) != EF_OK)
        return EF_STR("");
    value = ef__json_get(tree, name);
    return value && value->kind == EF__JSON_STRING ? value->text : EF_STR("");
}

/* --- in --------------------------------------------------------------------------------------- */

static bool begins(ef_str text, const char *prefix)
{
    size_t n = strlen(prefix);

    return text.len >= n && strncasecmp(text.ptr, prefix, n) == 0;
}

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
    taking t = {.event = out, .arena = arena, .meta = EF__BUF_INIT(EF_LIMIT_META_BYTES)};
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
        st = ef_fail(err, EF_TOO_LARGE, "the extensions have more than %d bytes",
                     EF_LIMIT_META_BYTES);
    if (st == EF_OK) {
        out->meta = ef__arena_copy(arena, ef__buf_str(&t.meta));
        st = out->meta.ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    }
    ef__buf_release(&t.meta);
    return st;
}
