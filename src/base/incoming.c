/*
 * incoming.c - decodes events from JSON.
 *
 * The whole text is validated first; then its members are read as slices of it. So no tree is built
 * of the data, whatever its size, and the appended bytes are exactly those that were received.
 */
#include "incoming.h"
#include "json.h"
#include "limits.h"

#include <everfold/clock.h>

/* --- walking checked JSON --------------------------------------------------------------------- */

static const char *skip_space(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
        at++;
    return at;
}

/* A quote ends the string unless an odd number of backslashes precedes it. */
static const char *skip_string(const char *at)
{
    const char *start = ++at;

    for (;; at++) {
        size_t backslashes = 0;
        at = rawmemchr(at, '"');
        while (at - backslashes > start && at[-1 - (ptrdiff_t)backslashes] == '\\')
            backslashes++;
        if (backslashes % 2 == 0)
            return at + 1;
    }
}

/* The end of the value at `at`. The loop ends because the text is valid and the outer closing
 * bracket is still ahead. */
static const char *skip_value(const char *at)
{
    size_t depth = 0;

    do {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if (*at == '}' || *at == ']')
            depth--;
        at++;
    } while (depth > 0);
    /* The rest of a number or a word. A container or string has ended already. */
    if (at[-1] != '"' && at[-1] != '}' && at[-1] != ']')
        while (*at != ',' && *at != '}' && *at != ']' && *at != ' ' && *at != '\t' && *at != '\n' &&
               *at != '\r')
            at++;
    return at;
}

/* --- members ---------------------------------------------------------------------------------- */

ef_status ef__slice_text(const char *key, ef_str raw, ef__arena *arena, ef_str *out, ef_error *err)
{
    ef__json *value = NULL;
    ef_status st;

    if (raw.ptr[0] != '"')
        return ef_fail(err, EF_BAD_INPUT, "%s is not a string", key);
    if (!memchr(raw.ptr, '\\', raw.len)) {
        *out = (ef_str){raw.ptr + 1, raw.len - 2};
        return EF_OK;
    }
    st = ef__json_parse(raw, EF_LIMIT_LINE_BYTES, arena, &value, err);
    if (st == EF_OK)
        *out = value->text;
    return st;
}

static bool key_is(ef_str key, const char *name)
{
    return ef_str_equal(key, ef_str_from(name));
}

static ef_status read_number(const char *key, ef_str raw, int64_t min, int64_t max, int64_t *out,
                             ef_error *err)
{
    ef__json number = {.kind = EF__JSON_NUMBER, .text = raw};
    bool is_number = raw.ptr[0] == '-' || (raw.ptr[0] >= '0' && raw.ptr[0] <= '9');

    if (!is_number || ef__json_int64(&number, out) != 0 || *out < min || *out > max)
        return ef_fail(err, EF_BAD_INPUT, "%s is not a whole number from %lld to %lld", key,
                       (long long)min, (long long)max);
    return EF_OK;
}

static ef_status read_time(const char *key, ef_str raw, ef__arena *arena, int64_t *out,
                           ef_error *err)
{
    ef_str text = {0};
    ef_status st = ef__slice_text(key, raw, arena, &text, err);

    if (st == EF_OK && ef_time_parse(text.ptr, text.len, out) != 0)
        st = ef_fail(err, EF_BAD_INPUT, "%s is not RFC 3339, as 2026-11-16T09:30:00Z", key);
    return st;
}

/* The stream must be at `seq`: from expected_seq, or from the seq of an event that was read. */
static ef_status expect_seq(int64_t seq, ef_new_event *out, ef_error *err)
{
    ef_expected_seq expected = ef_expect_seq(seq);

    if (out->expected_seq.plus_one != 0 && out->expected_seq.plus_one != expected.plus_one)
        return ef_fail(err, EF_BAD_INPUT, "seq and expected_seq contradict each other");
    out->expected_seq = expected;
    return EF_OK;
}

/* Values that a journal assigned to an event. The seq is a condition: the stream must be at the seq
 * before it. Position and recording time are only checked for their form, because the target
 * journal assigns its own. */
static ef_status read_assigned(ef_str key, ef_str raw, ef__arena *arena, ef_new_event *out,
                               ef_error *err)
{
    int64_t n = 0;
    ef_status st;

    if (key_is(key, "recorded_at"))
        return read_time("recorded_at", raw, arena, &n, err);
    if (key_is(key, "position"))
        return read_number("position", raw, 1, INT64_MAX, &n, err);
    st = read_number("seq", raw, 1, INT64_MAX, &n, err);
    return st == EF_OK ? expect_seq(n - 1, out, err) : st;
}

