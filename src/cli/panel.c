/*
 * panel.c - see panel.h.
 *
 *     everfold work  outbox_apply_only  up 0:01:23
 *     All is well: every event is in every view.
 *     summary     worker w  heartbeat 2 s ago …     throughput  claimed 5 …
 *     partitions  desired 16 …                      tasks       queue idle …
 *     PROJECTION  STATE  LAG  AGE  VIEWS  FAILURES  UNACCOUNTED
 *     ERROR
 *     q quit  p pause …
 */
#include "panel.h"
#include "../shape/overview.h"
#include "layout.h"

#define TWO_COLUMNS 90
#define THREE_COLUMNS 140
#define TWO_LISTS 150 /* lists are placed side by side from this width */
#define SHORT_HEADS 72
#define SHORT_LISTS 56
#define HEALTH_ROWS_MIN 6  /* a lower terminal does not show the health line */
#define HEALTH_LINES_MAX 3 /* maximum lines of the health text */
#define NO_LIMIT (SIZE_MAX / 2)

/* --- numbers ---------------------------------------------------------------------------------- */

static void age_text(int64_t ms, char out[32])
{
    int64_t s = ms / 1000;

    if (ms < 0)
        (void)snprintf(out, 32, "-");
    else if (s < 120)
        (void)snprintf(out, 32, "%" PRId64 " s", s);
    else if (s < 7200)
        (void)snprintf(out, 32, "%" PRId64 " min", s / 60);
    else if (s < 48 * 3600)
        (void)snprintf(out, 32, "%" PRId64 " h", s / 3600);
    else
        (void)snprintf(out, 32, "%" PRId64 " d", s / 86400);
}

/* A count that should be 0; red otherwise. */
static void add_bad(cli_flow *flow, const char *name, int64_t number)
{
    cli_flow_printf(flow, "%s%s %" PRId64 "%s", number ? CLI_MARK_RED : "", name, number,
                    number ? CLI_MARK_PLAIN : "");
}

static void add_number(cli_flow *flow, const char *name, int64_t number)
{
    cli_flow_printf(flow, "%s %" PRId64, name, number);
}

static void add_escaped(cli_flow *flow, const char *name, ef_str text)
{
    EF__AUTO(ef__buf) item = EF__BUF_INIT(CLI_OUT_MAX);

    ef__buf_add_text(&item, name);
    cli_escape(&item, text);
    cli_flow_add(flow, ef__buf_str(&item));
}

/* --- sections --------------------------------------------------------------------------------- */

/* The first part of the durability text ("acks survive: process crash yes, power loss yes; …"),
 * split so that it fits on two lines. */
static void add_durability(cli_flow *flow, const char *text)
{
    size_t left = strcspn(text, ";");

    while (left > 0) {
        size_t n = strcspn(text, ",");
        n = n < left ? n : left;
        add_escaped(flow, "", (ef_str){text, n});
        n += strspn(text + n, ", ");
        text += n < left ? n : left;
        left -= n < left ? n : left;
    }
}

static void add_summary(const cli_panel_facts *f, cli_section *section, size_t width)
{
    const ef__overview *o = f->overview;
    cli_flow flow;
    char age[32];

    cli_flow_begin(&flow, section, width, "summary");
    if (f->work) {
        add_escaped(&flow, "worker ", f->work->worker);
        age_text(f->work->heartbeat_ms, age);
        if (f->work->heartbeat_ms >= 0)
            cli_flow_printf(&flow, "heartbeat %s ago", age);
    }
    cli_flow_printf(&flow, "workers %zu live", o->workers_live);
    if (o->workers_idle > 0)
        cli_flow_printf(&flow, "%zu idle", o->workers_idle);
    if (f->refresh_ms >= 0) {
        age_text(f->refresh_ms + 999, age);
        cli_flow_printf(&flow, "refresh in %s", age);
    }
    if (o->runs_queued + o->runs_running > 0)
        cli_flow_printf(&flow, "runs %" PRId64 " running, %" PRId64 " queued", o->runs_running,
                        o->runs_queued);
    cli_flow_break(&flow);
    add_durability(&flow, o->facts.durability);
    cli_flow_end(&flow);
}

