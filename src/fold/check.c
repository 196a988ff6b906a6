/*
 * check.c - static checks of a parsed program, and of programs that read each other.
 */
#include "check.h"

#include "dag.h"
#include "expr.h"

#include <inttypes.h>
#include <stdlib.h>

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

static void check_aliases(const ef__program *program, ef__diagnostics *diagnostics)
{
    for (const ef__alias *a = program->aliases; a; a = a->next) {
        if (ef_str_equal(a->from, a->to))
            ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, a->span, NULL,
                                "this alias refers to itself");
        for (const ef__alias *b = program->aliases; b; b = b->next) {
            if (b != a && ef_str_equal(a->to, b->from))
                ef__diagnostics_add(
                    diagnostics, EF__SEVERITY_ERROR, a->span, NULL,
                    "\"%.*s\" is an alias itself, of line %u; name the type that is "
                    "meant in the end",
                    EF_STR_ARG(a->to), b->span.line);
            if (b->span.offset > a->span.offset && ef_str_equal(a->from, b->from))
                ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, b->span, NULL,
                                    "\"%.*s\" has an alias already, in line %u",
                                    EF_STR_ARG(b->from), a->span.line);
        }
    }
}

/* Types are compared after aliases, so an old name never occurs. */
static void refuse_old_name(const ef__program *program, ef_str type, ef__span span,
                            ef__diagnostics *diagnostics)
{
    for (const ef__alias *a = program->aliases; a; a = a->next)
        if (ef_str_equal(a->from, type))
            ef__diagnostics_add(
                diagnostics, EF__SEVERITY_ERROR, span, NULL,
                "\"%.*s\" is an alias, of line %u; its events have the type \"%.*s\"",
                EF_STR_ARG(type), a->span.line, EF_STR_ARG(a->to));
}

static void check_old_names(const ef__program *program, ef__diagnostics *diagnostics)
{
    for (const ef__handler *handler = program->handlers; handler; handler = handler->next)
        for (const ef__pattern *p = handler->patterns; p; p = p->next)
            if (!p->prefix)
                refuse_old_name(program, p->text, p->span, diagnostics);
    for (const ef__step *upcast = program->upcasts; upcast; upcast = upcast->next)
        refuse_old_name(program, upcast->type, upcast->span, diagnostics);
}

static void check_upcast(const ef__program *program, const ef__step *upcast,
                         ef__diagnostics *diagnostics)
{
    bool goes_on = false;
    int64_t newest = upcast->to;

    for (const ef__step *v = program->upcasts; v; v = v->next) {
        if (v == upcast || !ef_str_equal(upcast->type, v->type))
            continue;
        if (v->from == upcast->from && v->span.offset < upcast->span.offset)
            ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, upcast->span, NULL,
                                "\"%.*s\" has an upcast from %" PRId64 " already, in line %u",
                                EF_STR_ARG(upcast->type), upcast->from, v->span.line);
        goes_on = goes_on || v->from == upcast->to;
        newest = v->to > newest ? v->to : newest;
    }
    if (!goes_on && upcast->to != newest)
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, upcast->span, NULL,
                            "there is a gap: no upcast of \"%.*s\" begins at %" PRId64
                            ", and another goes to %" PRId64,
                            EF_STR_ARG(upcast->type), upcast->to, newest);
}

static void check_migration(const ef__program *program, const ef__step *migration,
                            ef__diagnostics *diagnostics)
{
    bool goes_on = migration->to == program->schema;

    if (migration->to > program->schema) {
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, migration->span, NULL,
                            "this goes to schema %" PRId64 ", and the program's views have %" PRId64
                            ": say schema %" PRId64 " below projection",
                            migration->to, program->schema, migration->to);
        return;
    }
    for (const ef__step *n = program->migrations; n; n = n->next) {
        if (n->from == migration->from && n->span.offset < migration->span.offset)
            ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, migration->span, NULL,
                                "there is a migration from %" PRId64 " already, in line %u",
                                migration->from, n->span.line);
        goes_on = goes_on || n->from == migration->to;
    }
    if (!goes_on)
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, migration->span, NULL,
                            "there is a gap: no migration starts at %" PRId64
                            ", and the program's views have schema %" PRId64,
                            migration->to, program->schema);
}

