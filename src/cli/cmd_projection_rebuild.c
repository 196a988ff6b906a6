/*
 * cmd_projection_rebuild.c - everfold projection rebuild NAME
 */
#include "commands.h"
#include "front.h"
#include "run.h"

#include <inttypes.h>

/* What to do about a new generation that is not switched to. */
static void hint_differences(cli *c, const ef_run *run, const ef_verdict *v)
{
    cli_warn(c, "everfold: %" PRId64 " of %" PRId64 " views differ from generation %d",
             v->differences, v->views, (int)v->generation);
    if (v->switched)
        return;
    cli_warn(c, "everfold: generation %d is complete, and queries still go to generation %d",
             (int)v->built, (int)v->generation);
    cli_say(c, "compare them: everfold projection diff %.*s --generations %d,%d",
            EF_STR_ARG(run->projection), (int)v->generation, (int)v->built);
    cli_say(c, "use the new one: everfold projection switch %.*s --generation %d",
            EF_STR_ARG(run->projection), (int)v->built);
    cli_say(c, "or remove it: everfold projection retire %.*s --generation %d",
            EF_STR_ARG(run->projection), (int)v->built);
}

/* The exit code: 1 when a comparison keeps it from being switched to. */
static int report_verdict(cli *c, const ef_run *run)
{
    ef_error err = EF_ERROR_INIT;
    ef_verdict v;

    if (ef_run_verdict(run, &v, &err) != EF_OK || run->state != EF_RUN_COMPLETED)
        return 0;
    if (v.differences)
        hint_differences(c, run, &v);
    if (v.switched)
        cli_say(c,
                "generation %d is kept; remove it: everfold projection retire %.*s --generation %d",
                (int)v.generation, EF_STR_ARG(run->projection), (int)v.generation);
    return v.differences && !v.switched ? 1 : 0;
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
    return rc == 0 ? report_verdict(c, &runs->items[0]) : rc;
}

static int run_rebuild(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    ef_rebuild rebuild = {.projection = ef_str_from(c->arguments[0]),
                          .in_place = cli_has(c, "in-place"),
                          .no_switch = cli_has(c, "no-switch"),
                          .switch_anyway = cli_has(c, "switch-anyway"),
                          .who = cli_actor(c),
                          .reason = cli_reason(c)};

    if (rebuild.in_place + rebuild.no_switch + rebuild.switch_anyway > 1)
        return cli_usage(c, "--in-place, --no-switch and --switch-anyway exclude each other");
    if (cli_value(c, "tenant"))
        return cli_usage(c,
                         "projection rebuild folds the events of all tenants: --tenant %s cannot "
                         "be rebuilt alone; leave --tenant out",
                         cli_value(c, "tenant"));
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
    {"switch-anyway", 0, NULL, NULL, NULL, "switch to it also if views differ"},
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
        "in one moment: readers see whole data all the time. If views differ it is not switched\n"
        "to unless --switch-anyway is given, and with --wait the exit code is 1. The events of "
        "all\n"
        "tenants are folded. The old one is kept, up to date,\n"
        "for everfold projection rollback, until it is retired. With --in-place it takes the old\n"
        "one's place at once: readers see the projection grow from nothing.",
    .example = "everfold projection rebuild customer_orders --wait",
    .run = run_rebuild,
};
