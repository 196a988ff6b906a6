/*
 * routes_overview.c - the overview, and what a token allows.
 */
#include "request.h"
#include "token.h"

#include "../shape/operation_table.h"
#include "../shape/overview.h"

#include <everfold/outbox.h>
#include <everfold/run.h>
#include <everfold/version.h>
#include <everfold/worker.h>

#include <stdio.h>

static ef_status read_journal(ef_journal *journal, ef__overview *o, ef_error *err)
{
    ef_status st = ef_journal_head(journal, &o->head, err);

    if (st == EF_OK)
        st = ef_journal_facts(journal, &o->facts, err);
    if (st == EF_OK)
        st = ef_outbox_summarise(journal, &(ef_outbox_query){.any_tenant = true}, &o->outbox, err);
    if (st == EF_OK)
        st = ef_worker_ls(journal, &o->workers, err);
    if (st == EF_OK)
        st = ef_run_ls(journal, true, EF__OVERVIEW_RUNS_MAX, &o->runs, err);
    return st;
}

static ef_status read_overview(const ef__server *server, ef__overview *o, ef_error *err)
{
    const ef__server_options *options = &server->options;
    ef_status st = read_journal(options->journal, o, err);

    if (st != EF_OK)
        return st;
    st = ef_projection_ls(options->engine, EF_STR(""), &o->projections, &o->views_error);
    if (st == EF_OK || st == EF_NOT_FOUND)
        o->views_error = (ef_error)EF_ERROR_INIT;
    ef__health_publisher_down(options->engine, o->publisher_down);
    o->disk = ef__server_disk(server);
    (void)snprintf(o->mode, sizeof(o->mode), "%s", options->mode);
    o->read_us = ef__server_now(server);
    ef__overview_derive(o);
    return EF_OK;
}

static ef_status show_overview(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef__overview o = EF__OVERVIEW_INIT;
    ef_status st = read_overview(r->server, &o, err);

    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__overview_write(&w, &o, r->server->options.url);
        ef__overview_write_health(&w, &o);
        ef__json_close(&w, '}');
    }
    ef__overview_release(&o);
    return st;
}

/* What the token allows, so that the monitor can hide the rest. */
static ef_status whoami(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);

    (void)err;
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "name", r->who.name);
    ef__json_member_open(&w, "scopes", '[');
    for (unsigned bit = EF__SCOPE_APPEND; bit <= EF__SCOPE_ADMIN; bit *= 2)
        if (r->who.scopes & (bit | EF__SCOPE_ADMIN))
            ef__json_str(&w, ef_str_from(ef__token_scope(bit)));
    ef__json_close(&w, ']');
    ef__json_key(&w, "tenant");
    if (r->who.bound)
        ef__json_str(&w, r->tenant);
    else
        ef__json_null(&w);
    ef__json_close(&w, '}');
    return EF_OK;
}

/* The overview has numbers over all tenants and no names of tenants; a bound token is refused. */
const ef__http_route ef__routes_overview[] = {
    EF__RUN_OPERATION(show_overview, GET, "/v1/overview", READS(UNBOUND), "overview",
                      "journal, outbox, projections and workers", ANSWER("Overview")),
    EF__RUN_OPERATION(whoami, GET, "/v1/whoami", EF__SCOPE_READ, EF__TENANCY_NONE, EF__ROUTE_QUICK,
                      "whoami", "what the token allows", ANSWER("Who")),
    {0},
};
