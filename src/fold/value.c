/*
 * value.c - reading and comparing values. Storing them is store.c, printing them print.c.
 *
 * Walks recurse, and the depth is bounded: values of a tree or of the heap are at most
 * EF_LIMIT_JSON_DEPTH deep, and values that a program builds around them are as deep as the
 * program.
 */
#include "value.h"

enum { WEIGHT_SCALAR = 8 }; /* bytes of text that a number or boolean counts as */

static int compare_numbers(ef__value a, ef__value b);
static int compare_arrays(ef__value a, ef__value b);
static int compare_objects(ef__value a, ef__value b);

const char *ef__value_kind_name(ef__value v)
{
    static const char *const names[] = {
        [EF__VALUE_MISSING] = "missing",  [EF__VALUE_NULL] = "null",
        [EF__VALUE_FALSE] = "a boolean",  [EF__VALUE_TRUE] = "a boolean",
        [EF__VALUE_INT] = "a number",     [EF__VALUE_DECIMAL] = "a number",
        [EF__VALUE_STRING] = "a text",    [EF__VALUE_ARRAY] = "an array",
        [EF__VALUE_OBJECT] = "an object",
    };

    return names[v.kind];
}

/* A decimal that turns out to be whole (2.0) stays one until it is counted with or stored: it is no
 * index and no whole number. */
bool ef__value_short(ef_str number, ef__value *out)
{
    ef__number n;

    return ef__number_parse_short(number, &n) &&
           (n.scale > 0 || !memchr(number.ptr, '.', number.len)) && ef__value_short_number(&n, out);
}

ef__value ef__value_from_json(const ef__json *json)
{
    int64_t integer;
    ef__value v;

    if (!json)
        return EF__MISSING;
    switch (json->kind) {
    case EF__JSON_NULL:
        return EF__NULL;
    case EF__JSON_FALSE:
    case EF__JSON_TRUE:
        return ef__value_bool(json->kind == EF__JSON_TRUE);
    case EF__JSON_NUMBER:
        if (ef__value_short(json->text, &v))
            return v;
        if (ef__json_int64(json, &integer) == 0)
            return ef__value_int(integer);
        return (ef__value){.kind = EF__VALUE_DECIMAL,
                           .home = EF__HOME_JSON,
                           .len = (uint32_t)json->text.len,
                           .as.text = json->text.ptr};
    case EF__JSON_STRING:
        return ef__value_string(json->text);
    case EF__JSON_ARRAY:
        return (ef__value){.kind = EF__VALUE_ARRAY, .home = EF__HOME_JSON, .as.json = json};
    default:
        return (ef__value){.kind = EF__VALUE_OBJECT, .home = EF__HOME_JSON, .as.json = json};
    }
}

bool ef__value_short_number(const ef__number *number, ef__value *out)
{
    if (number->coefficient < INT64_MIN || number->coefficient > INT64_MAX)
        return false;
    *out = ef__value_int((int64_t)number->coefficient);
    if (number->scale > 0) {
        out->kind = EF__VALUE_DECIMAL;
        out->home = EF__HOME_SELF;
        out->len = (uint32_t)number->scale;
    }
    return true;
}

ef_status ef__value_from_number(const ef__number *number, ef__arena *arena, ef__value *out,
                                ef_error *err)
{
    if (ef__value_short_number(number, out))
        return EF_OK;
    ef__number *copy = ef__arena_alloc(arena, sizeof(*copy));
    if (!copy)
        return ef_fail(err, EF_NO_MEMORY, "no memory for a number");
    *copy = *number;
    *out = (ef__value){.kind = EF__VALUE_DECIMAL, .as.number = copy};
    return EF_OK;
}

ef_status ef__value_number(ef__value v, ef__number *out, ef_error *err)
{
    if (v.kind == EF__VALUE_INT)
        *out = ef__number_from_int64(v.as.integer);
    else if (v.home == EF__HOME_SELF)
        *out = (ef__number){v.as.integer, (int32_t)v.len};
    else if (ef__value_is_text_number(v))
        return ef__number_parse(ef__value_text(v), out, err);
    else
        *out = *v.as.number;
    return EF_OK;
}

ef__value ef__value_item(ef__value array, size_t index)
{
    if (array.kind != EF__VALUE_ARRAY || index >= ef__value_count(array))
        return EF__MISSING;
    if (array.home != EF__HOME_JSON)
        return array.as.array->items[array.as.array->start + index];
    const ef__json *item = array.as.json->first;
    while (index-- > 0)
        item = item->next;
    return ef__value_from_json(item);
}

ef__value ef__value_get(ef__value object, ef_str key)
{
    bool found;

    if (object.kind != EF__VALUE_OBJECT)
        return EF__MISSING;
    if (object.home == EF__HOME_JSON) {
        for (const ef__json *child = object.as.json->first; child; child = child->next)
            if (child->key.len == key.len && memcmp(child->key.ptr, key.ptr, key.len) == 0)
                return ef__value_from_json(child);
        return EF__MISSING;
    }
    size_t at = ef__object_find(object.as.object, key, &found);
    return found ? object.as.object->members[at].value : EF__MISSING;
}

