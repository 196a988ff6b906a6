/*
 * program.c - checks and explains programs for their authors.
 */
#include "engine_priv.h"

#include <stdio.h>
#include <stdlib.h>

#define REPORT_BYTES_MAX (16u << 20)

void ef_text_release(ef_text *text)
{
    if (!text)
        return;
    free(text->ptr);
    *text = (ef_text){0};
}

/* Moves the buffer's memory to the text. */
static ef_status move_text(ef__buf *buf, ef_text *out, ef_error *err)
{
    if (buf->failed || (!buf->ptr && !ef__buf_add(buf, "", 0) && !buf->ptr)) {
        ef__buf_release(buf);
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while writing a report");
    }
    *out = (ef_text){buf->ptr, buf->len};
    return EF_OK;
}

static ef_status compile_program(const char *file_name, ef_str text, ef__program **out,
                                 ef__diagnostics *diagnostics, ef_error *err)
{
    return ef__program_compile(ef_str_from(file_name), text, out, diagnostics, err);
}

static ef_status write_report(const ef__diagnostics *diagnostics, ef_str text, ef_text_form form,
                              ef_text *out, ef_error *err)
{
    ef__buf buf = EF__BUF_INIT(REPORT_BYTES_MAX);

    (void)ef__buf_reserve(&buf, 1);
    if (form == EF_TEXT_JSON) {
        ef__json_writer writer = EF__JSON_WRITER(&buf);
        ef__diagnostics_json(diagnostics, &writer);
    } else {
        (void)ef__diagnostics_render(diagnostics, text, &buf);
    }
    (void)ef__buf_add(&buf, "", 0);
    return move_text(&buf, out, err);
}

ef_status ef_program_check(const char *file_name, ef_str text, ef_text_form form,
                           ef_text *out_report, ef_error *err)
{
    ef__diagnostics *diagnostics = malloc(sizeof *diagnostics);
    ef__program *program = NULL;
    ef_error scratch = EF_ERROR_INIT;
    ef_status st, reported;

    if (!out_report || !diagnostics) {
        free(diagnostics);
        return ef_fail(err, out_report ? EF_NO_MEMORY : EF_BAD_INPUT, "out_report is NULL");
    }
    *out_report = (ef_text){0};
    ef__diagnostics_init(diagnostics, ef_str_from(file_name));
    st = compile_program(file_name, text, &program, diagnostics, err);
    reported = write_report(diagnostics, text, form, out_report, &scratch);
    if (st == EF_OK && reported != EF_OK && err)
        *err = scratch;
    ef__program_close(program);
    free(diagnostics);
    return st != EF_OK ? st : reported;
}

ef_status ef_program_explain(const char *file_name, ef_str text, ef_text_form form,
                             ef_text *out_report, ef_error *err)
{
    static const ef__explain_as as[] = {EF__EXPLAIN_TEXT, EF__EXPLAIN_JSON, EF__EXPLAIN_DOT};
    ef__diagnostics *diagnostics = malloc(sizeof *diagnostics);
    ef__buf buf = EF__BUF_INIT(REPORT_BYTES_MAX);
    ef__program *program = NULL;
    ef_status st;

    if (!out_report || !diagnostics) {
        free(diagnostics);
        return ef_fail(err, out_report ? EF_NO_MEMORY : EF_BAD_INPUT, "out_report is NULL");
    }
    *out_report = (ef_text){0};
    ef__diagnostics_init(diagnostics, ef_str_from(file_name));
    st = compile_program(file_name, text, &program, diagnostics, err);
    if (st != EF_OK)
        (void)write_report(diagnostics, text, form == EF_TEXT_DOT ? EF_TEXT_PLAIN : form,
                           out_report, NULL);
    else
        st = ef__program_explain(program, as[form], &buf, err);
    if (st == EF_OK)
        st = move_text(&buf, out_report, err);
    else
        ef__buf_release(&buf);
    ef__program_close(program);
    free(diagnostics);
    return st;
}

ef_status ef_program_name(ef_str text, char *out, size_t size, ef_error *err)
{
    ef__diagnostics *diagnostics = malloc(sizeof *diagnostics);
    ef__program *program = NULL;
    ef_status st;

    if (!out || !diagnostics) {
        free(diagnostics);
        return out ? ef_fail(err, EF_NO_MEMORY, "memory ran out")
                   : ef_fail(err, EF_BAD_INPUT, "out is NULL");
    }
    st = compile_program("program", text, &program, diagnostics, err);
    if (st == EF_OK)
        (void)snprintf(out, size, "%.*s", EF_STR_ARG(ef__program_name(program)));
    ef__program_close(program);
    free(diagnostics);
    return st;
}
