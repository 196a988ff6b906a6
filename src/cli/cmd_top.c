/*
 * cmd_top.c - everfold status and top: the overview of a journal, once or live.
 *
 * Both only read and acquire no lease. On a terminal `top` shows a panel; otherwise it prints a
 * text frame or a JSON object per interval.
 */
#include "calls.h"
#include "panel.h"

#include <unistd.h>

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
    EF__AUTO(ef_outbox_summary) rows = {0};
    ef_error err = EF_ERROR_INIT;

    ef__buf_add_text(&c->out, first ? "publishers  " : "            ");
    cli_escape(&c->out, p->name);
    ef__buf_add_text(&c->out, p->paused ? "  paused  to " : "  running  to ");
    cli_escape(&c->out, p->url);
    if (cli_outbox_summarise(c, &query, &rows, &err) == EF_OK)
        ef__buf_printf(&c->out, "  pending %" PRId64 "  failed %" PRId64 "  dead %" PRId64,
                       rows.pending + rows.processing, rows.failed, rows.dead);
    ef__buf_add_char(&c->out, '\n');
}

/* A journal without an outbox has no publishers. */
static void write_publishers(cli *c)
{
    EF__AUTO(ef_publisher_list) list = {0};
    ef_error err = EF_ERROR_INIT;

    if (cli_publisher_ls(c, NULL, &list, &err) == EF_OK)
        for (size_t i = 0; i < list.count; i++)
            write_publisher(c, &list.items[i], i == 0);
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
    cli_object_end(c, &w);
}

static ef_status show_status(cli *c, ef_error *err)
{
    ef__overview o;
    ef_status st = cli_overview_read(c, false, &o, err);

    if (st != EF_OK)
        return st;
    if (c->format == CLI_TABLE)
        write_text(c, &o);
    else
        write_json(c, &o);
    c->exit_code = o.views_error.status != EF_OK ? EXIT_UNHEALTHY : 0;
    ef__overview_release(&o);
    return EF_OK;
}

const cli_command cli_cmd_status = {
    .name = "status",
    .summary = "show journal, outbox, projections and workers at a glance",
    .more = "Covers all tenants. For problems and the commands that fix them: everfold doctor. If\n"
            "the views cannot be read, the exit code is 6.",
    .example = "everfold status -o json",
    .stores = CLI_JOURNAL_READ,
    .call = show_status,
};

#define INTERVAL_MS_DEFAULT 2000
#define INTERVAL_MS_MIN 100
#define WINDOW_S 10
#define STOP_SEEN_MS 200
#define WIDTH_DEFAULT 100 /* columns if stdout is no terminal */

typedef struct top {
    cli *c;
    int64_t interval_ms;
    int64_t next_us; /* when to read the overview again */
    int64_t read_us; /* when it was read last */
    ef__overview overview;
    cli_rate rate; /* of events appended */
    bool has_overview;
} top;

static ef_status read_overview(top *t, ef_error *err)
{
    ef__overview found;
    ef_status st = cli_overview_read(t->c, true, &found, err);
    int64_t now_us = cli_mono_us();

    t->next_us = now_us + t->interval_ms * 1000;
    if (st != EF_OK)
        return st;
    if (t->has_overview)
        cli_rate_spread(&t->rate, t->read_us, now_us,
                        found.head.position - t->overview.head.position);
    t->read_us = now_us;
    ef__overview_release(&t->overview);
    t->overview = found;
    t->has_overview = true;
    return EF_OK;
}

static cli_panel_facts gather_facts(top *t)
{
    return cli_panel_facts_of(t->c, &t->overview, &t->rate, WINDOW_S, t->next_us);
}

/* --- as text ---------------------------------------------------------------------------------- */

static ef_status show_panel(top *t, ef_error *err)
{
    cli_screen screen;
    ef_status st = EF_OK;

    cli_screen_open(&screen, t->c);
    while (st == EF_OK && cli_screen_wait(&screen)) {
        if (cli_mono_us() >= t->next_us && !screen.paused)
            st = read_overview(t, err);
        cli_panel_facts facts = gather_facts(t);
        if (st == EF_OK)
            cli_screen_show(&screen, &facts);
    }
    cli_screen_close(&screen);
    return st;
}

