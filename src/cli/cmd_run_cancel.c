/*
 * cmd_run_cancel.c - everfold run cancel ID
 *
 * A worker that drives the run ends it at its next step. If none does, this command ends it, so
 * that an unfinished generation is removed at once.
 */
#include "commands.h"
#include "calls.h"
#include "run.h"

/* Runs a few steps, which is enough if no worker drives the run; otherwise that worker ends it. */
static bool run_few_steps(void *context, const ef_run *run, bool idle)
{
    int *left = context;

    (void)run;
    return !idle && (*left)-- > 0;
}

static int run_cancel(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    ef_str id = ef_str_from(c->arguments[0]);
    int left = 3, rc = cli_engine_need(c, false);

    if (rc != 0)
        return rc;
    ef_status st = cli_run_cancel(c, id, cli_reason(c), &err);
    if (st == EF_OK)
        st = cli_engine_run(c, id, &(ef_run_options){.progress = run_few_steps, .context = &left},
                            &runs, &err);
    if (st == EF_OK)
        st = cli_note(c, "cancel", runs.items[0].projection, &err);
    if (st != EF_OK)
        rc = cli_fail(c, &err, st == EF_NOT_FOUND ? "see: everfold run ls" : NULL);
    else
        cli_print_run(c, &runs.items[0]);
    ef_run_list_release(&runs);
    return rc;
}

const cli_command cli_cmd_run_cancel = {
    .name = "run cancel",
    .summary = "cancel a run; committed work stays",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_ARGUMENTS({"ID", false, false, NULL, "id of the run"}),
    .more = "The unfinished generation of a rebuild is removed. A worker that drives the run ends\n"
            "it at its next step.",
    .example = "id=$(everfold projection rebuild customer_orders -o json | cut -d '\"' -f 4) && "
               "everfold run cancel \"$id\"",
    .run = run_cancel,
};
