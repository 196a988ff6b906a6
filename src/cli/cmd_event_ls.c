/*
 * cmd_event_ls.c - everfold event ls STREAM
 */
#include "commands.h"
#include "calls.h"

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_batch batch = EF_BATCH_INIT;
    cli_events events;
    ef_str stream = ef_str_from(c->arguments[0]);
    int64_t from = 1, limit = 100;
    ef_status st = cli_number(c, "from-seq", 1, INT64_MAX, &from, &err);

    if (st == EF_OK)
        st = cli_number(c, "limit", 0, INT64_MAX, &limit, &err);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    int rc = cli_journal_need(c, true);
    if (rc != 0)
        return rc;
    cli_events_begin(&events, c, false, false);
    int64_t left = limit == 0 ? INT64_MAX : limit;
    bool is_open = true;
    do {
        size_t page = left < CLI_PAGE_ROWS ? (size_t)left : CLI_PAGE_ROWS;
        st = cli_read_stream(c, cli_tenant(c), stream, from, page, &batch, &err);
        if (st != EF_OK)
            break;
        is_open = cli_events_print(c, &events, &batch) && batch.more && batch.count > 0;
        left -= (int64_t)batch.count;
        if (batch.count > 0)
            from = batch.events[batch.count - 1].seq + 1;
    } while (is_open && left > 0);
    if (st == EF_OK)
        cli_events_end(c, &events);
    else
        cli_table_release(&events.table);
    ef_batch_release(&batch);
    return st == EF_OK ? 0 : cli_fail(c, &err, NULL);
}

const cli_command cli_cmd_event_ls = {
    .name = "event ls",
    .summary = "list the events of a stream",
    .options = CLI_OPTIONS({"from-seq", 0, "N", NULL, NULL, "first seq to list (default 1)"},
                           {"limit", 0, "N", NULL, NULL, "at most N events; 0: all (default 100)"}),
    .arguments = CLI_ARGUMENTS({"STREAM", false, false, NULL, "name of the stream"}),
    .example = "everfold event ls order-1 -o json",
    .run = run_ls,
};
