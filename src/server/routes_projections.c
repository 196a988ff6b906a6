/*
 * routes_projections.c - projections: deployment, trials, progress, operations on them and on their
 * generations.
 */
#include "request.h"

#include "../base/incoming.h"
#include "../base/same.h"
#include "../shape/operation_table.h"
#include "serves.h"

#include <everfold/generation.h>
#include <everfold/projection.h>
#include <everfold/trial.h>

#define FAILURES_COUNTED 10000

/* Limits a projection to a tenant: its scope and failures. Counts over all tenants become null. */
static ef_status narrow_projection(ef__request *r, ef_projection *p, ef_scope_list *scope,
                                   ef_error *err)
{
    ef_engine *engine = r->server->options.engine;
    ef_failure_list open = {0};
    ef_status st = ef_projection_failures(
        engine,
        &(ef_failure_query){.projection = p->name, .tenant = &r->tenant, .limit = FAILURES_COUNTED},
        &open, err);

    p->lag_events = p->views = p->quarantined = p->blocked_streams = p->blocked_events = -1;
    p->scopes_behind = p->applied = p->ignored = p->skipped = -1;
    p->lag_us = p->blocked_us = p->unaccounted = p->failures = 0;
    p->digest[0] = '\0';
    p->scopes = NULL;
    p->scope_count = 0;
    for (size_t i = 0; st == EF_OK && i < open.count; i++)
        p->failures += open.items[i].generation == p->generation;
    EF_RELEASE(&open);
    if (st == EF_OK && p->active)
        st = ef_projection_scope(engine, p->name, r->tenant, scope, err);
    if (st == EF_OK && p->active) {
        p->position = p->reached = scope->items[0].position;
        p->lag_events = scope->items[0].pending;
        p->scopes = scope->items;
        p->scope_count = 1;
    }
    return st;
}

/* Writes the members; the object stays open. */
static void begin_projection(ef__json_writer *w, const ef_projection *p, bool program)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_projection, p);
    ef__shape_members(w, &ef__shape_projection_more, p);
    ef__json_key(w, "scopes");
    ef__shape_write_array(w, &ef__shape_scope, NULL, p->scopes, p->scope_count);
    if (program)
        ef__json_member_str(w, "program", p->program);
}

/* Writes one generation as the tenant of the request may see it; the object stays open. */
static ef_status begin_visible(ef__request *r, ef__json_writer *w, const ef_projection *p,
                               bool program, ef_error *err)
{
    ef_projection visible = *p;
    EF__AUTO(ef_scope_list) scope = {0};
    ef_status st = r->any_tenant ? EF_OK : narrow_projection(r, &visible, &scope, err);

    if (st == EF_OK)
        begin_projection(w, &visible, program);
    return st;
}

static ef_status write_projections(ef__request *r, ef__json_writer *w,
                                   const ef_projection_list *list, bool programs, ef_error *err)
{
    ef_status st = EF_OK;

    ef__json_open(w, '[');
    for (size_t i = 0; st == EF_OK && i < list->count; i++) {
        st = begin_visible(r, w, &list->items[i], programs && i > 0, err);
        ef__json_close(w, '}');
    }
    ef__json_close(w, ']');
    return st;
}

static ef_status list_projections(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_projection_list) found = {0};
    ef_status st = ef_projection_ls(ef__request_engine(r), EF_STR(""), &found, err);

    if (st == EF_OK)
        st = write_projections(r, &w, &found, false, err);
    return st;
}

ef_status ef__answer_projection(ef__request *r, ef_status st, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_projection_list) found = {0};

    if (st == EF_OK)
        st = ef_projection_ls(ef__request_engine(r), r->parts[0], &found, err);
    if (st == EF_OK)
        st = begin_visible(r, &w, &found.items[0], true, err);
    if (st == EF_OK) {
        ef__json_key(&w, "generations");
        st = write_projections(r, &w, &found, true, err);
        ef__json_close(&w, '}');
    }
    return st;
}

static ef_status show_projection(ef__request *r, ef_error *err)
{
    return ef__answer_projection(r, EF_OK, err);
}

/* "stop" or "skip"; EF_ON_ERROR_STOP for "". */
static ef_status parse_on_error(ef_str word, ef_on_error *out, ef_error *err)
{
    *out = ef_str_equal(word, EF_STR("skip")) ? EF_ON_ERROR_SKIP : EF_ON_ERROR_STOP;
    if (word.len == 0 || *out == EF_ON_ERROR_SKIP || ef_str_equal(word, EF_STR("stop")))
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT, "on_error is '%.*s'; it is stop or skip", EF_STR_ARG(word));
}

