/*
 * explain.c - a compiled program shown: as text for people, as JSON for programs, as Graphviz for
 * drawing.
 *
 * The nodes of a block are expressions (n0, n1 …) and statements (s0, s1 …). An edge leads from a
 * node to the nodes that need it.
 */
#include "ast.h"
#include "dag.h"
#include "expr.h"

#include "../base/json.h"

#include <stdio.h>

typedef struct shown_stmt {
    const ef__stmt *stmt;
    int depth;
    bool otherwise; /* the first of an else */
} shown_stmt;

typedef struct shown_node {
    const ef__expr *expr;
    int32_t count; /* occurrences in the block */
} shown_node;

typedef struct shown_block {
    const char *kind; /* "handler", "upcast", "migration" */
    ef_str title;     /* "on order.placed when data.amount > 0" */
    ef__span span;
    const ef__expr *when;
    shown_stmt *stmts; /* by number */
    size_t stmt_count;
    shown_node *nodes; /* by number */
    size_t node_count;
} shown_block;

typedef struct shown_program {
    const ef__program *program;
    shown_block *blocks;
    size_t block_count;
} shown_program;

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

/*
 * The path or name by which `later` must come after `earlier`, because it reads or changes a value
 * that the other one writes; in `out`, which is emptied first. NULL: the order is free. Two views
 * with unknown ids count as the same one.
 */
static const char *depends_on(const ef__stmt *later, const ef__stmt *earlier, ef__buf *out)
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

static void count_expr(const ef__expr *expr, shown_node *nodes)
{
    ef__expr_children children = ef__expr_children_of(expr);
    const ef__expr *child;

    while ((child = ef__expr_child_next(&children)) != NULL)
        count_expr(child, nodes);
    if (!nodes[expr->node].expr)
        nodes[expr->node].expr = expr;
    nodes[expr->node].count++;
}

static bool prepare_block(ef__arena *arena, const ef__block *block, const ef__expr *when,
                          shown_block *out)
{
    ef__stmt_walk walk;
    const ef__stmt *stmt;

    out->when = when;
    out->node_count = (size_t)block->node_count;
    out->nodes = ef__arena_zalloc(arena, out->node_count + 1, sizeof *out->nodes);
    out->stmts = ef__arena_zalloc(arena, (size_t)block->stmt_count + 1, sizeof *out->stmts);
    if (!out->nodes || !out->stmts)
        return false;
    if (when)
        count_expr(when, out->nodes);
    ef__stmt_walk_init(&walk, block->first);
    while ((stmt = ef__stmt_walk_next(&walk)) != NULL) {
        ef__stmt_exprs exprs = ef__stmt_exprs_of(stmt);
        for (size_t i = 0; i < exprs.count; i++)
            count_expr(exprs.items[i], out->nodes);
        out->stmts[out->stmt_count++] = (shown_stmt){stmt, walk.depth, walk.otherwise};
    }
    return true;
}

static bool copy_title(ef__arena *arena, ef__buf *title, shown_block *out)
{
    out->title = ef__arena_copy(arena, ef__buf_str(title));
    ef__buf_reset(title);
    return out->title.ptr != NULL;
}

static bool prepare_handler(ef__arena *arena, const ef__handler *handler, ef__buf *title,
                            shown_block *out)
{
    out->kind = "handler";
    out->span = handler->span;
    ef__buf_add_text(title, "on ");
    for (const ef__pattern *p = handler->patterns; p; p = p->next)
        ef__buf_printf(title, "%.*s%s%s", EF_STR_ARG(p->text), p->prefix ? "*" : "",
                       p->next ? ", " : "");
    if (handler->when) {
        ef__buf_add_text(title, " when ");
        ef__expr_print(handler->when, title);
    }
    return copy_title(arena, title, out) &&
           prepare_block(arena, &handler->block, handler->when, out);
}

static bool prepare_step(ef__arena *arena, const ef__step *step, const char *kind, ef__buf *title,
                         shown_block *out)
{
    out->kind = kind;
    out->span = step->span;
    if (step->type.len)
        ef__buf_printf(title, "upcast %.*s", EF_STR_ARG(step->type));
    else
        ef__buf_add_text(title, "migrate");
    ef__buf_printf(title, " from %lld to %lld", (long long)step->from, (long long)step->to);
    return copy_title(arena, title, out) && prepare_block(arena, &step->block, NULL, out);
}

static bool prepare_program(const ef__program *program, ef__arena *arena, shown_program *out)
{
    EF__AUTO(ef__buf) title = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);
    size_t count = 1;
    bool good;

    for (const ef__handler *handler = program->handlers; handler; handler = handler->next)
        count++;
    for (const ef__step *step = program->upcasts; step; step = step->next)
        count++;
    for (const ef__step *step = program->migrations; step; step = step->next)
        count++;
    out->program = program;
    out->blocks = ef__arena_zalloc(arena, count, sizeof *out->blocks);
    good = out->blocks != NULL;
    for (const ef__step *step = program->upcasts; step && good; step = step->next)
        good = prepare_step(arena, step, "upcast", &title, &out->blocks[out->block_count++]);
    for (const ef__step *step = program->migrations; step && good; step = step->next)
        good = prepare_step(arena, step, "migration", &title, &out->blocks[out->block_count++]);
    for (const ef__handler *handler = program->handlers; handler && good; handler = handler->next)
        good = prepare_handler(arena, handler, &title, &out->blocks[out->block_count++]);
    return good;
}

