/*
 * explain_graph.c - a compiled program as a graph: JSON for programs, Graphviz for drawing.
 *
 * The nodes of a block are expressions (n0, n1 …) and statements (s0, s1 …). An edge leads from a
 * node to the nodes that need it.
 */
#include "explain.h"

#include "dag.h"
#include "expr.h"

#include "../base/json.h"

#include <stdio.h>

typedef void edge_fn(void *to, char from_kind, int32_t from, char to_kind, int32_t into,
                     const char *why);

static void edges_of_node(const ef__shown_node *node, int32_t number, edge_fn *fn, void *to)
{
    ef__expr_children children = ef__expr_children_of(node->expr);
    const ef__expr *child;

    while ((child = ef__expr_child_next(&children)) != NULL)
        fn(to, 'n', child->node, 'n', number, NULL);
}

static void edges_of_stmt(const ef__shown_block *block, size_t i, edge_fn *fn, void *to)
{
    const ef__stmt *stmt = block->stmts[i].stmt;
    ef__stmt_exprs exprs = ef__stmt_exprs_of(stmt);
    ef__buf why = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);

    for (size_t k = 0; k < exprs.count; k++)
        fn(to, 'n', exprs.items[k]->node, 's', (int32_t)i, NULL);
    for (size_t j = 0; j < i; j++) {
        const char *text = ef__stmt_depends(stmt, block->stmts[j].stmt, &why);
        if (text)
            fn(to, 's', (int32_t)j, 's', (int32_t)i, text);
    }
    ef__buf_release(&why);
}

static void all_edges(const ef__shown_block *block, edge_fn *fn, void *to)
{
    for (size_t i = 0; i < block->node_count; i++)
        edges_of_node(&block->nodes[i], (int32_t)i, fn, to);
    for (size_t i = 0; i < block->stmt_count; i++)
        edges_of_stmt(block, i, fn, to);
}

static void write_id(ef__json_writer *writer, const char *key, char kind, int32_t number)
{
    char id[24];

    (void)snprintf(id, sizeof id, "%c%d", kind, number);
    ef__json_key(writer, key);
    ef__json_str(writer, ef_str_from(id));
}

static void write_expr(ef__json_writer *writer, const char *key, const ef__expr *expr)
{
    ef__buf text = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);

    ef__json_key(writer, key);
    if (expr) {
        ef__expr_print(expr, &text);
        ef__json_str(writer, ef__buf_str(&text));
    } else {
        ef__json_null(writer);
    }
    ef__buf_release(&text);
}

static void write_edge(void *to, char from_kind, int32_t from, char to_kind, int32_t into,
                       const char *why)
{
    ef__json_writer *writer = to;

    ef__json_open(writer, '{');
    write_id(writer, "from", from_kind, from);
    write_id(writer, "to", to_kind, into);
    if (why) {
        ef__json_key(writer, "why");
        ef__json_str(writer, ef_str_from(why));
    }
    ef__json_close(writer, '}');
}

static void write_node(ef__json_writer *writer, const ef__shown_node *node, int32_t number)
{
    static const char *const uses[] = {"view", "event", "loop", "let", "lookup"};

    ef__json_open(writer, '{');
    write_id(writer, "id", 'n', number);
    write_expr(writer, "text", node->expr);
    ef__json_key(writer, "count");
    ef__json_int(writer, node->count);
    ef__json_key(writer, "once");
    ef__json_bool(writer, node->expr->memo >= 0);
    ef__json_key(writer, "uses");
    ef__json_open(writer, '[');
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (node->expr->uses & 1u << i)
            ef__json_str(writer, ef_str_from(uses[i]));
    ef__json_close(writer, ']');
    ef__json_close(writer, '}');
}

static void write_stmt(ef__json_writer *writer, const ef__shown_stmt *shown)
{
    ef__buf text = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);

    ef__stmt_print(shown->stmt, &text);
    ef__json_open(writer, '{');
    write_id(writer, "id", 's', shown->stmt->number);
    ef__json_key(writer, "line");
    ef__json_int(writer, shown->stmt->span.line);
    ef__json_key(writer, "depth");
    ef__json_int(writer, shown->depth);
    ef__json_key(writer, "text");
    ef__json_str(writer, ef__buf_str(&text));
    write_expr(writer, "writes", shown->stmt->target);
    ef__json_close(writer, '}');
    ef__buf_release(&text);
}

static void write_block(ef__json_writer *writer, const ef__shown_block *block)
{
    ef__json_open(writer, '{');
    ef__json_key(writer, "kind");
    ef__json_str(writer, ef_str_from(block->kind));
    ef__json_key(writer, "line");
    ef__json_int(writer, block->span.line);
    ef__json_key(writer, "title");
    ef__json_str(writer, block->title);
    ef__json_key(writer, "nodes");
    ef__json_open(writer, '[');
    for (size_t i = 0; i < block->node_count; i++)
        write_node(writer, &block->nodes[i], (int32_t)i);
    ef__json_close(writer, ']');
    ef__json_key(writer, "statements");
    ef__json_open(writer, '[');
    for (size_t i = 0; i < block->stmt_count; i++)
        write_stmt(writer, &block->stmts[i]);
    ef__json_close(writer, ']');
    ef__json_key(writer, "edges");
    ef__json_open(writer, '[');
    all_edges(block, write_edge, writer);
    ef__json_close(writer, ']');
    ef__json_close(writer, '}');
}

