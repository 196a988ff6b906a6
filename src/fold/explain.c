/*
 * explain.c - a compiled program laid out, and shown as text.
 */
#include "explain.h"

#include "dag.h"
#include "expr.h"

static void count_expr(const ef__expr *expr, ef__shown_node *nodes)
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
                          ef__shown_block *out)
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
        out->stmts[out->stmt_count++] = (ef__shown_stmt){stmt, walk.depth, walk.otherwise};
    }
    return true;
}

static bool copy_title(ef__arena *arena, ef__buf *title, ef__shown_block *out)
{
    out->title = ef__arena_copy(arena, ef__buf_str(title));
    ef__buf_reset(title);
    return out->title.ptr != NULL;
}

static bool prepare_handler(ef__arena *arena, const ef__handler *handler, ef__buf *title,
                            ef__shown_block *out)
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

static bool prepare_upcast(ef__arena *arena, const ef__upcast *upcast, ef__buf *title,
                           ef__shown_block *out)
{
    out->kind = "upcast";
    out->span = upcast->span;
    ef__buf_printf(title, "upcast %.*s from %lld to %lld", EF_STR_ARG(upcast->type),
                   (long long)upcast->from, (long long)upcast->to);
    return copy_title(arena, title, out) && prepare_block(arena, &upcast->block, NULL, out);
}

static bool prepare_migration(ef__arena *arena, const ef__migration *migration, ef__buf *title,
                              ef__shown_block *out)
{
    out->kind = "migration";
    out->span = migration->span;
    ef__buf_printf(title, "migrate from %lld to %lld", (long long)migration->from,
                   (long long)migration->to);
    return copy_title(arena, title, out) && prepare_block(arena, &migration->block, NULL, out);
}

static bool prepare_program(const ef__program *program, ef__arena *arena, ef__shown_program *out)
{
    ef__buf title = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);
    size_t count = 1;
    bool good;

    for (const ef__handler *handler = program->handlers; handler; handler = handler->next)
        count++;
    for (const ef__upcast *upcast = program->upcasts; upcast; upcast = upcast->next)
        count++;
    for (const ef__migration *migration = program->migrations; migration;
         migration = migration->next)
        count++;
    out->program = program;
    out->blocks = ef__arena_zalloc(arena, count, sizeof *out->blocks);
    good = out->blocks != NULL;
    for (const ef__upcast *upcast = program->upcasts; upcast && good; upcast = upcast->next)
        good = prepare_upcast(arena, upcast, &title, &out->blocks[out->block_count++]);
    for (const ef__migration *migration = program->migrations; migration && good;
         migration = migration->next)
        good = prepare_migration(arena, migration, &title, &out->blocks[out->block_count++]);
    for (const ef__handler *handler = program->handlers; handler && good; handler = handler->next)
        good = prepare_handler(arena, handler, &title, &out->blocks[out->block_count++]);
    ef__buf_release(&title);
    return good;
}

static void print_dependencies(const ef__shown_block *block, size_t i, ef__buf *out)
{
    ef__buf why = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);
    const char *lead = "    # after";

    for (size_t j = 0; j < i; j++) {
        if (!ef__stmt_depends(block->stmts[i].stmt, block->stmts[j].stmt, &why))
            continue;
        ef__buf_printf(out, "%s s%zu (%s)", lead, j, why.ptr);
        lead = ",";
    }
    ef__buf_release(&why);
}

static void print_statements(const ef__shown_block *block, ef__buf *out)
{
    for (size_t i = 0; i < block->stmt_count; i++) {
        const ef__shown_stmt *shown = &block->stmts[i];
        if (shown->otherwise)
            ef__buf_printf(out, "            %*selse\n", 2 * (shown->depth - 1), "");
        ef__buf_printf(out, "  s%-3zu %4u  %*s", i, shown->stmt->span.line, 2 * shown->depth, "");
        ef__stmt_print(shown->stmt, out);
        print_dependencies(block, i, out);
        ef__buf_add_char(out, '\n');
    }
}

static void print_shared_nodes(const ef__shown_block *block, ef__buf *out)
{
    for (size_t i = 0; i < block->node_count; i++) {
        const ef__shown_node *node = &block->nodes[i];
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

void ef__explain_text(const ef__shown_program *shown, ef__buf *out)
{
    print_head(shown->program, out);
    for (size_t i = 0; i < shown->block_count; i++) {
        const ef__shown_block *block = &shown->blocks[i];
        ef__buf_printf(out, "\n%.*s    # line %u, %zu nodes\n", EF_STR_ARG(block->title),
                       block->span.line, block->node_count);
        print_statements(block, out);
        print_shared_nodes(block, out);
    }
}

ef_status ef__program_explain(const ef__program *program, ef__explain_as as, ef__buf *out,
                              ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(EF_FOLD_LIMIT_ARENA_BYTES);
    ef__shown_program shown = {0};
    ef_status st = EF_OK;

    if (!prepare_program(program, &arena, &shown))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while the program was explained");
    else if (as == EF__EXPLAIN_JSON)
        ef__explain_json(&shown, out);
    else if (as == EF__EXPLAIN_DOT)
        ef__explain_dot(&shown, out);
    else
        ef__explain_text(&shown, out);
    if (st == EF_OK && out->failed)
        st = ef_fail(err, EF_TOO_LARGE, "the explanation is larger than %zu bytes", out->max_bytes);
    ef__arena_release(&arena);
    return st;
}
