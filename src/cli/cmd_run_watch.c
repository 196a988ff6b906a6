/*
 * cmd_run_watch.c - everfold run watch ID
 */
#include "commands.h"
#include "calls.h"
#include "run.h"

static int run_watch(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_run_get(c, ef_str_from(c->arguments[0]), &runs, &err) != EF_OK)
        rc = cli_fail(c, &err, "see: everfold run ls");
    else {
        rc = cli_run_watch(c, &runs);
        cli_print_run(c, &runs.items[0]);
    }
    ef_run_list_release(&runs);
    return rc;
}

static const cli_argument arguments[] = {
    {"ID", false, false, NULL, "id of the run"},
    {NULL, false, false, NULL, NULL},
};

const cli_command cli_cmd_run_watch = {
    .name = "run watch",
    .summary = "follow the progress of a run until it ends",
    .arguments = arguments,
    .more =
        "The command only waits; workers do the work (everfold work). The exit code is 1 if the\n"
        "run did not complete.",
    .example = "everfold run watch \"$(everfold replay -o json | cut -d '\"' -f 4)\"",
    .run = run_watch,
};
