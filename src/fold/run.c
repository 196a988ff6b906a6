/*
 * run.c - runs statements: finds the location of a path, and changes it.
 *
 * A value is evaluated and copied into the heap before the location is searched: the location has
 * indexes into the view, which must not move in between. Copying first also makes the value shared
 * when it is part of the view itself (list push list), so that the pushed value is the old one.
 */
#include "eval.h"

#include "../base/limits.h"

#include <inttypes.h>

static ef_status run_stmts(ef__eval *ev, const ef__stmt *stmt);

void ef__eval_fresh(ef__eval *ev, const ef__block *block)
{
    for (int32_t i = 0; i < block->memo_count; i++)
        ev->memos[i].kind = EF__MEMO_NONE;
}

/* --- places ----------------------------------------------------------------------------------- */

/* Locations are filled in place, field by field: creating one and copying it makes the processor
 * wait for its parts, several times per event. */

/* The root of a target: the data of the view, or in an upcast that of the event. */
static void begin_at_root(ef__eval *ev, const ef__expr *target, ef__slot *out)
{
    bool in_view = target->root != EF__ROOT_DATA;

    out->root = in_view ? &ev->view->root : &ev->data;
    out->in = EF__MISSING;
    out->index = 0;
    out->key = (ef_str){NULL, 0};
    out->there = out->root->kind != EF__VALUE_MISSING;
    ev->changes->bytes = in_view ? &ev->view->bytes : &ev->data_bytes;
    if (in_view)
        ev->view->written_by = ev->stamp;
}

/* An empty array or object where there is nothing, or null. */
static ef_status put_empty(ef__eval *ev, ef__slot *spot, ef__value_kind kind)
{
    ef__array array = {0};
    ef__object object = {0};
    ef__value empty = kind == EF__VALUE_ARRAY ? ef__value_array(&array) : ef__value_object(&object);
    ef__value owned;
    ef_status st = ef__value_store(ev->changes->heap, empty, &owned, ev->err);

    if (st == EF_OK)
        st = ef__slot_put(ev->changes, spot, owned, ev->err);
    ev->fatal |= st != EF_OK;
    return st;
}

static ef_status slot_own(ef__eval *ev, ef__slot *spot)
{
    ef_status st = ef__slot_own(ev->changes, spot, ev->err);

    ev->fatal |= st != EF_OK;
    return st;
}

static ef_status spot_wrong(ef__eval *ev, const ef__expr *target, const ef__path_step *step,
                            ef__value v, const char *what)
{
    ef__value ignored;
    ef__expr part = *target;

    /* The path up to this step has the wrong kind. */
    if (step->span.offset > target->span.offset && step->span.line == target->span.line)
        part.span.length = step->span.column - target->span.column;
    return ef__eval_mistake(ev, &part, v, &ignored, "%s", what);
}

static ef_status step_to_field(ef__eval *ev, const ef__expr *target, const ef__path_step *step,
                               ef_str key, ef__slot *spot)
{
    ef__value in = ef__slot_value(spot);
    bool found;

    if (in.kind != EF__VALUE_OBJECT)
        return spot_wrong(ev, target, step, in, "only an object has fields");
    spot->root = NULL;
    spot->in = in;
    spot->index = ef__object_find(in.as.object, key, &found);
    spot->key = key;
    spot->there = found;
    return EF_OK;
}

static ef_status step_to_item(ef__eval *ev, const ef__expr *target, const ef__path_step *step,
                              int64_t index, ef__slot *spot)
{
    ef__value in = ef__slot_value(spot);
    int64_t count = (int64_t)ef__value_count(in);

    if (in.kind != EF__VALUE_ARRAY)
        return spot_wrong(ev, target, step, in, "only an array has items by number");
    if (index >= count || index < -count)
        return spot_wrong(ev, target, step, in, "there is no item of that number to change");
    *spot =
        (ef__slot){.in = in, .index = (size_t)(index < 0 ? index + count : index), .there = true};
    return EF_OK;
}

