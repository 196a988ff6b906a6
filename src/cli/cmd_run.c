/*
 * cmd_run.c - everfold run ls, show, watch and cancel; driving a run to its end
 *
 * A worker that drives a run ends it at its next step after a cancellation. If none does, the
 * command ends it, so that an unfinished generation is removed at once.
 */
#include "calls.h"

#define POLL_MS 50
#define WIDTH 14 /* of the names of fields */

/* --- output ----------------------------------------------------------------------------------- */

static void add_moment(cli *c, const char *name, int64_t time_us)
{
    char text[EF_TIME_TEXT_MAX];

    if (time_us == 0)
        return;
    ef_time_format(time_us, text);
    cli_line(c, WIDTH, name, ef_str_from(text));
}

static void add_text(cli *c, const char *name, ef_str value)
{
    if (value.len > 0)
        cli_line(c, WIDTH, name, value);
}

void cli_print_run(cli *c, const ef_run *run)
{
    if (c->format != CLI_TABLE) {
        cli_print_object(c, &ef__shape_run, run);
        return;
    }
    add_text(c, "id", run->id);
    add_text(c, "mode", ef_str_from(ef_name_of(EF_NAMES_RUN_MODE, run->mode)));
    add_text(c, "projection", run->projection.len ? run->projection : EF_STR("(all)"));
    add_text(c, "tenant", run->tenant);
    add_text(c, "state", ef_str_from(ef_name_of(EF_NAMES_RUN_STATE, run->state)));
    add_moment(c, "requested at", run->requested_us);
    add_moment(c, "started at", run->started_us);
    add_moment(c, "finished at", run->finished_us);
    ef__buf_printf(&c->out, "%-*s%" PRId64, WIDTH, "processed", run->processed);
    if (run->total >= 0)
        ef__buf_printf(&c->out, " of %" PRId64, run->total);
    ef__buf_add_char(&c->out, '\n');
    add_text(c, "error", run->error);
    add_text(c, "reason", run->reason);
    add_text(c, "requester", run->requester);
    add_text(c, "detail", run->detail);
}

static const cli_listing listing = {
    .shape = &ef__shape_run,
    .columns = CLI_COLUMNS(CLI_COLUMN("ID", "id"), CLI_COLUMN("MODE", "mode"),
                           CLI_COLUMN("PROJECTION", "projection", .none = "(all)"),
                           CLI_COLUMN("STATE", "state"), CLI_COLUMN("REQUESTED", "requested_at"),
                           CLI_COLUMN("PROCESSED", "processed"), CLI_COLUMN("TOTAL", "total"),
                           CLI_COLUMN("ERROR", "error")),
    .empty = "no runs",
};

/* --- driving ---------------------------------------------------------------------------------- */

typedef struct run_follower {
    cli *cli;
    cli_progress bar;
    char reported[EF_ERROR_TEXT_MAX]; /* reason that was reported last */
    int64_t processed_before;         /* events processed before this command started */
} run_follower;

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
    if (cli_run_is_open(run))
        report_trouble(w, run);
    if (idle)
        cli_sleep_us(POLL_MS * 1000);
    return !cli_stopped();
}

static ef_status poll_run(cli *c, ef_run_list *list, run_follower *w, ef_error *err)
{
    ef_run_list fresh = {0};
    ef_status st = EF_OK;

    while (st == EF_OK && cli_run_is_open(&list->items[0]) &&
           show_progress(w, &list->items[0], true)) {
        st = cli_run_ls(c, &(ef_run_query){.id = &list->items[0].id}, &fresh, err);
        ef_run_list last = *list;
        *list = fresh;
        fresh = last;
    }
    EF_RELEASE(&fresh);
    return st;
}

