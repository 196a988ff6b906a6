/*
 * cmd_event.c - everfold event append, ls, log and show; lists of events, printed page by page.
 */
#include "calls.h"

#include "../base/limits.h"

static const cli_column columns[] = {
    CLI_COLUMN("TENANT", "tenant"),
    CLI_COLUMN("STREAM", "stream"),
    CLI_COLUMN("SEQ", "seq"),
    CLI_COLUMN("POSITION", "position"),
    CLI_COLUMN("TYPE", "type"),
    CLI_COLUMN("TIME", "time"),
    CLI_COLUMN("ID", "id"),
    CLI_COLUMN("DATA", "data"),
    {.head = NULL},
};

const cli_listing *cli_event_listing(bool with_tenant, bool with_stream)
{
    static cli_listing listing = {.shape = &ef__shape_event, .empty = "no events"};

    listing.columns = columns + (with_tenant ? 0 : with_stream ? 1 : 2);
    return &listing;
}

/* Reads stdin to its end and drops the final newline that a shell adds. */
static ef_status read_stdin(ef__buf *buf, ef_error *err)
{
    ef_status st = cli_file_read("-", buf, err);

    if (st == EF_TOO_LARGE)
        return ef_fail_numbers(err, EF_TOO_LARGE, (int64_t)buf->len, EF_LIMIT_DATA_BYTES,
                               "the data on stdin is larger than %d bytes", EF_LIMIT_DATA_BYTES);
    if (st == EF_OK && buf->len > 0 && buf->ptr[buf->len - 1] == '\n')
        buf->len--;
    if (st == EF_OK && buf->len > 0 && buf->ptr[buf->len - 1] == '\r')
        buf->len--;
    return st;
}

static ef_status need_json(const char *what, ef_str text, ef_error *err)
{
    ef_error inner = EF_ERROR_INIT;
    ef_status st = ef__json_check(text, EF_LIMIT_DATA_BYTES, NULL, &inner);

    if (st == EF_OK)
        return EF_OK;
    if (text.len == 0)
        return ef_fail(err, EF_BAD_JSON, "%s is empty; an empty object is {}", what);
    return ef_fail(err, st, "%s: %s", what, inner.text);
}

static ef_status read_event(const cli *c, ef_new_event *event, ef__buf *data, ef_error *err)
{
    const char *meta = cli_value(c, "meta"), *id = cli_value(c, "id"), *time = cli_value(c, "time");
    int64_t expected = cli_int(c, "expected-seq");
    ef_status st = EF_OK;

    *event = (ef_new_event){
        .tenant = cli_tenant(c),
        .stream = ef_str_from(c->arguments[0]),
        .type = ef_str_from(cli_value(c, "type")),
        .id = ef_str_from(id),
        .data = ef_str_from(cli_value(c, "data")),
        .meta = ef_str_from(meta),
        .expected_seq = expected < 0 ? (ef_expected_seq){0} : ef_expect_seq(expected),
        .schema = (int32_t)cli_int(c, "schema"),
    };
    if (strcmp(event->data.ptr, "-") == 0) {
        st = read_stdin(data, err);
        event->data = ef__buf_str(data);
    }
    if (st == EF_OK)
        st = need_json("--data", event->data, err);
    if (st == EF_OK && meta)
        st = need_json("--meta", event->meta, err);
    if (st == EF_OK && id && event->id.len == 0)
        st = ef_fail(err, EF_BAD_INPUT, "--id is empty; omit it to have one generated");
    if (st == EF_OK && time && ef_time_parse(time, strlen(time), &event->time_us) != 0)
        st = ef_fail(err, EF_BAD_INPUT,
                     "--time is '%s': must be an RFC 3339 time: 2026-11-16T09:30:00Z", time);
    return st == EF_OK ? ef_event_check(event, 1, NULL, err) : st;
}

static const cli_listing append_listing = {
    .shape = &ef__shape_append_result,
    .columns = CLI_COLUMNS(CLI_COLUMN("STREAM", "stream"), CLI_COLUMN("SEQ", "seq"),
                           CLI_COLUMN("POSITION", "position"), CLI_COLUMN("ID", "id"),
                           CLI_COLUMN("DUPLICATE", "duplicate"), CLI_COLUMN("TOKEN", "token")),
};

