/*
 * cmd_publisher_rm.c - everfold publisher rm NAME
 */
#include "commands.h"
#include "front.h"
#include "publisher.h"

static int run_rm(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    int64_t rows = 0;
    int rc = cli_journal_need(c, false);

    if (rc != 0)
        return rc;
    if (cli_publisher_remove(c, ef_str_from(c->arguments[0]), cli_has(c, "discard"), &rows, &err) !=
        EF_OK)
        return cli_fail(c, &err, NULL);
    if (rows)
        cli_say(c, "%lld rows that were not published are thrown away", (long long)rows);
    return 0;
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "the publisher"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"discard", 0, NULL, NULL, NULL, "even if rows wait that were not published"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_publisher_rm = {
    .name = "publisher rm",
    .summary = "end a publisher",
    .options = options,
    .arguments = arguments,
    .more = "While something waits to be published it is refused, unless --discard is given.",
    .example = "everfold publisher rm mail --discard",
    .run = run_rm,
};
