/*
 * number.c - exact decimals on 128-bit integers.
 *
 * Calculations use magnitudes (unsigned) with a separate sign: two magnitudes of 38 digits can be
 * added without overflow, which signed 128 bits could not hold. Every result passes make_number,
 * which reduces it to lowest terms and refuses more than 38 digits, so these always hold of an
 * ef__number: |coefficient| < 10^38, scale 0 to 38, and a scale above 0 only with a last digit that
 * is not 0.
 */
#include "number.h"

#include "limits.h"

#define TEXT_OF(macro) TEXT_OF_TOKEN(macro)
#define TEXT_OF_TOKEN(token) #token

typedef unsigned __int128 magnitude;

enum {
    DIGITS_MAX = 38, /* 10^38 is the last power of ten in 128 bits */
    SCALE_MAX = 38,
    QUOTIENT_DIGITS = 34, /* as decimal128 has */
    TEXT_MAX = 48         /* sign, "0.", 38 digits, NUL */
};

/* A quotient in progress: whole * 10^-scale, plus remainder / divisor of the next unit. */
typedef struct quotient {
    magnitude whole;
    magnitude remainder;
    magnitude divisor;
    int scale; /* may be below 0 */
} quotient;

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

bool ef__digits_parse(ef_str text, int64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.len && i < 18; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        *out = *out * 10 + (text.ptr[i] - '0');
    }
    return text.len >= 1 && text.len <= 18;
}

static ef_status scan_mistake(ef__number_parts *out, ef_status status, size_t at, const char *what)
{
    out->len = at;
    out->wrong = what;
    return status;
}

static ef_status scan_exponent(const char **p, const char *end, ef__number_parts *out)
{
    const char *at = *p + 1;
    bool negative = at < end && *at == '-';
    int32_t exponent = 0;

    if (at < end && (*at == '-' || *at == '+'))
        at++;
    *p = skip_digits(at, end);
    if (*p == at)
        return EF_BAD_JSON;
    for (; at < *p && exponent <= EF_LIMIT_NUMBER_EXPONENT; at++)
        exponent = exponent * 10 + (*at - '0');
    out->exponent = negative ? -exponent : exponent;
    return exponent > EF_LIMIT_NUMBER_EXPONENT ? EF_TOO_LARGE : EF_OK;
}

/* -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? */
ef_status ef__number_scan(ef_str text, ef__number_parts *out)
{
    const char *start = text.len ? text.ptr : "";
    const char *end = start + text.len;
    const char *p = start;

    *out = (ef__number_parts){.negative = p < end && *p == '-'};
    if (out->negative)
        p++;
    out->whole.ptr = p;
    p = skip_digits(p, end);
    out->whole.len = (size_t)(p - out->whole.ptr);
    if (out->whole.len == 0)
        return scan_mistake(out, EF_BAD_JSON, (size_t)(p - start), "a digit");
    if (out->whole.len > 1 && *out->whole.ptr == '0')
        return scan_mistake(out, EF_BAD_JSON, (size_t)(out->whole.ptr - start),
                            "a number without leading zeros");
    if (p < end && *p == '.') {
        out->fraction.ptr = ++p;
        p = skip_digits(p, end);
        out->fraction.len = (size_t)(p - out->fraction.ptr);
        if (out->fraction.len == 0)
            return scan_mistake(out, EF_BAD_JSON, (size_t)(p - start), "a digit after the point");
    }
    ef_status st = p < end && (*p == 'e' || *p == 'E') ? scan_exponent(&p, end, out) : EF_OK;
    if (st == EF_BAD_JSON)
        return scan_mistake(out, st, (size_t)(p - start), "a digit in the exponent");
    if (st == EF_TOO_LARGE)
        return scan_mistake(out, st, 0, "an exponent past " TEXT_OF(EF_LIMIT_NUMBER_EXPONENT));
    out->len = (size_t)(p - start);
    if (out->len > EF_LIMIT_NUMBER_BYTES)
        return scan_mistake(out, EF_TOO_LARGE, 0,
                            "a number of more than " TEXT_OF(EF_LIMIT_NUMBER_BYTES) " characters");
    return EF_OK;
}

ef__number_digits ef__number_digits_of(ef_str text)
{
    ef__number_parts parts;
    ef__number_digits out = {0};

    (void)ef__number_scan(text, &parts);
    out.whole = parts.whole;
    out.fraction = parts.fraction;
    out.count = parts.whole.len + parts.fraction.len;
    while (out.count > 0 && ef__number_digit(&out, out.count - 1) == 0)
        out.count--;
    while (out.count > 0 && ef__number_digit(&out, 0) == 0) {
        out.skip++;
        out.count--;
    }
    if (out.count == 0)
        return out;
    out.sign = parts.negative ? -1 : 1;
    out.exponent = (int32_t)parts.whole.len - (int32_t)out.skip + parts.exponent;
    return out;
}

