/*
 * cmd_work.c - everfold work: run workers.
 *
 * --once runs one tick. --drain runs ticks until nothing is due. Otherwise a supervisor runs one
 * thread per task, and the main thread waits for a signal: the first lets the batches in flight
 * finish, a second one ends the process at once. On a terminal a panel is shown (work_panel.c);
 * elsewhere nothing, or the totals of each --window in a line.
 */
#include "panel.h"

#include "../server/server.h"

#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#define EXIT_TIMED_OUT 5 /* as ef_status_describe(EF_TIMEOUT)->exit_code */
#define EXIT_UNHEALTHY 6

/* Counts of a backlog: key in JSON, then the text for one and for several. */
static const struct left_kind {
    const char *key;
    size_t offset;
    const char *one, *many;
} left_kinds[] = {
#define LEFT(key, one, many)                                                                       \
    {                                                                                              \
#key, offsetof(ef_backlog, key), one, many                                                 \
    }
    LEFT(queued, "row is queued", "rows are queued"),
    LEFT(behind, "projection lags", "projections lag"),
    LEFT(runs, "run is open", "runs are open"),
    LEFT(retrying, "row failed and will be retried", "rows failed and will be retried"),
    LEFT(tenants, "tenant of a log-ordered projection is blocked",
         "tenants of log-ordered projections are blocked"),
    LEFT(dead, "row is dead", "rows are dead"),
    LEFT(blocked, "event is blocked by a failed one", "events are blocked by failed ones"),
    LEFT(failed, "projection has failed", "projections have failed"),
    LEFT(no_function, "projection is written in C and not part of this program",
         "projections are written in C and not part of this program"),
    LEFT(unpublished, "message is not published", "messages are not published"),
#undef LEFT
};

static int64_t left_count(const ef_backlog *left, const struct left_kind *kind)
{
    return *(const int64_t *)(const void *)((const char *)left + kind->offset);
}

static void write_counts(cli *c, const ef_backlog *left)
{
    ef__json_writer writer = EF__JSON_WRITER(&c->out);

    ef__json_open(&writer, '{');
    ef__json_member_open(&writer, "left", '{');
    for (size_t i = 0; i < sizeof left_kinds / sizeof *left_kinds; i++)
        ef__json_member_int(&writer, left_kinds[i].key, left_count(left, &left_kinds[i]));
    ef__json_member_time(&writer, "next_attempt_at", left->due_us);
    ef__json_close(&writer, '}');
    cli_object_end(c, &writer);
    (void)cli_flush(c);
}

/* Is anything left that workers can do now: queued rows, projections that lag, open runs? */
static bool backlog_is_open(const ef_backlog *left)
{
    return left->queued || left->behind || left->runs;
}

/* Reports the backlog, as JSON unless `silent`, and on stderr. Returns the exit code: 0 if nothing
 * is left, 5 if other workers hold the rest, 6 if events failed or are blocked. */
static int backlog_report(cli *c, const ef_backlog *left, bool silent)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(4096);

    for (size_t i = 0; i < sizeof left_kinds / sizeof *left_kinds; i++) {
        int64_t count = left_count(left, &left_kinds[i]);
        if (count)
            ef__buf_printf(&text, "%s%" PRId64 " %s", text.len ? ", " : "", count,
                           count == 1 ? left_kinds[i].one : left_kinds[i].many);
    }
    if (!text.len)
        return 0;
    if (left->due_us > cli_wall_us())
        ef__buf_printf(&text, "; the next retry is due in %" PRId64 " s",
                       (left->due_us - cli_wall_us()) / 1000000 + 1);
    if (c->format != CLI_TABLE && !silent)
        write_counts(c, left);
    cli_warn(c, "everfold: not everything is applied: %.*s", (int)text.len, text.ptr);
    return backlog_is_open(left) ? EXIT_TIMED_OUT : EXIT_UNHEALTHY;
}

#define THREADS 4
#define CONNECTIONS 64

/* Serves them at worker.metrics_listen, by the rules of `serve`: an address that is not loopback
 * needs TLS and a token. *out is NULL without that setting. */