static void write_head(ef__json_writer *writer, const ef__program *program)
{
    ef__json_key(writer, "projection");
    ef__json_str(writer, program->name);
    ef__json_key(writer, "version");
    ef__json_int(writer, program->version);
    ef__json_key(writer, "order");
    ef__json_str(writer, program->order == EF__FOLD_BY_LOG ? EF_STR("log") : EF_STR("stream"));
    ef__json_key(writer, "schema");
    ef__json_int(writer, program->schema);
    ef__json_key(writer, "hash");
    ef__json_str(writer, ef__program_hash(program));
    write_expr(writer, "view", program->view_id);
    ef__json_key(writer, "indexes");
    ef__json_open(writer, '[');
    for (const ef__index *i = program->indexes; i; i = i->next)
        ef__json_str(writer, i->text);
    ef__json_close(writer, ']');
    ef__json_key(writer, "lookups");
    ef__json_open(writer, '[');
    for (const ef__lookup_name *l = program->lookups; l; l = l->next)
        ef__json_str(writer, l->name);
    ef__json_close(writer, ']');
    ef__json_key(writer, "aliases");
    ef__json_open(writer, '[');
    for (const ef__alias *a = program->aliases; a; a = a->next) {
        ef__json_open(writer, '{');
        ef__json_key(writer, "from");
        ef__json_str(writer, a->from);
        ef__json_key(writer, "to");
        ef__json_str(writer, a->to);
        ef__json_close(writer, '}');
    }
    ef__json_close(writer, ']');
}

void ef__explain_json(const ef__shown_program *shown, ef__buf *out)
{
    ef__json_writer w = EF__JSON_WRITER(out);

    ef__json_open(&w, '{');
    write_head(&w, shown->program);
    ef__json_key(&w, "blocks");
    ef__json_open(&w, '[');
    for (size_t i = 0; i < shown->block_count; i++)
        write_block(&w, &shown->blocks[i]);
    ef__json_close(&w, ']');
    ef__json_close(&w, '}');
}

/* In a quoted id of Graphviz a quote and a backslash are escaped, as in JSON. */
static void dot_label(ef__buf *out, ef_str text)
{
    ef__json_write_string(out, text);
}

typedef struct dot {
    ef__buf *out;
    size_t block;
} dot;

static void draw_edge(void *to, char from_kind, int32_t from, char to_kind, int32_t into,
                      const char *why)
{
    dot *d = to;

    ef__buf_printf(d->out, "    b%zu%c%d -> b%zu%c%d", d->block, from_kind, from, d->block, to_kind,
                   into);
    if (why) {
        ef__buf_add_text(d->out, " [style=dashed, label=");
        dot_label(d->out, ef_str_from(why));
        ef__buf_add_char(d->out, ']');
    }
    ef__buf_add_text(d->out, ";\n");
}

static void draw_block(const ef__shown_block *block, size_t number, ef__buf *out)
{
    ef__buf text = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);
    dot d = {out, number};

    ef__buf_printf(out, "  subgraph cluster_%zu {\n    label=", number);
    dot_label(out, block->title);
    ef__buf_add_text(out, ";\n");
    for (size_t i = 0; i < block->node_count; i++) {
        ef__buf_reset(&text);
        ef__expr_print(block->nodes[i].expr, &text);
        ef__buf_printf(out, "    b%zun%zu [shape=ellipse, label=", number, i);
        dot_label(out, ef__buf_str(&text));
        ef__buf_printf(out, "%s];\n", block->nodes[i].count > 1 ? ", penwidth=2" : "");
    }
    for (size_t i = 0; i < block->stmt_count; i++) {
        ef__buf_reset(&text);
        ef__stmt_print(block->stmts[i].stmt, &text);
        ef__buf_printf(out, "    b%zus%zu [shape=box, label=", number, i);
        dot_label(out, ef__buf_str(&text));
        ef__buf_add_text(out, "];\n");
    }
    all_edges(block, draw_edge, &d);
    ef__buf_add_text(out, "  }\n");
    ef__buf_release(&text);
}

void ef__explain_dot(const ef__shown_program *shown, ef__buf *out)
{
    ef__buf_printf(out, "digraph %.*s {\n  rankdir=LR;\n", EF_STR_ARG(shown->program->name));
    for (size_t i = 0; i < shown->block_count; i++)
        draw_block(&shown->blocks[i], i, out);
    ef__buf_add_text(out, "}\n");
}
