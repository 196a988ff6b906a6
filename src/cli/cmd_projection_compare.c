/*
 * cmd_projection_compare.c - everfold projection diff NAME --versions A,B; verify and rebuild NAME
 */
#include "calls.h"
#include "fold_test.h"

#include <inttypes.h>

#define VIEW_MAX (16 * 1024 * 1024)

typedef struct showing {
    cli *c;
    ef__arena arena;
    ef__json_writer writer;
    int64_t limit, shown;
} showing;

static void add_value(cli *c, const ef__json *value)
{
    ef__buf text = EF__BUF_INIT(CLI_OUT_MAX);

    if (value && ef__json_canonical(value, &text))
        cli_escape(&c->out, ef__buf_str(&text));
    else
        ef__buf_add_text(&c->out, "nothing");
    ef__buf_release(&text);
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

    if (d->tenant.len) {
        ef__buf_add_text(&s->c->out, "tenant ");
        cli_escape(&s->c->out, d->tenant);
        ef__buf_add_text(&s->c->out, "  ");
    }
    cli_escape(&s->c->out, d->view_id);
    ef__buf_add_text(&s->c->out, !d->left.ptr    ? "  only right\n"
                                 : !d->right.ptr ? "  only left\n"
                                                 : "\n");
    ef__arena_reset(&s->arena);
    if (d->left.ptr && d->right.ptr &&
        ef__json_parse(d->left, VIEW_MAX, &s->arena, &left, NULL) == EF_OK &&
        ef__json_parse(d->right, VIEW_MAX, &s->arena, &right, NULL) == EF_OK)
        (void)cli_json_diff(left, right, print_place, s);
}

static void write_side(ef__json_writer *w, const char *key, ef_str data)
{
    ef__json_member_raw(w, key, data);
}

static bool report_difference(void *context, const ef_difference *d)
{
    showing *s = context;
    ef__json_writer *w = &s->writer;

    if (s->shown++ >= s->limit)
        return true; /* not shown, but counted */
    if (s->c->format == CLI_TABLE) {
        print_difference(s, d);
        return cli_flush_some(s->c);
    }
    ef__json_open(w, '{');
    ef__json_member_str(w, "tenant", d->tenant);
    ef__json_member_str(w, "view_id", d->view_id);
    write_side(w, "left", d->left);
    write_side(w, "right", d->right);
    ef__json_close(w, '}');
    return cli_flush_some(s->c);
}

static void add_count(ef__json_writer *w, const char *key, int64_t value)
{
    ef__json_member_int(w, key, value);
}

static void report_counts(showing *s, const ef_diff *diff)
{
    ef__json_writer *w = &s->writer;

    if (s->c->format == CLI_TABLE) {
        ef__buf_printf(&s->c->out,
                       "%" PRId64 " view%s: %" PRId64 " differ, %" PRId64 " only left, %" PRId64
                       " only right\n",
                       diff->views, cli_plural(diff->views), diff->different, diff->left_only,
                       diff->right_only);
        return;
    }
    ef__json_close(w, ']');
    add_count(w, "views", diff->views);
    add_count(w, "different", diff->different);
    add_count(w, "left_only", diff->left_only);
    add_count(w, "right_only", diff->right_only);
    ef__json_close(w, '}');
    ef__buf_add_char(&s->c->out, '\n');
}