int ef__number_digits_compare(const ef__number_digits *a, const ef__number_digits *b)
{
    if (a->sign != b->sign)
        return a->sign < b->sign ? -1 : 1;
    if (a->exponent != b->exponent)
        return a->exponent < b->exponent ? -a->sign : a->sign;
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        unsigned left = ef__number_digit(a, i);
        unsigned right = ef__number_digit(b, i);
        if (left != right)
            return left < right ? -a->sign : a->sign;
    }
    return a->count == b->count ? 0 : a->count < b->count ? -a->sign : a->sign;
}

bool ef__number_parse_short(ef_str text, ef__number *out)
{
    if (text.len == 0 || text.len > 18)
        return false;
    bool negative = text.ptr[0] == '-';
    const char *start = text.ptr + negative;
    const char *end = text.ptr + text.len;
    const char *point = NULL;
    int64_t value = 0;

    if (start == end || (*start == '0' && end - start > 1 && start[1] != '.'))
        return false;
    for (const char *p = start; p < end; p++) {
        if (*p == '.' && !point && p > start && p + 1 < end)
            point = p;
        else if (*p >= '0' && *p <= '9')
            value = value * 10 + (*p - '0');
        else
            return false;
    }
    int32_t scale = point ? (int32_t)(end - point) - 1 : 0;
    while (scale > 0 && value % 10 == 0) {
        value /= 10;
        scale--;
    }
    *out = (ef__number){negative ? -value : value, scale};
    return true;
}

