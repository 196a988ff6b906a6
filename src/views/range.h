/*
 * range.h - a scan as a range of whole keys, for back ends that search an index.
 *
 * A range is half-open: from one place up to, but not including, another. Bounds, pages and
 * directions only choose the two places. Keys and names are compared by bytes, so the immediate
 * successor of a key x is x followed by a NUL. Names (and texts in PostgreSQL) contain no NUL, so
 * the successor of a name is the name followed by a byte of 1.
 */
#pragma once

#include "views.h"

/* A tenant, an id or a key. A bound that is longer than all of them is cut, which does not change
 * its order to them. */
typedef struct ef__place_text {
    size_t len;
    char bytes[EF__KEY_BYTES + 1];
} ef__place_text;

/* One end: (generation, tenant, id) of views, or (idx, key, id) of an index. */
typedef struct ef__view_place {
    int64_t first;
    ef__place_text second, third;
} ef__view_place;

static inline ef_str ef__place_str(const ef__place_text *text)
{
    return (ef_str){text->bytes, text->len};
}

/* The ends of a scan, the lower one first. */
void ef__view_range(const ef__view_scan *scan, ef__view_place *from, ef__view_place *to);
/* Set to the place of a row, or (`behind`) to its immediate successor. */
void ef__view_place_at(ef__view_place *place, int64_t first, ef_str second, ef_str third,
                       bool behind);