static ef_status append_event(cli *c, ef_error *err)
{
    ef_new_event event;
    ef_place place = {0};
    char token[EF_TOKEN_MAX];
    EF__AUTO(ef__buf) data = EF__BUF_INIT(EF_LIMIT_DATA_BYTES + 2 * 65536);
    ef_status st = read_event(c, &event, &data, err);

    if (st == EF_OK)
        st = cli_need(c, CLI_APPEND, err);
    if (st == EF_OK)
        st = cli_append(c, &event, 1, &place, err);
    if (st != EF_OK)
        return st;
    ef_token_of(&event, &place, 1, token);
    ef__append_result placed = ef__append_result_of(&event, &place, token);
    cli_print_item(c, &append_listing, &placed);
    return EF_OK;
}

const cli_command cli_cmd_event_append = {
    .name = "event append",
    .summary = "append one event",
    .options = CLI_OPTIONS(
        CLI_TEXT("type", "TYPE", "type of the event (required)", .needed = ""),
        CLI_TEXT("data", "JSON", "data of the event, JSON (required); - reads stdin", .needed = ""),
        CLI_TEXT("id", "ID",
                 "id of the event; appending the same id again has no effect (default: generated)"),
        CLI_INT("expected-seq", "N", 0, INT64_MAX, -1,
                "last seq of the stream as you know it; 0: the stream must not exist"),
        CLI_TEXT("meta", "JSON", "metadata, a JSON object: correlation, causation, traceparent"),
        CLI_INT("schema", "N", 1, INT32_MAX, 0, "version of the schema of the type (default 1)"),
        CLI_TEXT("time", "RFC3339", "time at which it happened (default now)")),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("STREAM", "name of the stream")),
    .more =
        "After this command, --data is the data of the event. Give the data directory before it\n"
        "(everfold --data DIR event append …) or in EVERFOLD_DATA.",
    .example = "everfold event append order-1 --type order.placed --data '{\"amount\": 12.5}'",
    .call = append_event,
    .hints =
        CLI_HINTS({EF_CONFLICT, "everfold event ls STREAM shows the stream as it is now"},
                  {EF_UNKNOWN_TYPE, "run: everfold type set TYPE"},
                  {EF_UNSURE, "append again with the same --id to learn whether it was written"}),
};

static ef_status list_events(cli *c, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    cli_rows rows;
    int64_t from = cli_int(c, "from-seq"), limit = cli_int(c, "limit");
    int64_t left = limit == 0 ? INT64_MAX : limit;
    bool is_open = true;
    ef_status st;

    cli_rows_begin(c, &rows, cli_event_listing(false, false));
    do {
        size_t page = left < CLI_PAGE_ROWS ? (size_t)left : CLI_PAGE_ROWS;
        st = cli_read_stream(c, cli_tenant(c), ef_str_from(c->arguments[0]), from, page, &batch,
                             err);
        if (st != EF_OK)
            break;
        is_open =
            cli_rows_add(c, &rows, batch.events, batch.count) && batch.more && batch.count > 0;
        left -= (int64_t)batch.count;
        if (batch.count > 0)
            from = batch.events[batch.count - 1].seq + 1;
    } while (is_open && left > 0);
    cli_rows_end(c, &rows, st);
    return st;
}

const cli_command cli_cmd_event_ls = {
    .name = "event ls",
    .summary = "list the events of a stream",
    .options = CLI_OPTIONS(
        CLI_INT("from-seq", "N", 1, INT64_MAX, 1, "first seq to list (default 1)"),
        CLI_INT("limit", "N", 0, INT64_MAX, 100, "at most N events; 0: all (default 100)")),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("STREAM", "name of the stream")),
    .example = "everfold event ls order-1 -o json",
    .stores = CLI_JOURNAL_READ,
    .call = list_events,
};

#define TABLE_LIMIT 100    /* default limit of a table; a hint says how to continue */
#define FOLLOW_WAIT_MS 500 /* interval at which signals and a closed pipe are checked */

/* Prints events up to the head, at most `*left`. `*out_more` is set if the limit was reached. */
static ef_status print_log(cli *c, cli_rows *rows, ef_log_query *query, int64_t *left,
                           bool *is_open, bool *out_more, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st;
    bool more = false;

    do {
        int64_t reached = query->after;
        query->limit = *left < CLI_PAGE_ROWS ? (size_t)*left : CLI_PAGE_ROWS;
        query->out_reached = &reached;
        st = cli_read_log(c, query, &batch, err);
        if (st != EF_OK)
            break;
        *is_open = cli_rows_add(c, rows, batch.events, batch.count);
        *left -= (int64_t)batch.count;
        more = batch.more && reached > query->after;
        query->after = reached;
    } while (*is_open && more && *left > 0 && !cli_stopped());
    *out_more = more && *left == 0;
    return st;
}

