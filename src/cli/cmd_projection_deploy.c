/*
 * cmd_projection_deploy.c - everfold projection deploy [--switch | --in-place] FILE…, and try FILE
 *
 * All files are checked before the first is deployed, so an error in one of them deploys nothing.
 */
#include "calls.h"

#define LOOK_MS 250
#define STUCK_MS 30000

typedef struct versions {
    ef_projection_list list;
    const ef_projection *active, *next; /* next: the deployed version */
} versions;

static ef_status read_versions(cli *c, ef_str name, int32_t generation, versions *v, ef_error *err)
{
    ef_status st = cli_projection_ls(c, name, &v->list, err);

    v->active = v->next = NULL;
    for (size_t i = 0; st == EF_OK && i < v->list.count; i++) {
        const ef_projection *p = &v->list.items[i];
        v->active = p->active ? p : v->active;
        v->next = p->generation == generation ? p : v->next;
    }
    if (st == EF_OK && !v->next)
        st = ef_fail(err, EF_NOT_FOUND, "generation %d of projection %.*s was removed",
                     (int)generation, EF_STR_ARG(name));
    return st;
}

static bool has_caught_up(const ef_projection *p)
{
    return ef_str_equal(p->state, EF_STR("live")) && p->lag_events == 0;
}

/* Waits until the version has applied every event that is not blocked. */
static ef_status wait_until_caught_up(cli *c, ef_str name, int32_t generation, versions *v,
                                      ef_error *err)
{
    int64_t moved_ms = cli_mono_us() / 1000, last = -1;
    EF__AUTO(cli_progress) progress = cli_progress_begin(c, "catching up", "events", false);
    ef_status st = read_versions(c, name, generation, v, err);

    while (st == EF_OK && !has_caught_up(v->next) && !cli_stopped()) {
        const ef_projection *p = v->next;
        int64_t done = p->applied + p->ignored + p->skipped;
        cli_progress_update(&progress, done, done + p->lag_events, done);
        moved_ms = done != last ? cli_mono_us() / 1000 : moved_ms;
        last = done;
        if (ef_str_equal(p->state, EF_STR("paused")))
            st = ef_fail(err, EF_CONFLICT, "projection %.*s is paused", EF_STR_ARG(name));
        else if (cli_mono_us() / 1000 - moved_ms > STUCK_MS)
            st = ef_fail(err, EF_TIMEOUT,
                         "version %d of %.*s is deployed, but makes no progress: %" PRId64
                         " events are left",
                         (int)p->version, EF_STR_ARG(name), p->lag_events);
        if (st == EF_OK) {
            cli_sleep_us(LOOK_MS * 1000);
            st = read_versions(c, name, generation, v, err);
        }
    }
    if (st == EF_OK && cli_stopped())
        st = ef_fail(err, EF_TIMEOUT, "stopped: version %d of %.*s is deployed, but not active",
                     (int)v->next->version, EF_STR_ARG(name));
    return st;
}

/* A callback that ignores the differences: the comparison counts them. */
static bool count_only(void *context, const ef_difference *difference)
{
    (void)context;
    (void)difference;
    return true;
}

static ef_status compare_versions(cli *c, const versions *v, ef_error *err)
{
    ef_generation_choice left = {.projection = v->next->name, .generation = v->active->generation};
    ef_generation_choice right = {.projection = v->next->name, .generation = v->next->generation};
    ef_diff diff;
    ef_status st = cli_projection_diff(c, &left, &right, count_only, NULL, &diff, err);

    if (st == EF_OK)
        cli_say(c,
                "version %d compared with version %d: %" PRId64 " view%s, %" PRId64
                " differ, %" PRId64 " only in version %d, %" PRId64 " only in version %d",
                (int)v->next->version, (int)v->active->version, diff.views, cli_plural(diff.views),
                diff.different, diff.left_only, (int)v->active->version, diff.right_only,
                (int)v->next->version);
    return st;
}

static ef_status refuse_more_blocked(const versions *v, ef_error *err)
{
    if (v->next->blocked_events <= v->active->blocked_events)
        return EF_OK;
    return ef_fail_numbers(err, EF_CONFLICT, v->active->blocked_events, v->next->blocked_events,
                           "version %d of %.*s is deployed, but not active: %" PRId64
                           " of its events are blocked, of version %d only %" PRId64,
                           (int)v->next->version, EF_STR_ARG(v->next->name),
                           v->next->blocked_events, (int)v->active->version,
                           v->active->blocked_events);
}

