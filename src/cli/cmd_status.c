/*
 * cmd_status.c - everfold status: the journal, its outbox and who is at work, on one screen.
 */
#include "commands.h"
#include "projection.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct overview {
    ef_head head;
    ef_store_facts facts;
    ef_outbox_summary outbox;
    int64_t lag_ms; /* age of the oldest row that is not blocked; -1 when there is none */
    size_t workers_live;
    size_t workers;
    ef_projection_list projections; /* none when there is no view store */
} overview;

/* A journal without views is whole: somebody else may keep them, or nobody wants any. */
static ef_status look_at_projections(cli *c, overview *o, ef_error *err)
{
    ef_error open_err = EF_ERROR_INIT;
    ef_status st = cli_engine_open(c, false, true, &open_err);

    if (st == EF_NOT_FOUND)
        return EF_OK;
    if (st != EF_OK) {
        *err = open_err;
        return st;
    }
    return ef_projection_ls(c->engine, EF_STR(""), &o->projections, err);
}

static ef_status look(cli *c, overview *o, ef_error *err)
{
    const ef_clock *clock = ef_clock_system();
    ef_outbox_query all = {.any_tenant = true};
    ef_worker_list workers = {0};
    ef_status st = ef_journal_head(c->journal, &o->head, err);

    if (st == EF_OK)
        st = ef_journal_facts(c->journal, &o->facts, err);
    if (st == EF_OK)
        st = ef_outbox_summarise(c->journal, &all, &o->outbox, err);
    if (st == EF_OK)
        st = ef_worker_ls(c->journal, &workers, err);
    if (st != EF_OK)
        return st;
    o->workers = workers.count;
    for (size_t i = 0; i < workers.count; i++)
        o->workers_live += workers.items[i].live ? 1 : 0;
    ef_worker_list_release(&workers);
    o->lag_ms = -1;
    if (o->outbox.oldest.count > 0) {
        o->lag_ms = (clock->wall_us(clock->context) - o->outbox.oldest.items[0].enqueued_us) / 1000;
        o->lag_ms = o->lag_ms < 0 ? 0 : o->lag_ms;
    }
    return EF_OK;
}

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
    ef__buf_printf(&c->out, " version %d  %.*s  lag %" PRId64 " events  failures %s%" PRId64 "%s\n",
                   (int)p->version, EF_STR_ARG(p->state), p->lag_events, colour, p->failures,
                   colour[0] ? cli_colour(c, CLI_PLAIN) : "");
}

static void write_text(cli *c, const overview *o)
{
    ef__buf *out = &c->out;
    char time[EF_TIME_TEXT_MAX] = "never";

    if (o->head.recorded_us != 0)
        ef_time_format(o->head.recorded_us, time);
    ef__buf_add_text(out, "journal     ");
    cli_escape(out, ef_str_from(c->journal_url));
    ef__buf_printf(out, "  (%s %s)\n", o->facts.backend, o->facts.version);
    ef__buf_printf(out, "head        position %" PRId64 "  recorded %s\n", o->head.position, time);
    ef__buf_printf(out, "events      %" PRId64 "  streams %" PRId64 "\n", o->head.position,
                   o->facts.streams);
    ef__buf_printf(out,
                   "outbox      pending %" PRId64 "  processing %" PRId64 "  failed %" PRId64
                   "  dead %s%" PRId64 "%s  blocked %" PRId64 "\n",
                   o->outbox.pending, o->outbox.processing, o->outbox.failed,
                   o->outbox.dead > 0 ? cli_colour(c, CLI_RED) : "", o->outbox.dead,
                   o->outbox.dead > 0 ? cli_colour(c, CLI_PLAIN) : "", o->outbox.blocked);
    if (o->lag_ms >= 0)
        ef__buf_printf(out, "lag         %" PRId64 ".%03" PRId64 " s (oldest row)\n",
                       o->lag_ms / 1000, o->lag_ms % 1000);
    else
        ef__buf_add_text(out, "lag         none\n");
    if (o->facts.store_bytes >= 0) {
        ef__buf_printf(out, "store       schema %d", (int)o->facts.schema);
        add_size(c, "data", o->facts.store_bytes);
        add_size(c, "log", o->facts.wal_bytes);
        add_size(c, "free", o->facts.free_bytes);
        ef__buf_add_char(out, '\n');
    }
    ef__buf_printf(out, "durability  %s\n", o->facts.durability);
    ef__buf_printf(out, "mode        %s\n", cli_mode_name(c->mode));
    ef__buf_printf(out, "partitions  %d\n", (int)o->facts.partitions);
    ef__buf_printf(out, "workers     %zu live of %zu\n", o->workers_live, o->workers);
    for (size_t i = 0; i < o->projections.count; i++)
        write_projection(c, &o->projections.items[i], i == 0);
}

