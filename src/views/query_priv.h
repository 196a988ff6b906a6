/*
 * query_priv.h - declarations shared by planning, running and cursors of queries.
 */
#pragma once

#include "query.h"

/* The range that is scanned for candidates. */
typedef struct ef__query_plan {
    int32_t index; /* -1: ids */
    ef_str path;   /* of the index, for explain */
    bool has_low, has_high, low_open, high_open;
    bool is_point; /* low and high are the same key */
    bool descending;
    bool in_order; /* candidates come in the order of the result */
    bool covers;   /* the range is equivalent to the filter: a plain key in it needs no test */
    ef__buf low, high;
} ef__query_plan;

ef_status ef__query_plan_make(const ef__query *query, ef__query_plan *out, ef_error *err);
void ef__query_plan_release(ef__query_plan *plan);
/* The filter that the store may evaluate; NULL if the range is equivalent to the filter. */
const ef__filter *ef__query_plan_store_filter(const ef__query *query, const ef__query_plan *plan);

/* The position of a view in the result. */
typedef struct ef__query_place {
    ef_str keys[EF__QUERY_SORTS_MAX];
    ef_str tenant; /* compared with any_tenant only */
    ef_str id;
} ef__query_place;

int ef__query_place_compare(const ef__query *query, const ef__query_place *a,
                            const ef__query_place *b);

/* A cursor is a place and a checksum of the query, in characters that a URL allows. */
bool ef__query_cursor_print(const ef__query *query, const ef__query_place *place, ef__arena *arena,
                            ef_str *out);
/* `out` points into `arena`. EF_BAD_INPUT: not a cursor of this query. */
ef_status ef__query_cursor_read(const ef__query *query, ef__arena *arena, ef__query_place *out,
                                ef_error *err);
