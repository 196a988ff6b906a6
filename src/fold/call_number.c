/*
 * call_number.c - functions of numbers.
 */
#include "call.h"

static ef_status return_number(ef__call *call, ef_status st, const ef__number *number,
                               const ef_error *err, ef__value *out)
{
    if (st != EF_OK)
        return ef__eval_wrong(call->ev, call->expr, out, "%s", err->text);
    return ef__eval_number(call->ev, number, out);
}

static int sign_of(const ef__number *n)
{
    return n->coefficient < 0 ? -1 : n->coefficient > 0;
}

ef_status ef__call_abs(ef__call *call, ef__value *out)
{
    ef_error err = EF_ERROR_INIT;
    ef__number n;
    ef_status st = ef__value_number(call->args[0], &n, &err);

    if (st == EF_OK && n.coefficient < 0)
        n.coefficient = -n.coefficient;
    return return_number(call, st, &n, &err, out);
}

ef_status ef__call_sign(ef__call *call, ef__value *out)
{
    ef_error err = EF_ERROR_INIT;
    ef__number n;
    ef_status st = ef__value_number(call->args[0], &n, &err);

    if (st == EF_OK)
        n = ef__number_from_int64(sign_of(&n));
    return return_number(call, st, &n, &err, out);
}

/* min and max */
ef_status ef__call_extreme(ef__call *call, ef__value *out)
{
    int by = call->expr->function->id == EF__FN_MIN ? -1 : 1;
    ef__value best = call->args[0];

    for (size_t i = 1; i < call->count; i++) {
        if (ef__value_is_number(call->args[i]) != ef__value_is_number(best))
            return ef__eval_mistake(call->ev, call->exprs[i], call->args[i], out,
                                    "%s compares numbers with numbers and texts with texts",
                                    call->expr->function->name);
        if (ef__value_compare(call->args[i], best) * by > 0)
            best = call->args[i];
    }
    *out = best;
    return EF_OK;
}

typedef enum rounding { ROUND_HALF_EVEN, ROUND_DOWN, ROUND_UP } rounding;

/* Rounds to at most `decimals` decimals. */
static ef_status round_to(ef__number *n, int32_t decimals, rounding how, ef_error *err)
{
    __int128 unit = 1;
    ef__number zero = {0, 0};

    if (n->scale <= decimals)
        return EF_OK;
    for (int32_t i = decimals; i < n->scale; i++)
        unit *= 10; /* 10^38 at most */
    __int128 rest = n->coefficient % unit;
    __int128 whole = n->coefficient / unit;
    int away = n->coefficient < 0 ? -1 : 1;
    __int128 size = rest < 0 ? -rest : rest;
    bool up = how == ROUND_UP ? rest > 0 : how == ROUND_DOWN ? rest < 0 : false;
    if (how == ROUND_HALF_EVEN)
        up = size > unit - size || (size == unit - size && whole % 2 != 0);
    ef__number rounded = {whole + (up ? away : 0), decimals};
    return ef__number_add(&rounded, &zero, n, err); /* to lowest terms */
}

static ef_status round_call(ef__call *call, int32_t decimals, rounding how, ef__value *out)
{
    ef_error err = EF_ERROR_INIT;
    ef__number n;
    ef_status st = ef__value_number(call->args[0], &n, &err);

    if (st == EF_OK)
        st = round_to(&n, decimals, how, &err);
    return return_number(call, st, &n, &err, out);
}

ef_status ef__call_round(ef__call *call, ef__value *out)
{
    int64_t decimals = 0;
    bool ok = true;
    ef_status st = EF_OK;

    *out = EF__NULL;
    if (call->count > 1)
        st = ef__call_int(call, 1, 0, 38, &decimals, &ok);
    return ok ? round_call(call, (int32_t)decimals, ROUND_HALF_EVEN, out) : st;
}

/* floor and ceil */
ef_status ef__call_whole(ef__call *call, ef__value *out)
{
    bool down = call->expr->function->id == EF__FN_FLOOR;

    return round_call(call, 0, down ? ROUND_DOWN : ROUND_UP, out);
}

ef_status ef__call_number(ef__call *call, ef__value *out)
{
    ef_error err = EF_ERROR_INIT;
    ef__number n;

    if (call->args[0].kind != EF__VALUE_STRING) {
        *out = call->args[0];
        return EF_OK;
    }
    if (ef__number_parse(ef__value_text(call->args[0]), &n, &err) != EF_OK)
        return ef__eval_mistake(call->ev, call->exprs[0], call->args[0], out, "%s",
                                err.status == EF_TOO_LARGE ? "it has more than 38 digits"
                                                           : "it is not a number");
    return ef__eval_number(call->ev, &n, out);
}
