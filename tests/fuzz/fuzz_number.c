/*
 * fuzz_number.c - any bytes as a number, and as two numbers with a space between. What must hold:
 * text and number go round, a number is in lowest terms, and sums and differences undo each other.
 */
#include "../../src/base/number.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static bool same(const ef__number *a, const ef__number *b)
{
    return a->coefficient == b->coefficient && a->scale == b->scale;
}

static void check_number(const ef__number *n)
{
    ef__buf buf = EF__BUF_INIT(100);
    ef__number again;

    must(n->scale >= 0 && n->scale <= 38);
    must(n->scale == 0 || n->coefficient % 10 != 0);
    must(ef__number_format(n, &buf));
    must(ef__number_parse(ef__buf_str(&buf), &again, NULL) == EF_OK);
    must(same(n, &again));
    ef__buf_release(&buf);
}

static void check_pair(const ef__number *a, const ef__number *b)
{
    ef__number out;
    ef__number back;
    int order = ef__number_compare(a, b);

    must(order == -ef__number_compare(b, a));
    must((order == 0) == same(a, b));
    if (ef__number_add(a, b, &out, NULL) == EF_OK) {
        check_number(&out);
        must(ef__number_sub(&out, b, &back, NULL) == EF_OK && same(a, &back));
    }
    if (ef__number_sub(a, b, &out, NULL) == EF_OK) {
        check_number(&out);
        must((out.coefficient > 0) - (out.coefficient < 0) == order);
    }
    if (ef__number_mul(a, b, &out, NULL) == EF_OK) {
        check_number(&out);
        must(ef__number_mul(b, a, &back, NULL) == EF_OK && same(&out, &back));
    }
    if (ef__number_div(a, b, &out, NULL) == EF_OK)
        check_number(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *space = size ? memchr(data, ' ', size) : NULL;
    size_t first = space ? (size_t)(space - data) : size;
    ef_error err = EF_ERROR_INIT;
    ef__number a;
    ef__number b;

    if (ef__number_parse((ef_str){(const char *)data, first}, &a, &err) != EF_OK)
        return 0;
    check_number(&a);
    if (space &&
        ef__number_parse((ef_str){(const char *)space + 1, size - first - 1}, &b, &err) == EF_OK) {
        check_number(&b);
        check_pair(&a, &b);
    }
    return 0;
}