/* One step down. Without `create` a step to a missing value ends the search: `*out_missing`. */
static ef_status take_step(ef__eval *ev, const ef__expr *target, const ef__path_step *step,
                           ef__value index, bool create, ef__slot *spot, bool *out_missing)
{
    bool by_field = step->field.ptr || index.kind == EF__VALUE_STRING;
    ef_status st = EF_OK;

    if (ef__slot_value(spot).kind <= EF__VALUE_NULL) {
        *out_missing = !create;
        if (!create)
            return EF_OK;
        if (!by_field)
            return spot_wrong(ev, target, step, ef__slot_value(spot),
                              "only an array has items by number");
        st = put_empty(ev, spot, EF__VALUE_OBJECT);
    }
    if (st == EF_OK)
        st = slot_own(ev, spot);
    if (st != EF_OK)
        return st;
    if (by_field)
        return step_to_field(ev, target, step,
                             step->field.ptr ? step->field : ef__value_text(index), spot);
    return step_to_item(ev, target, step, step->expr ? index.as.integer : step->index, spot);
}

/* The common step: by name, into an exclusive object. False: nothing was done. */
static bool step_by_name(const ef__path_step *step, ef__slot *spot)
{
    const ef__value *object = step->field.ptr ? ef__slot_own_object(spot) : NULL;

    if (!object)
        return false;
    spot->in = *object;
    spot->root = NULL;
    spot->index = ef__object_find(spot->in.as.object, step->field, &spot->there);
    spot->key = step->field;
    return true;
}

/* Follows the remaining steps of a path from `out`, for steps and values of any kind. */
static EF__SELDOM ef_status take_steps(ef__eval *ev, const ef__expr *target,
                                       const ef__path_step *step, unsigned depth, bool create,
                                       ef__slot *out)
{
    bool is_missing = false;
    ef_status st = EF_OK;

    for (; step && st == EF_OK && !is_missing; step = step->next) {
        ef__value index = EF__MISSING;
        if (step->expr)
            st = ef__eval_expr(ev, step->expr, &index);
        if (st == EF_OK && step->expr && index.kind != EF__VALUE_STRING &&
            index.kind != EF__VALUE_INT)
            return ef__eval_mistake(ev, step->expr, index, &index,
                                    "a text (of a field) or a whole number (of an item) is needed");
        if (st == EF_OK && depth++ > EF_LIMIT_JSON_DEPTH)
            return ef__eval_limit(ev, &target->span, "the view is nested deeper than %d",
                                  EF_LIMIT_JSON_DEPTH);
        if (st == EF_OK)
            st = take_step(ev, target, step, index, create, out, &is_missing);
    }
    if (is_missing)
        *out = (ef__slot){.there = false};
    return st;
}

static ef_status find_spot(ef__eval *ev, const ef__expr *target, bool create, ef__slot *out)
{
    const ef__path_step *step = target->steps;
    unsigned depth = 1;

    begin_at_root(ev, target, out);
    for (; step && depth <= EF_LIMIT_JSON_DEPTH && step_by_name(step, out); step = step->next)
        depth++;
    return step ? take_steps(ev, target, step, depth, create, out) : EF_OK;
}

/* An array or object as large and as deep as its place allows. */
static ef_status check_shape(ef__eval *ev, const ef__expr *expr, size_t above, ef__value v)
{
    size_t weight = ef__value_weight(v);
    ef_status st = ef__eval_charge(ev, expr, weight / 32);

    if (st != EF_OK)
        return st;
    if (weight > 2 * EF_FOLD_LIMIT_VIEW_BYTES)
        return ef__eval_limit(ev, &expr->span, "the view would be larger than %d bytes",
                              EF_FOLD_LIMIT_VIEW_BYTES);
    if (above + ef__value_depth(v) > EF_LIMIT_JSON_DEPTH)
        return ef__eval_limit(ev, &expr->span, "the view would be nested deeper than %d",
                              EF_LIMIT_JSON_DEPTH);
    return EF_OK;
}

/* A value into the heap, with `above` arrays and objects around it. */
static ef_status store_value(ef__eval *ev, const ef__expr *expr, size_t above, ef__value v,
                             ef__value *out)
{
    ef_error err; /* not cleared: that would cost more than most values */
    ef__value ignored;
    ef_status st = EF_OK;

    *out = v;
    if (ef__value_needs_no_heap(v))
        return EF_OK;
    if (v.kind >= EF__VALUE_ARRAY)
        st = check_shape(ev, expr, above, v);
    if (st != EF_OK)
        return st;
    st = ef__value_store(ev->changes->heap, v, out, &err);
    if (st == EF_NO_MEMORY) {
        ev->fatal = true;
        return ef_fail(ev->err, st, "%s", err.text);
    }
    return st == EF_OK ? EF_OK : ef__eval_mistake(ev, expr, v, &ignored, "%s", err.text);
}

