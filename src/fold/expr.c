/*
 * expr.c - nodes of expressions: what they use, the kinds of their results, and equality.
 */
#include "expr.h"

#include "value.h"

#include "../base/hash.h"

/* Of each root its keyword, what it depends on, and its kinds as a whole. A let or loop name has
 * the kinds of its value. */
static const struct {
    const char *name;
    uint32_t uses;
    uint32_t kinds;
} roots[] = {
    [EF__ROOT_VIEW] = {"view", EF__USES_VIEW, EF__KIND_OBJECT},
    [EF__ROOT_DATA] = {"data", EF__USES_EVENT, EF__KIND_ANY},
    [EF__ROOT_META] = {"meta", EF__USES_EVENT, EF__KIND_ANY},
    [EF__ROOT_TYPE] = {"type", EF__USES_EVENT, EF__KIND_TEXT},
    [EF__ROOT_STREAM] = {"stream", EF__USES_EVENT, EF__KIND_TEXT},
    [EF__ROOT_SEQ] = {"seq", EF__USES_EVENT, EF__KIND_NUMBER},
    [EF__ROOT_POSITION] = {"position", EF__USES_EVENT, EF__KIND_NUMBER},
    [EF__ROOT_TIME] = {"time", EF__USES_EVENT, EF__KIND_TEXT},
    [EF__ROOT_TENANT] = {"tenant", EF__USES_EVENT, EF__KIND_TEXT},
    [EF__ROOT_SCHEMA] = {"schema", EF__USES_EVENT, EF__KIND_NUMBER},
    [EF__ROOT_ID] = {"id", EF__USES_EVENT, EF__KIND_TEXT},
    [EF__ROOT_LET] = {NULL, EF__USES_LET, 0},
    [EF__ROOT_LOOP] = {NULL, EF__USES_LOOP, 0},
    [EF__ROOT_VIEW_ID] = {"view_id", EF__USES_VIEW, EF__KIND_TEXT},
    [EF__ROOT_LAST_EVENT_SEQUENCE] = {"last_event_sequence", EF__USES_VIEW, EF__KIND_NUMBER},
    [EF__ROOT_EXPR] = {NULL, 0, EF__KIND_ANY},
};

/* Of each kind of expression how tight it binds, its operator if it has two operands, and the kinds
 * of its result; 0: those depend on its parts. */
static const struct {
    int binding;
    const char *sign;
    uint32_t kinds;
} exprs[] = {
    [EF__EXPR_NULL] = {EF__BIND_TIGHT, NULL, EF__KIND_NULL},
    [EF__EXPR_BOOL] = {EF__BIND_TIGHT, NULL, EF__KIND_BOOL},
    [EF__EXPR_NUMBER] = {EF__BIND_TIGHT, NULL, EF__KIND_NUMBER},
    [EF__EXPR_TEXT] = {EF__BIND_TIGHT, NULL, EF__KIND_TEXT},
    [EF__EXPR_ARRAY] = {EF__BIND_TIGHT, NULL, EF__KIND_ARRAY},
    [EF__EXPR_OBJECT] = {EF__BIND_TIGHT, NULL, EF__KIND_OBJECT},
    [EF__EXPR_PATH] = {EF__BIND_TIGHT, NULL, 0},
    [EF__EXPR_LOOKUP] = {EF__BIND_TIGHT, NULL, EF__KIND_OBJECT | EF__KIND_NULL},
    [EF__EXPR_CALL] = {EF__BIND_TIGHT, NULL, 0},
    [EF__EXPR_NOT] = {EF__BIND_NOT, NULL, EF__KIND_BOOL},
    [EF__EXPR_NEGATE] = {EF__BIND_NEGATE, NULL, EF__KIND_NUMBER},
    [EF__EXPR_IF] = {EF__BIND_IF, NULL, 0},
    [EF__EXPR_DEFAULT] = {EF__BIND_DEFAULT, "??", 0},
    [EF__EXPR_AND] = {EF__BIND_AND, "and", EF__KIND_BOOL},
    [EF__EXPR_OR] = {EF__BIND_OR, "or", EF__KIND_BOOL},
    [EF__EXPR_EQ] = {EF__BIND_COMPARE, "==", EF__KIND_BOOL},
    [EF__EXPR_NE] = {EF__BIND_COMPARE, "!=", EF__KIND_BOOL},
    [EF__EXPR_LT] = {EF__BIND_COMPARE, "<", EF__KIND_BOOL},
    [EF__EXPR_LE] = {EF__BIND_COMPARE, "<=", EF__KIND_BOOL},
    [EF__EXPR_GT] = {EF__BIND_COMPARE, ">", EF__KIND_BOOL},
    [EF__EXPR_GE] = {EF__BIND_COMPARE, ">=", EF__KIND_BOOL},
    [EF__EXPR_IN] = {EF__BIND_COMPARE, "in", EF__KIND_BOOL},
    [EF__EXPR_ADD] = {EF__BIND_ADD, "+", 0},
    [EF__EXPR_SUB] = {EF__BIND_ADD, "-", EF__KIND_NUMBER},
    [EF__EXPR_MUL] = {EF__BIND_MUL, "*", EF__KIND_NUMBER},
    [EF__EXPR_DIV] = {EF__BIND_MUL, "/", EF__KIND_NUMBER},
    [EF__EXPR_MOD] = {EF__BIND_MUL, "%", EF__KIND_NUMBER},
};

