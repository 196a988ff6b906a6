/*
 * cmd_projection_ls.c - everfold projection ls
 */
#include "commands.h"
#include "projection.h"

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list found = {0};
    cli_list list = {.lines = c->format == CLI_NDJSON};
    int rc = cli_engine_need(c, true);

    if (rc != 0)
        return rc;
    if (ef_projection_ls(c->engine, EF_STR(""), &found, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE && found.count == 0)
        cli_say(c, "no projections; deploy one: everfold projection deploy FILE");
    else if (c->format == CLI_TABLE)
        cli_table_projections(c, found.items, found.count);
    for (size_t i = 0; c->format != CLI_TABLE && i < found.count; i++) {
        ef__json_writer w = EF__JSON_WRITER(&c->out);
        cli_list_next(c, &list);
        cli_json_projection(&w, &found.items[i]);
        (void)cli_list_item_end(c, &list);
    }
    if (c->format != CLI_TABLE)
        cli_list_end(c, &list);
    ef_projection_list_release(&found);
    return 0;
}

const cli_command cli_cmd_projection_ls = {
    .name = "projection ls",
    .summary = "the projections, how far each is and what failed",
    .example = "everfold projection ls -o json",
    .run = run_ls,
};