static ef_status check_size(ef__eval *ev, const ef__stmt *stmt)
{
    if (*ev->changes->bytes <= EF_FOLD_LIMIT_VIEW_BYTES)
        return EF_OK;
    return ef__eval_limit(ev, &stmt->span,
                          "the view would have %" PRId64 " bytes, at most %d are "
                          "allowed",
                          *ev->changes->bytes, EF_FOLD_LIMIT_VIEW_BYTES);
}

static ef_status slot_put(ef__eval *ev, const ef__stmt *stmt, ef__slot *spot, ef__value owned)
{
    ef_status st = ef__slot_put(ev->changes, spot, owned, ev->err);

    ev->fatal |= st != EF_OK;
    return st == EF_OK ? check_size(ev, stmt) : st;
}

/* --- statements ------------------------------------------------------------------------------- */

/* The statement's value in the heap, and the place of its target. On failure nothing is owned. */
static ef_status value_and_spot(ef__eval *ev, const ef__stmt *stmt, bool create, ef__value *owned,
                                ef__slot *spot)
{
    ef__value v;
    ef_status st = ef__eval_expr(ev, stmt->value, &v);

    bool item = stmt->kind == EF__STMT_PUSH || stmt->kind == EF__STMT_ADD;
    if (st == EF_OK)
        st = store_value(ev, stmt->value, stmt->target->step_count + item, v, owned);
    if (st != EF_OK)
        return st;
    st = find_spot(ev, stmt->target, create, spot);
    if (st != EF_OK)
        ef__value_release(ev->changes->heap, *owned);
    return st;
}

static ef_status run_set(ef__eval *ev, const ef__stmt *stmt)
{
    ef__value owned;
    ef__slot spot;
    ef_status st = value_and_spot(ev, stmt, true, &owned, &spot);

    if (st != EF_OK)
        return st;
    if (spot.in.kind == EF__VALUE_MISSING && owned.kind != EF__VALUE_OBJECT &&
        stmt->target->root == EF__ROOT_VIEW) {
        ef__value shown = owned;
        st = ef__eval_mistake(ev, stmt->value, shown, &shown, "a view's data is an object");
        ef__value_release(ev->changes->heap, owned);
        return st;
    }
    return slot_put(ev, stmt, &spot, owned);
}

static ef_status run_increase(ef__eval *ev, const ef__stmt *stmt)
{
    bool plus = stmt->kind == EF__STMT_INCREASE;
    ef__value by;
    ef__value sum;
    ef__value owned;
    ef__slot spot;
    ef_status st = ef__eval_expr(ev, stmt->value, &by);

    if (st != EF_OK)
        return st;
    if (!ef__value_is_number(by))
        return ef__eval_mistake(ev, stmt->value, by, &by, "%s needs a number", plus ? "+=" : "-=");
    st = find_spot(ev, stmt->target, true, &spot);
    if (st != EF_OK)
        return st;
    ef__value old = ef__slot_value(&spot);
    if (old.kind <= EF__VALUE_NULL)
        old = ef__value_int(0);
    if (!ef__value_is_number(old))
        return ef__eval_mistake(ev, stmt->target, old, &old, "%s needs a number",
                                plus ? "+=" : "-=");
    st = ef__eval_math(ev, stmt->target, stmt->target, stmt->value,
                       plus ? EF__EXPR_ADD : EF__EXPR_SUB, old, by, &sum);
    if (st == EF_OK)
        st = store_value(ev, stmt->target, 0, sum, &owned);
    return st == EF_OK ? slot_put(ev, stmt, &spot, owned) : st;
}

/* The array at a place, made when there is none, and the view's own. */
static ef_status own_array(ef__eval *ev, const ef__stmt *stmt, ef__slot *spot, ef__value *out)
{
    ef__value v = ef__slot_value(spot);
    ef_status st = EF_OK;

    if (v.kind > EF__VALUE_NULL && v.kind != EF__VALUE_ARRAY)
        return ef__eval_mistake(ev, stmt->target, v, out, "%s needs an array",
                                stmt->kind == EF__STMT_PUSH  ? "push"
                                : stmt->kind == EF__STMT_ADD ? "add"
                                                             : "remove");
    if (v.kind <= EF__VALUE_NULL)
        st = put_empty(ev, spot, EF__VALUE_ARRAY);
    if (st == EF_OK)
        st = slot_own(ev, spot);
    *out = ef__slot_value(spot);
    return st;
}

