/*
 * cmd_outbox_requeue_dead.c - everfold outbox requeue-dead
 */
#include "commands.h"
#include "calls.h"
#include "outbox.h"

static int run_requeue_dead(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_bulk bulk;
    int64_t count = 0;
    int rc = cli_outbox_bulk(c, &bulk);

    if (rc == 0)
        rc = cli_journal_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_outbox_requeue_dead(c, &bulk, &count, &rows, &err) == EF_OK)
        cli_print_bulk(c, "outbox-requeue-dead", "requeued", &bulk, count, &rows);
    else
        rc = cli_fail(c, &err, NULL);
    ef_row_list_release(&rows);
    return rc;
}

static const cli_option options[] = {
    CLI_BULK_OPTIONS("only rows of this lane (default: all)",
                     "reason, recorded in the audit log (everfold audit ls)"),
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_outbox_requeue_dead = {
    .name = "outbox requeue-dead",
    .summary = "requeue dead rows, oldest first",
    .options = options,
    .more = "Covers all tenants unless --tenant is given. Without --all or --limit, at most 100\n"
            "rows are requeued. Rows are changed in transactions of 1000; one audit entry counts\n"
            "all of them. A requeued row has no attempts and is due now.",
    .example = "everfold outbox requeue-dead --lane totals --error 'not a number' --all --dry-run",
    .run = run_requeue_dead,
};
