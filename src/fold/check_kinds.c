/*
 * check_kinds.c - operands and arguments of the wrong kind.
 *
 * Each expression has the kinds that it may result in, as far as is known statically. A mistake is
 * reported only when none of them fits; other mistakes are found when an event arrives.
 */
#include "check.h"

#include "call.h"
#include "expr.h"

enum { NUMBER = EF__KIND_NUMBER, TEXT = EF__KIND_TEXT, TRUTH = EF__KIND_BOOL | EF__KIND_NULL };

typedef struct kinds_text {
    char text[96];
} kinds_text;

static kinds_text format_kinds(uint32_t kinds)
{
    EF__AUTO(ef__buf) buf = EF__BUF_INIT(sizeof(kinds_text) - 1);
    kinds_text out = {{0}};

    ef__kinds_print(kinds, &buf);
    if (buf.len > 0)
        memcpy(out.text, buf.ptr, buf.len);
    return out;
}

static void report_kind(const ef__expr *expr, uint32_t wanted, const char *who,
                        ef__diagnostics *diagnostics)
{
    if (expr->kinds & wanted)
        return;
    ef__diagnostics_add(
        diagnostics, EF__SEVERITY_ERROR, expr->span, NULL, "%s needs %s, this is %s", who,
        format_kinds(wanted & ~(uint32_t)EF__KIND_NULL).text, format_kinds(expr->kinds).text);
}

/* Both sides numbers, or both texts. */
static void check_add(const ef__expr *expr, ef__diagnostics *diagnostics)
{
    const ef__expr *left = expr->args;
    const ef__expr *right = left->next;

    if ((left->kinds & right->kinds & (NUMBER | TEXT)) != 0)
        return;
    ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, expr->span, NULL, "cannot add %s and %s",
                        format_kinds(left->kinds).text, format_kinds(right->kinds).text);
}

/* Two of a kind; null with anything is known to be false, and no mistake. */
static void check_order(const ef__expr *expr, ef__diagnostics *diagnostics)
{
    const ef__expr *left = expr->args;
    const ef__expr *right = left->next;

    if ((left->kinds & right->kinds) != 0 || ((left->kinds | right->kinds) & EF__KIND_NULL) != 0)
        return;
    ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, expr->span, NULL,
                        "cannot compare %s with %s", format_kinds(left->kinds).text,
                        format_kinds(right->kinds).text);
}

static void check_equality(const ef__expr *expr, ef__diagnostics *diagnostics)
{
    const ef__expr *left = expr->args;
    const ef__expr *right = left->next;

    if (left->kinds & right->kinds)
        return;
    ef__diagnostics_add(diagnostics, EF__SEVERITY_WARNING, expr->span, NULL,
                        "this is always %s: %s is never equal to %s",
                        expr->kind == EF__EXPR_EQ ? "false" : "true",
                        format_kinds(left->kinds).text, format_kinds(right->kinds).text);
}

static void check_arithmetic(const ef__expr *expr, ef__diagnostics *diagnostics)
{
    const ef__expr *right = expr->args->next;

    report_kind(expr->args, NUMBER, ef__expr_operator(expr->kind), diagnostics);
    report_kind(right, NUMBER, ef__expr_operator(expr->kind), diagnostics);
    if ((expr->kind == EF__EXPR_DIV || expr->kind == EF__EXPR_MOD) &&
        right->kind == EF__EXPR_NUMBER && right->number.coefficient == 0)
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, right->span, NULL,
                            "this always divides by zero");
}

static void check_format(const ef__expr *call, ef__diagnostics *diagnostics)
{
    ef_str text = call->args->text;
    size_t places = 0;
    size_t values = 0;

    for (const ef__expr *arg = call->args->next; arg; arg = arg->next)
        values++;
    for (size_t i = 0; i + 1 < text.len; i++)
        places += text.ptr[i] == '{' && text.ptr[i + 1] == '}';
    if (places != values)
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, call->args->span, NULL,
                            "format has %zu {} for %zu values%s", places, values,
                            text.len && memmem(text.ptr, text.len, "{:", 2)
                                ? "; a {} has no width or precision"
                                : "");
}

/* Literal arguments that the function rejects for every event. */
static void check_literals(const ef__expr *call, ef__diagnostics *diagnostics)
{
    const ef__expr *first = call->args;
    const ef__expr *second = first ? first->next : NULL;
    bool first_is_text = first && first->kind == EF__EXPR_TEXT;
    bool second_is_text = second && second->kind == EF__EXPR_TEXT;
    ef__function_id id = call->function->id;

    if (id == EF__FN_DATE_PART && first_is_text && !ef__date_part_is_known(first->text))
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, first->span, NULL,
                            "date_part has no \"%.*s\": the parts are " EF__DATE_PARTS,
                            EF_STR_ARG(first->text));
    if (id == EF__FN_FORMAT && first_is_text)
        check_format(call, diagnostics);
    if (id == EF__FN_SORT && second_is_text && second->text.len > 1 && second->text.ptr[0] == '-')
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, second->span, NULL,
                            "sort has no descending order: use reverse(sort(…, \"%.*s\"))",
                            (int)second->text.len - 1, second->text.ptr + 1);
    if (id == EF__FN_REPLACE && second_is_text && second->text.len == 0)
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, second->span, NULL,
                            "replace needs a text that is not empty");
}

