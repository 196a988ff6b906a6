/*
 * cmd_projection_try.c - everfold projection try FILE
 */
#include "commands.h"
#include "calls.h"
#include "program.h"

#include <inttypes.h>

typedef struct showing {
    cli *c;
    ef__json_writer writer;
} showing;

static void print_event(cli *c, const ef_draft_row *row)
{
    const char *colour = row->outcome == EF_TRIAL_FAILED ? cli_colour(c, CLI_RED) : "";

    if (row->tenant.len > 0) {
        ef__buf_add_text(&c->out, "tenant ");
        cli_escape(&c->out, row->tenant);
        ef__buf_add_text(&c->out, "  ");
    }
    cli_escape(&c->out, row->stream);
    ef__buf_printf(&c->out, " seq %" PRId64 "  %s%s%s", row->seq, colour,
                   ef_trial_outcome_name(row->outcome), colour[0] ? cli_colour(c, CLI_PLAIN) : "");
    if (row->outcome == EF_TRIAL_FAILED) {
        ef__buf_add_text(&c->out, "  ");
        cli_escape(&c->out, row->message);
    }
    if (row->version == 0)
        ef__buf_add_text(&c->out, "  (no deployed version fails on it)");
    ef__buf_add_char(&c->out, '\n');
}

static bool report_event(void *context, const ef_draft_row *row)
{
    showing *s = context;

    if (s->c->format == CLI_TABLE)
        print_event(s->c, row);
    else
        ef__shape_write(&s->writer, &ef__shape_draft_row, row);
    return cli_flush_some(s->c);
}

static void report_counts(showing *s, const ef_draft_result *d)
{
    cli *c = s->c;
    int64_t rows = d->applied + d->ignored + d->failed + d->waits + d->not_tried;

    if (c->format != CLI_TABLE) {
        ef__json_close(&s->writer, ']');
        ef__shape_members(&s->writer, &ef__shape_draft_result, d);
        ef__json_close(&s->writer, '}');
        ef__buf_add_char(&c->out, '\n');
        return;
    }
    if (rows == 0) {
        cli_say(c, "no failed events: there is nothing to try");
        return;
    }
    ef__buf_printf(&c->out,
                   "%" PRId64 " failed event%s with version %d: %" PRId64 " applied, %" PRId64
                   " ignored, %" PRId64 " failed, %" PRId64 " blocked",
                   rows, cli_plural(rows), (int)d->version, d->applied, d->ignored, d->failed,
                   d->waits);
    if (d->not_tried > 0)
        ef__buf_printf(&c->out, ", %" PRId64 " not tried (more than %d events)", d->not_tried,
                       EF_DRAFT_EVENTS_MAX);
    ef__buf_printf(&c->out, "; %" PRId64 " event%s fail%s only with this version\n",
                   d->newly_failed, cli_plural(d->newly_failed), d->newly_failed == 1 ? "s" : "");
}

static int try_program(cli *c, ef_str text)
{
    ef_error err = EF_ERROR_INIT;
    showing s = {.c = c, .writer = EF__JSON_WRITER(&c->out)};
    ef_str tenant = cli_tenant(c);
    ef_draft_result counts;
    int64_t limit = 0;

    if (cli_number(c, "limit", 1, EF_DRAFT_ROWS_MAX, &limit, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format != CLI_TABLE) {
        ef__json_open(&s.writer, '{');
        ef__json_member_open(&s.writer, "rows", '[');
    }
    if (cli_projection_try_draft(c,
                                 &(ef_draft){.file_name = c->arguments[0],
                                             .text = text,
                                             .tenant = cli_tenant_given(c) ? &tenant : NULL,
                                             .limit = (size_t)limit},
                                 report_event, &s, &counts, &err) != EF_OK) {
        ef__buf_reset(&c->out);
        return cli_fail(c, &err, NULL);
    }
    report_counts(&s, &counts);
    return counts.failed || counts.waits || counts.not_tried || counts.newly_failed ? 1 : 0;
}

static int run_try(cli *c)
{
    ef__buf text = EF__BUF_INIT(CLI_PROGRAM_BYTES);
    ef_error err = EF_ERROR_INIT;
    bool shown = false;
    ef_status st = cli_program_check(c->arguments[0], &text, &shown, &err);
    int rc = st == EF_OK || (shown && c->format == CLI_TABLE) ? ef_status_exit(st)
                                                              : cli_fail(c, &err, NULL);

    if (rc == 0)
        rc = cli_engine_need(c, true);
    if (rc == 0)
        rc = try_program(c, ef__buf_str(&text));
    ef__buf_release(&text);
    return rc;
}

const cli_command cli_cmd_projection_try = {
    .name = "projection try",
    .summary = "dry-run a program on the failed events before deploying it",
    .options =
        CLI_OPTIONS({"limit", 0, "N", NULL, NULL, "try at most N failed events (default 100)"}),
    .arguments = CLI_ARGUMENTS({"FILE", false, false, "@file", "program file"}),
    .more =
        "Folds the program over every stream that has a failed or dead event of the projection,\n"
        "from the first event of the stream, into empty views in memory (a log-ordered program:\n"
        "over all events of the tenant). Nothing is written. Lookups read the stored views. A\n"
        "view that several streams share contains only the events of one stream here. The exit\n"
        "code is 1 if an event fails.\n"
        "\n"
        "To deploy it: everfold projection deploy FILE --switch",
    .example = "everfold projection try shop/customer_orders.fold",
    .run = run_try,
};
