/*
 * routes_projections.c - projections: deployment, progress and operations on them.
 */
#include "request.h"

#include <everfold/generation.h>
#include <everfold/projection.h>

#define FAILURES_COUNTED 10000

/* Limits a projection to one tenant: its scope and failures. Counts over all tenants become null.
 */
static ef_status narrow_projection(ef__request *r, ef_projection *p, ef_scope_list *scope,
                                   ef_error *err)
{
    ef_engine *engine = r->server->options.engine;
    ef_failure_list open = {0};
    ef_status st =
        ef_projection_failures_of(engine, p->name, &r->tenant, false, FAILURES_COUNTED, &open, err);

    p->lag_events = p->views = p->quarantined = p->blocked_streams = p->blocked_events = -1;
    p->scopes_behind = p->applied = p->ignored = p->skipped = -1;
    p->lag_us = p->blocked_us = p->unaccounted = p->failures = 0;
    p->digest[0] = '\0';
    p->scopes = NULL;
    p->scope_count = 0;
    for (size_t i = 0; st == EF_OK && i < open.count; i++)
        p->failures += open.items[i].generation == p->generation;
    ef_failure_list_release(&open);
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
    ef_scope_list scope = {0};
    ef_status st = r->any_tenant ? EF_OK : narrow_projection(r, &visible, &scope, err);

    if (st == EF_OK)
        begin_projection(w, &visible, program);
    ef_scope_list_release(&scope);
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
    ef_projection_list found = {0};
    ef_status st = ef_projection_ls(ef__request_engine(r), EF_STR(""), &found, err);

    if (st == EF_OK)
        st = write_projections(r, &w, &found, false, err);
    ef_projection_list_release(&found);
    return st;
}

/* After an action that returned `st`: the active generation, and all generations. */
static ef_status answer_projection(ef__request *r, ef_status st, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_projection_list found = {0};

    if (st == EF_OK)
        st = ef_projection_ls(ef__request_engine(r), r->parts[0], &found, err);
    if (st == EF_OK)
        st = begin_visible(r, &w, &found.items[0], true, err);
    if (st == EF_OK) {
        ef__json_key(&w, "generations");
        st = write_projections(r, &w, &found, true, err);
        ef__json_close(&w, '}');
    }
    ef_projection_list_release(&found);
    return st;
}

static ef_status show_projection(ef__request *r, ef_error *err)
{
    return answer_projection(r, EF_OK, err);
}

/* "stop" or "skip"; EF_ON_ERROR_STOP for "". */
static ef_status parse_on_error(ef_str word, ef_on_error *out, ef_error *err)
{
    *out = ef_str_equal(word, EF_STR("skip")) ? EF_ON_ERROR_SKIP : EF_ON_ERROR_STOP;
    if (word.len == 0 || *out == EF_ON_ERROR_SKIP || ef_str_equal(word, EF_STR("stop")))
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT, "on_error is '%.*s'; it is stop or skip", EF_STR_ARG(word));
}

static ef_status deploy_program(ef__request *r, const ef__deploy_request *asked, ef_error *err)
{
    ef_projection_list deployed = {0};
    ef_text report = {0};
    ef_status st = ef__request_program(r, asked->text, err);

    if (st == EF_OK)
        st = ef_projection_deploy_by(ef__request_engine(r),
                                     &(ef_deploy){.file_name = "program",
                                                  .text = asked->text,
                                                  .in_place = asked->in_place,
                                                  .actor = asked->actor,
                                                  .reason = asked->reason},
                                     &deployed, &report, err);
    ef_projection_list_release(&deployed);
    ef_text_release(&report);
    return st;
}

static ef_status deploy_projection(ef__request *r, void *request, ef_error *err)
{
    const ef__deploy_request *asked = request;
    ef_on_error on_error;
    ef_status st = parse_on_error(asked->on_error, &on_error, err);

    if (st != EF_OK)
        return st;
    st = deploy_program(r, asked, err);
    if (st == EF_BAD_INPUT)
        return ef__request_mistakes(r, asked->text, err);
    if (st == EF_OK && asked->on_error.len > 0)
        st = ef_projection_on_error(ef__request_engine(r), asked->name, on_error, asked->actor,
                                    asked->reason, err);
    return answer_projection(r, st, err);
}

