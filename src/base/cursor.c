/*
 * cursor.c - a cursor is its kind, two numbers and a checksum, in hexadecimal:
 *
 *     k aaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbb ssssssss      without the spaces
 *
 * The checksum is not secret: it detects cut, mistyped and foreign text, not forgery. A forged
 * cursor starts a page elsewhere in the same list, which the client may read anyway.
 */
#include "cursor.h"

#include "hash.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    NUMBER_CHARS = 16,
    SUM_CHARS = 8,
    SUM_AT = 1 + 2 * NUMBER_CHARS,
    CURSOR_CHARS = SUM_AT + SUM_CHARS
};

static_assert(CURSOR_CHARS < EF_CURSOR_MAX, "a cursor and its NUL fit");

/* A seed of our own, so that checksums of other programs over the same text differ. */
#define SUM_SEED UINT64_C(0x65766572666f6c64)

static uint32_t cursor_sum(const char *text)
{
    return (uint32_t)ef__xxh3((ef_str){text, SUM_AT}, SUM_SEED);
}

/* Used by an assert only. */
static __attribute__((unused)) bool is_kind(char kind)
{
    return (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z');
}

void ef__cursor_format(char kind, int64_t a, int64_t b, char out[EF_CURSOR_MAX])
{
    assert(is_kind(kind));
    (void)snprintf(out, EF_CURSOR_MAX, "%c%016" PRIx64 "%016" PRIx64, kind, (uint64_t)a,
                   (uint64_t)b);
    (void)snprintf(out + SUM_AT, EF_CURSOR_MAX - SUM_AT, "%08" PRIx32, cursor_sum(out));
}

/* Lower case only: every cursor has one spelling. */
static bool read_hex(const char *text, size_t len, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *out = *out << 4 | (uint64_t)(c - 'a' + 10);
        else
            return false;
    }
    return true;
}

ef_status ef__cursor_parse(char kind, ef_str text, int64_t *out_a, int64_t *out_b, ef_error *err)
{
    uint64_t a = 0, b = 0, sum;

    assert(is_kind(kind));
    if (text.len > 0 &&
        (text.len != CURSOR_CHARS || text.ptr[0] != kind ||
         !read_hex(text.ptr + 1, NUMBER_CHARS, &a) ||
         !read_hex(text.ptr + 1 + NUMBER_CHARS, NUMBER_CHARS, &b) ||
         !read_hex(text.ptr + SUM_AT, SUM_CHARS, &sum) || sum != cursor_sum(text.ptr)))
        return ef_fail(err, EF_BAD_INPUT,
                       "\"%.*s\" is not a cursor of this list: use \"next\" of the previous page",
                       (int)(text.len < EF_CURSOR_MAX ? text.len : EF_CURSOR_MAX), text.ptr);
    *out_a = (int64_t)a;
    *out_b = (int64_t)b;
    return EF_OK;
}
