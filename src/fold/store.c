/*
 * store.c - creates arrays and objects, copies values into the heap, and releases them.
 *
 * A string of the heap, and a number that is text, has its reference count just before its bytes;
 * another number has it after.
 */
#include "value.h"

#include "../base/limits.h"

typedef struct heap_text {
    uint32_t refs;
    char bytes[];
} heap_text;

typedef struct heap_number {
    ef__number number; /* first, so that a pointer to the number is one to this */
    uint32_t refs;
} heap_number;

static ef_status store_at(ef__heap *heap, ef__value v, unsigned depth, ef__value *out,
                          ef_error *err);

ef__array *ef__array_make(ef__arena *arena, size_t cap)
{
    ef__array *array = ef__arena_alloc(arena, sizeof(*array) + cap * sizeof(ef__value));

    if (array)
        *array = (ef__array){
            .cap = (uint32_t)cap, .weight = 2, .items = (ef__value *)(void *)(array + 1)};
    return array;
}

void ef__array_put(ef__array *array, ef__value value)
{
    array->items[array->count++] = value;
    array->weight += ef__value_weight(value) + 1;
}

ef__object *ef__object_make(ef__arena *arena, size_t cap)
{
    ef__object *object = ef__arena_alloc(arena, sizeof(*object) + cap * sizeof(ef__member));

    if (object)
        *object = (ef__object){
            .cap = (uint32_t)cap, .weight = 2, .members = (ef__member *)(void *)(object + 1)};
    return object;
}

void ef__object_put(ef__object *object, ef__value key, ef__value value)
{
    bool found;
    size_t at = ef__object_find(object, ef__value_text(key), &found);

    if (!found) {
        memmove(object->members + at + 1, object->members + at,
                (object->count - at) * sizeof(ef__member));
        object->count++;
    }
    object->members[at] = (ef__member){key, value};
    object->weight += ef__value_weight(key) + ef__value_weight(value) + 2;
}

size_t ef__object_search(const ef__object *object, ef_str key, bool *out_found)
{
    size_t low = 0;
    size_t high = object->count;

    *out_found = true;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = ef__str_compare(key, ef__value_text(object->members[middle].key));
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    *out_found = false;
    return low;
}

ef_status ef__value_store(ef__heap *heap, ef__value v, ef__value *out, ef_error *err)
{
    ef_status st = store_at(heap, v, 0, out, err);

    if (st != EF_OK)
        *out = EF__MISSING; /* the partly created value is freed */
    return st;
}

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "no memory for the values of a view");
}

static ef_status store_text(ef__heap *heap, ef__value v, ef__value *out, ef_error *err)
{
    heap_text *text = ef__heap_alloc(heap, sizeof(*text) + v.len);

    if (!text)
        return no_memory(err);
    text->refs = 1;
    if (v.len)
        memcpy(text->bytes, v.as.text, v.len);
    *out = v;
    out->home = EF__HOME_HEAP;
    out->plain = v.plain || ef__text_is_plain(ef__value_text(v));
    out->as.text = text->bytes;
    return EF_OK;
}

static ef_status store_number(ef__heap *heap, ef__value v, ef__value *out, ef_error *err)
{
    ef__number number;

    if (ef__value_number(v, &number, NULL) != EF_OK)
        return store_text(heap, v, out, err);
    if (ef__value_short_number(&number, out))
        return EF_OK;
    heap_number *stored = ef__heap_alloc(heap, sizeof(*stored));
    if (!stored)
        return no_memory(err);
    *stored = (heap_number){number, 1};
    *out =
        (ef__value){.kind = EF__VALUE_DECIMAL, .home = EF__HOME_HEAP, .as.number = &stored->number};
    return EF_OK;
}

/* Some spare capacity, because most arrays of views are pushed to. */
static uint32_t capacity_for(size_t count)
{
    return (uint32_t)(count < 4 ? 4 : count + count / 2);
}

static ef_status store_array(ef__heap *heap, ef__value v, unsigned depth, ef__value *out,
                             ef_error *err)
{
    uint32_t cap = capacity_for(ef__value_count(v));
    ef__array *array = ef__heap_alloc(heap, sizeof(*array));
    ef__value *items = ef__heap_alloc(heap, cap * sizeof(*items));
    ef__value_walk walk = ef__value_walk_of(v);
    ef_status st = EF_OK;

    if (!array || !items) {
        ef__heap_free(heap, array, sizeof(*array));
        ef__heap_free(heap, items, cap * sizeof(*items));
        return no_memory(err);
    }
    *array = (ef__array){.refs = 1, .cap = cap, .items = items};
    *out = (ef__value){.kind = EF__VALUE_ARRAY, .home = EF__HOME_HEAP, .as.array = array};
    while (st == EF_OK && ef__value_next(&walk)) {
        st = store_at(heap, walk.value, depth + 1, &items[array->count], err);
        array->count += st == EF_OK;
    }
    if (st != EF_OK)
        ef__value_release(heap, *out);
    return st;
}

