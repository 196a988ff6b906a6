/*
 * routes_trial.c - a projection looked into: its program as a graph, and an event tried aside.
 */
#include "request.h"

#include <everfold/projection.h>
#include <everfold/trial.h>

/* --- the program --------------------------------------------------------------------------------
 */

static const ef_projection *generation_of(const ef_projection_list *list, int64_t number)
{
    for (size_t i = 0; i < list->count; i++)
        if (number == 0 || list->items[i].generation == number)
            return &list->items[i];
    return NULL;
}

/* Of the generation that queries go to, unless another is asked for. */
static ef_status explain(ef__request *r, ef_error *err)
{
    ef_projection_list found = {0};
    ef_text report = {0};
    const ef_projection *p = NULL;
    int64_t number = 0;
    ef_status st = ef__request_int(r, "generation", 1, INT32_MAX, &number, err);

    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_projection_ls(r->server->options.engine, r->parts[0], &found, err);
    if (st == EF_OK && !(p = generation_of(&found, number)))
        st = ef_fail(err, EF_NOT_FOUND, "projection '%.*s' has no generation %lld",
                     EF_STR_ARG(r->parts[0]), (long long)number);
    if (st == EF_OK && p->program.len == 0)
        st = ef_fail(err, EF_NOT_FOUND, "projection '%.*s' is written in C: there is no program",
                     EF_STR_ARG(r->parts[0]));
    if (st == EF_OK)
        st = ef_program_explain("program", p->program, EF_TEXT_JSON, &report, err);
    if (st == EF_OK)
        ef__buf_add(&r->out, report.ptr, report.len);
    ef_text_release(&report);
    ef_projection_list_release(&found);
    return st;
}

/* --- an event tried aside -----------------------------------------------------------------------
 */

static void write_json(ef__json_writer *w, const char *key, ef_str json)
{
    ef__json_key(w, key);
    if (json.ptr)
        ef__json_raw(w, json);
    else
        ef__json_null(w);
}

static void write_trial(ef__json_writer *w, const ef_trial *trial)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_trial, trial);
    ef__json_key(w, "views");
    ef__json_open(w, '[');
    for (size_t i = 0; i < trial->view_count; i++) {
        ef__json_open(w, '{');
        ef__json_key(w, "view_id");
        ef__json_str(w, trial->views[i].view_id);
        write_json(w, "before", trial->views[i].before);
        write_json(w, "after", trial->views[i].after);
        ef__json_close(w, '}');
    }
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static ef_status try_event(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    const ef__json *body = NULL;
    ef_trial trial = {0};
    int64_t generation = 0;
    ef_trial_ask ask = {.projection = r->parts[0], .tenant = r->tenant};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef__request_object(r, &body, err);
    if (st == EF_OK)
        st = ef__members_only(body, "stream,seq,generation", err);
    if (st == EF_OK)
        st = ef__member_text(body, "stream", true, &ask.stream, err);
    if (st == EF_OK)
        st = ef__member_int(body, "seq", true, 1, INT64_MAX, &ask.seq, err);
    if (st == EF_OK)
        st = ef__member_int(body, "generation", false, 1, INT32_MAX, &generation, err);
    ask.generation = (int32_t)generation;
    if (st == EF_OK)
        st = ef_projection_try(r->server->options.engine, &ask, &trial, err);
    if (st == EF_OK)
        write_trial(&w, &trial);
    ef_trial_release(&trial);
    return st;
}

/* --- a draft against the events that failed -----------------------------------------------------
 */

static bool write_row(void *context, const ef_draft_row *row)
{
    ef__shape_write(context, &ef__shape_draft_row, row);
    return true;
}

static ef_status try_draft(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_str text = ef__buf_str(&r->body);
    ef_draft_result counts = {0};
    int64_t limit = 0;
    ef_status st = ef__request_int(r, "limit", 1, EF_DRAFT_ROWS_MAX, &limit, err);

    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st != EF_OK)
        return st;
    st = ef__request_program(r, text, err);
    ef__json_open(&w, '{');
    ef__json_key(&w, "rows");
    ef__json_open(&w, '[');
    if (st == EF_OK)
        st = ef_projection_try_draft(r->server->options.engine,
                                     &(ef_draft){.file_name = "program",
                                                 .text = text,
                                                 .tenant = r->any_tenant ? NULL : &r->tenant,
                                                 .limit = (size_t)limit},
                                     write_row, &w, &counts, NULL, err);
    ef__json_close(&w, ']');
    ef__shape_members(&w, &ef__shape_draft_result, &counts);
    ef__json_close(&w, '}');
    if (st == EF_BAD_INPUT) {
        ef__buf_reset(&r->out);
        return ef__request_mistakes(r, text, err);
    }
    return st;
}

const ef__http_route ef__routes_trial[] = {
    {"GET", "/v1/projections/{name}/explain", EF__SCOPE_READ, EF__TENANCY_NONE, 0, explain,
     "explainProjection", "the program as a graph", "generation:integer", NULL, "Explained", 0},
    {"POST", "/v1/projections/{name}:try", EF__SCOPE_READ, EF__TENANCY_QUERY, EF__ROUTE_BODY,
     try_event, "tryEvent", "dry run of an event: what it would change", NULL, "Try", "Trial", 0},
    {"POST", "/v1/projections/{name}:try-draft", EF__SCOPE_OPERATE, EF__TENANCY_QUERY,
     EF__ROUTE_BODY, try_draft, "tryDraft",
     "fold a program (text) over the streams with failed events, in memory", "limit:integer",
     "Program", "Drafted", 0},
    {0},
};
