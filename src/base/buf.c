/*
 * buf.c - grows by doubling, up to the maximum.
 *
 * Once ptr is set, cap > len: there is always space for the NUL, which the maximum does not count.
 */
#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define WINDOW_GZIP (15 + 16) /* the largest window, and the header of gzip instead of zlib */
#define MEMORY_GZIP 8         /* zlib's default */

enum { CAP_FIRST = 64 }; /* bytes: most buffers hold a line or less */

/* The new capacity for `needed` bytes, including the NUL, within the maximum. */
static size_t grown_cap(const ef__buf *buf, size_t needed)
{
    size_t cap = buf->cap ? buf->cap : CAP_FIRST;

    while (cap < needed)
        cap = cap > SIZE_MAX / 2 ? needed : cap * 2;
    /* needed - 1 is within the maximum, so the result is never less than `needed`. */
    return cap - 1 > buf->max_bytes ? buf->max_bytes + 1 : cap;
}

bool ef__buf_reserve(ef__buf *buf, size_t len)
{
    if (buf->failed)
        return false;
    if (buf->ptr && len < buf->cap - buf->len)
        return true;
    if (len > buf->max_bytes - buf->len || buf->len + len >= PTRDIFF_MAX) {
        buf->failed = true;
        return false;
    }
    size_t cap = grown_cap(buf, buf->len + len + 1);
    char *ptr = realloc(buf->ptr, cap);
    if (!ptr) {
        buf->failed = true;
        return false;
    }
    buf->ptr = ptr;
    buf->cap = cap;
    buf->ptr[buf->len] = '\0';
    return true;
}

/* The common case: a few bytes, and there is space. */
static inline bool has_room(const ef__buf *buf, size_t len)
{
    return buf->ptr && !buf->failed && len < buf->cap - buf->len;
}

bool ef__buf_add(ef__buf *buf, const void *bytes, size_t len)
{
    if (!has_room(buf, len) && !ef__buf_reserve(buf, len))
        return false;
    if (len > 0)
        memcpy(buf->ptr + buf->len, bytes, len);
    buf->len += len;
    buf->ptr[buf->len] = '\0';
    return true;
}

bool ef__buf_add_str(ef__buf *buf, ef_str text)
{
    return ef__buf_add(buf, text.ptr, text.len);
}

bool ef__buf_add_text(ef__buf *buf, const char *text)
{
    return ef__buf_add(buf, text, strlen(text));
}

bool ef__buf_add_char(ef__buf *buf, char c)
{
    if (!has_room(buf, 1) && !ef__buf_reserve(buf, 1))
        return false;
    buf->ptr[buf->len++] = c;
    buf->ptr[buf->len] = '\0';
    return true;
}

/* Not printf, which parses its format for each of the many numbers of a response. */
bool ef__buf_add_int(ef__buf *buf, int64_t value)
{
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char digits[20];
    size_t first = sizeof digits;

    do {
        digits[--first] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (value < 0)
        digits[--first] = '-';
    return ef__buf_add(buf, digits + first, sizeof digits - first);
}

bool ef__buf_printf(ef__buf *buf, const char *format, ...)
{
    va_list args;
    va_list again;
    bool ok = false;

    if (!ef__buf_reserve(buf, 0))
        return false;
    va_start(args, format);
    va_copy(again, args);
    size_t room = buf->cap - buf->len;
    int len = vsnprintf(buf->ptr + buf->len, room, format, args);
    if (len >= 0 && (size_t)len >= room) {
        buf->ptr[buf->len] = '\0';
        if (!ef__buf_reserve(buf, (size_t)len))
            goto out;
        len = vsnprintf(buf->ptr + buf->len, (size_t)len + 1, format, again);
    }
    ok = len >= 0;
    if (ok)
        buf->len += (size_t)len;
    else
        buf->failed = true;
    buf->ptr[buf->len] = '\0';
out:
    va_end(again);
    va_end(args);
    return ok;
}

void ef__buf_reset(ef__buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->ptr)
        buf->ptr[0] = '\0';
}

void ef__buf_release(ef__buf *buf)
{
    if (!buf)
        return;
    free(buf->ptr);
    buf->ptr = NULL;
    buf->cap = 0;
    ef__buf_reset(buf);
}

bool ef__buf_add_escaped(ef__buf *buf, ef_str text, const char *escaped)
{
    size_t done = 0;

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c > ' ' && c < 0x7f && !strchr(escaped, c))
            continue;
        ef__buf_add(buf, text.ptr + done, i - done);
        ef__buf_printf(buf, "%%%02X", c);
        done = i + 1;
    }
    if (done < text.len)
        ef__buf_add(buf, text.ptr + done, text.len - done);
    return !buf->failed;
}

bool ef__buf_add_token(ef__buf *buf, ef_str name)
{
    if (ef_str_equal(name, EF_STR("_")))
        return ef__buf_add_text(buf, "%5F");
    return name.len > 0 ? ef__buf_add_escaped(buf, name, ".*>%") : ef__buf_add_char(buf, '_');
}

/* The fastest level: it compresses JSON of many similar objects to a tenth already. */
bool ef__gzip(ef_str text, ef__buf *out)
{
    z_stream z = {0};
    uLong room;
    int code;

    if (text.len > UINT32_MAX || deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, WINDOW_GZIP,
                                              MEMORY_GZIP, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    room = deflateBound(&z, (uLong)text.len);
    if (room > UINT32_MAX || !ef__buf_reserve(out, room)) {
        (void)deflateEnd(&z);
        return false;
    }
    z.next_in = (Bytef *)(uintptr_t)text.ptr;
    z.avail_in = (uInt)text.len;
    z.next_out = (Bytef *)(out->ptr + out->len);
    z.avail_out = (uInt)room;
    code = deflate(&z, Z_FINISH);
    if (code == Z_STREAM_END)
        out->len += z.total_out;
    (void)deflateEnd(&z);
    return code == Z_STREAM_END;
}
