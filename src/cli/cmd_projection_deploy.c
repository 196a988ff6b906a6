/*
 * cmd_projection_deploy.c - everfold projection deploy [--switch | --in-place] FILE…
 *
 * All files are checked before the first is deployed, so an error in one of them deploys nothing.
 */
#include "commands.h"
#include "calls.h"
#include "program.h"
#include "projection.h"
#include "switchover.h"

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

/* Reports an error that only the store can detect, such as a cycle of lookups. */
static int report_refusal(cli *c, const char *path, const ef_text *report, const ef_error *err)
{
    if (report->len > 0)
        cli_lines_say((ef_str){report->ptr, report->len});
    if (err->status == EF_CONFLICT && !cli_has(c, "in-place")) {
        ef__buf hint = EF__BUF_INIT(8192);
        ef__buf_printf(&hint, "after that, run: everfold projection deploy %s", path);
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

static ef_status reread_projection(cli *c, ef_str name, ef_projection_list *deployed, ef_error *err)
{
    ef_projection_list fresh = {0};
    ef_status st = ef_projection_ls(c->engine, name, &fresh, err);

    ef_projection_list_release(st == EF_OK ? deployed : &fresh);
    if (st == EF_OK)
        *deployed = fresh;
    return st;
}

/* Sets the error policy of --on-error, if given; the projection is read again to show it. */
static ef_status set_on_error(cli *c, ef_str text, ef_projection_list *deployed, ef_error *err)
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
    return st == EF_OK ? reread_projection(c, name, deployed, err) : st;
}

/* In inline_apply_only and shadow_only no worker catches the projection up, so the deployment does.
 * It waits for work of other processes while that progresses. */
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

static int deploy_program(cli *c, const char *path, ef__buf *text, cli_list *list)
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
                                                .actor = cli_actor(c),
                                                .reason = ef_str_from(cli_value(c, "reason"))},
                                   cli_value(c, "on-error"), &deployed, &report, &err);
    if (st == EF_OK && !c->client)
        st = set_on_error(c, ef__buf_str(text), &deployed, &err);
    if (st == EF_OK && !c->client &&
        (c->mode == CLI_MODE_INLINE_APPLY_ONLY || c->mode == CLI_MODE_SHADOW_ONLY)) {
        st = catch_up(c, &err);
        if (st == EF_OK)
            st = reread_projection(c, find_deployed(&deployed, ef__buf_str(text))->name, &deployed,
                                   &err);
    }
    rc = st == EF_OK ? 0 : report_refusal(c, path, &report, &err);
    if (rc == 0 && cli_has(c, "switch")) {
        const ef_projection *p = find_deployed(&deployed, ef__buf_str(text));
        rc = cli_switchover(c, p->name, p->generation);
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
        return cli_usage(c, "--on-error is '%s': must be stop or skip", word);
    if (cli_value(c, "reason") && !word && !cli_has(c, "switch"))
        return cli_usage(c, "--reason needs --on-error or --switch");
    if (cli_has(c, "switch") && (cli_has(c, "in-place") || c->argument_count > 1))
        return cli_usage(c, "--switch takes one FILE and cannot be combined with --in-place");
    rc = check_all(c, &text);
    if (rc == 0)
        rc = cli_engine_need(c, false);
    for (size_t i = 0; rc == 0 && i < c->argument_count; i++)
        rc = deploy_program(c, c->arguments[i], &text, &list);
    if (c->format != CLI_TABLE && c->argument_count > 1 && list.count > 0)
        cli_list_end(c, &list);
    ef__buf_release(&text);
    return rc;
}

const cli_command cli_cmd_projection_deploy = {
    .name = "projection deploy",
    .summary = "deploy programs; deploying the same text again has no effect",
    .options = CLI_OPTIONS({"in-place", 0, NULL, NULL, NULL,
                            "migrate the existing views instead of building new ones"},
                           {"switch", 0, NULL, NULL, NULL,
                            "wait until it has caught up, compare, and make it the active version"},
                           {"on-error", 0, "stop|skip", NULL, NULL,
                            "events that fail: block the stream (stop) or skip the event"},
                           {"reason", 0, "TEXT", NULL, NULL,
                            "reason, recorded in the audit log (with --on-error or --switch)"}),
    .arguments = CLI_ARGUMENTS({"FILE", false, true, "@file", "program file"}),
    .more =
        "A new projection, or a new version, catches up from the first event of the journal\n"
        "(everfold work) and then applies new events. In the modes inline_apply_only and\n"
        "shadow_only it has caught up when the command returns. A program with an error is not\n"
        "deployed; neither is another text under an existing version. With -o json, one FILE\n"
        "prints an object, several print an array.\n"
        "\n"
        "With --switch, the command waits until a worker has caught the version up, compares\n"
        "its views with those of the active version, and switches queries to it. It does not\n"
        "switch if more events are blocked than in the active version. To go back: everfold\n"
        "projection rollback NAME.\n"
        "\n"
        "With --in-place, a program with a higher version and schema takes over the active\n"
        "views: workers migrate each view with its migrate blocks. Until all are migrated,\n"
        "queries are refused (exit code 5).\n"
        "\n"
        "An event on which a program fails is retried. After the last attempt it is dead, and\n"
        "the following events of its stream are blocked until an operator acts. With --on-error\n"
        "skip it is skipped instead and recorded (everfold projection failures --all, everfold\n"
        "audit ls). This holds for all versions until the projection is deployed with\n"
        "--on-error stop.",
    .example = "everfold projection deploy shop/customer_orders.fold",
    .run = run_deploy,
};
