/*
 * cmd_run_cancel.c - everfold run cancel ID
 *
 * Whoever drives the run ends it at its next step. Where nobody does, we do, so that what it left
 * half built is removed at once.
 */
#include "commands.h"
#include "front.h"
#include "run.h"

/* A few steps are enough where nobody drives; else its driver will see to it. */
static bool few_steps(void *context, const ef_run *run, bool idle)
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
        st = cli_engine_run(c, id, &(ef_run_options){.progress = few_steps, .context = &left},
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

static const cli_argument arguments[] = {
    {"ID", false, false, NULL, "the run"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"reason", 0, "TEXT", NULL, NULL, "why; kept with who did it (everfold act ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_run_cancel = {
    .name = "run cancel",
    .summary = "end a run; what it has committed stays",
    .options = options,
    .arguments = arguments,
    .more =
        "A rebuild's half-built generation is removed. A worker that drives the run ends it at\n"
        "its next step.",
    .example = "id=$(everfold projection rebuild customer_orders -o json | cut -d '\"' -f 4) && "
               "everfold run cancel \"$id\"",
    .run = run_cancel,
};
