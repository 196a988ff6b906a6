/*
 * where.h - what a query's filter says, as a condition that the server tests on a view.
 *
 * It is a sieve, not the judge: the server may let through more than the filter does, never less,
 * and whoever asked tests what comes. Nor does it keep back a view that would end the query by
 * breaking a budget of the fold language. What cannot be said so is left out.
 *
 * The condition is a jsonpath in strict mode. Whatever comes from the filter is bound: its values
 * as variables, the path as a whole.
 */
#ifndef EF_VIEWS_POSTGRES_WHERE_H
#define EF_VIEWS_POSTGRES_WHERE_H

#include "../views.h"

#include "../../fold/fold.h"

typedef struct vp_where {
    ef__buf path;      /* finds something in a view that may pass; values are $v0, $v1 … */
    ef__buf vars;      /* the values: {"v0":"gold","v1":100} */
    ef__buf words;     /* what is tested, as an expression for people */
    int64_t bytes_max; /* views whose data is longer have to pass */
    ef__buf needle;    /* is in the data of every other view that may pass */
} vp_where;

#define VP_WHERE_MAX (1024 * 1024) /* a filter is far shorter, and becomes some times as long */
#define VP_WHERE_INIT                                                                              \
    {                                                                                              \
        EF__BUF_INIT(VP_WHERE_MAX), EF__BUF_INIT(VP_WHERE_MAX), EF__BUF_INIT(VP_WHERE_MAX), 0,     \
            EF__BUF_INIT(VP_WHERE_MAX)                                                             \
    }

/* False: there is nothing that the server could test (or no memory to say it): all views pass.
 * `filter` NULL says nothing. */
bool vp_where_make(const ef__filter *filter, vp_where *out);
/* The same, and false too where the server would have more work with it than without. */
bool vp_where_pays(const ef__filter *filter, vp_where *out);
void vp_where_release(vp_where *where);

/* See views.h. */
void vp_filter_explain(const ef__filter *filter, ef__buf *out);

#endif
