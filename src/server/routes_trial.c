/*
 * routes_trial.c - programs explained, and events folded without effect.
 */
#include "request.h"

#include "../shape/operation_table.h"

#include <everfold/projection.h>
#include <everfold/trial.h>

/* --- the program ------------------------------------------------------------------------------ */

static const ef_projection *generation_of(const ef_projection_list *list, int64_t number)
{
    for (size_t i = 0; i < list->count; i++)
        if (number == 0 || list->items[i].generation == number)
            return &list->items[i];
    return NULL;
}

typedef struct explain_request {
    ef_str name;
    int64_t generation; /* 0: the active one */
} explain_request;

static ef_status explain_projection(ef__request *r, void *request, ef_error *err)
{
    const explain_request *asked = request;
    ef_projection_list found = {0};
    ef_text report = {0};
    const ef_projection *p = NULL;
    ef_status st = ef_projection_ls(ef__request_engine(r), asked->name, &found, err);

    if (st == EF_OK && !(p = generation_of(&found, asked->generation)))
        st = ef_fail(err, EF_NOT_FOUND, "projection '%.*s' has no generation %lld",
                     EF_STR_ARG(asked->name), (long long)asked->generation);
    if (st == EF_OK && p->program.len == 0)
        st = ef_fail(err, EF_NOT_FOUND, "projection '%.*s' is written in C: there is no program",
                     EF_STR_ARG(asked->name));
    if (st == EF_OK)
        st = ef_program_explain("program", p->program, EF_TEXT_JSON, &report, err);
    if (st == EF_OK)
        ef__buf_add(&r->out, report.ptr, report.len);
    ef_text_release(&report);
    ef_projection_list_release(&found);
    return st;
}

/* --- one event -------------------------------------------------------------------------------- */

static void write_trial(ef__json_writer *w, const ef_trial *trial)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_trial, trial);
    ef__json_member_open(w, "views", '[');
    for (size_t i = 0; i < trial->view_count; i++) {
        ef__json_open(w, '{');
        ef__json_member_str(w, "view_id", trial->views[i].view_id);
        ef__json_member_raw(w, "before", trial->views[i].before);
        ef__json_member_raw(w, "after", trial->views[i].after);
        ef__json_close(w, '}');
    }
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static ef_status try_event(ef__request *r, void *request, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_trial trial = {0};
    ef_status st = ef_projection_try(ef__request_engine(r), request, &trial, err);

    if (st == EF_OK)
        write_trial(&w, &trial);
    ef_trial_release(&trial);
    return st;
}

/* --- a draft of a program --------------------------------------------------------------------- */

static bool write_draft_row(void *context, const ef_draft_row *row)
{
    ef__shape_write(context, &ef__shape_draft_row, row);
    return true;
}

static ef_status try_draft(ef__request *r, void *request, ef_error *err)
{
    const ef__draft_request *asked = request;
    ef__json_writer w = ef__request_writer(r);
    ef_draft_result counts = {0};
    ef_status st = ef__request_program(r, asked->text, err);

    ef__json_open(&w, '{');
    ef__json_member_open(&w, "rows", '[');
    if (st == EF_OK)
        st =
            ef_projection_try_draft(ef__request_engine(r),
                                    &(ef_draft){.file_name = "program",
                                                .text = asked->text,
                                                .tenant = asked->any_tenant ? NULL : &asked->tenant,
                                                .limit = asked->limit},
                                    write_draft_row, &w, &counts, NULL, err);
    ef__json_close(&w, ']');
    ef__shape_members(&w, &ef__shape_draft_result, &counts);
    ef__json_close(&w, '}');
    if (st == EF_BAD_INPUT) {
        ef__buf_reset(&r->out);
        return ef__request_mistakes(r, asked->text, err);
    }
    return st;
}

static const ef__input explain_inputs[] = {
    TEXT(explain_request, name, "name", PATH),
    INT(explain_request, generation, "generation", QUERY, 1, INT32_MAX),
    END,
};

static const ef__input try_inputs[] = {
    TEXT(ef_trial_ask, projection, "name", PATH),
    TENANT(ef_trial_ask, tenant),
    TEXT(ef_trial_ask, stream, "stream", MEMBER, .required = true),
    INT(ef_trial_ask, seq, "seq", MEMBER, 1, INT64_MAX, .required = true),
    INT(ef_trial_ask, generation, "generation", MEMBER, 1, INT32_MAX),
    END,
};

const ef__http_route ef__routes_trial[] = {
    EF__SERVE_OPERATION(explain_projection, GET, "/v1/projections/{name}/explain", READS(NONE),
                        "explainProjection", "the program as a graph",
                        REQUEST(explain_inputs, explain_request), ANSWER("Explained")),
    EF__SERVE_OPERATION(try_event, POST, "/v1/projections/{name}:try", READS_BODY(QUERY),
                        "tryEvent", "fold an event without effect: what it would change",
                        REQUEST(try_inputs, ef_trial_ask), ANSWER("Trial")),
    EF__SERVE(try_draft, try_draft),
    {0},
};
