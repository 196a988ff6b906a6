/*
 * program.c - compiles a program, and its accessors.
 */
#include "fold.h"

#include "ast.h"
#include "check.h"
#include "dag.h"
#include "parse.h"

#include "../base/utf8.h"
#include "../base/hash.h"

#include <stdlib.h>

enum {
    DIGEST_BYTES_MAX = 16 * EF_FOLD_LIMIT_SOURCE_BYTES
}; /* each token with its kind and length */

static ef_status first_error(const ef__diagnostics *diagnostics, const char *what, ef_error *err)
{
    for (size_t i = 0; i < diagnostics->count; i++) {
        const ef__diagnostic *item = &diagnostics->items[i];
        if (item->severity != EF__SEVERITY_ERROR)
            continue;
        return ef_fail(err, EF_BAD_INPUT, "%s%s%u:%u: %s", diagnostics->file,
                       diagnostics->file[0] ? ":" : "", item->span.line, item->span.column,
                       item->message);
    }
    return ef_fail(err, EF_BAD_INPUT, "the %s is wrong", what);
}

static ef_status check_text(ef_str text, size_t max_bytes, const char *what, ef_error *err)
{
    if (text.len > max_bytes)
        return ef_fail_numbers(err, EF_TOO_LARGE, (int64_t)text.len, (int64_t)max_bytes,
                               "the %s has %zu bytes, at most %zu are allowed", what, text.len,
                               max_bytes);
    return EF_OK;
}

/* Where the text stops being UTF-8, as a place that can be shown. */
static bool check_utf8(ef_str text, ef__diagnostics *diagnostics)
{
    ef__span span = {0, 1, 1, 1};
    uint32_t code;
    size_t len;

    if (ef__utf8_valid(text))
        return true;
    while (text.len > 0 && (len = ef__character(text, &code)) > 0) {
        span.line += code == '\n';
        span.column = code == '\n' ? 1 : span.column + 1;
        span.offset += (uint32_t)len;
        text.ptr += len;
        text.len -= len;
    }
    ef__diagnostics_add(diagnostics, EF__SEVERITY_ERROR, span, NULL, "this is not UTF-8");
    return false;
}

static ef_status seal_hash(ef__program *program, const ef__buf *digest, ef_error *err)
{
    uint8_t hash[EF_HASH_BYTES];

    if (digest->failed || !ef__sha256(ef__buf_str(digest), EF_STR(""), hash))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while the program was hashed");
    ef__hex(hash, sizeof hash, program->hash);
    return EF_OK;
}

/* Without `view`, the events of a stream make one view. */
static bool default_view(ef__program *program)
{
    if (program->view_id)
        return true;
    program->view_id = ef__expr_new(&program->arena, EF__EXPR_PATH, program->name_span);
    if (!program->view_id)
        return false;
    program->view_id->root = EF__ROOT_STREAM;
    ef__expr_settle(program->view_id);
    return true;
}

static bool number_all(ef__program *program)
{
    EF__AUTO(ef__arena) scratch = EF__ARENA_INIT(EF_FOLD_LIMIT_ARENA_BYTES);
    bool good = true;

    for (ef__handler *h = program->handlers; h && good; h = h->next) {
        good = ef__dag_number(&h->block, h->when, false, &scratch);
        ef__arena_reset(&scratch);
    }
    for (ef__step *u = program->upcasts; u && good; u = u->next) {
        good = ef__dag_number(&u->block, NULL, true, &scratch);
        ef__arena_reset(&scratch);
    }
    for (ef__step *m = program->migrations; m && good; m = m->next) {
        good = ef__dag_number(&m->block, NULL, false, &scratch);
        ef__arena_reset(&scratch);
    }
    program->view_id_nodes = good ? ef__dag_number_expr(program->view_id, &scratch) : -1;
    return program->view_id_nodes >= 0;
}

static ef_status parse_text(ef__program *program, ef__buf *digest, ef__diagnostics *diagnostics,
                            ef_error *err)
{
    ef__parser *parser = ef__arena_zalloc(&program->arena, 1, sizeof *parser);

    if (!parser)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    parser->arena = &program->arena;
    parser->diagnostics = diagnostics;
    parser->program = program;
    parser->digest = digest;
    ef__parse_begin(parser, program->source);
    ef__parse_program(parser);
    if (parser->no_memory || !default_view(program))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while the program was parsed");
    return EF_OK;
}

