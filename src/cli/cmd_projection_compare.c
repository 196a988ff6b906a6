/*
 * cmd_projection_compare.c - everfold projection diff NAME --versions A,B; verify and rebuild NAME
 */
#include "calls.h"
#include "fold_test.h"

#define VIEW_MAX (16 * 1024 * 1024)

typedef struct showing {
    cli *c;
    ef__arena arena;
    ef__json_writer writer;
    int64_t limit, shown;
} showing;

static void add_value(cli *c, const ef__json *value)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(CLI_OUT_MAX);

    if (value && ef__json_canonical(value, &text))
        cli_escape(&c->out, ef__buf_str(&text));
    else
        ef__buf_add_text(&c->out, "nothing");
}

static void print_place(void *context, ef_str path, const ef__json *left, const ef__json *right)
{
    showing *s = context;

    ef__buf_add_text(&s->c->out, "    ");
    cli_escape(&s->c->out, path.len ? path : EF_STR("(all)"));
    ef__buf_add_text(&s->c->out, ": ");
    add_value(s->c, left);
    ef__buf_add_text(&s->c->out, " -> ");
    add_value(s->c, right);
    ef__buf_add_char(&s->c->out, '\n');
}

static void print_difference(showing *s, const ef_difference *d)
{
    ef__json *left = NULL, *right = NULL;

    cli_add_name(s->c, d->tenant, d->view_id);
    ef__buf_add_text(&s->c->out, !d->left.ptr    ? "  only right\n"
                                 : !d->right.ptr ? "  only left\n"
                                                 : "\n");
    ef__arena_reset(&s->arena);
    if (d->left.ptr && d->right.ptr &&
        ef__json_parse(d->left, VIEW_MAX, &s->arena, &left, NULL) == EF_OK &&
        ef__json_parse(d->right, VIEW_MAX, &s->arena, &right, NULL) == EF_OK)
        (void)cli_json_diff(left, right, print_place, s);
}

static bool report_difference(void *context, const ef_difference *d)
{
    showing *s = context;

    if (s->shown++ >= s->limit)
        return true; /* not shown, but counted */
    if (s->c->format == CLI_TABLE)
        print_difference(s, d);
    else
        ef__shape_write(&s->writer, &ef__shape_difference, d);
    return cli_flush_some(s->c);
}

static void report_counts(showing *s, const ef_diff *diff)
{
    if (s->c->format == CLI_TABLE) {
        ef__buf_printf(&s->c->out,
                       "%" PRId64 " view%s: %" PRId64 " differ, %" PRId64 " only left, %" PRId64
                       " only right\n",
                       diff->views, cli_plural(diff->views), diff->different, diff->left_only,
                       diff->right_only);
        return;
    }
    ef__json_close(&s->writer, ']');
    ef__shape_members(&s->writer, &ef__shape_diff, diff);
    cli_object_end(s->c, &s->writer);
}

/* "1,2" */
static ef_status parse_pair(cli *c, const char *name, int32_t out[2], ef_error *err)
{
    const char *text = cli_value(c, name), *comma = text ? strchr(text, ',') : NULL;
    char first[24];
    int64_t a = 0, b = 0;
    ef_status st;

    if (!comma || (size_t)(comma - text) >= sizeof first)
        return cli_refuse(c, err, "--%s needs two numbers: 1,2", name);
    (void)snprintf(first, sizeof first, "%.*s", (int)(comma - text), text);
    st = cli_number_parse(name, first, 1, INT32_MAX, &a, err);
    if (st == EF_OK)
        st = cli_number_parse(name, comma + 1, 1, INT32_MAX, &b, err);
    out[0] = (int32_t)a;
    out[1] = (int32_t)b;
    return st;
}

static ef_status parse_sides(cli *c, ef_generation_choice routes[2], ef_error *err)
{
    bool versions = cli_has(c, "versions");
    const char *name = versions ? "versions" : "generations";
    int32_t pair[2];
    ef_status st;

    if (versions == cli_has(c, "generations"))
        return cli_refuse(c, err, "projection diff needs either --versions or --generations");
    st = parse_pair(c, name, pair, err);
    for (int i = 0; st == EF_OK && i < 2; i++)
        routes[i] = (ef_generation_choice){.projection = ef_str_from(c->arguments[0]),
                                           .version = versions ? pair[i] : 0,
                                           .generation = versions ? 0 : pair[i]};
    return st;
}

/* Warns if a side misses events: the differences may come from these and not from the programs. */
static void warn_missing_events(cli *c, const ef_projection *p)
{
    if (p->lag_events > 0)
        cli_warn(c,
                 "everfold: version %d (generation %d) is %" PRId64
                 " event%s behind; compare again when it has caught up (everfold work)",
                 (int)p->version, (int)p->generation, p->lag_events, cli_plural(p->lag_events));
    if (p->blocked_events > 0)
        cli_warn(c,
                 "everfold: version %d (generation %d) misses %" PRId64
                 " blocked event%s; see: everfold projection failures %.*s",
                 (int)p->version, (int)p->generation, p->blocked_events,
                 cli_plural(p->blocked_events), EF_STR_ARG(p->name));
}