/* The value of the statement in the heap, and its array. After a failure nothing is owned. */
static ef_status value_and_array(ef__eval *ev, const ef__stmt *stmt, ef__value *owned,
                                 ef__value *array)
{
    ef__slot spot;
    ef_status st = value_and_spot(ev, stmt, true, owned, &spot);

    if (st != EF_OK)
        return st;
    st = own_array(ev, stmt, &spot, array);
    if (st != EF_OK)
        ef__value_release(ev->changes->heap, *owned);
    return st;
}

static ef_status run_push(ef__eval *ev, const ef__stmt *stmt)
{
    ef__value owned;
    ef__value array;
    ef_status st = value_and_array(ev, stmt, &owned, &array);

    if (st != EF_OK)
        return st;
    ef__slot end = {.in = array, .index = array.as.array->count};
    st = ef__slot_put(ev->changes, &end, owned, ev->err);
    while (st == EF_OK && stmt->keep > 0 && array.as.array->count > stmt->keep) {
        ef__slot oldest = {.in = array, .there = true};
        st = ef__slot_move(ev->changes, &oldest, ev->err);
    }
    ev->fatal |= st != EF_OK;
    return st == EF_OK ? check_size(ev, stmt) : st;
}

/* The place among the items, which are in rising order when only add and remove were used. */
static ef__slot find_in_set(ef__value array, ef__value item)
{
    ef__slot spot = {.in = array, .index = ef__value_count(array)};
    ef__value_walk walk = ef__value_walk_of(array);

    while (ef__value_next(&walk)) {
        int diff = ef__value_compare(walk.value, item);
        if (diff == 0) {
            spot.index = walk.next - 1;
            spot.there = true;
            break;
        }
        if (diff > 0 && spot.index == ef__value_count(array))
            spot.index = walk.next - 1;
    }
    return spot;
}

static ef_status run_add(ef__eval *ev, const ef__stmt *stmt)
{
    ef__value owned;
    ef__value array;
    ef_status st = value_and_array(ev, stmt, &owned, &array);

    if (st != EF_OK)
        return st;
    st = ef__eval_charge(ev, stmt->value, ef__value_count(array) + ef__eval_cost(owned));
    ef__slot place = st == EF_OK ? find_in_set(array, owned) : (ef__slot){0};
    if (st != EF_OK || place.there) {
        ef__value_release(ev->changes->heap, owned);
        return st;
    }
    return slot_put(ev, stmt, &place, owned);
}

static ef_status run_remove(ef__eval *ev, const ef__stmt *stmt)
{
    ef__value owned;
    ef__value array = EF__NULL;
    ef__slot spot;
    ef_status st = value_and_spot(ev, stmt, false, &owned, &spot);

    if (st != EF_OK)
        return st;
    if (ef__slot_value(&spot).kind > EF__VALUE_NULL)
        st = own_array(ev, stmt, &spot, &array);
    while (st == EF_OK && array.kind == EF__VALUE_ARRAY) {
        st = ef__eval_charge(ev, stmt->value, ef__value_count(array) + ef__eval_cost(owned));
        ef__slot place = find_in_set(array, owned);
        if (st != EF_OK || !place.there)
            break;
        st = ef__slot_move(ev->changes, &place, ev->err);
        ev->fatal |= st != EF_OK;
    }
    ef__value_release(ev->changes->heap, owned);
    return st;
}

static ef_status run_unset(ef__eval *ev, const ef__stmt *stmt)
{
    ef__slot spot;
    ef_status st = find_spot(ev, stmt->target, false, &spot);

    if (st != EF_OK || !spot.there)
        return st;
    st = ef__slot_move(ev->changes, &spot, ev->err);
    ev->fatal |= st != EF_OK;
    return st;
}

static ef_status run_delete(ef__eval *ev)
{
    ef__slot spot = {.root = &ev->view->root, .there = ev->view->root.kind != EF__VALUE_MISSING};

    ev->changes->bytes = &ev->view->bytes;
    if (!spot.there)
        return EF_OK;
    ev->view->written_by = ev->stamp;
    ef_status st = ef__slot_move(ev->changes, &spot, ev->err);
    ev->fatal |= st != EF_OK;
    return st;
}

