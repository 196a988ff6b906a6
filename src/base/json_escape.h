/*
 * json_escape.h - escapes of JSON strings, for json.c only.
 */
#pragma once

#include <everfold/str.h>

#include <stdint.h>

/* The code of \uXXXX at `p`; -1: not four hexadecimal digits. */
static inline int32_t ef__json_hex(const char *p, const char *end)
{
    int32_t code = 0;

    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        char c = p[i];
        if (c >= '0' && c <= '9')
            code = code << 4 | (c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            code = code << 4 | ((c | 0x20) - 'a' + 10);
        else
            return -1;
    }
    return code;
}

/* The length of the escape at `p`, and its character; 0 and the reason when it is invalid. */
static inline size_t ef__json_escape(const char *p, const char *end, uint32_t *out,
                                     const char **out_wrong)
{
    static const char names[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    char name = '\0';

    if (end - p >= 2)
        name = p[1];
    const char *found = name ? strchr(names, name) : NULL;
    if (found) {
        *out = (unsigned char)meant[found - names];
        return 2;
    }
    if (name != 'u') {
        *out_wrong = "a backslash without a known escape";
        return 0;
    }
    int32_t code = ef__json_hex(p, end);
    if (code <= 0) {
        *out_wrong = code ? "\\u without four hexadecimal digits" : "\\u0000 is not allowed";
        return 0;
    }
    *out = (uint32_t)code;
    if (code < 0xD800 || code > 0xDFFF)
        return 6;
    int32_t low = code <= 0xDBFF ? ef__json_hex(p + 6, end) : -1;
    if (low < 0xDC00 || low > 0xDFFF) {
        *out_wrong = "half a surrogate pair";
        return 0;
    }
    *out = 0x10000 + ((uint32_t)(code - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
    return 12;
}

/* UTF-8 of a code point. */
static inline size_t ef__json_encode(uint32_t code, char out[4])
{
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(lead[len] | code);
    return len;
}

/* Iterates over the bytes of a validated string after unescaping. */
typedef struct ef__json_bytes {
    const char *p;
    const char *end;
    char bytes[4];
    size_t used;
    size_t len;
} ef__json_bytes;

static inline int ef__json_next_byte(ef__json_bytes *reader)
{
    const char *wrong;
    uint32_t code;

    if (reader->used < reader->len)
        return (unsigned char)reader->bytes[reader->used++];
    if (*reader->p != '\\')
        return (unsigned char)*reader->p++;
    reader->p += ef__json_escape(reader->p, reader->end, &code, &wrong);
    reader->len = ef__json_encode(code, reader->bytes);
    reader->used = 1;
    return (unsigned char)reader->bytes[0];
}
