/*
 * where.h - the part of a query's filter that the server tests on a view: a text that is in the
 * data of every view that matches.
 *
 * It only preselects: the server may return more views than match the filter, never fewer, and the
 * caller evaluates the filter on each. It also returns each view whose evaluation would exceed a
 * budget of the fold language.
 */
#pragma once

#include "../views.h"

#include "../../fold/fold.h"

typedef struct vp_where {
    ef__buf needle;    /* is in the data of every view that matches … */
    ef__buf words;     /* … because of this condition of the filter */
    int64_t bytes_max; /* views whose data is longer are sent */
} vp_where;

#define VP_WHERE_MAX (1024 * 1024) /* a filter is far shorter */
#define VP_WHERE_INIT                                                                              \
    {                                                                                              \
        EF__BUF_INIT(VP_WHERE_MAX), EF__BUF_INIT(VP_WHERE_MAX), 0                                  \
    }

/* False: there is nothing that the server could test (or no memory): all views are sent. `filter`
 * may be NULL. */
bool vp_where_make(const ef__filter *filter, vp_where *out);
void vp_where_release(vp_where *where);

/* See views.h. */
void vp_filter_explain(const ef__filter *filter, ef__buf *out);
