/*
 * json_write.c - writes JSON text. A failed buffer ignores additions, so nothing is checked here
 * and the caller checks once, at the end.
 */
#include "json.h"

#include "limits.h"
#include "same.h"

#include <everfold/clock.h>

#include <stdlib.h>

enum { RUNS = 32 }; /* sorted runs: each is twice as long as the one before, so 2^32 members */

static bool write_canonical(const ef__json *value, size_t depth, ef__buf *out);

static inline bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Eight bytes at once. Subtracting the bound from a byte below it borrows and sets its highest bit;
 * ~ keeps that bit only where it was not set before, so bytes of UTF-8 sequences do not count. */
static inline bool are_plain(const char *eight)
{
    uint64_t v, quote, backslash;

    memcpy(&v, eight, sizeof v);
    quote = v ^ EACH('"');
    backslash = v ^ EACH('\\');
    v = (v - EACH(0x20)) & ~v;
    quote = (quote - EACH(1)) & ~quote;
    backslash = (backslash - EACH(1)) & ~backslash;
    return ((v | quote | backslash) & EACH(0x80)) == 0;
}

static size_t plain_length(ef_str text)
{
    size_t n = 0;

    while (n + 8 <= text.len && are_plain(text.ptr + n))
        n += 8;
    while (n < text.len && is_plain((unsigned char)text.ptr[n]))
        n++;
    return n;
}

/* A text without escapes, which is the common case, with its quotes at once. */
static bool add_plain(ef__buf *out, ef_str text)
{
    char *at;

    if (!ef__buf_reserve(out, text.len + 2))
        return false;
    at = out->ptr + out->len;
    at[0] = '"';
    if (text.len)
        memcpy(at + 1, text.ptr, text.len);
    at[text.len + 1] = '"';
    at[text.len + 2] = '\0';
    out->len += text.len + 2;
    return true;
}

