/*
 * call.c - calling a function: its arguments, their kinds, its code. And the functions that are
 * about any value.
 */
#include "call.h"

#include "../base/hash.h"

#include <inttypes.h>
#include <stdio.h>

static ef__call_fn *const codes[EF__FN_COUNT_ALL] = {
    [EF__FN_LOWER] = ef__call_lower,
    [EF__FN_UPPER] = ef__call_upper,
    [EF__FN_TRIM] = ef__call_trim,
    [EF__FN_LENGTH] = ef__call_length,
    [EF__FN_SUBSTR] = ef__call_substr,
    [EF__FN_STARTS_WITH] = ef__call_starts_with,
    [EF__FN_ENDS_WITH] = ef__call_ends_with,
    [EF__FN_CONTAINS] = ef__call_contains,
    [EF__FN_SPLIT] = ef__call_split,
    [EF__FN_JOIN] = ef__call_join,
    [EF__FN_REPLACE] = ef__call_replace,
    [EF__FN_TEXT] = ef__call_text,
    [EF__FN_FORMAT] = ef__call_format,
    [EF__FN_PAD] = ef__call_pad,
    [EF__FN_ABS] = ef__call_abs,
    [EF__FN_MIN] = ef__call_min,
    [EF__FN_MAX] = ef__call_max,
    [EF__FN_ROUND] = ef__call_round,
    [EF__FN_FLOOR] = ef__call_floor,
    [EF__FN_CEIL] = ef__call_ceil,
    [EF__FN_SIGN] = ef__call_sign,
    [EF__FN_NUMBER] = ef__call_number,
    [EF__FN_DATE] = ef__call_date,
    [EF__FN_YEAR] = ef__call_year,
    [EF__FN_MONTH] = ef__call_month,
    [EF__FN_DAY] = ef__call_day,
    [EF__FN_HOUR] = ef__call_hour,
    [EF__FN_DATE_PART] = ef__call_date_part,
    [EF__FN_TO_HOUR] = ef__call_to_hour,
    [EF__FN_TO_DAY] = ef__call_to_day,
    [EF__FN_TO_MONTH] = ef__call_to_month,
    [EF__FN_COUNT] = ef__call_count,
    [EF__FN_FIRST] = ef__call_first,
    [EF__FN_LAST] = ef__call_last,
    [EF__FN_SUM] = ef__call_sum,
    [EF__FN_AVG] = ef__call_avg,
    [EF__FN_MIN_OF] = ef__call_min_of,
    [EF__FN_MAX_OF] = ef__call_max_of,
    [EF__FN_SORT] = ef__call_sort,
    [EF__FN_UNIQUE] = ef__call_unique,
    [EF__FN_REVERSE] = ef__call_reverse,
    [EF__FN_SLICE] = ef__call_slice,
    [EF__FN_PLUCK] = ef__call_pluck,
    [EF__FN_KEYS] = ef__call_keys,
    [EF__FN_VALUES] = ef__call_values,
    [EF__FN_HAS] = ef__call_has,
    [EF__FN_MERGE] = ef__call_merge,
    [EF__FN_SHA256] = ef__call_sha256,
    [EF__FN_CRC32] = ef__call_crc32,
    [EF__FN_HASH] = ef__call_hash,
    [EF__FN_TYPE_OF] = ef__call_type_of,
    [EF__FN_IS_NULL] = ef__call_is_null,
    [EF__FN_IS_BOOLEAN] = ef__call_is_boolean,
    [EF__FN_IS_NUMBER] = ef__call_is_number,
    [EF__FN_IS_TEXT] = ef__call_is_text,
    [EF__FN_IS_ARRAY] = ef__call_is_array,
    [EF__FN_IS_OBJECT] = ef__call_is_object,
};

/* EF__KIND_… of a value. */
static unsigned kind_bit(ef__value v)
{
    static const uint8_t bits[] = {
        [EF__VALUE_MISSING] = EF__KIND_NULL,  [EF__VALUE_NULL] = EF__KIND_NULL,
        [EF__VALUE_FALSE] = EF__KIND_BOOL,    [EF__VALUE_TRUE] = EF__KIND_BOOL,
        [EF__VALUE_INT] = EF__KIND_NUMBER,    [EF__VALUE_DECIMAL] = EF__KIND_NUMBER,
        [EF__VALUE_STRING] = EF__KIND_TEXT,   [EF__VALUE_ARRAY] = EF__KIND_ARRAY,
        [EF__VALUE_OBJECT] = EF__KIND_OBJECT,
    };

    return bits[v.kind];
}

/* "a text or a number" */
static void kinds_words(unsigned kinds, char *out, size_t out_bytes)
{
    static const char *const words[] = {"null",   "a boolean", "a number",
                                        "a text", "an array",  "an object"};
    size_t len = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < 6; i++)
        if (kinds & (1u << i) && len < out_bytes)
            len +=
                (size_t)snprintf(out + len, out_bytes - len, "%s%s", len ? " or " : "", words[i]);
}

