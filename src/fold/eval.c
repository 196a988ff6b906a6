/*
 * eval.c - expressions. Arithmetic is math.c, functions are call*.c, statements are run.c.
 *
 * Recursion is as deep as the program is nested, which the parser bounds.
 */
#include "eval.h"

#include "../base/limits.h"

#include <everfold/clock.h>

static ef_status eval_args2(ef__eval *ev, const ef__expr *expr, ef__value *a, ef__value *b)
{
    ef_status st = ef__eval_expr(ev, expr->args, a);

    return st == EF_OK ? ef__eval_expr(ev, expr->args->next, b) : st;
}

/* Reads a field of data that is not parsed, because no expression has needed all of it yet. */
static ef_status peek_field(ef__eval *ev, ef_str field, ef__value *out, bool *out_peeked)
{
    bool strict = false;

    if (!ev->data_peeked)
        strict = !ef__peek_begin(&ev->peek, ev->event->data);
    ev->data_peeked = !strict;
    ef_status st = EF_OK;
    if (!strict)
        st = ef__peek_get(&ev->peek, field, ev->arena, out, &strict, ev->err);
    ev->fatal |= st == EF_NO_MEMORY;
    *out_peeked = !strict;
    return st;
}

static ef_status eval_meta(ef__eval *ev)
{
    ef__json *json = NULL;
    ef_str meta = ev->event->meta.len ? ev->event->meta : EF_STR("{}");

    ef_status st = ef__json_parse(meta, EF_LIMIT_META_BYTES, ev->arena, &json, ev->err);
    ev->fatal |= st == EF_NO_MEMORY;
    ev->meta = ef__value_from_json(json);
    ev->meta_read = st == EF_OK;
    return st;
}

ef_status ef__eval_data(ef__eval *ev)
{
    ef__json *json = NULL;
    ef_str data = ev->event->data.len ? ev->event->data : EF_STR("{}");

    if (ev->data_read)
        return EF_OK;
    ef_status st = ef__json_parse(data, EF_LIMIT_DATA_BYTES, ev->arena, &json, ev->err);
    ev->fatal |= st == EF_NO_MEMORY;
    ev->data = ef__value_from_json(json);
    ev->data_read = st == EF_OK;
    return st;
}

static ef_status eval_time(ef__eval *ev, const ef__expr *expr)
{
    ef_time_format(ev->event->time_us, ev->time_text);
    ev->time = ef__value_string((ef_str){ev->time_text, sizeof "yyyy-mm-ddThh:mm:ss.ffffffZ" - 1});
    ev->time.plain = true;
    return ef__eval_charge_output(ev, expr, ev->time.len);
}

static ef_status eval_root(ef__eval *ev, const ef__expr *expr, ef__value *out)
{
    ef_status st = EF_OK;

    switch (expr->root) {
    case EF__ROOT_VIEW:
        *out = ev->view ? ev->view->root : EF__MISSING;
        break;
    case EF__ROOT_DATA:
        if (!ev->data_read)
            st = ef__eval_data(ev);
        *out = ev->data;
        break;
    case EF__ROOT_META:
        if (!ev->meta_read)
            st = eval_meta(ev);
        *out = ev->meta;
        break;
    case EF__ROOT_TYPE:
        *out = ef__value_string(ev->type);
        break;
    case EF__ROOT_STREAM:
        *out = ef__value_string(ev->event->stream);
        break;
    case EF__ROOT_SEQ:
        *out = ef__value_int(ev->event->seq);
        break;
    case EF__ROOT_POSITION:
        *out = ef__value_int(ev->event->position);
        break;
    case EF__ROOT_TIME:
        if (ev->time.kind == EF__VALUE_MISSING)
            st = eval_time(ev, expr);
        *out = ev->time;
        break;
    case EF__ROOT_TENANT:
        *out = ef__value_string(ev->event->tenant);
        break;
    case EF__ROOT_SCHEMA:
        *out = ef__value_int(ev->schema);
        break;
    case EF__ROOT_ID:
        *out = ef__value_string(ev->event->id);
        break;
    case EF__ROOT_LET:
    case EF__ROOT_LOOP:
        *out = ev->slots[expr->slot];
        break;
    case EF__ROOT_VIEW_ID:
        *out = ef__value_string(ev->view_id);
        break;
    case EF__ROOT_LAST_EVENT_SEQUENCE:
        *out = ef__value_int(ev->last_seq);
        break;
    case EF__ROOT_EXPR:
        st = ef__eval_expr(ev, expr->base, out);
    }
    return st;
}

