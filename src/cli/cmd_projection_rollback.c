/*
 * cmd_projection_rollback.c - everfold projection rollback NAME
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"

static int run_rollback(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_generation_choice route = {
        .projection = ef_str_from(c->arguments[0]), .actor = cli_actor(c), .reason = cli_reason(c)};
    int rc = 0;

    if (cli_number(c, "max-lag", 0, INT64_MAX, &route.lag_max, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_projection_rollback(c, &route, &err) != EF_OK)
        return cli_fail(c, &err, "see: everfold projection ls");
    return cli_show_projection(c, route.projection);
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "name of the projection"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"max-lag", 0, "EVENTS", NULL, NULL, "allow a lag of N events (default 0)"},
    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded in the audit log (everfold audit ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_projection_rollback = {
    .name = "projection rollback",
    .summary = "switch queries back to the previously active generation",
    .options = options,
    .arguments = arguments,
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection rollback customer_orders --reason 'totals are off'",
    .run = run_rollback,
};
