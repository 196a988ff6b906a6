/*
 * cmd_projection_ls.c - everfold projection ls
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"

static void print_list(cli *c, const ef_projection_list *found)
{
    cli_list list = {.lines = c->format == CLI_NDJSON};

    for (size_t i = 0; i < found->count; i++) {
        ef__json_writer w = EF__JSON_WRITER(&c->out);
        cli_list_next(c, &list);
        ef__projection_write(&w, &found->items[i]);
        (void)cli_list_item_end(c, &list);
    }
    cli_list_end(c, &list);
}

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list found = {0};
    int rc = cli_engine_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_projection_ls(c, EF_STR(""), &found, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else if (c->format != CLI_TABLE)
        print_list(c, &found);
    else if (found.count == 0)
        cli_say(c, "no projections; deploy one: everfold projection deploy FILE");
    else
        cli_table_projections(c, found.items, found.count);
    ef_projection_list_release(&found);
    return rc;
}

const cli_command cli_cmd_projection_ls = {
    .name = "projection ls",
    .summary = "list projections: state, position, lag, failures",
    .example = "everfold projection ls -o json",
    .run = run_ls,
};
