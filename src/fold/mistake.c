/*
 * mistake.c - messages for events that a program cannot process, and the budgets.
 */
#include "eval.h"

#include "../base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

/* Parts of a message, which has 512 bytes. */
enum { SHOWN_SOURCE_BYTES = 80, SHOWN_VALUE_BYTES = 60, WHAT_BYTES = 200 };

/* The source text of an expression, within its line. */
static ef_str quote_source(const ef__eval *ev, const ef__span *span)
{
    ef_str rest = {ev->source.ptr + span->offset, ev->source.len - span->offset};
    size_t len = 0;

    if (span->offset >= ev->source.len)
        return EF_STR("?");
    for (uint32_t i = 0; i < span->length && len < rest.len && rest.ptr[len] != '\n'; i++) {
        uint32_t code;
        size_t bytes = ef__character((ef_str){rest.ptr + len, rest.len - len}, &code);
        len += bytes ? bytes : 1;
    }
    return ef__utf8_cut((ef_str){rest.ptr, len}, SHOWN_SOURCE_BYTES);
}

/* "12" for the text 12, 12 for the number; long ones are cut. */
static void print_value(ef__value v, char *out, size_t out_bytes)
{
    EF__AUTO(ef__buf) buf = EF__BUF_INIT(SHOWN_VALUE_BYTES);

    if (v.kind == EF__VALUE_MISSING) {
        (void)snprintf(out, out_bytes, "missing");
        return;
    }
    ef_status st = ef__value_print(v, &buf, NULL);
    ef_str shown = ef__utf8_cut(ef__buf_str(&buf), SHOWN_VALUE_BYTES);
    (void)snprintf(out, out_bytes, "%.*s%s", EF_STR_ARG(shown), st == EF_OK ? "" : "…");
}

static ef_status report_mistake(ef__eval *ev, const ef__expr *expr, const ef__value *v,
                                const char *what)
{
    char shown[SHOWN_VALUE_BYTES + 8];
    ef_str path = quote_source(ev, &expr->span);

    ev->line = expr->span.line;
    if (!v)
        return ef_fail(ev->err, EF_BAD_INPUT, "%.*s: %s", EF_STR_ARG(path), what);
    print_value(*v, shown, sizeof(shown));
    if (expr->kind == EF__EXPR_NUMBER || expr->kind == EF__EXPR_TEXT)
        return ef_fail(ev->err, EF_BAD_INPUT, "%.*s: %s", EF_STR_ARG(path), what);
    return ef_fail(ev->err, EF_BAD_INPUT, "%.*s is %s: %s", EF_STR_ARG(path), shown, what);
}

ef_status ef__eval_mistake(ef__eval *ev, const ef__expr *expr, ef__value v, ef__value *out,
                           const char *format, ...)
{
    char what[WHAT_BYTES];
    va_list args;

    *out = EF__NULL;
    if (ev->lenient)
        return EF_OK;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return report_mistake(ev, expr, &v, what);
}

ef_status ef__eval_wrong(ef__eval *ev, const ef__expr *expr, ef__value *out, const char *format,
                         ...)
{
    char what[WHAT_BYTES];
    va_list args;

    *out = EF__NULL;
    if (ev->lenient)
        return EF_OK;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return report_mistake(ev, expr, NULL, what);
}

ef_status ef__eval_limit(ef__eval *ev, const ef__span *span, const char *format, ...)
{
    char what[WHAT_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    ev->line = span->line;
    return ef_fail(ev->err, EF_TOO_LARGE, "%s", what);
}

ef_status ef__eval_no_memory(ef__eval *ev)
{
    /* The arena has a maximum, and reaching it is a mistake of the program; otherwise the system is
     * out of memory. */
    if (ev->arena->used_bytes > ev->arena->max_bytes / 2)
        return ef_fail(ev->err, EF_TOO_LARGE, "more than %d MiB of values for one event",
                       EF_FOLD_LIMIT_EVENT_ARENA_BYTES / (1024 * 1024));
    ev->fatal = true;
    return ef_fail(ev->err, EF_NO_MEMORY, "no memory for the values of an event");
}

ef_status ef__eval_charge(ef__eval *ev, const ef__expr *expr, size_t steps)
{
    ev->steps_left -= (int64_t)steps;
    if (ev->steps_left >= 0)
        return EF_OK;
    return ef__eval_limit(ev, &expr->span, "more than %d steps for one event", EF_FOLD_LIMIT_STEPS);
}

ef_status ef__eval_charge_output(ef__eval *ev, const ef__expr *expr, size_t bytes)
{
    if (bytes > EF_FOLD_LIMIT_OUTPUT_BYTES || (ev->output_left -= (int64_t)bytes) < 0)
        return ef__eval_limit(ev, &expr->span, "more than %d bytes of values made for one event",
                              EF_FOLD_LIMIT_OUTPUT_BYTES);
    return EF_OK;
}

ef_status ef__eval_text(ef__eval *ev, const ef__expr *expr, ef_str text, ef__value *out)
{
    ef_status st = ef__eval_charge_output(ev, expr, text.len);

    if (st != EF_OK)
        return st;
    ef_str copy = ef__arena_copy(ev->arena, text);
    if (!copy.ptr)
        return ef__eval_no_memory(ev);
    *out = ef__value_string(copy);
    return EF_OK;
}

ef_status ef__eval_to_text(ef__eval *ev, const ef__expr *expr, ef__value v, ef_str *out)
{
    char bytes[64];
    ef__buf buf = {bytes, 0, sizeof(bytes), sizeof(bytes) - 1, false};
    ef__value text = EF__NULL;

    if (v.kind == EF__VALUE_STRING) {
        *out = ef__value_text(v);
        return EF_OK;
    }
    ef_status st = ef__eval_charge(ev, expr, ef__eval_cost(v));
    if (st != EF_OK)
        return st;
    bool small = v.kind < EF__VALUE_STRING;
    if (!small)
        buf = (ef__buf)EF__BUF_INIT(EF_FOLD_LIMIT_OUTPUT_BYTES);
    st = ef__value_print(v, &buf, ev->err);
    if (st == EF_OK)
        st = ef__eval_text(ev, expr, ef__buf_str(&buf), &text);
    else
        ev->line = expr->span.line;
    if (!small)
        ef__buf_release(&buf);
    *out = st == EF_OK ? ef__value_text(text) : EF_STR("");
    return st;
}

ef_status ef__eval_number(ef__eval *ev, const ef__number *number, ef__value *out)
{
    ef_status st = ef__value_from_number(number, ev->arena, out, ev->err);

    return st == EF_OK ? EF_OK : ef__eval_no_memory(ev);
}
