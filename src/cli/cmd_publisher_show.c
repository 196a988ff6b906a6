/*
 * cmd_publisher_show.c - everfold publisher show NAME
 */
#include "commands.h"
#include "publisher.h"

static int run_show(cli *c)
{
    int rc = cli_journal_need(c, true);

    return rc == 0 ? cli_show_publisher(c, ef_str_from(c->arguments[0])) : rc;
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "name of the publisher"},
    {NULL, false, false, NULL, NULL},
};

const cli_command cli_cmd_publisher_show = {
    .name = "publisher show",
    .summary = "show one publisher with its settings",
    .arguments = arguments,
    .example = "everfold publisher show mail -o json",
    .run = run_show,
};
