/*
 * expr.c - nodes of expressions: what they use, the kinds of their results, and equality.
 */
#include "expr.h"

#include "value.h"

#include "../base/hash.h"

static const char *const root_names[] = {
    [EF__ROOT_VIEW] = "view",
    [EF__ROOT_DATA] = "data",
    [EF__ROOT_META] = "meta",
    [EF__ROOT_TYPE] = "type",
    [EF__ROOT_STREAM] = "stream",
    [EF__ROOT_SEQ] = "seq",
    [EF__ROOT_POSITION] = "position",
    [EF__ROOT_TIME] = "time",
    [EF__ROOT_TENANT] = "tenant",
    [EF__ROOT_SCHEMA] = "schema",
    [EF__ROOT_ID] = "id",
    [EF__ROOT_VIEW_ID] = "view_id",
    [EF__ROOT_LAST_EVENT_SEQUENCE] = "last_event_sequence",
    [EF__ROOT_EXPR] = NULL,
};

const char *ef__root_name(ef__root root)
{
    return root_names[root];
}

bool ef__root_of_event(ef_str name, ef__root *out)
{
    for (ef__root root = EF__ROOT_DATA; root <= EF__ROOT_ID; root++) {
        if (ef_str_equal(name, ef_str_from(root_names[root]))) {
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

static uint32_t root_uses(const ef__expr *path)
{
    switch (path->root) {
    case EF__ROOT_VIEW:
    case EF__ROOT_VIEW_ID:
    case EF__ROOT_LAST_EVENT_SEQUENCE:
        return EF__USES_VIEW;
    case EF__ROOT_LET:
        return EF__USES_LET;
    case EF__ROOT_LOOP:
        return EF__USES_LOOP;
    case EF__ROOT_EXPR:
        return 0;
    default:
        return EF__USES_EVENT;
    }
}

static uint32_t path_kinds(const ef__expr *path)
{
    if (path->steps)
        return EF__KIND_ANY;
    switch (path->root) {
    case EF__ROOT_VIEW:
        return EF__KIND_OBJECT;
    case EF__ROOT_TYPE:
    case EF__ROOT_STREAM:
    case EF__ROOT_TIME:
    case EF__ROOT_TENANT:
    case EF__ROOT_ID:
    case EF__ROOT_VIEW_ID:
        return EF__KIND_TEXT;
    case EF__ROOT_SEQ:
    case EF__ROOT_POSITION:
    case EF__ROOT_SCHEMA:
    case EF__ROOT_LAST_EVENT_SEQUENCE:
        return EF__KIND_NUMBER;
    case EF__ROOT_LET:
    case EF__ROOT_LOOP:
        return path->kinds; /* known from the name */
    default:
        return EF__KIND_ANY;
    }
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
    case EF__EXPR_NULL:
        return EF__KIND_NULL;
    case EF__EXPR_TEXT:
        return EF__KIND_TEXT;
    case EF__EXPR_ARRAY:
        return EF__KIND_ARRAY;
    case EF__EXPR_OBJECT:
        return EF__KIND_OBJECT;
    case EF__EXPR_PATH:
        return path_kinds(expr);
    case EF__EXPR_LOOKUP:
        return EF__KIND_OBJECT | EF__KIND_NULL;
    case EF__EXPR_CALL:
        return expr->function->result_kinds;
    case EF__EXPR_IF:
        return expr->args->next->kinds | expr->args->next->next->kinds;
    case EF__EXPR_DEFAULT:
        return (expr->args->kinds & ~(uint32_t)EF__KIND_NULL) | expr->args->next->kinds;
    case EF__EXPR_ADD:
        return add_kinds(expr);
    case EF__EXPR_NUMBER:
    case EF__EXPR_NEGATE:
    case EF__EXPR_SUB:
    case EF__EXPR_MUL:
    case EF__EXPR_DIV:
    case EF__EXPR_MOD:
        return EF__KIND_NUMBER;
    default:
        return EF__KIND_BOOL;
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
        expr->uses |= root_uses(expr);
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
