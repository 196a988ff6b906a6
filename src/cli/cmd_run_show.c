/*
 * cmd_run_show.c - everfold run show ID, and watch
 */
#include "commands.h"
#include "calls.h"
#include "run.h"

static int show_run(cli *c, bool watch)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_run_get(c, ef_str_from(c->arguments[0]), &runs, &err) != EF_OK) {
        rc = cli_fail(c, &err, "see: everfold run ls");
    } else {
        rc = watch ? cli_run_watch(c, &runs) : 0;
        cli_print_run(c, &runs.items[0]);
    }
    ef_run_list_release(&runs);
    return rc;
}

static int run_show(cli *c)
{
    return show_run(c, false);
}

static int run_watch(cli *c)
{
    return show_run(c, true);
}

const cli_command cli_cmd_run_show = {
    .name = "run show",
    .summary = "show a run: state, progress and result",
    .arguments = CLI_ARGUMENTS({"ID", false, false, NULL, "id of the run"}),
    .example = "everfold run show \"$(everfold replay -o json | cut -d '\"' -f 4)\"",
    .run = run_show,
};

const cli_command cli_cmd_run_watch = {
    .name = "run watch",
    .summary = "follow the progress of a run until it ends",
    .arguments = CLI_ARGUMENTS({"ID", false, false, NULL, "id of the run"}),
    .more =
        "The command only waits; workers do the work (everfold work). The exit code is 1 if the\n"
        "run did not complete.",
    .example = "everfold run watch \"$(everfold replay -o json | cut -d '\"' -f 4)\"",
    .run = run_watch,
};