/* --- actions ---------------------------------------------------------------------------------- */

static ef_status pause_projection(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;

    return answer_projection(
        r,
        ef_projection_pause(ef__request_engine(r), asked->name, asked->actor, asked->reason, err),
        err);
}

static ef_status resume_projection(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;

    return answer_projection(
        r,
        ef_projection_resume(ef__request_engine(r), asked->name, asked->actor, asked->reason, err),
        err);
}

static ef_status answer_run(ef__request *r, ef_status st, ef_run_list *runs)
{
    ef__json_writer w = ef__request_writer(r);

    if (st == EF_OK) {
        ef__shape_write(&w, &ef__shape_run, &runs->items[0]);
        r->status = r->route->answer_status;
    }
    ef_run_list_release(runs);
    return st;
}

static ef_status rebuild_projection(ef__request *r, void *request, ef_error *err)
{
    ef_run_list runs = {0};

    return answer_run(r, ef_projection_rebuild(ef__request_engine(r), request, &runs, err), &runs);
}

static ef_status verify_projection(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    ef_run_list runs = {0};
    ef_status st = ef_projection_verify(ef__request_engine(r), asked->name, asked->actor,
                                        asked->reason, &runs, err);

    return answer_run(r, st, &runs);
}

static ef_status switch_projection(ef__request *r, void *request, ef_error *err)
{
    return answer_projection(r, ef_projection_switch(ef__request_engine(r), request, err), err);
}

static ef_status rollback_projection(ef__request *r, void *request, ef_error *err)
{
    return answer_projection(r, ef_projection_rollback(ef__request_engine(r), request, err), err);
}

/* --- failures and progress -------------------------------------------------------------------- */

static ef_status list_failures(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    ef__json_writer w = ef__request_writer(r);
    ef_failure_list found = {0};
    ef_status st = ef_projection_failures_of(ef__request_engine(r), asked->name,
                                             r->any_tenant ? NULL : &r->tenant, asked->flag,
                                             (size_t)asked->limit, &found, err);

    if (st == EF_OK)
        ef__json_open(&w, '[');
    for (size_t i = 0; st == EF_OK && i < found.count; i++) {
        ef__json_open(&w, '{');
        ef__json_member_str(&w, "projection", asked->name);
        ef__shape_members(&w, &ef__shape_failure, &found.items[i]);
        ef__json_close(&w, '}');
    }
    if (st == EF_OK)
        ef__json_close(&w, ']');
    ef_failure_list_release(&found);
    return st;
}

/* The tenant is that of the token, or of X-Tenant-Id, or "". */
static ef_status show_scope(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    ef__json_writer w = ef__request_writer(r);
    ef_scope_list one = {0};
    ef_status st =
        ef_projection_scope(ef__request_engine(r), asked->name, asked->tenant, &one, err);

    if (st == EF_OK)
        ef__shape_write(&w, &ef__shape_scope, &one.items[0]);
    ef_scope_list_release(&one);
    return st;
}

const ef__http_route ef__routes_projections[] = {
    EF__SERVE(pause_projection, pause_projection),
    EF__SERVE(resume_projection, resume_projection),
    EF__SERVE(rebuild_projection, rebuild_projection),
    EF__SERVE(verify_projection, verify_projection),
    EF__SERVE(switch_projection, switch_projection),
    EF__SERVE(rollback_projection, rollback_projection),
    EF__SERVE(show_scope, show_scope),
    EF__SERVE(list_failures, list_failures),
    EF__RUN(show_projection, show_projection),
    EF__SERVE(deploy_projection, deploy_projection),
    EF__RUN(list_projections, list_projections),
    {0},
};
