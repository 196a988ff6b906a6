/*
 * sort_key.c - values as bytes that sort alike. The form is drawn in match.h.
 */
#include "match.h"

enum {
    TAG_END = 0x00, /* below every tag: a shorter array comes first */
    TAG_NULL = 0x10,
    TAG_FALSE = 0x20,
    TAG_TRUE = 0x21,
    TAG_NUMBER = 0x30,
    TAG_TEXT = 0x40,
    TAG_ARRAY = 0x50,
    TAG_OBJECT = 0x60
};

enum { SIDE_BELOW = 1, SIDE_ZERO, SIDE_ABOVE };

/* Exponents of numbers that are exact, -37 to 38, are one byte. Those outside have a byte below or
 * above all of these, and then two. */
enum {
    EXPONENT_BIAS = 64,
    EXPONENT_MIN = -37,
    EXPONENT_MAX = 38,
    EXPONENT_LOWER = 8,
    EXPONENT_HIGHER = 240,
    LONG_BIAS = 32768,
    DIGITS_MAX = 39
};

static void add_value(ef__buf *out, ef__value v);

static void add_byte(ef__buf *out, unsigned byte)
{
    ef__buf_add_char(out, (char)(unsigned char)byte);
}

static void add_text(ef__buf *out, ef_str text)
{
    add_byte(out, TAG_TEXT);
    for (size_t i = 0; i < text.len; i++) {
        ef__buf_add_char(out, text.ptr[i]);
        if (text.ptr[i] == '\0')
            add_byte(out, 0xFF);
    }
    add_byte(out, 0);
    add_byte(out, 0);
}

static void add_exponent(ef__buf *out, int32_t exponent, unsigned flip)
{
    unsigned lifted = (unsigned)(exponent + LONG_BIAS);

    if (exponent >= EXPONENT_MIN && exponent <= EXPONENT_MAX) {
        add_byte(out, (unsigned)(exponent + EXPONENT_BIAS) ^ flip);
        return;
    }
    add_byte(out, (exponent < EXPONENT_MIN ? EXPONENT_LOWER : EXPONENT_HIGHER) ^ flip);
    add_byte(out, (lifted >> 8) ^ flip);
    add_byte(out, (lifted & 0xFF) ^ flip);
}

/* coefficient * 10^-scale as 0.d1d2d3… * 10^exponent, without trailing zeros. Digits are read in
 * pairs from the front, so a longer number with the same start is the larger one. */
static void add_digits(ef__buf *out, const ef__number *n)
{
    char digits[DIGITS_MAX + 1];
    unsigned flip = n->coefficient < 0 ? 0xFF : 0;
    unsigned __int128 rest =
        n->coefficient < 0 ? -(unsigned __int128)n->coefficient : (unsigned __int128)n->coefficient;
    int count = 0;
    int at = sizeof(digits);

    for (; rest; rest /= 10)
        digits[--at] = (char)(rest % 10);
    count = (int)sizeof(digits) - at;
    add_exponent(out, count - n->scale, flip);
    while (count > 0 && digits[at + count - 1] == 0)
        count--;
    for (int i = 0; i < count; i += 2) {
        unsigned second = i + 1 < count ? (unsigned)digits[at + i + 1] : 0;
        add_byte(out, ((unsigned)digits[at + i] * 10 + second + 1) ^ flip);
    }
    add_byte(out, flip);
}

/* The same of a number with more digits than numbers have. */
static void add_long_number(ef__buf *out, ef_str text)
{
    ef__number_digits digits = ef__number_digits_of(text);
    unsigned flip = digits.sign < 0 ? 0xFF : 0;

    add_byte(out, digits.sign < 0 ? SIDE_BELOW : SIDE_ABOVE);
    add_exponent(out, digits.exponent, flip);
    for (size_t i = 0; i < digits.count; i += 2) {
        unsigned second = i + 1 < digits.count ? ef__number_digit(&digits, i + 1) : 0;
        add_byte(out, (ef__number_digit(&digits, i) * 10 + second + 1) ^ flip);
    }
    add_byte(out, flip);
}

static void add_number(ef__buf *out, ef__value v)
{
    ef__number n;

    add_byte(out, TAG_NUMBER);
    if (ef__value_number(v, &n, NULL) != EF_OK) {
        add_long_number(out, ef__value_text(v));
        return;
    }
    add_byte(out, n.coefficient < 0 ? SIDE_BELOW : n.coefficient == 0 ? SIDE_ZERO : SIDE_ABOVE);
    if (n.coefficient != 0)
        add_digits(out, &n);
}

static void add_object(ef__buf *out, ef__value v)
{
    if (v.home == EF__HOME_JSON)
        (void)ef__json_sorted(v.as.json);
    ef__value_walk walk = ef__value_walk_of(v);
    add_byte(out, TAG_OBJECT);
    while (!out->failed && ef__value_next(&walk)) {
        add_text(out, ef__value_text(walk.key));
        add_value(out, walk.value);
    }
    add_byte(out, TAG_END);
}

static void add_value(ef__buf *out, ef__value v)
{
    ef__value_walk walk;

    switch (v.kind) {
    case EF__VALUE_MISSING:
    case EF__VALUE_NULL:
        add_byte(out, TAG_NULL);
        break;
    case EF__VALUE_FALSE:
    case EF__VALUE_TRUE:
        add_byte(out, v.kind == EF__VALUE_TRUE ? TAG_TRUE : TAG_FALSE);
        break;
    case EF__VALUE_INT:
    case EF__VALUE_DECIMAL:
        add_number(out, v);
        break;
    case EF__VALUE_STRING:
        add_text(out, ef__value_text(v));
        break;
    case EF__VALUE_ARRAY:
        walk = ef__value_walk_of(v);
        add_byte(out, TAG_ARRAY);
        while (!out->failed && ef__value_next(&walk))
            add_value(out, walk.value);
        add_byte(out, TAG_END);
        break;
    default:
        add_object(out, v);
    }
}

/* Bytes are added one by one, so a full buffer holds a prefix of the key to its last byte. */
ef_status ef__sort_key(ef__value v, size_t max_bytes, ef__buf *out, bool *out_cut, ef_error *err)
{
    size_t capacity = out->max_bytes;
    bool is_limited = max_bytes < capacity - out->len;

    if (out->failed)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a sort key");
    if (is_limited)
        out->max_bytes = out->len + max_bytes;
    add_value(out, v);
    *out_cut = is_limited && out->failed && out->len == out->max_bytes;
    out->max_bytes = capacity;
    if (*out_cut)
        out->failed = false;
    return out->failed ? ef_fail(err, EF_NO_MEMORY, "out of memory for a sort key") : EF_OK;
}

bool ef__sort_key_is_plain(ef_str key, ef_str other)
{
    if (key.len < 2 || other.len < 2 || key.ptr[0] != other.ptr[0])
        return false;
    return key.ptr[0] == TAG_TEXT || key.ptr[0] == TAG_NUMBER;
}
