/*
 * cmd_projection_resume.c - everfold projection resume NAME
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"

static int run_resume(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_str name = ef_str_from(c->arguments[0]);
    int rc = cli_engine_need(c, false);

    if (rc != 0)
        return rc;
    if (cli_projection_resume(c, name, cli_actor(c), cli_reason(c), &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    return cli_show_projection(c, name);
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "name of the projection"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded in the audit log (everfold audit ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_projection_resume = {
    .name = "projection resume",
    .summary = "resume a projection that was paused or has failed",
    .options = options,
    .arguments = arguments,
    .more = "It continues where it stopped. Failed scopes are retried at once.",
    .example = "everfold projection resume customer_orders",
    .run = run_resume,
};
