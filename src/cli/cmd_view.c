/*
 * cmd_view.c - everfold view get, at, query, export, explain and seed
 */
#include "calls.h"

#include "../base/limits.h"

#include <errno.h>
#include <string.h>

#define CLI_FRESHNESS_OPTIONS                                                                      \
    CLI_TEXT("at-least", "TOKEN", "wait until the append with this TOKEN is applied"),             \
        CLI_FLAG("current", "wait until all events up to the current head are applied"),           \
        CLI_DURATION("timeout", "D", TIMEOUT_MS_DEFAULT,                                           \
                     "timeout of the wait: 500ms, 10s (default 5s)")

#define ONE_VIEW                                                                                   \
    CLI_ARGUMENTS(CLI_ARGUMENT("PROJECTION", "name of the projection"),                            \
                  CLI_ARGUMENT("ID", "id of the view"))

#define TIMEOUT_MS_DEFAULT 5000
#define WIDTH 21 /* of the names of fields */

/* Prints one view; `blocked` is the number of blocked streams, below 0: it is not printed. */
static void print_view(cli *c, const ef_view *view, int64_t as_of, int64_t blocked)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format != CLI_TABLE) {
        ef__view_write(&w, view, as_of, blocked);
        ef__buf_add_char(&c->out, '\n');
        return;
    }
    cli_print_lines(c, &ef__shape_view, view, WIDTH);
    cli_line_int(c, WIDTH, "as_of", as_of);
    if (blocked >= 0)
        cli_line_int(c, WIDTH, "blocked_streams", blocked);
}

static ef_freshness read_freshness(const cli *c)
{
    bool waits = cli_has(c, "at-least") || cli_has(c, "current");

    return (ef_freshness){.at_least = ef_str_from(cli_value(c, "at-least")),
                          .current = cli_has(c, "current"),
                          .timeout_ms = waits ? cli_int(c, "timeout") : 0};
}

static ef_status check_freshness(cli *c, ef_error *err)
{
    ef_freshness asked = read_freshness(c);
    ef_token token;

    if (cli_has(c, "at-least") && asked.current)
        return ef_fail(err, EF_BAD_INPUT, "--at-least and --current cannot be combined");
    if (cli_has(c, "timeout") && !cli_has(c, "at-least") && !asked.current)
        return ef_fail(err, EF_BAD_INPUT, "--timeout needs --at-least or --current");
    return cli_has(c, "at-least") ? ef_token_parse(asked.at_least, &token, err) : EF_OK;
}

static ef_status get_view(cli *c, ef_error *err)
{
    ef_freshness freshness = read_freshness(c);
    EF__AUTO(ef_view_list) found = {0};
    ef_status st = cli_view_get(c, ef_str_from(c->arguments[0]), cli_tenant(c),
                                ef_str_from(c->arguments[1]), &freshness, &found, err);

    if (st == EF_OK)
        print_view(c, &found.items[0], found.as_of, freshness.current ? found.blocked_streams : -1);
    return st;
}

static ef_status get_view_at(cli *c, ef_error *err)
{
    EF__AUTO(ef_view_list) found = {0};
    ef_status st = cli_view_at(c, ef_str_from(c->arguments[0]), cli_tenant(c),
                               ef_str_from(c->arguments[1]), cli_int(c, "position"), &found, err);

    if (st == EF_OK)
        print_view(c, &found.items[0], found.as_of, -1);
    return st;
}

const cli_command cli_cmd_view_get = {
    .name = "view get",
    .summary = "read one view by id",
    .options = CLI_OPTIONS(CLI_FRESHNESS_OPTIONS),
    .arguments = ONE_VIEW,
    .more =
        "as_of is the position that the view reflects: the current position of the projection,\n"
        "unless --at-least or --current asks to wait for a later one.",
    .example = "everfold view get customer_orders ada --current",
    .check = check_freshness,
    .stores = CLI_ENGINE_READ,
    .call = get_view,
    .hints = CLI_HINTS(CLI_NOT_FRESH),
};

