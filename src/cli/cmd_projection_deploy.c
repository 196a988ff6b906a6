/*
 * cmd_projection_deploy.c - everfold projection deploy [--switch | --in-place] FILE…
 *
 * All files are checked before the first is deployed: a mistake in the last leaves nothing half
 * done.
 */
#include "commands.h"
#include "front.h"
#include "program.h"
#include "projection.h"
#include "switch_over.h"

#include <time.h>

#define POLL_MS 20
#define STUCK_US INT64_C(30000000)

static int check_all(cli *c, ef__buf *text)
{
    int rc = 0;

    for (size_t i = 0; i < c->argument_count; i++) {
        ef_error err = EF_ERROR_INIT;
        bool shown = false;
        ef_status st = cli_program_check(c->arguments[i], text, &shown, &err);
        int file_rc = st == EF_OK || (shown && c->format == CLI_TABLE) ? ef_status_exit(st)
                                                                       : cli_fail(c, &err, NULL);
        rc = rc == 0 ? file_rc : rc;
    }
    if (rc != 0)
        cli_say(c, "nothing was deployed");
    return rc;
}

/* Mistakes that only the store shows, such as lookups that go in a circle. */
static int refuse(cli *c, const char *path, const ef_text *report, const ef_error *err)
{
    if (report->len > 0)
        cli_lines_say((ef_str){report->ptr, report->len});
    if (err->status == EF_CONFLICT && !cli_has(c, "in-place")) {
        ef__buf hint = EF__BUF_INIT(8192);
        ef__buf_printf(&hint,
                       "raise the version in the program's first line, then run: "
                       "everfold projection deploy %s",
                       path);
        int rc = cli_fail(c, err, hint.ptr);
        ef__buf_release(&hint);
        return rc;
    }
    return cli_fail(c, err, NULL);
}

/* The answer lists all versions of the projection; this text is one of them. */
static const ef_projection *find_deployed(const ef_projection_list *list, ef_str text)
{
    const ef_projection *newest = &list->items[0];

    for (size_t i = 0; i < list->count; i++) {
        if (ef_str_equal(list->items[i].program, text))
            return &list->items[i];
        if (list->items[i].version > newest->version)
            newest = &list->items[i];
    }
    return newest;
}

static ef_status read_again(cli *c, ef_str name, ef_projection_list *deployed, ef_error *err)
{
    ef_projection_list fresh = {0};
    ef_status st = ef_projection_ls(c->engine, name, &fresh, err);

    ef_projection_list_release(st == EF_OK ? deployed : &fresh);
    if (st == EF_OK)
        *deployed = fresh;
    return st;
}

/* What it is told, if anything; what is printed afterwards says it too. */
static ef_status tell(cli *c, ef_str text, ef_projection_list *deployed, ef_error *err)
{
    const char *word = cli_value(c, "on-error");
    ef_str name;
    ef_status st;

    if (!word)
        return EF_OK;
    name = find_deployed(deployed, text)->name;
    st = ef_projection_on_error(c->engine, name,
                                strcmp(word, "skip") == 0 ? EF_ON_ERROR_SKIP : EF_ON_ERROR_STOP,
                                cli_actor(c), cli_reason(c), err);
    return st == EF_OK ? read_again(c, name, deployed, err) : st;
}

/* In inline_apply_only and shadow_only no worker catches the projection up, so the deployment does:
 * what other processes hold is waited for while it moves. */
static ef_status catch_up(cli *c, ef_error *err)
{
    const ef_clock *clock = ef_clock_system();
    int64_t done = 0, moved_us = clock->mono_us(clock->context), last_left = -1;
    ef_backlog left = {.behind = 1};
    cli_progress progress;
    ef_status st = EF_OK;

    cli_progress_begin(&progress, c, "catching up", "events", false);
    cli_stop_on_signals();
    while (st == EF_OK && left.behind && !cli_stopped()) {
        ef_tick tick = {0};
        st = ef_engine_catch_up(c->engine, &tick, err);
        done += tick.caught_up;
        if (st == EF_OK && !tick.caught_up)
            (void)nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000}, NULL);
        if (st == EF_OK)
            st = ef_engine_backlog(c->engine, &left, err);
        cli_progress_update(&progress, done, done + left.behind_events, done);
        if (tick.caught_up || left.behind_events != last_left)
            moved_us = clock->mono_us(clock->context);
        last_left = left.behind_events;
        if (st == EF_OK && left.behind && clock->mono_us(clock->context) - moved_us > STUCK_US)
            st = ef_fail(err, EF_TIMEOUT,
                         "the projection is deployed, but another process holds its lease and does "
                         "not catch it up");
    }
    cli_progress_end(&progress);
    return st;
}

