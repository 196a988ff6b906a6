/*
 * cmd_view.c - everfold view get, at, query, export, explain and seed
 */
#include "calls.h"

#include "../base/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLI_FRESHNESS_OPTIONS                                                                      \
    CLI_TEXT("at-least", "TOKEN", "wait until the append with this TOKEN is applied"),             \
        CLI_FLAG("current", "wait until all events up to the current head are applied"),           \
        CLI_TEXT("timeout", "D", "timeout of the wait: 500ms, 10s (default 5s)")

#define TIMEOUT_MS_DEFAULT 5000

static void add_line(cli *c, const char *name, ef_str value)
{
    ef__buf_printf(&c->out, "%-21s", name);
    cli_escape(&c->out, value);
    ef__buf_add_char(&c->out, '\n');
}

static void add_int_line(cli *c, const char *name, int64_t value)
{
    ef__buf_printf(&c->out, "%-21s%lld\n", name, (long long)value);
}

/* Prints one view, as `view get` and `view at` do. */
static void print_view(cli *c, const ef_view *view, int64_t as_of)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format != CLI_TABLE) {
        ef__view_write(&w, view, as_of);
        ef__buf_add_char(&c->out, '\n');
        return;
    }
    add_line(c, "view_type", view->view_type);
    add_int_line(c, "version", view->version);
    add_line(c, "tenant", view->tenant);
    add_line(c, "view_id", view->view_id);
    add_int_line(c, "last_event_sequence", view->last_event_sequence);
    add_line(c, "data", view->data);
    add_int_line(c, "as_of", as_of);
}

/* the first of a list */
static void print_found(cli *c, const ef_view_list *found, bool current)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        print_view(c, &found->items[0], found->as_of);
        if (current)
            add_int_line(c, "blocked_streams", found->blocked_streams);
        return;
    }
    ef__view_write_found(&w, found, current);
    ef__buf_add_char(&c->out, '\n');
}

/* --at-least, --current and --timeout. */
static ef_status read_freshness(const cli *c, ef_freshness *out, ef_error *err)
{
    ef_token token;

    *out = (ef_freshness){.at_least = ef_str_from(cli_value(c, "at-least")),
                          .current = cli_has(c, "current")};
    if (cli_has(c, "at-least") && out->current)
        return ef_fail(err, EF_BAD_INPUT, "--at-least and --current cannot be combined");
    if (cli_has(c, "at-least") && ef_token_parse(out->at_least, &token, err) != EF_OK)
        return err->status;
    if (cli_has(c, "at-least") || out->current)
        out->timeout_ms = TIMEOUT_MS_DEFAULT;
    else if (cli_has(c, "timeout"))
        return ef_fail(err, EF_BAD_INPUT, "--timeout needs --at-least or --current");
    return cli_duration(c, "timeout", &out->timeout_ms, err);
}

const char *cli_view_hint(ef_status status)
{
    if (status == EF_BLOCKED)
        return "see: everfold projection failures PROJECTION; then everfold outbox requeue or skip";
    return status == EF_TIMEOUT ? "check that a worker is running: everfold worker ls" : NULL;
}

static int run_get(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_freshness freshness;
    ef_view_list found = {0};
    ef_status st = read_freshness(c, &freshness, &err);
    int rc = st == EF_OK ? cli_open(c, CLI_ENGINE_READ) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    st = cli_view_get(c, ef_str_from(c->arguments[0]), cli_tenant(c), ef_str_from(c->arguments[1]),
                      &freshness, &found, &err);
    if (st == EF_OK)
        print_found(c, &found, freshness.current);
    else
        rc = cli_fail(c, &err, cli_view_hint(st));
    EF_RELEASE(&found);
    return rc;
}

