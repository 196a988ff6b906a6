/*
 * print.c - prints canonical text, and computes its length. Every changed view is printed once per
 * batch, so bytes are written directly into the buffer.
 */
#include "value.h"

#include <stdlib.h>

enum {
    NUMBER_TEXT_MAX = 64 /* bytes: sign, point and 38 digits, with space to spare */
};

static void print_value(ef__value v, ef__buf *out, ef_status *status, ef_error *err);

ef_status ef__value_print(ef__value v, ef__buf *out, ef_error *err)
{
    ef_status st = EF_OK;

    print_value(v, out, &st, err);
    if (st != EF_OK || ef__buf_add(out, "", 0))
        return st;
    /* The buffer grows by doubling: one that is below half of its maximum was not too long. */
    return out->cap < out->max_bytes / 2
               ? ef_fail(err, EF_NO_MEMORY, "memory ran out while printing a value")
               : ef_fail(err, EF_TOO_LARGE, "the text is longer than %zu bytes", out->max_bytes);
}

/* Reserves `len` bytes and returns their address; NULL: the buffer is full. */
static inline char *reserve_bytes(ef__buf *out, size_t len)
{
    if (out->failed || len >= out->cap - out->len) {
        if (!ef__buf_reserve(out, len))
            return NULL;
    }
    return out->ptr + out->len;
}

static inline void add_char(ef__buf *out, char c)
{
    char *p = reserve_bytes(out, 1);

    if (p) {
        *p = c;
        out->len++;
    }
}

static inline void add_bytes(ef__buf *out, const char *bytes, size_t len)
{
    char *p = reserve_bytes(out, len);

    if (p) {
        memcpy(p, bytes, len);
        out->len += len;
    }
}

/* No control character, quote or backslash. Eight bytes at a time; a byte above 127 is plain. The
 * classic tests for a byte below 32 and for a zero byte, on x and on x ^ pattern. */
bool ef__text_is_plain(ef_str text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t tops = ones * 0x80;
    const char *p = text.ptr;
    size_t len = text.len;

    for (; len >= 8; p += 8, len -= 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        uint64_t quote = x ^ ones * '"';
        uint64_t slash = x ^ ones * '\\';
        uint64_t odd =
            ((x - ones * 0x20) & ~x) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
        if (odd & tops)
            return false;
    }
    for (; len > 0; p++, len--)
        if ((unsigned char)*p < 0x20 || *p == '"' || *p == '\\')
            return false;
    return true;
}

static void print_string(ef__value v, ef__buf *out)
{
    ef_str text = ef__value_text(v);
    char *p;

    if (!v.plain && !ef__text_is_plain(text)) {
        ef__json_write_string(out, text);
        return;
    }
    p = reserve_bytes(out, text.len + 2);
    if (!p)
        return;
    p[0] = '"';
    if (text.len)
        memcpy(p + 1, text.ptr, text.len);
    p[text.len + 1] = '"';
    out->len += text.len + 2;
}

/* Writes the digits of magnitude * 10^-scale at the end of `text`; returns their start. */
static char *small_digits(uint64_t magnitude, int32_t scale, bool negative,
                          char text[NUMBER_TEXT_MAX])
{
    char *p = text + NUMBER_TEXT_MAX;

    for (int32_t place = 0; magnitude > 0 || place <= scale; place++) {
        if (place == scale && place > 0)
            *--p = '.';
        *--p = (char)('0' + magnitude % 10);
        magnitude /= 10;
    }
    if (negative)
        *--p = '-';
    return p;
}

/* A number's text, in `text` unless it is text already; its length. */
static size_t number_text(ef__value v, char text[NUMBER_TEXT_MAX], const char **out)
{
    ef__buf buf = {text, 0, NUMBER_TEXT_MAX, NUMBER_TEXT_MAX - 1, false};
    ef__number n = {v.as.integer, 0};

    if (v.kind != EF__VALUE_INT && ef__value_number(v, &n, NULL) != EF_OK) {
        *out = v.as.text;
        return v.len;
    }
    if (n.coefficient >= -INT64_MAX && n.coefficient <= INT64_MAX) {
        int64_t small = (int64_t)n.coefficient;
        uint64_t magnitude = small < 0 ? -(uint64_t)small : (uint64_t)small;
        *out = small_digits(magnitude, n.scale, small < 0, text);
        return (size_t)(text + NUMBER_TEXT_MAX - *out);
    }
    ef__number_format(&n, &buf); /* 48 bytes at most: it never grows */
    *out = text;
    return buf.len;
}

static EF__SELDOM void print_number(ef__value v, ef__buf *out)
{
    char text[NUMBER_TEXT_MAX];
    const char *number;
    size_t len = number_text(v, text, &number);

    add_bytes(out, number, len);
}

/* ,"key": at once when the key is plain, which is the common case. */
static void print_key(ef__value key, bool first, ef__buf *out)
{
    char *p = key.plain ? reserve_bytes(out, (size_t)key.len + 4) : NULL;

    if (!p) {
        if (!first)
            add_char(out, ',');
        print_string(key, out);
        add_char(out, ':');
        return;
    }
    *p = ',';
    p += !first;
    *p++ = '"';
    memcpy(p, key.as.text, key.len);
    p += key.len;
    *p++ = '"';
    *p++ = ':';
    out->len = (size_t)(p - out->ptr);
}

static void print_member(ef__value key, ef__value value, bool first, ef__buf *out,
                         ef_status *status, ef_error *err)
{
    print_key(key, first, out);
    print_value(value, out, status, err);
}

static void print_tree_object(const ef__json *object, ef__buf *out, ef_status *status,
                              ef_error *err)
{
    const ef__json *first = ef__json_sorted(object);

    for (const ef__json *child = first; *status == EF_OK && child; child = child->next)
        print_member(ef__value_string(child->key), ef__value_from_json(child), child == first, out,
                     status, err);
}

