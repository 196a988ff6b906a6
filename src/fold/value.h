/*
 * value.h - the values that programs work on.
 *
 * A value is small and passed by value. The location of its bytes is its home:
 *
 *   free     none (null, true, 7), or the arena of the current event
 *   program  a text of the program, which outlives every view: stored without a copy
 *   self     a decimal in the value itself
 *   heap     the folder's heap, with a reference count: the values of views
 *   json     a parsed tree: read in place, converted only when it is stored
 *
 * Numbers are exact. An integer that fits 64 bits is an INT; everything else is a DECIMAL (a large
 * integer too), or text: in a tree, until it is used in arithmetic, and in the heap, where it has
 * more digits than arithmetic is exact with (1e300) and is copied as it was written. Objects of the
 * heap and of the arena keep their members sorted by key.
 *
 * Where an array or object of the heap is part of a view, its `len` is its length as text, so that
 * removing it needs no walk; 0: unknown. A change clears it on the way (ef__slot_own).
 *
 * Strings, numbers and everything free or json never change. An array or object of the heap changes
 * only through change.h, and only where it has one reference.
 */
#pragma once

#include "heap.h"

#include "../base/json.h"
#include "../base/number.h"
#include "../base/same.h"

/* Kept apart from the functions that call it, which are called far more often and would have to
 * save more registers with it inside. */
#define EF__SELDOM __attribute__((noinline))

/* In the order of values: a lower kind comes first. false < true; INT and DECIMAL are both numbers,
 * compared by value. */
typedef enum ef__value_kind {
    EF__VALUE_MISSING, /* the result of a path that does not exist; never stored */
    EF__VALUE_NULL,
    EF__VALUE_FALSE,
    EF__VALUE_TRUE,
    EF__VALUE_INT,
    EF__VALUE_DECIMAL,
    EF__VALUE_STRING,
    EF__VALUE_ARRAY,
    EF__VALUE_OBJECT
} ef__value_kind;

typedef enum ef__value_home {
    EF__HOME_FREE,
    EF__HOME_PROGRAM,
    EF__HOME_SELF,
    EF__HOME_HEAP,
    EF__HOME_JSON
} ef__value_home;

typedef struct ef__array ef__array;
typedef struct ef__object ef__object;

typedef struct ef__value {
    uint8_t kind;
    uint8_t home;
    uint8_t plain; /* a string: known to need no escape when printed */
    uint32_t len;  /* string, and a number that is text: bytes. SELF: its scale. Array or object of
                      the heap: bytes of its text, or 0 */
    union {
        int64_t integer; /* SELF: its coefficient */
        const char *text;
        const ef__number *number;
        ef__array *array;
        ef__object *object;
        const ef__json *json; /* array or object of a tree */
    } as;
} ef__value;

struct ef__array {
    uint32_t refs;
    uint32_t start; /* of the first item in `items`: dropping from the front moves nothing */
    uint32_t count;
    uint32_t cap;
    size_t weight; /* of the arena's: see ef__value_weight */
    ef__value *items;
};

typedef struct ef__member {
    ef__value key; /* a string */
    ef__value value;
} ef__member;

struct ef__object {
    uint32_t refs;
    uint32_t count;
    uint32_t cap;
    uint32_t beside; /* capacity for members in the same allocation, after this struct */
    size_t weight;
    ef__member *members; /* sorted by key */
};

#define EF__MISSING ((ef__value){.kind = EF__VALUE_MISSING})
#define EF__NULL ((ef__value){.kind = EF__VALUE_NULL})

static inline ef__value ef__value_bool(bool truth)
{
    return (ef__value){.kind = truth ? EF__VALUE_TRUE : EF__VALUE_FALSE};
}

static inline ef__value ef__value_int(int64_t integer)
{
    return (ef__value){.kind = EF__VALUE_INT, .as.integer = integer};
}

