/*
 * cmd_fold_test.c - everfold fold test FILE…
 */
#include "commands.h"
#include "fold_test.h"

#define FILE_BYTES (16 * 1024 * 1024)
#define ARENA_BYTES (256 * 1024 * 1024)
#define SHOWN_COLUMNS 200 /* of a value that differs; longer values are cut */

typedef struct totals {
    size_t cases, failed;
    cli_list list;
} totals;

/* --- as text --------------------------------------------------------------------------------
 */

static void print_value(cli *c, const char *label, ef_str json)
{
    ef__buf_printf(&c->out, "          %s  ", label);
    if (!json.ptr)
        ef__buf_add_text(&c->out, "nothing");
    bool cut = json.ptr && cli_text_width(json) > SHOWN_COLUMNS;
    cli_escape(&c->out, cut ? cli_text_cut(json, SHOWN_COLUMNS) : json);
    ef__buf_add_text(&c->out, cut ? "…\n" : "\n");
}

static void print_problem(cli *c, const char *path, const cli_test_problem *p)
{
    ef__buf_add_text(&c->out, "      ");
    cli_escape(&c->out, ef_str_from(path));
    ef__buf_printf(&c->out, ":%d: ", (int)p->line);
    if (p->projection.len == 0) {
        cli_escape(&c->out, p->message);
        ef__buf_add_char(&c->out, '\n');
        return;
    }
    cli_escape(&c->out, p->projection);
    ef__buf_add_char(&c->out, ' ');
    cli_escape(&c->out, p->view_id);
    if (p->tenant.len > 0) {
        ef__buf_add_text(&c->out, " of tenant ");
        cli_escape(&c->out, p->tenant);
    }
    if (p->path.len > 0) {
        ef__buf_add_text(&c->out, ": ");
        cli_escape(&c->out, p->path);
    }
    ef__buf_add_char(&c->out, '\n');
    print_value(c, "expected", p->expected);
    print_value(c, "found   ", p->found);
}

static void print_case(cli *c, const char *path, const cli_test_case *one,
                       const cli_test_result *result)
{
    bool passed = result->first == NULL;

    ef__buf_printf(&c->out, "%s%s%s  ", cli_colour(c, passed ? CLI_GREEN : CLI_RED),
                   passed ? "ok  " : "FAIL", cli_colour(c, CLI_PLAIN));
    cli_escape(&c->out, ef_str_from(path));
    ef__buf_printf(&c->out, ":%d: ", (int)one->line);
    cli_escape(&c->out, one->name);
    ef__buf_add_char(&c->out, '\n');
    for (const cli_test_problem *p = result->first; p; p = p->next)
        print_problem(c, path, p);
    (void)cli_flush(c);
}

/* --- as JSON ------------------------------------------------------------------------------
 */

static void write_text(ef__json_writer *w, const char *key, ef_str text, bool there)
{
    ef__json_key(w, key);
    if (there)
        ef__json_str(w, text);
    else
        ef__json_null(w);
}

static void write_raw(ef__json_writer *w, const char *key, ef_str json)
{
    ef__json_member_raw(w, key, json);
}

static void write_problem(ef__json_writer *w, const cli_test_problem *p)
{
    bool of_view = p->projection.len > 0;

    ef__json_open(w, '{');
    ef__json_member_int(w, "line", p->line);
    write_text(w, "projection", p->projection, of_view);
    write_text(w, "tenant", p->tenant, of_view);
    write_text(w, "view_id", p->view_id, of_view);
    write_text(w, "path", p->path, of_view);
    write_raw(w, "expected", p->expected);
    write_raw(w, "found", p->found);
    write_text(w, "message", p->message, !of_view);
    ef__json_close(w, '}');
}

static void write_case(cli *c, totals *t, const char *path, const cli_test_case *one,
                       const cli_test_result *result)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    cli_list_next(c, &t->list);
    ef__json_open(&w, '{');
    write_text(&w, "file", ef_str_from(path), true);
    ef__json_member_int(&w, "line", one->line);
    write_text(&w, "case", one->name, true);
    ef__json_member_bool(&w, "passed", result->first == NULL);
    ef__json_member_open(&w, "problems", '[');
    for (const cli_test_problem *p = result->first; p; p = p->next)
        write_problem(&w, p);
    ef__json_close(&w, ']');
    ef__json_close(&w, '}');
    (void)cli_list_item_end(c, &t->list);
}

/* --- running -----------------------------------------------------------------------------------
 */

static int run_case(cli *c, totals *t, const char *path, const cli_test_file *file,
                    const cli_test_case *one)
{
    ef_error err = EF_ERROR_INIT;
    ef__arena arena = EF__ARENA_INIT(ARENA_BYTES);
    cli_test_result result;
    ef_status st = cli_test_run(file, one, &arena, &result, &err);
    int rc = 0;

    if (st == EF_BAD_INPUT && result.report.len > 0 && c->format == CLI_TABLE) {
        cli_lines_say((ef_str){result.report.ptr, result.report.len});
        rc = ef_status_exit(st);
    } else if (st != EF_OK) {
        rc = cli_fail(c, &err, NULL);
    } else {
        t->cases++;
        t->failed += result.first ? 1 : 0;
        if (c->format == CLI_TABLE)
            print_case(c, path, one, &result);
        else
            write_case(c, t, path, one, &result);
    }
    ef_text_release(&result.report);
    ef__arena_release(&arena);
    return rc;
}

static int run_file(cli *c, totals *t, const char *path)
{
    ef_error err = EF_ERROR_INIT;
    ef__arena arena = EF__ARENA_INIT(ARENA_BYTES);
    ef__buf text = EF__BUF_INIT(FILE_BYTES);
    cli_test_file file;
    ef_status st = cli_file_read(path, &text, &err);

    if (st == EF_OK)
        st = cli_test_parse(path, ef__buf_str(&text), &arena, &file, &err);
    int rc = st == EF_OK ? 0 : cli_fail(c, &err, NULL);
    for (const cli_test_case *one = rc == 0 ? file.cases : NULL; one && rc == 0; one = one->next)
        rc = run_case(c, t, path, &file, one);
    ef__arena_release(&arena);
    ef__buf_release(&text);
    return rc;
}

static int run_test(cli *c)
{
    totals t = {.list = {.lines = c->format == CLI_NDJSON}};
    int rc = 0;

    for (size_t i = 0; i < c->argument_count; i++) {
        int file_rc = run_file(c, &t, c->arguments[i]);
        rc = rc == 0 ? file_rc : rc;
    }
    if (c->format != CLI_TABLE)
        cli_list_end(c, &t.list);
    else if (t.cases > 0)
        ef__buf_printf(&c->out, "%zu case%s, %zu failed\n", t.cases, cli_plural((int64_t)t.cases),
                       t.failed);
    return rc != 0 ? rc : t.failed > 0 ? 1 : 0;
}

const cli_command cli_cmd_fold_test = {
    .name = "fold test",
    .summary = "run test files: given events, expected views",
    .arguments = CLI_ARGUMENTS(
        {"FILE", false, true, "@file", "test file, see docs/reference/fold-testing.md"}),
    .more = "Tests run in memory. The exit code is 1 if a case fails and 2 if a test file or a\n"
            "program has an error.",
    .example = "everfold fold test examples/shop/shop.test",
    .run = run_test,
};
