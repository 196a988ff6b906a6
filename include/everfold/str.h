/*
 * str.h - text with a length.
 *
 * An ef_str borrows its bytes, and is passed by value. It need not end with NUL and may hold any
 * byte. The empty string is {NULL, 0} or {"", 0}: both mean the same.
 */
#ifndef EVERFOLD_STR_H
#define EVERFOLD_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_str {
    const char *ptr;
    size_t len;
} ef_str;

/* Starts a struct value in an expression, because ISO C++ has no compound literals. */
#ifdef __cplusplus
#define EF_VALUE(type) type
#else
#define EF_VALUE(type) (type)
#endif

/* The ef_str of a string literal. */
#define EF_STR(literal) (EF_VALUE(ef_str){(literal), sizeof(literal) - 1})

/* For printf: printf("%.*s", EF_STR_ARG(s)). */
#define EF_STR_ARG(s) (int)(s).len, ((s).ptr ? (s).ptr : "")

/* The ef_str of a C string; NULL results in the empty string. */
static inline ef_str ef_str_from(const char *text)
{
    ef_str s;
    s.ptr = text;
    s.len = text ? strlen(text) : 0;
    return s;
}

static inline bool ef_str_equal(ef_str a, ef_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

#ifdef __cplusplus
}
#endif
#endif