/* A value that outlives the statement must not change with the view. */
static ef_status hold_value(ef__eval *ev, const ef__expr *expr, ef__value v)
{
    if (v.kind < EF__VALUE_ARRAY || v.home == EF__HOME_JSON)
        return EF_OK;
    ef_status st = EF_OK;
    if (v.home == EF__HOME_FREE)
        st = ef__eval_charge(ev, expr, ef__value_weight(v) / 8);
    if (st == EF_OK) {
        st = ef__changes_hold(ev->changes, v, ev->err);
        ev->fatal |= st != EF_OK;
    }
    return st;
}

static ef_status run_let(ef__eval *ev, const ef__stmt *stmt)
{
    ef__value v;
    ef_status st = ef__eval_expr(ev, stmt->value, &v);

    if (st == EF_OK)
        st = hold_value(ev, stmt->value, v);
    if (st == EF_OK)
        ev->slots[stmt->slot] = v;
    return st;
}

static ef_status run_view(ef__eval *ev, const ef__stmt *stmt, const ef__expr *view_id)
{
    ef__target *outer = ev->view;
    ef_str id;
    ef_status st = ef__eval_view_id(ev, view_id, &id);

    if (st == EF_OK)
        st = ev->ops->select(ev, id, &ev->view);
    if (st == EF_OK)
        st = run_stmts(ev, stmt->body);
    ev->view = outer;
    return st;
}

static ef_status run_for(ef__eval *ev, const ef__stmt *stmt)
{
    ef__value array;
    ef_status st = ef__eval_expr(ev, stmt->value, &array);

    if (st == EF_OK && array.kind != EF__VALUE_ARRAY)
        return ef__eval_mistake(ev, stmt->value, array, &array, "for needs an array");
    if (st == EF_OK)
        st = hold_value(ev, stmt->value, array);
    ef__value_walk walk = ef__value_walk_of(array);
    while (st == EF_OK && ef__value_next(&walk)) {
        bool wanted = true;
        ev->slots[stmt->slot] = walk.value;
        st = ef__eval_charge(ev, stmt->value, 1);
        if (st == EF_OK && stmt->when)
            st = ef__eval_truth(ev, stmt->when, &wanted);
        if (st == EF_OK && wanted)
            st = stmt->view_id ? run_view(ev, stmt, stmt->view_id) : run_stmts(ev, stmt->body);
    }
    return st;
}

static ef_status run_stmt(ef__eval *ev, const ef__stmt *stmt)
{
    bool truth;
    ef_status st;

    switch (stmt->kind) {
    case EF__STMT_SET:
        return run_set(ev, stmt);
    case EF__STMT_INCREASE:
    case EF__STMT_DECREASE:
        return run_increase(ev, stmt);
    case EF__STMT_PUSH:
        return run_push(ev, stmt);
    case EF__STMT_ADD:
        return run_add(ev, stmt);
    case EF__STMT_REMOVE:
        return run_remove(ev, stmt);
    case EF__STMT_UNSET:
        return run_unset(ev, stmt);
    case EF__STMT_DELETE:
        return run_delete(ev);
    case EF__STMT_LET:
        return run_let(ev, stmt);
    case EF__STMT_IF:
        st = ef__eval_truth(ev, stmt->value, &truth);
        return st == EF_OK ? run_stmts(ev, truth ? stmt->body : stmt->otherwise) : st;
    case EF__STMT_FOR:
        return run_for(ev, stmt);
    default:
        return run_view(ev, stmt, stmt->view_id);
    }
}

static ef_status run_stmts(ef__eval *ev, const ef__stmt *stmt)
{
    ef_status st = EF_OK;

    for (; stmt && st == EF_OK; stmt = stmt->next) {
        if (--ev->steps_left < 0)
            return ef__eval_limit(ev, &stmt->span, "more than %d steps for one event",
                                  EF_FOLD_LIMIT_STEPS);
        st = run_stmt(ev, stmt);
        if (st != EF_OK && ev->line == 0)
            ev->line = stmt->span.line;
    }
    return st;
}

ef_status ef__run_block(ef__eval *ev, const ef__block *block)
{
    return run_stmts(ev, block->first);
}
