/*
 * call_array.c - functions of arrays and objects. They create new values and never change
 * arguments.
 */
#include "call.h"

#include <stdlib.h>

static ef_status make_array(ef__call *call, size_t cap, ef__array **out)
{
    ef_status st = ef__eval_charge(call->ev, call->expr, cap);

    if (st != EF_OK)
        return st;
    *out = ef__array_make(call->ev->arena, cap);
    return *out ? EF_OK : ef__eval_no_memory(call->ev);
}

static ef_status return_array(ef__call *call, ef__array *array, ef__value *out)
{
    *out = ef__value_array(array);
    return ef__eval_charge_output(call->ev, call->expr, array->weight);
}

/* The item, or its field when the call names one (argument 1). */
static ef__value field_of(const ef__call *call, ef__value item)
{
    return call->count > 1 ? ef__value_get(item, ef__value_text(call->args[1])) : item;
}

ef_status ef__call_count(ef__call *call, ef__value *out)
{
    *out = ef__value_int((int64_t)ef__value_count(call->args[0]));
    return EF_OK;
}

ef_status ef__call_first(ef__call *call, ef__value *out)
{
    *out = ef__value_item(call->args[0], 0);
    return EF_OK;
}

ef_status ef__call_last(ef__call *call, ef__value *out)
{
    size_t count = ef__value_count(call->args[0]);

    *out = count ? ef__value_item(call->args[0], count - 1) : EF__MISSING;
    return EF_OK;
}

ef_status ef__call_sum(ef__call *call, ef__value *out)
{
    ef__value_walk walk = ef__value_walk_of(call->args[0]);
    ef__value sum = ef__value_int(0);
    ef_status st = ef__eval_charge(call->ev, call->expr, ef__value_count(call->args[0]));

    while (st == EF_OK && ef__value_next(&walk)) {
        ef__value item = field_of(call, walk.value);
        if (!ef__value_is_number(item))
            return ef__eval_mistake(
                call->ev, call->exprs[0], call->args[0], out,
                "%s needs numbers, %s of item %zu is %s", call->expr->function->name,
                call->count > 1 ? "the field" : "that", walk.next - 1, ef__value_kind_name(item));
        st = ef__eval_math(call->ev, call->expr, call->expr, call->expr, EF__EXPR_ADD, sum, item,
                           &sum);
        if (sum.kind == EF__VALUE_NULL) /* lenient, and too large */
            break;
    }
    *out = sum;
    return st;
}

ef_status ef__call_avg(ef__call *call, ef__value *out)
{
    size_t count = ef__value_count(call->args[0]);
    ef__value sum;

    *out = EF__NULL;
    if (count == 0)
        return EF_OK;
    ef_status st = ef__call_sum(call, &sum);
    if (st != EF_OK || sum.kind == EF__VALUE_NULL)
        return st;
    return ef__eval_math(call->ev, call->expr, call->expr, call->expr, EF__EXPR_DIV, sum,
                         ef__value_int((int64_t)count), out);
}

/* min_of and max_of: the least or greatest item that is not null. */
ef_status ef__call_extreme_item(ef__call *call, ef__value *out)
{
    int by = call->expr->function->id == EF__FN_MIN_OF ? -1 : 1;
    ef__value_walk walk = ef__value_walk_of(call->args[0]);
    ef__value best = EF__NULL;
    ef_status st = ef__eval_charge(call->ev, call->expr, ef__value_count(call->args[0]));

    while (st == EF_OK && ef__value_next(&walk)) {
        ef__value item = field_of(call, walk.value);
        if (item.kind > EF__VALUE_NULL &&
            (best.kind == EF__VALUE_NULL || ef__value_compare(item, best) * by > 0))
            best = item;
    }
    *out = best;
    return st;
}

typedef struct placed {
    ef__value item;
    ef__value key; /* what the item is sorted by */
    size_t place;
} placed;

