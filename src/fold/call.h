/*
 * call.h - the code of the functions, by their id. Seen by the evaluator and the checker only.
 */
#pragma once

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

/* The code of each function; several functions of a family may share theirs. */
#define EF__FUNCTION_CODE(id, name, code, ...) ef__call_fn ef__call_##code;
EF__FUNCTION_MAP(EF__FUNCTION_CODE)
#undef EF__FUNCTION_CODE
