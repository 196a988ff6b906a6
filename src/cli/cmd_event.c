/*
 * cmd_event.c - everfold event append, ls, log and show; lists of events, printed page by page.
 */
#include "calls.h"

#include "../base/limits.h"

#include <errno.h>
#include <unistd.h>

static const char *const event_heads[] = {"TENANT", "STREAM", "SEQ", "POSITION",
                                          "TYPE",   "TIME",   "ID",  "DATA"};

/* The columns tenant and stream are omitted if they would be the same in every row. */
void cli_events_begin(cli_events *events, const cli *c, bool with_tenant, bool with_stream)
{
    size_t left_out = with_tenant ? 0 : with_stream ? 1 : 2;

    *events = (cli_events){
        .list = {.lines = c->format == CLI_NDJSON},
        .table = CLI_TABLE_INIT(event_heads + left_out, 8 - left_out, 0xCU >> left_out),
        .with_tenant = with_tenant,
        .with_stream = with_stream,
    };
}

static void add_row(cli_events *events, const ef_event *e)
{
    cli_table *table = &events->table;

    if (events->with_tenant)
        cli_table_text(table, e->tenant);
    if (events->with_stream)
        cli_table_text(table, e->stream);
    cli_table_int(table, e->seq);
    cli_table_int(table, e->position);
    cli_table_text(table, e->type);
    cli_table_time(table, e->time_us);
    cli_table_text(table, e->id);
    cli_table_text(table, e->data);
}

bool cli_events_print(cli *c, cli_events *events, const ef_batch *batch)
{
    bool go_on = true;

    for (size_t i = 0; i < batch->count && go_on; i++) {
        if (c->format == CLI_TABLE) {
            add_row(events, &batch->events[i]);
            continue;
        }
        cli_list_next(c, &events->list);
        cli_json_event(c, &batch->events[i], events->list.lines);
        go_on = cli_list_item_end(c, &events->list);
    }
    if (c->format == CLI_TABLE && batch->count > 0)
        go_on = cli_table_flush(c, &events->table);
    return go_on;
}

void cli_events_end(cli *c, cli_events *events)
{
    if (c->format != CLI_TABLE)
        cli_list_end(c, &events->list);
    else if (!events->table.headed)
        cli_say(c, "no events");
    cli_table_release(&events->table);
}

