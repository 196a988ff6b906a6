/*
 * run.c - see run.h.
 */
#include "run.h"
#include "calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define POLL_MS 50

/* --- output ---------------------------------------------------------------------------------- */

static void add_str(ef__json_writer *w, const char *key, ef_str value)
{
    ef__json_member_str(w, key, value);
}

static void add_line(cli *c, const char *name, ef_str value)
{
    if (value.len == 0)
        return;
    ef__buf_printf(&c->out, "%-14s", name);
    cli_escape(&c->out, value);
    ef__buf_add_char(&c->out, '\n');
}

static void add_moment(cli *c, const char *name, int64_t time_us)
{
    char text[EF_TIME_TEXT_MAX];

    if (time_us == 0)
        return;
    ef_time_format(time_us, text);
    add_line(c, name, ef_str_from(text));
}

void cli_print_run(cli *c, const ef_run *run)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format != CLI_TABLE) {
        ef__shape_write(&w, &ef__shape_run, run);
        ef__buf_add_char(&c->out, '\n');
        return;
    }
    add_line(c, "id", run->id);
    add_line(c, "mode", ef_str_from(ef_run_mode_name(run->mode)));
    add_line(c, "projection", run->projection.len ? run->projection : EF_STR("(all)"));
    add_line(c, "tenant", run->tenant);
    add_line(c, "state", ef_str_from(ef_run_state_name(run->state)));
    add_moment(c, "requested at", run->requested_us);
    add_moment(c, "started at", run->started_us);
    add_moment(c, "finished at", run->finished_us);
    ef__buf_printf(&c->out, "%-14s%" PRId64, "processed", run->processed);
    if (run->total >= 0)
        ef__buf_printf(&c->out, " of %" PRId64, run->total);
    ef__buf_add_char(&c->out, '\n');
    add_line(c, "error", run->error);
    add_line(c, "reason", run->reason);
    add_line(c, "requester", run->requester);
    add_line(c, "detail", run->detail);
}