static void print_object(ef__value v, ef__buf *out, ef_status *status, ef_error *err)
{
    add_char(out, '{');
    if (v.home == EF__HOME_JSON) {
        print_tree_object(v.as.json, out, status, err);
    } else {
        const ef__object *object = v.as.object;
        for (uint32_t i = 0; *status == EF_OK && i < object->count; i++)
            print_member(object->members[i].key, object->members[i].value, i == 0, out, status,
                         err);
    }
    add_char(out, '}');
}

static void print_array(ef__value v, ef__buf *out, ef_status *status, ef_error *err)
{
    ef__value_walk walk = ef__value_walk_of(v);

    add_char(out, '[');
    while (*status == EF_OK && ef__value_next(&walk)) {
        if (walk.next > 1)
            add_char(out, ',');
        print_value(walk.value, out, status, err);
    }
    add_char(out, ']');
}

static void print_value(ef__value v, ef__buf *out, ef_status *status, ef_error *err)
{
    switch (v.kind) {
    case EF__VALUE_FALSE:
        add_bytes(out, "false", 5);
        break;
    case EF__VALUE_TRUE:
        add_bytes(out, "true", 4);
        break;
    case EF__VALUE_INT:
    case EF__VALUE_DECIMAL:
        print_number(v, out);
        break;
    case EF__VALUE_STRING:
        print_string(v, out);
        break;
    case EF__VALUE_ARRAY:
        print_array(v, out, status, err);
        break;
    case EF__VALUE_OBJECT:
        print_object(v, out, status, err);
        break;
    default:
        add_bytes(out, "null", 4);
    }
}

/* --- sizes ------------------------------------------------------------------------------------ */

static EF__SELDOM size_t string_size(ef_str text)
{
    size_t size = text.len + 2;

    if (ef__text_is_plain(text))
        return size;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        bool two = c >= 0x20 || c == '\b' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
        size += two ? 1 : 5;
    }
    return size;
}

/* 1233 / 4096 is nearly log10(2): going by its bits a number has `least` digits, or one more. 10^19
 * is the last power that 64 bits hold. */
static unsigned digits_of(uint64_t magnitude)
{
    static const uint64_t powers[] = {UINT64_C(1),
                                      UINT64_C(10),
                                      UINT64_C(100),
                                      UINT64_C(1000),
                                      UINT64_C(10000),
                                      UINT64_C(100000),
                                      UINT64_C(1000000),
                                      UINT64_C(10000000),
                                      UINT64_C(100000000),
                                      UINT64_C(1000000000),
                                      UINT64_C(10000000000),
                                      UINT64_C(100000000000),
                                      UINT64_C(1000000000000),
                                      UINT64_C(10000000000000),
                                      UINT64_C(100000000000000),
                                      UINT64_C(1000000000000000),
                                      UINT64_C(10000000000000000),
                                      UINT64_C(100000000000000000),
                                      UINT64_C(1000000000000000000),
                                      UINT64_C(10000000000000000000)};
    uint64_t odd = magnitude | 1; /* no power lies between the two, and 0 has a digit too */
    unsigned least = (64 - (unsigned)__builtin_clzll(odd)) * 1233 / 4096;

    return least + (odd >= powers[least]);
}

/* Of a number that is text, or has many digits: by writing it. */
static EF__SELDOM size_t long_number_size(ef__value v)
{
    char text[NUMBER_TEXT_MAX];
    const char *number;

    return number_text(v, text, &number);
}

static size_t short_number_size(int64_t coefficient, uint32_t scale)
{
    bool negative = coefficient < 0;
    unsigned digits = digits_of(negative ? -(uint64_t)coefficient : (uint64_t)coefficient);

    return (digits > scale ? digits : scale + 1) + (scale > 0) + negative;
}

static EF__SELDOM size_t tree_size(ef__value v)
{
    ef__value_walk walk = ef__value_walk_of(v);
    size_t size = 2;

    while (ef__value_next(&walk)) {
        size += ef__value_size(walk.value) + (walk.next > 1);
        if (v.kind == EF__VALUE_OBJECT)
            size += ef__value_size(walk.key) + 1;
    }
    return size;
}

/* Without a walk, whose copies of values the processor waits for. */
static EF__SELDOM size_t container_size(ef__value v)
{
    size_t count = ef__value_count(v), size = 2 + (count ? count - 1 : 0);

    if (v.home == EF__HOME_JSON)
        return tree_size(v);
    if (v.kind == EF__VALUE_ARRAY) {
        const ef__value *items = v.as.array->items + v.as.array->start;
        for (size_t i = 0; i < count; i++)
            size += ef__value_size(items[i]);
        return size;
    }
    const ef__member *members = v.as.object->members;
    for (size_t i = 0; i < count; i++)
        size += ef__value_size(members[i].key) + 1 + ef__value_size(members[i].value);
    return size;
}

size_t ef__value_size(ef__value v)
{
    switch (v.kind) {
    case EF__VALUE_FALSE:
        return 5;
    case EF__VALUE_INT:
        return short_number_size(v.as.integer, 0);
    case EF__VALUE_DECIMAL:
        return v.home == EF__HOME_SELF ? short_number_size(v.as.integer, v.len)
                                       : long_number_size(v);
    case EF__VALUE_STRING:
        return v.plain ? (size_t)v.len + 2 : string_size(ef__value_text(v));
    case EF__VALUE_ARRAY:
    case EF__VALUE_OBJECT:
        return v.home == EF__HOME_HEAP && v.len ? v.len : container_size(v);
    default:
        return 4; /* null, true */
    }
}