/* Equal items keep their order, so that the result is the same on every machine. */
static int compare_placed(const void *a, const void *b)
{
    const placed *x = a;
    const placed *y = b;
    int diff = ef__value_compare(x->key, y->key);

    return diff ? diff : x->place < y->place ? -1 : x->place > y->place;
}

/* The items of argument 0 in rising order, and an array for as many. */
static ef_status sort_items(ef__call *call, placed **out, ef__array **out_array)
{
    size_t count = ef__value_count(call->args[0]);
    ef__value_walk walk = ef__value_walk_of(call->args[0]);
    /* Every item is compared about as often as a sort has rounds. */
    size_t rounds = 64 - (size_t)__builtin_clzll(count | 1);
    ef_status st =
        ef__eval_charge(call->ev, call->expr, (count + ef__eval_cost(call->args[0])) * rounds);

    if (st == EF_OK)
        st = make_array(call, count, out_array);
    if (st != EF_OK)
        return st;
    *out = ef__arena_alloc(call->ev->arena, (count + 1) * sizeof(**out));
    if (!*out)
        return ef__eval_no_memory(call->ev);
    for (size_t i = 0; ef__value_next(&walk); i++) {
        ef__value key = field_of(call, walk.value);
        (*out)[i] = (placed){walk.value, key.kind == EF__VALUE_MISSING ? EF__NULL : key, i};
    }
    qsort(*out, count, sizeof(**out), compare_placed);
    return EF_OK;
}

ef_status ef__call_sort(ef__call *call, ef__value *out)
{
    size_t count = ef__value_count(call->args[0]);
    placed *sorted;
    ef__array *array;
    ef_status st = sort_items(call, &sorted, &array);

    if (st != EF_OK)
        return st;
    for (size_t i = 0; i < count; i++)
        ef__array_put(array, sorted[i].item);
    return return_array(call, array, out);
}

ef_status ef__call_unique(ef__call *call, ef__value *out)
{
    size_t count = ef__value_count(call->args[0]);
    ef__value_walk walk = ef__value_walk_of(call->args[0]);
    placed *sorted;
    ef__array *kept;
    ef_status st = sort_items(call, &sorted, &kept);

    if (st != EF_OK)
        return st;
    bool *again = ef__arena_zalloc(call->ev->arena, count + 1, sizeof(*again));
    if (!again)
        return ef__eval_no_memory(call->ev);
    for (size_t i = 1; i < count; i++)
        again[sorted[i].place] = ef__value_compare(sorted[i - 1].key, sorted[i].key) == 0;
    for (size_t i = 0; ef__value_next(&walk); i++)
        if (!again[i])
            ef__array_put(kept, walk.value);
    return return_array(call, kept, out);
}

ef_status ef__call_reverse(ef__call *call, ef__value *out)
{
    size_t count = ef__value_count(call->args[0]);
    ef__value_walk walk = ef__value_walk_of(call->args[0]);
    ef__array *array;
    ef_status st = make_array(call, count, &array);

    if (st != EF_OK)
        return st;
    while (ef__value_next(&walk))
        ef__array_put(array, walk.value);
    for (size_t i = 0; i < count / 2; i++) {
        ef__value swap = array->items[i];
        array->items[i] = array->items[count - 1 - i];
        array->items[count - 1 - i] = swap;
    }
    return return_array(call, array, out);
}

ef_status ef__call_slice(ef__call *call, ef__value *out)
{
    int64_t count = (int64_t)ef__value_count(call->args[0]);
    ef__value_walk walk = ef__value_walk_of(call->args[0]);
    int64_t from;
    int64_t most = INT32_MAX;
    ef__array *array;
    bool ok;

    *out = EF__NULL;
    ef_status st = ef__call_int(call, 1, -INT32_MAX, INT32_MAX, &from, &ok);
    if (ok && call->count > 2)
        st = ef__call_int(call, 2, 0, INT32_MAX, &most, &ok);
    if (ok)
        st = make_array(call, (size_t)count, &array);
    if (!ok || st != EF_OK)
        return st;
    if (from < 0)
        from = from + count < 0 ? 0 : from + count;
    while (ef__value_next(&walk))
        if ((int64_t)walk.next > from && array->count < most)
            ef__array_put(array, walk.value);
    return return_array(call, array, out);
}

