/*
 * cmd_outbox_skip_dead.c - everfold outbox skip-dead --lane L --reason TEXT
 */
#include "commands.h"
#include "calls.h"
#include "outbox.h"

static int run_skip_dead(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_bulk bulk;
    int64_t count = 0;
    int rc = cli_outbox_bulk(c, &bulk);

    if (rc == 0 && bulk.lane.len == 0)
        rc = cli_usage(c, "outbox skip-dead needs --lane");
    if (rc == 0 && bulk.reason.len == 0 && !bulk.dry_run)
        rc = cli_usage(c, "outbox skip-dead needs --reason: it is recorded in the audit log");
    if (rc == 0)
        rc = cli_engine_need(c, bulk.dry_run);
    if (rc != 0)
        return rc;
    if (cli_outbox_skip_dead(c, &bulk, &count, &rows, &err) == EF_OK)
        cli_print_bulk(c, "outbox-skip-dead", "skipped", &bulk, count, &rows);
    else
        rc = cli_fail(c, &err, NULL);
    ef_row_list_release(&rows);
    return rc;
}

static const cli_option options[] = {
    CLI_BULK_OPTIONS("lane that skips the events (required)",
                     "reason (required), recorded in the audit log (everfold audit ls)"),
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_outbox_skip_dead = {
    .name = "outbox skip-dead",
    .summary = "skip dead rows of a lane, oldest first",
    .options = options,
    .more = "In the lane of a projection, a skip holds for the versions that are blocked at the\n"
            "event, also after a rebuild, and for no other version. Without --all or --limit, at\n"
            "most 100 rows are skipped. One audit entry counts all of them.",
    .example =
        "everfold outbox skip-dead --lane totals --types 'test.*' --all --reason 'test data'",
    .run = run_skip_dead,
};