/* Aliases, upcasts and migrations fit together: from every schema at which a step starts, the steps
 * lead to the same newest schema; no two start at the same, and none ends in between. */
static void check_schemas(const ef__program *program, ef__diagnostics *diagnostics)
{
    check_aliases(program, diagnostics);
    check_old_names(program, diagnostics);
    for (const ef__step *upcast = program->upcasts; upcast; upcast = upcast->next)
        check_upcast(program, upcast, diagnostics);
    for (const ef__step *step = program->migrations; step; step = step->next)
        check_migration(program, step, diagnostics);
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
    check_schemas(program, diagnostics);
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
    for (ef__step *u = program->upcasts; u; u = u->next)
        check_block(&u->block, diagnostics);
    for (ef__step *m = program->migrations; m; m = m->next)
        check_block(&m->block, diagnostics);
    return !parsed || check_program_parts(program, diagnostics);
}

/* --- cycles of programs that read each other by lookup --- */

/* unseen -> open -> done. Reaching an open one again closes a cycle. */
enum { UNSEEN, OPEN, DONE };

typedef struct search {
    const ef__program *const *programs;
    size_t count;
    uint8_t *states;
    size_t *path;                    /* the open ones, from the first */
    const ef__lookup_name **lookups; /* of each in path: the next one to follow */
    size_t depth;
} search;

static size_t find_program(const search *search_state, ef_str name)
{
    for (size_t i = 0; i < search_state->count; i++)
        if (ef_str_equal(search_state->programs[i]->name, name))
            return i;
    return search_state->count;
}

static ef_status report_cycle(const search *search_state, size_t again, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(4096);
    size_t from = 0;

    while (search_state->path[from] != again)
        from++;
    for (size_t i = from; i < search_state->depth; i++)
        ef__buf_printf(&text, "%.*s -> ",
                       EF_STR_ARG(search_state->programs[search_state->path[i]]->name));
    ef_status st =
        ef_fail(err, EF_BAD_INPUT, "projections look each other up in a cycle: %.*s%.*s",
                EF_STR_ARG(ef__buf_str(&text)), EF_STR_ARG(search_state->programs[again]->name));
    return st;
}

static void push_program(search *search_state, size_t i)
{
    search_state->states[i] = OPEN;
    search_state->path[search_state->depth] = i;
    search_state->lookups[search_state->depth] = search_state->programs[i]->lookups;
    search_state->depth++;
}

static ef_status search_from(search *search_state, size_t start, ef_error *err)
{
    push_program(search_state, start);
    while (search_state->depth > 0) {
        const ef__lookup_name *lookup = search_state->lookups[search_state->depth - 1];

        if (!lookup) {
            search_state->states[search_state->path[--search_state->depth]] = DONE;
            continue;
        }
        search_state->lookups[search_state->depth - 1] = lookup->next;
        size_t next = find_program(search_state, lookup->name);
        if (next == search_state->count || search_state->states[next] == DONE)
            continue;
        if (search_state->states[next] == OPEN)
            return report_cycle(search_state, next, err);
        push_program(search_state, next);
    }
    return EF_OK;
}

ef_status ef__fold_check_cycles(const ef__program *const *programs, size_t count, ef_error *err)
{
    search s = {.programs = programs, .count = count};
    ef_status st = EF_OK;

    s.states = calloc(count + 1, sizeof *s.states);
    s.path = calloc(count + 1, sizeof *s.path);
    s.lookups = calloc(count + 1, sizeof *s.lookups);
    if (!s.states || !s.path || !s.lookups)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    for (size_t i = 0; i < count && st == EF_OK; i++)
        if (s.states[i] == UNSEEN)
            st = search_from(&s, i, err);
    free(s.states);
    free(s.path);
    free(s.lookups);
    return st;
}
