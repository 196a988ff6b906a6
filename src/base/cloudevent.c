/*
 * cloudevent.c - see cloudevent.h.
 */
#include "cloudevent.h"

#include "incoming.h"
#include "limits.h"

#include <everfold/clock.h>

#include <strings.h>

#define POSITION_DIGITS 20                     /* of the largest int64_t, and one more */
#define META_ARENA (16u * EF_LIMIT_META_BYTES) /* a JSON tree is several times its text */

/* Lower-case letters and digits, as the specification requires. */
static bool is_name(ef_str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!((name.ptr[i] >= 'a' && name.ptr[i] <= 'z') ||
              (name.ptr[i] >= '0' && name.ptr[i] <= '9')))
            return false;
    return name.len > 0 && name.len <= 64;
}

static bool text_equals(ef_str text, const char *word)
{
    return ef_str_equal(text, ef_str_from(word));
}

/* The attributes that we write: a member of meta with such a name would be a duplicate. */
static bool is_own_attribute(ef_str name, bool published)
{
    static const char *const names[] = {"specversion", "id",   "type",
                                        "subject",     "time", "recordedtime",
                                        "sequence",    "data", "datacontenttype",
                                        "data_base64", NULL};

    for (const char *const *n = names; *n; n++)
        if (text_equals(name, *n))
            return true;
    return published && (text_equals(name, "tenant") || text_equals(name, "streamsequence") ||
                         text_equals(name, "partitionkey"));
}

/* Writes the members of meta that can be attributes; a CloudEvent cannot hold the others. */
static void write_meta(ef__json_writer *w, const ef_event *event, bool published, bool *out_source)
{
    EF__AUTO(ef__arena) arena =
        EF__ARENA_INIT(META_ARENA); /* for names with escapes, which are rare */
    ef__json_kind kind = EF__JSON_NULL;
    ef__slice member;
    size_t at = 0;
    bool more = event->meta.len > 2 && /* {} */
                ef__json_check(event->meta, EF_LIMIT_META_BYTES, &kind, NULL) == EF_OK &&
                kind == EF__JSON_OBJECT;

    while (more && ef__slice_next(event->meta, &at, &arena, &member, &more, NULL) == EF_OK &&
           more) {
        if (!is_name(member.key) || is_own_attribute(member.key, published) ||
            member.raw.ptr[0] == '{' || member.raw.ptr[0] == '[' || text_equals(member.raw, "null"))
            continue;
        *out_source = *out_source || text_equals(member.key, "source");
        ef__json_key_str(w, member.key);
        ef__json_raw(w, member.raw);
    }
}

static void write_place(ef__json_writer *w, const ef_event *event, ef_str key)
{
    if (event->tenant.len) {
        ef__json_member_str(w, "tenant", event->tenant);
    }
    ef__json_member_int(w, "streamsequence", event->seq);
    ef__json_member_str(w, "partitionkey", key);
}

/* With leading zeros, so that positions also sort as text. Not printf, because there are many. */
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
    ef__json_raw(w, EF_STR("\"specversion\":\"1.0\"")); /* constant members, whole */
    ef__json_member_str(w, "id", event->id);
    ef__json_member_str(w, "type", event->type);
    ef__json_member_str(w, "subject", event->stream);
    ef__json_member_time(w, "time", event->time_us);
    ef__json_member_time(w, "recordedtime", event->recorded_us);
    ef__json_member_text(w, "sequence", sequence);
    if (key)
        write_place(w, event, *key);
    write_meta(w, event, key != NULL, &source);
    if (!source)
        ef__json_raw(w, EF_STR("\"source\":\"/everfold\""));
    ef__json_raw(w, EF_STR("\"datacontenttype\":\"application/json\""));
    ef__json_key(w, "data");
    ef__json_raw(w, event->data);
    ef__json_close(w, '}');
}

ef_str ef__meta_text(ef_str meta, const char *name, ef__arena *arena)
{
    ef__json *tree = NULL;

    /* Few events have it, and parsing each would be most of the cost of a message. */
    if (!memmem(meta.ptr, meta.len, name, strlen(name)) && !memchr(meta.ptr, '\\', meta.len))
        return EF_STR("");
    if (meta.len <= 2 || ef__json_parse(meta, EF_LIMIT_META_BYTES, arena, &tree, NULL) != EF_OK)
        return EF_STR("");
    return ef__json_text(tree, name);
}

/* --- in --------------------------------------------------------------------------------------- */

static bool has_prefix(ef_str text, const char *prefix)
{
    size_t n = strlen(prefix);

    return text.len >= n && strncasecmp(text.ptr, prefix, n) == 0;
}

/* The attributes of an event while they are read. */
typedef struct event_attributes {
    ef_new_event *event;
    ef__arena *arena;
    ef_str version, source, subject, content;
    ef__buf meta;
    ef__json_writer w;
} event_attributes;

