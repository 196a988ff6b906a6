/*
 * program.c - checks and explains programs for their authors; projections written in C: the
 * functions that this process has registered, and their programs.
 */
#include "engine_priv.h"

#include "../fold/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define REPORT_BYTES_MAX (16u << 20)
#define HEAD_BYTES_MAX 65536
#define MARK "c " /* distinguishes the text from a program in the fold language */

ef_status ef__text_own(ef__buf *buf, ef_text *out, ef_error *err)
{
    ef_status st = buf->failed ? EF_NO_MEMORY : ef__memory_prepare(&out->room, NULL);
    ef_str text = st == EF_OK ? ef__arena_copy(&out->room->arena, ef__buf_str(buf)) : (ef_str){0};

    ef__buf_release(buf);
    *out = (ef_text){text.ptr, text.len, out->room};
    return text.ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out while writing a report");
}

static ef_status write_report(const ef__diagnostics *diagnostics, ef_str text, ef_text_form form,
                              ef_text *out, ef_error *err)
{
    ef__buf buf = EF__BUF_INIT(REPORT_BYTES_MAX);
    ef__json_writer writer = EF__JSON_WRITER(&buf);

    if (form == EF_TEXT_JSON)
        ef__diagnostics_json(diagnostics, &writer);
    else
        (void)ef__diagnostics_render(diagnostics, text, &buf);
    return ef__text_own(&buf, out, err);
}

/* Compiles; reports if `reports` is true or there are errors, unless `out_report` is NULL. */
static ef_status compile_and_report(ef_str file, ef_str text, ef_text_form form, bool reports,
                                    ef__program **out, ef_text *out_report, ef_error *err)
{
    ef__diagnostics *diagnostics = malloc(sizeof *diagnostics);
    ef_error scratch = EF_ERROR_INIT;
    ef_status st, reported = EF_OK;

    *out = NULL;
    if (out_report)
        *out_report = (ef_text){.room = out_report->room};
    if (!diagnostics)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while compiling a program");
    st = ef__program_compile(file, text, out, diagnostics, err);
    if (out_report && (reports || st != EF_OK))
        reported = write_report(diagnostics, text, form, out_report, &scratch);
    if (st == EF_OK && reported != EF_OK && err)
        *err = scratch;
    free(diagnostics);
    return st != EF_OK ? st : reported;
}

ef_status ef__program_compile_reported(ef_str file, ef_str text, ef__program **out,
                                       ef_text *out_report, ef_error *err)
{
    return compile_and_report(file, text, EF_TEXT_PLAIN, true, out, out_report, err);
}

ef_status ef_program_check(const char *file_name, ef_str text, ef_text_form form,
                           ef_text *out_report, ef_error *err)
{
    ef__program *program;
    ef_status st;

    if (!out_report)
        return ef_fail(err, EF_BAD_INPUT, "out_report is NULL");
    st = compile_and_report(ef_str_from(file_name), text, form, true, &program, out_report, err);
    ef__program_close(program);
    return st;
}

ef_status ef_program_explain(const char *file_name, ef_str text, ef_text_form form,
                             ef_text *out_report, ef_error *err)
{
    static const ef__explain_as as[] = {EF__EXPLAIN_TEXT, EF__EXPLAIN_JSON, EF__EXPLAIN_DOT};
    EF__AUTO(ef__buf) buf = EF__BUF_INIT(REPORT_BYTES_MAX);
    ef__program *program;
    ef_status st;

    if (!out_report)
        return ef_fail(err, EF_BAD_INPUT, "out_report is NULL");
    st =
        compile_and_report(ef_str_from(file_name), text, form == EF_TEXT_DOT ? EF_TEXT_PLAIN : form,
                           false, &program, out_report, err);
    if (st == EF_OK)
        st = ef__program_explain(program, as[form], &buf, err);
    if (st == EF_OK)
        st = ef__text_own(&buf, out_report, err);
    ef__program_close(program);
    return st;
}

ef_status ef_program_name(ef_str text, char *out, size_t size, ef_error *err)
{
    ef__program *program;
    ef_status st;

    if (!out)
        return ef_fail(err, EF_BAD_INPUT, "out is NULL");
    st = ef__program_compile_reported(EF_STR("program"), text, &program, NULL, err);
    if (st == EF_OK)
        (void)snprintf(out, size, "%.*s", EF_STR_ARG(ef__program_name(program)));
    ef__program_close(program);
    return st;
}

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while registering a projection");
}

/* --- registered functions --------------------------------------------------------------------- */

bool ef__generation_in_c(const ef__generation *generation)
{
    static const char begin[] = MARK "projection ";

    return generation->program.len >= sizeof begin - 1 &&
           memcmp(generation->program.ptr, begin, sizeof begin - 1) == 0;
}

