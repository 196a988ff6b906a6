/*
 * cmd_view_get.c - everfold view get PROJECTION ID, and at
 */
#include "commands.h"
#include "calls.h"
#include "view.h"

static int run_get(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_freshness freshness;
    ef_view_list found = {0};
    ef_status st = cli_freshness(c, &freshness, &err);
    int rc = st == EF_OK ? cli_engine_need(c, true) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    st = cli_view_get(c, ef_str_from(c->arguments[0]), cli_tenant(c), ef_str_from(c->arguments[1]),
                      &freshness, &found, &err);
    if (st == EF_OK)
        cli_print_found(c, &found, freshness.current);
    else
        rc = cli_fail(c, &err, cli_view_hint(st));
    ef_view_list_release(&found);
    return rc;
}

static int run_at(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_view_list found = {0};
    int64_t position = 0;
    ef_status st = cli_number(c, "position", 1, INT64_MAX, &position, &err);
    int rc;

    if (!cli_has(c, "position"))
        return cli_usage(c, "view at needs --position");
    rc = st == EF_OK ? cli_engine_need(c, true) : cli_fail(c, &err, NULL);
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

const cli_command cli_cmd_view_get = {
    .name = "view get",
    .summary = "read one view by id",
    .options = CLI_OPTIONS(CLI_FRESHNESS_OPTIONS),
    .arguments = CLI_ARGUMENTS({"PROJECTION", false, false, NULL, "name of the projection"},
                               {"ID", false, false, NULL, "id of the view"}),
    .more =
        "as_of is the position that the view reflects: the current position of the projection,\n"
        "unless --at-least or --current asks to wait for a later one.",
    .example = "everfold view get customer_orders ada --current",
    .run = run_get,
};

const cli_command cli_cmd_view_at = {
    .name = "view at",
    .summary = "show a view as of a position",
    .options = CLI_OPTIONS({"position", 0, "P", NULL, NULL, "position in the journal (required)"}),
    .arguments = CLI_ARGUMENTS({"PROJECTION", false, false, NULL, "name of the projection"},
                               {"ID", false, false, NULL, "id of the view"}),
    .more = "The view is folded from the journal. The exit code is 3 if it did not exist at that\n"
            "position.",
    .example = "everfold view at customer_orders ada --position 1200",
    .run = run_at,
};