/* Borrowed: the bytes outlive the value. */
static inline ef__value ef__value_string(ef_str text)
{
    return (ef__value){
        .kind = EF__VALUE_STRING, .len = (uint32_t)text.len, .as.text = text.len ? text.ptr : ""};
}

/* A text of the program. */
static inline ef__value ef__value_literal(ef_str text, bool plain)
{
    ef__value v = ef__value_string(text);

    v.home = EF__HOME_PROGRAM;
    v.plain = plain;
    return v;
}

static inline bool ef__value_is_number(ef__value v)
{
    return v.kind == EF__VALUE_INT || v.kind == EF__VALUE_DECIMAL;
}

/* A number that is the text it was written as. */
static inline bool ef__value_is_text_number(ef__value v)
{
    return v.kind == EF__VALUE_DECIMAL &&
           (v.home == EF__HOME_JSON || (v.home == EF__HOME_HEAP && v.len > 0));
}

/* The text of a string, or of a number that is text. */
static inline ef_str ef__value_text(ef__value v)
{
    return (ef_str){v.as.text, v.len};
}

const char *ef__value_kind_name(ef__value v); /* "a number", "an object", "missing" */

/* A node of a tree, read in place; NULL results in EF__MISSING. */
ef__value ef__value_from_json(const ef__json *json);
/* The same of a number's text; false: not a number, or one that has to be read with more care. */
bool ef__value_short(ef_str number, ef__value *out);
/* An INT or a decimal in itself; false when the coefficient is too large for that. */
bool ef__value_short_number(const ef__number *number, ef__value *out);
/* An INT or a decimal in itself where it fits, else a DECIMAL in `arena`. EF_NO_MEMORY */
ef_status ef__value_from_number(const ef__number *number, ef__arena *arena, ef__value *out,
                                ef_error *err);
/* The value of a number. EF_TOO_LARGE: it is text with more digits than numbers have. */
ef_status ef__value_number(ef__value v, ef__number *out, ef_error *err);

/* Items of an array or members of an object; 0 of anything else. */
static inline size_t ef__value_count(ef__value v)
{
    if (v.kind != EF__VALUE_ARRAY && v.kind != EF__VALUE_OBJECT)
        return 0;
    if (v.home == EF__HOME_JSON)
        return v.as.json->count;
    return v.kind == EF__VALUE_ARRAY ? v.as.array->count : v.as.object->count;
}
/* Item `index` of an array; EF__MISSING when there is none. */
ef__value ef__value_item(ef__value array, size_t index);
/* The member of that name; EF__MISSING when there is none. */
ef__value ef__value_get(ef__value object, ef_str key);

/*
 * The items or members of a value one after the other, members in the order of keys (of a tree: in
 * any order, unless ef__json_sorted was called before).
 *     ef__value_walk walk = ef__value_walk_of(v);
 *     while (ef__value_next(&walk)) … walk.key, walk.value …
 */
typedef struct ef__value_walk {
    ef__value of;
    size_t next;
    const ef__json *json;
    ef__value key; /* of a member */
    ef__value value;
} ef__value_walk;

static inline ef__value_walk ef__value_walk_of(ef__value v)
{
    ef__value_walk walk = {.of = v};

    if (v.home == EF__HOME_JSON && v.kind >= EF__VALUE_ARRAY)
        walk.json = v.as.json->first;
    return walk;
}

static inline bool ef__value_next(ef__value_walk *walk)
{
    ef__value of = walk->of;

    if (walk->next >= ef__value_count(of))
        return false;
    if (of.home == EF__HOME_JSON) {
        walk->key = ef__value_string(walk->json->key);
        walk->value = ef__value_from_json(walk->json);
        walk->json = walk->json->next;
    } else if (of.kind == EF__VALUE_ARRAY) {
        walk->value = of.as.array->items[of.as.array->start + walk->next];
    } else {
        walk->key = of.as.object->members[walk->next].key;
        walk->value = of.as.object->members[walk->next].value;
    }
    walk->next++;
    return true;
}