static void warn_sides(cli *c, const ef_generation_choice routes[2])
{
    EF__AUTO(ef_projection_list) list = {0};
    ef_error ignored = EF_ERROR_INIT;

    if (cli_projection_ls(c, routes[0].projection, &list, &ignored) != EF_OK)
        return;
    for (size_t i = 0; i < list.count; i++)
        for (int side = 0; side < 2; side++)
            if (list.items[i].version == routes[side].version ||
                list.items[i].generation == routes[side].generation) {
                warn_missing_events(c, &list.items[i]);
                break;
            }
}

static ef_status diff_projection(cli *c, ef_error *err)
{
    showing s = {.c = c,
                 .arena = EF__ARENA_INIT(4 * VIEW_MAX),
                 .writer = EF__JSON_WRITER(&c->out),
                 .limit = cli_int(c, "limit")};
    ef_generation_choice routes[2];
    ef_diff diff;
    ef_status st = parse_sides(c, routes, err);

    if (st == EF_OK)
        st = cli_need(c, CLI_ENGINE_READ, err);
    if (c->format != CLI_TABLE) {
        ef__json_open(&s.writer, '{');
        ef__json_member_open(&s.writer, "differences", '[');
    }
    if (st == EF_OK)
        st = cli_projection_diff(c, &routes[0], &routes[1], report_difference, &s, &diff, err);
    if (st == EF_OK) {
        report_counts(&s, &diff);
        c->exit_code = diff.different || diff.left_only || diff.right_only ? 1 : 0;
        if (c->exit_code != 0)
            warn_sides(c, routes);
    } else {
        ef__buf_reset(&c->out);
    }
    ef__arena_release(&s.arena);
    return st;
}

const cli_command cli_cmd_projection_diff = {
    .name = "projection diff",
    .summary = "compare the views of two versions or generations",
    .options = CLI_OPTIONS(
        CLI_TEXT("versions", "A,B", "two versions; the newest generation of each is compared"),
        CLI_TEXT("generations", "A,B", "two generations"),
        CLI_INT("limit", "N", 0, INT64_MAX, 20, "differences to show (default 20)")),
    .arguments = CLI_NAME("projection"),
    .more = "The exit code is 1 if they differ.",
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection diff customer_orders --generations 1,2",
    .call = diff_projection,
    .hints = CLI_HINTS(
        {EF_BLOCKED,
         "see: everfold projection failures NAME; then everfold outbox requeue or skip"},
        {EF_BUSY, "run it again when everfold projection ls shows the same position for both"}),
    .hint = "see: everfold projection ls",
};

static void print_verdict(cli *c, const ef_run *run, const ef_verdict *v)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out, "%" PRId64 " view%s, %" PRId64 " differ\n", v->views,
                       cli_plural(v->views), v->differences);
        if (v->examples.len)
            cli_line(c, 0, "first difference: ", v->examples);
        return;
    }
    ef__json_open(&w, '{');
    ef__json_member_str(&w, "projection", run->projection);
    ef__json_member_int(&w, "generation", v->generation);
    ef__json_member_bool(&w, "equal", v->compared && v->differences == 0);
    ef__json_member_int(&w, "views", v->views);
    ef__json_member_int(&w, "differences", v->differences);
    ef__json_member_raw(&w, "examples", v->examples.len ? v->examples : EF_STR("[]"));
    ef__json_member_str(&w, "run", run->id);
    cli_object_end(c, &w);
}

static ef_status report_verification(cli *c, const ef_run *run, ef_error *err)
{
    ef_verdict v;
    ef_status st = ef_run_verdict(run, &v, err);

    if (st != EF_OK)
        return st;
    print_verdict(c, run, &v);
    if (v.differences) {
        cli_say(c, "rebuild it: everfold projection rebuild %s", c->arguments[0]);
        c->exit_code = 1;
    }
    return EF_OK;
}

static ef_status verify_projection(cli *c, ef_error *err)
{
    EF__AUTO(ef_run_list) runs = {0};
    ef_rebuild verify = {.projection = ef_str_from(c->arguments[0]),
                         .verify = true,
                         .actor = cli_actor(c),
                         .reason = cli_reason(c)};
    ef_status st = cli_projection_rebuild(c, &verify, &runs, err);

    if (st == EF_OK)
        st = cli_run_follow(c, &runs, true, err);
    if (st == EF_OK && c->exit_code == 0)
        st = report_verification(c, &runs.items[0], err);
    return st;
}