static int run_at(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_view_list found = {0};
    int64_t position = 0;
    ef_status st = cli_number(c, "position", 1, INT64_MAX, &position, &err);
    int rc;

    if (!cli_has(c, "position"))
        return cli_usage(c, "view at needs --position");
    rc = st == EF_OK ? cli_open(c, CLI_ENGINE_READ) : cli_fail(c, &err, NULL);
    if (rc != 0)
        return rc;
    st = cli_view_at(c, ef_str_from(c->arguments[0]), cli_tenant(c), ef_str_from(c->arguments[1]),
                     position, &found, &err);
    if (st == EF_OK)
        print_view(c, &found.items[0], found.as_of);
    else
        rc = cli_fail(c, &err, NULL);
    EF_RELEASE(&found);
    return rc;
}

const cli_command cli_cmd_view_get = {
    .name = "view get",
    .summary = "read one view by id",
    .options = CLI_OPTIONS(CLI_FRESHNESS_OPTIONS),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("PROJECTION", "name of the projection"),
                               CLI_ARGUMENT("ID", "id of the view")),
    .more =
        "as_of is the position that the view reflects: the current position of the projection,\n"
        "unless --at-least or --current asks to wait for a later one.",
    .example = "everfold view get customer_orders ada --current",
    .run = run_get,
};

const cli_command cli_cmd_view_at = {
    .name = "view at",
    .summary = "show a view as of a position",
    .options = CLI_OPTIONS(CLI_TEXT("position", "P", "position in the journal (required)")),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("PROJECTION", "name of the projection"),
                               CLI_ARGUMENT("ID", "id of the view")),
    .more = "The view is folded from the journal. The exit code is 3 if it did not exist at that\n"
            "position.",
    .example = "everfold view at customer_orders ada --position 1200",
    .run = run_at,
};

static ef_status read_query(const cli *c, ef_view_query *query, ef_error *err)
{
    int64_t limit = 0;
    ef_status st = cli_number(c, "limit", 1, EF_LIMIT_LIST_ROWS, &limit, err);

    *query = (ef_view_query){
        .projection = ef_str_from(c->arguments[0]),
        .tenant = cli_tenant(c),
        .where = ef_str_from(cli_value(c, "where")),
        .sort = ef_str_from(cli_value(c, "sort")),
        .fields = ef_str_from(cli_value(c, "fields")),
        .limit = (size_t)limit,
        .after = ef_str_from(cli_value(c, "after")),
        .count_only = cli_has(c, "count"),
        .explain = cli_has(c, "explain"),
    };
    return st == EF_OK ? read_freshness(c, &query->freshness, err) : st;
}

/* Version of the views found; without views, of the active generation. */
static ef_status version_of(cli *c, const ef_view_query *query, const ef_view_list *found,
                            int32_t *out, ef_error *err)
{
    ef_projection_list projections = {0};

    if (found->count > 0) {
        *out = found->items[0].version;
        return EF_OK;
    }
    ef_status st = cli_projection_ls(c, query->projection, &projections, err);
    if (st == EF_OK)
        *out = projections.items[0].version;
    EF_RELEASE(&projections);
    return st;
}

static void write_items(cli *c, ef__json_writer *w, const ef_view_list *found)
{
    ef__json_member_open(w, "items", '[');
    for (size_t i = 0; i < found->count; i++) {
        ef__view_write(w, &found->items[i], found->as_of);
        (void)cli_flush_some(c);
    }
    ef__json_close(w, ']');
    ef__json_member_name(w, "next", found->next);
}

static void write_object(cli *c, const ef_view_query *query, const ef_view_list *found,
                         int32_t version)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    ef__json_open(&w, '{');
    ef__json_member_str(&w, "view_type", query->projection);
    ef__json_member_int(&w, "version", version);
    if (query->count_only) {
        ef__json_member_int(&w, "count", found->total);
    } else {
        write_items(c, &w, found);
    }
    ef__json_member_int(&w, "as_of", found->as_of);
    if (query->freshness.current)
        ef__blocked_write(&w, found);
    if (query->explain) {
        ef__json_member_str(&w, "plan", found->plan);
        ef__json_member_int(&w, "looked", found->looked);
    }
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

