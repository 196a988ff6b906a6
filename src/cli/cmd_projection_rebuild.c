/*
 * cmd_projection_rebuild.c - everfold projection rebuild NAME
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"
#include "run.h"

#include <inttypes.h>

/* Explains what to do with a new generation that was not activated. */
static void explain_differences(cli *c, const ef_run *run, const ef_verdict *v)
{
    cli_warn(c, "everfold: %" PRId64 " of %" PRId64 " views differ from generation %d",
             v->differences, v->views, (int)v->generation);
    if (v->switched)
        return;
    cli_warn(c, "everfold: generation %d is complete; generation %d is still the active one",
             (int)v->built, (int)v->generation);
    cli_say(c, "compare them: everfold projection diff %.*s --generations %d,%d",
            EF_STR_ARG(run->projection), (int)v->generation, (int)v->built);
    cli_say(c, "activate the new one: everfold projection switch %.*s --generation %d",
            EF_STR_ARG(run->projection), (int)v->built);
    cli_say(c, "or remove it: everfold projection retire %.*s --generation %d",
            EF_STR_ARG(run->projection), (int)v->built);
}

/* Returns the exit code: 1 if differences prevented the switch. */
static int report_verdict(cli *c, const ef_run *run)
{
    ef_error err = EF_ERROR_INIT;
    ef_verdict v;

    if (ef_run_verdict(run, &v, &err) != EF_OK || run->state != EF_RUN_COMPLETED)
        return 0;
    if (v.differences)
        explain_differences(c, run, &v);
    if (v.switched)
        cli_say(c,
                "generation %d stays; remove it: everfold projection retire %.*s --generation %d",
                (int)v.generation, EF_STR_ARG(run->projection), (int)v.generation);
    return v.differences && !v.switched ? 1 : 0;
}

static int finish_rebuild(cli *c, ef_run_list *runs)
{
    int rc = 0;

    if (cli_has(c, "wait"))
        rc = cli_run_drive(c, runs);
    else
        cli_say(c, "a worker runs it (everfold work); see: everfold run watch %.*s",
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
                          .actor = cli_actor(c),
                          .reason = cli_reason(c)};

    if (rebuild.in_place + rebuild.no_switch + rebuild.switch_anyway > 1)
        return cli_usage(c, "--in-place, --no-switch and --switch-anyway cannot be combined");
    if (cli_value(c, "tenant"))
        return cli_usage(c,
                         "projection rebuild folds the events of all tenants: --tenant %s cannot "
                         "be rebuilt alone; omit --tenant",
                         cli_value(c, "tenant"));
    int rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_projection_rebuild(c, &rebuild, &runs, &err) == EF_OK)
        rc = finish_rebuild(c, &runs);
    else
        rc = cli_fail(c, &err, cli_projection_hint(err.status));
    ef_run_list_release(&runs);
    return rc;
}

const cli_command cli_cmd_projection_rebuild = {
    .name = "projection rebuild",
    .summary = "rebuild a projection from all events",
    .options =
        CLI_OPTIONS({"wait", 0, NULL, NULL, NULL, "rebuild now and show progress"},
                    {"in-place", 0, NULL, NULL, NULL,
                     "replace the active views at once; queries see them grow from empty"},
                    {"no-switch", 0, NULL, NULL, NULL, "do not make the new generation active"},
                    {"switch-anyway", 0, NULL, NULL, NULL, "make it active even if views differ"},
                    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded with the run"}),
    .arguments = CLI_NAME("projection"),
    .more = "A new generation is built beside the active one, compared with it, and then becomes\n"
            "the active one atomically; queries never see a partial state. If views differ, the\n"
            "switch happens only with --switch-anyway, and with --wait the exit code is 1. The\n"
            "events of all tenants are folded. The old generation stays up to date for everfold\n"
            "projection rollback until it is retired. With --in-place the new generation replaces\n"
            "the old one at once: queries see it grow from empty.",
    .example = "everfold projection rebuild customer_orders --wait",
    .run = run_rebuild,
};
