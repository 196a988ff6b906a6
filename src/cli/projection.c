/*
 * projection.c - output of projections, as table and JSON.
 */
#include "projection.h"
#include "calls.h"

#include <inttypes.h>
#include <stdio.h>

/* "12 (3.456 s)": events, and the age of the oldest. */
static void events_text(int64_t events, int64_t us, char out[80])
{
    int64_t ms = us < 0 ? 0 : us / 1000;

    if (events > 0)
        (void)snprintf(out, 80, "%" PRId64 " (%" PRId64 ".%03" PRId64 " s)", events, ms / 1000,
                       ms % 1000);
    else
        (void)snprintf(out, 80, "0");
}

void cli_table_projections(cli *c, const ef_projection *items, size_t count)
{
    static const char *const heads[] = {"NAME",  "VERSION",  "GENERATION",  "ACTIVE",
                                        "STATE", "POSITION", "LAG",         "BLOCKED",
                                        "VIEWS", "FAILURES", "QUARANTINED", "DIGEST"};
    cli_table table = CLI_TABLE_INIT(heads, 12, 0x7E6);

    for (size_t i = 0; i < count; i++) {
        const ef_projection *p = &items[i];
        char lag[80], blocked[80];
        events_text(p->lag_events, p->lag_us, lag);
        events_text(p->blocked_events, p->blocked_us, blocked);
        cli_table_text(&table, p->name);
        cli_table_int(&table, p->version);
        cli_table_int(&table, p->generation);
        cli_table_text(&table, p->active ? EF_STR("yes") : EF_STR("no"));
        cli_table_text(&table, p->state);
        cli_table_int(&table, p->position);
        cli_table_text(&table, ef_str_from(lag));
        cli_table_text(&table, ef_str_from(blocked));
        cli_table_int(&table, p->views);
        cli_table_int(&table, p->failures);
        cli_table_int(&table, p->quarantined);
        cli_table_text(&table, ef_str_from(p->digest));
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

void cli_print_projection(cli *c, const ef_projection *projection)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        cli_table_projections(c, projection, 1);
        return;
    }
    ef__projection_write(&w, projection);
    ef__buf_add_char(&c->out, '\n');
}

void cli_show_failure(cli *c, const ef_failure *f, const char *indent)
{
    char time[EF_TIME_TEXT_MAX];

    ef_time_format(f->open ? f->recorded_us : f->resolved_us, time);
    ef__buf_add_text(&c->out, indent);
    if (f->tenant.len > 0) {
        ef__buf_add_text(&c->out, "tenant ");
        cli_escape(&c->out, f->tenant);
        ef__buf_add_text(&c->out, "  ");
    }
    cli_escape(&c->out, f->stream);
    ef__buf_printf(
        &c->out, " seq %" PRId64 "  position %" PRId64 "  version %d  attempts %d  %s %s\n", f->seq,
        f->position, (int)f->version, (int)f->attempts, f->open ? "since" : "over", time);
    ef__buf_printf(&c->out, "%s    ", indent);
    cli_escape(&c->out, f->message);
    ef__buf_add_char(&c->out, '\n');
}

void cli_show_scope(cli *c, const ef_scope *s, const char *indent)
{
    char time[EF_TIME_TEXT_MAX];

    ef__buf_add_text(&c->out, indent);
    cli_escape(&c->out, s->name);
    ef__buf_printf(&c->out, "  %.*s  position %" PRId64 "  pending %s%" PRId64,
                   EF_STR_ARG(s->state), s->position, s->pending_more ? "at least " : "",
                   s->pending);
    ef_time_format(s->synced_us, time);
    ef__buf_printf(&c->out, "  synced %s\n", s->synced_us ? time : "never");
    if (s->retries == 0)
        return;
    ef_time_format(s->next_try_us, time);
    ef__buf_printf(&c->out, "%s    retries %" PRId64 ", next %s: ", indent, s->retries, time);
    cli_escape(&c->out, s->error);
    ef__buf_add_char(&c->out, '\n');
}

const char *cli_projection_hint(ef_status status)
{
    return status == EF_NOT_FOUND ? "see: everfold projection ls"
           : status == EF_EXISTS  ? "see: everfold run ls --open"
                                  : NULL;
}

int cli_show_projection(cli *c, ef_str name)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list list = {0};
    ef_status st = cli_projection_ls(c, name, &list, &err);
    int rc = st == EF_OK ? 0 : cli_fail(c, &err, cli_projection_hint(st));

    if (rc == 0)
        cli_print_projection(c, &list.items[0]);
    ef_projection_list_release(&list);
    return rc;
}
