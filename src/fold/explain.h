/*
 * explain.h - a block of a program prepared for printing. Internal to the explain files.
 */
#ifndef EF_FOLD_EXPLAIN_H
#define EF_FOLD_EXPLAIN_H

#include "ast.h"

typedef struct ef__shown_stmt {
    const ef__stmt *stmt;
    int depth;
    bool otherwise; /* the first of an else */
} ef__shown_stmt;

typedef struct ef__shown_node {
    const ef__expr *expr;
    int32_t count; /* occurrences in the block */
} ef__shown_node;

typedef struct ef__shown_block {
    const char *kind; /* "handler", "upcast", "migration" */
    ef_str title;     /* "on order.placed when data.amount > 0" */
    ef__span span;
    const ef__expr *when;
    ef__shown_stmt *stmts; /* by number */
    size_t stmt_count;
    ef__shown_node *nodes; /* by number */
    size_t node_count;
} ef__shown_block;

typedef struct ef__shown_program {
    const ef__program *program;
    ef__shown_block *blocks;
    size_t block_count;
} ef__shown_program;

/* The statement's own line, as one would write it. */
void ef__stmt_print(const ef__stmt *stmt, ef__buf *out);

/*
 * The path or name by which `later` must come after `earlier`, because it reads or changes a value
 * that the other one writes; in `out`, which is emptied first. NULL: the order is free. Two views
 * with unknown ids count as the same one.
 */
const char *ef__stmt_depends(const ef__stmt *later, const ef__stmt *earlier, ef__buf *out);

void ef__explain_text(const ef__shown_program *shown, ef__buf *out);
void ef__explain_json(const ef__shown_program *shown, ef__buf *out);
void ef__explain_dot(const ef__shown_program *shown, ef__buf *out);

#endif
