/*
 * parse_name.c - resolves names by their context.
 *
 * A let or loop name in scope has priority, then the fields of the event, then those of the view. A
 * view field with the name of an event field is written with its root: view.type.
 */
#include "parse.h"

#include "../base/settings.h"

#include <stdio.h>

static const ef__scope_name *find_in_scope(const ef__parser *parser, ef_str name)
{
    for (int32_t i = 0; i < parser->name_count; i++)
        if (ef_str_equal(parser->names[i].name, name))
            return &parser->names[i];
    return NULL;
}

static const char *suggest_event_field(ef_str name)
{
    const char *words[EF__ROOT_ID];

    for (ef__root root = EF__ROOT_DATA; root <= EF__ROOT_ID; root++)
        words[root - EF__ROOT_DATA] = ef__root_name(root);
    return ef__suggest(name, words, EF__ROOT_ID);
}

/* The first step of a bare path is the view's field itself. */
static bool add_bare_step(ef__parser *parser, ef__lexeme name, ef__expr *path)
{
    ef__path_step *step = ef__parse_alloc(parser, sizeof *step);

    if (!step)
        return false;
    step->span = name.span;
    step->field = name.text;
    path->steps = step;
    path->step_count = 1;
    return true;
}

static bool refuse_view(ef__parser *parser, ef__lexeme name)
{
    char guess[64];
    const char *field = suggest_event_field(name.text);

    if (!field) {
        (void)snprintf(guess, sizeof guess, "data.%.*s",
                       (int)(name.text.len > 50 ? 50 : name.text.len), name.text.ptr);
        field = guess;
    }
    return ef__parse_error(parser, name.span, field,
                           "\"%.*s\" would be a field of the view, and %s", EF_STR_ARG(name.text),
                           parser->where & EF__IN_UPCAST ? "an upcast has no view"
                                                         : "a view's id cannot depend on a view");
}

static bool resolve_in_query(ef__parser *parser, ef__lexeme name, ef__expr *path)
{
    path->root = EF__ROOT_VIEW;
    if (ef_str_equal(name.text, EF_STR("view")))
        path->spelled = true;
    else if (ef_str_equal(name.text, EF_STR("view_id")))
        path->root = EF__ROOT_VIEW_ID;
    else if (ef_str_equal(name.text, EF_STR("last_event_sequence")))
        path->root = EF__ROOT_LAST_EVENT_SEQUENCE;
    else
        return add_bare_step(parser, name, path);
    return true;
}

bool ef__parse_root(ef__parser *parser, ef__lexeme name, ef__expr *path)
{
    const ef__scope_name *known = find_in_scope(parser, name.text);
    bool whole_view = ef_str_equal(name.text, EF_STR("view"));

    if (parser->where & EF__IN_QUERY)
        return resolve_in_query(parser, name, path);
    if (known) {
        path->root = known->loop ? EF__ROOT_LOOP : EF__ROOT_LET;
        path->slot = known->slot;
        path->text = name.text;
        path->uses = known->uses;
        path->kinds = known->kinds;
        return true;
    }
    if (ef__root_of_event(name.text, &path->root)) {
        if (parser->where & EF__MAY_EVENT)
            return true;
        return ef__parse_error(
            parser, name.span, NULL,
            "\"%.*s\" is a field of the event, and a migration has none; the view's field is "
            "view.%.*s",
            EF_STR_ARG(name.text), EF_STR_ARG(name.text));
    }
    if (!(parser->where & EF__MAY_VIEW))
        return refuse_view(parser, name);
    path->root = EF__ROOT_VIEW;
    path->spelled = whole_view;
    return whole_view || add_bare_step(parser, name, path);
}

static bool may_declare(ef__parser *parser, ef__lexeme name)
{
    ef__root root;

    if (name.kind != EF__TOKEN_NAME || ef__parse_is_reserved(name.text))
        return ef__parse_unexpected(parser, "a name", NULL);
    if (ef__root_of_event(name.text, &root))
        return ef__parse_error(parser, name.span, NULL,
                               "\"%.*s\" is a field of the event; choose another name",
                               EF_STR_ARG(name.text));
    if (find_in_scope(parser, name.text))
        return ef__parse_error(parser, name.span, NULL,
                               "\"%.*s\" has a value already; choose another name",
                               EF_STR_ARG(name.text));
    if (parser->block->slot_count == EF_FOLD_LIMIT_SLOTS)
        return ef__parse_error(parser, name.span, NULL, "a block has at most %d let and loop names",
                               EF_FOLD_LIMIT_SLOTS);
    return true;
}

int32_t ef__parse_declare(ef__parser *parser, ef__lexeme name, bool loop, const ef__expr *value)
{
    if (!may_declare(parser, name))
        return -1;
    ef__scope_name *entry = &parser->names[parser->name_count++];
    entry->name = name.text;
    entry->loop = loop;
    entry->slot = parser->block->slot_count++;
    entry->uses = value->uses;
    entry->kinds = loop ? EF__KIND_ANY : value->kinds;
    return entry->slot;
}

bool ef__parse_note_lookup(ef__parser *parser, ef__lexeme name)
{
    ef__lookup_name **end = &parser->program->lookups;
    int count = 0;

    for (; *end; end = &(*end)->next, count++)
        if (ef_str_equal((*end)->name, name.text))
            return true;
    if (count == EF_FOLD_LIMIT_LOOKUPS)
        return ef__parse_error(parser, name.span, NULL,
                               "a program looks up at most %d other projections",
                               EF_FOLD_LIMIT_LOOKUPS);
    ef__lookup_name *lookup = ef__parse_alloc(parser, sizeof *lookup);
    if (!lookup)
        return false;
    lookup->name = name.text;
    lookup->span = name.span;
    *end = lookup;
    return true;
}
