/*
 * math.c - exact arithmetic on values. Two small integers use machine arithmetic; overflows and
 * decimals use base/number.h.
 */
#include "eval.h"
#include "expr.h"

static bool int_math(ef__expr_kind kind, int64_t a, int64_t b, int64_t *out)
{
    switch (kind) {
    case EF__EXPR_ADD:
        return !__builtin_add_overflow(a, b, out);
    case EF__EXPR_SUB:
        return !__builtin_sub_overflow(a, b, out);
    case EF__EXPR_MUL:
        return !__builtin_mul_overflow(a, b, out);
    case EF__EXPR_DIV:
        if (b == 0 || b == -1 || a % b != 0)
            return false;
        *out = a / b;
        return true;
    default:
        if (b == 0)
            return false;
        *out = b == -1 ? 0 : a % b;
        return true;
    }
}

/* The rest of a division towards zero: it has the sign of a. Exact, or EF_TOO_LARGE when the two
 * cannot be brought to one scale. */
static ef_status number_mod(const ef__number *a, const ef__number *b, ef__number *out,
                            ef_error *err)
{
    ef__number x = *a;
    ef__number y = *b;

    if (b->coefficient == 0)
        return ef_fail(err, EF_BAD_INPUT, "division by zero");
    ef__number *fewer = x.scale < y.scale ? &x : &y;
    int32_t scale = x.scale < y.scale ? y.scale : x.scale;
    for (; fewer->scale < scale; fewer->scale++)
        if (__builtin_mul_overflow(fewer->coefficient, (__int128)10, &fewer->coefficient))
            return ef_fail(err, EF_TOO_LARGE, "the remainder needs more than 38 digits");
    ef__number rest = {x.coefficient % y.coefficient, scale};
    ef__number zero = {0, 0};
    return ef__number_add(&rest, &zero, out, err); /* to lowest terms */
}

static ef_status number_math(ef__expr_kind kind, const ef__number *a, const ef__number *b,
                             ef__number *out, ef_error *err)
{
    switch (kind) {
    case EF__EXPR_ADD:
        return ef__number_add(a, b, out, err);
    case EF__EXPR_SUB:
        return ef__number_sub(a, b, out, err);
    case EF__EXPR_MUL:
        return ef__number_mul(a, b, out, err);
    case EF__EXPR_DIV:
        return ef__number_div(a, b, out, err);
    default:
        return number_mod(a, b, out, err);
    }
}

static ef_status join_texts(ef__eval *ev, const ef__expr *expr, ef__value a, ef__value b,
                            ef__value *out)
{
    size_t len = (size_t)a.len + b.len;
    ef_status st = ef__eval_charge_output(ev, expr, len);

    if (st != EF_OK)
        return st;
    char *bytes = ef__arena_alloc(ev->arena, len);
    if (!bytes)
        return ef__eval_no_memory(ev);
    if (a.len)
        memcpy(bytes, a.as.text, a.len);
    if (b.len)
        memcpy(bytes + a.len, b.as.text, b.len);
    *out = ef__value_string((ef_str){bytes, len});
    return EF_OK;
}

/* Is the expression a text? Then the other operand is the mistake. */
static bool is_text(const ef__expr *expr)
{
    return expr->kind == EF__EXPR_TEXT || expr->kind == EF__EXPR_ADD;
}

ef_status ef__eval_math(ef__eval *ev, const ef__expr *expr, const ef__expr *left_expr,
                        const ef__expr *right_expr, ef__expr_kind kind, ef__value a, ef__value b,
                        ef__value *out)
{
    ef__number x;
    ef__number y;
    ef__number result;
    ef_error err; /* not cleared: that would cost more than most sums */
    int64_t integer;

    if (a.kind == EF__VALUE_INT && b.kind == EF__VALUE_INT &&
        int_math(kind, a.as.integer, b.as.integer, &integer)) {
        *out = ef__value_int(integer);
        return EF_OK;
    }
    if (kind == EF__EXPR_ADD && a.kind == EF__VALUE_STRING && b.kind == EF__VALUE_STRING)
        return join_texts(ev, expr, a, b, out);
    if (kind == EF__EXPR_ADD && a.kind == EF__VALUE_STRING &&
        (!ef__value_is_number(b) || (left_expr && is_text(left_expr))))
        return ef__eval_mistake(ev, right_expr, b, out, "+ needs a text after a text");
    if (!ef__value_is_number(a))
        return ef__eval_mistake(ev, left_expr ? left_expr : expr, a, out, "%s needs a number",
                                ef__expr_operator(kind));
    if (!ef__value_is_number(b))
        return ef__eval_mistake(ev, right_expr, b, out, "%s needs a number",
                                ef__expr_operator(kind));
    ef_status st = ef__value_number(a, &x, &err);
    if (st == EF_OK)
        st = ef__value_number(b, &y, &err);
    if (st == EF_OK)
        st = number_math(kind, &x, &y, &result, &err);
    if (st != EF_OK)
        return ef__eval_wrong(ev, expr, out, "%s", err.text);
    return ef__eval_number(ev, &result, out);
}
