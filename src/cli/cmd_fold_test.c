/*
 * cmd_fold_test.c - everfold fold test FILE…
 *
 * A case runs with journal and views in memory, through the same engine and calls as live work.
 */
#include "fold_test.h"

#include <stdarg.h>

#define TICKS_MAX 100000 /* a case is small: beyond this the engine makes no progress */
#define TIME_FIRST_US                                                                              \
    INT64_C(946684800000000) /* 2000-01-01: the result must not depend on the current day */
#define ROWS_MAX 1000

/* A mismatch: a place in a view, or a message alone. */
typedef struct test_problem {
    int32_t line;
    ef_str projection, tenant, view_id; /* projection "": only the message is set */
    ef_str path;                        /* "": the whole view */
    ef_str expected, found;             /* JSON; ptr NULL: nothing */
    ef_str message;
    struct test_problem *next;
} test_problem;

typedef struct test_result {
    test_problem *first, **last;
    ef_text report; /* EF_BAD_INPUT: errors of a program, as text */
} test_result;

typedef struct runner {
    const cli_test_file *file;
    const cli_test_case *one;
    ef__arena *arena;
    test_result *result;
    ef_journal *journal;
    ef_engine *engine;
    ef_str only; /* the projection, if there is only one program */
} runner;

/* --- problems --------------------------------------------------------------------------------- */

static test_problem *add_problem(runner *r, int32_t line)
{
    test_problem *problem = ef__arena_zalloc(r->arena, 1, sizeof(*problem));

    if (!problem)
        return NULL;
    problem->line = line;
    *r->result->last = problem;
    r->result->last = &problem->next;
    return problem;
}

static void add_message(runner *r, int32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add_message(runner *r, int32_t line, const char *format, ...)
{
    test_problem *problem = add_problem(r, line);
    char text[2048];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (problem)
        problem->message = ef__arena_copy(r->arena, ef_str_from(text));
}

static ef_str json_text(runner *r, const ef__json *value)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(CLI_OUT_MAX);
    ef_str copy = {NULL, 0};

    if (value && ef__json_canonical(value, &text))
        copy = ef__arena_copy(r->arena, ef__buf_str(&text));
    return copy;
}

/* --- steps ------------------------------------------------------------------------------------ */

static ef_status open_all(runner *r, ef_error *err)
{
    ef_journal_options journal = {.url = "memory:", .create = true};
    ef_status st = ef_journal_open(&journal, &r->journal, err);
    ef_engine_options engine = {.journal = r->journal, .views_url = "memory:", .create = true};

    return st == EF_OK ? ef_engine_open(&engine, &r->engine, err) : st;
}

static ef_status deploy_programs(runner *r, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(CLI_PROGRAM_BYTES);
    ef_status st = EF_OK;

    for (const cli_test_program *p = r->file->programs; p && st == EF_OK; p = p->next) {
        EF__AUTO(ef_projection_list) deployed = {0};
        EF_RELEASE(&r->result->report); /* warnings of the previous program */
        st = cli_file_read(p->path.ptr, &text, err);
        if (st == EF_OK)
            st = ef_projection_deploy(
                r->engine, &(ef_deploy){.file_name = p->path.ptr, .text = ef__buf_str(&text)},
                &deployed, &r->result->report, err);
        if (st == EF_OK && !r->file->programs->next)
            r->only = ef__arena_copy(r->arena, deployed.items[0].name);
    }
    return st;
}

static ef_status fold_events(runner *r, ef_error *err)
{
    ef_work_options options = {.no_leasing = true};
    ef_tick tick = {.more = true};
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && tick.more && i < TICKS_MAX; i++)
        st = ef_engine_work(r->engine, &options, &tick, err);
    if (st == EF_OK && tick.more)
        st = ef_fail(err, EF_TIMEOUT, "the events were not folded within %d ticks", TICKS_MAX);
    return st;
}