static void write_lines(cli *c, const ef_view_list *found)
{
    for (size_t i = 0; i < found->count; i++) {
        ef__json_writer w = EF__JSON_WRITER(&c->out);
        ef__view_write(&w, &found->items[i], found->as_of);
        ef__buf_add_char(&c->out, '\n');
        (void)cli_flush_some(c);
    }
}

static void write_plan(cli *c, const ef_view_query *query, const ef_view_list *found)
{
    cli_escape_lines(&c->out, found->plan, "");
    ef__buf_printf(&c->out, "%" PRId64 " view%s read, %" PRId64 " found\n", found->looked,
                   cli_plural(found->looked),
                   query->count_only ? found->total : (int64_t)found->count);
}

static ef_status write_answer(cli *c, const ef_view_query *query, const ef_view_list *found,
                              ef_error *err)
{
    bool many = !query->count_only &&
                !query->explain; /* views themselves are printed, not a count or a plan */
    int32_t version = 0;
    ef_status st = EF_OK;

    if (many && c->format == CLI_NDJSON) {
        write_lines(c, found);
    } else if (c->format != CLI_TABLE) {
        st = version_of(c, query, found, &version, err);
        if (st == EF_OK)
            write_object(c, query, found, version);
    } else if (query->explain) {
        write_plan(c, query, found);
    } else if (query->count_only) {
        ef__buf_printf(&c->out, "%" PRId64 "\n", found->total);
    } else if (found->count == 0) {
        cli_say(c, "no views");
    } else {
        st = cli_table_views(c, found->items, found->count, err);
    }
    if (st == EF_OK && many && c->format != CLI_JSON && found->next.len > 0) {
        (void)cli_flush(c);
        cli_say(c, "more views follow: continue with --after %.*s", EF_STR_ARG(found->next));
    }
    return st;
}

static int run_query(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_view_query query;
    ef_view_list found = {0};
    ef_status st = read_query(c, &query, &err);
    int rc = st == EF_OK ? cli_open(c, CLI_ENGINE_READ) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    st = cli_view_find(c, &query, &found, &err);
    if (st == EF_OK)
        st = write_answer(c, &query, &found, &err);
    EF_RELEASE(&found);
    if (st == EF_OK)
        return 0;
    /* The message of a syntax error has several lines: text, position and caret. */
    if (c->format == CLI_TABLE && strchr(err.text, '\n')) {
        cli_lines_say(ef_str_from(err.text));
        return ef_status_describe(st)->exit_code;
    }
    return cli_fail(c, &err, st == EF_NOT_FOUND ? cli_projection_hint(st) : cli_view_hint(st));
}

const cli_command cli_cmd_view_query = {
    .name = "view query",
    .summary = "query views by their fields",
    .options = CLI_OPTIONS(
        CLI_TEXT("where", "EXPR", "only views that match this expression: 'total > 100'"),
        CLI_TEXT("sort", "F,-G", "order by these fields, - for descending (default: view_id)"),
        CLI_TEXT("limit", "N", "at most N views (default 100)"),
        CLI_TEXT("after", "CURSOR", "continue after the cursor of an earlier page"),
        CLI_TEXT("fields", "F,G", "only these fields of the data"),
        CLI_FLAG("count", "print the number of matching views only"),
        CLI_FLAG("explain", "show the index that is used and the number of views read"),
        CLI_FRESHNESS_OPTIONS),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("PROJECTION", "name of the projection")),
    .more = "EXPR is an expression of the fold language over the fields of a view, view_id and\n"
            "last_event_sequence. -o ndjson prints one view per line. Indexes that the program\n"
            "declares are used; --explain shows which.",
    .example = "everfold view query customer_orders --where 'total > 100' --sort -total",
    .run = run_query,
};

typedef struct exporting {
    cli *c;
    int64_t as_of; /* set before the first view is delivered */
} exporting;

