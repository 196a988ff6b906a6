/*
 * check.h - static checks of a program: mistakes that are visible before it runs.
 */
#pragma once

#include "ast.h"

/*
 * Checks a parsed program, adds diagnostics, and sets `uses_view` of the handlers. False: memory
 * ran out.
 */
bool ef__check_program(ef__program *program, ef__diagnostics *diagnostics);

/* Operands and arguments of the wrong kind, in an expression and all below it. check_kinds.c */
void ef__check_expr(const ef__expr *expr, ef__diagnostics *diagnostics);
void ef__check_stmt(const ef__stmt *stmt, ef__diagnostics *diagnostics);
/* A `when`, an if's condition. */
void ef__check_condition(const ef__expr *expr, ef__diagnostics *diagnostics);
void ef__check_view_id(const ef__expr *expr, ef__diagnostics *diagnostics);

/* Names that nothing writes. check_names.c. False when memory ran out. */
bool ef__check_names(ef__program *program, ef__diagnostics *diagnostics);

/* Does a pattern match every type that the other matches? */
bool ef__pattern_covers(const ef__pattern *pattern, const ef__pattern *other);
