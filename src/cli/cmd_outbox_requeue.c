/*
 * cmd_outbox_requeue.c - everfold outbox requeue STREAM SEQ, skip and replay
 */
#include "commands.h"
#include "calls.h"
#include "outbox.h"

/* Prints the rows of an action that returned `st`, and releases them. */
static int print_rows(cli *c, const char *mode, const char *key, ef_status st, ef_row_list *rows,
                      const ef_error *err, const char *hint)
{
    int rc = 0;

    if (st == EF_OK)
        cli_print_acted(c, mode, key, (int64_t)rows->count, rows);
    else
        rc = cli_fail(c, err, hint);
    ef_row_list_release(rows);
    return rc;
}

static int run_requeue(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_action action;
    ef_status st;
    int rc = cli_outbox_action(c, &action);

    if (rc == 0)
        rc = cli_journal_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_value(c, "reason"))
        action.reason = cli_reason(c);
    st = cli_outbox_requeue(c, &action, &rows, &err);
    return print_rows(c, "outbox-requeue", "requeued", st, &rows, &err,
                      "see: everfold outbox report --status dead");
}

static int run_skip(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_action action;
    ef_status st;
    const char *reason = cli_value(c, "reason"), *lane = cli_value(c, "lane");
    int rc;

    if (!lane || lane[0] == '\0')
        return cli_usage(c, "outbox skip needs --lane");
    if (!reason || reason[0] == '\0')
        return cli_usage(c, "outbox skip needs --reason: it is recorded in the audit log");
    rc = cli_outbox_action(c, &action);
    if (rc == 0)
        rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    action.reason = ef_str_from(reason);
    st = cli_outbox_skip(c, &action, &rows, &err);
    return print_rows(c, "outbox-skip", "skipped", st, &rows, &err, "see: everfold outbox report");
}

static int run_replay(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_action action;
    ef_status st;
    size_t left;
    int rc = cli_outbox_action(c, &action);

    if (rc == 0)
        rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    st = cli_outbox_replay(c, &action, &rows, &err);
    left = rows.count;
    rc = print_rows(c, "outbox-replay", "left", st, &rows, &err, "see: everfold outbox report");
    return rc == 0 && left > 0 ? 1 : rc;
}

#define ROW                                                                                        \
    CLI_ARGUMENTS({"STREAM", false, false, NULL, "stream of the event"},                           \
                  {"SEQ", false, false, NULL, "seq of the event"})

const cli_command cli_cmd_outbox_requeue = {
    .name = "outbox requeue",
    .summary = "requeue a dead row: attempts 0, due now",
    .options = CLI_OPTIONS({"lane", 0, "LANE", NULL, NULL,
                            "only in this lane (default: every lane in which it is dead)"},
                           CLI_REASON),
    .arguments = ROW,
    .example = "everfold outbox requeue order-1 7",
    .run = run_requeue,
};

const cli_command cli_cmd_outbox_skip = {
    .name = "outbox skip",
    .summary = "skip an event in a lane, without applying it",
    .options = CLI_OPTIONS({"lane", 0, "LANE", NULL, NULL, "lane that skips the event (required)"},
                           {"reason", 0, "TEXT", NULL, NULL,
                            "reason (required), recorded in the audit log (everfold audit ls)"}),
    .arguments = ROW,
    .more = "In the lane of a projection, a skip holds for the versions that are blocked at the\n"
            "event, also after a rebuild, and for no other version.",
    .example = "everfold outbox skip order-1 7 --lane totals --reason 'sent by mistake'",
    .run = run_skip,
};

const cli_command cli_cmd_outbox_replay = {
    .name = "outbox replay",
    .summary = "retry a failed event now",
    .options = CLI_OPTIONS({"lane", 0, "LANE", NULL, NULL,
                            "only in this lane (default: every lane in which it failed)"}),
    .arguments = ROW,
    .more =
        "The event is retried under the lease of its partition, before its next attempt is due.\n"
        "The row is printed if it is still there afterwards; nothing is printed if the event\n"
        "was applied. The exit code is 1 if it failed again.",
    .example = "everfold outbox replay order-1 7",
    .run = run_replay,
};
