/*
 * str.h - text with a length.
 *
 * An ef_str borrows its bytes, and is passed by value. It need not end with NUL and may hold any
 * byte. The empty string is {NULL, 0} or {"", 0}: both mean the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Around the declarations of each header. */
#ifdef __cplusplus
#define EF_C_BEGIN extern "C" {
#define EF_C_END }
#else
#define EF_C_BEGIN
#define EF_C_END
#endif

EF_C_BEGIN

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

EF_C_END
