/*
 * where.c - see where.h.
 *
 * Queries are lenient: a condition is true of a view, or it is not, whatever is missing or of
 * another kind. So every part of a filter is asked for in one of two ways, that it is true or that
 * it is not, and what is written is true of every view for which that is so. `not` changes the way;
 * of `and` (or, the other way, of `or`) each side by itself may be left out, of the other both are
 * needed.
 *
 * A path of the fold language is a path of jsonpath in strict mode: nothing is unwrapped, and what
 * is missing, or stands where an object is expected, is an error there. An error, or values of two
 * kinds, make a comparison unknown. The filter around all of it takes that for false, which is what
 * it is here; where the opposite is asked for, exists($ ? (…)) makes it false first.
 *
 *     a == "x"      $."a" == $v0
 *     a != "x"      !exists($ ? ($."a" == $v0))
 *     a == null     !exists($ ? ($."a" != null))
 *     a < 5         $."a" < $v0
 *     not (a < 5)   !exists($ ? ($."a" < $v0))
 *     a in [1, 2]   exists($v0[*] ? (@ == $."a"))
 *     "x" in a      (exists($."a"[*] ? (@ == $v0)) || $."a".type() == "string" || …)
 *
 * Numbers of any size are compared exactly, there and here.
 *
 * Views that are large enough to break a budget are let through to be safe. Comparing with a text
 * costs steps by the size of what is looked at, so these are very large. Other parts may meet
 * objects, which cost by the square of their size: then it is some thousand bytes. Nothing is
 * tested that comes behind a part of which we do not know what it costs.
 *
 * Making jsonb of a view costs the server far more than the rest, and more than sending it (some 12
 * ns a byte; sent, taken and tested here it is 4, and 8 more where the network has 1 Gbit/s). Data
 * is canonical, so a view whose status is "gold" has "status":"gold" in its text, and one without
 * that need not be read: the needle. Without one the views are sent.
 */
#include "where.h"

#include "../../fold/ast.h"
#include "../../fold/expr.h"
#include "../../fold/limits.h"

#include <inttypes.h>

typedef struct writer {
    vp_where *out;
    int values;
    int choices;        /* around what is written: it may be false of a view that matches */
    bool meets_objects; /* a part may cost by the square */
    bool unbounded;     /* … or anything: what is behind it is not tested */
} writer;

typedef struct mark {
    size_t path, vars, words;
    int values;
} mark;

static bool put_expr(writer *w, const ef__expr *expr, bool wanted);
static int64_t bytes_max(const ef__filter *filter, bool meets_objects);

bool vp_where_make(const ef__filter *filter, vp_where *out)
{
    writer w = {.out = out};

    ef__buf_reset(&out->path);
    ef__buf_reset(&out->vars);
    ef__buf_reset(&out->words);
    ef__buf_reset(&out->needle);
    if (!filter)
        return false;
    ef__buf_add_text(&out->path, "strict $ ? (");
    ef__buf_add_char(&out->vars, '{');
    if (!put_expr(&w, filter->expr, true))
        return false;
    ef__buf_add_char(&out->path, ')');
    ef__buf_add_char(&out->vars, '}');
    out->bytes_max = bytes_max(filter, w.meets_objects);
    return out->bytes_max > 0 && !out->path.failed && !out->vars.failed && !out->words.failed &&
           !out->needle.failed;
}

void vp_where_release(vp_where *where)
{
    ef__buf_release(&where->path);
    ef__buf_release(&where->vars);
    ef__buf_release(&where->words);
    ef__buf_release(&where->needle);
}

bool vp_where_pays(const ef__filter *filter, vp_where *out)
{
    return vp_where_make(filter, out) && out->needle.len > 0;
}

void vp_filter_explain(const ef__filter *filter, ef__buf *out)
{
    vp_where where = VP_WHERE_INIT;

    if (vp_where_pays(filter, &where))
        ef__buf_add_str(out, ef__buf_str(&where.words));
    vp_where_release(&where);
}

/* --- what it costs ---------------------------------------------------------------------------- */

static bool is_charged(const ef__expr *expr)
{
    return (expr->kind >= EF__EXPR_EQ && expr->kind <= EF__EXPR_IN) || expr->kind == EF__EXPR_CALL;
}

static void measure(const ef__expr *expr, int64_t *nodes, int64_t *charges)
{
    ef__expr_children children = ef__expr_children_of(expr);
    const ef__expr *child;

    *nodes += 1;
    *charges += is_charged(expr);
    while ((child = ef__expr_child_next(&children)))
        measure(child, nodes, charges);
}