/* Appends the events one by one, so that a refusal has a line number. */
static bool append_events(runner *r)
{
    int64_t time_us = TIME_FIRST_US;

    for (const cli_test_line *e = r->one->lines; e; e = e->next) {
        ef_error err = EF_ERROR_INIT;
        ef_new_event event = e->event;
        ef_place place;
        if (e->kind != CLI_TEST_EVENT)
            continue;
        event.time_us = event.time_us == 0 ? time_us : event.time_us;
        time_us += 1000000;
        if (ef_engine_append(r->engine, &event, 1, &place, &err) != EF_OK) {
            add_message(r, e->line, "append refused: %s", err.text);
            return false;
        }
    }
    return true;
}

/* --- checks ----------------------------------------------------------------------------------- */

typedef struct view_diff {
    runner *r;
    const cli_test_line *view;
    ef_str projection;
} view_diff;

static void add_difference(void *context, ef_str path, const ef__json *expected,
                           const ef__json *found)
{
    view_diff *d = context;
    test_problem *problem = add_problem(d->r, d->view->line);

    if (!problem)
        return;
    problem->projection = d->projection;
    problem->tenant = d->view->tenant;
    problem->view_id = d->view->view_id;
    problem->path = ef__arena_copy(d->r->arena, path);
    problem->expected = json_text(d->r, expected);
    problem->found = json_text(d->r, found);
}

static ef_status check_view(runner *r, const cli_test_line *view, ef_error *err)
{
    ef_freshness any = {0};
    EF__AUTO(ef_view_list) found = {0};
    ef__json *data = NULL;
    view_diff d = {r, view, view->projection.len > 0 ? view->projection : r->only};
    bool wanted = view->data->kind != EF__JSON_NULL;

    if (d.projection.len == 0) {
        add_message(r, view->line, "several programs: the view needs the key \"projection\"");
        return EF_OK;
    }
    ef_status st =
        ef_view_get(r->engine, d.projection, view->tenant, view->view_id, &any, &found, err);
    if (st == EF_OK)
        st = ef__json_parse(found.items[0].data, CLI_OUT_MAX, r->arena, &data, err);
    else if (st == EF_NOT_FOUND)
        st = EF_OK;
    if (st == EF_OK && wanted && data)
        st = cli_json_diff(view->data, data, add_difference, &d) ? EF_OK : EF_NO_MEMORY;
    else if (st == EF_OK && (wanted || data))
        add_difference(&d, EF_STR(""), wanted ? view->data : NULL, data);
    return st;
}

static bool is_known(runner *r, ef_str projection)
{
    EF__AUTO(ef_projection_list) list = {0};
    ef_status st = ef_projection_ls(r->engine, projection, &list, NULL);

    return st == EF_OK;
}

static ef_status check_views(runner *r, ef_error *err)
{
    ef_status st = EF_OK;

    for (const cli_test_line *v = r->one->lines; v && st == EF_OK; v = v->next) {
        if (v->kind != CLI_TEST_VIEW)
            continue;
        if (v->projection.len > 0 && !is_known(r, v->projection))
            add_message(r, v->line, "unknown projection \"%.*s\"", EF_STR_ARG(v->projection));
        else
            st = check_view(r, v, err);
    }
    return st;
}

/* A pending row of a lane is only blocked by one that failed. */
static bool is_failure(const ef_row *row)
{
    return row->status == EF_ROW_FAILED || row->status == EF_ROW_DEAD;
}

static bool fails_as(const ef_row *row, const cli_test_line *fail)
{
    ef_str text = row->last_error;

    return fail->kind == CLI_TEST_FAIL &&
           memmem(text.ptr ? text.ptr : "", text.len, fail->text.ptr, fail->text.len) != NULL;
}