/* Exit code for the state of the run. */
static int exit_code_of_run(cli *c, const ef_run *run)
{
    if (cli_run_is_open(run)) {
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

ef_status cli_run_follow(cli *c, ef_run_list *list, bool drives, ef_error *err)
{
    run_follower w = {.cli = c, .processed_before = -1};
    ef_run_list driven = {0};
    ef_status st;

    cli_stop_on_signals();
    w.bar =
        cli_progress_begin(c, ef_name_of(EF_NAMES_RUN_MODE, list->items[0].mode), "events", false);
    if (drives) {
        st = cli_engine_run(c, list->items[0].id,
                            &(ef_run_options){.progress = show_progress, .context = &w}, &driven,
                            err);
        EF_RELEASE(st == EF_OK ? list : &driven);
        if (st == EF_OK)
            *list = driven;
    } else {
        st = poll_run(c, list, &w, err);
    }
    cli_progress_end(&w.bar);
    if (st == EF_OK)
        c->exit_code = exit_code_of_run(c, &list->items[0]);
    return st;
}

static ef_status list_runs(cli *c, ef_error *err)
{
    ef_run_query query = {.open_only = cli_has(c, "open"), .limit = (size_t)cli_int(c, "limit")};

    return CLI_PRINT_FOUND(c, ef_run_list, runs, &listing, cli_run_ls(c, &query, &runs, err));
}

const cli_command cli_cmd_run_ls = {
    .name = "run ls",
    .summary = "list runs: replays, rebuilds and verifications, newest first",
    .options = CLI_OPTIONS(CLI_FLAG("open", "only queued and running runs"),
                           CLI_INT("limit", "N", 1, 10000, 50, "at most N runs (default 50)")),
    .example = "everfold run ls --open",
    .stores = CLI_JOURNAL_READ,
    .call = list_runs,
};

#define NO_RUN CLI_HINTS({EF_NOT_FOUND, "see: everfold run ls"})

/* `run watch` follows it to its end first. */
static ef_status show_run(cli *c, ef_error *err)
{
    ef_str id = ef_str_from(c->arguments[0]);
    EF__AUTO(ef_run_list) runs = {0};
    ef_status st = cli_run_ls(c, &(ef_run_query){.id = &id}, &runs, err);

    if (st != EF_OK)
        return st;
    if (c->command == &cli_cmd_run_watch)
        st = cli_run_follow(c, &runs, false, err);
    cli_print_run(c, &runs.items[0]);
    return st;
}

const cli_command cli_cmd_run_show = {
    .name = "run show",
    .summary = "show a run: state, progress and result",
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("ID", "id of the run")),
    .example = "everfold run show \"$(everfold replay -o json | cut -d '\"' -f 4)\"",
    .stores = CLI_JOURNAL_READ,
    .call = show_run,
    .hint = "see: everfold run ls",
};

const cli_command cli_cmd_run_watch = {
    .name = "run watch",
    .summary = "follow the progress of a run until it ends",
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("ID", "id of the run")),
    .more =
        "The command only waits; workers do the work (everfold work). The exit code is 1 if the\n"
        "run did not complete.",
    .example = "everfold run watch \"$(everfold replay -o json | cut -d '\"' -f 4)\"",
    .stores = CLI_JOURNAL_READ,
    .call = show_run,
    .hints = NO_RUN,
};

/* Runs a few steps, which is enough if no worker drives the run; otherwise that worker ends it. */
static bool run_few_steps(void *context, const ef_run *run, bool idle)
{
    int *left = context;

    (void)run;
    return !idle && (*left)-- > 0;
}

static ef_status cancel_run(cli *c, ef_error *err)
{
    EF__AUTO(ef_run_list) runs = {0};
    ef_str id = ef_str_from(c->arguments[0]);
    int left = 3;
    ef_status st = cli_run_cancel(c, id, cli_reason(c), err);

    if (st == EF_OK)
        st = cli_engine_run(c, id, &(ef_run_options){.progress = run_few_steps, .context = &left},
                            &runs, err);
    if (st == EF_OK)
        st = cli_note(c, "cancel", runs.items[0].projection, err);
    if (st == EF_OK)
        cli_print_run(c, &runs.items[0]);
    return st;
}

const cli_command cli_cmd_run_cancel = {
    .name = "run cancel",
    .summary = "cancel a run; committed work stays",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("ID", "id of the run")),
    .more = "The unfinished generation of a rebuild is removed. A worker that drives the run ends\n"
            "it at its next step.",
    .example = "id=$(everfold projection rebuild customer_orders -o json | cut -d '\"' -f 4) && "
               "everfold run cancel \"$id\"",
    .stores = CLI_ENGINE,
    .call = cancel_run,
    .hints = NO_RUN,
};
