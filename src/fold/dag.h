/*
 * dag.h - a block's expressions as a graph without doubles.
 *
 * Expressions are pure, so two that are the same are one node. One that reads the view is the same
 * only within its statement, for a statement in between may have written. Nodes are numbered by
 * where they first stand, arguments before what they are arguments of.
 */
#ifndef EF_FOLD_DAG_H
#define EF_FOLD_DAG_H

#include "ast.h"

/*
 * Number the expressions of a block and hand out memo slots. `when` is a handler's, or NULL. In an
 * upcast the event changes from statement to statement as a view does: nothing of it is kept. False
 * when memory ran out; `scratch` holds what is needed meanwhile.
 */
bool ef__dag_number(ef__block *block, ef__expr *when, bool event_changes, ef__arena *scratch);
/* The same for a single expression; answers how many nodes, or -1. */
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

#endif
