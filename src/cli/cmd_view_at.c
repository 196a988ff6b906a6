/*
 * cmd_view_at.c - everfold view at PROJECTION ID --position P
 */
#include "commands.h"
#include "calls.h"
#include "view.h"

static int run_at(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_view_list found = {0};
    int64_t position = 0;

    if (!cli_has(c, "position"))
        return cli_usage(c, "view at needs --position");
    ef_status st = cli_number(c, "position", 1, INT64_MAX, &position, &err);
    int rc = st == EF_OK ? cli_engine_need(c, true) : cli_fail(c, &err, NULL);
    if (rc != 0)
        return rc;
    st = cli_view_at(c, ef_str_from(c->arguments[0]), cli_tenant(c), ef_str_from(c->arguments[1]),
                     position, &found, &err);
    if (st == EF_OK)
        cli_print_view(c, &found.items[0], found.as_of);
    else
        rc = cli_fail(c, &err, NULL);
    ef_view_list_release(&found);
    return rc;
}

static const cli_argument arguments[] = {
    {"PROJECTION", false, false, NULL, "name of the projection"},
    {"ID", false, false, NULL, "id of the view"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"position", 0, "P", NULL, NULL, "position in the journal (required)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_view_at = {
    .name = "view at",
    .summary = "show a view as of a position",
    .options = options,
    .arguments = arguments,
    .more = "The view is folded from the journal. The exit code is 3 if it did not exist at that\n"
            "position.",
    .example = "everfold view at customer_orders ada --position 1200",
    .run = run_at,
};