static ef_status start_metrics(cli *c, ef_supervisor *supervisor, ef__server **out, ef_error *err)
{
    ef__server_options options = cli_server_options(c);

    *out = NULL;
    options.listen = cli_setting_text(c, "worker.metrics_listen");
    if (!options.listen)
        return EF_OK;
    options.supervisor = supervisor;
    options.threads_max = THREADS;
    options.connections_max = CONNECTIONS;
    options.probes_only = true;
    return ef__server_start(&options, out, err);
}

#define METRICS_DRAIN_MS 1000
#define WINDOW_S_DEFAULT 10 /* window of the rate in the panel */
#define STOP_SEEN_MS 200    /* interval at which the shadow worker checks for signals */
#define SHADOWS_MAX 1000
#define PAUSE_MS 5             /* poll interval while a catch-up pauses for live work */
#define OTHERS_MS 50           /* poll interval while other workers hold the rest */
#define STUCK_MS 30000         /* without progress for this long, the drain gives up */
#define KEEP_BYTES (64 << 20)  /* freed memory that stays in the process for the next batch */
#define UNMAP_BYTES (32 << 20) /* larger blocks are returned to the system at once */

typedef struct work {
    cli *c;
    ef_work_options options;
    bool once, drain, silent, shadow;
    int64_t window_s;      /* 0: not asked for */
    cli_work_panel *panel; /* NULL without a panel */
    int64_t started_us;
    /* Guards the fields below and the output: tasks report from their own threads. */
    pthread_mutex_t lock;
    ef_tick sum; /* of all ticks */
    int64_t ticks;
    ef_tick window; /* of the ticks since window_us */
    int64_t window_us;
    cli_progress progress;
    bool drained;    /* --drain has ended */
    ef_backlog left; /* backlog at that time */
} work;

static void print_tick(cli *c, const ef_tick *tick)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    ef__json_open(&w, '{');
    ef__json_member_int(&w, "claimed", tick->claimed);
    ef__json_member_int(&w, "applied", tick->applied);
    ef__json_member_int(&w, "published", tick->published);
    ef__json_member_int(&w, "failed", tick->failed);
    ef__json_member_int(&w, "dead", tick->dead);
    ef__json_member_int(&w, "duration_ms", tick->duration_us / 1000);
    ef__json_member_int(&w, "backoff_ms", tick->backoff_ms);
    ef__json_member_int(&w, "renewed_heartbeat", tick->renewed_heartbeat);
    ef__json_member_int(&w, "purged_stale", tick->purged_stale);
    ef__json_member_int(&w, "active_workers", tick->active_workers);
    ef__json_member_int(&w, "desired_count", tick->desired_count);
    ef__json_member_int(&w, "owned_count", tick->owned_count);
    ef__json_member_int(&w, "leased_count", tick->leased_count);
    ef__json_member_int(&w, "released_count", tick->released_count);
    ef__json_member_time(&w, "ts", cli_wall_us());
    ef__json_member_int(&w, "lost_count", tick->lost_count);
    ef__json_member_int(&w, "ignored", tick->ignored);
    ef__json_member_int(&w, "deferred", tick->deferred);
    ef__json_member_int(&w, "caught_up", tick->caught_up);
    cli_object_end(c, &w);
}

static void write_sum(cli *c, const ef_tick *sum)
{
    ef__buf_printf(&c->out,
                   "claimed %" PRId64 "  caught up %" PRId64 "  applied %" PRId64
                   "  ignored %" PRId64 "  failed %" PRId64 "  dead %" PRId64,
                   sum->claimed, sum->caught_up, sum->applied, sum->ignored, sum->failed,
                   sum->dead);
    if (sum->published)
        ef__buf_printf(&c->out, "  published %" PRId64, sum->published);
}

static bool prints_windows(const work *w)
{
    return w->window_s && !w->panel && !w->silent && w->c->format == CLI_TABLE;
}

