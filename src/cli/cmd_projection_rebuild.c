/*
 * cmd_projection_rebuild.c - everfold projection rebuild NAME
 */
#include "commands.h"
#include "front.h"
#include "run.h"

#include <inttypes.h>

static void tell(cli *c, const ef_run *run)
{
    ef_error err = EF_ERROR_INIT;
    ef_verdict v;

    if (ef_run_verdict(run, &v, &err) != EF_OK || v.built == v.generation)
        return;
    if (v.differences)
        cli_warn(c,
                 "everfold: %" PRId64 " of %" PRId64
                 " views differ from generation %d; see: everfold projection diff",
                 v.differences, v.views, (int)v.generation);
    if (run->state == EF_RUN_COMPLETED)
        cli_say(c,
                "generation %d is kept; remove it: everfold projection retire %.*s --generation %d",
                (int)v.generation, EF_STR_ARG(run->projection), (int)v.generation);
}

static int go_on(cli *c, ef_run_list *runs)
{
    int rc = 0;

    if (cli_has(c, "wait"))
        rc = cli_run_drive(c, runs);
    else
        cli_say(c, "a worker does it (everfold work); see: everfold run watch %.*s",
                EF_STR_ARG(runs->items[0].id));
    cli_print_run(c, &runs->items[0]);
    tell(c, &runs->items[0]);
    return rc;
}

static int run_rebuild(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    ef_rebuild rebuild = {.projection = ef_str_from(c->arguments[0]),
                          .in_place = cli_has(c, "in-place"),
                          .no_switch = cli_has(c, "no-switch"),
                          .who = cli_actor(c),
                          .reason = cli_reason(c)};

    if (rebuild.in_place && rebuild.no_switch)
        return cli_usage(c, "--in-place and --no-switch exclude each other");
    int rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_projection_rebuild(c, &rebuild, &runs, &err) == EF_OK)
        rc = go_on(c, &runs);
    else
        rc = cli_fail(c, &err, err.status == EF_EXISTS ? "see: everfold run ls --open" : NULL);
    ef_run_list_release(&runs);
    return rc;
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "the projection"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"wait", 0, NULL, NULL, NULL, "do it now, with a progress bar"},
    {"in-place", 0, NULL, NULL, NULL, "drop what queries see and fold it anew"},
    {"no-switch", 0, NULL, NULL, NULL, "leave it to a person to switch to the new one"},
    {"reason", 0, "TEXT", NULL, NULL, "why; kept with the run"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_projection_rebuild = {
    .name = "projection rebuild",
    .summary = "fold all events into a projection anew",
    .options = options,
    .arguments = arguments,
    .more =
        "It is built beside the one that queries go to, compared with it, and then switched to\n"
        "in one moment: readers see whole data all the time. The old one is kept, up to date,\n"
        "for everfold projection rollback, until it is retired. With --in-place it takes the old\n"
        "one's place at once: readers see the projection grow from nothing.",
    .example = "everfold projection rebuild customer_orders --wait",
    .run = run_rebuild,
};
