/*
 * cmd_projection_retire.c - everfold projection retire NAME --version N
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"
#include "run.h"

#include <inttypes.h>

static int run_retire(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_generation_choice route;
    int64_t count = 0;
    int rc = cli_generation_option(c, &route);

    if (rc == 0)
        rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_projection_retire(c, &route, &count, &err) != EF_OK)
        return cli_fail(c, &err, "see: everfold projection ls");
    cli_say(c, "removed %" PRId64 " generation%s", count, count == 1 ? "" : "s");
    return cli_show_projection(c, route.projection);
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "name of the projection"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"version", 0, "N", NULL, NULL, "all generations of this version that are not active"},
    {"generation", 0, "N", NULL, NULL, "this generation"},
    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded in the audit log (everfold audit ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_projection_retire = {
    .name = "projection retire",
    .summary = "remove a version or generation that is not active",
    .options = options,
    .arguments = arguments,
    .more = "Its views are deleted. The events stay, so it can be deployed again.",
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection retire customer_orders --generation 1",
    .run = run_retire,
};
