/*
 * same.h - compares names inline, because folding an event does this some twenty times; and splits
 * texts.
 */
#pragma once

#include <everfold/str.h>

#include <stdint.h>

static inline uint64_t ef__load8(const char *at)
{
    uint64_t bytes;

    memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

static inline uint32_t ef__load4(const char *at)
{
    uint32_t bytes;

    memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

/* Eight bytes at a time; the last eight overlap those before. */
static inline bool ef__bytes_same(const char *a, const char *b, size_t len)
{
    if (len >= 8) {
        for (size_t i = 0; i + 8 < len; i += 8)
            if (ef__load8(a + i) != ef__load8(b + i))
                return false;
        return ef__load8(a + len - 8) == ef__load8(b + len - 8);
    }
    if (len >= 4)
        return ef__load4(a) == ef__load4(b) && ef__load4(a + len - 4) == ef__load4(b + len - 4);
    return len == 0 || (a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1]);
}

static inline bool ef__str_same(ef_str a, ef_str b)
{
    return a.len == b.len && ef__bytes_same(a.ptr, b.ptr, a.len);
}

static inline bool ef__str_starts(ef_str text, const char *with)
{
    size_t len = strlen(with);

    return text.len >= len && memcmp(text.ptr, with, len) == 0;
}

/* Splits off the text before the first `separator`, or all of it. `*rest` is what follows it. */
static inline ef_str ef__str_split(ef_str *rest, char separator)
{
    const char *end = rest->len ? (const char *)memchr(rest->ptr, separator, rest->len) : NULL;
    ef_str first = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};

    *rest = end ? (ef_str){end + 1, rest->len - first.len - 1} : (ef_str){0};
    return first;
}

/* The order of names: by bytes, a shorter one first. As memcmp returns it. */
static inline int ef__str_compare(ef_str a, ef_str b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter ? memcmp(a.ptr, b.ptr, shorter) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Moves past the next line of `rest`; `out` is without its newline. False at the end. */
static inline bool ef__line_next(ef_str *rest, ef_str *out)
{
    if (rest->len == 0)
        return false;
    *out = ef__str_split(rest, '\n');
    return true;
}

static inline bool ef__is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Without white space at its ends. */
static inline ef_str ef__str_trim(ef_str text)
{
    while (text.len > 0 && ef__is_space(text.ptr[text.len - 1]))
        text.len--;
    while (text.len > 0 && ef__is_space(text.ptr[0]))
        text = (ef_str){text.ptr + 1, text.len - 1};
    return text;
}