static void print_dependencies(const shown_block *block, size_t i, ef__buf *out)
{
    EF__AUTO(ef__buf) why = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);
    const char *lead = "    # after";

    for (size_t j = 0; j < i; j++) {
        if (!depends_on(block->stmts[i].stmt, block->stmts[j].stmt, &why))
            continue;
        ef__buf_printf(out, "%s s%zu (%s)", lead, j, why.ptr);
        lead = ",";
    }
}

static void print_statements(const shown_block *block, ef__buf *out)
{
    for (size_t i = 0; i < block->stmt_count; i++) {
        const shown_stmt *shown = &block->stmts[i];
        if (shown->otherwise)
            ef__buf_printf(out, "            %*selse\n", 2 * (shown->depth - 1), "");
        ef__buf_printf(out, "  s%-3zu %4u  %*s", i, shown->stmt->span.line, 2 * shown->depth, "");
        ef__stmt_print(shown->stmt, out);
        print_dependencies(block, i, out);
        ef__buf_add_char(out, '\n');
    }
}

static void print_shared_nodes(const shown_block *block, ef__buf *out)
{
    for (size_t i = 0; i < block->node_count; i++) {
        const shown_node *node = &block->nodes[i];
        if (node->count < 2 || node->expr->height + node->expr->step_count < 2)
            continue;
        ef__buf_printf(out, "  n%-3zu       ", i);
        ef__expr_print(node->expr, out);
        ef__buf_printf(out, "    # %d times, %s\n", node->count,
                       node->expr->memo >= 0 ? "computed once per event" : "one node");
    }
}

static void print_head(const ef__program *program, ef__buf *out)
{
    ef__buf_printf(out, "projection %.*s version %lld\n  order by %s\n  view ",
                   EF_STR_ARG(program->name), (long long)program->version,
                   program->order == EF__FOLD_BY_LOG ? "log" : "stream");
    ef__expr_print(program->view_id, out);
    for (const ef__index *i = program->indexes; i; i = i->next)
        ef__buf_printf(out, "%s%.*s", i == program->indexes ? "\n  index " : ", ",
                       EF_STR_ARG(i->text));
    ef__buf_printf(out, "\n  schema %lld\n", (long long)program->schema);
    for (const ef__lookup_name *l = program->lookups; l; l = l->next)
        ef__buf_printf(out, "%s%.*s%s", l == program->lookups ? "lookups " : ", ",
                       EF_STR_ARG(l->name), l->next ? "" : "\n");
    for (const ef__alias *a = program->aliases; a; a = a->next)
        ef__buf_printf(out, "alias %.*s = %.*s\n", EF_STR_ARG(a->from), EF_STR_ARG(a->to));
}

static void explain_text(const shown_program *shown, ef__buf *out)
{
    print_head(shown->program, out);
    for (size_t i = 0; i < shown->block_count; i++) {
        const shown_block *block = &shown->blocks[i];
        ef__buf_printf(out, "\n%.*s    # line %u, %zu nodes\n", EF_STR_ARG(block->title),
                       block->span.line, block->node_count);
        print_statements(block, out);
        print_shared_nodes(block, out);
    }
}

typedef void edge_fn(void *to, char from_kind, int32_t from, char to_kind, int32_t into,
                     const char *why);

static void edges_of_node(const shown_node *node, int32_t number, edge_fn *fn, void *to)
{
    ef__expr_children children = ef__expr_children_of(node->expr);
    const ef__expr *child;

    while ((child = ef__expr_child_next(&children)) != NULL)
        fn(to, 'n', child->node, 'n', number, NULL);
}

static void edges_of_stmt(const shown_block *block, size_t i, edge_fn *fn, void *to)
{
    const ef__stmt *stmt = block->stmts[i].stmt;
    ef__stmt_exprs exprs = ef__stmt_exprs_of(stmt);
    EF__AUTO(ef__buf) why = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);

    for (size_t k = 0; k < exprs.count; k++)
        fn(to, 'n', exprs.items[k]->node, 's', (int32_t)i, NULL);
    for (size_t j = 0; j < i; j++) {
        const char *text = depends_on(stmt, block->stmts[j].stmt, &why);
        if (text)
            fn(to, 's', (int32_t)j, 's', (int32_t)i, text);
    }
}

static void all_edges(const shown_block *block, edge_fn *fn, void *to)
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
    ef__json_member_text(writer, key, id);
}

static void write_expr(ef__json_writer *writer, const char *key, const ef__expr *expr)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);

    ef__json_key(writer, key);
    if (expr) {
        ef__expr_print(expr, &text);
        ef__json_str(writer, ef__buf_str(&text));
    } else {
        ef__json_null(writer);
    }
}