static bool print_view_line(void *context, const ef_view *view)
{
    exporting *x = context;
    ef__json_writer w = EF__JSON_WRITER(&x->c->out);

    ef__view_write(&w, view, x->as_of);
    ef__buf_add_char(&x->c->out, '\n');
    return cli_flush_some(x->c);
}

static int run_export(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    exporting x = {.c = c};
    bool any = cli_has(c, "all-tenants");

    if (any && cli_value(c, "tenant"))
        return cli_usage(c, "--tenant and --all-tenants cannot be combined");
    int rc = cli_open(c, CLI_ENGINE_READ);
    if (rc != 0)
        return rc;
    ef_status st = cli_view_export(c, ef_str_from(c->arguments[0]), cli_tenant(c), any,
                                   print_view_line, &x, &x.as_of, &err);
    return st == EF_OK ? 0 : cli_fail(c, &err, cli_projection_hint(st));
}

const cli_command cli_cmd_view_export = {
    .name = "view export",
    .summary = "write all views of a projection as NDJSON, ordered by id",
    .options = CLI_OPTIONS(CLI_FLAG("all-tenants", "views of all tenants")),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("PROJECTION", "name of the projection")),
    .more = "The output is NDJSON, whatever -o is.",
    .example = "everfold view export customer_orders > customer_orders.ndjson",
    .run = run_export,
};

static int run_explain(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_batch batch = EF_BATCH_INIT;
    cli_events events;
    int64_t limit = 1000;
    ef_status st = cli_number(c, "limit", 1, EF_LIMIT_LIST_ROWS, &limit, &err);
    int rc = st == EF_OK ? cli_open(c, CLI_ENGINE_READ) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    st = cli_view_explain(c, ef_str_from(c->arguments[0]), cli_tenant(c),
                          ef_str_from(c->arguments[1]), (size_t)limit, &batch, &err);
    if (st == EF_OK) {
        cli_events_begin(&events, c, false, true);
        (void)cli_events_print(c, &events, &batch);
        cli_events_end(c, &events);
        if (batch.more)
            cli_say(c, "more than %lld events; list them with --limit N", (long long)limit);
    } else {
        rc = cli_fail(c, &err, NULL);
    }
    EF_RELEASE(&batch);
    return rc;
}

const cli_command cli_cmd_view_explain = {
    .name = "view explain",
    .summary = "list the events that produced a view, oldest first",
    .options = CLI_OPTIONS(CLI_TEXT("limit", "N", "at most N events (default 1000)")),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("PROJECTION", "name of the projection"),
                               CLI_ARGUMENT("ID", "id of the view")),
    .example = "everfold view explain customer_orders ada",
    .run = run_explain,
};

#define LINE_MAX_BYTES (32 * 1024 * 1024)

typedef struct seed_file {
    FILE *file;
    char *line; /* buffer of getline */
    size_t room;
    int64_t number, position;
    ef__arena arena;
} seed_file;

static ef_status bad_line(const seed_file *s, const char *what, ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT, "line %" PRId64 ": %s", s->number, what);
}

static ef_str member_text(const ef__json *line, const char *key)
{
    const ef__json *found = ef__json_get(line, key);

    return found ? found->text : (ef_str){0};
}

/* Views that were exported at another position would miss events or count them twice. */
static ef_status decode_view(seed_file *s, const ef__json *line, ef_seed_view *out, ef_error *err)
{
    const ef__json *data = ef__json_get(line, "data"), *id = ef__json_get(line, "view_id");
    const ef__json *last = ef__json_get(line, "last_event_sequence");
    const ef__json *as_of = ef__json_get(line, "as_of");
    int64_t position;

    if (!id || id->kind != EF__JSON_STRING)
        return bad_line(s, "view_id is missing", err);
    if (!data || data->kind != EF__JSON_OBJECT)
        return bad_line(s, "data is missing, or not an object", err);
    *out = (ef_seed_view){
        .tenant = member_text(line, "tenant"), .view_id = id->text, .data = data->text};
    if (last && ef__json_int64(last, &out->last_event_sequence) != 0)
        return bad_line(s, "last_event_sequence is not an integer", err);
    if (as_of && (ef__json_int64(as_of, &position) != 0 || position != s->position))
        return bad_line(s, "as_of differs from --position", err);
    return EF_OK;
}