static void add_number(ef__json_writer *w, const char *key, int64_t number)
{
    ef__json_key(w, key);
    if (number < 0)
        ef__json_null(w);
    else
        ef__json_int(w, number);
}

static void add_text(ef__json_writer *w, const char *key, const char *text)
{
    ef__json_key(w, key);
    ef__json_str(w, ef_str_from(text));
}

static void write_journal(cli *c, ef__json_writer *w, const overview *o)
{
    ef__json_key(w, "journal");
    ef__json_open(w, '{');
    add_text(w, "url", c->journal_url);
    add_text(w, "id", o->facts.journal_id);
    add_text(w, "backend", o->facts.backend);
    add_text(w, "version", o->facts.version);
    add_number(w, "schema", o->facts.schema);
    add_text(w, "durability", o->facts.durability);
    add_number(w, "position", o->head.position);
    ef__json_key(w, "recorded_at");
    ef__json_time(w, o->head.recorded_us);
    add_number(w, "events", o->head.position);
    add_number(w, "streams", o->facts.streams);
    add_number(w, "store_bytes", o->facts.store_bytes);
    add_number(w, "wal_bytes", o->facts.wal_bytes);
    add_number(w, "free_bytes", o->facts.free_bytes);
    ef__json_close(w, '}');
}

static void write_json(cli *c, const overview *o)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    char lag[32] = "null";

    if (o->lag_ms >= 0)
        (void)snprintf(lag, sizeof(lag), "%" PRId64 ".%03" PRId64, o->lag_ms / 1000,
                       o->lag_ms % 1000);
    ef__json_open(&w, '{');
    add_text(&w, "version", ef_version());
    add_text(&w, "mode", cli_mode_name(c->mode));
    write_journal(c, &w, o);
    ef__json_key(&w, "outbox");
    ef__json_open(&w, '{');
    add_number(&w, "pending", o->outbox.pending);
    add_number(&w, "processing", o->outbox.processing);
    add_number(&w, "failed", o->outbox.failed);
    add_number(&w, "dead", o->outbox.dead);
    add_number(&w, "blocked", o->outbox.blocked);
    ef__json_key(&w, "lag_seconds");
    ef__json_raw(&w, ef_str_from(lag));
    ef__json_close(&w, '}');
    add_number(&w, "partitions", o->facts.partitions);
    ef__json_key(&w, "workers");
    ef__json_open(&w, '{');
    add_number(&w, "live", (int64_t)o->workers_live);
    add_number(&w, "known", (int64_t)o->workers);
    ef__json_close(&w, '}');
    ef__json_key(&w, "projections");
    ef__json_open(&w, '[');
    for (size_t i = 0; i < o->projections.count; i++)
        cli_json_projection(&w, &o->projections.items[i]);
    ef__json_close(&w, ']');
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

static int run_status(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    overview o = {0};
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (look(c, &o, &err) != EF_OK || look_at_projections(c, &o, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else if (c->format == CLI_TABLE)
        write_text(c, &o);
    else
        write_json(c, &o);
    ef_row_list_release(&o.outbox.oldest);
    ef_projection_list_release(&o.projections);
    return rc;
}

const cli_command cli_cmd_status = {
    .name = "status",
    .summary = "the journal, its outbox, the projections and who is at work",
    .more = "Over all tenants. For what is wrong and what to do about it: everfold doctor.",
    .example = "everfold status -o json",
    .run = run_status,
};
