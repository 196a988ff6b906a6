/*
 * number.h - exact numbers: 64-bit integers and decimals, never binary floating point.
 *
 * A number is coefficient * 10^-scale, with at most 38 digits and scale 0 to 38, always in lowest
 * terms (no trailing zero after the point). A value that does not fit is an error and never
 * rounded, except by division, which rounds half to even at 34 significant digits, or at the 38th
 * decimal where that comes first.
 */
#pragma once

#include "buf.h"

#include <everfold/status.h>

typedef struct ef__number {
    __int128 coefficient;
    int32_t scale;
} ef__number;

/* A text of 1 to 18 digits, which fit into 64 bits. False: it is another one. */
bool ef__digits_parse(ef_str text, int64_t *out);

/*
 * The JSON number at the start of a text, by its grammar and the limits of limits.h. This is the
 * only place with the grammar: json.c uses it too.
 */
typedef struct ef__number_parts {
    bool negative;
    ef_str whole;      /* digits before the point */
    ef_str fraction;   /* digits after it; may be empty */
    int32_t exponent;  /* 0 if there is none */
    size_t len;        /* bytes of the number; on failure, the offset of the mistake */
    const char *wrong; /* EF_BAD_JSON: what is expected there. EF_TOO_LARGE: what is too large */
} ef__number_parts;

/* EF_BAD_JSON, EF_TOO_LARGE; text after the number is ignored. */
ef_status ef__number_scan(ef_str text, ef__number_parts *out);

/*
 * The digits of a JSON number of any size, for comparing numbers that do not fit an ef__number: the
 * number is sign * 0.d1d2d3… * 10^exponent, where d1 and the last digit are not 0.
 */
typedef struct ef__number_digits {
    int sign;         /* -1, 0, 1 */
    int32_t exponent; /* 0 of zero */
    size_t count;     /* digits; 0 of zero */
    size_t skip;      /* zeros before the first of them */
    ef_str whole;
    ef_str fraction;
} ef__number_digits;

/* `text` is a number that ef__number_scan accepts. */
ef__number_digits ef__number_digits_of(ef_str text);
static inline unsigned ef__number_digit(const ef__number_digits *digits, size_t index)
{
    size_t at = digits->skip + index;

    return (unsigned)((at < digits->whole.len ? digits->whole.ptr[at]
                                              : digits->fraction.ptr[at - digits->whole.len]) -
                      '0');
}
int ef__number_digits_compare(const ef__number_digits *a, const ef__number_digits *b);

/* Parses a JSON number, exponent included. EF_BAD_JSON: not a number. EF_TOO_LARGE: too many
 * digits.
 */
ef_status ef__number_parse(ef_str text, ef__number *out, ef_error *err);
/* The same for numbers such as 7, -1 and 12.50, which are most numbers: up to 18 characters without
 * an exponent. False: another form; use ef__number_parse. */
bool ef__number_parse_short(ef_str text, ef__number *out);
ef__number ef__number_from_int64(int64_t value);
bool ef__number_is_int64(const ef__number *n, int64_t *out);
/* Plain JSON number: no exponent, no trailing zeros, "0" for minus zero. */
bool ef__number_format(const ef__number *n, ef__buf *out);
int ef__number_compare(const ef__number *a, const ef__number *b);
/* EF_TOO_LARGE on overflow; division by zero is EF_BAD_INPUT. */
ef_status ef__number_add(const ef__number *a, const ef__number *b, ef__number *out, ef_error *err);
ef_status ef__number_sub(const ef__number *a, const ef__number *b, ef__number *out, ef_error *err);
ef_status ef__number_mul(const ef__number *a, const ef__number *b, ef__number *out, ef_error *err);
ef_status ef__number_div(const ef__number *a, const ef__number *b, ef__number *out, ef_error *err);
