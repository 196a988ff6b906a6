/*
 * cmd_status.c - everfold status: the journal, its outbox, the projections and the workers, on one
 * screen.
 */
#include "commands.h"
#include "calls.h"
#include "overview.h"
#include "projection.h"

#include <inttypes.h>
#include <stdio.h>

#define EXIT_UNHEALTHY 6
#define SCOPES_SHOWN 5

static void add_size(cli *c, const char *name, int64_t bytes)
{
    char text[32];

    if (bytes < 0)
        return;
    cli_bytes_format(bytes, text);
    ef__buf_printf(&c->out, "  %s %s", name, text);
}

static void write_projection(cli *c, const ef_projection *p, bool first)
{
    const char *colour = p->failures > 0 ? cli_colour(c, CLI_RED) : "";

    ef__buf_add_text(&c->out, first ? "projections " : "            ");
    cli_escape(&c->out, p->name);
    ef__buf_printf(&c->out,
                   " version %d  %.*s  lag %" PRId64 " event%s  failures %s%" PRId64
                   "%s  unaccounted %" PRId64,
                   (int)p->version, EF_STR_ARG(p->state), p->lag_events, cli_plural(p->lag_events),
                   colour, p->failures, colour[0] ? cli_colour(c, CLI_PLAIN) : "", p->unaccounted);
    if (p->blocked_events > 0)
        ef__buf_printf(&c->out, "  blocked %" PRId64 " event%s of %" PRId64 " %s%s",
                       p->blocked_events, cli_plural(p->blocked_events), p->blocked_streams,
                       p->by_log ? "tenant" : "stream", cli_plural(p->blocked_streams));
    ef__buf_add_char(&c->out, '\n');
}

/* Lists only scopes that lag; the projection line covers the others. */
static void write_scopes(cli *c, const ef_projection *p)
{
    for (size_t i = 1; i < p->scope_count && i <= SCOPES_SHOWN; i++)
        cli_show_scope(c, &p->scopes[i], "              ");
    if (p->scopes_behind > SCOPES_SHOWN)
        ef__buf_printf(&c->out, "              and %" PRId64 " more\n",
                       p->scopes_behind - SCOPES_SHOWN);
}

static void write_outbox(cli *c, const ef__overview *o)
{
    const char *colour = o->outbox.dead > 0 ? cli_colour(c, CLI_RED) : "";

    ef__buf_printf(&c->out,
                   "outbox      pending %" PRId64 "  processing %" PRId64 "  failed %" PRId64
                   "  dead %s%" PRId64 "%s  blocked %" PRId64,
                   o->outbox.pending, o->outbox.processing, o->outbox.failed, colour,
                   o->outbox.dead, colour[0] ? cli_colour(c, CLI_PLAIN) : "", o->outbox.blocked);
    if (o->blocked_ms >= 0)
        ef__buf_printf(&c->out, " (oldest %" PRId64 ".%03" PRId64 " s)", o->blocked_ms / 1000,
                       o->blocked_ms % 1000);
    ef__buf_add_char(&c->out, '\n');
    if (o->oldest_ms >= 0)
        ef__buf_printf(&c->out, "lag         %" PRId64 ".%03" PRId64 " s (oldest row)\n",
                       o->oldest_ms / 1000, o->oldest_ms % 1000);
    else
        ef__buf_add_text(&c->out, "lag         none\n");
}

/* Workers, partitions and runs. */
static void write_membership(cli *c, const ef__overview *o)
{
    ef__buf_printf(&c->out, "partitions  %d\n", (int)o->facts.partitions);
    ef__buf_printf(&c->out, "workers     %zu live of %zu, %zu idle\n", o->workers_live,
                   o->workers.count, o->workers_idle);
    if (o->runs_queued + o->runs_running > 0)
        ef__buf_printf(&c->out, "runs        %" PRId64 " running  %" PRId64 " queued\n",
                       o->runs_running, o->runs_queued);
    for (size_t i = 0; i < o->projections.count; i++) {
        write_projection(c, &o->projections.items[i], i == 0);
        write_scopes(c, &o->projections.items[i]);
    }
    if (o->projections.count > 1)
        ef__buf_printf(&c->out, "            unaccounted %" PRId64 " in total\n", o->unaccounted);
}