static ef_status read_extension(event_attributes *attributes, const ef__slice *member,
                                ef_error *err)
{
    if (!is_name(member->key))
        return ef_fail(err, EF_BAD_INPUT,
                       "'%.*s' is not the name of an attribute: lower-case letters and digits",
                       EF_STR_ARG(member->key));
    if (member->raw.ptr[0] == '{' || member->raw.ptr[0] == '[')
        return ef_fail(err, EF_BAD_INPUT, "%.*s is neither text, a number nor true or false",
                       EF_STR_ARG(member->key));
    if (text_equals(member->raw, "null"))
        return EF_OK;
    ef__json_key_str(&attributes->w, member->key);
    ef__json_raw(&attributes->w, member->raw);
    return EF_OK;
}

static ef_status read_time(event_attributes *attributes, ef_str raw, ef_error *err)
{
    ef_str text;
    ef_status st = ef__slice_text("time", raw, attributes->arena, &text, err);

    if (st == EF_OK && ef_time_parse(text.ptr, text.len, &attributes->event->time_us) != 0)
        st = ef_fail(err, EF_BAD_INPUT, "time is '%.*s', not RFC 3339", EF_STR_ARG(text));
    return st;
}

static ef_status read_attribute(event_attributes *attributes, const ef__slice *member,
                                ef_error *err)
{
    if (text_equals(member->key, "specversion"))
        return ef__slice_text("specversion", member->raw, attributes->arena, &attributes->version,
                              err);
    if (text_equals(member->key, "id"))
        return ef__slice_text("id", member->raw, attributes->arena, &attributes->event->id, err);
    if (text_equals(member->key, "type"))
        return ef__slice_text("type", member->raw, attributes->arena, &attributes->event->type,
                              err);
    if (text_equals(member->key, "subject"))
        return ef__slice_text("subject", member->raw, attributes->arena, &attributes->subject, err);
    if (text_equals(member->key, "datacontenttype"))
        return ef__slice_text("datacontenttype", member->raw, attributes->arena,
                              &attributes->content, err);
    if (text_equals(member->key, "time"))
        return read_time(attributes, member->raw, err);
    if (text_equals(member->key, "data_base64"))
        return ef_fail(err, EF_BAD_INPUT, "data_base64 is not supported: data must be JSON");
    if (text_equals(member->key, "data")) {
        attributes->event->data = member->raw;
        return EF_OK;
    }
    if (text_equals(member->key, "sequence") || text_equals(member->key, "recordedtime"))
        return EF_OK; /* written by us: the event was read from a journal */
    if (text_equals(member->key, "source")) {
        ef_status st =
            ef__slice_text("source", member->raw, attributes->arena, &attributes->source, err);
        return st == EF_OK ? read_extension(attributes, member, err) : st;
    }
    return read_extension(attributes, member, err);
}

static ef_status check_attributes(const event_attributes *attributes, ef_error *err)
{
    if (!text_equals(attributes->version, "1.0"))
        return ef_fail(err, EF_BAD_INPUT, "specversion is '%.*s'; 1.0 is needed",
                       EF_STR_ARG(attributes->version));
    if (attributes->event->id.len == 0 || attributes->source.len == 0 ||
        attributes->event->type.len == 0)
        return ef_fail(err, EF_BAD_INPUT, "a CloudEvent needs id, source and type");
    if (attributes->content.len > 0 && !has_prefix(attributes->content, "application/json") &&
        !memmem(attributes->content.ptr, attributes->content.len, "+json", 5))
        return ef_fail(err, EF_BAD_INPUT, "datacontenttype is '%.*s'; only JSON is taken",
                       EF_STR_ARG(attributes->content));
    if (attributes->event->stream.len == 0)
        return ef_fail(err, EF_BAD_INPUT, "subject is missing: it names the stream");
    return EF_OK;
}

ef_status ef__cloudevent_parse(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                               ef_new_event *out, ef_error *err)
{
    event_attributes attributes = {
        .event = out, .arena = arena, .meta = EF__BUF_INIT(EF_LIMIT_META_BYTES)};
    ef__slice member;
    size_t at = 0;
    bool more = true;
    ef_status st = EF_OK;

    *out = *defaults;
    attributes.w = (ef__json_writer)EF__JSON_WRITER(&attributes.meta);
    ef__json_open(&attributes.w, '{');
    while (st == EF_OK) {
        st = ef__slice_next(text, &at, arena, &member, &more, err);
        if (st != EF_OK || !more)
            break;
        st = read_attribute(&attributes, &member, err);
    }
    ef__json_close(&attributes.w, '}');
    if (st == EF_OK && out->stream.len == 0)
        out->stream = attributes.subject;
    if (st == EF_OK)
        st = check_attributes(&attributes, err);
    if (st == EF_OK && attributes.meta.failed)
        st = ef_fail(err, EF_TOO_LARGE, "the extensions have more than %d bytes",
                     EF_LIMIT_META_BYTES);
    if (st == EF_OK) {
        out->meta = ef__arena_copy(arena, ef__buf_str(&attributes.meta));
        st = out->meta.ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    }
    ef__buf_release(&attributes.meta);
    return st;
}
