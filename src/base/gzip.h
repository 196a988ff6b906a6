/*
 * gzip.h - making answers smaller.
 */
#ifndef EF_BASE_GZIP_H
#define EF_BASE_GZIP_H

#include "buf.h"

#include <everfold/str.h>

/* Add `text` as gzip to `out`. False: memory ran out, or it would be larger than the maximum of
 * `out`, which is as it was before. */
bool ef__gzip(ef_str text, ef__buf *out);

#endif