static void write_publisher(cli *c, const ef_publisher *p, bool first)
{
    ef_outbox_query query = {.lane = p->name, .any_tenant = true};
    ef_outbox_summary rows = {0};
    ef_error err = EF_ERROR_INIT;

    ef__buf_add_text(&c->out, first ? "publishers  " : "            ");
    cli_escape(&c->out, p->name);
    ef__buf_add_text(&c->out, p->paused ? "  paused  to " : "  running  to ");
    cli_escape(&c->out, p->url);
    if (cli_outbox_summarise(c, &query, &rows, &err) == EF_OK)
        ef__buf_printf(&c->out, "  pending %" PRId64 "  failed %" PRId64 "  dead %" PRId64,
                       rows.pending + rows.processing, rows.failed, rows.dead);
    ef__buf_add_char(&c->out, '\n');
    ef_row_list_release(&rows.oldest);
}

/* A journal without an outbox has no publishers. */
static void write_publishers(cli *c)
{
    ef_publisher_list list = {0};
    ef_error err = EF_ERROR_INIT;

    if (cli_publisher_ls(c, &list, &err) == EF_OK)
        for (size_t i = 0; i < list.count; i++)
            write_publisher(c, &list.items[i], i == 0);
    ef_publisher_list_release(&list);
}

static void write_text(cli *c, const ef__overview *o)
{
    ef__buf *out = &c->out;
    char time[EF_TIME_TEXT_MAX] = "never", health[EF__HEALTH_TEXT];

    (void)ef__overview_health(o, health);
    ef__buf_add_text(out, "health      ");
    cli_escape(out, ef_str_from(health));
    ef__buf_add_char(out, '\n');

    if (o->head.recorded_us != 0)
        ef_time_format(o->head.recorded_us, time);
    ef__buf_add_text(out, "journal     ");
    cli_escape(out, ef_str_from(c->journal_shown));
    ef__buf_printf(out, "  (%s %s)\n", o->facts.backend, o->facts.version);
    ef__buf_printf(out, "head        position %" PRId64 "  recorded %s\n", o->head.position, time);
    ef__buf_printf(out, "events      %" PRId64, o->head.position);
    if (o->facts.streams >= 0)
        ef__buf_printf(out, "  streams %" PRId64, o->facts.streams);
    ef__buf_add_char(out, '\n');
    write_outbox(c, o);
    if (o->facts.store_bytes >= 0) {
        ef__buf_printf(out, "store       schema %d", (int)o->facts.schema);
        add_size(c, "data", o->facts.store_bytes);
        add_size(c, "log", o->facts.wal_bytes);
        add_size(c, "free", o->facts.free_bytes);
        ef__buf_add_char(out, '\n');
    }
    ef__buf_printf(out, "durability  %s\n", o->facts.durability);
    ef__buf_printf(out, "mode        %s\n", o->mode);
    write_membership(c, o);
    write_publishers(c);
    ef__buf_add_text(out, "views       ");
    if (o->views_error.status == EF_OK) {
        cli_escape(out, ef_str_from(c->views_shown));
        ef__buf_add_char(out, '\n');
    } else {
        ef__buf_printf(out, "%sunreadable:%s ", cli_colour(c, CLI_RED), cli_colour(c, CLI_PLAIN));
        cli_escape(out, ef_str_from(o->views_error.text));
        ef__buf_add_text(out, "\n            see: everfold doctor\n");
    }
}

static void write_json(cli *c, const ef__overview *o)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    ef__json_open(&w, '{');
    ef__overview_write(&w, o, c->journal_shown);
    ef__json_member_text(&w, "views_url", c->views_shown);
    ef__overview_write_health(&w, o);
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

static int run_status(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef__overview o;
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_overview_read(c, false, &o, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE)
        write_text(c, &o);
    else
        write_json(c, &o);
    rc = o.views_error.status != EF_OK ? EXIT_UNHEALTHY : 0;
    ef__overview_release(&o);
    return rc;
}

const cli_command cli_cmd_status = {
    .name = "status",
    .summary = "show journal, outbox, projections and workers at a glance",
    .more = "Covers all tenants. For problems and the commands that fix them: everfold doctor. If\n"
            "the views cannot be read, the exit code is 6.",
    .example = "everfold status -o json",
    .run = run_status,
};
