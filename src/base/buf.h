/*
 * buf.h - a buffer of bytes that grows up to a maximum that must be named.
 *
 * Growing past the maximum, or running out of memory, makes the buffer fail: it keeps what it has,
 * takes nothing more, and says so until it is reset. So a long run of appends is checked once, at
 * the end. The bytes always end in a NUL that is not counted.
 */
#ifndef EF_BASE_BUF_H
#define EF_BASE_BUF_H

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
/* A name as one token of a subject of NATS: what would be more than one, or is not printable, as
 * %XX; "_" for an empty one, and "%5F" for that one. */
bool ef__buf_add_token(ef__buf *buf, ef_str name);
/* Room for `len` more bytes that the caller writes at ptr + len and then counts in. */
bool ef__buf_reserve(ef__buf *buf, size_t len);
static inline ef_str ef__buf_str(const ef__buf *buf)
{
    ef_str s;
    s.ptr = buf->ptr;
    s.len = buf->len;
    return s;
}
void ef__buf_reset(ef__buf *buf); /* keeps the memory, forgets a failure */
void ef__buf_release(ef__buf *buf);

#endif