static int deploy(cli *c, const char *path, ef__buf *text, cli_list *list)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list deployed = {0};
    ef_text report = {0};
    ef_status st = cli_file_read(path, text, &err);
    int rc;

    if (st == EF_OK)
        st = cli_projection_deploy(c,
                                   &(ef_deploy){.file_name = path,
                                                .text = ef__buf_str(text),
                                                .in_place = cli_has(c, "in-place"),
                                                .who = cli_actor(c),
                                                .reason = ef_str_from(cli_value(c, "reason"))},
                                   cli_value(c, "on-error"), &deployed, &report, &err);
    if (st == EF_OK && !c->client)
        st = tell(c, ef__buf_str(text), &deployed, &err);
    if (st == EF_OK && !c->client &&
        (c->mode == CLI_MODE_INLINE_APPLY_ONLY || c->mode == CLI_MODE_SHADOW_ONLY)) {
        st = catch_up(c, &err);
        if (st == EF_OK)
            st = read_again(c, find_deployed(&deployed, ef__buf_str(text))->name, &deployed, &err);
    }
    rc = st == EF_OK ? 0 : refuse(c, path, &report, &err);
    if (rc == 0 && cli_has(c, "switch")) {
        const ef_projection *p = find_deployed(&deployed, ef__buf_str(text));
        rc = cli_switch_over(c, p->name, p->generation);
    } else if (rc == 0 && c->argument_count > 1 && c->format != CLI_TABLE) {
        ef__json_writer w = EF__JSON_WRITER(&c->out);
        cli_list_next(c, list);
        ef__projection_write(&w, find_deployed(&deployed, ef__buf_str(text)));
        (void)cli_list_item_end(c, list);
    } else if (rc == 0) {
        cli_print_projection(c, find_deployed(&deployed, ef__buf_str(text)));
    }
    ef_text_release(&report);
    ef_projection_list_release(&deployed);
    return rc;
}

static int run_deploy(cli *c)
{
    cli_list list = {.lines = c->format == CLI_NDJSON};
    ef__buf text = EF__BUF_INIT(CLI_PROGRAM_BYTES);
    const char *word = cli_value(c, "on-error");
    int rc;

    if (word && strcmp(word, "skip") != 0 && strcmp(word, "stop") != 0)
        return cli_usage(c, "--on-error is '%s'; it is stop or skip", word);
    if (cli_value(c, "reason") && !word && !cli_has(c, "switch"))
        return cli_usage(c, "--reason goes with --on-error or --switch");
    if (cli_has(c, "switch") && (cli_has(c, "in-place") || c->argument_count > 1))
        return cli_usage(c, "--switch takes one FILE, and does not go with --in-place");
    rc = check_all(c, &text);
    if (rc == 0)
        rc = cli_engine_need(c, false);
    for (size_t i = 0; rc == 0 && i < c->argument_count; i++)
        rc = deploy(c, c->arguments[i], &text, &list);
    if (c->format != CLI_TABLE && c->argument_count > 1 && list.count > 0)
        cli_list_end(c, &list);
    ef__buf_release(&text);
    return rc;
}

static const cli_argument arguments[] = {
    {"FILE", false, true, "@file", "a program"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"in-place", 0, NULL, NULL, NULL, "migrate the views there are, instead of building new ones"},
    {"switch", 0, NULL, NULL, NULL,
     "wait until it has caught up, compare, and let queries read it"},
    {"on-error", 0, "stop|skip", NULL, NULL,
     "an event it cannot digest holds its stream, or is passed"},
    {"reason", 0, "TEXT", NULL, NULL, "why, for the record (with --on-error or --switch)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_projection_deploy = {
    .name = "projection deploy",
    .summary = "give programs to the engine; the same text again is harmless",
    .options = options,
    .arguments = arguments,
    .more =
        "A new projection, or a new version of one, catches up from the journal's first event\n"
        "(everfold work) and then goes on with the live ones; in the modes inline_apply_only\n"
        "and shadow_only it is caught up before the command returns. A program with a mistake is "
        "not\n"
        "deployed, nor is another text under a version that is there. One FILE answers an\n"
        "object with -o json, several an array.\n"
        "With --switch the command waits until a worker has caught the version up, compares its\n"
        "views with those of the active version, and switches queries to it. It does not switch\n"
        "when more events are blocked than in the active version. Back again:\n"
        "everfold projection rollback NAME.\n"
        "With --in-place a program of a higher version and schema takes over the views that\n"
        "queries see: workers migrate each by its migrate blocks, and queries are refused (exit\n"
        "code 5) until all are.\n"
        "An event that a program cannot digest is tried again, and then stops: what follows in\n"
        "its stream waits for an operator. With --on-error skip it is let pass instead, after its\n"
        "last try, and stays on record (everfold projection failures --all, everfold act ls).\n"
        "This holds for all versions, until it is deployed with --on-error stop.",
    .example = "everfold projection deploy shop/customer_orders.fold",
    .run = run_deploy,
};