/* Prints the totals of the window if it is over, and starts the next. */
static void end_window(work *w)
{
    int64_t now_us = cli_mono_us(), spent_us = now_us - w->window_us;
    char time[EF_TIME_TEXT_MAX];

    if (!prints_windows(w) || spent_us < w->window_s * 1000000)
        return;
    ef_time_format(cli_wall_us(), time);
    cli_progress_clear(&w->progress);
    ef__buf_printf(&w->c->out, "%s  ", time);
    write_sum(w->c, &w->window);
    ef__buf_printf(&w->c->out, "  %.1f/s\n",
                   (double)(w->window.claimed + w->window.caught_up) * 1e6 / (double)spent_us);
    (void)cli_flush(w->c);
    w->window = (ef_tick){0};
    w->window_us = now_us;
}

static void report_tick(work *w, const ef_tick *tick)
{
    w->ticks++;
    cli_tick_add(&w->sum, tick);
    cli_tick_add(&w->window, tick);
    if (w->c->format != CLI_TABLE && !w->silent) {
        print_tick(w->c, tick);
        (void)cli_flush(w->c);
    }
    end_window(w);
    int64_t events = w->sum.claimed + w->sum.caught_up;
    cli_progress_update(&w->progress, events, 0, events);
}

/* --- ticks ------------------------------------------------------------------------------------ */

static bool may_continue(const work *w)
{
    return !cli_stopped() && w->c->out_state == CLI_OUT_OPEN;
}

static ef_status tick_once(work *w, ef_tick *tick, ef_error *err)
{
    ef_status st = ef_engine_work(w->c->engine, &w->options, tick, err);

    if (st == EF_OK)
        report_tick(w, tick);
    return st;
}

static int64_t work_done(const work *w)
{
    return w->sum.claimed + w->sum.caught_up + w->sum.published + w->sum.run_events;
}

/* Runs ticks until this engine has nothing due. */
static ef_status work_until_idle(work *w, ef_error *err)
{
    ef_tick tick = {.more = true};
    ef_status st = EF_OK;

    while (st == EF_OK && tick.more && may_continue(w)) {
        int64_t before = work_done(w);
        st = tick_once(w, &tick, err);
        if (tick.more && work_done(w) == before)
            cli_sleep_us(PAUSE_MS * 1000);
    }
    return st;
}

/* --- drain ------------------------------------------------------------------------------------ */

static bool is_same_backlog(const ef_backlog *a, const ef_backlog *b)
{
    return a->queued == b->queued && a->behind_events == b->behind_events && a->runs == b->runs &&
           a->run_events == b->run_events;
}

/* Other workers may hold a part of the backlog. The drain waits while it shrinks; leases of a
 * worker that died expire meanwhile. */
static ef_status drain_backlog(work *w, ef_error *err)
{
    int64_t stuck_ms = 3 * w->options.lease_ms > STUCK_MS ? 3 * w->options.lease_ms : STUCK_MS;
    ef_backlog before = {0};
    int64_t moved_us = cli_mono_us();
    ef_status st = EF_OK;

    while (st == EF_OK && may_continue(w)) {
        int64_t done = work_done(w);
        st = work_until_idle(w, err);
        if (st == EF_OK)
            st = ef_engine_backlog(w->c->engine, &w->left, err);
        if (st != EF_OK || !backlog_is_open(&w->left))
            break;
        if (!is_same_backlog(&before, &w->left) || work_done(w) != done)
            moved_us = cli_mono_us();
        if (cli_mono_us() - moved_us > stuck_ms * 1000)
            break;
        before = w->left;
        cli_sleep_us(OTHERS_MS * 1000);
    }
    w->drained = st == EF_OK && may_continue(w);
    return st;
}

/* --- shadow ----------------------------------------------------------------------------------- */