void cli_table_runs(cli *c, const ef_run *runs, size_t count)
{
    static const char *const heads[] = {"ID",        "MODE",      "PROJECTION", "STATE",
                                        "REQUESTED", "PROCESSED", "TOTAL",      "ERROR"};
    cli_table table = CLI_TABLE_INIT(heads, 8, 0x60);

    for (size_t i = 0; i < count; i++) {
        cli_table_text(&table, runs[i].id);
        cli_table_text(&table, ef_str_from(ef_run_mode_name(runs[i].mode)));
        cli_table_text(&table, runs[i].projection.len ? runs[i].projection : EF_STR("(all)"));
        cli_table_text(&table, ef_str_from(ef_run_state_name(runs[i].state)));
        cli_table_time(&table, runs[i].requested_us);
        cli_table_int(&table, runs[i].processed);
        if (runs[i].total >= 0)
            cli_table_int(&table, runs[i].total);
        else
            cli_table_text(&table, EF_STR("-"));
        cli_table_text(&table, runs[i].error);
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

/* --- driving ---------------------------------------------------------------------------------- */

typedef struct run_follower {
    cli *cli;
    cli_progress bar;
    char reported[EF_ERROR_TEXT_MAX]; /* reason that was reported last */
    int64_t processed_before;         /* events processed before this command started */
} run_follower;

static void sleep_poll(void)
{
    struct timespec time = {.tv_nsec = POLL_MS * 1000000L};

    (void)nanosleep(&time, NULL);
}

static bool is_open(const ef_run *run)
{
    return run->state == EF_RUN_QUEUED || run->state == EF_RUN_RUNNING;
}

/* Reports each reason once. */
static void report_trouble(run_follower *w, const ef_run *run)
{
    char text[sizeof w->reported];

    (void)snprintf(text, sizeof text, "%.*s", EF_STR_ARG(run->error));
    if (strcmp(text, w->reported) == 0)
        return;
    memcpy(w->reported, text, sizeof text);
    if (text[0])
        cli_warn(w->cli, "everfold: the run is waiting and continues by itself: %s", text);
}

static bool show_progress(void *context, const ef_run *run, bool idle)
{
    run_follower *w = context;

    if (w->processed_before < 0)
        w->processed_before = run->processed;
    cli_progress_update(&w->bar, run->processed, run->total > 0 ? run->total : 0,
                        run->processed - w->processed_before);
    if (is_open(run))
        report_trouble(w, run);
    if (idle)
        sleep_poll();
    return !cli_stopped();
}

static ef_status poll_run(cli *c, ef_run_list *list, run_follower *w, ef_error *err)
{
    ef_run_list fresh = {0};
    ef_status st = EF_OK;

    while (st == EF_OK && is_open(&list->items[0]) && show_progress(w, &list->items[0], true)) {
        st = cli_run_get(c, list->items[0].id, &fresh, err);
        ef_run_list last = *list;
        *list = fresh;
        fresh = last;
    }
    ef_run_list_release(&fresh);
    return st;
}

/* Exit code for the state of the run. */
static int exit_code_of_run(cli *c, const ef_run *run)
{
    if (is_open(run)) {
        cli_say(c, "a worker continues the run; see: everfold run watch %.*s", EF_STR_ARG(run->id));
        return cli_stopped_exit();
    }
    if (run->state == EF_RUN_FAILED)
        cli_warn(c, "everfold: run %.*s has failed: %.*s", EF_STR_ARG(run->id),
                 EF_STR_ARG(run->error));
    if (run->state == EF_RUN_CANCELLED)
        cli_warn(c, "everfold: run %.*s was cancelled", EF_STR_ARG(run->id));
    return run->state == EF_RUN_COMPLETED ? 0 : 1;
}

static int follow_run(cli *c, ef_run_list *list, bool drive)
{
    ef_error err = EF_ERROR_INIT;
    run_follower w = {.cli = c, .processed_before = -1};
    ef_run_list driven = {0};
    ef_status st;

    cli_stop_on_signals();
    cli_progress_begin(&w.bar, c, ef_run_mode_name(list->items[0].mode), "events", false);
    if (drive) {
        st = cli_engine_run(c, list->items[0].id,
                            &(ef_run_options){.progress = show_progress, .context = &w}, &driven,
                            &err);
        if (st == EF_OK) {
            ef_run_list_release(list);
            *list = driven;
        } else
            ef_run_list_release(&driven);
    } else
        st = poll_run(c, list, &w, &err);
    cli_progress_end(&w.bar);
    return st == EF_OK ? exit_code_of_run(c, &list->items[0]) : cli_fail(c, &err, NULL);
}

int cli_run_drive(cli *c, ef_run_list *list)
{
    return follow_run(c, list, true);
}

int cli_run_watch(cli *c, ef_run_list *list)
{
    return follow_run(c, list, false);
}

/* --- options ---------------------------------------------------------------------------------- */

int cli_generation_option(cli *c, ef_generation_choice *out)
{
    ef_error err = EF_ERROR_INIT;
    int64_t version = 0, generation = 0;
    ef_status st = cli_number(c, "version", 1, INT32_MAX, &version, &err);

    if (st == EF_OK)
        st = cli_number(c, "generation", 1, INT32_MAX, &generation, &err);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    if (!version == !generation)
        return cli_usage(c, "%s needs either --version or --generation", c->command->name);
    *out = (ef_generation_choice){.projection = ef_str_from(c->arguments[0]),
                                  .version = (int32_t)version,
                                  .generation = (int32_t)generation,
                                  .actor = cli_actor(c),
                                  .reason = cli_reason(c)};
    return 0;
}

/* --- gaps --------------------------------------------------------------------------------------
 */

static void table_gaps(cli *c, const ef_gap_list *gaps)
{
    static const char *const heads[] = {"PROJECTION", "TENANT",  "STREAM",  "APPLIED",
                                        "EXPECTED",   "JOURNAL", "REPLAYED"};
    cli_table table = CLI_TABLE_INIT(heads, 7, 0x78);

    for (size_t i = 0; i < gaps->count; i++) {
        cli_table_text(&table, gaps->items[i].projection);
        cli_table_text(&table, gaps->items[i].tenant);
        cli_table_text(&table, gaps->items[i].stream);
        cli_table_int(&table, gaps->items[i].applied_seq);
        cli_table_int(&table, gaps->items[i].expected_next_seq);
        cli_table_int(&table, gaps->items[i].journal_seq);
        cli_table_int(&table, gaps->items[i].replayed);
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

void cli_print_gaps(cli *c, const char *mode, const ef_gap_list *gaps)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        if (gaps->count)
            table_gaps(c, gaps);
        else
            cli_say(c, "no gaps");
        return;
    }
    ef__json_open(&w, '{');
    add_str(&w, "mode", ef_str_from(mode));
    ef__json_member_open(&w, "gaps", '[');
    for (size_t i = 0; i < gaps->count; i++) {
        ef__shape_write(&w, &ef__shape_gap, &gaps->items[i]);
        (void)cli_flush_some(c);
    }
    ef__json_close(&w, ']');
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}
