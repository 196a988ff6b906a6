/*
 * cmd_outbox_requeue.c - everfold outbox requeue STREAM SEQ
 */
#include "commands.h"
#include "calls.h"
#include "outbox.h"

static int run_requeue(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_action act;
    int rc = cli_outbox_action(c, &act);

    if (rc == 0)
        rc = cli_journal_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_value(c, "reason"))
        act.reason = cli_reason(c);
    if (cli_outbox_requeue(c, &act, &rows, &err) == EF_OK)
        cli_print_acted(c, "outbox-requeue", "requeued", (int64_t)rows.count, &rows);
    else
        rc = cli_fail(c, &err, "see: everfold outbox report --status dead");
    ef_row_list_release(&rows);
    return rc;
}

static const cli_argument arguments[] = {
    {"STREAM", false, false, NULL, "stream of the event"},
    {"SEQ", false, false, NULL, "seq of the event"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"lane", 0, "LANE", NULL, NULL, "only in this lane (default: every lane in which it is dead)"},
    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded in the audit log (everfold audit ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_outbox_requeue = {
    .name = "outbox requeue",
    .summary = "requeue a dead row: attempts 0, due now",
    .options = options,
    .arguments = arguments,
    .example = "everfold outbox requeue order-1 7",
    .run = run_requeue,
};