/* Checks that the text is a program of the projection that the path names. */
static ef_status check_program(const ef__request *r, ef_str text, ef_error *err)
{
    char name[256];
    ef_status st = ef_program_name(text, name, sizeof(name), err);

    if (st == EF_OK && !ef_str_equal(ef_str_from(name), r->parts[0]))
        st = ef_fail(err, EF_BAD_INPUT, "the program is of projection '%s', the path says '%.*s'",
                     name, EF_STR_ARG(r->parts[0]));
    return st;
}

/* Answers with the problem and the diagnostics of the program. */
static ef_status answer_mistakes(ef__request *r, ef_str text, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_text) report = {0};

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
    r->status = ef_status_describe(EF_BAD_INPUT)->http;
    r->type = "application/problem+json";
    return EF_OK;
}

static ef_status deploy_program(ef__request *r, const ef_deploy *deploy, ef_error *err)
{
    EF__AUTO(ef_projection_list) deployed = {0};
    EF__AUTO(ef_text) report = {0};
    ef_status st = check_program(r, deploy->text, err);

    if (st == EF_OK)
        st = ef_projection_deploy(ef__request_engine(r), deploy, &deployed, &report, err);
    return st;
}

static ef_status deploy_projection(ef__request *r, void *request, ef_error *err)
{
    ef__deploy_request *asked = request;
    ef_deploy *deploy = &asked->deploy;
    ef_on_error on_error;
    ef_status st = parse_on_error(asked->on_error, &on_error, err);

    if (st != EF_OK)
        return st;
    deploy->file_name = "program";
    st = deploy_program(r, deploy, err);
    if (st == EF_BAD_INPUT)
        return answer_mistakes(r, deploy->text, err);
    if (st == EF_OK && asked->on_error.len > 0)
        st = ef_projection_on_error(ef__request_engine(r), asked->name, on_error, deploy->actor,
                                    deploy->reason, err);
    return ef__answer_projection(r, st, err);
}

/* --- actions ---------------------------------------------------------------------------------- */

static ef_status verify_projection(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    ef_rebuild verify = {
        .projection = asked->name, .verify = true, .actor = asked->actor, .reason = asked->reason};

    return ef__serve_rebuild_projection(r, &verify, err);
}

static ef_status rollback_projection(ef__request *r, void *request, ef_error *err)
{
    ef_generation_choice *previous = request;

    previous->previous = true;
    return ef__serve_switch_projection(r, previous, err);
}

/* --- failures and progress -------------------------------------------------------------------- */

static ef_status list_failures(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    ef_failure_query query = {.projection = asked->name,
                              .tenant = r->any_tenant ? NULL : &r->tenant,
                              .resolved = asked->flag,
                              .limit = (size_t)asked->limit};

    return EF__ANSWER(r, ef_failure_list, found,
                      ef_projection_failures(ef__request_engine(r), &query, &found, err));
}

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
    EF__AUTO(ef_projection_list) found = {0};
    EF__AUTO(ef_text) report = {0};
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
    return st;
}

/* --- one event -------------------------------------------------------------------------------- */

static void write_trial(ef__json_writer *w, const ef_trial *trial)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_trial, trial);
    ef__json_key(w, "views");
    ef__shape_write_array(w, &ef__shape_trial_view, NULL, trial->views, trial->view_count);
    ef__json_close(w, '}');
}

static ef_status try_event(ef__request *r, void *request, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_trial) trial = {0};
    ef_status st = ef_projection_try(ef__request_engine(r), request, &trial, err);

    if (st == EF_OK)
        write_trial(&w, &trial);
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
    ef__draft_request *asked = request;
    ef_draft *draft = &asked->draft;
    ef__json_writer w = ef__request_writer(r);
    ef_draft_result counts = {0};
    ef_status st = check_program(r, draft->text, err);

    draft->file_name = "program";
    draft->tenant = asked->any_tenant ? NULL : &asked->tenant;
    ef__json_open(&w, '{');
    ef__json_member_open(&w, "rows", '[');
    if (st == EF_OK)
        st = ef_projection_try_draft(ef__request_engine(r), draft, write_draft_row, &w, &counts,
                                     NULL, err);
    ef__json_close(&w, ']');
    ef__shape_members(&w, &ef__shape_draft_result, &counts);
    ef__json_close(&w, '}');
    if (st == EF_BAD_INPUT) {
        ef__buf_reset(&r->out);
        return answer_mistakes(r, draft->text, err);
    }
    return st;
}

/* --- diff ------------------------------------------------------------------------------------- */

