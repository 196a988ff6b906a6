/*
 * outbox.c - output of outbox rows, and the options of operations on them.
 */
#include "outbox.h"

#include <inttypes.h>

static void add_time(ef__buf *out, const char *name, int64_t time_us)
{
    char text[EF_TIME_TEXT_MAX];

    if (time_us == 0)
        return;
    ef_time_format(time_us, text);
    ef__buf_printf(out, "  %s %s", name, text);
}

void cli_text_row(cli *c, const ef_row *row)
{
    ef__buf *out = &c->out;
    enum cli_colour colour = row->status == EF_ROW_DEAD     ? CLI_RED
                             : row->status == EF_ROW_FAILED ? CLI_YELLOW
                                                            : CLI_PLAIN;

    ef__buf_printf(out, "%s%-10s%s  lane ", cli_colour(c, colour), ef_row_status_name(row->status),
                   cli_colour(c, CLI_PLAIN));
    cli_escape(out, row->lane);
    if (row->tenant.len > 0) {
        ef__buf_add_text(out, "  tenant ");
        cli_escape(out, row->tenant);
    }
    ef__buf_add_text(out, "  ");
    cli_escape(out, row->stream);
    ef__buf_printf(out, " seq %" PRId64 "  position %" PRId64 "  ", row->seq, row->position);
    cli_escape(out, row->event_type);
    ef__buf_printf(out, "  attempts %d", (int)row->attempt_count);
    add_time(out, "next", row->next_attempt_us);
    add_time(out, "since", row->enqueued_us);
    add_time(out, "published", row->published_us);
    ef__buf_add_text(out, row->blocked ? "  blocked\n" : row->skip ? "  skipped\n" : "\n");
    if (row->last_error.len > 0) {
        ef__buf_add_text(out, "    ");
        cli_escape(out, row->last_error);
        ef__buf_add_char(out, '\n');
    }
}

void cli_print_acted(cli *c, const char *mode, const char *count_key, int64_t count,
                     const ef_row_list *rows)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out, "%s %" PRId64 "\n", count_key, count);
        for (size_t i = 0; i < rows->count; i++)
            cli_text_row(c, &rows->items[i]);
        return;
    }
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "mode", mode);
    ef__json_member_int(&w, count_key, count);
    ef__json_member_open(&w, "rows", '[');
    for (size_t i = 0; i < rows->count; i++) {
        ef__shape_write(&w, &ef__shape_row, &rows->items[i]);
        (void)cli_flush_some(c);
    }
    ef__json_close(&w, ']');
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

int cli_outbox_action(cli *c, ef_outbox_action *act)
{
    ef_error err = EF_ERROR_INIT;

    *act = (ef_outbox_action){.tenant = cli_tenant(c),
                              .stream = ef_str_from(c->arguments[0]),
                              .lane = ef_str_from(cli_value(c, "lane")),
                              .actor = cli_actor(c)};
    if (cli_number_parse("SEQ", c->arguments[1], 1, INT64_MAX, &act->seq, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    return 0;
}

int cli_outbox_bulk(cli *c, ef_outbox_bulk *bulk)
{
    const ef_clock *clock = ef_clock_system();
    ef_error err = EF_ERROR_INIT;
    int64_t older_ms = 0;

    *bulk = (ef_outbox_bulk){.lane = ef_str_from(cli_value(c, "lane")),
                             .tenant = cli_tenant(c),
                             .one_tenant = cli_tenant_given(c),
                             .stream = ef_str_from(cli_value(c, "stream")),
                             .types = ef_str_from(cli_value(c, "types")),
                             .error = ef_str_from(cli_value(c, "error")),
                             .limit = 100,
                             .dry_run = cli_has(c, "dry-run"),
                             .actor = cli_actor(c),
                             .reason = cli_reason(c)};
    if (cli_has(c, "all") && cli_value(c, "limit"))
        return cli_usage(c, "--all and --limit cannot be combined");
    if (cli_number(c, "limit", 1, INT64_MAX, &bulk->limit, &err) != EF_OK ||
        cli_duration(c, "older", &older_ms, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (older_ms > 0)
        bulk->before_us = clock->wall_us(clock->context) - older_ms * 1000;
    bulk->limit = cli_has(c, "all") ? 0 : bulk->limit;
    return 0;
}

void cli_print_bulk(cli *c, const char *mode, const char *key, const ef_outbox_bulk *bulk,
                    int64_t count, const ef_row_list *rows)
{
    if (bulk->dry_run)
        cli_say(c, "dry run: nothing was changed");
    cli_print_acted(c, mode, key, count, rows);
    if (c->format == CLI_TABLE && count > (int64_t)rows->count)
        cli_say(c, "only the first %zu rows are listed", rows->count);
    if (bulk->limit && count == bulk->limit)
        cli_say(c, "more rows may match: use --all, or a higher --limit");
}
