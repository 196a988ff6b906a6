/*
 * peek.c - a scan for brackets, quotes and commas, and reading what is wanted.
 */
#include "peek.h"

#include "../base/limits.h"

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* From behind an opening quote to the closing one; NULL when there is none. Eight bytes at a time:
 * the lowest top bit of `odd` stands where the first quote or backslash is. */
static const char *find_quote(const char *p, const char *end, bool *out_escape)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);

    for (;;) {
        while (end - p >= 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
            uint64_t x;
            memcpy(&x, p, 8);
            uint64_t quote = x ^ ones * '"';
            uint64_t slash = x ^ ones * '\\';
            uint64_t odd = (((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & ones * 0x80;
            if (odd) {
                p += __builtin_ctzll(odd) / 8;
                break;
            }
            p += 8;
        }
        while (p < end && *p != '"' && *p != '\\')
            p++;
        if (p >= end || *p == '"')
            return p < end ? p : NULL;
        *out_escape = true;
        p += 2;
        if (p > end)
            return NULL;
    }
}

/* From an opening bracket to behind the one that closes it. */
static const char *skip_container(const char *p, const char *end)
{
    bool escape;
    int depth = 0;

    for (; p < end; p++) {
        if (*p == '"') {
            p = find_quote(p + 1, end, &escape);
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

static const char *skip_value(const char *p, const char *end)
{
    bool escape;

    if (p == end)
        return NULL;
    if (*p == '[' || *p == '{')
        return skip_container(p, end);
    if (*p == '"') {
        p = find_quote(p + 1, end, &escape);
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
    bool escape = false;

    if (p == end || *p != '"' || peek->count == EF__PEEK_MEMBERS)
        return false;
    const char *close = find_quote(p + 1, end, &escape);
    if (!close || escape)
        return false;
    ef_str key = {p + 1, (size_t)(close - p) - 1};
    p = skip_space(close + 1, end);
    if (p == end || *p != ':')
        return false;
    p = skip_space(p + 1, end);
    const char *behind = skip_value(p, end);
    if (!behind || behind == p)
        return false;
    ef__peek_member *member = &peek->members[peek->count++];
    member->key = key;
    member->raw = (ef_str){p, (size_t)(behind - p)};
    member->read = false;
    p = skip_space(behind, end);
    if (p == end || (*p != ',' && *p != '}'))
        return false;
    peek->next = *p == ',' ? skip_space(p + 1, end) : NULL;
    return true;
}

/* A text between quotes that is ASCII without controls, quotes and backslashes: itself. */
static bool is_simple(ef_str text)
{
    unsigned char all = 0;

    for (size_t i = 0; i < text.len; i++)
        all |= (unsigned char)text.ptr[i];
    return all < 0x80 && ef__text_is_plain(text);
}

static ef_status read_member(ef__peek_member *member, ef__arena *arena, ef_error *err)
{
    ef_str raw = member->raw;
    ef__number_parts parts;
    ef__json *json = NULL;

    if (raw.ptr[0] == '"') {
        ef_str inner = {raw.ptr + 1, raw.len - 2};
        if (is_simple(inner)) {
            member->value = ef__value_string(inner);
            member->value.plain = true;
            return EF_OK;
        }
    } else if (raw.ptr[0] >= '0' && raw.ptr[0] <= '9' && ef__number_scan(raw, &parts) == EF_OK &&
               parts.len == raw.len) {
        ef__json number = {.kind = EF__JSON_NUMBER, .text = raw};
        member->value = ef__value_from_json(&number);
        return EF_OK;
    }
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