static ef__value item_at(ef__value array, int64_t index)
{
    int64_t count = (int64_t)ef__value_count(array);

    if (array.kind != EF__VALUE_ARRAY || index >= count || index < -count)
        return EF__MISSING;
    return ef__value_item(array, (size_t)(index < 0 ? index + count : index));
}

/* A tree is walked from its beginning to a member or an item; that of a small one is part of the
 * path's own step. */
static inline ef_status charge_walk(ef__eval *ev, const ef__expr *path, ef__value from)
{
    enum { WALKED_IN_A_STEP = 16 }; /* comparing a key costs far less than a step */

    if (from.home != EF__HOME_JSON || from.kind < EF__VALUE_ARRAY ||
        from.as.json->count < WALKED_IN_A_STEP)
        return EF_OK;
    return ef__eval_charge(ev, path, from.as.json->count / WALKED_IN_A_STEP);
}

static ef_status eval_step(ef__eval *ev, const ef__expr *path, const ef__path_step *step,
                           ef__value *value)
{
    ef_status st = charge_walk(ev, path, *value);
    ef__value index;

    if (st != EF_OK)
        return st;
    if (step->field.ptr) {
        *value = ef__value_get(*value, step->field);
        return EF_OK;
    }
    if (!step->expr) {
        *value = item_at(*value, step->index);
        return EF_OK;
    }
    st = ef__eval_expr(ev, step->expr, &index);
    if (st != EF_OK)
        return st;
    if (index.kind == EF__VALUE_STRING)
        *value = ef__value_get(*value, ef__value_text(index));
    else if (index.kind == EF__VALUE_INT)
        *value = item_at(*value, index.as.integer);
    else
        return ef__eval_mistake(ev, step->expr, index, value,
                                "a text (of a field) or a whole number (of an item) is needed");
    return EF_OK;
}

static ef_status eval_array(ef__eval *ev, const ef__expr *expr, ef__value *out)
{
    ef__array *array = ef__array_make(ev->arena, expr->arg_count);

    if (!array)
        return ef__eval_no_memory(ev);
    for (const ef__expr *arg = expr->args; arg; arg = arg->next) {
        ef__value item;
        ef_status st = ef__eval_expr(ev, arg, &item);
        if (st != EF_OK)
            return st;
        ef__array_put(array, item);
    }
    *out = ef__value_array(array);
    return ef__eval_charge_output(ev, expr, array->weight);
}

static ef_status eval_object(ef__eval *ev, const ef__expr *expr, ef__value *out)
{
    ef__object *object = ef__object_make(ev->arena, expr->arg_count);

    if (!object)
        return ef__eval_no_memory(ev);
    for (const ef__expr *arg = expr->args; arg; arg = arg->next) {
        ef__value value;
        ef_status st = ef__eval_expr(ev, arg, &value);
        if (st != EF_OK)
            return st;
        object->members[arg->place] =
            (ef__member){ef__value_literal(arg->key, arg->key_plain), value};
        object->weight += arg->key.len + ef__value_weight(value) + 4; /* as ef__object_put counts */
    }
    object->count = (uint32_t)expr->arg_count;
    *out = ef__value_object(object);
    return ef__eval_charge_output(ev, expr, object->weight);
}

static ef_status eval_lookup(ef__eval *ev, const ef__expr *expr, ef__value *out)
{
    ef_str view_id;
    ef_str bytes = {NULL, 0};
    ef__json *json = NULL;
    ef__value id;

    ef_status st = ef__eval_expr(ev, expr->args, &id);
    if (st == EF_OK && id.kind <= EF__VALUE_NULL) {
        *out = EF__MISSING;
        return EF_OK;
    }
    if (st == EF_OK)
        st = ef__eval_id_of(ev, expr->args, id, &view_id);
    if (st != EF_OK)
        return st;
    if (--ev->lookups_left < 0)
        return ef__eval_limit(ev, &expr->span, "more than %d lookups for one event",
                              EF_FOLD_LIMIT_EVENT_LOOKUPS);
    st = ev->ops->lookup(ev, expr->text, view_id, &bytes);
    if (st == EF_OK && bytes.ptr)
        st = ef__json_parse(bytes, EF_FOLD_LIMIT_VIEW_BYTES, ev->arena, &json, ev->err);
    ev->fatal |= st != EF_OK;
    *out = ef__value_from_json(json);
    return st == EF_OK ? ef__eval_charge_output(ev, expr, bytes.len) : st;
}

ef_status ef__eval_truth(ef__eval *ev, const ef__expr *expr, bool *out)
{
    ef__value v;
    ef_status st = ef__eval_expr(ev, expr, &v);

    *out = st == EF_OK && v.kind == EF__VALUE_TRUE;
    if (st != EF_OK || v.kind <= EF__VALUE_TRUE)
        return st;
    return ef__eval_mistake(ev, expr, v, &v, "true or false is needed");
}

