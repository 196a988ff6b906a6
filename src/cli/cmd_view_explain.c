/*
 * cmd_view_explain.c - everfold view explain PROJECTION ID
 */
#include "commands.h"
#include "calls.h"
#include "../base/limits.h"

static int run_explain(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_batch batch = EF_BATCH_INIT;
    cli_events events;
    int64_t limit = 1000;
    ef_status st = cli_number(c, "limit", 1, EF_LIMIT_LIST_ROWS, &limit, &err);
    int rc = st == EF_OK ? cli_engine_need(c, true) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    st = cli_view_explain(c, ef_str_from(c->arguments[0]), cli_tenant(c),
                          ef_str_from(c->arguments[1]), (size_t)limit, &batch, &err);
    if (st == EF_OK) {
        cli_events_begin(&events, c, false, true);
        (void)cli_events_print(c, &events, &batch);
        cli_events_end(c, &events);
        if (batch.more)
            cli_say(c, "more than %lld events; list them with --limit N", (long long)limit);
    } else {
        rc = cli_fail(c, &err, NULL);
    }
    ef_batch_release(&batch);
    return rc;
}

const cli_command cli_cmd_view_explain = {
    .name = "view explain",
    .summary = "list the events that produced a view, oldest first",
    .options = CLI_OPTIONS({"limit", 0, "N", NULL, NULL, "at most N events (default 1000)"}),
    .arguments = CLI_ARGUMENTS({"PROJECTION", false, false, NULL, "name of the projection"},
                               {"ID", false, false, NULL, "id of the view"}),
    .example = "everfold view explain customer_orders ada",
    .run = run_explain,
};
