/*
 * import.c - one line of an import file into one event.
 *
 * The line is checked whole by the strict door first; after that it is known to be JSON, and its
 * members are walked as slices of the line. So no tree is built of the data, whatever its size, and
 * what is appended are the very bytes of the file.
 */
#include "import.h"
#include "../base/json.h"
#include "../base/limits.h"

#include <everfold/clock.h>

/* --- walking checked JSON ------------------------------------------------------------------------
 */

static const char *skip_space(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
        at++;
    return at;
}

static const char *skip_string(const char *at)
{
    for (at++; *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at + 1;
}

/* Behind the value that starts at `at`. Ends because the text was checked and the object's closing
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
    /* What is left of a number or a word. A container or string is over already. */
    if (at[-1] != '"' && at[-1] != '}' && at[-1] != ']')
        while (*at != ',' && *at != '}' && *at != ' ' && *at != '\t' && *at != '\n' && *at != '\r')
            at++;
    return at;
}

/* --- members -------------------------------------------------------------------------------------
 */

static ef_status text_of(const char *key, ef_str raw, ef__arena *arena, ef_str *out, ef_error *err)
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

static ef_status number_of(const char *key, ef_str raw, int64_t min, int64_t max, int64_t *out,
                           ef_error *err)
{
    ef__json number = {.kind = EF__JSON_NUMBER, .text = raw};
    bool is_number = raw.ptr[0] == '-' || (raw.ptr[0] >= '0' && raw.ptr[0] <= '9');

    if (!is_number || ef__json_int64(&number, out) != 0 || *out < min || *out > max)
        return ef_fail(err, EF_BAD_INPUT, "%s is not a whole number from %lld to %lld", key,
                       (long long)min, (long long)max);
    return EF_OK;
}

static ef_status time_of(ef_str raw, ef__arena *arena, int64_t *out, ef_error *err)
{
    ef_str text;
    ef_status st = text_of("time", raw, arena, &text, err);

    if (st == EF_OK && ef_time_parse(text.ptr, text.len, out) != 0)
        st = ef_fail(err, EF_BAD_INPUT, "time is not RFC 3339, as 2026-11-16T09:30:00Z");
    return st;
}

static bool key_is(ef_str key, const char *name)
{
    return ef_str_equal(key, ef_str_from(name));
}

static ef_status take_member(ef_str key, ef_str raw, ef__arena *arena, ef_new_event *out,
                             ef_error *err)
{
    int64_t n = 0;
    ef_status st;

    if (key_is(key, "tenant"))
        return text_of("tenant", raw, arena, &out->tenant, err);
    if (key_is(key, "stream"))
        return text_of("stream", raw, arena, &out->stream, err);
    if (key_is(key, "type"))
        return text_of("type", raw, arena, &out->type, err);
    if (key_is(key, "time"))
        return time_of(raw, arena, &out->time_us, err);
    if (key_is(key, "id")) {
        st = text_of("id", raw, arena, &out->id, err);
        if (st == EF_OK && out->id.len == 0)
            st = ef_fail(err, EF_BAD_INPUT, "id is empty; leave it out to have one made");
        return st;
    }
    if (key_is(key, "expected_seq")) {
        st = number_of("expected_seq", raw, 0, INT64_MAX, &n, err);
        out->expected_seq = n == 0 ? EF_NO_STREAM : n;
        return st;
    }
    if (key_is(key, "schema")) {
        st = number_of("schema", raw, 1, INT32_MAX, &n, err);
        out->schema = (int32_t)n;
        return st;
    }
    if (key_is(key, "data") || key_is(key, "meta")) {
        *(key_is(key, "data") ? &out->data : &out->meta) = raw;
        return EF_OK;
    }
    return ef_fail(err, EF_BAD_INPUT,
                   "there is no key \"%.*s\"; the keys are stream, type, data, tenant, id, "
                   "expected_seq, meta, schema, time",
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

ef_status cli_import_decode(ef_str line, ef_str tenant, ef__arena *arena, ef_new_event *out,
                            ef_error *err)
{
    ef__json_kind kind = EF__JSON_NULL;
    ef_status st = ef__json_check(line, EF_LIMIT_LINE_BYTES, &kind, err);

    *out = (ef_new_event){.tenant = tenant};
    if (st != EF_OK)
        return st;
    if (kind != EF__JSON_OBJECT)
        return ef_fail(err, EF_BAD_INPUT, "the line is not a JSON object");
    const char *at = skip_space(skip_space(line.ptr) + 1);
    while (*at != '}' && st == EF_OK) {
        ef_str raw_key = {at, 0}, key = {NULL, 0}, raw;
        at = skip_string(at);
        raw_key.len = (size_t)(at - raw_key.ptr);
        st = text_of("key", raw_key, arena, &key, err);
        at = skip_space(skip_space(at) + 1); /* the colon */
        raw.ptr = at;
        at = skip_value(at);
        raw.len = (size_t)(at - raw.ptr);
        if (st == EF_OK)
            st = take_member(key, raw, arena, out, err);
        at = skip_space(at);
        if (*at == ',')
            at = skip_space(at + 1);
    }
    return st == EF_OK ? check_needed(out, err) : st;
}