static void print_frame(top *t)
{
    size_t width = cli_terminal_width(STDOUT_FILENO);
    cli_panel_facts facts = gather_facts(t);

    facts.refresh_ms = -1;
    cli_panel_draw(&facts,
                   &(cli_panel_view){.width = width > 0 ? width : WIDTH_DEFAULT,
                                     .colour = cli_colour(t->c, CLI_BOLD)[0] != '\0'},
                   &t->c->out);
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static void add_lanes(ef__json_writer *w, const ef__overview *o)
{
    ef__json_member_open(w, "lanes", '[');
    for (size_t i = 0; i < o->lane_count; i++) {
        ef__json_open(w, '{');
        ef__json_member_name(w, "lane", o->lanes[i].name);
        ef__rows_write(w, &o->lanes[i].rows, "oldest_seconds", o->read_us);
        ef__json_close(w, '}');
    }
    ef__json_close(w, ']');
}

static void add_membership(ef__json_writer *w, const ef__overview *o)
{
    int64_t owned = cli_overview_owned(o, EF_STR(""));

    ef__json_member_open(w, "workers", '[');
    for (size_t i = 0; i < o->workers.count; i++) {
        const ef_worker *worker = &o->workers.items[i];
        ef__json_open(w, '{');
        ef__json_member_name(w, "id", worker->id);
        ef__json_member_name(w, "host", worker->host);
        ef__json_member_int(w, "pid", worker->pid);
        ef__json_member_bool(w, "live", worker->live);
        ef__json_member_name(w, "state",
                             ef_str_from(ef_name_of(EF_NAMES_WORKER_STATE, worker->state)));
        ef__member_seconds(w, "heartbeat_seconds", ef__age_ms(o->read_us, worker->updated_us));
        ef__json_member_int(w, "partitions", cli_overview_owned(o, worker->id));
        ef__json_close(w, '}');
    }
    ef__json_close(w, ']');
    ef__json_member_open(w, "partitions", '{');
    ef__json_member_int(w, "count", (int64_t)o->partitions.count);
    ef__json_member_int(w, "owned", owned);
    ef__json_member_int(w, "free", (int64_t)o->partitions.count - owned);
    ef__json_close(w, '}');
    ef__overview_write_runs(w, o);
}

static void print_object(top *t)
{
    ef__json_writer w = EF__JSON_WRITER(&t->c->out);
    const ef__overview *o = &t->overview;
    char rate[40];

    (void)snprintf(rate, sizeof rate, "%.1f", cli_rate_over(&t->rate, cli_mono_us(), WINDOW_S));
    ef__json_open(&w, '{');
    ef__json_member_time(&w, "ts", o->read_us);
    ef__json_member_name(&w, "mode", ef_str_from(cli_mode_name(t->c->mode)));
    ef__json_member_int(&w, "position", o->head.position);
    ef__json_member_raw(&w, "appended_per_second", ef_str_from(rate));
    ef__json_member_open(&w, "outbox", '{');
    ef__rows_write(&w, &o->outbox, "oldest_seconds", o->read_us);
    ef__json_close(&w, '}');
    add_lanes(&w, o);
    ef__overview_write_projections(&w, o);
    add_membership(&w, o);
    ef__json_member_open(&w, "errors", '[');
    for (size_t i = 0; i < o->troubles.count; i++) {
        ef__json_open(&w, '{');
        ef__json_member_time(&w, "at", o->troubles.items[i].at_us);
        ef__json_member_name(&w, "text", ef_str_from(o->troubles.items[i].text));
        ef__json_close(&w, '}');
    }
    ef__json_close(&w, ']');
    cli_object_end(t->c, &w);
}

/* --- the command ------------------------------------------------------------------------------ */

/* Sleeps until the next interval; false after a signal or when stdout was closed. */
static bool wait_for_next(const top *t)
{
    int64_t left_us = t->next_us - cli_mono_us();

    for (; left_us > 0 && !cli_stopped() && !cli_reader_gone(t->c);
         left_us = t->next_us - cli_mono_us())
        cli_sleep_us(left_us < STOP_SEEN_MS * 1000 ? left_us : STOP_SEEN_MS * 1000);
    return !cli_stopped() && !cli_reader_gone(t->c);
}

static ef_status print_frames(top *t, bool once, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t n = 0; st == EF_OK; n++) {
        if (t->c->format == CLI_TABLE) {
            ef__buf_add_text(&t->c->out, n > 0 ? "\n" : "");
            print_frame(t);
        } else {
            print_object(t);
        }
        if (!cli_flush(t->c) || once || !wait_for_next(t))
            break;
        st = read_overview(t, err);
    }
    return st;
}

static ef_status check_interval(cli *c, ef_error *err)
{
    return cli_int(c, "interval") >= INTERVAL_MS_MIN
               ? EF_OK
               : ef_fail(err, EF_BAD_INPUT, "--interval is too short: minimum is %d ms",
                         INTERVAL_MS_MIN);
}

static ef_status show_top(cli *c, ef_error *err)
{
    top t = {.c = c,
             .interval_ms = cli_int(c, "interval"),
             .overview = {.views_error = EF_ERROR_INIT},
             .rate = {.started_us = cli_mono_us()}};
    ef_status st;

    cli_stop_on_signals();
    st = read_overview(&t, err);
    if (st == EF_OK)
        st = !cli_has(c, "once") && cli_screen_possible(c)
                 ? show_panel(&t, err)
                 : print_frames(&t, cli_has(c, "once"), err);
    ef__overview_release(&t.overview);
    return st;
}

const cli_command cli_cmd_top = {
    .name = "top",
    .summary = "live overview of outbox, projections, workers and partitions",
    .options = CLI_OPTIONS(CLI_DURATION("interval", "D", INTERVAL_MS_DEFAULT,
                                        "refresh interval: 500ms, 5s (default 2s)"),
                           CLI_FLAG("once", "print one frame as text, or one object, and exit")),
    .more =
        "The command only reads. On a terminal it shows a panel: q quits, p pauses, e shows the\n"
        "errors, ? the keys. Otherwise a frame is printed per interval; with -o json, one\n"
        "object per line. Covers all tenants.",
    .example = "everfold top --once",
    .check = check_interval,
    .stores = CLI_JOURNAL_READ,
    .call = show_top,
};
