/*
 * cmd_audit_ls.c - everfold audit ls
 */
#include "calls.h"

static const cli_listing listing = {
    .shape = &ef__shape_audit_entry,
    .columns = CLI_COLUMNS(CLI_COLUMN("AT", "at"), CLI_COLUMN("ACTION", "action"),
                           CLI_COLUMN("ACTOR", "actor"), CLI_COLUMN("LANE", "lane"),
                           CLI_COLUMN("TENANT", "tenant", .none = "-"),
                           CLI_COLUMN("STREAM", "stream"), CLI_COLUMN("SEQ", "seq"),
                           CLI_COLUMN("ROWS", "rows"), CLI_COLUMN("REASON", "reason")),
    .empty = "no audit entries",
};

static ef_status list_entries(cli *c, ef_error *err)
{
    ef_audit_query query = {.limit = (size_t)cli_int(c, "limit")};

    return CLI_PRINT_FOUND(c, ef_audit_list, entries, &listing,
                           cli_audit_ls(c, &query, &entries, err));
}

const cli_command cli_cmd_audit_ls = {
    .name = "audit ls",
    .summary = "list audit entries, newest first: action, actor and reason",
    .options =
        CLI_OPTIONS(CLI_INT("limit", "N", 1, 10000, 50, "list at most N entries (default 50)")),
    .more =
        "Every action of an operator has an entry: deploy, requeue, skip, replay, switch, "
        "rollback, pause,\ntoken_create and so on. Entries are never deleted. An action on many "
        "rows is one entry with the\nnumber of rows. For a switch or a rollback, LANE is the "
        "projection and SEQ the generation that was\nactive before.",
    .example = "everfold audit ls --limit 10",
    .stores = CLI_JOURNAL_READ,
    .call = list_entries,
};
