/*
 * query.h - questions to the views of one tenant, or of all: filter, sort, page, choose fields,
 * count.
 *
 * Answers are the same on every back end and by every plan: a back end only finds candidates, in a
 * range of ids or of a declared index, and may leave out some that it knows not to match; whether a
 * view matches is always asked of the filter itself (fold/match.h). Views are ordered by the sort
 * keys, then by id (of all tenants: by tenant and id); by these alone when there is none. They go
 * in the direction of the first sort key. Values that agree in the first EF__KEY_BYTES of their
 * keys sort alike.
 */
#ifndef EF_VIEWS_QUERY_H
#define EF_VIEWS_QUERY_H

#include "views.h"

#include "../base/meter.h"
#include "../fold/match.h"

#define EF__QUERY_LIMIT_DEFAULT 100
#define EF__QUERY_LIMIT_MAX 10000
#define EF__QUERY_SORTS_MAX 8              /* sort keys: all of them are in every cursor */
#define EF__QUERY_BYTES (64 * 1024 * 1024) /* what a page may hold; past it the page is shorter */

typedef struct ef__query_sort {
    const ef__filter *by; /* a path, or any expression; only a path can be found in an index */
    bool descending;
} ef__query_sort;

typedef struct ef__query {
    int64_t generation;
    ef_str tenant;
    bool any_tenant;          /* of all tenants instead: every view is looked at, no index helps */
    ef_str index_paths;       /* of the generation */
    const ef__filter *filter; /* NULL for all views */
    const ef__query_sort *sorts;
    size_t sort_count;
    const ef__filter *const *fields; /* what `data` of a row shows, by the text of the expression */
    size_t field_count;              /* 0: all of the view */
    size_t limit;                    /* 0 means EF__QUERY_LIMIT_DEFAULT */
    ef_str cursor;                   /* of the page before; "" from the start */
    bool count;                      /* of all views that match: looks at all candidates */
    ef__meter *meter;                /* what it may cost; NULL: anything */
    bool no_index; /* look at all views, here: the answer is the same, only slower */
} ef__query;

typedef struct ef__query_row {
    ef_str tenant; /* with any_tenant */
    ef_str id;
    ef_str data; /* canonical JSON */
    int64_t last_position;
    int64_t last_seq;
    int32_t schema;
} ef__query_row;

typedef struct ef__query_result {
    const ef__query_row *rows;
    size_t count;
    ef_str cursor;     /* for the next page; "" when this is the last */
    int64_t total;     /* with `count`; otherwise -1 */
    int64_t looked_at; /* views that had to be read; not those that the store has left out */
    struct ef__batch_memory *room;
} ef__query_result;

#define EF__QUERY_RESULT_INIT                                                                      \
    {                                                                                              \
        NULL, 0, {NULL, 0}, -1, 0, NULL                                                            \
    }

/*
 * Run it. One snapshot; a next page sees the views as they are then, and never shows one twice that
 * did not move.
 * EF_BAD_INPUT  a limit is out of range, or the cursor is not one of this query
 */
ef_status ef__query_run(ef_views *views, const ef__query *query, ef__query_result *out,
                        ef_error *err);
void ef__query_result_release(ef__query_result *result);

/* How it would be run there, in words for people: what is looked at, filtered and sorted, a line
 * each. */
ef_status ef__query_explain(ef_views *views, const ef__query *query, ef__buf *out, ef_error *err);

#endif
