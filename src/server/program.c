/*
 * program.c - requests whose body is the text of a program.
 */
#include "request.h"

#include <everfold/fold.h>

ef_status ef__request_program(ef__request *r, ef_str text, ef_error *err)
{
    char name[256];
    ef_status st = ef_program_name(text, name, sizeof(name), err);

    if (st == EF_OK && !ef_str_equal(ef_str_from(name), r->parts[0]))
        st = ef_fail(err, EF_BAD_INPUT, "the program is of projection '%s', the path says '%.*s'",
                     name, EF_STR_ARG(r->parts[0]));
    return st;
}

ef_status ef__request_mistakes(ef__request *r, ef_str text, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_text report = {0};

    err->status = EF_BAD_INPUT;
    (void)ef_program_check("program", text, EF_TEXT_JSON, &report, NULL);
    ef__buf_reset(&r->out);
    ef__problem_write(&w, err, NULL);
    if (report.len > 0 && !r->out.failed && r->out.len > 0) {
        r->out.len--; /* the closing bracket: one more member */
        ef__buf_add_text(&r->out, ",\"mistakes\":");
        ef__buf_add(&r->out, report.ptr, report.len);
        ef__buf_add_char(&r->out, '}');
    }
    r->status = ef_status_http(EF_BAD_INPUT);
    r->type = "application/problem+json";
    ef_text_release(&report);
    return EF_OK;
}
