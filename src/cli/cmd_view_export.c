/*
 * cmd_view_export.c - everfold view export PROJECTION
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"
#include "view.h"

typedef struct exporting {
    cli *c;
    int64_t as_of; /* set before the first view is delivered */
} exporting;

static bool print_view_line(void *context, const ef_view *view)
{
    exporting *x = context;
    ef__json_writer w = EF__JSON_WRITER(&x->c->out);

    ef__view_write(&w, view, x->as_of);
    ef__buf_add_char(&x->c->out, '\n');
    return cli_flush_some(x->c);
}

static int run_export(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    exporting x = {.c = c};
    bool any = cli_has(c, "all-tenants");

    if (any && cli_value(c, "tenant"))
        return cli_usage(c, "--tenant and --all-tenants cannot be combined");
    int rc = cli_engine_need(c, true);
    if (rc != 0)
        return rc;
    ef_status st = cli_view_export(c, ef_str_from(c->arguments[0]), cli_tenant(c), any,
                                   print_view_line, &x, &x.as_of, &err);
    return st == EF_OK ? 0 : cli_fail(c, &err, cli_projection_hint(st));
}

const cli_command cli_cmd_view_export = {
    .name = "view export",
    .summary = "write all views of a projection as NDJSON, ordered by id",
    .options = CLI_OPTIONS({"all-tenants", 0, NULL, NULL, NULL, "views of all tenants"}),
    .arguments = CLI_ARGUMENTS({"PROJECTION", false, false, NULL, "name of the projection"}),
    .more = "The output is NDJSON, whatever -o is.",
    .example = "everfold view export customer_orders > customer_orders.ndjson",
    .run = run_export,
};
