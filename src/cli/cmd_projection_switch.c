/*
 * cmd_projection_switch.c - everfold projection switch NAME --version N, rollback and retire
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"
#include "run.h"

#include <inttypes.h>

/* Reads --max-lag and opens the engine: 0, or the exit code. */
static int open_for_switch(cli *c, ef_generation_choice *choice)
{
    ef_error err = EF_ERROR_INIT;

    if (cli_number(c, "max-lag", 0, INT64_MAX, &choice->lag_max, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    return cli_engine_need(c, false);
}

static int show_result(cli *c, const ef_generation_choice *choice, ef_status st,
                       const ef_error *err)
{
    return st == EF_OK ? cli_show_projection(c, choice->projection)
                       : cli_fail(c, err, "see: everfold projection ls");
}

static int run_switch(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_generation_choice choice;
    int rc = cli_generation_option(c, &choice);

    if (rc == 0)
        rc = open_for_switch(c, &choice);
    return rc == 0 ? show_result(c, &choice, cli_projection_switch(c, &choice, &err), &err) : rc;
}

static int run_rollback(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_generation_choice choice = {
        .projection = ef_str_from(c->arguments[0]), .actor = cli_actor(c), .reason = cli_reason(c)};
    int rc = open_for_switch(c, &choice);

    return rc == 0 ? show_result(c, &choice, cli_projection_rollback(c, &choice, &err), &err) : rc;
}

static int run_retire(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_generation_choice choice;
    int64_t count = 0;
    ef_status st;
    int rc = cli_generation_option(c, &choice);

    if (rc == 0)
        rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    st = cli_projection_retire(c, &choice, &count, &err);
    if (st == EF_OK)
        cli_say(c, "removed %" PRId64 " generation%s", count, cli_plural(count));
    return show_result(c, &choice, st, &err);
}

const cli_command cli_cmd_projection_switch = {
    .name = "projection switch",
    .summary = "switch queries to another version or generation, atomically",
    .options = CLI_OPTIONS(
        {"version", 0, "N", NULL, NULL, "to the newest generation of this version"},
        {"generation", 0, "N", NULL, NULL, "to this generation"},
        {"max-lag", 0, "EVENTS", NULL, NULL, "allow a lag of N events (default 0)"}, CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "To go back: everfold projection rollback NAME",
    .example = "everfold projection rebuild customer_orders --no-switch --wait && "
               "everfold projection switch customer_orders --generation 2",
    .run = run_switch,
};

const cli_command cli_cmd_projection_rollback = {
    .name = "projection rollback",
    .summary = "switch queries back to the previously active generation",
    .options = CLI_OPTIONS(
        {"max-lag", 0, "EVENTS", NULL, NULL, "allow a lag of N events (default 0)"}, CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection rollback customer_orders --reason 'totals are off'",
    .run = run_rollback,
};

const cli_command cli_cmd_projection_retire = {
    .name = "projection retire",
    .summary = "remove a version or generation that is not active",
    .options = CLI_OPTIONS(
        {"version", 0, "N", NULL, NULL, "all generations of this version that are not active"},
        {"generation", 0, "N", NULL, NULL, "this generation"}, CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "Its views are deleted. The events stay, so it can be deployed again.",
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection retire customer_orders --generation 1",
    .run = run_retire,
};
