/*
 * cmd_run_ls.c - everfold run ls
 */
#include "commands.h"
#include "calls.h"
#include "run.h"

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    int64_t limit = 50;
    ef_status st = cli_number(c, "limit", 1, 10000, &limit, &err);
    int rc = st == EF_OK ? cli_journal_need(c, true) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    if (cli_run_ls(c, cli_has(c, "open"), (size_t)limit, &runs, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else if (c->format != CLI_TABLE)
        cli_list_shapes(c, &ef__shape_run, runs.items, runs.count);
    else if (runs.count == 0)
        cli_say(c, "no runs");
    else
        cli_table_runs(c, runs.items, runs.count);
    ef_run_list_release(&runs);
    return rc;
}

const cli_command cli_cmd_run_ls = {
    .name = "run ls",
    .summary = "list runs: replays, rebuilds and verifications, newest first",
    .options = CLI_OPTIONS({"open", 0, NULL, NULL, NULL, "only queued and running runs"},
                           {"limit", 0, "N", NULL, NULL, "at most N runs (default 50)"}),
    .example = "everfold run ls --open",
    .run = run_ls,
};