static ef_status report_shadow(work *w, ef_shadow *shadow, ef_error *err)
{
    ef_shadow_result *results = calloc(SHADOWS_MAX, sizeof *results);
    size_t count = 0;
    ef_status st = results ? ef_shadow_report(shadow, results, SHADOWS_MAX, &count, err)
                           : ef_fail(err, EF_NO_MEMORY, "out of memory");

    for (size_t i = 0; st == EF_OK && i < count && !w->silent; i++) {
        const ef_shadow_result *r = &results[i];
        ef__json_writer j = EF__JSON_WRITER(&w->c->out);
        if (w->c->format == CLI_TABLE) {
            ef__buf_printf(&w->c->out,
                           "shadow of %s: %s at position %" PRId64 ", %" PRId64 " applied, %" PRId64
                           " failed, %" PRId64 " dead, %" PRId64 " blocked (digest %s, live %s)\n",
                           r->name, r->same ? "the same" : "DIFFERENT", r->position, r->applied,
                           r->failed, r->dead, r->blocked, r->digest, r->live_digest);
            continue;
        }
        ef__json_open(&j, '{');
        ef__json_member_text(&j, "shadow_of", r->name);
        ef__json_member_int(&j, "position", r->position);
        ef__json_member_int(&j, "applied", r->applied);
        ef__json_member_int(&j, "failed", r->failed);
        ef__json_member_int(&j, "dead", r->dead);
        ef__json_member_int(&j, "blocked", r->blocked);
        ef__json_member_int(&j, "attempts", r->attempts);
        ef__json_member_text(&j, "digest", r->digest);
        ef__json_member_text(&j, "live_digest", r->live_digest);
        ef__json_member_bool(&j, "same", r->same);
        cli_object_end(w->c, &j);
    }
    free(results);
    (void)cli_flush(w->c);
    return st;
}

static ef_status run_shadow(work *w, ef_error *err)
{
    ef_shadow *shadow = NULL;
    ef_head head = {0};
    ef_tick tick;
    ef_status st = ef_shadow_open(w->c->engine, &shadow, err);

    while (st == EF_OK && !cli_stopped() && !cli_reader_gone(w->c)) {
        st = ef_journal_head(w->c->journal, &head, err);
        if (st == EF_OK)
            st = ef_shadow_step(shadow, &tick, err);
        if (st == EF_OK)
            report_tick(w, &tick);
        if (st == EF_OK && (w->once || w->drain) && tick.owned_count == 0)
            st = ef_fail(err, EF_LEASE_HELD, "another shadow worker holds the leases");
        if (st != EF_OK || w->once || (w->drain && !tick.more))
            break;
        if (!tick.more)
            st = ef_journal_wait(w->c->journal, head.position, STOP_SEEN_MS, err);
        st = st == EF_TIMEOUT ? EF_OK : st;
    }
    if (st == EF_OK)
        st = report_shadow(w, shadow, err);
    ef_shadow_close(shadow);
    return st;
}

/* --- until a signal --------------------------------------------------------------------------- */

/* Called from the threads of the supervisor, one at a time. */
static void on_step(void *context, const char *task, const ef_tick *tick, const ef_error *error)
{
    work *w = context;

    if (w->panel)
        cli_work_panel_report(w->panel, task, tick, error);
    pthread_mutex_lock(&w->lock);
    if (!error) /* the supervisor logs errors */
        report_tick(w, tick);
    else if (!w->panel)
        cli_progress_clear(&w->progress);
    pthread_mutex_unlock(&w->lock);
}

/* Time until the end of the window. */
static struct timespec window_left(const work *w)
{
    int64_t left_us = w->window_us + w->window_s * 1000000 - cli_mono_us();

    left_us = left_us < 1000 ? 1000 : left_us;
    return (struct timespec){.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};
}

/* Waits for a signal or for a closed stdout. Signals are blocked except inside ppoll, so none is
 * lost between the check and the wait. */
static void wait_for_stop(work *w, const sigset_t *unblocked)
{
    struct pollfd reader = {.fd = STDOUT_FILENO};
    bool closed = false;

    while (!closed && !cli_stopped()) {
        struct timespec left;
        pthread_mutex_lock(&w->lock);
        left = window_left(w);
        pthread_mutex_unlock(&w->lock);
        (void)ppoll(&reader, 1, prints_windows(w) ? &left : NULL, unblocked);
        pthread_mutex_lock(&w->lock);
        end_window(w);
        closed = cli_reader_gone(w->c);
        pthread_mutex_unlock(&w->lock);
        if (reader.revents)
            reader.fd = -1; /* its state is known; polling it again would not block */
    }
}

