/*
 * expr_print.c - prints expressions as source.
 *
 * The output parses to the same expression: brackets are written where the binding of the operators
 * requires them.
 */
#include "expr.h"

#include "../base/json.h"

#include <assert.h>

static void print_at(const ef__expr *expr, int binding, ef__buf *out)
{
    bool brackets = ef__expr_binding(expr->kind) < binding;

    /* A negative literal is printed with a sign, and binds no tighter than one. */
    if (expr->kind == EF__EXPR_NUMBER && expr->number.coefficient < 0 && binding > EF__BIND_NEGATE)
        brackets = true;
    if (brackets)
        ef__buf_add_char(out, '(');
    ef__expr_print(expr, out);
    if (brackets)
        ef__buf_add_char(out, ')');
}

bool ef__name_is_plain(ef_str text)
{
    if (text.len == 0 || (text.ptr[0] >= '0' && text.ptr[0] <= '9'))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!fits && c != '_')
            return false;
    }
    return true;
}

static void print_key(ef_str key, ef__buf *out)
{
    if (ef__name_is_plain(key))
        ef__buf_add_str(out, key);
    else
        ef__json_write_string(out, key);
}

static void print_step(const ef__path_step *step, bool first_bare, ef__buf *out)
{
    if (step->expr) {
        ef__buf_add_char(out, '[');
        ef__expr_print(step->expr, out);
        ef__buf_add_char(out, ']');
    } else if (!step->field.ptr) {
        ef__buf_printf(out, "[%lld]", (long long)step->index);
    } else if (ef__name_is_plain(step->field)) {
        ef__buf_add_text(out, first_bare ? "" : ".");
        ef__buf_add_str(out, step->field);
    } else {
        ef__buf_add_char(out, '[');
        ef__json_write_string(out, step->field);
        ef__buf_add_char(out, ']');
    }
}

static void print_path(const ef__expr *path, ef__buf *out)
{
    bool bare = path->root == EF__ROOT_VIEW && path->steps && !path->spelled;

    if (path->root == EF__ROOT_EXPR)
        print_at(path->base, EF__BIND_TIGHT, out);
    else if (path->root == EF__ROOT_LET || path->root == EF__ROOT_LOOP)
        ef__buf_add_str(out, path->text);
    else if (!bare)
        ef__buf_add_text(out, ef__root_name(path->root));
    for (const ef__path_step *step = path->steps; step; step = step->next)
        print_step(step, bare && step == path->steps, out);
}

static void print_args(const ef__expr *args, bool keys, ef__buf *out)
{
    for (const ef__expr *arg = args; arg; arg = arg->next) {
        if (keys) {
            print_key(arg->key, out);
            ef__buf_add_text(out, ": ");
        }
        ef__expr_print(arg, out);
        if (arg->next)
            ef__buf_add_text(out, ", ");
    }
}

static void print_if(const ef__expr *expr, ef__buf *out)
{
    ef__buf_add_text(out, "if ");
    ef__expr_print(expr->args, out);
    ef__buf_add_text(out, " then ");
    ef__expr_print(expr->args->next, out);
    ef__buf_add_text(out, " else ");
    ef__expr_print(expr->args->next->next, out);
}

static void print_binary(const ef__expr *expr, ef__buf *out)
{
    int binding = ef__expr_binding(expr->kind);
    bool right_first = expr->kind == EF__EXPR_DEFAULT; /* a ?? b ?? c is a ?? (b ?? c) */
    bool chains = binding != EF__BIND_COMPARE;
    const char *name = ef__expr_operator(expr->kind);

    print_at(expr->args, right_first || !chains ? binding + 1 : binding, out);
    assert(name); /* only operators have two operands */
    ef__buf_printf(out, " %s ", name);
    print_at(expr->args->next, right_first ? binding : binding + 1, out);
}

