/*
 * cmd_event_show.c - everfold event show ID
 */
#include "commands.h"
#include "calls.h"

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
    int rc = cli_journal_need(c, true);

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
    ef_batch_release(&batch);
    return rc;
}

const cli_command cli_cmd_event_show = {
    .name = "event show",
    .summary = "show one event by id",
    .arguments = CLI_ARGUMENTS({"ID", false, false, NULL, "id of the event"}),
    .example = "everfold event show 0190c0de-0000-7000-8000-000000000001 -o json",
    .run = run_show,
};
