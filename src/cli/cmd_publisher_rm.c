/*
 * cmd_publisher_rm.c - everfold publisher rm NAME
 */
#include "commands.h"
#include "calls.h"
#include "publisher.h"

static int run_rm(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_str name = ef_str_from(c->arguments[0]);
    int64_t rows = 0;
    int rc = cli_journal_need(c, false);

    if (rc != 0)
        return rc;
    if (cli_publisher_remove(c, name, cli_has(c, "discard"), cli_reason(c), &rows, &err) != EF_OK ||
        cli_note(c, "publisher_remove", name, &err) != EF_OK)
        return cli_fail(c, &err, err.status == EF_NOT_FOUND ? "see: everfold publisher ls" : NULL);
    if (rows)
        cli_say(c, "publisher %.*s removed; %lld unpublished row%s discarded", EF_STR_ARG(name),
                (long long)rows, cli_plural(rows));
    else
        cli_say(c, "publisher %.*s removed", EF_STR_ARG(name));
    return 0;
}

const cli_command cli_cmd_publisher_rm = {
    .name = "publisher rm",
    .summary = "remove a publisher and its lane",
    .options = CLI_OPTIONS(
        {"discard", 0, NULL, NULL, NULL, "remove it even if it has unpublished rows"}, CLI_REASON),
    .arguments = CLI_NAME("publisher"),
    .more = "A publisher with unpublished rows is removed only with --discard.",
    .example = "everfold publisher rm mail --discard --reason 'they closed'",
    .run = run_rm,
};
