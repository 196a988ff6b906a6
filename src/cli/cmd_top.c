/*
 * cmd_top.c - everfold top: the live overview of a journal.
 *
 * It only reads and acquires no lease. On a terminal it shows a panel; otherwise it prints a text
 * frame or a JSON object per interval.
 */
#include "commands.h"
#include "workers.h"
#include "projection.h"
#include "rate.h"
#include "screen.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_MS_DEFAULT 2000
#define INTERVAL_MS_MIN 100
#define WINDOW_S 10
#define STOP_SEEN_MS 200
#define WIDTH_DEFAULT 100 /* columns if stdout is no terminal */

typedef struct top {
    cli *c;
    int64_t interval_ms;
    int64_t started_us; /* monotonic */
    int64_t next_us;    /* when to read the overview again */
    int64_t read_us;    /* when it was read last */
    ef__overview overview;
    cli_rate rate; /* of events appended */
    bool has_overview;
} top;

static int64_t mono_us(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context);
}

static ef_status read_overview(top *t, ef_error *err)
{
    ef__overview found;
    ef_status st = cli_overview_read(t->c, true, &found, err);
    int64_t now_us = mono_us();

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
    const ef_clock *clock = ef_clock_system();
    int64_t now_us = mono_us();
    cli_panel_facts facts = {.title = "top",
                             .mode = cli_mode_name(t->c->mode),
                             .overview = &t->overview,
                             .troubles = &t->overview.troubles,
                             .now_us = clock->wall_us(clock->context),
                             .up_ms = (now_us - t->started_us) / 1000,
                             .refresh_ms = t->next_us > now_us ? (t->next_us - now_us) / 1000 : 0,
                             .window_s = WINDOW_S,
                             .rate = cli_rate_over(&t->rate, now_us, WINDOW_S)};

    cli_rate_history(&t->rate, now_us, facts.history, CLI_PANEL_HISTORY);
    return facts;
}

/* --- as text ---------------------------------------------------------------------------------
 */

static ef_status show_panel(top *t, ef_error *err)
{
    cli_screen screen;
    ef_status st = EF_OK;

    cli_screen_open(&screen, t->c);
    while (st == EF_OK && cli_screen_wait(&screen)) {
        if (mono_us() >= t->next_us && !screen.paused)
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

/* --- as JSON -------------------------------------------------------------------------------
 */

static void add_seconds(ef__json_writer *w, const char *key, int64_t ms)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%" PRId64 ".%03" PRId64, ms / 1000, ms % 1000);
    ef__json_key(w, key);
    if (ms < 0)
        ef__json_null(w);
    else
        ef__json_raw(w, ef_str_from(text));
}

static void add_counts(ef__json_writer *w, const ef_outbox_summary *rows, int64_t now_us)
{
    ef__json_member_int(w, "pending", rows->pending);
    ef__json_member_int(w, "processing", rows->processing);
    ef__json_member_int(w, "failed", rows->failed);
    ef__json_member_int(w, "dead", rows->dead);
    ef__json_member_int(w, "blocked", rows->blocked);
    add_seconds(w, "oldest_seconds",
                rows->oldest.count > 0 ? ef__age_ms(now_us, rows->oldest.items[0].enqueued_us)
                                       : -1);
    add_seconds(w, "blocked_seconds", ef__age_ms(now_us, rows->blocked_oldest_us));
}

static void add_lanes(ef__json_writer *w, const ef__overview *o)
{
    ef__json_member_open(w, "lanes", '[');
    for (size_t i = 0; i < o->lane_count; i++) {
        ef__json_open(w, '{');
        ef__json_member_name(w, "lane", o->lanes[i].name);
        add_counts(w, &o->lanes[i].rows, o->read_us);
        ef__json_close(w, '}');
    }
    ef__json_close(w, ']');
}

static void add_projections(ef__json_writer *w, const ef__overview *o)
{
    ef__json_member_open(w, "projections", '[');
    for (size_t i = 0; i < o->projections.count; i++)
        ef__projection_write(w, &o->projections.items[i]);
    ef__json_close(w, ']');
    ef__json_member_int(w, "unaccounted", o->unaccounted);
    ef__json_member_name(w, "views_error", ef_str_from(o->views_error.text));
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
        ef__json_member_name(w, "state", ef_str_from(ef_worker_state_name(worker->state)));
        add_seconds(w, "heartbeat_seconds", ef__age_ms(o->read_us, worker->updated_us));
        ef__json_member_int(w, "partitions", cli_overview_owned(o, worker->id));
        ef__json_close(w, '}');
    }
    ef__json_close(w, ']');
    ef__json_member_open(w, "partitions", '{');
    ef__json_member_int(w, "count", (int64_t)o->partitions.count);
    ef__json_member_int(w, "owned", owned);
    ef__json_member_int(w, "free", (int64_t)o->partitions.count - owned);
    ef__json_close(w, '}');
    ef__json_member_open(w, "runs", '{');
    ef__json_member_int(w, "queued", o->runs_queued);
    ef__json_member_int(w, "running", o->runs_running);
    ef__json_close(w, '}');
}