/*
 * Up to this size no view can make the filter break a budget. A charge is for at most three values,
 * each at most the view, and for literals; 32 bytes are a step, and an object's members by 4,
 * squared (ef__eval_cost). A member has 6 bytes or more.
 */
static int64_t bytes_max(const ef__filter *filter, bool meets_objects)
{
    int64_t nodes = 0, charges = 1, bytes = EF_FOLD_LIMIT_VIEW_BYTES, steps;

    measure(filter->expr, &nodes, &charges);
    steps = (EF_FOLD_LIMIT_STEPS - nodes) / charges - (int64_t)filter->source.len;
    while (bytes > 0 && bytes * 3 / 32 + (meets_objects ? bytes * bytes / 192 : 0) > steps)
        bytes /= 2;
    return bytes;
}

/* Those that make nothing larger than what they are given, and are charged for that. */
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

/* A part that the server does not test. */
static void leave_out(writer *w, const ef__expr *expr)
{
    ef__expr_children children = ef__expr_children_of(expr);
    const ef__expr *child;

    w->meets_objects = w->meets_objects || is_charged(expr);
    w->unbounded = w->unbounded || !is_bounded(expr);
    while ((child = ef__expr_child_next(&children)))
        leave_out(w, child);
}

/* --- and, or, not ----------------------------------------------------------------------------- */

static mark mark_of(const writer *w)
{
    return (mark){w->out->path.len, w->out->vars.len, w->out->words.len, w->values};
}

static void cut(ef__buf *buf, size_t len)
{
    buf->len = len;
    if (buf->ptr)
        buf->ptr[len] = '\0';
}

static void go_back(writer *w, mark m)
{
    cut(&w->out->path, m.path);
    cut(&w->out->vars, m.vars);
    cut(&w->out->words, m.words);
    w->values = m.values;
}

static void put_both(writer *w, const char *path, const char *words)
{
    ef__buf_add_text(&w->out->path, path);
    ef__buf_add_text(&w->out->words, words);
}

/* What is on either side, as far as it can be said. */
static bool put_all(writer *w, const ef__expr *expr, bool wanted)
{
    bool left = put_expr(w, expr->args, wanted), right;
    mark behind_left = mark_of(w);

    if (left)
        put_both(w, " && ", " and ");
    right = put_expr(w, expr->args->next, wanted);
    if (!right)
        go_back(w, behind_left);
    return left || right;
}

static bool put_any(writer *w, const ef__expr *expr, bool wanted)
{
    mark start = mark_of(w);
    bool both;

    w->choices++;
    put_both(w, "(", "(");
    both = put_expr(w, expr->args, wanted);
    put_both(w, " || ", " or ");
    both = both && put_expr(w, expr->args->next, wanted);
    put_both(w, ")", ")");
    w->choices--;
    if (!both) {
        go_back(w, start);
        leave_out(w, expr); /* a side that could be said is not tested either */
    }
    return both;
}

static bool put_condition(writer *w, const ef__expr *expr, bool wanted);

/* Write what is true wherever `expr` is true, or where it is not; false: nothing is written. */
static bool put_expr(writer *w, const ef__expr *expr, bool wanted)
{
    mark start = mark_of(w);

    if (expr->kind == EF__EXPR_NOT)
        return put_expr(w, expr->args, !wanted);
    if (expr->kind == EF__EXPR_AND)
        return wanted ? put_all(w, expr, wanted) : put_any(w, expr, wanted);
    if (expr->kind == EF__EXPR_OR)
        return wanted ? put_any(w, expr, wanted) : put_all(w, expr, wanted);
    if (!w->unbounded && put_condition(w, expr, wanted)) {
        ef__buf_add_text(&w->out->words, wanted ? "" : "not (");
        ef__expr_print(expr, &w->out->words);
        ef__buf_add_text(&w->out->words, wanted ? "" : ")");
        return true;
    }
    go_back(w, start);
    leave_out(w, expr);
    return false;
}

/* --- paths and values ------------------------------------------------------------------------- */

/* Neither jsonb nor a parameter of the server's can hold a NUL; no view has one. */
static bool has_nul(ef_str text)
{
    return text.len > 0 && memchr(text.ptr, '\0', text.len);
}