/* Throughput of the last minute as bars, as many as fit. */
static void add_history(const cli_panel_facts *f, cli_flow *flow, size_t width)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const size_t counts[] = {60, 30, 20, 15, 12, 10};
    size_t count = 10;
    int64_t sums[CLI_PANEL_HISTORY] = {0}, most = 0;
    EF__AUTO(ef__buf) text = EF__BUF_INIT(4096);

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i] + CLI_FLOW_INDENT <= width && counts[i] > count)
            count = counts[i];
    for (size_t i = 0; i < CLI_PANEL_HISTORY; i++)
        sums[i / (CLI_PANEL_HISTORY / count)] += f->history[i];
    for (size_t i = 0; i < count; i++)
        most = sums[i] > most ? sums[i] : most;
    for (size_t i = 0; i < count; i++)
        ef__buf_add_text(&text, sums[i] <= 0 ? bars[0] : bars[(sums[i] * 7 + most - 1) / most]);
    cli_flow_add(flow, ef__buf_str(&text));
}

static void add_throughput(const cli_panel_facts *f, cli_section *section, size_t width)
{
    cli_flow flow;

    cli_flow_begin(&flow, section, width, f->work ? "throughput" : "journal");
    if (f->work) {
        const ef_tick *sum = &f->work->sum;
        add_number(&flow, "claimed", sum->claimed);
        add_number(&flow, "applied", sum->applied);
        add_number(&flow, "ignored", sum->ignored);
        add_bad(&flow, "failed", sum->failed);
        add_number(&flow, "deferred", sum->deferred);
        add_bad(&flow, "dead", sum->dead);
        add_number(&flow, "caught up", sum->caught_up);
    } else {
        add_number(&flow, "position", f->overview->head.position);
        add_number(&flow, "streams", f->overview->facts.streams);
    }
    cli_flow_printf(&flow, "%s%.1f/s over %" PRId64 " s", f->work ? "" : "appended ", f->rate,
                    f->window_s);
    add_history(f, &flow, width);
    cli_flow_end(&flow);
}

static void add_outbox(const cli_panel_facts *f, cli_section *section, size_t width)
{
    const ef__overview *o = f->overview;
    cli_flow flow;
    char age[32];

    cli_flow_begin(&flow, section, width, "outbox");
    add_number(&flow, "pending", o->outbox.pending);
    add_number(&flow, "processing", o->outbox.processing);
    add_bad(&flow, "failed", o->outbox.failed);
    add_bad(&flow, "dead", o->outbox.dead);
    add_bad(&flow, "blocked", o->outbox.blocked);
    age_text(o->oldest_ms, age);
    cli_flow_printf(&flow, "oldest %s", age);
    cli_flow_end(&flow);
}

static void add_partitions(const cli_panel_facts *f, cli_section *section, size_t width)
{
    const ef__overview *o = f->overview;
    int64_t owned = cli_overview_owned(o, EF_STR("")), pending = 0, in_flight = 0, retry_rows = 0;
    cli_flow flow;

    cli_flow_begin(&flow, section, width, "partitions");
    add_number(&flow, "of", o->facts.partitions);
    if (f->work) {
        const ef_tick *sum = &f->work->sum;
        add_number(&flow, "desired", sum->desired_count);
        add_number(&flow, "owned", sum->owned_count);
        add_number(&flow, "leased", sum->leased_count);
        add_number(&flow, "released", sum->released_count);
        add_number(&flow, "lost", sum->lost_count);
    } else {
        for (size_t i = 0; i < o->partitions.count; i++) {
            pending += o->partitions.items[i].pending;
            in_flight += o->partitions.items[i].in_flight;
            retry_rows += o->partitions.items[i].retry_rows;
        }
        add_number(&flow, "owned", owned);
        add_number(&flow, "free", (int64_t)o->partitions.count - owned);
        add_number(&flow, "pending", pending);
        add_number(&flow, "in flight", in_flight);
        add_number(&flow, "retry rows", retry_rows);
    }
    cli_flow_end(&flow);
}

