/*
 * cmd_event_log.c - everfold event log: the journal in the order of positions.
 */
#include "commands.h"
#include "front.h"

#define TABLE_LIMIT 100    /* rows of a table unless --limit says otherwise; the rest is reported */
#define FOLLOW_WAIT_MS 500 /* how long a signal or a closed pipe may go unseen */

/* Read and print until nothing is left, or `*left` events were printed. `*out_more`: the limit
 * ended it. */
static ef_status print_log(cli *c, cli_events *events, ef_log_query *query, int64_t *left,
                           bool *go_on, bool *out_more, ef_error *err)
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
        *go_on = cli_events_print(c, events, &batch);
        *left -= (int64_t)batch.count;
        more = batch.more && reached > query->after;
        query->after = reached;
    } while (*go_on && more && *left > 0 && !cli_stopped());
    *out_more = more && *left == 0;
    ef_batch_release(&batch);
    return st;
}

static ef_status follow(cli *c, cli_events *events, ef_log_query *query, int64_t left,
                        ef_error *err)
{
    bool go_on = true, more;
    ef_status st = print_log(c, events, query, &left, &go_on, &more, err);

    while (st == EF_OK && go_on && left > 0 && !cli_stopped() && cli_flush(c)) {
        st = cli_wait(c, query->after, FOLLOW_WAIT_MS, err);
        if (st == EF_OK)
            st = print_log(c, events, query, &left, &go_on, &more, err);
        else if (st == EF_TIMEOUT)
            st = EF_OK;
        go_on = go_on && !cli_reader_gone(c);
    }
    return st;
}

static int run_log(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    cli_events events;
    bool following = cli_has(c, "follow"), any = cli_has(c, "all-tenants"), go_on = true,
         more = false;
    int64_t limit = following || c->format != CLI_TABLE ? 0 : TABLE_LIMIT;
    ef_log_query query = {
        .tenant = cli_tenant(c), .any_tenant = any, .type = ef_str_from(cli_value(c, "type"))};
    ef_status st = cli_number(c, "after", 0, INT64_MAX, &query.after, &err);

    if (st == EF_OK)
        st = cli_number(c, "limit", 0, INT64_MAX, &limit, &err);
    if (st == EF_OK && any && cli_value(c, "tenant"))
        st = ef_fail(&err, EF_BAD_INPUT, "--tenant and --all-tenants exclude each other");
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
        st = follow(c, &events, &query, left, &err);
    } else {
        st = print_log(c, &events, &query, &left, &go_on, &more, &err);
    }
    if (st == EF_OK)
        cli_events_end(c, &events);
    if (st == EF_OK && more && cli_flush(c))
        cli_say(c, "there are more; continue with --after %lld, or --limit 0 for all",
                (long long)query.after);
    else
        cli_table_release(&events.table);
    return st == EF_OK ? 0 : cli_fail(c, &err, NULL);
}

static const cli_option options[] = {
    {"after", 0, "POSITION", NULL, NULL, "only positions above this one (default 0)"},
    {"type", 0, "TYPE", NULL, NULL, "only this type, or PREFIX*"},
    {"limit", 0, "N", NULL, NULL, "at most N; 0 is all (default: 100 for a table, else all)"},
    {"follow", 'f', NULL, NULL, NULL, "go on with what is appended until interrupted"},
    {"all-tenants", 0, NULL, NULL, NULL, "the events of every tenant"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_event_log = {
    .name = "event log",
    .summary = "the journal in the order of positions",
    .options = options,
    .more = "The lines of --all-tenants -o ndjson can be imported: `event import` appends them in\n"
            "the same order and checks that every event gets the same seq. To move a journal with\n"
            "positions, recording times and hashes, use `journal copy`.\n"
            "\n"
            "With --follow, -o json prints a line an event, as ndjson does: an array that never\n"
            "ends could not be read.",
    .example = "everfold event log --type 'order.*' --follow -o ndjson",
    .run = run_log,
};
