/*
 * cmd_work.c - everfold work: fold what has been appended.
 *
 * The engine does a bounded piece of work a tick. Between ticks that left nothing to do, this waits
 * for the journal to grow, at most for the interval: then what has to be tried again may be due.
 */
#include "commands.h"

#include <inttypes.h>
#include <time.h>

#define INTERVAL_MS_DEFAULT 2000
#define STOP_SEEN_MS 200 /* how long a signal may go unseen */

typedef struct work {
    cli *c;
    ef_work_options options;
    bool once, drain, silent;
    int64_t interval_ms;
    ef_tick sum; /* of all ticks */
    int64_t ticks;
    int64_t started_us;
    cli_progress progress;
} work;

static int64_t mono_us(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context);
}

static void add_int(ef__json_writer *w, const char *key, int64_t value)
{
    ef__json_key(w, key);
    ef__json_int(w, value);
}

/* What the engine does not have yet is 0. */
static void print_tick(cli *c, const ef_tick *tick)
{
    const ef_clock *clock = ef_clock_system();
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    ef__json_open(&w, '{');
    add_int(&w, "claimed", tick->claimed);
    add_int(&w, "applied", tick->applied);
    add_int(&w, "published", 0);
    add_int(&w, "failed", tick->failed);
    add_int(&w, "dead", tick->dead);
    add_int(&w, "duration_ms", tick->duration_us / 1000);
    add_int(&w, "backoff_ms", 0);
    add_int(&w, "renewed_heartbeat", 0);
    add_int(&w, "purged_stale", 0);
    add_int(&w, "active_workers", 0);
    add_int(&w, "desired_count", 0);
    add_int(&w, "owned_count", tick->owned_count);
    add_int(&w, "leased_count", 0);
    add_int(&w, "released_count", 0);
    ef__json_key(&w, "ts");
    ef__json_time(&w, clock->wall_us(clock->context));
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

static void count_tick(work *w, const ef_tick *tick)
{
    w->ticks++;
    w->sum.claimed += tick->claimed;
    w->sum.applied += tick->applied;
    w->sum.ignored += tick->ignored;
    w->sum.failed += tick->failed;
    w->sum.dead += tick->dead;
    w->sum.caught_up += tick->caught_up;
}

static ef_status do_tick(work *w, ef_tick *tick, ef_error *err)
{
    *tick = (ef_tick){0};
    ef_status st = ef_engine_work(w->c->engine, &w->options, tick, err);

    if (st != EF_OK)
        return st;
    count_tick(w, tick);
    if (w->c->format != CLI_TABLE && !w->silent) {
        print_tick(w->c, tick);
        (void)cli_flush(w->c);
    }
    int64_t events = w->sum.claimed + w->sum.caught_up;
    cli_progress_update(&w->progress, events, 0, events);
    return EF_OK;
}

static void sleep_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&time, NULL);
}

/* Until the journal is past `position`, the interval is over, or somebody wants us to stop. */
static ef_status rest(work *w, int64_t position, ef_error *err)
{
    int64_t until = mono_us() / 1000 + w->interval_ms, left = w->interval_ms;
    ef_status st = EF_TIMEOUT;

    while (st == EF_TIMEOUT && left > 0 && !cli_stopped() && !cli_reader_gone(w->c)) {
        st = ef_journal_wait(w->c->journal, position, left < STOP_SEEN_MS ? left : STOP_SEEN_MS,
                             err);
        left = until - mono_us() / 1000;
    }
    return st == EF_TIMEOUT ? EF_OK : st;
}

/* A store that is busy or full for a while must not end a worker that runs for months. */
static bool passes(work *w, ef_status st, ef_error *err)
{
    ef_next next = ef_status_next(st);

    if (w->once || w->drain || (next != EF_NEXT_RETRY && next != EF_NEXT_ABANDON))
        return false;
    cli_progress_clear(&w->progress);
    cli_warn(w->c, "everfold: %s; trying again", err->text[0] ? err->text : ef_status_words(st));
    *err = (ef_error)EF_ERROR_INIT;
    for (int64_t slept = 0; slept < w->interval_ms && !cli_stopped(); slept += STOP_SEEN_MS)
        sleep_ms(w->interval_ms < STOP_SEEN_MS ? w->interval_ms : STOP_SEEN_MS);
    return true;
}

