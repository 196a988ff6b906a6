/*
 * check.c - static checks of a parsed program.
 */
#include "check.h"

#include "dag.h"
#include "expr.h"

bool ef__pattern_covers(const ef__pattern *pattern, const ef__pattern *other)
{
    if (!pattern->prefix)
        return !other->prefix && ef_str_equal(pattern->text, other->text);
    return other->text.len >= pattern->text.len &&
           memcmp(other->text.ptr, pattern->text.ptr, pattern->text.len) == 0;
}

static void check_block(const ef__block *block, ef__diagnostics *diagnostics)
{
    ef__stmt_walk walk;
    const ef__stmt *stmt;

    ef__stmt_walk_init(&walk, block->first);
    while ((stmt = ef__stmt_walk_next(&walk)) != NULL) {
        ef__stmt_exprs exprs = ef__stmt_exprs_of(stmt);
        for (size_t i = 0; i < exprs.count; i++)
            ef__check_expr(exprs.items[i], diagnostics);
        ef__check_stmt(stmt, diagnostics);
    }
}

/* Does a statement of the list touch the view that is chosen around it? */
static bool touches_view(const ef__stmt *stmt)
{
    for (; stmt; stmt = stmt->next) {
        ef__stmt_exprs exprs = ef__stmt_exprs_of(stmt);

        if (stmt->kind == EF__STMT_DELETE)
            return true;
        for (size_t i = 0; i < exprs.count; i++)
            if (exprs.items[i]->uses & EF__USES_VIEW)
                return true;
        if (!stmt->view_id && (touches_view(stmt->body) || touches_view(stmt->otherwise)))
            return true;
    }
    return false;
}

static void set_uses_view(ef__handler *handler)
{
    handler->when_uses_view = handler->when && (handler->when->uses & EF__USES_VIEW);
    handler->uses_view = handler->when_uses_view || touches_view(handler->block.first);
}

/* The handler before `handler` that handles all events of `pattern`, or NULL. */
static const ef__handler *find_covering_handler(const ef__program *program,
                                                const ef__handler *handler,
                                                const ef__pattern *pattern)
{
    for (const ef__handler *h = program->handlers; h != handler; h = h->next) {
        bool takes_all = !h->when || (handler->when && ef__expr_equal(h->when, handler->when));
        for (const ef__pattern *p = h->patterns; p && takes_all; p = p->next)
            if (ef__pattern_covers(p, pattern))
                return h;
    }
    return NULL;
}

static void check_reach(const ef__program *program, const ef__handler *handler,
                        ef__diagnostics *diagnostics)
{
    const ef__handler *by = NULL;
    size_t left = 0;

    for (const ef__pattern *p = handler->patterns; p; p = p->next) {
        const ef__handler *earlier = find_covering_handler(program, handler, p);
        by = earlier ? earlier : by;
        left += !earlier;
    }
    if (!by)
        return;
    if (left == 0) {
        ef__diagnostics_add(
            diagnostics, EF__SEVERITY_ERROR, handler->span, NULL,
            "no event reaches this handler: the handler in line %u matches all of them",
            by->span.line);
        return;
    }
    for (const ef__pattern *p = handler->patterns; p; p = p->next)
        if ((by = find_covering_handler(program, handler, p)) != NULL)
            ef__diagnostics_add(diagnostics, EF__SEVERITY_WARNING, p->span, NULL,
                                "the handler in line %u matches these events", by->span.line);
}

static void check_duplicate_patterns(const ef__handler *handler, ef__diagnostics *diagnostics)
{
    for (const ef__pattern *p = handler->patterns; p; p = p->next)
        for (const ef__pattern *q = p->next; q; q = q->next)
            if (ef__pattern_covers(p, q))
                ef__diagnostics_add(diagnostics, EF__SEVERITY_WARNING, q->span, NULL,
                                    "this handler matches these events already");
}

static void check_indexes(const ef__program *program, ef__diagnostics *diagnostics)
{
    for (const ef__index *a = program->indexes; a; a = a->next)
        for (const ef__index *b = a->next; b; b = b->next)
            if (ef_str_equal(a->text, b->text))
                ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, b->path->span, NULL,
                                    "\"%.*s\" is indexed already", EF_STR_ARG(b->text));
}

static void check_self_lookup(const ef__program *program, ef__diagnostics *diagnostics)
{
    for (const ef__lookup_name *l = program->lookups; l; l = l->next)
        if (ef_str_equal(l->name, program->name))
            ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, l->span, NULL,
                                "a projection cannot look itself up; a view block reaches its "
                                "other views");
}

/* What follows from the whole program, and would mislead while parts of it could not be read. */
static bool check_program_parts(ef__program *program, ef__diagnostics *diagnostics)
{
    ef__span begin = program->name_span;

    if (!program->handlers)
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, begin, NULL,
                            "the program has no handler: a handler starts with \"on TYPE\"");
    for (const ef__handler *h = program->handlers; h; h = h->next) {
        check_reach(program, h, diagnostics);
        check_duplicate_patterns(h, diagnostics);
    }
    check_indexes(program, diagnostics);
    check_self_lookup(program, diagnostics);
    ef__check_schemas(program, diagnostics);
    return ef__check_names(program, diagnostics);
}

bool ef__check_program(ef__program *program, ef__diagnostics *diagnostics)
{
    bool parsed = diagnostics->errors == 0;

    ef__check_expr(program->view_id, diagnostics);
    ef__check_view_id(program->view_id, diagnostics);
    for (ef__handler *h = program->handlers; h; h = h->next) {
        if (h->when) {
            ef__check_expr(h->when, diagnostics);
            ef__check_condition(h->when, diagnostics);
        }
        check_block(&h->block, diagnostics);
        set_uses_view(h);
    }
    for (ef__upcast *u = program->upcasts; u; u = u->next)
        check_block(&u->block, diagnostics);
    for (ef__migration *m = program->migrations; m; m = m->next)
        check_block(&m->block, diagnostics);
    return !parsed || check_program_parts(program, diagnostics);
}