static ef_status run_supervisor(work *w, ef_error *err)
{
    ef_supervisor *supervisor = NULL;
    ef__server *metrics = NULL;
    sigset_t ends, before;
    ef_status st;

    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    if (!w->panel) { /* the panel handles SIGHUP itself */
        cli_stop_on_hangup();
        (void)sigaddset(&ends, SIGHUP);
    }
    (void)pthread_sigmask(SIG_BLOCK, &ends, &before); /* inherited by the threads of the tasks */
    st = ef_supervisor_start(&(ef_supervisor_options){.engine = w->c->engine,
                                                      .work = w->options,
                                                      .interval_ms = ef__settings_int(
                                                          w->c->settings, "worker.poll_interval"),
                                                      .on_step = on_step,
                                                      .context = w},
                             &supervisor, err);
    if (st == EF_OK)
        st = start_metrics(w->c, supervisor, &metrics, err);
    if (metrics && !w->panel)
        cli_say(w->c, "everfold serves metrics at %s/metrics", ef__server_url(metrics));
    if (st == EF_OK && !w->panel)
        wait_for_stop(w, &before);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (st == EF_OK && w->panel)
        cli_work_panel_run(w->panel, supervisor);
    ef__server_stop(metrics, METRICS_DRAIN_MS);
    ef_supervisor_stop(supervisor);
    return st;
}

static void write_summary(work *w)
{
    int64_t ms = (cli_mono_us() - w->started_us) / 1000;

    ef__buf_printf(&w->c->out, "%" PRId64 " tick%s  ", w->ticks, cli_plural(w->ticks));
    write_sum(w->c, &w->sum);
    ef__buf_printf(&w->c->out, "  in %" PRId64 ".%03" PRId64 " s\n", ms / 1000, ms % 1000);
    (void)cli_flush(w->c);
    if (w->sum.failed > 0)
        cli_say(w->c, "failed events: everfold outbox report; of log-ordered projections: "
                      "everfold projection failures NAME");
}

static ef_status check_work(cli *c, ef_error *err)
{
    bool ends = cli_has(c, "once") || cli_has(c, "drain");
    bool shadow = cli_has(c, "shadow") || c->mode == CLI_MODE_SHADOW_ONLY;

    if (cli_has(c, "metrics-listen") && (ends || shadow))
        return ef_fail(err, EF_BAD_INPUT,
                       "--metrics-listen cannot be combined with --once, --drain or "
                       "--shadow");
    if (cli_has(c, "once") && cli_has(c, "drain"))
        return ef_fail(err, EF_BAD_INPUT, "--once and --drain cannot be combined");
    /* No worker is started by mistake. */
    if (c->mode == CLI_MODE_ENQUEUE_ONLY)
        return ef_fail(err, EF_BAD_INPUT, "mode is enqueue_only, which has no workers");
    return EF_OK;
}

/* Keeps freed pages between batches. Returning them costs a page fault and clearing per page for
 * the next batch: a quarter of the time of a worker. */
static void retain_freed_memory(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_TRIM_THRESHOLD, KEEP_BYTES);
    (void)mallopt(M_MMAP_THRESHOLD, UNMAP_BYTES);
    (void)mallopt(M_TOP_PAD, KEEP_BYTES / 64);
#endif
}

/* Opens the stores, works, and closes them, so that leases are released before the summary is
 * printed and nothing logs to a closed panel. */