const cli_command cli_cmd_projection_verify = {
    .name = "projection verify",
    .summary = "compare every view with a side build from the journal; exit code 1 on drift",
    .options = CLI_OPTIONS(CLI_TEXT("reason", "TEXT", "reason, recorded with the run")),
    .arguments = CLI_NAME("projection"),
    .more =
        "Live work continues meanwhile. The side build is removed afterwards. The exit code is\n"
        "1 if a view differs from the result of folding the events.",
    .example = "everfold projection verify customer_orders",
    .stores = CLI_ENGINE,
    .call = verify_projection,
    .hints = CLI_PROJECTION_HINTS,
};

/* Explains what to do with a new generation that was not activated. */
static void explain_differences(cli *c, const ef_run *run, const ef_verdict *v)
{
    cli_warn(c, "everfold: %" PRId64 " of %" PRId64 " views differ from generation %d",
             v->differences, v->views, (int)v->generation);
    if (v->switched)
        return;
    cli_warn(c, "everfold: generation %d is complete; generation %d is still the active one",
             (int)v->built, (int)v->generation);
    cli_say(c, "compare them: everfold projection diff %.*s --generations %d,%d",
            EF_STR_ARG(run->projection), (int)v->generation, (int)v->built);
    cli_say(c, "activate the new one: everfold projection switch %.*s --generation %d",
            EF_STR_ARG(run->projection), (int)v->built);
    cli_say(c, "or remove it: everfold projection retire %.*s --generation %d",
            EF_STR_ARG(run->projection), (int)v->built);
}

/* Differences that prevented the switch set the exit code. */
static void report_verdict(cli *c, const ef_run *run)
{
    ef_verdict v;

    if (ef_run_verdict(run, &v, NULL) != EF_OK || run->state != EF_RUN_COMPLETED)
        return;
    if (v.differences)
        explain_differences(c, run, &v);
    if (v.switched)
        cli_say(c,
                "generation %d stays; remove it: everfold projection retire %.*s --generation %d",
                (int)v.generation, EF_STR_ARG(run->projection), (int)v.generation);
    c->exit_code = v.differences && !v.switched ? 1 : 0;
}

static ef_status finish_rebuild(cli *c, ef_run_list *runs, ef_error *err)
{
    ef_status st = EF_OK;

    if (cli_has(c, "wait"))
        st = cli_run_follow(c, runs, true, err);
    else
        cli_say(c, "a worker runs it (everfold work); see: everfold run watch %.*s",
                EF_STR_ARG(runs->items[0].id));
    cli_print_run(c, &runs->items[0]);
    if (st == EF_OK && c->exit_code == 0)
        report_verdict(c, &runs->items[0]);
    return st;
}

static ef_status check_rebuild(cli *c, ef_error *err)
{
    if (cli_has(c, "in-place") + cli_has(c, "no-switch") + cli_has(c, "switch-anyway") > 1)
        return cli_refuse(c, err, "--in-place, --no-switch and --switch-anyway cannot be combined");
    if (cli_value(c, "tenant"))
        return cli_refuse(c, err,
                          "projection rebuild folds the events of all tenants: --tenant %s cannot "
                          "be rebuilt alone; omit --tenant",
                          cli_value(c, "tenant"));
    return EF_OK;
}

static ef_status rebuild_projection(cli *c, ef_error *err)
{
    EF__AUTO(ef_run_list) runs = {0};
    ef_rebuild rebuild = {.projection = ef_str_from(c->arguments[0]),
                          .in_place = cli_has(c, "in-place"),
                          .no_switch = cli_has(c, "no-switch"),
                          .switch_anyway = cli_has(c, "switch-anyway"),
                          .actor = cli_actor(c),
                          .reason = cli_reason(c)};
    ef_status st = cli_projection_rebuild(c, &rebuild, &runs, err);

    if (st == EF_OK)
        st = finish_rebuild(c, &runs, err);
    return st;
}

const cli_command cli_cmd_projection_rebuild = {
    .name = "projection rebuild",
    .summary = "rebuild a projection from all events",
    .options = CLI_OPTIONS(
        CLI_FLAG("wait", "rebuild now and show progress"),
        CLI_FLAG("in-place", "replace the active views at once; queries see them grow from empty"),
        CLI_FLAG("no-switch", "do not make the new generation active"),
        CLI_FLAG("switch-anyway", "make it active even if views differ"),
        CLI_TEXT("reason", "TEXT", "reason, recorded with the run")),
    .arguments = CLI_NAME("projection"),
    .more = "A new generation is built beside the active one, compared with it, and then becomes\n"
            "the active one atomically; queries never see a partial state. If views differ, the\n"
            "switch happens only with --switch-anyway, and with --wait the exit code is 1. The\n"
            "events of all tenants are folded. The old generation stays up to date for everfold\n"
            "projection rollback until it is retired. With --in-place the new generation replaces\n"
            "the old one at once: queries see it grow from empty.",
    .example = "everfold projection rebuild customer_orders --wait",
    .check = check_rebuild,
    .stores = CLI_ENGINE,
    .call = rebuild_projection,
    .hints = CLI_PROJECTION_HINTS,
};
