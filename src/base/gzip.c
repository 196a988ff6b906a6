/*
 * gzip.c - see gzip.h.
 */
#include "gzip.h"

#include <stdint.h>
#include <zlib.h>

#define WINDOW_GZIP (15 + 16) /* the largest window, and the header of gzip instead of zlib */
#define MEMORY 8              /* zlib's default */

/* The fastest level: it compresses JSON of many similar objects to a tenth already. */
bool ef__gzip(ef_str text, ef__buf *out)
{
    z_stream z = {0};
    uLong room;
    int code;

    if (text.len > UINT32_MAX ||
        deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, WINDOW_GZIP, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
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