static ef_status eval_logic(ef__eval *ev, const ef__expr *expr, ef__value *out)
{
    bool truth;
    ef_status st = ef__eval_truth(ev, expr->args, &truth);

    if (st == EF_OK && truth == (expr->kind == EF__EXPR_AND))
        st = ef__eval_truth(ev, expr->args->next, &truth);
    *out = ef__value_bool(truth);
    return st;
}

static bool same_sort(ef__value a, ef__value b)
{
    if (ef__value_is_number(a))
        return ef__value_is_number(b);
    return a.kind == b.kind || (a.kind <= EF__VALUE_TRUE && b.kind <= EF__VALUE_TRUE &&
                                a.kind >= EF__VALUE_FALSE && b.kind >= EF__VALUE_FALSE);
}

/* Equality is defined for any two values, and a missing value equals null. Less and greater need
 * two values of one kind; with null they are false. */
static ef_status eval_order(ef__eval *ev, const ef__expr *expr, ef__value *out)
{
    ef__value a;
    ef__value b;
    ef_status st = eval_args2(ev, expr, &a, &b);

    /* Values of different kinds differ, whatever they contain. */
    if (st == EF_OK && a.kind >= EF__VALUE_STRING && b.kind == a.kind)
        st = ef__eval_charge(ev, expr, ef__eval_cost(a) + ef__eval_cost(b));
    if (st != EF_OK)
        return st;
    if (expr->kind == EF__EXPR_EQ || expr->kind == EF__EXPR_NE) {
        bool equal =
            a.kind <= EF__VALUE_NULL ? b.kind <= EF__VALUE_NULL : ef__value_compare(a, b) == 0;
        *out = ef__value_bool(equal == (expr->kind == EF__EXPR_EQ));
        return EF_OK;
    }
    *out = ef__value_bool(false);
    if (a.kind <= EF__VALUE_NULL || b.kind <= EF__VALUE_NULL)
        return EF_OK;
    if (!same_sort(a, b)) {
        ef__value ignored;
        return ef__eval_mistake(ev, expr->args->next, b, &ignored, "it cannot be compared with %s",
                                ef__value_kind_name(a));
    }
    int diff = ef__value_compare(a, b);
    *out = ef__value_bool(expr->kind == EF__EXPR_LT   ? diff < 0
                          : expr->kind == EF__EXPR_LE ? diff <= 0
                          : expr->kind == EF__EXPR_GT ? diff > 0
                                                      : diff >= 0);
    return EF_OK;
}

static ef_status eval_in(ef__eval *ev, const ef__expr *expr, ef__value *out)
{
    ef__value a;
    ef__value b;
    ef_status st = eval_args2(ev, expr, &a, &b);

    if (st == EF_OK)
        st = ef__eval_charge(ev, expr, ef__eval_cost(a) + ef__eval_cost(b));
    if (st != EF_OK)
        return st;
    *out = ef__value_bool(false);
    if (b.kind <= EF__VALUE_NULL)
        return EF_OK;
    if (b.kind == EF__VALUE_ARRAY) {
        *out = ef__value_bool(ef__value_in_array(b, a));
        return EF_OK;
    }
    if (b.kind != EF__VALUE_STRING && b.kind != EF__VALUE_OBJECT)
        return ef__eval_mistake(ev, expr->args->next, b, out,
                                "`in` needs an array, an object or a text");
    if (a.kind <= EF__VALUE_NULL)
        return EF_OK;
    if (a.kind != EF__VALUE_STRING)
        return ef__eval_mistake(ev, expr->args, a, out, "`in` needs a text to search in %s",
                                ef__value_kind_name(b));
    if (b.kind == EF__VALUE_OBJECT)
        *out = ef__value_bool(ef__value_get(b, ef__value_text(a)).kind != EF__VALUE_MISSING);
    else
        *out = ef__value_bool(a.len == 0 || memmem(b.as.text, b.len, a.as.text, a.len));
    return EF_OK;
}

ef_status ef__eval_view_id(ef__eval *ev, const ef__expr *expr, ef_str *out)
{
    ef__value v;
    ef_status st = ef__eval_expr(ev, expr, &v);

    return st == EF_OK ? ef__eval_id_of(ev, expr, v, out) : st;
}