/* The shortest form: two characters where JSON has one, else six. */
static bool add_escape(ef__buf *out, unsigned char c)
{
    static const char *const two[0x20] = {
        ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f", ['\r'] = "\\r"};

    if (c == '"')
        return ef__buf_add_text(out, "\\\"");
    if (c == '\\')
        return ef__buf_add_text(out, "\\\\");
    if (two[c])
        return ef__buf_add_text(out, two[c]);
    return ef__buf_printf(out, "\\u%04x", c);
}

bool ef__json_write_string(ef__buf *out, ef_str text)
{
    size_t done = 0, plain = plain_length(text);

    if (plain == text.len)
        return add_plain(out, text);
    ef__buf_add_char(out, '"');
    for (size_t i = plain; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (is_plain(c))
            continue;
        ef__buf_add(out, text.ptr + done, i - done);
        add_escape(out, c);
        done = i + 1;
    }
    if (done < text.len)
        ef__buf_add(out, text.ptr + done, text.len - done);
    return ef__buf_add_char(out, '"');
}

static ef__json *merge_members(ef__json *a, ef__json *b)
{
    ef__json *first = NULL, **end = &first;

    while (a && b) {
        ef__json **least = ef__str_compare(a->key, b->key) < 0 ? &a : &b;
        *end = *least;
        end = &(*least)->next;
        *least = *end;
    }
    *end = a ? a : b;
    return first;
}

/* Merge sort of the list: runs[i] is NULL or has 2^i members. */
static ef__json *sort_members(ef__json *member)
{
    ef__json *runs[RUNS] = {NULL}, *all = NULL;

    while (member) {
        ef__json *run = member;
        size_t i = 0;
        member = member->next;
        run->next = NULL;
        for (; runs[i]; i++) {
            run = merge_members(runs[i], run);
            runs[i] = NULL;
        }
        runs[i] = run;
    }
    for (size_t i = 0; i < RUNS; i++)
        all = merge_members(runs[i], all);
    return all;
}

const ef__json *ef__json_sorted(const ef__json *object)
{
    ef__json *own = (ef__json *)object; /* the order of members is not part of the value */
    const ef__json *child = object->first;

    if (object->sorted)
        return object->first;
    while (child && child->next && ef__str_compare(child->key, child->next->key) < 0)
        child = child->next;
    if (child && child->next)
        own->first = sort_members(own->first);
    own->sorted = true;
    return own->first;
}

bool ef__json_canonical(const ef__json *value, ef__buf *out)
{
    if (!write_canonical(value, 0, out))
        out->failed = true;
    return !out->failed;
}

static void before_value(ef__json_writer *w)
{
    if (w->comma)
        ef__buf_add_char(w->out, ',');
    w->comma = true;
}

void ef__json_open(ef__json_writer *w, char bracket)
{
    before_value(w);
    ef__buf_add_char(w->out, bracket);
    w->comma = false;
}

void ef__json_close(ef__json_writer *w, char bracket)
{
    ef__buf_add_char(w->out, bracket);
    w->comma = true;
}

void ef__json_key_str(ef__json_writer *w, ef_str key)
{
    before_value(w);
    ef__json_write_string(w->out, key);
    ef__buf_add_char(w->out, ':');
    w->comma = false;
}

void ef__json_key(ef__json_writer *w, const char *key)
{
    ef__json_key_str(w, ef_str_from(key));
}

void ef__json_str(ef__json_writer *w, ef_str value)
{
    before_value(w);
    ef__json_write_string(w->out, value);
}

void ef__json_int(ef__json_writer *w, int64_t value)
{
    before_value(w);
    ef__buf_add_int(w->out, value);
}

void ef__json_bool(ef__json_writer *w, bool value)
{
    before_value(w);
    ef__buf_add_text(w->out, value ? "true" : "false");
}

void ef__json_null(ef__json_writer *w)
{
    before_value(w);
    ef__buf_add_text(w->out, "null");
}

void ef__json_raw(ef__json_writer *w, ef_str value)
{
    before_value(w);
    ef__buf_add_str(w->out, value);
}

void ef__json_time(ef__json_writer *w, int64_t time_us)
{
    char text[EF_TIME_TEXT_MAX];

    if (time_us == 0) {
        ef__json_null(w);
        return;
    }
    ef_time_format(time_us, text);
    ef__json_str(w, ef_str_from(text));
}

void ef__json_member_str(ef__json_writer *w, const char *key, ef_str value)
{
    ef__json_key(w, key);
    ef__json_str(w, value);
}

void ef__json_member_name(ef__json_writer *w, const char *key, ef_str value)
{
    ef__json_key(w, key);
    if (value.len > 0)
        ef__json_str(w, value);
    else
        ef__json_null(w);
}

void ef__json_member_text(ef__json_writer *w, const char *key, const char *value)
{
    ef__json_member_str(w, key, ef_str_from(value));
}

void ef__json_member_int(ef__json_writer *w, const char *key, int64_t value)
{
    ef__json_key(w, key);
    ef__json_int(w, value);
}

void ef__json_member_bool(ef__json_writer *w, const char *key, bool value)
{
    ef__json_key(w, key);
    ef__json_bool(w, value);
}

void ef__json_member_time(ef__json_writer *w, const char *key, int64_t time_us)
{
    ef__json_key(w, key);
    ef__json_time(w, time_us);
}

void ef__json_member_raw(ef__json_writer *w, const char *key, ef_str value)
{
    ef__json_key(w, key);
    if (value.ptr)
        ef__json_raw(w, value);
    else
        ef__json_null(w);
}

void ef__json_member_open(ef__json_writer *w, const char *key, char bracket)
{
    ef__json_key(w, key);
    ef__json_open(w, bracket);
}

static bool write_sorted(const ef__json *object, size_t depth, ef__buf *out)
{
    const ef__json *first = ef__json_sorted(object);

    ef__buf_add_char(out, '{');
    for (const ef__json *member = first; member; member = member->next) {
        if (member != first)
            ef__buf_add_char(out, ',');
        ef__json_write_string(out, member->key);
        ef__buf_add_char(out, ':');
        if (!write_canonical(member, depth + 1, out))
            return false;
    }
    return ef__buf_add_char(out, '}');
}

/* The recursion is bounded: the parser limits the depth, and a deeper tree is refused here too. */
static bool write_canonical(const ef__json *value, size_t depth, ef__buf *out)
{
    if (depth > EF_LIMIT_JSON_DEPTH)
        return false;
    switch (value->kind) {
    case EF__JSON_STRING:
        return ef__json_write_string(out, value->text);
    case EF__JSON_OBJECT:
        return write_sorted(value, depth, out);
    case EF__JSON_ARRAY:
        ef__buf_add_char(out, '[');
        for (const ef__json *child = value->first; child; child = child->next) {
            if (child != value->first)
                ef__buf_add_char(out, ',');
            if (!write_canonical(child, depth + 1, out))
                return false;
        }
        return ef__buf_add_char(out, ']');
    default:
        return ef__buf_add_str(out, value->text);
    }
}