ef_status ef__eval_call(ef__eval *ev, const ef__expr *call, ef__value *out)
{
    ef__call c;
    const ef__function *function = call->function;
    size_t i = 0;

    c.ev = ev;
    c.expr = call;
    c.count = call->arg_count;
    for (const ef__expr *arg = call->args; arg; arg = arg->next, i++) {
        ef_status st = ef__eval_expr(ev, arg, &c.args[i]);
        if (st != EF_OK)
            return st;
        unsigned wanted = function->arg_kinds[i < 3 ? i : 2];
        if (!(kind_bit(c.args[i]) & wanted)) {
            char words[80];
            kinds_words(wanted, words, sizeof(words));
            return ef__eval_mistake(ev, arg, c.args[i], out, "%s needs %s", function->name, words);
        }
        st = ef__eval_charge(ev, call, ef__eval_cost(c.args[i]));
        if (st != EF_OK)
            return st;
        c.exprs[i] = arg;
    }
    return codes[function->id](&c, out);
}

ef_status ef__call_int(ef__call *call, size_t i, int64_t least, int64_t most, int64_t *out,
                       bool *out_ok)
{
    ef__value v = call->args[i];
    ef__number number;
    ef__value ignored;
    bool whole = v.kind == EF__VALUE_INT;

    *out = v.as.integer;
    if (!whole)
        whole = ef__value_number(v, &number, NULL) == EF_OK && ef__number_is_int64(&number, out);
    *out_ok = whole && *out >= least && *out <= most;
    if (*out_ok)
        return EF_OK;
    return ef__eval_mistake(call->ev, call->exprs[i], v, &ignored,
                            "%s needs a whole number between %" PRId64 " and %" PRId64,
                            call->expr->function->name, least, most);
}

ef_status ef__call_take(ef__call *call, ef__buf *buf, ef__value *out)
{
    ef_status st;

    if (buf->failed)
        st = ef__eval_charge_output(call->ev, call->expr, SIZE_MAX);
    else
        st = ef__eval_text(call->ev, call->expr, ef__buf_str(buf), out);
    ef__buf_release(buf);
    return st;
}

ptrdiff_t ef__call_find(ef_str text, size_t at, ef_str part)
{
    if (part.len == 0)
        return (ptrdiff_t)at;
    const char *found =
        at < text.len ? memmem(text.ptr + at, text.len - at, part.ptr, part.len) : NULL;
    return found ? found - text.ptr : -1;
}

ef_status ef__call_sha256(ef__call *call, ef__value *out)
{
    uint8_t digest[EF_HASH_BYTES];
    char hex[2 * EF_HASH_BYTES + 1];
    ef_str text;
    ef_status st = ef__eval_to_text(call->ev, call->exprs[0], call->args[0], &text);

    if (st != EF_OK)
        return st;
    if (!ef__sha256(text, EF_STR(""), digest))
        return ef__eval_no_memory(call->ev);
    ef__hex(digest, sizeof(digest), hex);
    return ef__eval_text(call->ev, call->expr, ef_str_from(hex), out);
}

ef_status ef__call_crc32(ef__call *call, ef__value *out)
{
    ef_str text;
    ef_status st = ef__eval_to_text(call->ev, call->exprs[0], call->args[0], &text);

    if (st == EF_OK)
        *out = ef__value_int(ef__crc32(0, text));
    return st;
}

ef_status ef__call_hash(ef__call *call, ef__value *out)
{
    char hex[17];
    ef_str text;
    ef_status st = ef__eval_to_text(call->ev, call->exprs[0], call->args[0], &text);

    if (st != EF_OK)
        return st;
    (void)snprintf(hex, sizeof(hex), "%016" PRIx64, ef__xxh3(text, 0));
    return ef__eval_text(call->ev, call->expr, ef_str_from(hex), out);
}

ef_status ef__call_type_of(ef__call *call, ef__value *out)
{
    static const char *const names[] = {"null", "boolean", "number", "text", "array", "object"};
    unsigned bit = kind_bit(call->args[0]);

    *out = ef__value_string(ef_str_from(names[__builtin_ctz(bit)]));
    return EF_OK;
}

static ef_status return_kind_test(ef__call *call, unsigned kind, ef__value *out)
{
    *out = ef__value_bool(kind_bit(call->args[0]) == kind);
    return EF_OK;
}

ef_status ef__call_is_null(ef__call *call, ef__value *out)
{
    return return_kind_test(call, EF__KIND_NULL, out);
}

ef_status ef__call_is_boolean(ef__call *call, ef__value *out)
{
    return return_kind_test(call, EF__KIND_BOOL, out);
}

ef_status ef__call_is_number(ef__call *call, ef__value *out)
{
    return return_kind_test(call, EF__KIND_NUMBER, out);
}

ef_status ef__call_is_text(ef__call *call, ef__value *out)
{
    return return_kind_test(call, EF__KIND_TEXT, out);
}

ef_status ef__call_is_array(ef__call *call, ef__value *out)
{
    return return_kind_test(call, EF__KIND_ARRAY, out);
}

ef_status ef__call_is_object(ef__call *call, ef__value *out)
{
    return return_kind_test(call, EF__KIND_OBJECT, out);
}