static void print_object(top *t)
{
    ef__json_writer w = EF__JSON_WRITER(&t->c->out);
    const ef__overview *o = &t->overview;
    char rate[40];

    (void)snprintf(rate, sizeof rate, "%.1f", cli_rate_over(&t->rate, mono_us(), WINDOW_S));
    ef__json_open(&w, '{');
    ef__json_member_time(&w, "ts", o->read_us);
    ef__json_member_name(&w, "mode", ef_str_from(cli_mode_name(t->c->mode)));
    ef__json_member_int(&w, "position", o->head.position);
    ef__json_member_raw(&w, "appended_per_second", ef_str_from(rate));
    ef__json_member_open(&w, "outbox", '{');
    add_counts(&w, &o->outbox, o->read_us);
    ef__json_close(&w, '}');
    add_lanes(&w, o);
    add_projections(&w, o);
    add_membership(&w, o);
    ef__json_member_open(&w, "errors", '[');
    for (size_t i = 0; i < o->troubles.count; i++) {
        ef__json_open(&w, '{');
        ef__json_member_time(&w, "at", o->troubles.items[i].at_us);
        ef__json_member_name(&w, "text", ef_str_from(o->troubles.items[i].text));
        ef__json_close(&w, '}');
    }
    ef__json_close(&w, ']');
    ef__json_close(&w, '}');
    ef__buf_add_char(&t->c->out, '\n');
}

/* --- the command --------------------------------------------------------------------------------
 */

/* Sleeps until the next interval; false after a signal or when stdout was closed. */
static bool wait_for_next(const top *t)
{
    struct timespec slice = {.tv_nsec = STOP_SEEN_MS * 1000000};
    int64_t left_us = t->next_us - mono_us();

    for (; left_us > 0 && !cli_stopped() && !cli_reader_gone(t->c);
         left_us = t->next_us - mono_us()) {
        if (left_us < STOP_SEEN_MS * 1000)
            slice.tv_nsec = left_us * 1000;
        (void)nanosleep(&slice, NULL);
    }
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

static int run_top(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    top t = {
        .c = c, .interval_ms = INTERVAL_MS_DEFAULT, .overview = {.views_error = EF_ERROR_INIT}};
    ef_status st = cli_duration(c, "interval", &t.interval_ms, &err);

    if (st == EF_OK && t.interval_ms < INTERVAL_MS_MIN)
        st = ef_fail(&err, EF_BAD_INPUT, "--interval is too short: minimum is %d ms",
                     INTERVAL_MS_MIN);
    int rc = st == EF_OK ? cli_journal_need(c, true) : cli_fail(c, &err, NULL);
    if (rc != 0)
        return rc;
    cli_stop_on_signals();
    t.started_us = t.rate.started_us = mono_us();
    st = read_overview(&t, &err);
    if (st == EF_OK)
        st = !cli_has(c, "once") && cli_screen_possible(c)
                 ? show_panel(&t, &err)
                 : print_frames(&t, cli_has(c, "once"), &err);
    ef__overview_release(&t.overview);
    return st == EF_OK ? 0 : cli_fail(c, &err, NULL);
}

const cli_command cli_cmd_top = {
    .name = "top",
    .summary = "live overview of outbox, projections, workers and partitions",
    .options = CLI_OPTIONS(
        {"interval", 0, "D", NULL, NULL, "refresh interval: 500ms, 5s (default 2s)"},
        {"once", 0, NULL, NULL, NULL, "print one frame as text, or one object, and exit"}),
    .more =
        "The command only reads. On a terminal it shows a panel: q quits, p pauses, e shows the\n"
        "errors, ? the keys. Otherwise a frame is printed per interval; with -o json, one\n"
        "object per line. Covers all tenants.",
    .example = "everfold top --once",
    .run = run_top,
};
