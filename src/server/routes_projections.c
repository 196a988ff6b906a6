/*
 * routes_projections.c - programs and their generations.
 */
#include "request.h"

#include <everfold/generation.h>
#include <everfold/projection.h>

#define FAILURES_COUNTED 10000

/* What one tenant gets of a projection: its own scope and failures. What is counted over all
 * tenants is left out: null. */
static ef_status narrow(ef__request *r, ef_projection *p, ef_scope_list *scope, ef_error *err)
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

/* The members of one; the bracket stays open. */
static void begin_projection(ef__json_writer *w, const ef_projection *p, bool program)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_projection, p);
    ef__shape_members(w, &ef__shape_projection_more, p);
    ef__json_key(w, "scopes");
    ef__json_open(w, '[');
    for (size_t i = 0; i < p->scope_count; i++)
        ef__shape_write(w, &ef__shape_scope, &p->scopes[i]);
    ef__json_close(w, ']');
    if (program) {
        ef__json_key(w, "program");
        ef__json_str(w, p->program);
    }
}

/* One generation as the request may see it; the bracket stays open. */
static ef_status begin_seen(ef__request *r, ef__json_writer *w, const ef_projection *p,
                            bool program, ef_error *err)
{
    ef_projection seen = *p;
    ef_scope_list scope = {0};
    ef_status st = r->any_tenant ? EF_OK : narrow(r, &seen, &scope, err);

    if (st == EF_OK)
        begin_projection(w, &seen, program);
    ef_scope_list_release(&scope);
    return st;
}

static ef_status write_projections(ef__request *r, ef__json_writer *w,
                                   const ef_projection_list *list, bool programs, ef_error *err)
{
    ef_status st = EF_OK;

    ef__json_open(w, '[');
    for (size_t i = 0; st == EF_OK && i < list->count; i++) {
        st = begin_seen(r, w, &list->items[i], programs && i > 0, err);
        ef__json_close(w, '}');
    }
    ef__json_close(w, ']');
    return st;
}

static ef_status list(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_projection_list found = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_projection_ls(r->server->options.engine, EF_STR(""), &found, err);
    if (st == EF_OK)
        st = write_projections(r, &w, &found, false, err);
    ef_projection_list_release(&found);
    return st;
}

/* The routed generation, with the others beside it. */
static ef_status answer_with(ef__request *r, ef_str name, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_projection_list found = {0};
    ef_status st = ef_projection_ls(r->server->options.engine, name, &found, err);

    if (st == EF_OK)
        st = begin_seen(r, &w, &found.items[0], true, err);
    if (st == EF_OK) {
        ef__json_key(&w, "generations");
        st = write_projections(r, &w, &found, true, err);
        ef__json_close(&w, '}');
    }
    ef_projection_list_release(&found);
    return st;
}

static ef_status show(ef__request *r, ef_error *err)
{
    ef_status st = ef__request_no_more(r, err);

    return st == EF_OK ? answer_with(r, r->parts[0], err) : st;
}

/* ?on_error=stop|skip; *out_given false: not asked for. */
static ef_status read_on_error(ef__request *r, ef_on_error *out, bool *out_given, ef_error *err)
{
    ef_str word = ef__request_text(r, "on_error");

    *out = ef_str_equal(word, EF_STR("skip")) ? EF_ON_ERROR_SKIP : EF_ON_ERROR_STOP;
    *out_given = word.len > 0;
    if (!*out_given || *out == EF_ON_ERROR_SKIP || ef_str_equal(word, EF_STR("stop")))
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT, "on_error is '%.*s'; it is stop or skip", EF_STR_ARG(word));
}