static ef_status compile_program(ef__program *program, ef__diagnostics *diagnostics, ef_error *err)
{
    ef__buf digest = EF__BUF_INIT(DIGEST_BYTES_MAX);
    ef_status st = parse_text(program, &digest, diagnostics, err);

    if (st != EF_OK)
        goto out;
    if (!ef__check_program(program, diagnostics)) {
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while the program was checked");
        goto out;
    }
    ef__diagnostics_sort(diagnostics);
    if (diagnostics->errors > 0)
        st = first_error(diagnostics, "program", err);
    else if (!number_all(program) || !ef__program_compile_routes(program))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while the program was compiled");
    else
        st = seal_hash(program, &digest, err);
out:
    ef__buf_release(&digest);
    return st;
}

ef_status ef__program_compile(ef_str file, ef_str text, ef__program **out,
                              ef__diagnostics *diagnostics, ef_error *err)
{
    ef__program *program;
    ef_status st = check_text(text, EF_FOLD_LIMIT_SOURCE_BYTES, "program", err);

    *out = NULL;
    ef__diagnostics_init(diagnostics, file);
    if (st != EF_OK)
        return st;
    if (!check_utf8(text, diagnostics))
        return first_error(diagnostics, "program", err);
    program = calloc(1, sizeof *program);
    if (!program)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    program->arena = (ef__arena)EF__ARENA_INIT(EF_FOLD_LIMIT_ARENA_BYTES);
    program->schema = 1;
    program->source = ef__arena_copy(&program->arena, text);
    program->file = ef__arena_copy(&program->arena, ef_str_from(diagnostics->file));
    if (!program->source.ptr || !program->file.ptr)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    else
        st = compile_program(program, diagnostics, err);
    if (st == EF_OK)
        *out = program;
    else
        ef__program_close(program);
    return st;
}

void ef__program_close(ef__program *program)
{
    if (!program)
        return;
    ef__arena_release(&program->arena);
    free(program);
}

static ef_status compile_filter(ef__filter *filter, ef__diagnostics *diagnostics, ef_error *err)
{
    EF__AUTO(ef__arena) scratch = EF__ARENA_INIT(EF_FOLD_LIMIT_ARENA_BYTES);
    ef__parser *p = ef__arena_alloc(&scratch, sizeof *p);
    ef_status st = EF_OK;

    if (p) {
        memset(p, 0, offsetof(ef__parser, names)); /* a query has none, and they are large */
        p->arena = &filter->arena;
        p->diagnostics = diagnostics;
        p->where = EF__MAY_VIEW | EF__IN_QUERY;
        ef__parse_begin(p, filter->source);
        /* A query is one line to people, however it was broken or indented. */
        while (p->token.kind == EF__TOKEN_INDENT)
            ef__parse_advance(p);
        filter->expr = ef__parse_expr(p);
        if (filter->expr && ef__parse_expect_line_end(p))
            while (p->token.kind == EF__TOKEN_DEDENT)
                ef__parse_advance(p);
        if (filter->expr && p->token.kind != EF__TOKEN_END)
            ef__parse_unexpected(p, "the end of the expression", NULL);
        if (filter->expr)
            ef__check_expr(filter->expr, diagnostics);
        ef__diagnostics_sort(diagnostics);
    }
    if (!p || p->no_memory)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    else if (diagnostics->errors > 0)
        st = first_error(diagnostics, "expression", err);
    else if ((filter->node_count = ef__dag_number_expr(filter->expr, &scratch)) < 0)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    return st;
}

ef_status ef__filter_compile(ef_str text, ef__filter **out, ef__diagnostics *diagnostics,
                             ef_error *err)
{
    ef__filter *filter;
    ef_status st = check_text(text, EF_FOLD_LIMIT_FILTER_BYTES, "expression", err);

    *out = NULL;
    ef__diagnostics_init(diagnostics, EF_STR(""));
    if (st != EF_OK)
        return st;
    if (!check_utf8(text, diagnostics))
        return first_error(diagnostics, "expression", err);
    filter = calloc(1, sizeof *filter);
    if (!filter)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    filter->arena = (ef__arena)EF__ARENA_INIT(EF_FOLD_LIMIT_ARENA_BYTES);
    filter->source = ef__arena_copy(&filter->arena, text);
    st = filter->source.ptr ? compile_filter(filter, diagnostics, err)
                            : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    if (st == EF_OK)
        *out = filter;
    else
        ef__filter_close(filter);
    return st;
}

void ef__filter_close(ef__filter *filter)
{
    if (!filter)
        return;
    ef__arena_release(&filter->arena);
    free(filter);
}

ef_str ef__filter_source(const ef__filter *filter)
{
    return filter->source;
}
