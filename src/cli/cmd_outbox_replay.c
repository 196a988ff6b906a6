/*
 * cmd_outbox_replay.c - everfold outbox replay STREAM SEQ
 */
#include "commands.h"
#include "calls.h"
#include "outbox.h"

static int run_replay(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_action act;
    int rc = cli_outbox_action(c, &act);

    if (rc == 0)
        rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_outbox_replay(c, &act, &rows, &err) == EF_OK) {
        cli_print_acted(c, "outbox-replay", "left", (int64_t)rows.count, &rows);
        rc = rows.count ? 1 : 0;
    } else
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
    {"lane", 0, "LANE", NULL, NULL, "only in this lane (default: every lane in which it failed)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_outbox_replay = {
    .name = "outbox replay",
    .summary = "retry a failed event now",
    .options = options,
    .arguments = arguments,
    .more =
        "The event is retried under the lease of its partition, before its next attempt is due.\n"
        "The row is printed if it is still there afterwards; nothing is printed if the event\n"
        "was applied. The exit code is 1 if it failed again.",
    .example = "everfold outbox replay order-1 7",
    .run = run_replay,
};