static void set_switch_hint(cli *c, ef_str name, int32_t generation, ef_status status)
{
    if (status == EF_TIMEOUT)
        cli_hint(c,
                 "start a worker (everfold work), then run: everfold projection switch %.*s "
                 "--generation %d",
                 EF_STR_ARG(name), (int)generation);
    else if (status == EF_CONFLICT)
        cli_hint(c,
                 "see: everfold projection failures %.*s; to switch anyway: everfold "
                 "projection switch %.*s --generation %d",
                 EF_STR_ARG(name), EF_STR_ARG(name), (int)generation);
}

/* Waits until the generation has applied every event that is not blocked, compares it with the
 * active one, switches queries to it unless more of its events are blocked, and prints it. */
static ef_status switch_over(cli *c, ef_str name, int32_t generation, ef_error *err)
{
    versions v = {0};
    ef_status st;

    cli_stop_on_signals();
    st = wait_until_caught_up(c, name, generation, &v, err);
    if (st == EF_OK && v.active && v.active != v.next) {
        st = compare_versions(c, &v, err);
        if (st == EF_OK)
            st = refuse_more_blocked(&v, err);
        if (st == EF_OK)
            st = cli_projection_switch(c,
                                       &(ef_generation_choice){.projection = name,
                                                               .generation = generation,
                                                               .actor = cli_actor(c),
                                                               .reason = cli_reason(c)},
                                       err);
    }
    EF_RELEASE(&v.list);
    if (st == EF_OK)
        return cli_show_projection(c, name, err);
    set_switch_hint(c, name, generation, st);
    return st;
}

#define POLL_MS 20
#define STUCK_US INT64_C(30000000)

