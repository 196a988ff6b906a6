/*
 * match.h - queries on stored views: evaluates filters and sort keys.
 *
 *     ef__match *match;                           created once, reused for every row
 *     ef__match_row(match, view_id, seq, data)    sets the current view
 *     ef__match_test(match, filter, &holds)       evaluates any number of expressions
 *     ef__match_key(match, path, …)               its sort key
 *
 * A query is lenient: a value that is missing, of another kind or out of range is null, and null
 * counts as false, so that `not` of it is true. A row never fails a query; budgets and memory do.
 */
#pragma once

#include "fold.h"
#include "value.h"

typedef struct ef__match ef__match;

ef_status ef__match_open(ef__match **out, ef_error *err); /* EF_NO_MEMORY */
void ef__match_close(ef__match *match);

/* Sets the current view; all of it is borrowed until the next row.
 * EF_BAD_JSON, EF_TOO_LARGE, EF_NO_MEMORY */
ef_status ef__match_row(ef__match *match, ef_str view_id, int64_t last_seq, ef_str data,
                        ef_error *err);

/* Does it hold? null counts as no. EF_TOO_LARGE (a budget), EF_NO_MEMORY */
ef_status ef__match_test(ef__match *match, const ef__filter *filter, bool *out, ef_error *err);
/* The value of the expression, valid until the next row; EF__MISSING: none. */
ef_status ef__match_value(ef__match *match, const ef__filter *filter, ef__value *out,
                          ef_error *err);
/* The value that a declared index of the program (ef__program_index) covers. */
ef_status ef__match_index(ef__match *match, const ef__program *program, size_t index,
                          ef__value *out, ef_error *err);

/*
 * Bytes whose order (memcmp, a shorter one first) is the order of values, for indexes and sorting:
 * exact for all numbers, and equal for equal values (1 and 1.0). Missing sorts as null. At most
 * `max_bytes` are added: `*out_cut` then means that different values may have equal keys; different
 * keys are still in order. EF_NO_MEMORY
 *
 *   key     tag, then by kind: nothing (null, false, true)
 *   number  side (below, zero, above), exponent, pairs of digits + 1, 0; complemented below zero
 *   text    bytes, 0 as 0 255, then 0 0
 *   array   key of each item, then 0          object   key of each name and value, then 0
 */
ef_status ef__sort_key(ef__value v, size_t max_bytes, ef__buf *out, bool *out_cut, ef_error *err);
/* Is comparing uncut keys comparing their values? True of two texts and of two numbers. */
bool ef__sort_key_is_plain(ef_str key, ef_str other);

/* The steps of rows and expressions since the last call. */
int64_t ef__match_used(ef__match *match);
