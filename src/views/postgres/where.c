/*
 * where.c - see where.h.
 *
 * Data is canonical, so a view whose status is "gold" has "status":"gold" in its text: the needle
 * of status == "gold". A view without it cannot match and is not sent. Conditions that have no
 * needle are not tested by the server: making jsonb of a view costs it some 12 ns a byte, and
 * sending and testing the view here costs 4, and 8 more where the network has 1 Gbit/s.
 *
 * A needle is found in the parts of a filter that must all be true: in both sides of `and`, and,
 * below a `not`, of `or`. Of several needles the longest is kept.
 *
 * A view that is large enough to break a budget of the fold language is sent, because the query
 * must fail by it. Comparing with a literal costs steps by the size of the value, so such a view is
 * very large. Other parts may meet objects, which cost by the square of their size: then it has
 * some thousand bytes. A part whose cost is not bounded is evaluated before the parts after it, so
 * those give no needle.
 */
#include "where.h"

#include "../../fold/ast.h"
#include "../../fold/expr.h"
#include "../../fold/limits.h"

typedef struct needle_search {
    vp_where *out;
    bool meets_objects; /* a part may cost by the square of the size of a view */
    bool unbounded;     /* … or anything */
} needle_search;

/* --- cost ------------------------------------------------------------------------------------- */

static bool is_charged(const ef__expr *expr)
{
    return (expr->kind >= EF__EXPR_EQ && expr->kind <= EF__EXPR_IN) || expr->kind == EF__EXPR_CALL;
}

static void count_nodes(const ef__expr *expr, int64_t *nodes, int64_t *charges)
{
    ef__expr_children children = ef__expr_children_of(expr);
    const ef__expr *child;

    *nodes += 1;
    *charges += is_charged(expr);
    while ((child = ef__expr_child_next(&children)))
        count_nodes(child, nodes, charges);
}

/*
 * Up to this size no view can make the filter break a budget. A charge is for at most three values,
 * each at most the view, and for literals; 32 bytes are a step, and an object's members by 4,
 * squared (ef__eval_cost). A member has 6 bytes or more.
 */
static int64_t bytes_max(const ef__filter *filter, bool meets_objects)
{
    int64_t nodes = 0, charges = 1, bytes = EF_FOLD_LIMIT_VIEW_BYTES, steps;

    count_nodes(filter->expr, &nodes, &charges);
    steps = (EF_FOLD_LIMIT_STEPS - nodes) / charges - (int64_t)filter->source.len;
    while (bytes > 0 && bytes * 3 / 32 + (meets_objects ? bytes * bytes / 192 : 0) > steps)
        bytes /= 2;
    return bytes;
}

/* Functions whose result is no larger than their arguments, and which are charged for that. */
static bool is_bounded_call(const ef__function *function)
{
    switch (function->id) {
    case EF__FN_LOWER:
    case EF__FN_UPPER:
    case EF__FN_TRIM:
    case EF__FN_LENGTH:
    case EF__FN_STARTS_WITH:
    case EF__FN_ENDS_WITH:
    case EF__FN_CONTAINS:
    case EF__FN_ABS:
    case EF__FN_ROUND:
    case EF__FN_FLOOR:
    case EF__FN_CEIL:
    case EF__FN_NUMBER:
    case EF__FN_DATE:
    case EF__FN_YEAR:
    case EF__FN_MONTH:
    case EF__FN_DAY:
    case EF__FN_HOUR:
    case EF__FN_COUNT:
    case EF__FN_HAS:
    case EF__FN_TYPE_OF:
    case EF__FN_IS_NULL:
    case EF__FN_IS_BOOLEAN:
    case EF__FN_IS_NUMBER:
    case EF__FN_IS_TEXT:
    case EF__FN_IS_ARRAY:
    case EF__FN_IS_OBJECT:
        return true;
    default:
        return false;
    }
}

static bool is_scalar(const ef__expr *expr)
{
    return expr->kind == EF__EXPR_BOOL || expr->kind == EF__EXPR_NUMBER ||
           expr->kind == EF__EXPR_TEXT ||
           (expr->kind == EF__EXPR_NEGATE && expr->args->kind == EF__EXPR_NUMBER);
}

static bool is_list(const ef__expr *expr)
{
    if (expr->kind != EF__EXPR_ARRAY)
        return false;
    for (const ef__expr *item = expr->args; item; item = item->next)
        if (!is_scalar(item) && item->kind != EF__EXPR_NULL)
            return false;
    return true;
}

static bool is_bounded(const ef__expr *expr)
{
    switch (expr->kind) {
    case EF__EXPR_ARRAY:
        return is_list(expr);
    case EF__EXPR_CALL:
        return is_bounded_call(expr->function);
    case EF__EXPR_OBJECT:
    case EF__EXPR_LOOKUP:
    case EF__EXPR_ADD: /* joins texts */
        return false;
    default:
        return true;
    }
}

static bool is_path(const ef__expr *expr)
{
    if (expr->kind != EF__EXPR_PATH || expr->root != EF__ROOT_VIEW || !expr->steps)
        return false;
    for (const ef__path_step *step = expr->steps; step; step = step->next)
        if (step->expr || (!step->field.ptr && step->index < 0))
            return false;
    return true;
}