static void add_tasks(const cli_panel_facts *f, cli_section *section, size_t width)
{
    cli_flow flow;

    cli_flow_begin(&flow, section, width, "tasks");
    for (size_t i = 0; i < f->work->task_count; i++) {
        const ef_task *p = &f->work->tasks[i];
        bool bad = p->state == EF_TASK_RETRYING || p->stalled_us > 0;
        char more[96] = "";
        if (p->failures_in_a_row > 0)
            (void)snprintf(more, sizeof more, " (%" PRId64 " failures)", p->failures_in_a_row);
        if (p->stalled_us > 0)
            (void)snprintf(more, sizeof more, " (stalled for %" PRId64 " s, %" PRId64 " failures)",
                           p->stalled_us / 1000000, p->failures_in_a_row);
        cli_flow_printf(&flow, "%s%s %s%s%s", bad ? CLI_MARK_YELLOW : "", p->name,
                        ef_name_of(EF_NAMES_TASK_STATE, p->state), more, bad ? CLI_MARK_PLAIN : "");
    }
    cli_flow_end(&flow);
}

/* --- lists ------------------------------------------------------------------------------------ */

static void add_name(cli_table *table, ef_str name, const char *suffix)
{
    EF__AUTO(ef__buf) cell = EF__BUF_INIT(CLI_OUT_MAX);

    cli_escape(&cell, name);
    ef__buf_add_text(&cell, suffix);
    cli_table_add(table, ef__buf_str(&cell));
}

static void add_bad_cell(cli_table *table, int64_t number)
{
    cli_table_printf(table, "%s%" PRId64 "%s", number ? CLI_MARK_RED : "", number,
                     number ? CLI_MARK_PLAIN : "");
}

static bool any_blocked(const ef_projection_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].blocked_events > 0)
            return true;
    return false;
}

static void add_projections(const cli_panel_facts *f, cli_section *section, size_t width)
{
    static const char *const heads[] = {"PROJECTION", "STATE",    "LAG",         "SECONDS",
                                        "VIEWS",      "FAILURES", "UNACCOUNTED", "BLOCKED"};
    static const char *const brief[] = {"PROJECTION", "STATE", "LAG",   "SECS",
                                        "VIEWS",      "FAIL",  "UNACC", "BLOCK"};
    bool blocked = any_blocked(&f->overview->projections); /* the column is shown only if needed */
    cli_table table = CLI_TABLE_INIT(width < SHORT_HEADS ? brief : heads, blocked ? 8 : 7, 0xFC);
    const ef__overview *o = f->overview;

    for (size_t i = 0; i < o->projections.count; i++) {
        const ef_projection *p = &o->projections.items[i];
        char version[32];
        int n = snprintf(version, sizeof version, " v%" PRId32, p->version);
        if (!p->active) /* not the active generation of that name */
            (void)snprintf(version + n, sizeof version - (size_t)n, " g%" PRId32, p->generation);
        add_name(&table, p->name, version);
        add_name(&table, p->state, "");
        cli_table_printf(&table, "%" PRId64, p->lag_events);
        cli_table_printf(&table, "%.1f", p->lag_us > 0 ? (double)p->lag_us / 1e6 : 0.0);
        cli_table_printf(&table, "%" PRId64, p->views);
        add_bad_cell(&table, p->failures);
        cli_table_printf(&table, "%" PRId64, p->unaccounted);
        if (blocked)
            add_bad_cell(&table, p->blocked_events);
    }
    cli_table_layout(&table, section, width);
    if (o->views_error.status != EF_OK) {
        EF__AUTO(ef__buf) line = EF__BUF_INIT(CLI_OUT_MAX);
        ef__buf_add_text(&line, CLI_MARK_RED "the views cannot be read: " CLI_MARK_PLAIN);
        cli_escape(&line, ef_str_from(o->views_error.text));
        cli_section_line(section, ef__buf_str(&line));
    } else if (o->projections.count == 0) {
        cli_section_line(section, EF_STR("none deployed"));
    }
}