static ef_status work_on(work *w, ef_error *err)
{
    while (!cli_stopped() && w->c->out_state == CLI_OUT_OPEN) {
        ef_head head = {0};
        ef_tick tick;
        ef_status st = ef_journal_head(w->c->journal, &head, err);
        if (st == EF_OK)
            st = do_tick(w, &tick, err);
        if (st != EF_OK && passes(w, st, err))
            continue;
        if (st != EF_OK || w->once || (w->drain && !tick.more))
            return st;
        if (!tick.more)
            st = rest(w, head.position, err);
        if (st != EF_OK && !passes(w, st, err))
            return st;
    }
    return EF_OK;
}

static void write_summary(work *w)
{
    int64_t ms = (mono_us() - w->started_us) / 1000;

    ef__buf_printf(&w->c->out,
                   "%" PRId64 " ticks  claimed %" PRId64 "  caught up %" PRId64 "  applied %" PRId64
                   "  ignored %" PRId64 "  failed %" PRId64 "  dead %" PRId64 "  in %" PRId64
                   ".%03" PRId64 " s\n",
                   w->ticks, w->sum.claimed, w->sum.caught_up, w->sum.applied, w->sum.ignored,
                   w->sum.failed, w->sum.dead, ms / 1000, ms % 1000);
    (void)cli_flush(w->c);
    if (w->sum.failed > 0)
        cli_say(w->c, "what failed: everfold outbox report");
}

/* A mode without a worker was asked for by name, or by flags: then nobody works here by mistake. */
static ef_status check_mode(const cli *c, ef_error *err)
{
    if (c->mode == CLI_MODE_SHADOW_ONLY)
        return ef_fail(err, EF_UNSUPPORTED,
                       "mode is shadow_only, and this version has no shadow "
                       "worker");
    if (c->mode == CLI_MODE_ENQUEUE_ONLY)
        return ef_fail(err, EF_BAD_INPUT, "mode is enqueue_only, in which nobody works");
    return EF_OK;
}

static int run_work(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    work w = {.c = c,
              .options = {.no_leasing = cli_has(c, "no-leasing")},
              .once = cli_has(c, "once"),
              .drain = cli_has(c, "drain"),
              .silent = cli_has(c, "silent"),
              .interval_ms = INTERVAL_MS_DEFAULT,
              .started_us = mono_us()};
    ef_status st = cli_number(c, "interval-ms", 1, 3600 * 1000, &w.interval_ms, &err);

    if (st == EF_OK && w.once && w.drain)
        st = ef_fail(&err, EF_BAD_INPUT, "--once and --drain exclude each other");
    if (st == EF_OK)
        st = check_mode(c, &err);
    int rc = st == EF_OK ? cli_engine_need(c, false) : cli_fail(c, &err, NULL);
    if (rc != 0)
        return rc;
    cli_stop_on_signals();
    cli_progress_begin(&w.progress, c, "folding", "events", false);
    w.progress.shown = w.progress.shown && !w.silent;
    st = work_on(&w, &err);
    cli_progress_end(&w.progress);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE && !w.silent)
        write_summary(&w);
    return 0;
}

static const cli_option options[] = {
    {"once", 0, NULL, NULL, NULL, "one tick"},
    {"drain", 0, NULL, NULL, NULL, "until nothing is due"},
    {"no-leasing", 0, NULL, NULL, NULL, "the only worker: take every partition, whoever holds it"},
    {"interval-ms", 0, "N", NULL, NULL, "look at least so often (default 2000)"},
    {"silent", 0, NULL, NULL, NULL, "print no ticks, no progress and no sum"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_work = {
    .name = "work",
    .summary = "fold what was appended into the views, until interrupted",
    .options = options,
    .more = "With -o json a tick is an object on a line. New events are seen at once; the\n"
            "interval is for what has to be tried again. What fails is told by: everfold outbox\n"
            "report. An interrupt ends it after the tick, with the leases given back.",
    .example = "everfold work --drain",
    .run = run_work,
};
