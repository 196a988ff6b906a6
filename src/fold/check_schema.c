/*
 * check_schema.c - aliases, upcasts and migrations that fit together.
 *
 * From every schema that a step begins with, the steps lead to one and the same newest schema: no
 * two begin with the same, and none ends between.
 */
#include "check.h"

#include <inttypes.h>

static void check_aliases(const ef__program *program, ef__diagnostics *diagnostics)
{
    for (const ef__alias *a = program->aliases; a; a = a->next) {
        if (ef_str_equal(a->from, a->to))
            ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, a->span, NULL,
                                "this alias names itself");
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

static const ef__alias *alias_of(const ef__program *program, ef_str type)
{
    for (const ef__alias *a = program->aliases; a; a = a->next)
        if (ef_str_equal(a->from, type))
            return a;
    return NULL;
}

/* Types are compared after aliases, so an old name is never met. */
static void check_old_names(const ef__program *program, ef__diagnostics *diagnostics)
{
    const ef__alias *alias;

    for (const ef__handler *h = program->handlers; h && program->aliases; h = h->next)
        for (const ef__pattern *p = h->patterns; p; p = p->next)
            if (!p->prefix && (alias = alias_of(program, p->text)) != NULL)
                ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, p->span, NULL,
                                    "\"%.*s\" is an alias, of line %u; its events come as \"%.*s\"",
                                    EF_STR_ARG(p->text), alias->span.line, EF_STR_ARG(alias->to));
    for (const ef__upcast *u = program->upcasts; u && program->aliases; u = u->next)
        if ((alias = alias_of(program, u->type)) != NULL)
            ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, u->span, NULL,
                                "\"%.*s\" is an alias, of line %u; its events come as \"%.*s\"",
                                EF_STR_ARG(u->type), alias->span.line, EF_STR_ARG(alias->to));
}

static void check_upcast(const ef__program *program, const ef__upcast *u,
                         ef__diagnostics *diagnostics)
{
    bool goes_on = false;
    int64_t newest = u->to;

    for (const ef__upcast *v = program->upcasts; v; v = v->next) {
        if (v == u || !ef_str_equal(u->type, v->type))
            continue;
        if (v->from == u->from && v->span.offset < u->span.offset)
            ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, u->span, NULL,
                                "\"%.*s\" has an upcast from %" PRId64 " already, in line %u",
                                EF_STR_ARG(u->type), u->from, v->span.line);
        goes_on = goes_on || v->from == u->to;
        newest = v->to > newest ? v->to : newest;
    }
    if (!goes_on && u->to != newest)
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, u->span, NULL,
                            "there is a gap: no upcast of \"%.*s\" begins at %" PRId64
                            ", and another goes to %" PRId64,
                            EF_STR_ARG(u->type), u->to, newest);
}

static void check_migration(const ef__program *program, const ef__migration *m,
                            ef__diagnostics *diagnostics)
{
    bool goes_on = m->to == program->schema;

    if (m->to > program->schema) {
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, m->span, NULL,
                            "this goes to schema %" PRId64 ", and the program's views have %" PRId64
                            ": say schema %" PRId64 " below projection",
                            m->to, program->schema, m->to);
        return;
    }
    for (const ef__migration *n = program->migrations; n; n = n->next) {
        if (n->from == m->from && n->span.offset < m->span.offset)
            ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, m->span, NULL,
                                "there is a migration from %" PRId64 " already, in line %u",
                                m->from, n->span.line);
        goes_on = goes_on || n->from == m->to;
    }
    if (!goes_on)
        ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, m->span, NULL,
                            "there is a gap: no migration begins at %" PRId64
                            ", and the program's views have schema %" PRId64,
                            m->to, program->schema);
}

void ef__check_schemas(const ef__program *program, ef__diagnostics *diagnostics)
{
    check_aliases(program, diagnostics);
    check_old_names(program, diagnostics);
    for (const ef__upcast *u = program->upcasts; u; u = u->next)
        check_upcast(program, u, diagnostics);
    for (const ef__migration *m = program->migrations; m; m = m->next)
        check_migration(program, m, diagnostics);
}