static ef_status read_member(ef_str key, ef_str raw, ef__arena *arena, ef_new_event *out,
                             ef_error *err)
{
    int64_t n = 0;
    ef_status st;

    if (key_is(key, "tenant"))
        return ef__slice_text("tenant", raw, arena, &out->tenant, err);
    if (key_is(key, "stream"))
        return ef__slice_text("stream", raw, arena, &out->stream, err);
    if (key_is(key, "type"))
        return ef__slice_text("type", raw, arena, &out->type, err);
    if (key_is(key, "time"))
        return read_time("time", raw, arena, &out->time_us, err);
    if (key_is(key, "id")) {
        st = ef__slice_text("id", raw, arena, &out->id, err);
        if (st == EF_OK && out->id.len == 0)
            st = ef_fail(err, EF_BAD_INPUT, "id is empty; leave it out to have one generated");
        return st;
    }
    if (key_is(key, "expected_seq")) {
        if (key_is(raw, "null"))
            return EF_OK;
        st = read_number("expected_seq", raw, 0, INT64_MAX, &n, err);
        return st == EF_OK ? expect_seq(n, out, err) : st;
    }
    if (key_is(key, "schema")) {
        st = read_number("schema", raw, 1, INT32_MAX, &n, err);
        out->schema = (int32_t)n;
        return st;
    }
    if (key_is(key, "data") || key_is(key, "meta")) {
        *(key_is(key, "data") ? &out->data : &out->meta) = raw;
        return EF_OK;
    }
    if (key_is(key, "seq") || key_is(key, "position") || key_is(key, "recorded_at"))
        return read_assigned(key, raw, arena, out, err);
    return ef_fail(err, EF_BAD_INPUT,
                   "unknown key \"%.*s\"; the keys are stream, type, data, tenant, id, "
                   "expected_seq, meta, schema, time, seq, position, recorded_at",
                   (int)(key.len < 100 ? key.len : 100), key.ptr ? key.ptr : "");
}

static ef_status check_needed(const ef_new_event *event, ef_error *err)
{
    if (!event->stream.ptr)
        return ef_fail(err, EF_BAD_INPUT, "stream is missing");
    if (!event->type.ptr)
        return ef_fail(err, EF_BAD_INPUT, "type is missing");
    if (!event->data.ptr)
        return ef_fail(err, EF_BAD_INPUT, "data is missing");
    return EF_OK;
}

ef_status ef__slice_next(ef_str text, size_t *at, ef__arena *arena, ef__slice *out, bool *out_more,
                         ef_error *err)
{
    const char *p = text.ptr + *at;
    bool object;
    ef_str key;
    ef_status st = EF_OK;

    if (*at == 0)
        p = skip_space(p) + 1;
    object = *skip_space(text.ptr) == '{';
    p = skip_space(p);
    if (*p == ',')
        p = skip_space(p + 1);
    *out_more = *p != '}' && *p != ']';
    *out = (ef__slice){{"", 0}, {NULL, 0}};
    if (!*out_more)
        return EF_OK;
    if (object) {
        key.ptr = p;
        p = skip_string(p);
        key.len = (size_t)(p - key.ptr);
        st = ef__slice_text("key", key, arena, &out->key, err);
        p = skip_space(skip_space(p) + 1); /* the colon */
    }
    out->raw.ptr = p;
    p = skip_value(p);
    out->raw.len = (size_t)(p - out->raw.ptr);
    *at = (size_t)(p - text.ptr);
    return st;
}

ef_status ef__event_parse(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                          ef_new_event *out, ef_error *err)
{
    ef__slice member;
    size_t at = 0;
    bool more = true;
    ef_status st = EF_OK;

    *out = *defaults;
    while (st == EF_OK) {
        st = ef__slice_next(text, &at, arena, &member, &more, err);
        if (st != EF_OK || !more)
            break;
        st = read_member(member.key, member.raw, arena, out, err);
    }
    return st == EF_OK ? check_needed(out, err) : st;
}

ef_status ef__event_decode(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                           ef_new_event *out, ef_error *err)
{
    ef__json_kind kind = EF__JSON_NULL;
    ef_status st = ef__json_check_envelope(text, EF_LIMIT_LINE_BYTES, &kind, err);

    if (st == EF_OK && kind != EF__JSON_OBJECT)
        st = ef_fail(err, EF_BAD_INPUT, "the event is not a JSON object");
    return st == EF_OK ? ef__event_parse(text, defaults, arena, out, err) : st;
}
