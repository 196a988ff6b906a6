/*
 * cmd_view_get.c - everfold view get PROJECTION ID
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

static const cli_argument arguments[] = {
    {"PROJECTION", false, false, NULL, "name of the projection"},
    {"ID", false, false, NULL, "id of the view"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    CLI_FRESHNESS_OPTIONS,
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_view_get = {
    .name = "view get",
    .summary = "read one view by id",
    .options = options,
    .arguments = arguments,
    .more =
        "as_of is the position that the view reflects: the current position of the projection,\n"
        "unless --at-least or --current asks to wait for a later one.",
    .example = "everfold view get customer_orders ada --current",
    .run = run_get,
};