/* In lenient mode a value that is not an id results in "", the id of no view. */
ef_status ef__eval_id_of(ef__eval *ev, const ef__expr *expr, ef__value v, ef_str *out)
{
    *out = EF_STR("");
    if (v.kind != EF__VALUE_STRING && !ef__value_is_number(v))
        return ef__eval_mistake(ev, expr, v, &v, "the id of a view is a text or a number");
    ef_status st = ef__eval_to_text(ev, expr, v, out);
    if (st == EF_OK && (out->len == 0 || out->len > EF_LIMIT_NAME_BYTES))
        return ef__eval_mistake(ev, expr, v, &v,
                                "the id of a view has 1 to %d bytes, this one has %zu",
                                EF_LIMIT_NAME_BYTES, out->len);
    return st;
}

static ef_status eval_path(ef__eval *ev, const ef__expr *expr, ef__value *out)
{
    const ef__path_step *step = expr->steps;
    bool peeked = false;
    ef_status st = EF_OK;

    if (expr->root == EF__ROOT_DATA && !ev->data_read && step && step->field.ptr)
        st = peek_field(ev, step->field, out, &peeked);
    if (peeked)
        step = step->next;
    else if (st == EF_OK)
        st = eval_root(ev, expr, out);
    for (; step && st == EF_OK; step = step->next)
        st = eval_step(ev, expr, step, out);
    return st;
}

static ef_status eval_kind(ef__eval *ev, const ef__expr *expr, ef__value *out)
{
    ef__value a;
    ef__value b;
    bool truth = false;
    ef_status st;

    switch (expr->kind) {
    case EF__EXPR_NULL:
        *out = EF__NULL;
        return EF_OK;
    case EF__EXPR_BOOL:
        *out = ef__value_bool(expr->truth);
        return EF_OK;
    case EF__EXPR_NUMBER:
        if (!ef__value_short_number(&expr->number, out))
            *out = (ef__value){.kind = EF__VALUE_DECIMAL, .as.number = &expr->number};
        return EF_OK;
    case EF__EXPR_TEXT:
        *out = ef__value_literal(expr->text, expr->text_plain);
        return EF_OK;
    case EF__EXPR_ARRAY:
        return eval_array(ev, expr, out);
    case EF__EXPR_OBJECT:
        return eval_object(ev, expr, out);
    case EF__EXPR_PATH:
        return eval_path(ev, expr, out);
    case EF__EXPR_LOOKUP:
        return eval_lookup(ev, expr, out);
    case EF__EXPR_CALL:
        return ef__eval_call(ev, expr, out);
    case EF__EXPR_NOT:
        st = ef__eval_truth(ev, expr->args, &truth);
        *out = ef__value_bool(!truth);
        return st;
    case EF__EXPR_NEGATE:
        st = ef__eval_expr(ev, expr->args, &a);
        return st == EF_OK ? ef__eval_math(ev, expr, NULL, expr->args, EF__EXPR_SUB,
                                           ef__value_int(0), a, out)
                           : st;
    case EF__EXPR_IF:
        st = ef__eval_truth(ev, expr->args, &truth);
        if (st != EF_OK)
            return st;
        return ef__eval_expr(ev, truth ? expr->args->next : expr->args->next->next, out);
    case EF__EXPR_DEFAULT:
        st = ef__eval_expr(ev, expr->args, out);
        if (st != EF_OK || out->kind > EF__VALUE_NULL)
            return st;
        return ef__eval_expr(ev, expr->args->next, out);
    case EF__EXPR_AND:
    case EF__EXPR_OR:
        return eval_logic(ev, expr, out);
    case EF__EXPR_EQ:
    case EF__EXPR_NE:
    case EF__EXPR_LT:
    case EF__EXPR_LE:
    case EF__EXPR_GT:
    case EF__EXPR_GE:
        return eval_order(ev, expr, out);
    case EF__EXPR_IN:
        return eval_in(ev, expr, out);
    default:
        st = eval_args2(ev, expr, &a, &b);
        if (st != EF_OK)
            return st;
        return ef__eval_math(ev, expr, expr->args, expr->args->next, expr->kind, a, b, out);
    }
}

ef_status ef__eval_expr(ef__eval *ev, const ef__expr *expr, ef__value *out)
{
    if (--ev->steps_left < 0)
        return ef__eval_charge(ev, expr, 1);
    if (expr->memo < 0 || !ev->memos)
        return expr->kind == EF__EXPR_PATH ? eval_path(ev, expr, out) : eval_kind(ev, expr, out);
    if (ev->memos[expr->memo].kind == EF__MEMO_NONE) {
        ef_status st = eval_kind(ev, expr, out);
        if (st != EF_OK)
            return st;
        ev->memos[expr->memo] = *out;
    }
    *out = ev->memos[expr->memo];
    return EF_OK;
}