const char *ef__root_name(ef__root root)
{
    return roots[root].name;
}

const char *ef__expr_operator(ef__expr_kind kind)
{
    return exprs[kind].sign;
}

int ef__expr_binding(ef__expr_kind kind)
{
    return exprs[kind].binding;
}

bool ef__root_of_event(ef_str name, ef__root *out)
{
    for (ef__root root = EF__ROOT_DATA; root <= EF__ROOT_ID; root++) {
        if (ef_str_equal(name, ef_str_from(roots[root].name))) {
            *out = root;
            return true;
        }
    }
    return false;
}

ef__expr *ef__expr_new(ef__arena *arena, ef__expr_kind kind, ef__span span)
{
    ef__expr *expr = ef__arena_zalloc(arena, 1, sizeof *expr);

    if (!expr)
        return NULL;
    expr->kind = kind;
    expr->span = span;
    expr->height = 1;
    expr->node = -1;
    expr->memo = -1;
    return expr;
}

ef__expr_children ef__expr_children_of(const ef__expr *expr)
{
    return (ef__expr_children){expr->base, expr->steps, expr->args};
}

const ef__expr *ef__expr_child_next(ef__expr_children *children)
{
    const ef__expr *child = children->base;

    children->base = NULL;
    while (!child && children->step) {
        child = children->step->expr;
        children->step = children->step->next;
    }
    if (!child && children->arg) {
        child = children->arg;
        children->arg = child->next;
    }
    return child;
}

static uint32_t add_kinds(const ef__expr *expr)
{
    uint32_t both = expr->args->kinds & expr->args->next->kinds;

    both &= EF__KIND_NUMBER | EF__KIND_TEXT;
    return both ? both : EF__KIND_NUMBER | EF__KIND_TEXT;
}

static uint32_t kinds_of(const ef__expr *expr)
{
    switch (expr->kind) {
    case EF__EXPR_PATH:
        if (expr->steps)
            return EF__KIND_ANY;
        return roots[expr->root].kinds ? roots[expr->root].kinds : expr->kinds;
    case EF__EXPR_CALL:
        return expr->function->result_kinds;
    case EF__EXPR_IF:
        return expr->args->next->kinds | expr->args->next->next->kinds;
    case EF__EXPR_DEFAULT:
        return (expr->args->kinds & ~(uint32_t)EF__KIND_NULL) | expr->args->next->kinds;
    case EF__EXPR_ADD:
        return add_kinds(expr);
    default:
        return exprs[expr->kind].kinds;
    }
}