/* Reports the errors of all files; the status is that of the first. */
static ef_status check_all(cli *c, ef__buf *text)
{
    ef_status st = EF_OK;

    for (size_t i = 0; i < c->argument_count; i++) {
        ef_error err = EF_ERROR_INIT;
        bool shown = false;
        ef_status file_st = cli_program_check(c->arguments[i], text, &shown, &err);
        if (file_st != EF_OK && !(shown && c->format == CLI_TABLE))
            (void)cli_fail(c, &err, NULL);
        st = st == EF_OK ? file_st : st;
    }
    c->error_shown = st != EF_OK;
    if (st != EF_OK)
        cli_say(c, "nothing was deployed");
    return st;
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

/* The name is in the memory of the list that is read again. */
static ef_status reread_projection(cli *c, ef_str name, ef_projection_list *deployed, ef_error *err)
{
    char copy[256];

    (void)snprintf(copy, sizeof copy, "%.*s", EF_STR_ARG(name));
    return ef_projection_ls(c->engine, ef_str_from(copy), deployed, err);
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
    int64_t done = 0, moved_us = cli_mono_us(), last_left = -1;
    ef_backlog left = {.behind = 1};
    EF__AUTO(cli_progress) progress = cli_progress_begin(c, "catching up", "events", false);
    ef_status st = EF_OK;

    cli_stop_on_signals();
    while (st == EF_OK && left.behind && !cli_stopped()) {
        ef_tick tick = {0};
        st = ef_engine_work(c->engine, &(ef_work_options){.cursors_only = true}, &tick, err);
        done += tick.caught_up;
        if (st == EF_OK && !tick.caught_up)
            cli_sleep_us(POLL_MS * 1000);
        if (st == EF_OK)
            st = ef_engine_backlog(c->engine, &left, err);
        cli_progress_update(&progress, done, done + left.behind_events, done);
        if (tick.caught_up || left.behind_events != last_left)
            moved_us = cli_mono_us();
        last_left = left.behind_events;
        if (st == EF_OK && left.behind && cli_mono_us() - moved_us > STUCK_US)
            st = ef_fail(err, EF_TIMEOUT,
                         "the projection is deployed, but another process holds its lease and does "
                         "not catch it up");
    }
    return st;
}

static ef_status deploy_program(cli *c, const char *path, ef_str text, ef_projection_list *deployed,
                                ef_error *err)
{
    EF__AUTO(ef_text) report = {0};
    ef_status st = cli_projection_deploy(c,
                                         &(ef_deploy){.file_name = path,
                                                      .text = text,
                                                      .in_place = cli_has(c, "in-place"),
                                                      .actor = cli_actor(c),
                                                      .reason = cli_reason(c)},
                                         cli_value(c, "on-error"), deployed, &report, err);

    if (st == EF_OK && !c->client)
        st = set_on_error(c, text, deployed, err);
    if (st == EF_OK && !c->client &&
        (c->mode == CLI_MODE_INLINE_APPLY_ONLY || c->mode == CLI_MODE_SHADOW_ONLY)) {
        st = catch_up(c, err);
        if (st == EF_OK)
            st = reread_projection(c, find_deployed(deployed, text)->name, deployed, err);
    }
    /* Errors that only the store can detect, such as a cycle of lookups, are in the report. */
    if (st != EF_OK && report.len > 0)
        cli_lines_say((ef_str){report.ptr, report.len});
    if (st == EF_CONFLICT && !cli_has(c, "in-place"))
        cli_hint(c, "after that, run: everfold projection deploy %s", path);
    return st;
}

/* Deploys a file and prints the projection; one of several as an item of `list`. */
static ef_status deploy_file(cli *c, const char *path, ef__buf *text, cli_list *list, ef_error *err)
{
    EF__AUTO(ef_projection_list) deployed = {0};
    ef_status st = cli_file_read(path, text, err);

    if (st == EF_OK)
        st = deploy_program(c, path, ef__buf_str(text), &deployed, err);
    const ef_projection *p = st == EF_OK ? find_deployed(&deployed, ef__buf_str(text)) : NULL;
    if (p && cli_has(c, "switch"))
        st = switch_over(c, p->name, p->generation, err);
    else if (p && c->argument_count > 1 && c->format != CLI_TABLE)
        (void)cli_list_item(c, list, &cli_projection_listing, p);
    else if (p)
        cli_print_item(c, &cli_projection_listing, p);
    return st;
}

static ef_status check_deploy(cli *c, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(CLI_PROGRAM_BYTES);
    const char *word = cli_value(c, "on-error");

    if (word && strcmp(word, "skip") != 0 && strcmp(word, "stop") != 0)
        return cli_refuse(c, err, "--on-error is '%s': must be stop or skip", word);
    if (cli_value(c, "reason") && !word && !cli_has(c, "switch"))
        return cli_refuse(c, err, "--reason needs --on-error or --switch");
    if (cli_has(c, "switch") && (cli_has(c, "in-place") || c->argument_count > 1))
        return cli_refuse(c, err, "--switch takes one FILE and cannot be combined with --in-place");
    return check_all(c, &text);
}

static ef_status deploy_all(cli *c, ef_error *err)
{
    cli_list list = {.lines = c->format == CLI_NDJSON};
    EF__AUTO(ef__buf) text = EF__BUF_INIT(CLI_PROGRAM_BYTES);
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < c->argument_count; i++)
        st = deploy_file(c, c->arguments[i], &text, &list, err);
    if (c->format != CLI_TABLE && c->argument_count > 1 && list.count > 0)
        cli_list_end(c, &list);
    return st;
}

const cli_command cli_cmd_projection_deploy = {
    .name = "projection deploy",
    .summary = "deploy programs; deploying the same text again has no effect",
    .options = CLI_OPTIONS(
        CLI_FLAG("in-place", "migrate the existing views instead of building new ones"),
        CLI_FLAG("switch", "wait until it has caught up, compare, and make it the active version"),
        CLI_TEXT("on-error", "stop|skip",
                 "events that fail: block the stream (stop) or skip the event"),
        CLI_TEXT("reason", "TEXT",
                 "reason, recorded in the audit log (with --on-error or --switch)")),
    .arguments =
        CLI_ARGUMENTS(CLI_ARGUMENT("FILE", "program file", .many = true, .words = "@file")),
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
    .check = check_deploy,
    .stores = CLI_ENGINE,
    .call = deploy_all,
};

typedef struct showing {
    cli *c;
    ef__json_writer writer;
} showing;

