/*
 * cmd_type_ls.c - everfold type ls
 */
#include "commands.h"
#include "calls.h"
#include "type.h"

void cli_table_types(cli *c, const ef_type *types, size_t count)
{
    static const char *const heads[] = {"TYPE", "INTENT", "PUBLISH", "ALIAS OF"};
    cli_table table = CLI_TABLE_INIT(heads, 4, 0);

    for (size_t i = 0; i < count; i++) {
        cli_table_text(&table, types[i].name);
        cli_table_text(&table, ef_str_from(ef_intent_name(types[i].intent)));
        cli_table_text(&table, types[i].publish ? EF_STR("yes") : EF_STR("no"));
        cli_table_text(&table, types[i].alias_of.len > 0 ? types[i].alias_of : EF_STR("-"));
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_type_list types = {0};
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_type_ls(c, &types, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format != CLI_TABLE)
        cli_list_shapes(c, &ef__shape_type, types.items, types.count);
    else if (types.count == 0)
        cli_say(c, "no types");
    else
        cli_table_types(c, types.items, types.count);
    ef_type_list_release(&types);
    return 0;
}

const cli_command cli_cmd_type_ls = {
    .name = "type ls",
    .summary = "list event types",
    .example = "everfold type ls -o json",
    .run = run_ls,
};