static ef_status deploy(ef__request *r, ef_error *err)
{
    ef_projection_list deployed = {0};
    ef_on_error on_error;
    bool told;
    ef_str reason;
    ef_text report = {0};
    ef_str text = ef__buf_str(&r->body);
    bool in_place = false;
    ef_status st = ef__request_bool(r, "in_place", &in_place, err);

    if (st == EF_OK)
        st = read_on_error(r, &on_error, &told, err);
    if (st == EF_OK) {
        reason = ef__request_text(r, "reason");
        st = ef__request_no_more(r, err);
    }
    if (st != EF_OK)
        return st;
    st = ef__request_program(r, text, err);
    if (st == EF_OK)
        st = ef_projection_deploy_by(r->server->options.engine,
                                     &(ef_deploy){.file_name = "program",
                                                  .text = text,
                                                  .in_place = in_place,
                                                  .actor = ef_str_from(r->who.name),
                                                  .reason = reason},
                                     &deployed, &report, err);
    ef_projection_list_release(&deployed);
    ef_text_release(&report);
    if (st == EF_BAD_INPUT)
        return ef__request_mistakes(r, text, err);
    if (st == EF_OK && told)
        st = ef_projection_on_error(r->server->options.engine, r->parts[0], on_error,
                                    ef_str_from(r->who.name), reason, err);
    return st == EF_OK ? answer_with(r, r->parts[0], err) : st;
}

/* --- acts ---------------------------------------------------------------------------------------
 */

static ef_status pause_it(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef_str reason = {NULL, 0};
    ef_status st = ef__request_reason(r, "reason", &body, &reason, err);

    if (st == EF_OK)
        st = ef_projection_pause(r->server->options.engine, r->parts[0], ef_str_from(r->who.name),
                                 reason, err);
    return st == EF_OK ? answer_with(r, r->parts[0], err) : st;
}

static ef_status resume(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef_str reason = {NULL, 0};
    ef_status st = ef__request_reason(r, "reason", &body, &reason, err);

    if (st == EF_OK)
        st = ef_projection_resume(r->server->options.engine, r->parts[0], ef_str_from(r->who.name),
                                  reason, err);
    return st == EF_OK ? answer_with(r, r->parts[0], err) : st;
}

static void write_run(ef__request *r, ef_run_list *runs)
{
    ef__json_writer w = ef__request_writer(r);

    ef__shape_write(&w, &ef__shape_run, &runs->items[0]);
    r->status = 202;
}

static ef_status rebuild(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef_run_list runs = {0};
    ef_rebuild asked = {.projection = r->parts[0], .actor = ef_str_from(r->who.name)};
    ef_status st =
        ef__request_reason(r, "reason,in_place,no_switch,switch_anyway", &body, &asked.reason, err);

    if (st == EF_OK)
        st = ef__member_bool(body, "in_place", &asked.in_place, err);
    if (st == EF_OK)
        st = ef__member_bool(body, "no_switch", &asked.no_switch, err);
    if (st == EF_OK)
        st = ef__member_bool(body, "switch_anyway", &asked.switch_anyway, err);
    if (st == EF_OK)
        st = ef_projection_rebuild(r->server->options.engine, &asked, &runs, err);
    if (st == EF_OK)
        write_run(r, &runs);
    ef_run_list_release(&runs);
    return st;
}

static ef_status verify(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef_run_list runs = {0};
    ef_str reason = {NULL, 0};
    ef_status st = ef__request_reason(r, "reason", &body, &reason, err);

    if (st == EF_OK)
        st = ef_projection_verify(r->server->options.engine, r->parts[0], ef_str_from(r->who.name),
                                  reason, &runs, err);
    if (st == EF_OK)
        write_run(r, &runs);
    ef_run_list_release(&runs);
    return st;
}

static ef_status read_route(ef__request *r, ef_generation_choice *out, ef_error *err)
{
    const ef__json *body = NULL;
    int64_t version = 0, generation = 0;
    ef_status st;

    *out = (ef_generation_choice){.projection = r->parts[0], .actor = ef_str_from(r->who.name)};
    st = ef__request_reason(r, "reason,version,generation,lag_max", &body, &out->reason, err);
    if (st == EF_OK)
        st = ef__member_int(body, "version", false, 1, INT32_MAX, &version, err);
    if (st == EF_OK)
        st = ef__member_int(body, "generation", false, 1, INT32_MAX, &generation, err);
    if (st == EF_OK)
        st = ef__member_int(body, "lag_max", false, 0, INT64_MAX, &out->lag_max, err);
    out->version = (int32_t)version;
    out->generation = (int32_t)generation;
    return st;
}

