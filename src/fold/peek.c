/*
 * peek.c - a scan for brackets, quotes and commas, and reading what is wanted.
 */
#include "peek.h"

#include "../base/limits.h"

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && *p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* From behind an opening quote to the closing one; NULL when there is none. `*out_plain`: all
 * between is ASCII without controls and backslashes. Eight bytes at a time: the lowest top bit of
 * `stop` stands where the first quote or backslash is, and what is odd up to there counts. */
static const char *find_quote(const char *p, const char *end, bool *out_plain)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t tops = ones * 0x80;
    uint64_t strange = 0;

    for (;;) {
        while (end - p >= 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
            uint64_t x;
            memcpy(&x, p, 8);
            uint64_t quote = x ^ ones * '"';
            uint64_t slash = x ^ ones * '\\';
            uint64_t stop = (((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops;
            uint64_t odd = (x | (x - ones * 0x20)) & tops;
            if (stop) {
                strange |= odd & (stop ^ (stop - 1));
                p += __builtin_ctzll(stop) / 8;
                break;
            }
            strange |= odd;
            p += 8;
        }
        for (; p < end && *p != '"' && *p != '\\'; p++)
            strange |= (unsigned char)*p < 0x20 || (unsigned char)*p >= 0x80;
        if (p >= end)
            return NULL;
        if (*p == '"') {
            *out_plain = strange == 0;
            return p;
        }
        if (end - p < 2)
            return NULL;
        strange = 1;
        p += 2;
    }
}

/* From an opening bracket to behind the one that closes it. */
static const char *skip_container(const char *p, const char *end)
{
    bool plain;
    int depth = 0;

    for (; p < end; p++) {
        if (*p == '"') {
            p = find_quote(p + 1, end, &plain);
            if (!p)
                return NULL;
        } else if (*p == '[' || *p == '{') {
            depth++;
        } else if ((*p == ']' || *p == '}') && --depth == 0) {
            return p + 1;
        }
    }
    return NULL;
}

static const char *skip_value(const char *p, const char *end, bool *out_plain)
{
    if (p == end)
        return NULL;
    if (*p == '[' || *p == '{')
        return skip_container(p, end);
    if (*p == '"') {
        p = find_quote(p + 1, end, out_plain);
        return p ? p + 1 : NULL;
    }
    while (p < end && *p != ',' && *p != '}' && *p > ' ')
        p++;
    return p;
}

bool ef__peek_begin(ef__peek *peek, ef_str data)
{
    peek->end = data.ptr + data.len;
    peek->next = skip_space(data.ptr, peek->end);
    peek->count = 0;
    if (data.len > EF_LIMIT_DATA_BYTES || peek->next == peek->end || *peek->next != '{')
        return false;
    peek->next = skip_space(peek->next + 1, peek->end);
    if (peek->next < peek->end && *peek->next == '}')
        peek->next = NULL;
    return true;
}

/* Note the next member; false when the text is not as expected. */
static bool scan_member(ef__peek *peek)
{
    const char *end = peek->end;
    const char *p = peek->next;
    ef__peek_member *member = &peek->members[peek->count];
    bool plain;

    if (p == end || *p != '"' || peek->count == EF__PEEK_MEMBERS)
        return false;
    const char *close = find_quote(p + 1, end, &plain);
    if (!close || (!plain && memchr(p, '\\', (size_t)(close - p))))
        return false;
    member->key = (ef_str){p + 1, (size_t)(close - p) - 1};
    p = skip_space(close + 1, end);
    if (p == end || *p != ':')
        return false;
    p = skip_space(p + 1, end);
    member->plain = false;
    const char *behind = skip_value(p, end, &member->plain);
    if (!behind || behind == p)
        return false;
    member->raw = (ef_str){p, (size_t)(behind - p)};
    member->read = false;
    peek->count++;
    p = skip_space(behind, end);
    if (p == end || (*p != ',' && *p != '}'))
        return false;
    peek->next = *p == ',' ? skip_space(p + 1, end) : NULL;
    return true;
}

static ef_status read_member(ef__peek_member *member, ef__arena *arena, ef_error *err)
{
    ef_str raw = member->raw;
    ef__json *json = NULL;

    if (raw.ptr[0] == '"' && member->plain) {
        member->value = ef__value_string((ef_str){raw.ptr + 1, raw.len - 2});
        member->value.plain = true;
        return EF_OK;
    }
    if (ef__value_short(raw, &member->value))
        return EF_OK;
    ef_status st = ef__json_parse(raw, EF_LIMIT_DATA_BYTES, arena, &json, err);
    member->value = ef__value_from_json(json);
    return st;
}

ef_status ef__peek_get(ef__peek *peek, ef_str key, ef__arena *arena, ef__value *out,
                       bool *out_strict, ef_error *err)
{
    *out = EF__MISSING;
    for (size_t i = 0;; i++) {
        if (i == peek->count && !peek->next)
            return EF_OK;
        if (i == peek->count && !scan_member(peek)) {
            *out_strict = true;
            return EF_OK;
        }
        ef__peek_member *member = &peek->members[i];
        if (member->key.len != key.len || memcmp(member->key.ptr, key.ptr, key.len) != 0)
            continue;
        ef_status st = member->read ? EF_OK : read_member(member, arena, err);
        member->read = st == EF_OK;
        *out = member->value;
        return st;
    }
}
