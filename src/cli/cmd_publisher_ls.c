/*
 * cmd_publisher_ls.c - everfold publisher ls
 */
#include "commands.h"
#include "calls.h"
#include "publisher.h"

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_publisher_list list = {0};
    int64_t copied_us = 0;
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_publisher_ls(c, &list, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE && list.count == 0)
        cli_say(c, "no publishers; add one with: everfold publisher add NAME --to URL");
    else
        rc = cli_show_publishers(c, &list, false);
    if (list.count > 0 && c->journal && ef_journal_copied(c->journal, &copied_us, NULL) == EF_OK &&
        copied_us > 0)
        cli_say(
            c, "this journal is a copy: its publishers send nothing until: everfold journal adopt");
    ef_publisher_list_release(&list);
    return rc;
}

const cli_command cli_cmd_publisher_ls = {
    .name = "publisher ls",
    .summary = "list publishers: state and backlog of their lanes",
    .more = "KEPT counts published rows that are retained and can be published again (--retain).\n"
            "Failed rows are listed by: everfold outbox report --lane NAME",
    .example = "everfold publisher ls -o json",
    .run = run_ls,
};