/* 10^0 to 10^38, the last that fits into 128 bits. */
static magnitude power_of_ten(int exponent)
{
    static const uint32_t small[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    magnitude power = small[exponent % 9];

    for (int nines = exponent / 9; nines > 0; nines--)
        power *= 1000000000;
    return power;
}

/* m * 10^exponent; false: it does not fit into 128 bits. 0 stays 0 whatever the exponent. */
static bool times_power(magnitude *m, int exponent)
{
    if (*m == 0 || exponent == 0)
        return true;
    return exponent <= DIGITS_MAX && !__builtin_mul_overflow(*m, power_of_ten(exponent), m);
}

static bool make_number(bool negative, magnitude m, int scale, ef__number *out)
{
    while (scale > 0 && m % 10 == 0) {
        m /= 10;
        scale = m == 0 ? 0 : scale - 1;
    }
    if (m >= power_of_ten(DIGITS_MAX) || scale > SCALE_MAX)
        return false;
    out->coefficient = negative ? -(__int128)m : (__int128)m;
    out->scale = scale;
    return true;
}

static ef_status parse_long(ef_str text, ef__number *out, ef_error *err)
{
    ef__number_parts parts;
    ef_str shown = {text.ptr, text.len < EF_LIMIT_NUMBER_BYTES ? text.len : EF_LIMIT_NUMBER_BYTES};
    magnitude m = 0;
    ef_status st = ef__number_scan(text, &parts);

    if (st == EF_TOO_LARGE)
        return ef_fail(err, st, "%.*s: %s", EF_STR_ARG(shown), parts.wrong);
    if (st == EF_OK && parts.len != text.len)
        parts.wrong = "the end";
    if (parts.wrong)
        return ef_fail(err, EF_BAD_JSON, "'%.*s' is not a number: %s expected at byte %zu",
                       EF_STR_ARG(shown), parts.wrong, parts.len);

    /* Zeros are counted and added only when a digit follows, so that the zeros of 1000e-3 or 1.000
     * do not count. */
    int zeros = 0;
    for (size_t i = 0; i < parts.whole.len + parts.fraction.len; i++) {
        char c = i < parts.whole.len ? parts.whole.ptr[i] : parts.fraction.ptr[i - parts.whole.len];
        zeros++;
        if (c == '0')
            continue;
        /* 39 digits can pass the multiplication and overflow in the addition. */
        if (!times_power(&m, zeros) || m >= power_of_ten(DIGITS_MAX))
            goto too_large;
        m += (magnitude)(c - '0');
        zeros = 0;
    }
    int scale = (int)parts.fraction.len - parts.exponent - zeros;
    if (m == 0)
        scale = 0;
    if (scale < 0 && !times_power(&m, -scale))
        goto too_large;
    if (make_number(parts.negative, m, scale < 0 ? 0 : scale, out))
        return EF_OK;
too_large:
    return ef_fail(err, EF_TOO_LARGE, "%.*s has more than %d digits or decimals", EF_STR_ARG(shown),
                   DIGITS_MAX);
}

ef_status ef__number_parse(ef_str text, ef__number *out, ef_error *err)
{
    return ef__number_parse_short(text, out) ? EF_OK : parse_long(text, out, err);
}

ef__number ef__number_from_int64(int64_t value)
{
    return (ef__number){value, 0};
}

bool ef__number_is_int64(const ef__number *n, int64_t *out)
{
    if (n->scale != 0 || n->coefficient < INT64_MIN || n->coefficient > INT64_MAX)
        return false;
    if (out)
        *out = (int64_t)n->coefficient;
    return true;
}

static magnitude magnitude_of(const ef__number *n)
{
    return n->coefficient < 0 ? -(magnitude)n->coefficient : (magnitude)n->coefficient;
}

static size_t number_text(const ef__number *n, char out[TEXT_MAX])
{
    char reversed[TEXT_MAX];
    magnitude m = magnitude_of(n);
    size_t count = 0;
    size_t len = 0;

    for (int place = 0; m != 0 || place <= n->scale; place++) {
        if (place == n->scale && place > 0)
            reversed[count++] = '.';
        reversed[count++] = (char)('0' + (int)(m % 10));
        m /= 10;
    }
    if (n->coefficient < 0)
        out[len++] = '-';
    while (count > 0)
        out[len++] = reversed[--count];
    out[len] = '\0';
    return len;
}

bool ef__number_format(const ef__number *n, ef__buf *out)
{
    char text[TEXT_MAX];

    return ef__buf_add(out, text, number_text(n, text));
}

int ef__number_compare(const ef__number *a, const ef__number *b)
{
    int sign = a->coefficient < 0 ? -1 : 1;

    if ((a->coefficient < 0) != (b->coefficient < 0))
        return sign;

    /* Whole parts first, then fractions: a fraction at 38 decimals always fits, the whole number at
     * 38 decimals would not. */
    magnitude unit_a = power_of_ten(a->scale);
    magnitude unit_b = power_of_ten(b->scale);
    magnitude x = magnitude_of(a) / unit_a;
    magnitude y = magnitude_of(b) / unit_b;
    if (x == y) {
        x = magnitude_of(a) % unit_a * power_of_ten(SCALE_MAX - a->scale);
        y = magnitude_of(b) % unit_b * power_of_ten(SCALE_MAX - b->scale);
    }
    return x == y ? 0 : x < y ? -sign : sign;
}

/* In 64 bits, for common amounts: few digits, few decimals. */
static bool add_short(const ef__number *a, const ef__number *b, ef__number *out)
{
    const int64_t most = INT64_C(1) << 52;
    int32_t scale = a->scale > b->scale ? a->scale : b->scale;
    int64_t x = (int64_t)a->coefficient;
    int64_t y = (int64_t)b->coefficient;

    if (x != a->coefficient || y != b->coefficient || x > most || x < -most || y > most ||
        y < -most || scale - a->scale > 3 || scale - b->scale > 3)
        return false;
    for (int32_t i = a->scale; i < scale; i++)
        x *= 10;
    for (int32_t i = b->scale; i < scale; i++)
        y *= 10;
    int64_t sum = x + y;
    while (scale > 0 && sum % 10 == 0) {
        sum /= 10;
        scale--;
    }
    *out = (ef__number){sum, scale};
    return true;
}

static ef_status fail_too_large(const ef__number *a, const char *sign, const ef__number *b,
                                ef_error *err)
{
    char left[TEXT_MAX];
    char right[TEXT_MAX];

    (void)number_text(a, left);
    (void)number_text(b, right);
    return ef_fail(err, EF_TOO_LARGE, "%s %s %s has more than %d digits or decimals", left, sign,
                   right, DIGITS_MAX);
}

ef_status ef__number_add(const ef__number *a, const ef__number *b, ef__number *out, ef_error *err)
{
    int scale = a->scale > b->scale ? a->scale : b->scale;
    magnitude x = magnitude_of(a);
    magnitude y = magnitude_of(b);
    bool negative = a->coefficient < 0;

    if (add_short(a, b, out))
        return EF_OK;
    /* At most one of the two is scaled up. Above 2 * 10^38 the other cannot bring the sum below
     * 10^38; below it both fit: 10^37 - 0.5 has 38 digits though 10^37 at its scale has 39. */
    magnitude most = 2 * power_of_ten(DIGITS_MAX);
    if (!times_power(&x, scale - a->scale) || !times_power(&y, scale - b->scale) || x > most ||
        y > most)
        return fail_too_large(a, "+", b, err);

    magnitude sum = x + y;
    if (negative != (b->coefficient < 0)) {
        sum = x > y ? x - y : y - x;
        negative = x > y ? negative : !negative;
    }
    return make_number(negative, sum, scale, out) ? EF_OK : fail_too_large(a, "+", b, err);
}

ef_status ef__number_sub(const ef__number *a, const ef__number *b, ef__number *out, ef_error *err)
{
    ef__number minus_b = {-b->coefficient, b->scale};

    return ef__number_add(a, &minus_b, out, err);
}

/* When the product does not fit, factors of ten are removed while the scale allows it: a two of one
 * side with a five of the other. The rest is the product in lowest terms, so when that does not fit
 * either, the number does not. */
static bool multiply_magnitudes(magnitude a, magnitude b, int scale, bool negative, ef__number *out)
{
    magnitude product;

    if (!__builtin_mul_overflow(a, b, &product))
        return make_number(negative, product, scale, out);
    while (scale > 0 && (a % 2 == 0 || b % 2 == 0) && (a % 5 == 0 || b % 5 == 0)) {
        *(a % 2 == 0 ? &a : &b) /= 2;
        *(a % 5 == 0 ? &a : &b) /= 5;
        scale--;
    }
    return !__builtin_mul_overflow(a, b, &product) && make_number(negative, product, scale, out);
}

ef_status ef__number_mul(const ef__number *a, const ef__number *b, ef__number *out, ef_error *err)
{
    bool negative = (a->coefficient < 0) != (b->coefficient < 0);

    if (!multiply_magnitudes(magnitude_of(a), magnitude_of(b), a->scale + b->scale, negative, out))
        return fail_too_large(a, "*", b, err);
    return EF_OK;
}

/* Long division, digit by digit, to 34 digits, 38 decimals or the exact end. Ten times the
 * remainder would overflow, so it is computed by doubling and adding: 2r, 4r, 5r, 10r, each less
 * than twice the divisor and reduced at once. */
static void draw_digits(quotient *q)
{
    magnitude enough = power_of_ten(QUOTIENT_DIGITS - 1);

    while (q->remainder != 0 && q->whole < enough && q->scale < SCALE_MAX) {
        const magnitude once = q->remainder;
        magnitude r = once;
        unsigned digit = 0;
        for (int step = 0; step < 4; step++) {
            r += step == 2 ? once : r;
            digit = step == 2 ? digit : digit * 2;
            if (r >= q->divisor) {
                r -= q->divisor;
                digit++;
            }
        }
        q->whole = q->whole * 10 + digit;
        q->remainder = r;
        q->scale++;
    }
}

/* Half to even, once: digits past the 34th and the remainder are rounded together. */
static void round_quotient(quotient *q)
{
    magnitude unit = 1;
    int dropped = 0;

    while (q->whole / unit >= power_of_ten(QUOTIENT_DIGITS)) {
        unit *= 10;
        dropped++;
    }
    magnitude rest = q->whole % unit;
    q->whole /= unit;
    q->scale -= dropped;

    magnitude twice = dropped ? 2 * rest : 2 * q->remainder;
    magnitude whole_unit = dropped ? unit : q->divisor;
    bool tie = twice == whole_unit && (!dropped || q->remainder == 0);
    bool over = twice > whole_unit || (twice == whole_unit && !tie);
    if (over || (tie && q->whole % 2 == 1))
        q->whole++;
}

ef_status ef__number_div(const ef__number *a, const ef__number *b, ef__number *out, ef_error *err)
{
    bool negative = (a->coefficient < 0) != (b->coefficient < 0);
    magnitude x = magnitude_of(a);
    magnitude y = magnitude_of(b);

    if (y == 0)
        return ef_fail(err, EF_BAD_INPUT, "division by zero");
    quotient q = {x / y, x % y, y, a->scale - b->scale};
    draw_digits(&q);
    round_quotient(&q);
    if (q.scale < 0) {
        if (!times_power(&q.whole, -q.scale))
            return fail_too_large(a, "/", b, err);
        q.scale = 0;
    }
    return make_number(negative, q.whole, q.scale, out) ? EF_OK : fail_too_large(a, "/", b, err);
}
