/*
 * buf.h - a byte buffer that grows up to a maximum, which the caller sets.
 *
 * Growing past the maximum, or running out of memory, makes the buffer fail: it keeps its content,
 * ignores further additions, and `failed` stays set until a reset. So a series of additions is
 * checked once, at the end. The content always ends with a NUL that is not counted.
 */
#pragma once

#include "arena.h"

#include <everfold/str.h>

#include <stdint.h>

typedef struct ef__buf {
    char *ptr;
    size_t len;
    size_t cap;
    size_t max_bytes;
    bool failed;
} ef__buf;

#define EF__BUF_INIT(max)                                                                          \
    {                                                                                              \
        NULL, 0, 0, (max), false                                                                   \
    }

bool ef__buf_add(ef__buf *buf, const void *bytes, size_t len);
bool ef__buf_add_str(ef__buf *buf, ef_str text);
bool ef__buf_add_text(ef__buf *buf, const char *text); /* a C string */
bool ef__buf_add_char(ef__buf *buf, char c);
bool ef__buf_add_int(ef__buf *buf, int64_t value); /* in decimal */
bool ef__buf_printf(ef__buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a text; the characters of `escaped`, and bytes that are not printable ASCII, as %XX. */
bool ef__buf_add_escaped(ef__buf *buf, ef_str text, const char *escaped);
/* Adds a name as one token of a NATS subject: bytes that a token cannot hold, or that are not
 * printable, as %XX; an empty name as "_", and the name "_" as "%5F". */
bool ef__buf_add_token(ef__buf *buf, ef_str name);
/* Appends `text`, compressed. False: no memory, or past the maximum; `out` is unchanged. */
bool ef__gzip(ef_str text, ef__buf *out);
/* Reserves space for `len` more bytes, which the caller writes at ptr + len and adds to `len`. */
bool ef__buf_reserve(ef__buf *buf, size_t len);
static inline ef_str ef__buf_str(const ef__buf *buf)
{
    ef_str s;
    s.ptr = buf->ptr;
    s.len = buf->len;
    return s;
}
void ef__buf_reset(ef__buf *buf); /* keeps the memory, clears a failure */
void ef__buf_release(ef__buf *buf);
EF__AUTO_TYPE(ef__buf, ef__buf_release)