static int kind_rank(ef__value v)
{
    return v.kind == EF__VALUE_DECIMAL ? EF__VALUE_INT : v.kind;
}

int ef__value_compare(ef__value a, ef__value b)
{
    if (kind_rank(a) != kind_rank(b))
        return kind_rank(a) < kind_rank(b) ? -1 : 1;
    switch (kind_rank(a)) {
    case EF__VALUE_INT:
        return compare_numbers(a, b);
    case EF__VALUE_STRING:
        return ef__str_compare(ef__value_text(a), ef__value_text(b));
    case EF__VALUE_ARRAY:
        return compare_arrays(a, b);
    case EF__VALUE_OBJECT:
        return compare_objects(a, b);
    default:
        return 0;
    }
}

enum { NUMBER_TEXT_MAX = 64 }; /* bytes: sign, point and 38 digits, with space to spare */

/* `text` is a buffer for a number that is not stored as text. */
static ef__number_digits digits_of(ef__value v, char text[NUMBER_TEXT_MAX])
{
    ef__buf buf = {text, 0, NUMBER_TEXT_MAX, NUMBER_TEXT_MAX - 1, false};
    ef__number n;

    if (ef__value_is_text_number(v))
        return ef__number_digits_of(ef__value_text(v));
    (void)ef__value_number(v, &n, NULL);
    ef__number_format(&n, &buf); /* 48 bytes at most: it never grows */
    return ef__number_digits_of(ef__buf_str(&buf));
}

/* One of them has more digits than numbers have. */
static EF__SELDOM int compare_digits(ef__value a, ef__value b)
{
    char a_text[NUMBER_TEXT_MAX];
    char b_text[NUMBER_TEXT_MAX];
    ef__number_digits x = digits_of(a, a_text);
    ef__number_digits y = digits_of(b, b_text);

    return ef__number_digits_compare(&x, &y);
}

static int compare_numbers(ef__value a, ef__value b)
{
    ef__number x;
    ef__number y;

    if (a.kind == EF__VALUE_INT && b.kind == EF__VALUE_INT)
        return a.as.integer < b.as.integer ? -1 : a.as.integer > b.as.integer;
    if (ef__value_number(a, &x, NULL) == EF_OK && ef__value_number(b, &y, NULL) == EF_OK)
        return ef__number_compare(&x, &y);
    return compare_digits(a, b);
}

static int compare_arrays(ef__value a, ef__value b)
{
    ef__value_walk left = ef__value_walk_of(a);
    ef__value_walk right = ef__value_walk_of(b);

    for (;;) {
        bool more = ef__value_next(&left);
        if (!ef__value_next(&right))
            return more;
        if (!more)
            return -1;
        int diff = ef__value_compare(left.value, right.value);
        if (diff)
            return diff;
    }
}

/* Those of a tree are sorted when they are compared first. */
static ef__value_walk sorted_walk_of(ef__value v)
{
    if (v.home == EF__HOME_JSON)
        (void)ef__json_sorted(v.as.json);
    return ef__value_walk_of(v);
}

static int compare_objects(ef__value a, ef__value b)
{
    ef__value_walk left = sorted_walk_of(a);
    ef__value_walk right = sorted_walk_of(b);

    if (left.json && left.json == right.json)
        return 0;
    for (;;) {
        bool more = ef__value_next(&left);
        if (!ef__value_next(&right))
            return more;
        if (!more)
            return -1;
        int diff = ef__value_compare(left.key, right.key);
        if (!diff)
            diff = ef__value_compare(left.value, right.value);
        if (diff)
            return diff;
    }
}

bool ef__value_in_array(ef__value array, ef__value item)
{
    ef__value_walk walk = ef__value_walk_of(array);

    if (item.kind == EF__VALUE_MISSING)
        item = EF__NULL;
    while (ef__value_next(&walk))
        if (ef__value_compare(walk.value, item) == 0)
            return true;
    return false;
}

size_t ef__value_weight(ef__value v)
{
    switch (v.kind) {
    case EF__VALUE_STRING:
        return v.len + 2;
    case EF__VALUE_ARRAY:
    case EF__VALUE_OBJECT:
        if (v.home == EF__HOME_JSON)
            return v.as.json->text.len;
        if (v.home == EF__HOME_HEAP)
            return ef__value_size(v);
        return v.kind == EF__VALUE_ARRAY ? v.as.array->weight : v.as.object->weight;
    default:
        return WEIGHT_SCALAR;
    }
}

unsigned ef__value_depth(ef__value v)
{
    unsigned deepest = 0;

    if (v.kind != EF__VALUE_ARRAY && v.kind != EF__VALUE_OBJECT)
        return 0;
    ef__value_walk walk = ef__value_walk_of(v);
    while (ef__value_next(&walk)) {
        unsigned depth = ef__value_depth(walk.value);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + 1;
}
