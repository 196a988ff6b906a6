/*
 * query_priv.h - what planning, running and cursors of queries share.
 */
#ifndef EF_VIEWS_QUERY_PRIV_H
#define EF_VIEWS_QUERY_PRIV_H

#include "query.h"

/* Where to look for candidates. */
typedef struct ef__query_plan {
    int32_t index; /* -1: ids */
    ef_str path;   /* of the index, for people */
    bool has_low, has_high, low_open, high_open;
    bool is_point; /* low and high are the same key */
    bool descending;
    bool in_order; /* candidates come in the order of the answer */
    bool covers;   /* the range is all that the filter says: a plain key in it needs no test */
    ef__buf low, high;
} ef__query_plan;

ef_status ef__query_plan_make(const ef__query *query, ef__query_plan *out, ef_error *err);
void ef__query_plan_release(ef__query_plan *plan);
/* What the store may leave out views by, or NULL: a range that says all that the filter says leaves
 * nothing to be gained. */
const ef__filter *ef__query_plan_sieve(const ef__query *query, const ef__query_plan *plan);

/* Where a view stands in the answer. */
typedef struct ef__query_place {
    ef_str keys[EF__QUERY_SORTS_MAX];
    ef_str tenant; /* looked at with any_tenant only */
    ef_str id;
} ef__query_place;

int ef__query_place_compare(const ef__query *query, const ef__query_place *a,
                            const ef__query_place *b);

/* A cursor is a place and a sum over the question, in letters that a URL can have. */
bool ef__query_cursor_print(const ef__query *query, const ef__query_place *place, ef__arena *arena,
                            ef_str *out);
/* `out` points into `arena`. EF_BAD_INPUT when it is not a cursor of this question. */
ef_status ef__query_cursor_read(const ef__query *query, ef__arena *arena, ef__query_place *out,
                                ef_error *err);

#endif