typedef struct difference_writer {
    ef__json_writer writer;
    int64_t limit, count;
} difference_writer;

static bool write_difference(void *context, const ef_difference *d)
{
    difference_writer *list = context;

    if (list->count++ >= list->limit)
        return true; /* counted, but not listed */
    ef__shape_write(&list->writer, &ef__shape_difference, d);
    return true;
}

static ef_status diff_generations(ef__request *r, void *request, ef_error *err)
{
    ef__diff_request *asked = request;
    difference_writer list = {.writer = ef__request_writer(r), .limit = asked->limit};
    ef_diff counts = {0};
    ef_status st;

    asked->right.projection = asked->left.projection;
    ef__json_open(&list.writer, '{');
    ef__json_member_open(&list.writer, "differences", '[');
    st = ef_projection_diff(ef__request_engine(r), &asked->left, &asked->right, write_difference,
                            &list, &counts, err);
    ef__json_close(&list.writer, ']');
    ef__shape_members(&list.writer, &ef__shape_diff, &counts);
    ef__json_close(&list.writer, '}');
    return st;
}

/* --- seed ------------------------------------------------------------------------------------- */

/* The body is a view a line, as `view export` writes them. */
typedef struct seed_reader {
    ef_str rest;
    int64_t line;
    ef__arena arena;
} seed_reader;

static ef_status next_view(void *context, ef_seed_view *out, bool *out_more, ef_error *err)
{
    seed_reader *s = context;
    ef__json *line = NULL;
    ef_str text = {NULL, 0};
    ef_status st;

    while (text.len == 0 && ef__line_next(&s->rest, &text))
        s->line++;
    *out_more = text.len > 0;
    if (text.len == 0)
        return EF_OK;
    ef__arena_reset(&s->arena);
    st = ef__json_parse_envelope(text, text.len, &s->arena, &line, err);
    return st == EF_OK ? ef__seed_view_read(line, s->line, out, err) : st;
}

static ef_status seed_generation(ef__request *r, void *request, ef_error *err)
{
    const ef__seed_request *asked = request;
    seed_reader reader = {.rest = asked->views, .arena = EF__ARENA_INIT(EF__ANSWER_BYTES_MAX)};
    ef_seed seed = {.projection = asked->name,
                    .position = asked->position,
                    .next = next_view,
                    .context = &reader,
                    .actor = asked->actor,
                    .reason = asked->reason};
    ef_status st;

    if (asked->position < 0)
        return ef_fail(err, EF_BAD_INPUT, "position is missing: the views are as of then");
    st = EF__ANSWER(r, ef_run_list, runs,
                    ef_projection_seed(ef__request_engine(r), &seed, &runs, err));
    ef__arena_release(&reader.arena);
    return st;
}

const ef__http_route ef__routes_projections[] = {
    EF__SERVED(pause_projection),
    EF__SERVED(resume_projection),
    EF__SERVED(rebuild_projection),
    EF__SERVE(verify_projection, verify_projection),
    EF__SERVED(switch_projection),
    EF__SERVE(rollback_projection, rollback_projection),
    EF__SERVED(show_scope),
    EF__SERVE(list_failures, list_failures),
    EF__RUN(show_projection, show_projection),
    EF__SERVE(deploy_projection, deploy_projection),
    EF__RUN(list_projections, list_projections),
    EF__SERVED(retire_projection),
    EF__SERVE(seed_projection, seed_generation),
    EF__SERVE(diff_projection, diff_generations),
    EF__SERVE_OPERATION(
        explain_projection, GET, "/v1/projections/{name}/explain", READS(NONE), "explainProjection",
        "the program as a graph",
        REQUEST(explain_request, TEXT(explain_request, name, "name", PATH),
                INT(explain_request, generation, "generation", QUERY, 1, INT32_MAX)),
        ANSWER("Explained")),
    EF__SERVE_OPERATION(
        try_event, POST, "/v1/projections/{name}:try", READS_BODY(QUERY), "tryEvent",
        "fold an event without effect: what it would change",
        REQUEST(ef_trial_ask, TEXT(ef_trial_ask, projection, "name", PATH),
                TENANT(ef_trial_ask, tenant),
                TEXT(ef_trial_ask, stream, "stream", MEMBER, .required = true),
                INT(ef_trial_ask, seq, "seq", MEMBER, 1, INT64_MAX, .required = true),
                INT(ef_trial_ask, generation, "generation", MEMBER, 1, INT32_MAX)),
        ANSWER("Trial")),
    EF__SERVE(try_draft, try_draft),
    {0},
};
