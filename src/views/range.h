/*
 * range.h - a scan as a range of whole keys, for back ends that search an index.
 *
 * A range goes from one place up to, but not including, another. Bounds, pages and directions only
 * choose the two places. Keys and names are compared by bytes, so that the place right behind a key
 * x is x with a NUL behind it: nothing fits in between. No name has a NUL in it (and no text of
 * PostgreSQL's), so behind a name comes the name with a byte of 1.
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

#define EF__VIEW_PLACE_MAX (64 * 1024 * 1024) /* a key comes out of one view */
#define EF__VIEW_PLACE_INIT                                                                        \
    {                                                                                              \
        .second = EF__BUF_INIT(EF__VIEW_PLACE_MAX), .third = EF__BUF_INIT(EF__VIEW_PLACE_MAX)      \
    }

/* Where a scan begins and ends, lower place first. EF_NO_MEMORY */
ef_status ef__view_range(const ef__view_scan *scan, ef__view_place *from, ef__view_place *to,
                         ef_error *err);
/* Set to a row's place, or to the one right behind it. EF_NO_MEMORY */
ef_status ef__view_place_at(ef__view_place *place, int64_t first, ef_str second, ef_str third,
                            bool behind, ef_error *err);
void ef__view_place_release(ef__view_place *place);

#endif
