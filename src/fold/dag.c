/*
 * dag.c - equal expressions become one node.
 */
#include "dag.h"

#include "expr.h"

typedef struct dag_node dag_node;

struct dag_node {
    dag_node *next; /* in its bucket */
    uint64_t hash;
    ef__expr *expr; /* its first occurrence */
    int32_t stmt;   /* the only statement it may be shared in, or -1 for any */
    int32_t number;
    int32_t uses; /* occurrences in the block */
    int32_t memo;
};

enum { BLOCK_BUCKETS = 1024, LONE_BUCKETS = 32 }; /* powers of 2 */

typedef struct dag {
    ef__arena *scratch;
    size_t bucket_mask;
    int32_t node_count;
    int32_t memo_count;
    uint32_t changing; /* EF__USES_… that a statement may change */
    bool no_memos;     /* a lone expression has no block that would keep them */
    bool no_memory;
    dag_node *buckets[];
} dag;

static dag *dag_new(ef__arena *scratch, size_t buckets)
{
    dag *graph = ef__arena_zalloc(scratch, 1, sizeof *graph + buckets * sizeof(dag_node *));

    if (graph) {
        graph->scratch = scratch;
        graph->bucket_mask = buckets - 1;
    }
    return graph;
}

ef__stmt_exprs ef__stmt_exprs_of(const ef__stmt *stmt)
{
    ef__stmt_exprs exprs = {{NULL, NULL, NULL}, 0};
    ef__expr *all[] = {stmt->value, stmt->when, stmt->view_id, stmt->target};

    for (size_t i = 0; i < 4; i++)
        if (all[i])
            exprs.items[exprs.count++] = all[i]; /* a target has neither when nor view_id */
    return exprs;
}

void ef__stmt_walk_init(ef__stmt_walk *walk, const ef__stmt *first)
{
    walk->next = first;
    walk->depth = walk->stacked = walk->next_depth = 0;
    walk->next_otherwise = walk->otherwise = false;
}

static void stack_push(ef__stmt_walk *walk, const ef__stmt *stmt, int depth, bool otherwise)
{
    if (!stmt)
        return;
    walk->stack[walk->stacked].stmt = stmt;
    walk->stack[walk->stacked].depth = depth;
    walk->stack[walk->stacked].otherwise = otherwise;
    walk->stacked++;
}

const ef__stmt *ef__stmt_walk_next(ef__stmt_walk *walk)
{
    const ef__stmt *stmt = walk->next;

    walk->depth = walk->next_depth;
    walk->otherwise = walk->next_otherwise;
    if (!stmt)
        return NULL;
    stack_push(walk, stmt->next, walk->depth, false);
    stack_push(walk, stmt->otherwise, walk->depth + 1, true);
    stack_push(walk, stmt->body, walk->depth + 1, false);
    walk->next = NULL;
    if (walk->stacked > 0) {
        walk->stacked--;
        walk->next = walk->stack[walk->stacked].stmt;
        walk->next_depth = walk->stack[walk->stacked].depth;
        walk->next_otherwise = walk->stack[walk->stacked].otherwise;
    }
    return stmt;
}

/* Worth a slot: made from the event alone, and more work than reading the slot. */
static bool is_worth_memo(const ef__expr *expr)
{
    if (expr->uses != EF__USES_EVENT)
        return false;
    return expr->kind != EF__EXPR_PATH || expr->step_count > 0;
}

static dag_node *find_node(dag *graph, ef__expr *expr, uint64_t hash, int32_t stmt)
{
    for (dag_node *node = graph->buckets[hash & graph->bucket_mask]; node; node = node->next)
        if (node->hash == hash && node->stmt == stmt && ef__expr_equal(node->expr, expr))
            return node;
    return NULL;
}

static dag_node *add_node(dag *graph, ef__expr *expr, uint64_t hash, int32_t stmt)
{
    dag_node *node = ef__arena_zalloc(graph->scratch, 1, sizeof *node);

    if (!node) {
        graph->no_memory = true;
        return NULL;
    }
    node->hash = hash;
    node->expr = expr;
    node->stmt = stmt;
    node->number = graph->node_count++;
    node->memo = -1;
    node->next = graph->buckets[hash & graph->bucket_mask];
    graph->buckets[hash & graph->bucket_mask] = node;
    return node;
}

static void number_expr(dag *graph, ef__expr *expr, int32_t stmt)
{
    ef__expr_children children = ef__expr_children_of(expr);
    const ef__expr *child;
    uint64_t hash = ef__expr_hash(expr);
    int32_t only_in = expr->uses & graph->changing ? stmt : -1;
    dag_node *node;

    while ((child = ef__expr_child_next(&children)) != NULL)
        number_expr(graph, (ef__expr *)child, stmt);
    node = find_node(graph, expr, hash, only_in);
    if (!node)
        node = add_node(graph, expr, hash, only_in);
    if (!node)
        return;
    expr->node = node->number;
    /* The first occurrence gets its slot when the second is found. */
    if (++node->uses == 2 && !graph->no_memos && is_worth_memo(expr)) {
        node->memo = graph->memo_count++;
        node->expr->memo = node->memo;
    }
    expr->memo = node->memo;
}

bool ef__dag_number(ef__block *block, ef__expr *when, bool event_changes, ef__arena *scratch)
{
    dag *graph = dag_new(scratch, BLOCK_BUCKETS);
    ef__stmt_walk walk;
    const ef__stmt *stmt;

    if (!graph)
        return false;
    graph->changing = EF__USES_VIEW | EF__USES_LOOKUP | (event_changes ? EF__USES_EVENT : 0);
    graph->no_memos = event_changes;
    if (when)
        number_expr(graph, when, -2);
    ef__stmt_walk_init(&walk, block->first);
    while ((stmt = ef__stmt_walk_next(&walk)) != NULL) {
        ef__stmt_exprs exprs = ef__stmt_exprs_of(stmt);
        for (size_t i = 0; i < exprs.count; i++)
            number_expr(graph, exprs.items[i], stmt->number);
    }
    block->node_count = graph->node_count;
    block->memo_count = graph->memo_count;
    return !graph->no_memory;
}

int32_t ef__dag_number_expr(ef__expr *expr, ef__arena *scratch)
{
    dag *graph = dag_new(scratch, LONE_BUCKETS);

    if (!graph)
        return -1;
    graph->no_memos = true;
    number_expr(graph, expr, -2);
    return graph->no_memory ? -1 : graph->node_count;
}