static bool has_trouble(const ef__overview_lane *lane)
{
    return lane->rows.failed + lane->rows.dead + lane->rows.blocked > 0;
}

static void add_lane(const cli_panel_facts *f, const ef__overview_lane *lane, cli_table *table)
{
    const ef_row_list *oldest = &lane->rows.oldest;
    char age[32];

    age_text(ef__age_ms(f->now_us, oldest->count > 0 ? oldest->items[0].enqueued_us
                                                     : lane->rows.blocked_oldest_us),
             age);
    add_name(table, lane->name, "");
    cli_table_printf(table, "%" PRId64, lane->rows.pending);
    cli_table_printf(table, "%" PRId64, lane->rows.processing);
    add_bad_cell(table, lane->rows.failed);
    add_bad_cell(table, lane->rows.dead);
    add_bad_cell(table, lane->rows.blocked);
    cli_table_printf(table, "%s", age);
}

/* Lanes with problems come first, because the last ones are cut if space is short. */
static void add_lanes(const cli_panel_facts *f, cli_section *section, size_t width)
{
    static const char *const heads[] = {"LANE", "PENDING", "PROCESSING", "FAILED",
                                        "DEAD", "BLOCKED", "OLDEST"};
    static const char *const brief[] = {"LANE", "PEND", "PROC", "FAIL", "DEAD", "BLOCK", "OLD"};
    cli_table table = CLI_TABLE_INIT(width < SHORT_LISTS ? brief : heads, 7, 0x7E);

    for (int calm = 0; calm <= 1; calm++)
        for (size_t i = 0; i < f->overview->lane_count; i++)
            if (has_trouble(&f->overview->lanes[i]) != calm)
                add_lane(f, &f->overview->lanes[i], &table);
    cli_table_layout(&table, section, width);
}

static void add_workers(const cli_panel_facts *f, cli_section *section, size_t width)
{
    static const char *const heads[] = {"WORKER", "PID", "STATE", "HEARTBEAT", "UP", "PARTITIONS"};
    static const char *const brief[] = {"WORKER", "PID", "STATE", "BEAT", "UP", "PARTS"};
    cli_table table = CLI_TABLE_INIT(width < SHORT_LISTS ? brief : heads, 6, 0x3A);
    const ef__overview *o = f->overview;

    for (size_t i = 0; i < o->workers.count; i++) {
        const ef_worker *w = &o->workers.items[i];
        bool silent;
        char age[32];
        add_name(&table, w->id, "");
        cli_table_printf(&table, "%" PRId64, w->pid);
        silent = w->state == EF_WORKER_LATE || w->state == EF_WORKER_STALE;
        cli_table_printf(&table, "%s%s%s", silent ? CLI_MARK_YELLOW : "",
                         ef_name_of(EF_NAMES_WORKER_STATE, w->state), silent ? CLI_MARK_PLAIN : "");
        age_text(ef__age_ms(f->now_us, w->updated_us), age);
        cli_table_printf(&table, "%s", age);
        age_text(ef__age_ms(f->now_us, w->started_us), age);
        cli_table_printf(&table, "%s", age);
        cli_table_printf(&table, "%" PRId64, cli_overview_owned(o, w->id));
    }
    cli_table_layout(&table, section, width);
    if (o->workers.count == 0)
        cli_section_line(section, EF_STR("no worker is running"));
}

static void add_errors(const cli_panel_facts *f, cli_section *section, size_t width)
{
    static const char *const heads[] = {"ERROR", ""};
    cli_table table = CLI_TABLE_INIT(heads, 2, 0);

    for (size_t i = 0; i < f->troubles->count; i++) {
        const ef__trouble *t = &f->troubles->items[i];
        char age[32];
        age_text(ef__age_ms(f->now_us, t->at_us), age);
        cli_table_printf(&table, CLI_MARK_YELLOW "%s" CLI_MARK_PLAIN, age);
        add_name(&table, ef_str_from(t->text), "");
    }
    cli_table_layout(&table, section, width);
    if (f->troubles->count == 0)
        cli_section_line(section, EF_STR("none"));
}

/* --- pages ------------------------------------------------------------------------------------ */