static void print_event(cli *c, const ef_draft_row *row)
{
    const char *colour = row->outcome == EF_TRIAL_FAILED ? cli_colour(c, CLI_RED) : "";

    cli_add_name(c, row->tenant, row->stream);
    ef__buf_printf(&c->out, " seq %" PRId64 "  %s%s%s", row->seq, colour,
                   ef_name_of(EF_NAMES_TRIAL_OUTCOME, row->outcome),
                   colour[0] ? cli_colour(c, CLI_PLAIN) : "");
    if (row->outcome == EF_TRIAL_FAILED) {
        ef__buf_add_text(&c->out, "  ");
        cli_escape(&c->out, row->message);
    }
    if (row->version == 0)
        ef__buf_add_text(&c->out, "  (no deployed version fails on it)");
    ef__buf_add_char(&c->out, '\n');
}

static bool report_event(void *context, const ef_draft_row *row)
{
    showing *s = context;

    if (s->c->format == CLI_TABLE)
        print_event(s->c, row);
    else
        ef__shape_write(&s->writer, &ef__shape_draft_row, row);
    return cli_flush_some(s->c);
}

static void report_counts(showing *s, const ef_draft_result *d)
{
    cli *c = s->c;
    int64_t rows = d->applied + d->ignored + d->failed + d->waits + d->not_tried;

    if (c->format != CLI_TABLE) {
        ef__json_close(&s->writer, ']');
        ef__shape_members(&s->writer, &ef__shape_draft_result, d);
        cli_object_end(c, &s->writer);
        return;
    }
    if (rows == 0) {
        cli_say(c, "no failed events: there is nothing to try");
        return;
    }
    ef__buf_printf(&c->out,
                   "%" PRId64 " failed event%s with version %d: %" PRId64 " applied, %" PRId64
                   " ignored, %" PRId64 " failed, %" PRId64 " blocked",
                   rows, cli_plural(rows), (int)d->version, d->applied, d->ignored, d->failed,
                   d->waits);
    if (d->not_tried > 0)
        ef__buf_printf(&c->out, ", %" PRId64 " not tried (more than %d events)", d->not_tried,
                       EF_DRAFT_EVENTS_MAX);
    ef__buf_printf(&c->out, "; %" PRId64 " event%s fail%s only with this version\n",
                   d->newly_failed, cli_plural(d->newly_failed), d->newly_failed == 1 ? "s" : "");
}

static ef_status try_program(cli *c, ef_str text, ef_error *err)
{
    showing s = {.c = c, .writer = EF__JSON_WRITER(&c->out)};
    ef_str tenant = cli_tenant(c);
    ef_draft draft = {.file_name = c->arguments[0],
                      .text = text,
                      .tenant = cli_tenant_given(c) ? &tenant : NULL,
                      .limit = (size_t)cli_int(c, "limit")};
    ef_draft_result counts;
    ef_status st;

    if (c->format != CLI_TABLE) {
        ef__json_open(&s.writer, '{');
        ef__json_member_open(&s.writer, "rows", '[');
    }
    st = cli_projection_try_draft(c, &draft, report_event, &s, &counts, err);
    if (st != EF_OK) {
        ef__buf_reset(&c->out);
        return st;
    }
    report_counts(&s, &counts);
    c->exit_code = counts.failed || counts.waits || counts.not_tried || counts.newly_failed ? 1 : 0;
    return EF_OK;
}

static ef_status try_file(cli *c, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(CLI_PROGRAM_BYTES);
    bool shown = false;
    ef_status st = cli_program_check(c->arguments[0], &text, &shown, err);

    c->error_shown = shown && c->format == CLI_TABLE;
    if (st == EF_OK)
        st = cli_need(c, CLI_ENGINE_READ, err);
    if (st == EF_OK)
        st = try_program(c, ef__buf_str(&text), err);
    return st;
}

const cli_command cli_cmd_projection_try = {
    .name = "projection try",
    .summary = "dry-run a program on the failed events before deploying it",
    .options = CLI_OPTIONS(CLI_INT("limit", "N", 1, EF_DRAFT_ROWS_MAX, 0,
                                   "try at most N failed events (default 100)")),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("FILE", "program file", .words = "@file")),
    .more =
        "Folds the program over every stream that has a failed or dead event of the projection,\n"
        "from the first event of the stream, into empty views in memory (a log-ordered program:\n"
        "over all events of the tenant). Nothing is written. Lookups read the stored views. A\n"
        "view that several streams share contains only the events of one stream here. The exit\n"
        "code is 1 if an event fails.\n"
        "\n"
        "To deploy it: everfold projection deploy FILE --switch",
    .example = "everfold projection try shop/customer_orders.fold",
    .call = try_file,
};