static ef_status switch_to(ef__request *r, ef_error *err)
{
    ef_generation_choice route;
    ef_status st = read_route(r, &route, err);

    if (st == EF_OK)
        st = ef_projection_switch(r->server->options.engine, &route, err);
    return st == EF_OK ? answer_with(r, r->parts[0], err) : st;
}

static ef_status rollback(ef__request *r, ef_error *err)
{
    ef_generation_choice route;
    ef_status st = read_route(r, &route, err);

    if (st == EF_OK)
        st = ef_projection_rollback(r->server->options.engine, &route, err);
    return st == EF_OK ? answer_with(r, r->parts[0], err) : st;
}

static ef_status failures(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_failure_list found = {0};
    int64_t limit = 100;
    bool resolved = false;
    ef_status st = ef__request_int(r, "limit", 1, 10000, &limit, err);

    if (st == EF_OK)
        st = ef__request_bool(r, "resolved", &resolved, err);
    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_projection_failures_of(r->server->options.engine, r->parts[0],
                                       r->any_tenant ? NULL : &r->tenant, resolved, (size_t)limit,
                                       &found, err);
    if (st == EF_OK)
        ef__json_open(&w, '[');
    for (size_t i = 0; st == EF_OK && i < found.count; i++) {
        ef__json_open(&w, '{');
        ef__json_key(&w, "projection");
        ef__json_str(&w, r->parts[0]);
        ef__shape_members(&w, &ef__shape_failure, &found.items[i]);
        ef__json_close(&w, '}');
    }
    if (st == EF_OK)
        ef__json_close(&w, ']');
    ef_failure_list_release(&found);
    return st;
}

/* How far one tenant is: of the token, or of X-Tenant-Id, or "". */
static ef_status scope(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_scope_list one = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_projection_scope(r->server->options.engine, r->parts[0], r->tenant, &one, err);
    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__shape_members(&w, &ef__shape_scope, &one.items[0]);
        ef__json_close(&w, '}');
    }
    ef_scope_list_release(&one);
    return st;
}

#define ACT(verb, run, id, summary, answer, status)                                                \
    {                                                                                              \
        "POST", "/v1/projections/{name}:" verb, EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND,            \
            EF__ROUTE_BODY, run, id, summary, NULL, "Reason", answer, status                       \
    }

const ef__http_route ef__routes_projections[] = {
    ACT("pause", pause_it, "pauseProjection", "stop feeding it", "Projection", 0),
    ACT("resume", resume, "resumeProjection", "go on from where it stands", "Projection", 0),
    ACT("rebuild", rebuild, "rebuildProjection", "fold all events into a new generation", "Run",
        202),
    ACT("verify", verify, "verifyProjection", "fold all events in memory and compare", "Run", 202),
    ACT("switch", switch_to, "switchProjection", "make another generation the active one",
        "Projection", 0),
    ACT("rollback", rollback, "rollbackProjection", "back to the generation before", "Projection",
        0),
    {"GET", "/v1/projections/{name}/scope", EF__SCOPE_READ, EF__TENANCY_QUERY, 0, scope,
     "showScope", "how far it is for one tenant", NULL, NULL, "Scope", 0},
    {"GET", "/v1/projections/{name}/failures", EF__SCOPE_READ, EF__TENANCY_PART, 0, failures,
     "listFailures", "events that failed to apply", "limit:integer resolved:boolean", NULL,
     "Failures", 0},
    {"GET", "/v1/projections/{name}", EF__SCOPE_READ, EF__TENANCY_PART, 0, show, "showProjection",
     "one projection, its program and generations", NULL, NULL, "Projection", 0},
    {"PUT", "/v1/projections/{name}", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND, EF__ROUTE_BODY,
     deploy, "deployProjection", "deploy a program (text)",
     "in_place:boolean on_error:string reason:string", "Program", "Projection", 0},
    {"GET", "/v1/projections", EF__SCOPE_READ, EF__TENANCY_PART, 0, list, "listProjections",
     "all projections", NULL, NULL, "Projections", 0},
    {0},
};
