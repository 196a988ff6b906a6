/*
 * expr.h - expressions as nodes: made, walked, compared and printed.
 */
#pragma once

#include "ast.h"

/* A node without arguments; NULL when memory ran out. */
ef__expr *ef__expr_new(ef__arena *arena, ef__expr_kind kind, ef__span span);

/* Fill in what follows from the arguments: uses, kinds, height. A path made from a let or loop name
 * has the name's uses and kinds set before. */
void ef__expr_settle(ef__expr *expr);

/* The children of a node one after another: base, computed steps, arguments. */
typedef struct ef__expr_children {
    const ef__expr *base;
    const ef__path_step *step;
    const ef__expr *arg;
} ef__expr_children;

ef__expr_children ef__expr_children_of(const ef__expr *expr);
const ef__expr *ef__expr_child_next(ef__expr_children *children); /* NULL at the end */

/* Equality, ignoring location and spelling. */
bool ef__expr_equal(const ef__expr *a, const ef__expr *b);
uint64_t ef__expr_hash(const ef__expr *expr);

/* Prints it as source. */
void ef__expr_print(const ef__expr *expr, ef__buf *out);
/* The statement's own line, without its body. */
void ef__stmt_print(const ef__stmt *stmt, ef__buf *out);

/* Letters, digits and _: may follow a point. */
bool ef__name_is_plain(ef_str text);

/* "==", "and"; NULL: not a binary operator. */
const char *ef__expr_operator(ef__expr_kind kind);
/* "data"; NULL: the root has no keyword. */
const char *ef__root_name(ef__root root);
/* The root of an event field's name. */
bool ef__root_of_event(ef_str name, ef__root *out);
/* How tight an operator binds, loosest first. An `if` reaches as far as it can. */
enum {
    EF__BIND_IF,
    EF__BIND_OR,
    EF__BIND_AND,
    EF__BIND_NOT,
    EF__BIND_COMPARE,
    EF__BIND_ADD,
    EF__BIND_MUL,
    EF__BIND_NEGATE,
    EF__BIND_DEFAULT,
    EF__BIND_TIGHT
};

int ef__expr_binding(ef__expr_kind kind);

/* "a number or a text". */
void ef__kinds_print(uint32_t kinds, ef__buf *out);