const cli_command cli_cmd_view_at = {
    .name = "view at",
    .summary = "show a view as of a position",
    .options = CLI_OPTIONS(CLI_INT("position", "P", 1, INT64_MAX, 0,
                                   "position in the journal (required)", .needed = "")),
    .arguments = ONE_VIEW,
    .more = "The view is folded from the journal. The exit code is 3 if it did not exist at that\n"
            "position.",
    .example = "everfold view at customer_orders ada --position 120",
    .stores = CLI_ENGINE_READ,
    .call = get_view_at,
};

static ef_view_query read_query(const cli *c)
{
    return (ef_view_query){
        .projection = ef_str_from(c->arguments[0]),
        .tenant = cli_tenant(c),
        .where = ef_str_from(cli_value(c, "where")),
        .sort = ef_str_from(cli_value(c, "sort")),
        .fields = ef_str_from(cli_value(c, "fields")),
        .limit = (size_t)cli_int(c, "limit"),
        .after = ef_str_from(cli_value(c, "after")),
        .count_only = cli_has(c, "count"),
        .explain = cli_has(c, "explain"),
        .freshness = read_freshness(c),
    };
}

static void flush_some(void *context)
{
    (void)cli_flush_some(context);
}

static void write_object(cli *c, const ef_view_query *query, const ef_view_list *found)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    ef__view_page_write(&w, query, found, flush_some, c);
    ef__buf_add_char(&c->out, '\n');
}

