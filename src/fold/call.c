/*
 * call.c - the table of functions; calling one: its arguments, their kinds, its code. And the
 * functions that are about any value.
 */
#include "call.h"

#include "../base/hash.h"
#include "../base/settings.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define EF__FUNCTION_ROW(id, name, code, min, max, a, b, c, result, help, example)                 \
    {EF__FN_##id, name, min, max, {a, b, c}, result, help, example},
const ef__function ef__functions[EF__FN_COUNT_ALL] = {EF__FUNCTION_MAP(EF__FUNCTION_ROW)};
#undef EF__FUNCTION_ROW

#define EF__FUNCTION_CODE(id, name, code, ...) ef__call_##code,
static ef__call_fn *const codes[EF__FN_COUNT_ALL] = {EF__FUNCTION_MAP(EF__FUNCTION_CODE)};
#undef EF__FUNCTION_CODE

const ef__function *ef__function_find(ef_str name)
{
    for (size_t i = 0; i < EF__FN_COUNT_ALL; i++)
        if (ef_str_equal(name, ef_str_from(ef__functions[i].name)))
            return &ef__functions[i];
    return NULL;
}

const char *ef__function_suggest(ef_str name)
{
    const char *names[EF__FN_COUNT_ALL];

    for (size_t i = 0; i < EF__FN_COUNT_ALL; i++)
        names[i] = ef__functions[i].name;
    return ef__suggest(name, names, EF__FN_COUNT_ALL);
}

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

/* is_null … is_object: the functions are in the order of the kinds' bits. */
ef_status ef__call_is_kind(ef__call *call, ef__value *out)
{
    unsigned kind = 1u << (call->expr->function->id - EF__FN_IS_NULL);

    static_assert(1u << (EF__FN_IS_OBJECT - EF__FN_IS_NULL) == EF__KIND_OBJECT, "one for each");
    *out = ef__value_bool(kind_bit(call->args[0]) == kind);
    return EF_OK;
}
