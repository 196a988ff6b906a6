/*
 * calls.c - calls that differ between stores and a server.
 */
#include "calls.h"

#include <inttypes.h>

ef_status cli_projection_deploy(cli *c, const ef_deploy *deploy, const char *on_error,
                                ef_projection_list *out, ef_text *out_report, ef_error *err)
{
    if (c->client)
        return ef_client_projection_deploy(c->client, deploy->text, deploy->in_place,
                                           ef_str_from(on_error), deploy->reason, out, err);
    return ef_projection_deploy_by(c->engine, deploy, out, out_report, err);
}

/* A log-ordered projection has one cursor per tenant; a failed event blocks the whole tenant. */
static ef_status reached_by_log(ef_str name, const ef_scope *scope, int64_t *out, ef_error *err)
{
    *out = scope->position;
    if (scope->retries == 0)
        return EF_OK;
    return ef_fail(
        err, EF_BLOCKED,
        "projection \"%.*s\" is blocked for tenant \"%.*s\" after position %" PRId64 ": %.*s",
        EF_STR_ARG(name), EF_STR_ARG(scope->tenant), scope->position, EF_STR_ARG(scope->error));
}

/* Position up to which every event is applied or blocked. */
ef_status cli_projection_reached(cli *c, ef_str name, const ef_str *tenant, int64_t *out,
                                 ef_error *err)
{
    ef_projection_list all = {0};
    ef_scope_list one = {0};
    ef_status st;

    if (!c->client)
        return ef_projection_reached(c->engine, name, tenant, out, err);
    st = ef_client_projection_ls(c->client, name, &all, err);
    if (st == EF_OK && tenant)
        st = ef_client_projection_scope(c->client, name, *tenant, &one, err);
    *out = st == EF_OK ? all.items[0].reached : 0;
    if (st == EF_OK && tenant && all.items[0].by_log)
        st = reached_by_log(name, &one.items[0], out, err);
    else if (st == EF_OK && tenant && one.items[0].position > *out)
        *out = one.items[0].position;
    ef_scope_list_release(&one);
    ef_projection_list_release(&all);
    return st;
}

static bool is_open(const ef_run *run)
{
    return run->state == EF_RUN_QUEUED || run->state == EF_RUN_RUNNING;
}

ef_status cli_engine_run(cli *c, ef_str id, const ef_run_options *options, ef_run_list *out,
                         ef_error *err)
{
    ef_status st;

    if (!c->client)
        return ef_engine_run(c->engine, id, options, out, err);
    do {
        st = ef_client_run_get(c->client, id, out, err);
    } while (st == EF_OK && is_open(&out->items[0]) && options->progress &&
             options->progress(options->context, &out->items[0], true));
    return st;
}

ef_status cli_stream_head(cli *c, ef_str tenant, ef_str stream, int64_t *out_seq,
                          int64_t *out_position, ef_error *err)
{
    if (c->client)
        return ef_fail(err, EF_UNSUPPORTED,
                       "the last seq of a stream is not available through a server");
    return ef_stream_head(c->journal, tenant, stream, out_seq, out_position, err);
}
