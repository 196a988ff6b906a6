/*
 * cmd_view_query.c - everfold view query PROJECTION
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"
#include "view.h"
#include "../base/limits.h"

#include <inttypes.h>

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
    return st == EF_OK ? cli_freshness(c, &query->freshness, err) : st;
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
    ef_projection_list_release(&projections);
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
    ef_str rest = found->plan;

    while (rest.len > 0) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        size_t length = end ? (size_t)(end - rest.ptr) : rest.len;
        cli_escape(&c->out, (ef_str){rest.ptr, length});
        ef__buf_add_char(&c->out, '\n');
        length += end ? 1 : 0;
        rest.ptr += length;
        rest.len -= length;
    }
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
    int rc = st == EF_OK ? cli_engine_need(c, true) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    st = cli_view_find(c, &query, &found, &err);
    if (st == EF_OK)
        st = write_answer(c, &query, &found, &err);
    ef_view_list_release(&found);
    if (st == EF_OK)
        return 0;
    /* The message of a syntax error has several lines: text, position and caret. */
    if (c->format == CLI_TABLE && strchr(err.text, '\n')) {
        cli_lines_say(ef_str_from(err.text));
        return ef_status_exit(st);
    }
    return cli_fail(c, &err, st == EF_NOT_FOUND ? cli_projection_hint(st) : cli_view_hint(st));
}

const cli_command cli_cmd_view_query = {
    .name = "view query",
    .summary = "query views by their fields",
    .options = CLI_OPTIONS(
        {"where", 0, "EXPR", NULL, NULL, "only views that match this expression: 'total > 100'"},
        {"sort", 0, "F,-G", NULL, NULL,
         "order by these fields, - for descending (default: view_id)"},
        {"limit", 0, "N", NULL, NULL, "at most N views (default 100)"},
        {"after", 0, "CURSOR", NULL, NULL, "continue after the cursor of an earlier page"},
        {"fields", 0, "F,G", NULL, NULL, "only these fields of the data"},
        {"count", 0, NULL, NULL, NULL, "print the number of matching views only"},
        {"explain", 0, NULL, NULL, NULL,
         "show the index that is used and the number of views read"},
        CLI_FRESHNESS_OPTIONS),
    .arguments = CLI_ARGUMENTS({"PROJECTION", false, false, NULL, "name of the projection"}),
    .more = "EXPR is an expression of the fold language over the fields of a view, view_id and\n"
            "last_event_sequence. -o ndjson prints one view per line. Indexes that the program\n"
            "declares are used; --explain shows which.",
    .example = "everfold view query customer_orders --where 'total > 100' --sort -total",
    .run = run_query,
};