/* "1,2" */
static int parse_pair(cli *c, const char *name, int32_t out[2])
{
    const char *text = cli_value(c, name), *comma = text ? strchr(text, ',') : NULL;
    ef_error err = EF_ERROR_INIT;
    char first[24];
    int64_t a, b;

    if (!comma || (size_t)(comma - text) >= sizeof first)
        return cli_usage(c, "--%s needs two numbers: 1,2", name);
    memcpy(first, text, (size_t)(comma - text));
    first[comma - text] = '\0';
    if (cli_number_parse(name, first, 1, INT32_MAX, &a, &err) != EF_OK ||
        cli_number_parse(name, comma + 1, 1, INT32_MAX, &b, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    out[0] = (int32_t)a;
    out[1] = (int32_t)b;
    return 0;
}

static int parse_sides(cli *c, ef_generation_choice routes[2])
{
    bool versions = cli_has(c, "versions");
    int32_t pair[2];

    if (versions == cli_has(c, "generations"))
        return cli_usage(c, "projection diff needs either --versions or --generations");
    int rc = parse_pair(c, versions ? "versions" : "generations", pair);
    for (int i = 0; rc == 0 && i < 2; i++)
        routes[i] = (ef_generation_choice){.projection = ef_str_from(c->arguments[0]),
                                           .version = versions ? pair[i] : 0,
                                           .generation = versions ? 0 : pair[i]};
    return rc;
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
    ef_projection_list list = {0};
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
    EF_RELEASE(&list);
}

static const char *diff_hint(ef_status status)
{
    if (status == EF_BLOCKED)
        return "see: everfold projection failures NAME; then everfold outbox requeue or skip";
    if (status == EF_BUSY)
        return "run it again when everfold projection ls shows the same position for both";
    return "see: everfold projection ls";
}

static int run_diff(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    showing s = {.c = c,
                 .arena = EF__ARENA_INIT(4 * VIEW_MAX),
                 .writer = EF__JSON_WRITER(&c->out),
                 .limit = 20};
    ef_generation_choice routes[2];
    ef_diff diff;
    int rc = parse_sides(c, routes);

    if (rc == 0 && cli_number(c, "limit", 0, INT64_MAX, &s.limit, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    if (rc == 0)
        rc = cli_engine_need(c, true);
    if (rc != 0)
        return rc;
    if (c->format != CLI_TABLE) {
        ef__json_open(&s.writer, '{');
        ef__json_member_open(&s.writer, "differences", '[');
    }
    if (cli_projection_diff(c, &routes[0], &routes[1], report_difference, &s, &diff, &err) ==
        EF_OK) {
        report_counts(&s, &diff);
        rc = diff.different || diff.left_only || diff.right_only ? 1 : 0;
        if (rc != 0)
            warn_sides(c, routes);
    } else {
        ef__buf_reset(&c->out);
        rc = cli_fail(c, &err, diff_hint(err.status));
    }
    ef__arena_release(&s.arena);
    return rc;
}

const cli_command cli_cmd_projection_diff = {
    .name = "projection diff",
    .summary = "compare the views of two versions or generations",
    .options = CLI_OPTIONS({"versions", 0, "A,B", NULL, NULL,
                            "two versions; the newest generation of each is compared"},
                           {"generations", 0, "A,B", NULL, NULL, "two generations"},
                           {"limit", 0, "N", NULL, NULL, "differences to show (default 20)"}),
    .arguments = CLI_NAME("projection"),
    .more = "The exit code is 1 if they differ.",
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection diff customer_orders --generations 1,2",
    .run = run_diff,
};

static void print_verdict(cli *c, const ef_run *run, const ef_verdict *v)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out, "%" PRId64 " view%s, %" PRId64 " differ\n", v->views,
                       cli_plural(v->views), v->differences);
        if (v->examples.len) {
            ef__buf_add_text(&c->out, "first difference: ");
            cli_escape(&c->out, v->examples);
            ef__buf_add_char(&c->out, '\n');
        }
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
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

static int verify_projection(cli *c, ef_run_list *runs)
{
    ef_error err = EF_ERROR_INIT;
    ef_verdict v;
    int rc = cli_run_drive(c, runs);

    if (rc != 0)
        return rc;
    if (ef_run_verdict(&runs->items[0], &v, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    print_verdict(c, &runs->items[0], &v);
    if (v.differences == 0)
        return 0;
    cli_say(c, "rebuild it: everfold projection rebuild %s", c->arguments[0]);
    return 1;
}

static int run_verify(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    int rc = cli_engine_need(c, false);

    if (rc != 0)
        return rc;
    ef_status st = cli_projection_verify(c, ef_str_from(c->arguments[0]), cli_actor(c),
                                         cli_reason(c), &runs, &err);
    rc = st == EF_OK ? verify_projection(c, &runs) : cli_fail(c, &err, cli_projection_hint(st));
    EF_RELEASE(&runs);
    return rc;
}

const cli_command cli_cmd_projection_verify = {
    .name = "projection verify",
    .summary = "compare every view with a side build from the journal; exit code 1 on drift",
    .options = CLI_OPTIONS({"reason", 0, "TEXT", NULL, NULL, "reason, recorded with the run"}),
    .arguments = CLI_NAME("projection"),
    .more =
        "Live work continues meanwhile. The side build is removed afterwards. The exit code is\n"
        "1 if a view differs from the result of folding the events.",
    .example = "everfold projection verify customer_orders",
    .run = run_verify,
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

/* Returns the exit code: 1 if differences prevented the switch. */
static int report_verdict(cli *c, const ef_run *run)
{
    ef_error err = EF_ERROR_INIT;
    ef_verdict v;

    if (ef_run_verdict(run, &v, &err) != EF_OK || run->state != EF_RUN_COMPLETED)
        return 0;
    if (v.differences)
        explain_differences(c, run, &v);
    if (v.switched)
        cli_say(c,
                "generation %d stays; remove it: everfold projection retire %.*s --generation %d",
                (int)v.generation, EF_STR_ARG(run->projection), (int)v.generation);
    return v.differences && !v.switched ? 1 : 0;
}

static int finish_rebuild(cli *c, ef_run_list *runs)
{
    int rc = 0;

    if (cli_has(c, "wait"))
        rc = cli_run_drive(c, runs);
    else
        cli_say(c, "a worker runs it (everfold work); see: everfold run watch %.*s",
                EF_STR_ARG(runs->items[0].id));
    cli_print_run(c, &runs->items[0]);
    return rc == 0 ? report_verdict(c, &runs->items[0]) : rc;
}

static int run_rebuild(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    ef_rebuild rebuild = {.projection = ef_str_from(c->arguments[0]),
                          .in_place = cli_has(c, "in-place"),
                          .no_switch = cli_has(c, "no-switch"),
                          .switch_anyway = cli_has(c, "switch-anyway"),
                          .actor = cli_actor(c),
                          .reason = cli_reason(c)};

    if (rebuild.in_place + rebuild.no_switch + rebuild.switch_anyway > 1)
        return cli_usage(c, "--in-place, --no-switch and --switch-anyway cannot be combined");
    if (cli_value(c, "tenant"))
        return cli_usage(c,
                         "projection rebuild folds the events of all tenants: --tenant %s cannot "
                         "be rebuilt alone; omit --tenant",
                         cli_value(c, "tenant"));
    int rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    if (cli_projection_rebuild(c, &rebuild, &runs, &err) == EF_OK)
        rc = finish_rebuild(c, &runs);
    else
        rc = cli_fail(c, &err, cli_projection_hint(err.status));
    EF_RELEASE(&runs);
    return rc;
}

const cli_command cli_cmd_projection_rebuild = {
    .name = "projection rebuild",
    .summary = "rebuild a projection from all events",
    .options =
        CLI_OPTIONS({"wait", 0, NULL, NULL, NULL, "rebuild now and show progress"},
                    {"in-place", 0, NULL, NULL, NULL,
                     "replace the active views at once; queries see them grow from empty"},
                    {"no-switch", 0, NULL, NULL, NULL, "do not make the new generation active"},
                    {"switch-anyway", 0, NULL, NULL, NULL, "make it active even if views differ"},
                    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded with the run"}),
    .arguments = CLI_NAME("projection"),
    .more = "A new generation is built beside the active one, compared with it, and then becomes\n"
            "the active one atomically; queries never see a partial state. If views differ, the\n"
            "switch happens only with --switch-anyway, and with --wait the exit code is 1. The\n"
            "events of all tenants are folded. The old generation stays up to date for everfold\n"
            "projection rollback until it is retired. With --in-place the new generation replaces\n"
            "the old one at once: queries see it grow from empty.",
    .example = "everfold projection rebuild customer_orders --wait",
    .run = run_rebuild,
};
