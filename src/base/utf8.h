/*
 * utf8.h - decodes and validates UTF-8; names.
 */
#pragma once

#include <everfold/status.h>
#include <everfold/str.h>

#include <stdint.h>

/* The length in bytes of the first character of `text` (not empty), and its code; 0: `text` does
 * not start with valid UTF-8. */
static inline size_t ef__character(ef_str text, uint32_t *out_code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = (unsigned char)text.ptr[0];
    size_t len = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

    if (len == 0 || lead > 0xf4 || len > text.len)
        return 0;
    uint32_t code = len == 1 ? lead : lead & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)text.ptr[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((unsigned char)text.ptr[i] & 0x3f);
    }
    if (code < smallest[len] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *out_code = code;
    return len;
}

/*
 * Is a character of unknown origin safe to print, in an error message or a log line? A line break
 * there forges a line, an escape sequence controls the terminal, and a direction mark displays the
 * line in another order. False for control characters (C0, DEL, C1), direction marks and line
 * breaks of Unicode.
 */
static inline bool ef__character_is_shown(uint32_t code)
{
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f))
        return false;
    if (code == 0x61c || code == 0x200e || code == 0x200f)
        return false;
    return !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069);
}

/* Is all of it valid UTF-8 (no overlong forms, no surrogates, at most U+10FFFF)? */
bool ef__utf8_valid(ef_str text);

/* The longest prefix of at most `max_bytes` that ends between characters. */
ef_str ef__utf8_cut(ef_str text, size_t max_bytes);

/*
 * A tenant, stream, id, lane or type: valid UTF-8, no NUL, `min_bytes` to EF_LIMIT_NAME_BYTES.
 * `what` names it in the message: "stream". A type (`no_space`) also has no white space and no
 * control character, including those of Unicode. EF_TOO_LARGE: too long; otherwise EF_BAD_INPUT.
 */
ef_status ef__name_check(const char *what, ef_str name, size_t min_bytes, bool no_space,
                         ef_error *err);