static ef_status follow_log(cli *c, cli_rows *rows, ef_log_query *query, int64_t left,
                            ef_error *err)
{
    bool is_open = true, more;
    ef_status st = print_log(c, rows, query, &left, &is_open, &more, err);

    while (st == EF_OK && is_open && left > 0 && !cli_stopped() && cli_flush(c)) {
        st = cli_wait(c, query->after, FOLLOW_WAIT_MS, err);
        if (st == EF_OK)
            st = print_log(c, rows, query, &left, &is_open, &more, err);
        else if (st == EF_TIMEOUT)
            st = EF_OK;
        is_open = is_open && !cli_reader_gone(c);
    }
    return st;
}

static ef_status check_log(cli *c, ef_error *err)
{
    return cli_has(c, "all-tenants") && cli_value(c, "tenant")
               ? ef_fail(err, EF_BAD_INPUT, "--tenant and --all-tenants cannot be combined")
               : EF_OK;
}

static ef_status log_events(cli *c, ef_error *err)
{
    cli_rows rows;
    bool following = cli_has(c, "follow"), any = cli_has(c, "all-tenants"), is_open = true,
         more = false;
    int64_t limit = cli_has(c, "limit") || following || c->format != CLI_TABLE ? cli_int(c, "limit")
                                                                               : TABLE_LIMIT;
    int64_t left = limit == 0 ? INT64_MAX : limit;
    ef_log_query query = {.tenant = cli_tenant(c),
                          .any_tenant = any,
                          .type = ef_str_from(cli_value(c, "type")),
                          .after = cli_int(c, "after")};
    ef_status st;

    cli_rows_begin(c, &rows, cli_event_listing(any, true));
    rows.list.lines = rows.list.lines || following;
    if (following) {
        cli_stop_on_signals();
        st = follow_log(c, &rows, &query, left, err);
    } else {
        st = print_log(c, &rows, &query, &left, &is_open, &more, err);
    }
    cli_rows_end(c, &rows, st);
    if (st == EF_OK && more && cli_flush(c))
        cli_say(c, "more events follow: continue with --after %lld, or use --limit 0 for all",
                (long long)query.after);
    return st;
}

const cli_command cli_cmd_event_log = {
    .name = "event log",
    .summary = "list events in position order",
    .options =
        CLI_OPTIONS(CLI_INT("after", "POSITION", 0, INT64_MAX, 0,
                            "only events after this position (default 0)"),
                    CLI_TEXT("type", "TYPE", "only events of this type, or PREFIX*"),
                    CLI_INT("limit", "N", 0, INT64_MAX, 0,
                            "at most N events; 0: all (default: 100 for a table, else all)"),
                    CLI_FLAG("follow", "continue with new events until interrupted", .letter = 'f'),
                    CLI_FLAG("all-tenants", "events of all tenants")),
    .more = "The output of --all-tenants -o ndjson can be imported: `event import` appends the\n"
            "events in the same order and checks that each gets the same seq. To move a journal\n"
            "with positions, recording times and hashes, use `journal copy`.\n"
            "\n"
            "With --follow, -o json prints one object per line, as ndjson does, because an array\n"
            "would never be closed.",
    .example = "everfold event log --type 'order.*' --follow -o ndjson",
    .check = check_log,
    .stores = CLI_JOURNAL_READ,
    .call = log_events,
};

static ef_status show_event(cli *c, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st = cli_read_id(c, cli_tenant(c), ef_str_from(c->arguments[0]), &batch, err);

    if (st == EF_OK && c->format == CLI_TABLE)
        cli_print_lines(c, &ef__shape_event, &batch.events[0], 12);
    else if (st == EF_OK)
        cli_print_object(c, &ef__shape_event, &batch.events[0]);
    return st;
}

const cli_command cli_cmd_event_show = {
    .name = "event show",
    .summary = "show one event by id",
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("ID", "id of the event")),
    .example = "everfold event show 0190c0de-0000-7000-8000-000000000001 -o json",
    .stores = CLI_JOURNAL_READ,
    .call = show_event,
};