static size_t column_count(size_t width)
{
    return width < TWO_COLUMNS ? 1 : width < THREE_COLUMNS ? 2 : 3;
}

/* Writes text over the full width, broken between words; further lines are indented. */
static void add_wrapped(cli_section *section, ef_str text, size_t width, size_t indent)
{
    EF__AUTO(ef__buf) line = EF__BUF_INIT(CLI_OUT_MAX);

    indent = indent < width / 2 ? indent : 0;
    for (size_t before = 0; text.len > 0; before = indent) {
        ef_str fits = cli_text_cut(text, width - before);
        size_t n = fits.len;
        if (n == 0) /* a character wider than the line */
            break;
        while (fits.len < text.len && n > 0 && text.ptr[n] != ' ')
            n--;
        n = n > fits.len / 2 ? n : fits.len; /* a word longer than the line is split */
        ef__buf_reset(&line);
        cli_spaces(&line, before);
        ef__buf_add_str(&line, (ef_str){text.ptr, n});
        cli_section_line(section, ef__buf_str(&line));
        n += n < text.len && text.ptr[n] == ' ' ? 1 : 0;
        text.ptr += n;
        text.len -= n;
    }
}

static void draw_errors(const cli_panel_facts *f, const cli_panel_view *v, size_t height,
                        ef__buf *out)
{
    EF__AUTO(cli_section) section = CLI_SECTION_INIT;

    for (size_t i = 0; i < f->troubles->count; i++) {
        const ef__trouble *t = &f->troubles->items[i];
        EF__AUTO(ef__buf) line = EF__BUF_INIT(CLI_OUT_MAX);
        char age[32];
        age_text(ef__age_ms(f->now_us, t->at_us), age);
        ef__buf_printf(&line, "%s ago: ", age);
        cli_escape(&line, ef_str_from(t->text));
        add_wrapped(&section, ef__buf_str(&line), v->width, 4);
    }
    if (f->troubles->count == 0)
        cli_section_line(&section, EF_STR("no errors"));
    (void)cli_band_write(&(cli_band){&section, 1, 1, v->width, v->colour, false}, height, out);
}

static void draw_help(const cli_panel_view *v, size_t height, ef__buf *out)
{
    static const char *const lines[] = {
        "q, Ctrl-C  quit: batches in flight are finished first",
        "p          pause and resume redrawing",
        "e          latest errors in full, and back",
        "?          this page, and back",
        "",
        "lag          events that a projection has not applied yet",
        ("unaccounted  events that are neither applied nor queued. It varies while events are "
         "applied; "
         "when idle it must be 0, otherwise see: everfold doctor"),
        "blocked      rows after a dead row of their stream: everfold outbox report",
        "errors       of this process, and open failures: everfold projection failures NAME",
    };
    EF__AUTO(cli_section) section = CLI_SECTION_INIT;

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (lines[i][0])
            add_wrapped(&section, ef_str_from(lines[i]), v->width, i < 4 ? 11 : 13);
        else
            cli_section_line(&section, EF_STR(""));
    (void)cli_band_write(&(cli_band){&section, 1, 1, v->width, v->colour, false}, height, out);
}

static void draw_all(const cli_panel_facts *f, const cli_panel_view *v, size_t height, ef__buf *out)
{
    cli_section small[5] = {CLI_SECTION_INIT, CLI_SECTION_INIT, CLI_SECTION_INIT, CLI_SECTION_INIT,
                            CLI_SECTION_INIT};
    cli_section lists[4] = {CLI_SECTION_INIT, CLI_SECTION_INIT, CLI_SECTION_INIT, CLI_SECTION_INIT};
    cli_band top = {small, 5, column_count(v->width), v->width, v->colour, false};
    cli_band bottom = {lists, 4, v->width < TWO_LISTS ? 1 : 2, v->width, v->colour, true};
    size_t column = cli_band_column(v->width, top.columns);
    size_t list = cli_band_column(v->width, bottom.columns);

    add_summary(f, &small[0], column);
    add_throughput(f, &small[1], column);
    add_partitions(f, &small[2], column);
    if (f->work)
        add_tasks(f, &small[3], column);
    add_outbox(f, &small[4], column);
    add_projections(f, &lists[0], list);
    if (!f->work) {
        add_lanes(f, &lists[1], list);
        add_workers(f, &lists[2], list);
    }
    add_errors(f, &lists[3], list);
    /* The lists get the remaining lines, at least half. */
    size_t needed = cli_band_height(&bottom);
    size_t kept = needed < height / 2 ? needed : height / 2;
    size_t used = cli_band_write(&top, height - kept, out);
    if (used + needed < height) {
        ef__buf_add_char(out, '\n');
        used++;
    }
    (void)cli_band_write(&bottom, height - used, out);
    for (size_t i = 0; i < 5; i++)
        cli_section_release(&small[i]);
    for (size_t i = 0; i < 4; i++)
        cli_section_release(&lists[i]);
}