static ef_status store_member(ef__heap *heap, ef__value key, ef__value value, unsigned depth,
                              ef__member *out, ef_error *err)
{
    ef_status st = store_at(heap, key, depth, &out->key, err);

    if (st != EF_OK)
        return st;
    st = store_at(heap, value, depth, &out->value, err);
    if (st != EF_OK)
        ef__value_release(heap, out->key);
    return st;
}

static ef_status store_members(ef__heap *heap, ef__value v, unsigned depth, ef__object *object,
                               ef_error *err)
{
    ef_status st = EF_OK;

    if (v.home == EF__HOME_JSON) {
        const ef__json *child = ef__json_sorted(v.as.json);
        for (; st == EF_OK && child; child = child->next) {
            st = store_member(heap, ef__value_string(child->key), ef__value_from_json(child), depth,
                              &object->members[object->count], err);
            object->count += st == EF_OK;
        }
        return st;
    }
    const ef__member *members = v.as.object->members;
    for (uint32_t i = 0; st == EF_OK && i < v.as.object->count; i++) {
        st = store_member(heap, members[i].key, members[i].value, depth, &object->members[i], err);
        object->count += st == EF_OK;
    }
    return st;
}

static ef_status store_object(ef__heap *heap, ef__value v, unsigned depth, ef__value *out,
                              ef_error *err)
{
    uint32_t cap = (uint32_t)ef__value_count(v);
    ef__object *object = ef__heap_alloc(heap, sizeof(*object) + cap * sizeof(ef__member));

    if (!object)
        return no_memory(err);
    *object = (ef__object){
        .refs = 1, .cap = cap, .beside = cap, .members = (ef__member *)(void *)(object + 1)};
    *out = (ef__value){.kind = EF__VALUE_OBJECT, .home = EF__HOME_HEAP, .as.object = object};
    ef_status st = store_members(heap, v, depth + 1, object, err);
    if (st != EF_OK)
        ef__value_release(heap, *out);
    return st;
}

static ef_status store_at(ef__heap *heap, ef__value v, unsigned depth, ef__value *out,
                          ef_error *err)
{
    if (v.home == EF__HOME_HEAP) {
        ef__value_retain(v);
        *out = v;
        return EF_OK;
    }
    if (ef__value_needs_no_heap(v)) {
        *out = v;
        return EF_OK;
    }
    if (depth >= EF_LIMIT_JSON_DEPTH && v.kind >= EF__VALUE_ARRAY)
        return ef_fail(err, EF_TOO_LARGE, "arrays and objects are nested deeper than %d",
                       EF_LIMIT_JSON_DEPTH);
    switch (v.kind) {
    case EF__VALUE_DECIMAL:
        return store_number(heap, v, out, err);
    case EF__VALUE_STRING:
        return store_text(heap, v, out, err);
    case EF__VALUE_ARRAY:
        return store_array(heap, v, depth, out, err);
    case EF__VALUE_OBJECT:
        return store_object(heap, v, depth, out, err);
    default:
        *out = EF__NULL; /* for a missing value */
        return EF_OK;
    }
}

static uint32_t *refs_of(ef__value v)
{
    switch (v.kind) {
    case EF__VALUE_STRING:
        return (uint32_t *)(void *)(v.as.text - sizeof(heap_text));
    case EF__VALUE_DECIMAL:
        return v.len ? (uint32_t *)(void *)(v.as.text - sizeof(heap_text))
                     : &((heap_number *)(uintptr_t)v.as.number)->refs;
    case EF__VALUE_ARRAY:
        return &v.as.array->refs;
    default:
        return &v.as.object->refs;
    }
}

void ef__value_retain(ef__value v)
{
    if (v.home == EF__HOME_HEAP)
        ++*refs_of(v);
}

static void free_array(ef__heap *heap, ef__array *array)
{
    for (uint32_t i = 0; i < array->count; i++)
        ef__value_release(heap, array->items[array->start + i]);
    ef__heap_free(heap, array->items, array->cap * sizeof(ef__value));
    ef__heap_free(heap, array, sizeof(*array));
}

void ef__object_free_members(ef__heap *heap, ef__object *object)
{
    if (object->cap > object->beside)
        ef__heap_free(heap, object->members, object->cap * sizeof(ef__member));
}

static void free_object(ef__heap *heap, ef__object *object)
{
    for (uint32_t i = 0; i < object->count; i++) {
        ef__value_release(heap, object->members[i].key);
        ef__value_release(heap, object->members[i].value);
    }
    ef__object_free_members(heap, object);
    ef__heap_free(heap, object, sizeof(*object) + object->beside * sizeof(ef__member));
}

void ef__value_drop(ef__heap *heap, ef__value v)
{
    if (--*refs_of(v) > 0)
        return;
    switch (v.kind) {
    case EF__VALUE_STRING:
        ef__heap_free(heap, refs_of(v), sizeof(heap_text) + v.len);
        break;
    case EF__VALUE_DECIMAL:
        if (v.len)
            ef__heap_free(heap, refs_of(v), sizeof(heap_text) + v.len);
        else
            ef__heap_free(heap, (void *)(uintptr_t)v.as.number, sizeof(heap_number));
        break;
    case EF__VALUE_ARRAY:
        free_array(heap, v.as.array);
        break;
    default:
        free_object(heap, v.as.object);
    }
}
