/*
 * gzip.h - compression of HTTP responses.
 */
#ifndef EF_BASE_GZIP_H
#define EF_BASE_GZIP_H

#include "buf.h"

#include <everfold/str.h>

/* Appends `text`, compressed, to `out`. False: memory ran out, or the maximum of `out` would be
 * exceeded; `out` is unchanged. */
bool ef__gzip(ef_str text, ef__buf *out);

#endif