/* Reads stdin to its end and drops the final newline that a shell adds. */
static ef_status read_stdin(ef__buf *buf, ef_error *err)
{
    for (;;) {
        if (!ef__buf_reserve(buf, 65536))
            return ef_fail_numbers(err, EF_TOO_LARGE, (int64_t)buf->len, EF_LIMIT_DATA_BYTES,
                                   "the data on stdin is larger than %d bytes",
                                   EF_LIMIT_DATA_BYTES);
        ssize_t n = read(STDIN_FILENO, buf->ptr + buf->len, 65536);
        if (n < 0 && errno != EINTR)
            return ef_fail(err, EF_IO, "stdin could not be read: %s", strerror(errno));
        if (n == 0)
            break;
        if (n > 0)
            buf->len += (size_t)n;
    }
    if (buf->len > 0 && buf->ptr[buf->len - 1] == '\n')
        buf->len--;
    if (buf->len > 0 && buf->ptr[buf->len - 1] == '\r')
        buf->len--;
    return EF_OK;
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

static ef_status read_options(cli *c, ef_new_event *event, ef__buf *data, ef_error *err)
{
    const char *meta = cli_value(c, "meta"), *id = cli_value(c, "id"), *time = cli_value(c, "time");
    int64_t expected = -1, schema = 0;
    ef_status st = EF_OK;

    event->tenant = cli_tenant(c);
    event->stream = ef_str_from(c->arguments[0]);
    event->type = ef_str_from(cli_value(c, "type"));
    event->id = ef_str_from(id);
    event->data = ef_str_from(cli_value(c, "data"));
    if (strcmp(event->data.ptr, "-") == 0) {
        st = read_stdin(data, err);
        event->data = ef__buf_str(data);
    }
    if (st == EF_OK)
        st = need_json("--data", event->data, err);
    if (st == EF_OK && meta)
        st = need_json("--meta", event->meta = ef_str_from(meta), err);
    if (st == EF_OK && id && event->id.len == 0)
        st = ef_fail(err, EF_BAD_INPUT, "--id is empty; omit it to have one generated");
    if (st == EF_OK)
        st = cli_number(c, "expected-seq", 0, INT64_MAX, &expected, err);
    if (st == EF_OK)
        st = cli_number(c, "schema", 1, INT32_MAX, &schema, err);
    if (st == EF_OK && time && ef_time_parse(time, strlen(time), &event->time_us) != 0)
        st = ef_fail(err, EF_BAD_INPUT,
                     "--time is '%s': must be an RFC 3339 time: 2026-11-16T09:30:00Z", time);
    event->expected_seq = expected < 0 ? (ef_expected_seq){0} : ef_expect_seq(expected);
    event->schema = (int32_t)schema;
    return st;
}

static void write_answer(cli *c, const ef_new_event *event, const ef_place *place)
{
    static const char *const heads[] = {"STREAM", "SEQ", "POSITION", "ID", "DUPLICATE", "TOKEN"};
    cli_table table = CLI_TABLE_INIT(heads, 6, 0x6);
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    char token[EF_TOKEN_MAX];
    ef__append_result placed;

    ef_token_of(event, place, 1, token);
    placed = ef__append_result_of(event, place, token);
    if (c->format == CLI_TABLE) {
        cli_table_text(&table, event->stream);
        cli_table_int(&table, place->seq);
        cli_table_int(&table, place->position);
        cli_table_text(&table, placed.id);
        cli_table_text(&table, place->duplicate ? EF_STR("yes") : EF_STR("no"));
        cli_table_text(&table, placed.token);
        (void)cli_table_flush(c, &table);
        cli_table_release(&table);
        return;
    }
    ef__shape_write(&w, &ef__shape_append_result, &placed);
    ef__buf_add_char(&c->out, '\n');
}

static const char *append_hint(ef_status status)
{
    switch (status) {
    case EF_CONFLICT:
        return "everfold event ls STREAM shows the stream as it is now";
    case EF_UNKNOWN_TYPE:
        return "run: everfold type set TYPE";
    case EF_UNSURE:
        return "append again with the same --id to learn whether it was written";
    default:
        return NULL;
    }
}

static int run_append(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_new_event event = {0};
    ef_place place = {0};
    ef__buf data = EF__BUF_INIT(EF_LIMIT_DATA_BYTES + 2 * 65536);
    int rc;

    if (!cli_has(c, "type"))
        return cli_usage(c, "event append needs --type");
    if (!cli_has(c, "data"))
        return cli_usage(c, "event append needs --data");
    ef_status st = read_options(c, &event, &data, &err);
    if (st == EF_OK)
        st = ef_event_check(&event, 1, NULL, &err);
    rc = st == EF_OK ? cli_open(c, CLI_APPEND) : cli_fail(c, &err, NULL);
    if (rc == 0) {
        st = cli_append(c, &event, 1, &place, &err);
        if (st == EF_OK)
            write_answer(c, &event, &place);
        else
            rc = cli_fail(c, &err, append_hint(st));
    }
    ef__buf_release(&data);
    return rc;
}

const cli_command cli_cmd_event_append = {
    .name = "event append",
    .summary = "append one event",
    .options = CLI_OPTIONS(
        CLI_TEXT("type", "TYPE", "type of the event (required)"),
        CLI_TEXT("data", "JSON", "data of the event, JSON (required); - reads stdin"),
        CLI_TEXT("id", "ID",
                 "id of the event; appending the same id again has no effect (default: generated)"),
        CLI_TEXT("expected-seq", "N",
                 "last seq of the stream as you know it; 0: the stream must not exist"),
        CLI_TEXT("meta", "JSON", "metadata, a JSON object: correlation, causation, traceparent"),
        CLI_TEXT("schema", "N", "version of the schema of the type (default 1)"),
        CLI_TEXT("time", "RFC3339", "time at which it happened (default now)")),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("STREAM", "name of the stream")),
    .more =
        "After this command, --data is the data of the event. Give the data directory before it\n"
        "(everfold --data DIR event append …) or in EVERFOLD_DATA.",
    .example = "everfold event append order-1 --type order.placed --data '{\"amount\": 12.5}'",
    .run = run_append,
};

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
    int rc = cli_open(c, CLI_JOURNAL_READ);
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
    EF_RELEASE(&batch);
    return st == EF_OK ? 0 : cli_fail(c, &err, NULL);
}