static bool is_path(const ef__expr *expr)
{
    if (expr->kind != EF__EXPR_PATH || expr->root != EF__ROOT_VIEW || !expr->steps)
        return false;
    for (const ef__path_step *step = expr->steps; step; step = step->next)
        if (step->expr ||
            (step->field.ptr ? has_nul(step->field) : step->index < 0 || step->index > INT32_MAX))
            return false;
    return true;
}

static void put_path(writer *w, const ef__expr *path)
{
    ef__buf *out = &w->out->path;

    ef__buf_add_char(out, '$');
    for (const ef__path_step *step = path->steps; step; step = step->next) {
        if (step->field.ptr) {
            ef__buf_add_char(out, '.');
            ef__json_write_string(out, step->field);
        } else {
            ef__buf_printf(out, "[%" PRId64 "]", step->index);
        }
    }
}

/* What stands for a literal number, its sign included. */
static ef__number number_of(const ef__expr *expr)
{
    ef__number zero = ef__number_from_int64(0), n = expr->number;

    if (expr->kind == EF__EXPR_NEGATE)
        (void)ef__number_sub(&zero, &expr->args->number, &n, NULL); /* fits, as without its sign */
    return n;
}

static bool add_scalar(ef__buf *out, const ef__expr *expr)
{
    ef__number n;

    switch (expr->kind) {
    case EF__EXPR_NULL:
        return ef__buf_add_text(out, "null");
    case EF__EXPR_BOOL:
        return ef__buf_add_text(out, expr->truth ? "true" : "false");
    case EF__EXPR_TEXT:
        return !has_nul(expr->text) && ef__json_write_string(out, expr->text);
    default:
        n = number_of(expr);
        return ef__number_format(&n, out);
    }
}

/* Bind a literal: *out_value is its number. False: the server cannot hold it. */
static bool bind_value(writer *w, const ef__expr *expr, int *out_value)
{
    ef__buf *vars = &w->out->vars;
    bool good = true;

    *out_value = w->values++;
    ef__buf_printf(vars, "%s\"v%d\":", *out_value > 0 ? "," : "", *out_value);
    if (expr->kind != EF__EXPR_ARRAY)
        return add_scalar(vars, expr);
    ef__buf_add_char(vars, '[');
    for (const ef__expr *item = expr->args; item && good; item = item->next)
        good = (item == expr->args || ef__buf_add_char(vars, ',')) && add_scalar(vars, item);
    ef__buf_add_char(vars, ']');
    return good;
}

/* --- conditions ------------------------------------------------------------------------------- */

static void put_text(writer *w, const char *text)
{
    ef__buf_add_text(&w->out->path, text);
}

static void put_test(writer *w, const ef__expr *path, const char *op, int value)
{
    put_path(w, path);
    ef__buf_printf(&w->out->path, " %s $v%d", op, value);
}

static void put_type(writer *w, const ef__expr *path, const char *type)
{
    put_path(w, path);
    ef__buf_printf(&w->out->path, ".type() == \"%s\"", type);
}

static void put_null(writer *w, const ef__expr *path, bool wanted)
{
    put_text(w, wanted ? "!exists($ ? (" : "");
    put_path(w, path);
    put_text(w, wanted ? " != null))" : " != null");
}

static void put_simple(writer *w, const ef__expr *path, const char *op, int value, bool wanted)
{
    put_text(w, wanted ? "" : "!exists($ ? (");
    put_test(w, path, op, value);
    put_text(w, wanted ? "" : "))");
}

/* Is there one way only to write it? */
static bool is_plain(ef_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7e || text.ptr[i] == '"' || text.ptr[i] == '\\')
            return false;
    return true;
}

/* Every view that matches has this where the path ends. Of several needles the longest is kept. */
static void look_for(writer *w, const ef__expr *path, ef_str value, bool is_text)
{
    const ef__path_step *last = path->steps;
    const char *quote = is_text ? "\"" : "";
    ef__buf *needle = &w->out->needle;

    while (last->next)
        last = last->next;
    if (w->choices > 0 || !last->field.ptr || !is_plain(last->field) || !is_plain(value) ||
        last->field.len + value.len + (is_text ? 5 : 3) <= needle->len)
        return;
    ef__buf_reset(needle);
    ef__buf_printf(needle, "\"%.*s\":%s%.*s%s", EF_STR_ARG(last->field), quote, EF_STR_ARG(value),
                   quote);
}