/* A comparison of a path with a literal, and a path by itself: they never meet objects. */
static bool is_simple(const ef__expr *expr)
{
    const ef__expr *left = expr->args, *right = left ? left->next : NULL;

    if (expr->kind == EF__EXPR_PATH)
        return is_path(expr);
    if (expr->kind == EF__EXPR_CALL)
        return expr->function->id == EF__FN_STARTS_WITH && is_path(left) &&
               right->kind == EF__EXPR_TEXT;
    if (expr->kind != EF__EXPR_EQ && expr->kind != EF__EXPR_NE &&
        (expr->kind < EF__EXPR_LT || expr->kind > EF__EXPR_GE))
        return false;
    return (is_path(left) && (is_scalar(right) || right->kind == EF__EXPR_NULL)) ||
           (is_path(right) && (is_scalar(left) || left->kind == EF__EXPR_NULL));
}

/* Adds the cost of a part and of all that it contains. */
static void add_cost(needle_search *search, const ef__expr *expr)
{
    ef__expr_children children = ef__expr_children_of(expr);
    const ef__expr *child;

    if (is_simple(expr))
        return;
    search->meets_objects = search->meets_objects || is_charged(expr);
    search->unbounded = search->unbounded || !is_bounded(expr);
    while ((child = ef__expr_child_next(&children)))
        add_cost(search, child);
}

/* --- the needle ------------------------------------------------------------------------------- */

/* Whether canonical JSON can write the text in one way only. */
static bool is_plain(ef_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7e || text.ptr[i] == '"' || text.ptr[i] == '\\')
            return false;
    return true;
}

/* Keeps the needle of a path that has a value, if it is the longest. */
static void keep_needle(needle_search *search, const ef__expr *path, ef_str value, bool is_text,
                        const ef__expr *expr, bool wanted)
{
    const ef__path_step *last = path->steps;
    const char *quote = is_text ? "\"" : "";
    vp_where *out = search->out;

    while (last->next)
        last = last->next;
    if (search->unbounded || !last->field.ptr || !is_plain(last->field) || !is_plain(value) ||
        last->field.len + value.len + (is_text ? 5 : 3) <= out->needle.len)
        return;
    ef__buf_reset(&out->needle);
    ef__buf_printf(&out->needle, "\"%.*s\":%s%.*s%s", EF_STR_ARG(last->field), quote,
                   EF_STR_ARG(value), quote);
    ef__buf_reset(&out->words);
    ef__buf_add_text(&out->words, wanted ? "" : "not (");
    ef__expr_print(expr, &out->words);
    ef__buf_add_text(&out->words, wanted ? "" : ")");
}

static void search_condition(needle_search *search, const ef__expr *expr, bool wanted)
{
    const ef__expr *path = expr, *literal = NULL;

    if (expr->kind == EF__EXPR_PATH) {
        if (wanted)
            keep_needle(search, path, EF_STR("true"), false, expr, wanted);
        return;
    }
    if (expr->kind != EF__EXPR_EQ && expr->kind != EF__EXPR_NE)
        return;
    path = is_path(expr->args) ? expr->args : expr->args->next;
    literal = path == expr->args ? path->next : expr->args;
    if (wanted != (expr->kind == EF__EXPR_EQ))
        return;
    if (literal->kind == EF__EXPR_TEXT)
        keep_needle(search, path, literal->text, true, expr, wanted);
    if (literal->kind == EF__EXPR_BOOL)
        keep_needle(search, path, literal->truth ? EF_STR("true") : EF_STR("false"), false, expr,
                    wanted);
}

/* Searches `expr` if every view that matches makes it true (`wanted`), or false. */
static void search_part(needle_search *search, const ef__expr *expr, bool wanted)
{
    if (expr->kind == EF__EXPR_NOT) {
        search_part(search, expr->args, !wanted);
    } else if (expr->kind == (wanted ? EF__EXPR_AND : EF__EXPR_OR)) {
        search_part(search, expr->args, wanted);
        search_part(search, expr->args->next, wanted);
    } else if (is_simple(expr)) {
        search_condition(search, expr, wanted);
    } else {
        add_cost(search, expr);
    }
}

bool vp_where_make(const ef__filter *filter, vp_where *out)
{
    needle_search search = {.out = out};

    ef__buf_reset(&out->words);
    ef__buf_reset(&out->needle);
    if (!filter)
        return false;
    search_part(&search, filter->expr, true);
    out->bytes_max = bytes_max(filter, search.meets_objects);
    return out->needle.len > 0 && out->bytes_max > 0 && !out->words.failed && !out->needle.failed;
}

void vp_where_release(vp_where *where)
{
    ef__buf_release(&where->words);
    ef__buf_release(&where->needle);
}

void vp_filter_explain(const ef__filter *filter, ef__buf *out)
{
    vp_where where = VP_WHERE_INIT;

    if (vp_where_make(filter, &where))
        ef__buf_add_str(out, ef__buf_str(&where.words));
    vp_where_release(&where);
}
