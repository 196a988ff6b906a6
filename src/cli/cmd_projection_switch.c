/*
 * cmd_projection_switch.c - everfold projection switch NAME --version N
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"
#include "run.h"

static int run_switch(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_generation_choice route;
    int rc = cli_generation_option(c, &route);

    if (rc == 0 && cli_number(c, "max-lag", 0, INT64_MAX, &route.lag_max, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    if (rc == 0)
        rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_projection_switch(c, &route, &err) != EF_OK)
        return cli_fail(c, &err, "see: everfold projection ls");
    return cli_show_projection(c, route.projection);
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "name of the projection"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"version", 0, "N", NULL, NULL, "to the newest generation of this version"},
    {"generation", 0, "N", NULL, NULL, "to this generation"},
    {"max-lag", 0, "EVENTS", NULL, NULL, "allow a lag of N events (default 0)"},
    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded in the audit log (everfold audit ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_projection_switch = {
    .name = "projection switch",
    .summary = "switch queries to another version or generation, atomically",
    .options = options,
    .arguments = arguments,
    .more = "To go back: everfold projection rollback NAME",
    .example = "everfold projection rebuild customer_orders --no-switch --wait && "
               "everfold projection switch customer_orders --generation 2",
    .run = run_switch,
};
