/*
 * query.h - queries of the views of one tenant, or of all: filter, sort, page, select, count.
 *
 * Results are the same on every back end and with every plan: a back end only finds candidates, in
 * a range of ids or of a declared index, and may omit some that cannot match; the filter itself
 * (fold/match.h) decides whether a view matches. Views are ordered by the sort keys, then by id
 * (with any_tenant: by tenant and id), in the direction of the first sort key. Values with the same
 * first EF__KEY_BYTES of their keys sort alike.
 */
#pragma once

#include "views.h"

#include "../base/meter.h"
#include "../fold/match.h"

#define EF__QUERY_LIMIT_DEFAULT 100
#define EF__QUERY_LIMIT_MAX 10000
#define EF__QUERY_SORTS_MAX 8              /* sort keys: all of them are in every cursor */
#define EF__QUERY_BYTES (64 * 1024 * 1024) /* what a page may hold; past it the page is shorter */

typedef struct ef__query_sort {
    const ef__filter *by; /* a path, or any expression; only a path can use an index */
    bool descending;
} ef__query_sort;

typedef struct ef__query {
    int64_t generation;
    ef_str tenant;
    bool any_tenant;          /* all tenants: every view is read, without an index */
    ef_str index_paths;       /* of the generation */
    const ef__filter *filter; /* NULL for all views */
    const ef__query_sort *sorts;
    size_t sort_count;
    const ef__filter *const *fields; /* members of `data`, named by the text of the expression */
    size_t field_count;              /* 0: the whole view */
    size_t limit;                    /* 0 means EF__QUERY_LIMIT_DEFAULT */
    ef_str cursor;                   /* of the previous page; "": from the start */
    bool count;                      /* count all matching views: reads all candidates */
    ef__meter *meter;                /* the budget; NULL: no limit */
    bool no_index;                   /* for tests: read all views; the result is the same */
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
    ef_str cursor;      /* of the next page; "" at the end */
    int64_t total;      /* with `count`; otherwise -1 */
    int64_t views_read; /* without those that the store omitted */
    struct ef__batch_memory *room;
} ef__query_result;

#define EF__QUERY_RESULT_INIT                                                                      \
    {                                                                                              \
        NULL, 0, {NULL, 0}, -1, 0, NULL                                                            \
    }

/*
 * Runs the query in one snapshot. The next page reads a newer snapshot, and does not repeat a view
 * unless its sort key changed.
 * EF_BAD_INPUT  a limit is out of range, or the cursor is not of this query
 */
ef_status ef__query_run(ef_views *views, const ef__query *query, ef__query_result *out,
                        ef_error *err);
void ef__query_result_release(ef__query_result *result);

/* The plan of the query as text: what is scanned, filtered and sorted, one line each. */
ef_status ef__query_explain(ef_views *views, const ef__query *query, ef__buf *out, ef_error *err);