const cli_command cli_cmd_event_ls = {
    .name = "event ls",
    .summary = "list the events of a stream",
    .options = CLI_OPTIONS(CLI_TEXT("from-seq", "N", "first seq to list (default 1)"),
                           CLI_TEXT("limit", "N", "at most N events; 0: all (default 100)")),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("STREAM", "name of the stream")),
    .example = "everfold event ls order-1 -o json",
    .run = run_ls,
};

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
    EF_RELEASE(&batch);
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
    int rc = cli_open(c, CLI_JOURNAL_READ);
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
        CLI_TEXT("after", "POSITION", "only events after this position (default 0)"),
        CLI_TEXT("type", "TYPE", "only events of this type, or PREFIX*"),
        CLI_TEXT("limit", "N", "at most N events; 0: all (default: 100 for a table, else all)"),
        CLI_FLAG("follow", "continue with new events until interrupted", .letter = 'f'),
        CLI_FLAG("all-tenants", "events of all tenants")),
    .more = "The output of --all-tenants -o ndjson can be imported: `event import` appends the\n"
            "events in the same order and checks that each gets the same seq. To move a journal\n"
            "with positions, recording times and hashes, use `journal copy`.\n"
            "\n"
            "With --follow, -o json prints one object per line, as ndjson does, because an array\n"
            "would never be closed.",
    .example = "everfold event log --type 'order.*' --follow -o ndjson",
    .run = run_log,
};

static void add_line(cli *c, const char *name, ef_str value)
{
    ef__buf_printf(&c->out, "%-12s", name);
    cli_escape(&c->out, value);
    ef__buf_add_char(&c->out, '\n');
}

static void add_int_line(cli *c, const char *name, int64_t value)
{
    ef__buf_printf(&c->out, "%-12s%lld\n", name, (long long)value);
}

static void write_lines(cli *c, const ef_event *event)
{
    char time[EF_TIME_TEXT_MAX];

    add_line(c, "tenant", event->tenant);
    add_line(c, "stream", event->stream);
    add_int_line(c, "seq", event->seq);
    add_int_line(c, "position", event->position);
    add_line(c, "id", event->id);
    add_line(c, "type", event->type);
    add_int_line(c, "schema", event->schema);
    ef_time_format(event->time_us, time);
    add_line(c, "time", ef_str_from(time));
    ef_time_format(event->recorded_us, time);
    add_line(c, "recorded_at", ef_str_from(time));
    add_line(c, "data", event->data);
    add_line(c, "meta", event->meta);
}

static int run_show(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_batch batch = EF_BATCH_INIT;
    int rc = cli_open(c, CLI_JOURNAL_READ);

    if (rc != 0)
        return rc;
    ef_status st = cli_read_id(c, cli_tenant(c), ef_str_from(c->arguments[0]), &batch, &err);
    if (st != EF_OK) {
        rc = cli_fail(c, &err, NULL);
    } else if (c->format == CLI_TABLE) {
        write_lines(c, &batch.events[0]);
    } else {
        cli_json_event(c, &batch.events[0], c->format == CLI_NDJSON);
        ef__buf_add_char(&c->out, '\n');
    }
    EF_RELEASE(&batch);
    return rc;
}

const cli_command cli_cmd_event_show = {
    .name = "event show",
    .summary = "show one event by id",
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("ID", "id of the event")),
    .example = "everfold event show 0190c0de-0000-7000-8000-000000000001 -o json",
    .run = run_show,
};