/* Every failure must match a `fail`, and every `fail` must match a failure. */
static void match_failures(runner *r, const ef_row_list *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const ef_row *row = &rows->items[i];
        bool expected = !is_failure(row);
        for (const cli_test_line *f = r->one->lines; f; f = f->next)
            expected = expected || fails_as(row, f);
        if (!expected)
            add_message(r, r->one->line, "%.*s seq %lld (%.*s) failed: %.*s",
                        EF_STR_ARG(row->stream), (long long)row->seq, EF_STR_ARG(row->event_type),
                        EF_STR_ARG(row->last_error));
    }
    for (const cli_test_line *f = r->one->lines; f; f = f->next) {
        bool happened = f->kind != CLI_TEST_FAIL;
        for (size_t i = 0; i < rows->count; i++)
            happened = happened || (is_failure(&rows->items[i]) && fails_as(&rows->items[i], f));
        if (!happened)
            add_message(r, f->line, "no event failed with a message that contains: %.*s",
                        EF_STR_ARG(f->text));
    }
}

/* A log-ordered projection has no retry rows: it stops at the event, without details. */
static ef_status check_stopped_projections(runner *r, ef_error *err)
{
    EF__AUTO(ef_projection_list) list = {0};
    ef_status st = ef_projection_ls(r->engine, EF_STR(""), &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].by_log && list.items[i].failures > 0)
            add_message(r, r->one->line, "projection \"%.*s\" failed at position %lld and stopped",
                        EF_STR_ARG(list.items[i].name), (long long)list.items[i].position + 1);
    return st;
}

static ef_status check_failures(runner *r, ef_error *err)
{
    ef_outbox_query query = {.any_tenant = true, .limit = ROWS_MAX};
    EF__AUTO(ef_row_list) rows = {0};
    ef_status st = ef_outbox_ls(r->journal, &query, &rows, err);

    if (st == EF_OK)
        match_failures(r, &rows);
    return st == EF_OK ? check_stopped_projections(r, err) : st;
}

/* EF_OK also if the case fails: then there are problems. EF_BAD_INPUT: a program has an error. */
static ef_status run_in_memory(const cli_test_file *file, const cli_test_case *one,
                               ef__arena *arena, test_result *out, ef_error *err)
{
    runner r = {.file = file, .one = one, .arena = arena, .result = out};
    ef_status st;

    *out = (test_result){0};
    out->last = &out->first;
    st = open_all(&r, err);
    if (st == EF_OK)
        st = deploy_programs(&r, err);
    if (st == EF_OK)
        st = fold_events(&r, err); /* the projections must be live before the events are appended */
    if (st == EF_OK && append_events(&r)) {
        st = fold_events(&r, err);
        if (st == EF_OK)
            st = check_failures(&r, err);
        if (st == EF_OK)
            st = check_views(&r, err);
    }
    ef_engine_close(r.engine);
    ef_journal_close(r.journal);
    return st;
}

#define FILE_BYTES (16 * 1024 * 1024)
#define ARENA_BYTES (256 * 1024 * 1024)
#define SHOWN_COLUMNS 200 /* of a value that differs; longer values are cut */

typedef struct totals {
    size_t cases, failed;
    cli_list list;
} totals;

/* --- as text ---------------------------------------------------------------------------------- */

static void print_value(cli *c, const char *label, ef_str json)
{
    ef__buf_printf(&c->out, "          %s  ", label);
    if (!json.ptr)
        ef__buf_add_text(&c->out, "nothing");
    bool cut = json.ptr && cli_text_width(json) > SHOWN_COLUMNS;
    cli_escape(&c->out, cut ? cli_text_cut(json, SHOWN_COLUMNS) : json);
    ef__buf_add_text(&c->out, cut ? "…\n" : "\n");
}