static bool put_equal(writer *w, const ef__expr *path, const ef__expr *literal, bool wanted)
{
    int value;

    if (literal->kind == EF__EXPR_NULL) {
        put_null(w, path, wanted);
        return true;
    }
    if (!is_scalar(literal) || !bind_value(w, literal, &value))
        return false;
    if (wanted && literal->kind == EF__EXPR_TEXT)
        look_for(w, path, literal->text, true);
    if (wanted && literal->kind == EF__EXPR_BOOL)
        look_for(w, path, literal->truth ? EF_STR("true") : EF_STR("false"), false);
    put_simple(w, path, "==", value, wanted);
    return true;
}

static bool put_order(writer *w, const ef__expr *path, const char *op, const ef__expr *literal,
                      bool wanted)
{
    int value;

    if (literal->kind == EF__EXPR_BOOL || !is_scalar(literal) || !bind_value(w, literal, &value))
        return false;
    put_simple(w, path, op, value, wanted);
    return true;
}

static const char *turned(ef__expr_kind kind)
{
    switch (kind) {
    case EF__EXPR_LT:
        return ">";
    case EF__EXPR_LE:
        return ">=";
    case EF__EXPR_GT:
        return "<";
    default:
        return "<=";
    }
}

static bool put_comparison(writer *w, const ef__expr *expr, bool wanted)
{
    const ef__expr *left = expr->args, *right = left->next;
    bool turn = !is_path(left);
    const ef__expr *path = turn ? right : left, *literal = turn ? left : right;

    if (!is_path(path))
        return false;
    if (expr->kind == EF__EXPR_EQ || expr->kind == EF__EXPR_NE)
        return put_equal(w, path, literal, wanted == (expr->kind == EF__EXPR_EQ));
    return put_order(w, path, turn ? turned(expr->kind) : ef__expr_operator(expr->kind), literal,
                     wanted);
}

static bool put_in_list(writer *w, const ef__expr *path, const ef__expr *list, bool wanted)
{
    bool has_null = false;
    int value;

    for (const ef__expr *item = list->args; item; item = item->next)
        has_null = has_null || item->kind == EF__EXPR_NULL;
    if (!bind_value(w, list, &value))
        return false;
    has_null = has_null && wanted;
    put_text(w, has_null ? "(" : wanted ? "" : "!");
    ef__buf_printf(&w->out->path, "exists($v%d[*] ? (@ == ", value);
    put_path(w, path);
    put_text(w, "))");
    if (has_null) {
        put_text(w, " || ");
        put_null(w, path, true);
        put_text(w, ")");
    }
    return true;
}

/* In an array, that is: a part of a text, or a key, is for others to find. */
static bool put_has_item(writer *w, const ef__expr *path, const ef__expr *literal)
{
    int value;

    if (!bind_value(w, literal, &value))
        return false;
    put_text(w, "(exists(");
    put_path(w, path);
    ef__buf_printf(&w->out->path, "[*] ? (@ == $v%d)) || ", value);
    put_type(w, path, "string");
    put_text(w, " || ");
    put_type(w, path, "object");
    put_text(w, ")");
    return true;
}

static bool put_in(writer *w, const ef__expr *expr, bool wanted)
{
    const ef__expr *left = expr->args, *right = left->next;

    w->meets_objects = true;
    if (is_path(left) && is_list(right))
        return put_in_list(w, left, right, wanted);
    return wanted && is_scalar(left) && is_path(right) && put_has_item(w, right, left);
}

static bool put_starts_with(writer *w, const ef__expr *expr, bool wanted)
{
    const ef__expr *path = expr->args, *text = path->next;
    int value;

    if (!is_path(path) || text->kind != EF__EXPR_TEXT || !bind_value(w, text, &value))
        return false;
    put_simple(w, path, "starts with", value, wanted);
    return true;
}

static bool put_condition(writer *w, const ef__expr *expr, bool wanted)
{
    static const ef__expr TRUTH = {.kind = EF__EXPR_BOOL, .truth = true};

    switch (expr->kind) {
    case EF__EXPR_PATH: /* by itself: is it true */
        return is_path(expr) && put_equal(w, expr, &TRUTH, wanted);
    case EF__EXPR_EQ:
    case EF__EXPR_NE:
    case EF__EXPR_LT:
    case EF__EXPR_LE:
    case EF__EXPR_GT:
    case EF__EXPR_GE:
        return put_comparison(w, expr, wanted);
    case EF__EXPR_IN:
        return put_in(w, expr, wanted);
    case EF__EXPR_CALL:
        return expr->function->id == EF__FN_STARTS_WITH && put_starts_with(w, expr, wanted);
    default:
        return false;
    }
}