static void write_edge(void *to, char from_kind, int32_t from, char to_kind, int32_t into,
                       const char *why)
{
    ef__json_writer *writer = to;

    ef__json_open(writer, '{');
    write_id(writer, "from", from_kind, from);
    write_id(writer, "to", to_kind, into);
    if (why) {
        ef__json_member_text(writer, "why", why);
    }
    ef__json_close(writer, '}');
}

static void write_node(ef__json_writer *writer, const shown_node *node, int32_t number)
{
    static const char *const uses[] = {"view", "event", "loop", "let", "lookup"};

    ef__json_open(writer, '{');
    write_id(writer, "id", 'n', number);
    write_expr(writer, "text", node->expr);
    ef__json_member_int(writer, "count", node->count);
    ef__json_member_bool(writer, "once", node->expr->memo >= 0);
    ef__json_member_open(writer, "uses", '[');
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (node->expr->uses & 1u << i)
            ef__json_str(writer, ef_str_from(uses[i]));
    ef__json_close(writer, ']');
    ef__json_close(writer, '}');
}

static void write_stmt(ef__json_writer *writer, const shown_stmt *shown)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);

    ef__stmt_print(shown->stmt, &text);
    ef__json_open(writer, '{');
    write_id(writer, "id", 's', shown->stmt->number);
    ef__json_member_int(writer, "line", shown->stmt->span.line);
    ef__json_member_int(writer, "depth", shown->depth);
    ef__json_member_str(writer, "text", ef__buf_str(&text));
    write_expr(writer, "writes", shown->stmt->target);
    ef__json_close(writer, '}');
}

static void write_block(ef__json_writer *writer, const shown_block *block)
{
    ef__json_open(writer, '{');
    ef__json_member_text(writer, "kind", block->kind);
    ef__json_member_int(writer, "line", block->span.line);
    ef__json_member_str(writer, "title", block->title);
    ef__json_member_open(writer, "nodes", '[');
    for (size_t i = 0; i < block->node_count; i++)
        write_node(writer, &block->nodes[i], (int32_t)i);
    ef__json_close(writer, ']');
    ef__json_member_open(writer, "statements", '[');
    for (size_t i = 0; i < block->stmt_count; i++)
        write_stmt(writer, &block->stmts[i]);
    ef__json_close(writer, ']');
    ef__json_member_open(writer, "edges", '[');
    all_edges(block, write_edge, writer);
    ef__json_close(writer, ']');
    ef__json_close(writer, '}');
}

static void write_head(ef__json_writer *writer, const ef__program *program)
{
    ef__json_member_str(writer, "projection", program->name);
    ef__json_member_int(writer, "version", program->version);
    ef__json_member_str(writer, "order",
                        program->order == EF__FOLD_BY_LOG ? EF_STR("log") : EF_STR("stream"));
    ef__json_member_int(writer, "schema", program->schema);
    ef__json_member_str(writer, "hash", ef__program_hash(program));
    write_expr(writer, "view", program->view_id);
    ef__json_member_open(writer, "indexes", '[');
    for (const ef__index *i = program->indexes; i; i = i->next)
        ef__json_str(writer, i->text);
    ef__json_close(writer, ']');
    ef__json_member_open(writer, "lookups", '[');
    for (const ef__lookup_name *l = program->lookups; l; l = l->next)
        ef__json_str(writer, l->name);
    ef__json_close(writer, ']');
    ef__json_member_open(writer, "aliases", '[');
    for (const ef__alias *a = program->aliases; a; a = a->next) {
        ef__json_open(writer, '{');
        ef__json_member_str(writer, "from", a->from);
        ef__json_member_str(writer, "to", a->to);
        ef__json_close(writer, '}');
    }
    ef__json_close(writer, ']');
}

static void explain_json(const shown_program *shown, ef__buf *out)
{
    ef__json_writer w = EF__JSON_WRITER(out);

    ef__json_open(&w, '{');
    write_head(&w, shown->program);
    ef__json_member_open(&w, "blocks", '[');
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

static void draw_block(const shown_block *block, size_t number, ef__buf *out)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);
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
}

static void explain_dot(const shown_program *shown, ef__buf *out)
{
    ef__buf_printf(out, "digraph %.*s {\n  rankdir=LR;\n", EF_STR_ARG(shown->program->name));
    for (size_t i = 0; i < shown->block_count; i++)
        draw_block(&shown->blocks[i], i, out);
    ef__buf_add_text(out, "}\n");
}

ef_status ef__program_explain(const ef__program *program, ef__explain_as as, ef__buf *out,
                              ef_error *err)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(EF_FOLD_LIMIT_ARENA_BYTES);
    shown_program shown = {0};
    ef_status st = EF_OK;

    if (!prepare_program(program, &arena, &shown))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while the program was explained");
    else if (as == EF__EXPLAIN_JSON)
        explain_json(&shown, out);
    else if (as == EF__EXPLAIN_DOT)
        explain_dot(&shown, out);
    else
        explain_text(&shown, out);
    if (st == EF_OK && out->failed)
        st = ef_fail(err, EF_TOO_LARGE, "the explanation is larger than %zu bytes", out->max_bytes);
    return st;
}
