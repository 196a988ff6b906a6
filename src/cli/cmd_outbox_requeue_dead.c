/*
 * cmd_outbox_requeue_dead.c - everfold outbox requeue-dead
 */
#include "commands.h"
#include "front.h"
#include "outbox.h"
#include "../base/limits.h"

static int run_requeue_dead(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    int64_t limit = 100;

    if (cli_number(c, "limit", 1, EF_LIMIT_LIST_ROWS, &limit, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (cli_value(c, "tenant"))
        return cli_usage(c, "outbox requeue-dead works over all tenants and takes no --tenant");
    int rc = cli_journal_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_outbox_requeue_dead(c, ef_str_from(cli_value(c, "lane")), cli_actor(c), (size_t)limit,
                                &rows, &err) == EF_OK)
        cli_print_acted(c, "outbox-requeue-dead", "requeued", &rows);
    else
        rc = cli_fail(c, &err, NULL);
    ef_row_list_release(&rows);
    return rc;
}

static const cli_option options[] = {
    {"lane", 0, "LANE", NULL, NULL, "only in this lane (default: all)"},
    {"limit", 0, "N", NULL, NULL, "at most so many, oldest first (default 100)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_outbox_requeue_dead = {
    .name = "outbox requeue-dead",
    .summary = "put dead rows back, oldest first",
    .options = options,
    .example = "everfold outbox requeue-dead --limit 10",
    .run = run_requeue_dead,
};
