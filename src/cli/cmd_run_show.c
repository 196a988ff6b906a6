/*
 * cmd_run_show.c - everfold run show ID
 */
#include "commands.h"
#include "calls.h"
#include "run.h"

static int run_show(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_run_get(c, ef_str_from(c->arguments[0]), &runs, &err) == EF_OK)
        cli_print_run(c, &runs.items[0]);
    else
        rc = cli_fail(c, &err, "see: everfold run ls");
    ef_run_list_release(&runs);
    return rc;
}

static const cli_argument arguments[] = {
    {"ID", false, false, NULL, "id of the run"},
    {NULL, false, false, NULL, NULL},
};

const cli_command cli_cmd_run_show = {
    .name = "run show",
    .summary = "show a run: state, progress and result",
    .arguments = arguments,
    .example = "everfold run show \"$(everfold replay -o json | cut -d '\"' -f 4)\"",
    .run = run_show,
};