static void check_call(const ef__expr *call, ef__diagnostics *diagnostics)
{
    const ef__function *f = call->function;
    size_t i = 0;

    for (const ef__expr *arg = call->args; arg; arg = arg->next, i++)
        report_kind(arg, f->arg_kinds[i < 3 ? i : 2], f->name, diagnostics);
    check_literals(call, diagnostics);
}

/* A field of a text, an index into a number. */
static void check_steps(const ef__expr *path, ef__diagnostics *diagnostics)
{
    ef__expr root = *path;

    if (!path->steps)
        return;
    root.steps = NULL;
    root.step_count = 0;
    root.kinds = EF__KIND_ANY; /* a name's own kinds are not known here */
    ef__expr_settle(&root);
    uint32_t kinds = path->root == EF__ROOT_EXPR ? path->base->kinds : root.kinds;
    if (kinds & (EF__KIND_ARRAY | EF__KIND_OBJECT))
        return;
    ef__diagnostics_add(
        diagnostics, EF__SEVERITY_ERROR, path->steps->span, NULL, "%s is %s and has no members",
        path->root == EF__ROOT_EXPR ? "this" : ef__root_name(path->root), format_kinds(kinds).text);
}

static void check_one(const ef__expr *expr, ef__diagnostics *diagnostics)
{
    switch (expr->kind) {
    case EF__EXPR_PATH:
        check_steps(expr, diagnostics);
        break;
    case EF__EXPR_LOOKUP:
        report_kind(expr->args, NUMBER | TEXT, "a view's id", diagnostics);
        break;
    case EF__EXPR_CALL:
        check_call(expr, diagnostics);
        break;
    case EF__EXPR_NOT:
    case EF__EXPR_IF:
        ef__check_condition(expr->args, diagnostics);
        break;
    case EF__EXPR_AND:
    case EF__EXPR_OR:
        ef__check_condition(expr->args, diagnostics);
        ef__check_condition(expr->args->next, diagnostics);
        break;
    case EF__EXPR_EQ:
    case EF__EXPR_NE:
        check_equality(expr, diagnostics);
        break;
    case EF__EXPR_LT:
    case EF__EXPR_LE:
    case EF__EXPR_GT:
    case EF__EXPR_GE:
        check_order(expr, diagnostics);
        break;
    case EF__EXPR_IN:
        report_kind(expr->args->next, EF__KIND_ARRAY | EF__KIND_OBJECT | TEXT, "in", diagnostics);
        break;
    case EF__EXPR_ADD:
        check_add(expr, diagnostics);
        break;
    case EF__EXPR_NEGATE:
        report_kind(expr->args, NUMBER, "-", diagnostics);
        break;
    case EF__EXPR_SUB:
    case EF__EXPR_MUL:
    case EF__EXPR_DIV:
    case EF__EXPR_MOD:
        check_arithmetic(expr, diagnostics);
        break;
    default:
        break;
    }
}

void ef__check_condition(const ef__expr *expr, ef__diagnostics *diagnostics)
{
    report_kind(expr, TRUTH, "a condition", diagnostics);
}

void ef__check_view_id(const ef__expr *expr, ef__diagnostics *diagnostics)
{
    report_kind(expr, NUMBER | TEXT, "a view's id", diagnostics);
}

void ef__check_expr(const ef__expr *expr, ef__diagnostics *diagnostics)
{
    ef__expr_children children = ef__expr_children_of(expr);
    const ef__expr *child;

    while ((child = ef__expr_child_next(&children)) != NULL)
        ef__check_expr(child, diagnostics);
    check_one(expr, diagnostics);
}

void ef__check_stmt(const ef__stmt *stmt, ef__diagnostics *diagnostics)
{
    if (stmt->kind == EF__STMT_IF)
        ef__check_condition(stmt->value, diagnostics);
    if (stmt->kind == EF__STMT_INCREASE || stmt->kind == EF__STMT_DECREASE)
        report_kind(stmt->value, NUMBER,
                    stmt->kind == EF__STMT_INCREASE ? "+=" : "-=", diagnostics);
    if (stmt->kind == EF__STMT_FOR)
        report_kind(stmt->value, EF__KIND_ARRAY, "for", diagnostics);
    if (stmt->kind == EF__STMT_SET && stmt->target->step_count == 0 &&
        stmt->target->root == EF__ROOT_VIEW)
        report_kind(stmt->value, EF__KIND_OBJECT, "a view", diagnostics);
    if (stmt->when)
        ef__check_condition(stmt->when, diagnostics);
    if (stmt->view_id)
        ef__check_view_id(stmt->view_id, diagnostics);
    if (stmt->kind == EF__STMT_DELETE && stmt->next)
        ef__diagnostics_add(diagnostics, EF__SEVERITY_WARNING, stmt->next->span, NULL,
                            "this comes after delete and creates a new view");
}
