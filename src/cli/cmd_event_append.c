/*
 * cmd_event_append.c - everfold event append STREAM --type T --data JSON
 */
#include "commands.h"
#include "../base/limits.h"

#include <errno.h>
#include <unistd.h>

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
    event->expected_seq = expected < 0 ? ef_expect_any_seq() : ef_expect_seq(expected);
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
    rc = st == EF_OK ? cli_append_need(c) : cli_fail(c, &err, NULL);
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
        {"type", 0, "TYPE", NULL, NULL, "type of the event (required)"},
        {"data", 0, "JSON", NULL, NULL, "data of the event, JSON (required); - reads stdin"},
        {"id", 0, "ID", NULL, NULL,
         "id of the event; appending the same id again has no effect (default: generated)"},
        {"expected-seq", 0, "N", NULL, NULL,
         "last seq of the stream as you know it; 0: the stream must not exist"},
        {"meta", 0, "JSON", NULL, NULL,
         "metadata, a JSON object: correlation, causation, traceparent"},
        {"schema", 0, "N", NULL, NULL, "version of the schema of the type (default 1)"},
        {"time", 0, "RFC3339", NULL, NULL, "time at which it happened (default now)"}),
    .arguments = CLI_ARGUMENTS({"STREAM", false, false, NULL, "name of the stream"}),
    .more =
        "After this command, --data is the data of the event. Give the data directory before it\n"
        "(everfold --data DIR event append …) or in EVERFOLD_DATA.",
    .example = "everfold event append order-1 --type order.placed --data '{\"amount\": 12.5}'",
    .run = run_append,
};
