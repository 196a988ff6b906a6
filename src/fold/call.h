/*
 * call.h - the code of the functions, by their id. Seen by the evaluator and the checker only.
 */
#ifndef EF_FOLD_CALL_H
#define EF_FOLD_CALL_H

#include "eval.h"

/* A call whose arguments have been evaluated and are of the kinds that the table names. */
typedef struct ef__call {
    ef__eval *ev;
    const ef__expr *expr;
    size_t count;
    ef__value args[EF__MANY];
    const ef__expr *exprs[EF__MANY]; /* the arguments, for messages */
} ef__call;

typedef ef_status ef__call_fn(ef__call *call, ef__value *out);

/* Argument `i` as a whole number between `least` and `most`. */
ef_status ef__call_int(ef__call *call, size_t i, int64_t least, int64_t most, int64_t *out,
                       bool *out_ok);
/* Returns the bytes of a buffer as a text value and releases the buffer. */
ef_status ef__call_take(ef__call *call, ef__buf *buf, ef__value *out);
/* Is the text `part` in `text`, from `at` on? Its place, or -1. */
ptrdiff_t ef__call_find(ef_str text, size_t at, ef_str part);

#define EF__DATE_PARTS "year, month, day, hour, minute, second, weekday and day_of_year"
bool ef__date_part_is_known(ef_str name);

/* call_text.c */
ef__call_fn ef__call_lower, ef__call_upper, ef__call_trim, ef__call_length, ef__call_substr,
    ef__call_starts_with, ef__call_ends_with, ef__call_contains, ef__call_split, ef__call_join,
    ef__call_replace, ef__call_text, ef__call_format, ef__call_pad;
/* call_number.c */
ef__call_fn ef__call_abs, ef__call_min, ef__call_max, ef__call_round, ef__call_floor, ef__call_ceil,
    ef__call_sign, ef__call_number;
/* call_time.c */
ef__call_fn ef__call_date, ef__call_year, ef__call_month, ef__call_day, ef__call_hour,
    ef__call_date_part, ef__call_to_hour, ef__call_to_day, ef__call_to_month;
/* call_array.c */
ef__call_fn ef__call_count, ef__call_first, ef__call_last, ef__call_sum, ef__call_avg,
    ef__call_min_of, ef__call_max_of, ef__call_sort, ef__call_unique, ef__call_reverse,
    ef__call_slice, ef__call_pluck, ef__call_keys, ef__call_values, ef__call_has, ef__call_merge;
/* call.c */
ef__call_fn ef__call_sha256, ef__call_crc32, ef__call_hash, ef__call_type_of, ef__call_is_null,
    ef__call_is_boolean, ef__call_is_number, ef__call_is_text, ef__call_is_array,
    ef__call_is_object;

#endif
