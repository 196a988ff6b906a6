/*
 * dag.h - the expressions of a block as a graph without duplicates.
 *
 * Expressions are pure, so equal ones are one node. Expressions that read the view are equal only
 * within their statement, because a statement in between may have written it. Nodes are numbered by
 * their first occurrence, arguments before the expressions that use them.
 */
#pragma once

#include "ast.h"

/*
 * Numbers the expressions of a block and assigns memo slots. `when` is that of a handler, or NULL.
 * In an upcast the event changes between statements as a view does, so nothing of it is cached.
 * False: memory ran out; `scratch` is used for temporary data.
 */
bool ef__dag_number(ef__block *block, ef__expr *when, bool event_changes, ef__arena *scratch);
/* The same for a single expression; the number of nodes, or -1. */
int32_t ef__dag_number_expr(ef__expr *expr, ef__arena *scratch);

/* The expressions that a statement has of its own (not those of its body): at most 3. */
typedef struct ef__stmt_exprs {
    ef__expr *items[3];
    size_t count;
} ef__stmt_exprs;

ef__stmt_exprs ef__stmt_exprs_of(const ef__stmt *stmt);

/* The statements of a block in the order of the source, each before its body. */
typedef struct ef__stmt_walk {
    const ef__stmt *next;
    int depth; /* of the one that was answered last; 0 at the top */
    int stacked;
    struct {
        const ef__stmt *stmt;
        int depth;
        bool otherwise; /* stmt is the first of an else */
    } stack[4 * EF_FOLD_LIMIT_DEPTH + 8];
    int next_depth;
    bool next_otherwise;
    bool otherwise; /* the one answered last is the first of an else */
} ef__stmt_walk;

void ef__stmt_walk_init(ef__stmt_walk *walk, const ef__stmt *first);
const ef__stmt *ef__stmt_walk_next(ef__stmt_walk *walk); /* NULL at the end */
