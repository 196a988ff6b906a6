/*
 * cmd_projection_rollback.c - everfold projection rollback NAME
 */
#include "commands.h"
#include "front.h"
#include "projection.h"

static int run_rollback(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_route route = {
        .projection = ef_str_from(c->arguments[0]), .who = cli_actor(c), .reason = cli_reason(c)};
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
    {"NAME", false, false, NULL, "the projection"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"max-lag", 0, "EVENTS", NULL, NULL, "though it is behind by so many (default 0)"},
    {"reason", 0, "TEXT", NULL, NULL, "why; kept with who did it"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_projection_rollback = {
    .name = "projection rollback",
    .summary = "let queries go back to where they went before",
    .options = options,
    .arguments = arguments,
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection rollback customer_orders --reason 'totals are off'",
    .run = run_rollback,
};
