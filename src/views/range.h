/*
 * range.h - a scan as a range of whole keys, for back ends that search an index.
 *
 * A range is half-open: from one place up to, but not including, another. Bounds, pages and
 * directions only choose the two places. Keys and names are compared by bytes, so the immediate
 * successor of a key x is x followed by a NUL. Names (and texts in PostgreSQL) contain no NUL, so
 * the successor of a name is the name followed by a byte of 1.
 */
#ifndef EF_VIEWS_RANGE_H
#define EF_VIEWS_RANGE_H

#include "views.h"

#include "../base/buf.h"

/* One end: (generation, tenant, id) of views, or (idx, key, id) of an index. */
typedef struct ef__view_place {
    int64_t first;
    ef__buf second, third;
} ef__view_place;

#define EF__VIEW_PLACE_MAX (64 * 1024 * 1024) /* a key is part of one view */
#define EF__VIEW_PLACE_INIT                                                                        \
    {                                                                                              \
        .second = EF__BUF_INIT(EF__VIEW_PLACE_MAX), .third = EF__BUF_INIT(EF__VIEW_PLACE_MAX)      \
    }

/* The ends of a scan, the lower one first. EF_NO_MEMORY */
ef_status ef__view_range(const ef__view_scan *scan, ef__view_place *from, ef__view_place *to,
                         ef_error *err);
/* Set to the place of a row, or (`behind`) to its immediate successor. EF_NO_MEMORY */
ef_status ef__view_place_at(ef__view_place *place, int64_t first, ef_str second, ef_str third,
                            bool behind, ef_error *err);
void ef__view_place_release(ef__view_place *place);

#endif