static ef__c_function *find_function(const ef_engine *engine, ef_str name, int32_t version)
{
    for (ef__c_function *function = engine->functions; function; function = function->next)
        if (function->projection.version == version &&
            ef_str_equal(function->projection.name, name))
            return function;
    return NULL;
}

bool ef__c_function_missing(ef_engine *engine, const ef__generation *generation)
{
    if (!ef__generation_in_c(generation))
        return false;
    EF__LOCK(&engine->lock);
    return !find_function(engine, generation->name, generation->version);
}

void ef__c_functions_release(ef__c_function *function)
{
    while (function) {
        ef__c_function *next = function->next;
        free(function->name);
        free(function);
        function = next;
    }
}

/* --- programs of C projections ---------------------------------------------------------------- */

/* A head alone is not a program. The added handler is never run; it writes any field, so that any
 * field may be indexed. */
static ef_status compile_head(ef_str head, ef__program **out, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(HEAD_BYTES_MAX + 64);
    ef_status st;

    (void)ef__buf_add_str(&text, (ef_str){head.ptr + strlen(MARK), head.len - strlen(MARK)});
    (void)ef__buf_add_text(&text, "\non *\n  view = data\n");
    st = text.failed ? no_memory(err)
                     : ef__program_compile_reported(EF_STR("C projection"), ef__buf_str(&text), out,
                                                    NULL, err);
    return st;
}

ef_status ef__c_function_compile(ef_engine *engine, const ef__generation *generation,
                                 ef__program **out, ef_error *err)
{
    const ef__c_function *function = find_function(engine, generation->name, generation->version);
    ef_status st;

    if (!function)
        return ef_fail(err, EF_UNSUPPORTED,
                       "projection \"%.*s\" version %d is written in C, and its function is not "
                       "registered in this process",
                       EF_STR_ARG(generation->name), (int)generation->version);
    st = compile_head(generation->program, out, err);
    if (st == EF_OK)
        ef__program_use_function(*out, function->projection.fn, function->projection.context);
    return st;
}

/* --- registering ------------------------------------------------------------------------------ */

static ef_status write_head(const ef_c_projection *projection, ef__buf *out, ef_error *err)
{
    ef__buf_printf(out, MARK "projection %.*s version %" PRId32 "\n  order by log\n",
                   EF_STR_ARG(projection->name), projection->version);
    if (projection->indexes.len)
        ef__buf_printf(out, "  index %.*s\n", EF_STR_ARG(projection->indexes));
    return out->failed ? no_memory(err) : EF_OK;
}

/* A line break in a name or an index could smuggle a second head into the text. */
static ef_status check_projection(const ef_c_projection *projection, ef_error *err)
{
    if (!projection->fn)
        return ef_fail(err, EF_BAD_INPUT, "fn is NULL");
    if (projection->version < 1)
        return ef_fail(err, EF_BAD_INPUT, "version is %" PRId32 ", at least 1 is needed",
                       projection->version);
    if ((projection->name.len && memchr(projection->name.ptr, '\n', projection->name.len)) ||
        (projection->indexes.len && memchr(projection->indexes.ptr, '\n', projection->indexes.len)))
        return ef_fail(err, EF_BAD_INPUT, "a name or index of a projection has a line break");
    return EF_OK;
}

static ef_status add_function(ef_engine *engine, const ef_c_projection *projection, ef_error *err)
{
    ef__c_function *function;
    EF__LOCK(&engine->lock);

    function = find_function(engine, projection->name, projection->version);
    if (function && function->projection.fn == projection->fn &&
        function->projection.context == projection->context)
        return EF_OK;
    if (function)
        return ef_fail(err, EF_CONFLICT,
                       "projection \"%.*s\" version %" PRId32 " has another function already",
                       EF_STR_ARG(projection->name), projection->version);
    function = calloc(1, sizeof *function);
    if (function)
        function->name = strndup(projection->name.ptr, projection->name.len);
    if (!function || !function->name) {
        free(function);
        return no_memory(err);
    }
    function->projection = *projection;
    function->projection.name = (ef_str){function->name, projection->name.len};
    function->projection.indexes = (ef_str){0};
    function->next = engine->functions;
    engine->functions = function;
    return EF_OK;
}

ef_status ef_engine_register(ef_engine *engine, const ef_c_projection *projection, ef_error *err)
{
    EF__AUTO(ef__buf) head = EF__BUF_INIT(HEAD_BYTES_MAX);
    ef__program *program = NULL;
    ef_status st;

    if (!engine || !projection)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "projection" : "engine");
    st = check_projection(projection, err);
    if (st == EF_OK)
        st = write_head(projection, &head, err);
    if (st == EF_OK)
        st = compile_head(ef__buf_str(&head), &program, err);
    if (st == EF_OK && !engine->options.read_only)
        st = ef__deploy_program(engine, program, ef__buf_str(&head), err);
    if (st == EF_OK)
        st = add_function(engine, projection, err);
    ef__program_close(program);
    return st;
}