ef_status ef__call_pluck(ef__call *call, ef__value *out)
{
    ef__value_walk walk = ef__value_walk_of(call->args[0]);
    ef__array *array;
    ef_status st = make_array(call, ef__value_count(call->args[0]), &array);

    if (st != EF_OK)
        return st;
    while (ef__value_next(&walk)) {
        ef__value item = field_of(call, walk.value);
        ef__array_put(array, item.kind == EF__VALUE_MISSING ? EF__NULL : item);
    }
    return return_array(call, array, out);
}

/* The members of an object, sorted by key, as an object of the arena. Inserting one may move the
 * members after it. */
static ef_status copy_members(ef__call *call, ef__value object, ef__object *to)
{
    enum { MOVED_IN_A_STEP = 64 }; /* moving a member costs far less than a step */
    size_t count = ef__value_count(object);
    ef_status st =
        ef__eval_charge(call->ev, call->expr, count + count * to->count / MOVED_IN_A_STEP);

    if (object.home == EF__HOME_JSON && object.kind == EF__VALUE_OBJECT)
        (void)ef__json_sorted(object.as.json);
    ef__value_walk walk = ef__value_walk_of(object);

    while (st == EF_OK && ef__value_next(&walk))
        ef__object_put(to, walk.key, walk.value);
    return st;
}

/* keys and values */
ef_status ef__call_members(ef__call *call, ef__value *out)
{
    bool keys = call->expr->function->id == EF__FN_KEYS;
    size_t count = ef__value_count(call->args[0]);
    ef__object *object = ef__object_make(call->ev->arena, count);
    ef__array *array;

    if (!object)
        return ef__eval_no_memory(call->ev);
    ef_status st = copy_members(call, call->args[0], object);
    if (st == EF_OK)
        st = make_array(call, count, &array);
    if (st != EF_OK)
        return st;
    for (size_t i = 0; i < count; i++)
        ef__array_put(array, keys ? object->members[i].key : object->members[i].value);
    return return_array(call, array, out);
}

ef_status ef__call_has(ef__call *call, ef__value *out)
{
    bool object = call->args[0].kind == EF__VALUE_OBJECT;
    int64_t count = (int64_t)ef__value_count(call->args[0]);

    if (object != (call->args[1].kind == EF__VALUE_STRING))
        return ef__eval_mistake(call->ev, call->exprs[1], call->args[1], out, "has needs %s",
                                object ? "the key of an object" : "the index of an array");
    if (object)
        *out = ef__value_bool(ef__value_get(call->args[0], ef__value_text(call->args[1])).kind !=
                              EF__VALUE_MISSING);
    else
        *out =
            ef__value_bool(call->args[1].kind == EF__VALUE_INT &&
                           call->args[1].as.integer < count && call->args[1].as.integer >= -count);
    return EF_OK;
}

ef_status ef__call_merge(ef__call *call, ef__value *out)
{
    size_t cap = 0;
    ef_status st = EF_OK;

    for (size_t i = 0; i < call->count; i++)
        cap += ef__value_count(call->args[i]);
    ef__object *object = ef__object_make(call->ev->arena, cap);
    if (!object)
        return ef__eval_no_memory(call->ev);
    for (size_t i = 0; st == EF_OK && i < call->count; i++)
        st = copy_members(call, call->args[i], object);
    *out = ef__value_object(object);
    return st == EF_OK ? ef__eval_charge_output(call->ev, call->expr, object->weight) : st;
}