static void print_problem(cli *c, const char *path, const test_problem *p)
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
                       const test_result *result)
{
    bool passed = result->first == NULL;

    ef__buf_printf(&c->out, "%s%s%s  ", cli_colour(c, passed ? CLI_GREEN : CLI_RED),
                   passed ? "ok  " : "FAIL", cli_colour(c, CLI_PLAIN));
    cli_escape(&c->out, ef_str_from(path));
    ef__buf_printf(&c->out, ":%d: ", (int)one->line);
    cli_escape(&c->out, one->name);
    ef__buf_add_char(&c->out, '\n');
    for (const test_problem *p = result->first; p; p = p->next)
        print_problem(c, path, p);
    (void)cli_flush(c);
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static void write_text(ef__json_writer *w, const char *key, ef_str text, bool there)
{
    ef__json_key(w, key);
    if (there)
        ef__json_str(w, text);
    else
        ef__json_null(w);
}

static void write_problem(ef__json_writer *w, const test_problem *p)
{
    bool of_view = p->projection.len > 0;

    ef__json_open(w, '{');
    ef__json_member_int(w, "line", p->line);
    write_text(w, "projection", p->projection, of_view);
    write_text(w, "tenant", p->tenant, of_view);
    write_text(w, "view_id", p->view_id, of_view);
    write_text(w, "path", p->path, of_view);
    ef__json_member_raw(w, "expected", p->expected);
    ef__json_member_raw(w, "found", p->found);
    write_text(w, "message", p->message, !of_view);
    ef__json_close(w, '}');
}

static void write_case(cli *c, totals *t, const char *path, const cli_test_case *one,
                       const test_result *result)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    cli_list_next(c, &t->list);
    ef__json_open(&w, '{');
    write_text(&w, "file", ef_str_from(path), true);
    ef__json_member_int(&w, "line", one->line);
    write_text(&w, "case", one->name, true);
    ef__json_member_bool(&w, "passed", result->first == NULL);
    ef__json_member_open(&w, "problems", '[');
    for (const test_problem *p = result->first; p; p = p->next)
        write_problem(&w, p);
    ef__json_close(&w, ']');
    ef__json_close(&w, '}');
    (void)cli_list_item_end(c, &t->list);
}

/* --- running ---------------------------------------------------------------------------------- */

static int run_case(cli *c, totals *t, const char *path, const cli_test_file *file,
                    const cli_test_case *one)
{
    ef_error err = EF_ERROR_INIT;
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(ARENA_BYTES);
    test_result result;
    ef_status st = run_in_memory(file, one, &arena, &result, &err);
    int rc = 0;

    if (st == EF_BAD_INPUT && result.report.len > 0 && c->format == CLI_TABLE) {
        cli_lines_say((ef_str){result.report.ptr, result.report.len});
        rc = ef_status_describe(st)->exit_code;
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
    EF_RELEASE(&result.report);
    return rc;
}

static int run_file(cli *c, totals *t, const char *path)
{
    ef_error err = EF_ERROR_INIT;
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(ARENA_BYTES);
    EF__AUTO(ef__buf) text = EF__BUF_INIT(FILE_BYTES);
    cli_test_file file;
    ef_status st = cli_file_read(path, &text, &err);

    if (st == EF_OK)
        st = cli_test_parse(path, ef__buf_str(&text), &arena, &file, &err);
    int rc = st == EF_OK ? 0 : cli_fail(c, &err, NULL);
    for (const cli_test_case *one = rc == 0 ? file.cases : NULL; one && rc == 0; one = one->next)
        rc = run_case(c, t, path, &file, one);
    return rc;
}

static ef_status run_test(cli *c, ef_error *err)
{
    totals t = {.list = {.lines = c->format == CLI_NDJSON}};

    (void)err; /* the errors of each file are reported */
    for (size_t i = 0; i < c->argument_count; i++) {
        int file_rc = run_file(c, &t, c->arguments[i]);
        c->exit_code = c->exit_code == 0 ? file_rc : c->exit_code;
    }
    if (c->format != CLI_TABLE)
        cli_list_end(c, &t.list);
    else if (t.cases > 0)
        ef__buf_printf(&c->out, "%zu case%s, %zu failed\n", t.cases, cli_plural((int64_t)t.cases),
                       t.failed);
    if (c->exit_code == 0 && t.failed > 0)
        c->exit_code = 1;
    return EF_OK;
}

const cli_command cli_cmd_fold_test = {
    .name = "fold test",
    .summary = "run test files: given events, expected views",
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("FILE", "test file, see docs/reference/fold-testing.md",
                                            .many = true, .words = "@file")),
    .more = "Tests run in memory. The exit code is 1 if a case fails and 2 if a test file or a\n"
            "program has an error.",
    .example = "everfold fold test examples/shop/shop.test",
    .call = run_test,
};
