/*
 * cmd_event_log.c - everfold event log: the journal in the order of positions.
 */
#include "commands.h"
#include "calls.h"

#define TABLE_LIMIT 100    /* default limit of a table; a hint says how to continue */
#define FOLLOW_WAIT_MS 500 /* interval at which signals and a closed pipe are checked */

/* Prints events up to the head, at most `*left`. `*out_more` is set if the limit was reached. */
static ef_status print_log(cli *c, cli_events *events, ef_log_query *query, int64_t *left,
                           bool *is_open, bool *out_more, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st;
    bool more = false;

    do {
        int64_t reached = query->after;
        query->limit = *left < CLI_PAGE_ROWS ? (size_t)*left : CLI_PAGE_ROWS;
        query->out_reached = &reached;
        st = cli_read_log(c, query, &batch, err);
        if (st != EF_OK)
            break;
        *is_open = cli_events_print(c, events, &batch);
        *left -= (int64_t)batch.count;
        more = batch.more && reached > query->after;
        query->after = reached;
    } while (*is_open && more && *left > 0 && !cli_stopped());
    *out_more = more && *left == 0;
    ef_batch_release(&batch);
    return st;
}

static ef_status follow_log(cli *c, cli_events *events, ef_log_query *query, int64_t left,
                            ef_error *err)
{
    bool is_open = true, more;
    ef_status st = print_log(c, events, query, &left, &is_open, &more, err);

    while (st == EF_OK && is_open && left > 0 && !cli_stopped() && cli_flush(c)) {
        st = cli_wait(c, query->after, FOLLOW_WAIT_MS, err);
        if (st == EF_OK)
            st = print_log(c, events, query, &left, &is_open, &more, err);
        else if (st == EF_TIMEOUT)
            st = EF_OK;
        is_open = is_open && !cli_reader_gone(c);
    }
    return st;
}

static int run_log(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    cli_events events;
    bool following = cli_has(c, "follow"), any = cli_has(c, "all-tenants"), is_open = true,
         more = false;
    int64_t limit = following || c->format != CLI_TABLE ? 0 : TABLE_LIMIT;
    ef_log_query query = {
        .tenant = cli_tenant(c), .any_tenant = any, .type = ef_str_from(cli_value(c, "type"))};
    ef_status st = cli_number(c, "after", 0, INT64_MAX, &query.after, &err);

    if (st == EF_OK)
        st = cli_number(c, "limit", 0, INT64_MAX, &limit, &err);
    if (st == EF_OK && any && cli_value(c, "tenant"))
        st = ef_fail(&err, EF_BAD_INPUT, "--tenant and --all-tenants cannot be combined");
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    int rc = cli_journal_need(c, true);
    if (rc != 0)
        return rc;
    cli_events_begin(&events, c, any, true);
    events.list.lines = events.list.lines || following;
    int64_t left = limit == 0 ? INT64_MAX : limit;
    if (following) {
        cli_stop_on_signals();
        st = follow_log(c, &events, &query, left, &err);
    } else {
        st = print_log(c, &events, &query, &left, &is_open, &more, &err);
    }
    if (st == EF_OK)
        cli_events_end(c, &events);
    if (st == EF_OK && more && cli_flush(c))
        cli_say(c, "more events follow: continue with --after %lld, or use --limit 0 for all",
                (long long)query.after);
    else
        cli_table_release(&events.table);
    return st == EF_OK ? 0 : cli_fail(c, &err, NULL);
}

const cli_command cli_cmd_event_log = {
    .name = "event log",
    .summary = "list events in position order",
    .options = CLI_OPTIONS(
        {"after", 0, "POSITION", NULL, NULL, "only events after this position (default 0)"},
        {"type", 0, "TYPE", NULL, NULL, "only events of this type, or PREFIX*"},
        {"limit", 0, "N", NULL, NULL,
         "at most N events; 0: all (default: 100 for a table, else all)"},
        {"follow", 'f', NULL, NULL, NULL, "continue with new events until interrupted"},
        {"all-tenants", 0, NULL, NULL, NULL, "events of all tenants"}),
    .more = "The output of --all-tenants -o ndjson can be imported: `event import` appends the\n"
            "events in the same order and checks that each gets the same seq. To move a journal\n"
            "with positions, recording times and hashes, use `journal copy`.\n"
            "\n"
            "With --follow, -o json prints one object per line, as ndjson does, because an array\n"
            "would never be closed.",
    .example = "everfold event log --type 'order.*' --follow -o ndjson",
    .run = run_log,
};
