/*
 * cmd_projection_pause.c - everfold projection pause NAME, and resume
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"

static int set_paused(cli *c, bool paused)
{
    ef_error err = EF_ERROR_INIT;
    ef_str name = ef_str_from(c->arguments[0]);
    ef_status st;
    int rc = cli_engine_need(c, false);

    if (rc != 0)
        return rc;
    st = paused ? cli_projection_pause(c, name, cli_actor(c), cli_reason(c), &err)
                : cli_projection_resume(c, name, cli_actor(c), cli_reason(c), &err);
    return st == EF_OK ? cli_show_projection(c, name) : cli_fail(c, &err, cli_projection_hint(st));
}

static int run_pause(cli *c)
{
    return set_paused(c, true);
}

static int run_resume(cli *c)
{
    return set_paused(c, false);
}

const cli_command cli_cmd_projection_pause = {
    .name = "projection pause",
    .summary = "pause a projection; no event is lost",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "Its events stay queued. To continue: everfold projection resume NAME",
    .example = "everfold projection pause customer_orders",
    .run = run_pause,
};

const cli_command cli_cmd_projection_resume = {
    .name = "projection resume",
    .summary = "resume a projection that was paused or has failed",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "It continues where it stopped. Failed scopes are retried at once.",
    .example = "everfold projection resume customer_orders",
    .run = run_resume,
};
