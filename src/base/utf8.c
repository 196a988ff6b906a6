/*
 * utf8.c - validates texts and names.
 */
#include "utf8.h"

#include "limits.h"

#include <inttypes.h>

/* The number of leading bytes below 0x80, counted in eights: most text is ASCII. */
static size_t ascii_run(ef_str text)
{
    size_t n = 0;

    for (; text.len - n >= 8; n += 8) {
        uint64_t eight;
        memcpy(&eight, text.ptr + n, 8);
        if (eight & UINT64_C(0x8080808080808080))
            break;
    }
    while (n < text.len && (unsigned char)text.ptr[n] < 0x80)
        n++;
    return n;
}

bool ef__utf8_valid(ef_str text)
{
    uint32_t c;

    while (text.len > 0) {
        size_t n = ascii_run(text);
        if (n == 0)
            n = ef__character(text, &c);
        if (n == 0)
            return false;
        text.ptr += n;
        text.len -= n;
    }
    return true;
}

ef_str ef__utf8_cut(ef_str text, size_t max_bytes)
{
    size_t len = max_bytes;

    if (text.len <= max_bytes)
        return text;
    /* A character has at most three more bytes: what has more can be cut anywhere. */
    for (int i = 0; i < 3 && len > 0 && ((unsigned char)text.ptr[len] & 0xC0) == 0x80; i++)
        len--;
    if (((unsigned char)text.ptr[len] & 0xC0) == 0x80)
        len = max_bytes;
    text.len = len;
    return text;
}

/* Categories Cc and White_Space of Unicode. */
static bool is_space_or_control(uint32_t c)
{
    return c <= 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static ef_status check_no_space(const char *what, ef_str name, ef_error *err)
{
    uint32_t c = 0;

    for (size_t at = 0; at < name.len;) {
        size_t n = ef__character((ef_str){name.ptr + at, name.len - at}, &c);
        if (is_space_or_control(c))
            return ef_fail(err, EF_BAD_INPUT,
                           "the %s has a space or control character (U+%04" PRIX32 ") at byte %zu",
                           what, c, at);
        at += n;
    }
    return EF_OK;
}

ef_status ef__name_check(const char *what, ef_str name, size_t min_bytes, bool no_space,
                         ef_error *err)
{
    if (name.len < min_bytes) {
        if (name.len == 0)
            return ef_fail(err, EF_BAD_INPUT, "the %s is empty", what);
        return ef_fail(err, EF_BAD_INPUT, "the %s has %zu bytes, at least %zu are needed", what,
                       name.len, min_bytes);
    }
    if (name.len > EF_LIMIT_NAME_BYTES)
        return ef_fail_numbers(err, EF_TOO_LARGE, (int64_t)name.len, EF_LIMIT_NAME_BYTES,
                               "the %s has %zu bytes, at most %d are allowed", what, name.len,
                               EF_LIMIT_NAME_BYTES);
    if (!ef__utf8_valid(name))
        return ef_fail(err, EF_BAD_INPUT, "the %s is not valid UTF-8", what);
    if (name.len > 0 && memchr(name.ptr, '\0', name.len))
        return ef_fail(err, EF_BAD_INPUT, "the %s contains a NUL character", what);
    return no_space ? check_no_space(what, name, err) : EF_OK;
}
