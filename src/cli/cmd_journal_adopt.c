/*
 * cmd_journal_adopt.c - everfold journal adopt
 */
#include "commands.h"

static int run_adopt(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    int rc = cli_journal_need(c, false);

    if (rc != 0)
        return rc;
    if (ef_journal_adopt(c->journal, cli_actor(c), cli_reason(c), &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    ef__buf_add_text(&c->out, c->format == CLI_TABLE
                                  ? "adopted: publishers of this journal send from now on\n"
                                  : "{\"adopted\":true}\n");
    return 0;
}

const cli_command cli_cmd_journal_adopt = {
    .name = "journal adopt",
    .summary = "let a restored journal replace the original",
    .options = CLI_OPTIONS(CLI_REASON),
    .more =
        "A journal that was restored from a backup, or whose database was copied, is a copy:\n"
        "its publishers send nothing, because the original may still send the same events. When\n"
        "the original no longer runs, adopt the copy. Events that the original sent after the\n"
        "backup are sent again, with the same ids.",
    .example = "everfold journal adopt --reason 'the old machine is lost'",
    .run = run_adopt,
    .local = true,
};
