/*
 * explain_stmt.c - prints a statement as source, and its dependencies on earlier statements.
 */
#include "explain.h"

#include "dag.h"
#include "expr.h"

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

/* One is part of the other, or may be: a computed step may be any field. */
static bool paths_meet(const ef__expr *a, const ef__expr *b)
{
    const ef__path_step *x = a->steps;
    const ef__path_step *y = b->steps;

    if (a->root != b->root)
        return false;
    for (; x && y; x = x->next, y = y->next) {
        if (x->expr || y->expr)
            continue;
        if (!x->field.ptr != !y->field.ptr || !ef_str_equal(x->field, y->field))
            return false;
        /* -1 may be the same item as 3. */
        if (!x->field.ptr && x->index != y->index && (x->index < 0) == (y->index < 0))
            return false;
    }
    return true;
}

/* The path in `expr` that reads what `earlier` writes, or NULL. */
static const ef__expr *find_read(const ef__expr *expr, const ef__stmt *earlier)
{
    ef__expr_children children = ef__expr_children_of(expr);
    const ef__expr *child, *found;

    if (expr->kind == EF__EXPR_PATH) {
        bool named = expr->root == EF__ROOT_LET || expr->root == EF__ROOT_LOOP;
        if (named && earlier->slot == expr->slot)
            return expr;
        if (earlier->target && paths_meet(earlier->target, expr))
            return expr;
        if (earlier->kind == EF__STMT_DELETE && expr->root == EF__ROOT_VIEW)
            return expr;
    }
    while ((child = ef__expr_child_next(&children)) != NULL)
        if ((found = find_read(child, earlier)) != NULL)
            return found;
    return NULL;
}

const char *ef__stmt_depends(const ef__stmt *later, const ef__stmt *earlier, ef__buf *out)
{
    ef__stmt_exprs exprs = ef__stmt_exprs_of(later);
    const ef__expr *found = NULL;

    ef__buf_reset(out);
    for (size_t i = 0; i < exprs.count && !found; i++)
        found = find_read(exprs.items[i], earlier);
    if (!found && later->kind == EF__STMT_DELETE && earlier->target) {
        ef__buf_add_text(out, "the view");
        return out->ptr;
    }
    if (!found)
        return NULL;
    ef__expr_print(found, out);
    return out->failed ? "?" : out->ptr;
}