static void write_lines(cli *c, const ef_view_list *found)
{
    for (size_t i = 0; i < found->count; i++) {
        ef__json_writer w = EF__JSON_WRITER(&c->out);
        ef__view_write(&w, &found->items[i], found->as_of, -1);
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
    ef_status st = EF_OK;

    if (many && c->format == CLI_NDJSON) {
        write_lines(c, found);
    } else if (c->format != CLI_TABLE) {
        write_object(c, query, found);
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

static ef_status query_views(cli *c, ef_error *err)
{
    ef_view_query query = read_query(c);
    EF__AUTO(ef_view_list) found = {0};
    ef_status st = cli_view_find(c, &query, &found, err);

    if (st == EF_OK)
        st = write_answer(c, &query, &found, err);
    /* The message of a syntax error has several lines: text, position and caret. */
    c->error_shown = st != EF_OK && c->format == CLI_TABLE && strchr(err->text, '\n');
    if (c->error_shown)
        cli_lines_say(ef_str_from(err->text));
    return st;
}

const cli_command cli_cmd_view_query = {
    .name = "view query",
    .summary = "query views by their fields",
    .options = CLI_OPTIONS(
        CLI_TEXT("where", "EXPR", "only views that match this expression: 'total > 100'"),
        CLI_TEXT("sort", "F,-G", "order by these fields, - for descending (default: view_id)"),
        CLI_INT("limit", "N", 1, EF_LIMIT_LIST_ROWS, 0, "at most N views (default 100)"),
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
    .check = check_freshness,
    .stores = CLI_ENGINE_READ,
    .call = query_views,
    .hints = CLI_HINTS(CLI_NO_PROJECTION, CLI_NOT_FRESH),
};

typedef struct exporting {
    cli *c;
    int64_t as_of; /* set before the first view is delivered */
} exporting;

static bool print_view_line(void *context, const ef_view *view)
{
    exporting *x = context;
    ef__json_writer w = EF__JSON_WRITER(&x->c->out);

    ef__view_write(&w, view, x->as_of, -1);
    ef__buf_add_char(&x->c->out, '\n');
    return cli_flush_some(x->c);
}

static ef_status check_export(cli *c, ef_error *err)
{
    return cli_has(c, "all-tenants") && cli_value(c, "tenant")
               ? cli_refuse(c, err, "--tenant and --all-tenants cannot be combined")
               : EF_OK;
}

static ef_status export_views(cli *c, ef_error *err)
{
    exporting x = {.c = c};

    return cli_view_export(c, ef_str_from(c->arguments[0]), cli_tenant(c),
                           cli_has(c, "all-tenants"), print_view_line, &x, &x.as_of, err);
}

const cli_command cli_cmd_view_export = {
    .name = "view export",
    .summary = "write all views of a projection as NDJSON, ordered by id",
    .options = CLI_OPTIONS(CLI_FLAG("all-tenants", "views of all tenants")),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("PROJECTION", "name of the projection")),
    .more = "The output is NDJSON, whatever -o is.",
    .example = "everfold view export customer_orders > customer_orders.ndjson",
    .check = check_export,
    .stores = CLI_ENGINE_READ,
    .call = export_views,
    .hints = CLI_PROJECTION_HINTS,
};

static ef_status explain_view(cli *c, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    int64_t limit = cli_int(c, "limit");
    ef_status st = cli_view_explain(c, ef_str_from(c->arguments[0]), cli_tenant(c),
                                    ef_str_from(c->arguments[1]), (size_t)limit, &batch, err);

    if (st == EF_OK) {
        cli_print_list(c, cli_event_listing(false, true), batch.events, batch.count);
        if (batch.more)
            cli_say(c, "more than %" PRId64 " events; list them with --limit N", limit);
    }
    return st;
}

const cli_command cli_cmd_view_explain = {
    .name = "view explain",
    .summary = "list the events that produced a view, oldest first",
    .options = CLI_OPTIONS(
        CLI_INT("limit", "N", 1, EF_LIMIT_LIST_ROWS, 1000, "at most N events (default 1000)")),
    .arguments = ONE_VIEW,
    .example = "everfold view explain customer_orders ada",
    .stores = CLI_ENGINE_READ,
    .call = explain_view,
};

#define LINE_MAX_BYTES (32 * 1024 * 1024)

typedef struct seed_file {
    FILE *file;
    char *line; /* buffer of getline */
    size_t room;
    int64_t number, position;
    ef__arena arena;
} seed_file;

/* Views that were exported at another position would miss events or count them twice. */
static ef_status decode_view(seed_file *s, const ef__json *line, ef_seed_view *out, ef_error *err)
{
    const ef__json *as_of = ef__json_get(line, "as_of");
    int64_t position;
    ef_status st = ef__seed_view_read(line, s->number, out, err);

    if (st == EF_OK && as_of && (ef__json_int64(as_of, &position) != 0 || position != s->position))
        st = ef_fail(err, EF_BAD_INPUT, "line %" PRId64 ": as_of differs from --position",
                     s->number);
    return st;
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

static ef_status seed_generation(cli *c, seed_file *s, ef_error *err)
{
    EF__AUTO(ef_run_list) runs = {0};
    ef_verdict v;
    ef_status st = cli_projection_seed(c,
                                       &(ef_seed){.projection = ef_str_from(c->arguments[0]),
                                                  .position = s->position,
                                                  .next = next_view,
                                                  .context = s,
                                                  .actor = cli_actor(c),
                                                  .reason = cli_reason(c)},
                                       &runs, err);

    if (st == EF_OK)
        cli_print_run(c, &runs.items[0]);
    else
        cli_hint(c, "nothing was stored");
    if (st == EF_OK && ef_run_verdict(&runs.items[0], &v, NULL) == EF_OK)
        cli_say(c, "when it has caught up: everfold projection switch %s --generation %d",
                c->arguments[0], (int)v.built);
    return st;
}

static ef_status seed_views(cli *c, ef_error *err)
{
    const char *path = c->arguments[1];
    seed_file s = {.file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re"),
                   .position = cli_int(c, "position"),
                   .arena = EF__ARENA_INIT(4ul * LINE_MAX_BYTES)};
    ef_status st;

    if (!s.file)
        return ef_fail(err, errno == ENOENT ? EF_NOT_FOUND : EF_IO, "%s cannot be opened: %s", path,
                       strerror(errno));
    st = seed_generation(c, &s, err);
    if (s.file != stdin)
        (void)fclose(s.file);
    free(s.line);
    ef__arena_release(&s.arena);
    return st;
}

const cli_command cli_cmd_view_seed = {
    .name = "view seed",
    .summary = "start a generation from exported views",
    .options = CLI_OPTIONS(CLI_INT("position", "P", 0, INT64_MAX, 0,
                                   "position that the views reflect (required)",
                                   .needed = ": the position that the views reflect"),
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
    .stores = CLI_ENGINE,
    .call = seed_views,
};