static void draw_title(const cli_panel_facts *f, const cli_panel_view *v, ef__buf *out)
{
    int64_t s = f->up_ms / 1000;
    char line[256];

    (void)snprintf(line, sizeof line,
                   CLI_MARK_BOLD "everfold %s" CLI_MARK_PLAIN "  %s  up %" PRId64 ":%02" PRId64
                                 ":%02" PRId64 "%s",
                   f->title, f->mode, s / 3600, s / 60 % 60, s % 60,
                   v->paused ? CLI_MARK_YELLOW "  paused" : "");
    cli_line_write(out, ef_str_from(line), v->width, v->colour);
    ef__buf_add_char(out, '\n');
}

/* Draws the health text, the same as in the monitor. Returns the number of lines. */
static size_t draw_health(const cli_panel_facts *f, const cli_panel_view *v, ef__buf *out)
{
    static const char *const marks[] = {CLI_MARK_PLAIN, CLI_MARK_YELLOW, CLI_MARK_RED};
    char text[EF__HEALTH_TEXT];
    ef__health health = ef__overview_health(f->overview, text);
    EF__AUTO(ef__buf) sentence = EF__BUF_INIT(CLI_OUT_MAX);
    EF__AUTO(cli_section) lines = CLI_SECTION_INIT;
    size_t count;

    cli_escape(&sentence, ef_str_from(text));
    add_wrapped(&lines, ef__buf_str(&sentence), v->width, 0);
    count = lines.count < HEALTH_LINES_MAX ? lines.count : HEALTH_LINES_MAX;
    const char *at = lines.lines.ptr;
    for (size_t i = 0; i < count; i++) {
        ef__buf_reset(&sentence);
        ef__buf_printf(&sentence, "%s%s" CLI_MARK_PLAIN, marks[health], at);
        cli_line_write(out, ef__buf_str(&sentence), v->width, v->colour);
        ef__buf_add_char(out, '\n');
        at += strlen(at) + 1;
    }
    return count;
}

void cli_panel_draw(const cli_panel_facts *f, const cli_panel_view *v, ef__buf *out)
{
    size_t height = v->height > 0 ? v->height : NO_LIMIT;
    size_t frame = v->keys && height > 2 ? 2 : 1; /* title and keys */
    bool keys = frame == 2;
    size_t start;

    draw_title(f, v, out);
    start = out->len;
    if (height > HEALTH_ROWS_MIN) {
        frame += draw_health(f, v, out);
    }
    if (v->page == CLI_PANEL_ERRORS)
        draw_errors(f, v, height - frame, out);
    else if (v->page == CLI_PANEL_HELP)
        draw_help(v, height - frame, out);
    else
        draw_all(f, v, height - frame, out);
    if (!keys)
        return;
    /* The keys are always in the last line. */
    size_t rows = 1;
    for (size_t i = start; i < out->len; i++)
        rows += out->ptr[i] == '\n' ? 1 : 0;
    for (; v->height > 0 && rows + 1 < v->height; rows++)
        ef__buf_add_char(out, '\n');
    cli_line_write(out, EF_STR("q quit  p pause  e errors  ? help"), v->width, v->colour);
    ef__buf_add_char(out, '\n');
}
