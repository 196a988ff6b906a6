/*
 * rows.h - rows of the SQL back ends, as the functions that src/sqlgen.py generates read them.
 */
#pragma once

#include "views.h"

typedef struct ef__generation_row {
    ef__generation is;  /* without its digest … */
    uint64_t digest[2]; /* … of which these are the sums */
    int64_t live_set;   /* a row with id 0 has only this: there is no generation */
} ef__generation_row;

typedef struct ef__change_row {
    ef__follow_row follow;
    ef__change_record change; /* number 0: there is no record */
} ef__change_row;

typedef struct ef__watermark_row {
    int64_t n; /* of its key, from 1, when many were asked for */
    ef_str tenant, stream;
    ef__watermark is;
} ef__watermark_row;

/* As a LIMIT, which is signed. */
static inline int64_t ef__sql_limit(size_t limit)
{
    return limit > INT32_MAX ? INT32_MAX : (int64_t)limit;
}
