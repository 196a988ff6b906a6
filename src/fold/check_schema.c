/*
 * check_schema.c - checks that aliases, upcasts and migrations fit together.
 *
 * From every schema at which a step starts, the steps lead to the same newest schema: no two start
 * at the same, and none ends in between.
 */
#include "check.h"

#include <inttypes.h>

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

static const ef__alias *alias_of(const ef__program *program, ef_str type)
{
    for (const ef__alias *a = program->aliases; a; a = a->next)
        if (ef_str_equal(a->from, type))
            return a;
    return NULL;
}

/* Types are compared after aliases, so an old name never occurs. */
static void check_old_names(const ef__program *program, ef__diagnostics *diagnostics)
{
    const ef__alias *alias;

    for (const ef__handler *handler = program->handlers; handler && program->aliases;
         handler = handler->next)
        for (const ef__pattern *p = handler->patterns; p; p = p->next)
            if (!p->prefix && (alias = alias_of(program, p->text)) != NULL)
                ef__diagnostics_add(
                    diagnostics, EF__SEVERITY_ERROR, p->span, NULL,
                    "\"%.*s\" is an alias, of line %u; its events have the type \"%.*s\"",
                    EF_STR_ARG(p->text), alias->span.line, EF_STR_ARG(alias->to));
    for (const ef__upcast *upcast = program->upcasts; upcast && program->aliases;
         upcast = upcast->next)
        if ((alias = alias_of(program, upcast->type)) != NULL)
            ef__diagnostics_add(
                diagnostics, EF__SEVERITY_ERROR, upcast->span, NULL,
                "\"%.*s\" is an alias, of line %u; its events have the type \"%.*s\"",
                EF_STR_ARG(upcast->type), alias->span.line, EF_STR_ARG(alias->to));
}

static void check_upcast(const ef__program *program, const ef__upcast *upcast,
                         ef__diagnostics *diagnostics)
{
    bool goes_on = false;
    int64_t newest = upcast->to;

    for (const ef__upcast *v = program->upcasts; v; v = v->next) {
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

static void check_migration(const ef__program *program, const ef__migration *migration,
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
    for (const ef__migration *n = program->migrations; n; n = n->next) {
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

void ef__check_schemas(const ef__program *program, ef__diagnostics *diagnostics)
{
    check_aliases(program, diagnostics);
    check_old_names(program, diagnostics);
    for (const ef__upcast *upcast = program->upcasts; upcast; upcast = upcast->next)
        check_upcast(program, upcast, diagnostics);
    for (const ef__migration *migration = program->migrations; migration;
         migration = migration->next)
        check_migration(program, migration, diagnostics);
}