/* Keys are distinct, so each has a place of its own. */
static void place_keys(ef__expr *object)
{
    for (ef__expr *arg = object->args; arg; arg = arg->next) {
        ef__value key = ef__value_string(arg->key);
        arg->place = 0;
        for (const ef__expr *other = object->args; other; other = other->next)
            arg->place += ef__value_compare(ef__value_string(other->key), key) < 0;
        arg->key_plain = ef__text_is_plain(arg->key);
    }
}

void ef__expr_settle(ef__expr *expr)
{
    ef__expr_children children = ef__expr_children_of(expr);
    const ef__expr *child;

    if (expr->kind == EF__EXPR_PATH)
        expr->uses |= roots[expr->root].uses;
    if (expr->kind == EF__EXPR_LOOKUP)
        expr->uses |= EF__USES_LOOKUP;
    while ((child = ef__expr_child_next(&children)) != NULL) {
        expr->uses |= child->uses;
        if (child->height >= expr->height)
            expr->height = child->height + 1;
    }
    expr->kinds = kinds_of(expr);
    if (expr->kind == EF__EXPR_OBJECT)
        place_keys(expr);
    if (expr->kind == EF__EXPR_TEXT)
        expr->text_plain = ef__text_is_plain(expr->text);
}

static bool steps_equal(const ef__path_step *a, const ef__path_step *b)
{
    for (; a && b; a = a->next, b = b->next) {
        if (a->index != b->index || !a->field.ptr != !b->field.ptr || !a->expr != !b->expr)
            return false;
        if (!ef_str_equal(a->field, b->field) || (a->expr && !ef__expr_equal(a->expr, b->expr)))
            return false;
    }
    return a == b; /* both at the end */
}

static bool args_equal(const ef__expr *a, const ef__expr *b)
{
    for (; a && b; a = a->next, b = b->next)
        if (!ef_str_equal(a->key, b->key) || !ef__expr_equal(a, b))
            return false;
    return a == b;
}

bool ef__expr_equal(const ef__expr *a, const ef__expr *b)
{
    if (a->kind != b->kind || a->truth != b->truth || a->root != b->root || a->slot != b->slot)
        return false;
    if (a->function != b->function || !ef_str_equal(a->text, b->text))
        return false;
    if (a->number.coefficient != b->number.coefficient || a->number.scale != b->number.scale)
        return false;
    if (!a->base != !b->base || (a->base && !ef__expr_equal(a->base, b->base)))
        return false;
    return steps_equal(a->steps, b->steps) && args_equal(a->args, b->args);
}

static uint64_t hash_int(uint64_t seed, uint64_t value)
{
    return ef__xxh3((ef_str){(const char *)&value, sizeof value}, seed);
}

static uint64_t hash_own(const ef__expr *expr)
{
    uint64_t h = hash_int((uint64_t)expr->kind, (uint64_t)expr->truth);

    h = hash_int(h, (uint64_t)expr->root << 32 | (uint32_t)expr->slot);
    h = hash_int(h, expr->function ? (uint64_t)expr->function->id + 1 : 0);
    h = hash_int(h, (uint64_t)expr->number.coefficient);
    h = hash_int(h, (uint64_t)expr->number.scale);
    return ef__xxh3(expr->text, h);
}

uint64_t ef__expr_hash(const ef__expr *expr)
{
    uint64_t h = hash_own(expr);

    if (expr->base)
        h = hash_int(h, ef__expr_hash(expr->base));
    for (const ef__path_step *step = expr->steps; step; step = step->next) {
        h = hash_int(ef__xxh3(step->field, h), (uint64_t)step->index);
        if (step->expr)
            h = hash_int(h, ef__expr_hash(step->expr));
    }
    for (const ef__expr *arg = expr->args; arg; arg = arg->next)
        h = hash_int(ef__xxh3(arg->key, h), ef__expr_hash(arg));
    return h;
}