void ef__expr_print(const ef__expr *expr, ef__buf *out)
{
    switch (expr->kind) {
    case EF__EXPR_NULL:
        ef__buf_add_text(out, "null");
        break;
    case EF__EXPR_BOOL:
        ef__buf_add_text(out, expr->truth ? "true" : "false");
        break;
    case EF__EXPR_NUMBER:
        ef__number_format(&expr->number, out);
        break;
    case EF__EXPR_TEXT:
        ef__json_write_string(out, expr->text);
        break;
    case EF__EXPR_ARRAY:
    case EF__EXPR_OBJECT:
        ef__buf_add_char(out, expr->kind == EF__EXPR_ARRAY ? '[' : '{');
        print_args(expr->args, expr->kind == EF__EXPR_OBJECT, out);
        ef__buf_add_char(out, expr->kind == EF__EXPR_ARRAY ? ']' : '}');
        break;
    case EF__EXPR_PATH:
        print_path(expr, out);
        break;
    case EF__EXPR_LOOKUP:
        ef__buf_add_text(out, "lookup(");
        print_key(expr->text, out);
        ef__buf_add_text(out, ", ");
        print_args(expr->args, false, out);
        ef__buf_add_char(out, ')');
        break;
    case EF__EXPR_CALL:
        ef__buf_printf(out, "%s(", expr->function->name);
        print_args(expr->args, false, out);
        ef__buf_add_char(out, ')');
        break;
    case EF__EXPR_NOT:
        ef__buf_add_text(out, "not ");
        print_at(expr->args, EF__BIND_NOT, out);
        break;
    case EF__EXPR_NEGATE:
        ef__buf_add_char(out, '-');
        print_at(expr->args, EF__BIND_DEFAULT, out);
        break;
    case EF__EXPR_IF:
        print_if(expr, out);
        break;
    default:
        print_binary(expr, out);
    }
}

void ef__kinds_print(uint32_t kinds, ef__buf *out)
{
    static const char *const names[] = {"null",   "a boolean", "a number",
                                        "a text", "an array",  "an object"};
    uint32_t left = kinds;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint32_t bit = 1u << i;
        if (!(kinds & bit))
            continue;
        ef__buf_add_text(out, names[i]);
        left &= ~bit;
        if (left)
            ef__buf_add_text(out, (left & (left - 1)) ? ", " : " or ");
    }
}

static void print_for(const ef__stmt *stmt, ef__buf *out)
{
    ef__buf_printf(out, "for %.*s in ", EF_STR_ARG(stmt->name));
    ef__expr_print(stmt->value, out);
    if (stmt->when) {
        ef__buf_add_text(out, " when ");
        ef__expr_print(stmt->when, out);
    }
    if (stmt->view_id) {
        ef__buf_add_text(out, " view ");
        ef__expr_print(stmt->view_id, out);
    }
}

static void print_change(const ef__stmt *stmt, ef__buf *out)
{
    static const char *const operators[] = {
        [EF__STMT_SET] = "=",     [EF__STMT_INCREASE] = "+=", [EF__STMT_DECREASE] = "-=",
        [EF__STMT_PUSH] = "push", [EF__STMT_ADD] = "add",     [EF__STMT_REMOVE] = "remove",
    };

    ef__expr_print(stmt->target, out);
    ef__buf_printf(out, " %s ", operators[stmt->kind]);
    ef__expr_print(stmt->value, out);
    if (stmt->keep > 0)
        ef__buf_printf(out, " keep %lld", (long long)stmt->keep);
}

void ef__stmt_print(const ef__stmt *stmt, ef__buf *out)
{
    switch (stmt->kind) {
    case EF__STMT_UNSET:
        ef__buf_add_text(out, "unset ");
        ef__expr_print(stmt->target, out);
        break;
    case EF__STMT_DELETE:
        ef__buf_add_text(out, "delete");
        break;
    case EF__STMT_LET:
        ef__buf_printf(out, "let %.*s = ", EF_STR_ARG(stmt->name));
        ef__expr_print(stmt->value, out);
        break;
    case EF__STMT_IF:
        ef__buf_add_text(out, "if ");
        ef__expr_print(stmt->value, out);
        break;
    case EF__STMT_FOR:
        print_for(stmt, out);
        break;
    case EF__STMT_VIEW:
        ef__buf_add_text(out, "view ");
        ef__expr_print(stmt->view_id, out);
        break;
    default:
        print_change(stmt, out);
    }
}