/*
 * The total order: missing < null < false < true < numbers < strings < arrays < objects. Strings by
 * bytes; arrays item by item, a shorter one first; objects as the list of their sorted keys and
 * values. 0 means equal by value: 1 and 1.0 are, and numbers of any size are compared exactly.
 */
int ef__value_compare(ef__value a, ef__value b);
/* Is an equal item in the array? A missing one counts as null. */
bool ef__value_in_array(ef__value array, ef__value item);

/* Does a text print without an escape? */
bool ef__text_is_plain(ef_str text);

/* Canonical JSON: sorted keys, no spaces, plain numbers; a number with too many digits as it was
 * written. MISSING is written as null. EF_TOO_LARGE when the buffer is full, EF_NO_MEMORY. */
ef_status ef__value_print(ef__value v, ef__buf *out, ef_error *err);

/* Exactly as many bytes as ef__value_print writes. */
size_t ef__value_size(ef__value v);
/* An estimate without a walk where possible, for budgets. Code that builds an array or object in
 * the arena keeps the sum in `weight`, because [x, x] of [x, x] of … is little memory and a great
 * deal of text. */
size_t ef__value_weight(ef__value v);
/* 0 of a scalar, 1 of [] and {}, 2 of [[]] … */
unsigned ef__value_depth(ef__value v);

/*
 * Arrays and objects of the arena, for results of expressions. `cap` is the most it will hold.
 * NULL: memory ran out. ef__object_put keeps the keys sorted, and the last of two equal ones.
 */
ef__array *ef__array_make(ef__arena *arena, size_t cap);
void ef__array_put(ef__array *array, ef__value value);
ef__object *ef__object_make(ef__arena *arena, size_t cap);
void ef__object_put(ef__object *object, ef__value key, ef__value value);
static inline ef__value ef__value_array(ef__array *array)
{
    return (ef__value){.kind = EF__VALUE_ARRAY, .as.array = array};
}
static inline ef__value ef__value_object(ef__object *object)
{
    return (ef__value){.kind = EF__VALUE_OBJECT, .as.object = object};
}
/* The memory of members that have outgrown their object. */
void ef__object_free_members(ef__heap *heap, ef__object *object);
/* The index of `key` among the members, or where it belongs. Most objects are small and have the
 * key, and its length rules out most others: that needs no call. */
size_t ef__object_search(const ef__object *object, ef_str key, bool *out_found);
static inline size_t ef__object_find(const ef__object *object, ef_str key, bool *out_found)
{
    enum { FEW_MEMBERS = 8 };

    *out_found = true;
    for (size_t i = 0; object->count <= FEW_MEMBERS && i < object->count; i++)
        if (ef__str_same(ef__value_text(object->members[i].key), key))
            return i;
    return ef__object_search(object, key, out_found);
}

/*
 * Copies a value into the heap: a value of the heap is shared, texts of the program stay where they
 * are, the rest is copied. MISSING becomes null. The result is owned: one reference.
 * EF_TOO_LARGE (nesting past EF_LIMIT_JSON_DEPTH), EF_NO_MEMORY; then nothing is kept and `*out` is
 * MISSING.
 */
ef_status ef__value_store(ef__heap *heap, ef__value v, ef__value *out, ef_error *err);
/* Is it stored as it is, without the heap? */
static inline bool ef__value_needs_no_heap(ef__value v)
{
    return v.home == EF__HOME_SELF || v.home == EF__HOME_PROGRAM ||
           (v.kind >= EF__VALUE_NULL && v.kind <= EF__VALUE_INT);
}
/* One more reference; only counts for the heap's. */
void ef__value_retain(ef__value v);
/* One reference less; the last one frees. */
void ef__value_drop(ef__heap *heap, ef__value of_heap);
static inline void ef__value_release(ef__heap *heap, ef__value v)
{
    if (v.home == EF__HOME_HEAP)
        ef__value_drop(heap, v);
}
