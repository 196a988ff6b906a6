/*
 * check_names.c - names that are read and never written.
 *
 * The program is the only schema of a view: a field that no statement writes never exists, so
 * reading it is a typing mistake. Programs that write computed fields of the view itself
 * (view[data.key] = …, view = …) can have any field, and are not checked.
 */
#include "check.h"

#include "dag.h"
#include "expr.h"

#include "../base/same.h"
#include "../base/settings.h"

#include <stdlib.h>

enum { WORDS_MAX = 500 }; /* candidates of a suggestion: the comparison stays cheap */

typedef struct names {
    ef_str *items;
    size_t count;
    bool anything;
} names;

typedef struct reader {
    const ef__program *program;
    ef__diagnostics *diagnostics;
    bool of_query; /* the expression has no event, and views may have more fields */
    ef__name_is_known *is_known;
    void *context;
} reader;

static int compare_names(const void *a, const void *b)
{
    return ef__str_compare(*(const ef_str *)a, *(const ef_str *)b);
}

static void collect_block(const ef__block *block, names *out)
{
    ef__stmt_walk walk;
    const ef__stmt *stmt;

    ef__stmt_walk_init(&walk, block->first);
    while ((stmt = ef__stmt_walk_next(&walk)) != NULL) {
        if (!stmt->target || stmt->kind == EF__STMT_UNSET)
            continue;
        if (!stmt->target->steps || !stmt->target->steps->field.ptr)
            out->anything = true;
        else
            out->items[out->count++] = stmt->target->steps->field;
    }
}

/* Collects the fields that the program writes to its views. */
static bool collect_fields(ef__program *program)
{
    names out = {0};
    size_t max = 1;

    for (const ef__handler *handler = program->handlers; handler; handler = handler->next)
        max += (size_t)handler->block.stmt_count;
    for (const ef__step *step = program->migrations; step; step = step->next)
        max += (size_t)step->block.stmt_count;
    out.items = ef__arena_zalloc(&program->arena, max, sizeof *out.items);
    if (!out.items)
        return false;
    for (const ef__handler *handler = program->handlers; handler; handler = handler->next)
        collect_block(&handler->block, &out);
    for (const ef__step *step = program->migrations; step; step = step->next)
        collect_block(&step->block, &out);
    qsort(out.items, out.count, sizeof *out.items, compare_names);
    program->fields = out.items;
    program->field_count = out.count;
    program->any_field = out.anything;
    return true;
}

/* Names of the view first: they are what people mistype most. */
static const char *suggest_name(const reader *reader_state, ef_str name, char *out, size_t size)
{
    const char *words[WORDS_MAX + EF__ROOT_ID];
    char copies[WORDS_MAX][EF_FOLD_LIMIT_NAME_BYTES + 1];
    size_t count = 0;
    const char *found;

    for (size_t i = 0; i < reader_state->program->field_count && count < WORDS_MAX; i++) {
        ef_str word = reader_state->program->fields[i];
        if (word.len > EF_FOLD_LIMIT_NAME_BYTES ||
            (count > 0 && ef_str_equal(word, ef_str_from(words[count - 1]))))
            continue;
        memcpy(copies[count], word.ptr, word.len);
        copies[count][word.len] = '\0';
        words[count] = copies[count];
        count++;
    }
    for (ef__root root = EF__ROOT_DATA; root <= EF__ROOT_ID && !reader_state->of_query; root++)
        words[count++] = ef__root_name(root);
    found = ef__suggest(name, words, count);
    if (!found)
        return NULL;
    size_t len = strlen(found);
    len = len < size ? len : size - 1;
    memcpy(out, found, len);
    out[len] = '\0';
    return out;
}

static void check_read(const reader *reader_state, ef_str name, ef__span span)
{
    char word[EF_FOLD_LIMIT_NAME_BYTES + 1];

    if (bsearch(&name, reader_state->program->fields, reader_state->program->field_count,
                sizeof name, compare_names))
        return;
    if (reader_state->of_query && reader_state->is_known(reader_state->context, name))
        return;
    const char *suggestion = reader_state->diagnostics->count < EF_FOLD_LIMIT_DIAGNOSTICS
                                 ? suggest_name(reader_state, name, word, sizeof word)
                                 : NULL;
    if (reader_state->of_query) {
        ef__diagnostics_add(reader_state->diagnostics, EF__SEVERITY_ERROR, span, suggestion,
                            "no view of this projection has a field \"%.*s\"", EF_STR_ARG(name));
        return;
    }
    ef__diagnostics_add(reader_state->diagnostics, EF__SEVERITY_ERROR, span, suggestion,
                        "there is no \"%.*s\" in the event fields, and nothing writes it to the "
                        "view",
                        EF_STR_ARG(name));
}

static void check_expr(const reader *reader_state, const ef__expr *expr)
{
    ef__expr_children children = ef__expr_children_of(expr);
    const ef__expr *child;

    if (expr->kind == EF__EXPR_PATH && expr->root == EF__ROOT_VIEW && expr->steps &&
        expr->steps->field.ptr)
        check_read(reader_state, expr->steps->field, expr->span);
    while ((child = ef__expr_child_next(&children)) != NULL)
        check_expr(reader_state, child);
}

/* unset of a field that is never written is a mistake too; other targets are writes. */
static void check_handler(reader *reader_state, const ef__handler *handler)
{
    ef__stmt_walk walk;
    const ef__stmt *stmt;

    if (handler->when)
        check_expr(reader_state, handler->when);
    ef__stmt_walk_init(&walk, handler->block.first);
    while ((stmt = ef__stmt_walk_next(&walk)) != NULL) {
        ef__stmt_exprs exprs = ef__stmt_exprs_of(stmt);
        for (size_t i = 0; i < exprs.count; i++)
            check_expr(reader_state, exprs.items[i]);
    }
}

bool ef__check_names(ef__program *program, ef__diagnostics *diagnostics)
{
    bool good = collect_fields(program);

    if (good && !program->any_field) {
        reader r = {.program = program, .diagnostics = diagnostics};
        for (const ef__handler *handler = program->handlers; handler; handler = handler->next)
            check_handler(&r, handler);
        for (const ef__index *i = program->indexes; i; i = i->next)
            check_read(&r, i->path->steps->field, i->path->span);
    }
    return good;
}

void ef__filter_check_names(const ef__filter *filter, const ef__program *program,
                            ef__name_is_known *is_known, void *context,
                            ef__diagnostics *diagnostics)
{
    reader r = {.program = program,
                .diagnostics = diagnostics,
                .of_query = true,
                .is_known = is_known,
                .context = context};

    /* A program in C has no text that names its fields. */
    if (!program->any_field && !program->fn)
        check_expr(&r, filter->expr);
}
