/*
 * cmd_outbox_requeue_dead.c - everfold outbox requeue-dead, and skip-dead
 */
#include "commands.h"
#include "calls.h"
#include "outbox.h"

static int print_bulk(cli *c, const char *mode, const char *key, const ef_outbox_bulk *bulk,
                      ef_status st, int64_t count, ef_row_list *rows, const ef_error *err)
{
    int rc = 0;

    if (st == EF_OK)
        cli_print_bulk(c, mode, key, bulk, count, rows);
    else
        rc = cli_fail(c, err, NULL);
    ef_row_list_release(rows);
    return rc;
}

static int run_requeue_dead(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_bulk bulk;
    int64_t count = 0;
    ef_status st;
    int rc = cli_outbox_bulk(c, &bulk);

    if (rc == 0)
        rc = cli_journal_need(c, false);
    if (rc != 0)
        return rc;
    st = cli_outbox_requeue_dead(c, &bulk, &count, &rows, &err);
    return print_bulk(c, "outbox-requeue-dead", "requeued", &bulk, st, count, &rows, &err);
}

static int run_skip_dead(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_bulk bulk;
    int64_t count = 0;
    ef_status st;
    int rc = cli_outbox_bulk(c, &bulk);

    if (rc == 0 && bulk.lane.len == 0)
        rc = cli_usage(c, "outbox skip-dead needs --lane");
    if (rc == 0 && bulk.reason.len == 0 && !bulk.dry_run)
        rc = cli_usage(c, "outbox skip-dead needs --reason: it is recorded in the audit log");
    if (rc == 0)
        rc = cli_engine_need(c, bulk.dry_run);
    if (rc != 0)
        return rc;
    st = cli_outbox_skip_dead(c, &bulk, &count, &rows, &err);
    return print_bulk(c, "outbox-skip-dead", "skipped", &bulk, st, count, &rows, &err);
}

const cli_command cli_cmd_outbox_requeue_dead = {
    .name = "outbox requeue-dead",
    .summary = "requeue dead rows, oldest first",
    .options =
        CLI_OPTIONS(CLI_BULK_OPTIONS("only rows of this lane (default: all)",
                                     "reason, recorded in the audit log (everfold audit ls)")),
    .more = "Covers all tenants unless --tenant is given. Without --all or --limit, at most 100\n"
            "rows are requeued. Rows are changed in transactions of 1000; one audit entry counts\n"
            "all of them. A requeued row has no attempts and is due now.",
    .example = "everfold outbox requeue-dead --lane totals --error 'not a number' --all --dry-run",
    .run = run_requeue_dead,
};

const cli_command cli_cmd_outbox_skip_dead = {
    .name = "outbox skip-dead",
    .summary = "skip dead rows of a lane, oldest first",
    .options = CLI_OPTIONS(
        CLI_BULK_OPTIONS("lane that skips the events (required)",
                         "reason (required), recorded in the audit log (everfold audit ls)")),
    .more = "In the lane of a projection, a skip holds for the versions that are blocked at the\n"
            "event, also after a rebuild, and for no other version. Without --all or --limit, at\n"
            "most 100 rows are skipped. One audit entry counts all of them.",
    .example =
        "everfold outbox skip-dead --lane totals --types 'test.*' --all --reason 'test data'",
    .run = run_skip_dead,
};
