/*
 * cmd_outbox_skip.c - everfold outbox skip STREAM SEQ --lane L --reason TEXT
 */
#include "commands.h"
#include "calls.h"
#include "outbox.h"

static int run_skip(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_action act;
    const char *reason = cli_value(c, "reason"), *lane = cli_value(c, "lane");

    if (!lane || lane[0] == '\0')
        return cli_usage(c, "outbox skip needs --lane");
    if (!reason || reason[0] == '\0')
        return cli_usage(c, "outbox skip needs --reason: it is recorded in the audit log");
    int rc = cli_outbox_action(c, &act);
    if (rc == 0)
        rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    act.reason = ef_str_from(reason);
    if (cli_outbox_skip(c, &act, &rows, &err) == EF_OK)
        cli_print_acted(c, "outbox-skip", "skipped", (int64_t)rows.count, &rows);
    else
        rc = cli_fail(c, &err, "see: everfold outbox report");
    ef_row_list_release(&rows);
    return rc;
}

static const cli_argument arguments[] = {
    {"STREAM", false, false, NULL, "stream of the event"},
    {"SEQ", false, false, NULL, "seq of the event"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"lane", 0, "LANE", NULL, NULL, "lane that skips the event (required)"},
    {"reason", 0, "TEXT", NULL, NULL,
     "reason (required), recorded in the audit log (everfold audit ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_outbox_skip = {
    .name = "outbox skip",
    .summary = "skip an event in a lane, without applying it",
    .options = options,
    .arguments = arguments,
    .more = "In the lane of a projection, a skip holds for the versions that are blocked at the\n"
            "event, also after a rebuild, and for no other version.",
    .example = "everfold outbox skip order-1 7 --lane totals --reason 'sent by mistake'",
    .run = run_skip,
};