static ef_status next_view(void *context, ef_seed_view *out, bool *out_more, ef_error *err)
{
    seed_file *s = context;
    ef_error why = EF_ERROR_INIT;
    ef__json *line = NULL;
    ssize_t length;

    do {
        errno = 0;
        length = getline(&s->line, &s->room, s->file);
        s->number++;
    } while (length == 1 && s->line[0] == '\n');
    *out_more = length > 0;
    if (length <= 0)
        return ferror(s->file) ? ef_fail(err, EF_IO, "the file cannot be read: error %d", errno)
                               : EF_OK;
    ef__arena_reset(&s->arena);
    if (ef__json_parse_envelope((ef_str){s->line, (size_t)length}, LINE_MAX_BYTES, &s->arena, &line,
                                &why) != EF_OK)
        return ef_fail(err, why.status, "line %" PRId64 ": %s", s->number, why.text);
    return decode_view(s, line, out, err);
}

static int seed_generation(cli *c, seed_file *s)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    ef_status st = cli_projection_seed(c,
                                       &(ef_seed){.projection = ef_str_from(c->arguments[0]),
                                                  .position = s->position,
                                                  .next = next_view,
                                                  .context = s,
                                                  .actor = cli_actor(c),
                                                  .reason = cli_reason(c)},
                                       &runs, &err);
    ef_verdict v;
    int rc = st == EF_OK ? 0 : cli_fail(c, &err, "nothing was stored");

    if (rc == 0)
        cli_print_run(c, &runs.items[0]);
    if (rc == 0 && ef_run_verdict(&runs.items[0], &v, &err) == EF_OK)
        cli_say(c, "when it has caught up: everfold projection switch %s --generation %d",
                c->arguments[0], (int)v.built);
    EF_RELEASE(&runs);
    return rc;
}

static int run_seed(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    seed_file s = {.position = -1, .arena = EF__ARENA_INIT(4ul * LINE_MAX_BYTES)};
    const char *path = c->arguments[1];
    int rc;

    if (cli_number(c, "position", 0, INT64_MAX, &s.position, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (s.position < 0)
        return cli_usage(c, "view seed needs --position: the position that the views reflect");
    rc = cli_open(c, CLI_ENGINE);
    if (rc != 0)
        return rc;
    s.file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!s.file) {
        (void)ef_fail(&err, errno == ENOENT ? EF_NOT_FOUND : EF_IO, "%s cannot be opened: %s", path,
                      strerror(errno));
        return cli_fail(c, &err, NULL);
    }
    rc = seed_generation(c, &s);
    if (s.file != stdin)
        (void)fclose(s.file);
    free(s.line);
    ef__arena_release(&s.arena);
    return rc;
}

const cli_command cli_cmd_view_seed = {
    .name = "view seed",
    .summary = "start a generation from exported views",
    .options = CLI_OPTIONS(CLI_TEXT("position", "P", "position that the views reflect (required)"),
                           CLI_TEXT("reason", "TEXT", "reason, recorded with the run")),
    .arguments = CLI_ARGUMENTS(
        CLI_ARGUMENT("PROJECTION", "name of the projection"),
        CLI_ARGUMENT("FILE", "NDJSON as written by view export; - reads stdin", .words = "@file")),
    .more =
        "A new generation of the active program starts with these views and continues after the\n"
        "position. A line is an object with view_id and data, and optionally tenant,\n"
        "last_event_sequence and as_of, which must equal the position. Queries read it after a\n"
        "switch. If a line is invalid, nothing is stored. Export with --all-tenants: the views\n"
        "of other tenants would otherwise be missing.",
    .example = "everfold view export customer_orders --all-tenants > views.ndjson && "
               "everfold view seed customer_orders views.ndjson --position 207",
    .run = run_seed,
};
