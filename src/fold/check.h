/*
 * check.h - what can be seen to be wrong before a program runs.
 */
#ifndef EF_FOLD_CHECK_H
#define EF_FOLD_CHECK_H

#include "ast.h"

/*
 * Look over a parsed program, add what is found to `diagnostics`, and fill in what handlers use of
 * their view. False when memory ran out.
 */
bool ef__check_program(ef__program *program, ef__diagnostics *diagnostics);

/* Kinds that cannot go together, in an expression and all below it. check_kinds.c */
void ef__check_expr(const ef__expr *expr, ef__diagnostics *diagnostics);
void ef__check_stmt(const ef__stmt *stmt, ef__diagnostics *diagnostics);
/* A `when`, an if's condition. */
void ef__check_condition(const ef__expr *expr, ef__diagnostics *diagnostics);
void ef__check_view_id(const ef__expr *expr, ef__diagnostics *diagnostics);

/* Names that nothing writes. check_names.c. False when memory ran out. */
bool ef__check_names(ef__program *program, ef__diagnostics *diagnostics);

/* Aliases, upcasts and migrations fit together. check_schema.c */
void ef__check_schemas(const ef__program *program, ef__diagnostics *diagnostics);

/* Does a pattern take every type that the other takes? */
bool ef__pattern_covers(const ef__pattern *pattern, const ef__pattern *other);

#endif