static ef_status open_and_work(work *w, ef_error *err)
{
    ef_status st = cli_need(w->c, CLI_ENGINE, err);

    if (st == EF_OK) {
        cli_stop_on_signals();
        w->progress = cli_progress_begin(w->c, "folding", "events", false);
        w->progress.shown = w->progress.shown && !w->silent && !w->panel;
        st = w->shadow  ? run_shadow(w, err)
             : w->once  ? tick_once(w, &(ef_tick){0}, err)
             : w->drain ? drain_backlog(w, err)
                        : run_supervisor(w, err);
        cli_progress_end(&w->progress);
    }
    ef_engine_close(w->c->engine);
    ef_journal_close(w->c->journal);
    w->c->engine = NULL;
    w->c->journal = NULL;
    return st;
}

static ef_status run_work(cli *c, ef_error *err)
{
    work w = {.c = c,
              .options = cli_work_options(c),
              .once = cli_has(c, "once"),
              .drain = cli_has(c, "drain"),
              .silent = cli_has(c, "silent"),
              .shadow = cli_has(c, "shadow") || c->mode == CLI_MODE_SHADOW_ONLY,
              .window_s = cli_int(c, "window"),
              .started_us = cli_mono_us(),
              .window_us = cli_mono_us()};
    cli_work_panel panel = {.c = c, .no_leasing = cli_has(c, "no-leasing")};
    ef_status st;

    w.options.no_leasing = panel.no_leasing;
    retain_freed_memory();
    pthread_mutex_init(&w.lock, NULL);
    if (!w.once && !w.drain && !w.shadow && !w.silent && cli_screen_possible(c)) {
        panel.interval_ms = ef__settings_int(c->settings, "worker.poll_interval");
        panel.window_s = w.window_s > 0 ? w.window_s : WINDOW_S_DEFAULT;
        w.panel = &panel;
        cli_work_panel_init(&panel);
    }
    st = open_and_work(&w, err);
    if (w.panel)
        cli_work_panel_release(&panel);
    if (st == EF_OK && c->format == CLI_TABLE && !w.silent)
        write_summary(&w);
    if (st == EF_OK && w.drained)
        c->exit_code = backlog_report(c, &w.left, w.silent);
    pthread_mutex_destroy(&w.lock);
    return st;
}

const cli_command cli_cmd_work = {
    .name = "work",
    .summary = "run workers: apply events to projections and publish them",
    .options = CLI_OPTIONS(
        CLI_FLAG("once", "run one tick"),
        CLI_FLAG("drain", "run until nothing is due; exit code 6 if events failed or are blocked"),
        CLI_FLAG("shadow",
                 "fold queued events into a side build in memory and compare; nothing is changed"),
        CLI_FLAG("no-leasing",
                 "run as the only worker: all partitions, without waiting for expired leases"),
        CLI_SETTING("interval-ms", "N", "worker.poll_interval",
                    "poll interval while idle, in milliseconds (default 2000)"),
        CLI_INT("window", "S", 1, CLI_RATE_SECONDS_MAX, 0,
                "print totals every S seconds; in the panel, the window of the rate (default 10)"),
        CLI_SETTING("metrics-listen", "ADDRESS:PORT", "worker.metrics_listen",
                    "serve /metrics, /livez and /readyz of this worker at this address"),
        CLI_FLAG("silent", "no panel, ticks, progress or summary")),
    .more =
        "On a terminal a panel is shown: q quits, p pauses, e shows the errors, ? the keys.\n"
        "Elsewhere only the totals are printed, at the end and for each --window. With -o json,\n"
        "each tick is one object per line. New events wake the workers at once; the poll\n"
        "interval matters for retries. Failed events are listed by: everfold outbox report. An\n"
        "interrupt lets the batches in flight finish and releases the leases; a second one,\n"
        "more than a second later, ends the process at once.\n"
        "\n"
        "--drain ends when nothing is queued, no projection lags and no run is open. It waits\n"
        "for other workers that hold a part of that; paused projections and publishers do not\n"
        "count. It does not wait for failed rows that are retried later, dead rows or an\n"
        "unavailable sink: it prints what is left and exits with 6. It exits with 5 if other\n"
        "workers hold the rest and nothing has changed for 30 s.",
    .example = "everfold work --drain",
    .check = check_work,
    .call = run_work,
    .local = true,
    .service = true,
};
