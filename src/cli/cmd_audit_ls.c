/*
 * cmd_audit_ls.c - everfold audit ls
 */
#include "calls.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX 10000

static void add_text_or_dash(cli_table *table, ef_str text)
{
    cli_table_text(table, text.len > 0 ? text : EF_STR("-"));
}

static void print_table(cli *c, const ef_audit_list *entries)
{
    static const char *const heads[] = {"AT",     "ACTION", "ACTOR", "LANE",  "TENANT",
                                        "STREAM", "SEQ",    "ROWS",  "REASON"};
    cli_table table = CLI_TABLE_INIT(heads, 9, 3u << 6);

    for (size_t i = 0; i < entries->count; i++) {
        const ef_audit_entry *entry = &entries->items[i];
        cli_table_time(&table, entry->at_us);
        add_text_or_dash(&table, entry->action);
        add_text_or_dash(&table, entry->actor);
        add_text_or_dash(&table, entry->lane);
        add_text_or_dash(&table, entry->tenant);
        add_text_or_dash(&table, entry->stream);
        cli_table_int(&table, entry->seq);
        cli_table_int(&table, entry->rows);
        add_text_or_dash(&table, entry->reason);
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_audit_list entries = {0};
    int64_t limit = LIMIT_DEFAULT;
    ef_status st = cli_number(c, "limit", 1, LIMIT_MAX, &limit, &err);
    int rc = st == EF_OK ? cli_journal_need(c, true) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    if (cli_audit_ls(c, &(ef_audit_query){.limit = (size_t)limit}, &entries, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else if (c->format != CLI_TABLE)
        cli_list_shapes(c, &ef__shape_audit_entry, entries.items, entries.count);
    else if (entries.count == 0)
        cli_say(c, "no audit entries");
    else
        print_table(c, &entries);
    EF_RELEASE(&entries);
    return rc;
}

const cli_command cli_cmd_audit_ls = {
    .name = "audit ls",
    .summary = "list audit entries, newest first: action, actor and reason",
    .options = CLI_OPTIONS({"limit", 0, "N", NULL, NULL, "list at most N entries (default 50)"}),
    .more =
        "Every action of an operator has an entry: deploy, requeue, skip, replay, switch, "
        "rollback, pause,\ntoken_create and so on. Entries are never deleted. An action on many "
        "rows is one entry with the\nnumber of rows. For a switch or a rollback, LANE is the "
        "projection and SEQ the generation that was\nactive before.",
    .example = "everfold audit ls --limit 10",
    .run = run_ls,
};
