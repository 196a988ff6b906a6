/*
 * cmd_projection_pause.c - everfold projection pause NAME
 */
#include "commands.h"
#include "front.h"
#include "projection.h"

static int run_pause(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_str name = ef_str_from(c->arguments[0]);
    int rc = cli_engine_need(c, false);

    if (rc != 0)
        return rc;
    if (cli_projection_pause(c, name, cli_actor(c), cli_reason(c), &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    return cli_show_projection(c, name);
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "the projection"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"reason", 0, "TEXT", NULL, NULL, "why; kept with who did it (everfold act ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_projection_pause = {
    .name = "projection pause",
    .summary = "stop folding into a projection; nothing is lost",
    .options = options,
    .arguments = arguments,
    .more = "Its events wait. Go on with: everfold projection resume NAME",
    .example = "everfold projection pause customer_orders",
    .run = run_pause,
};
