/*
 * cmd_fold.c - everfold fold check FILE…, and explain FILE [-o json|dot]
 *
 * All files are checked, even if the first has errors.
 */
#include "cli.h"

ef_status cli_program_check(const char *path, ef__buf *text, bool *out_shown, ef_error *err)
{
    EF__AUTO(ef_text) report = {0};
    ef_status st = cli_file_read(path, text, err);

    *out_shown = false;
    if (st != EF_OK)
        return st;
    st = ef_program_check(path, ef__buf_str(text), EF_TEXT_PLAIN, &report, err);
    if (report.len > 0) {
        cli_lines_say((ef_str){report.ptr, report.len});
        *out_shown = st == EF_BAD_INPUT;
    }
    return st;
}

#define REPORT_ARENA_BYTES (4 * 1024 * 1024)

static int check_as_text(cli *c, const char *path, ef__buf *text)
{
    ef_error err = EF_ERROR_INIT;
    bool shown = false;
    ef_status st = cli_program_check(path, text, &shown, &err);

    if (st == EF_OK) {
        cli_escape(&c->out, ef_str_from(path));
        ef__buf_add_text(&c->out, ": ok\n");
        return 0;
    }
    return shown ? ef_status_describe(st)->exit_code : cli_fail(c, &err, NULL);
}

/* The report of a file is an array; the items of all files are printed as one list. */
static ef_status print_items(cli *c, cli_list *list, const ef_text *report, ef_error *err)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(REPORT_ARENA_BYTES);
    ef__json *items = NULL;
    ef_status st =
        ef__json_parse((ef_str){report->ptr, report->len}, CLI_OUT_MAX, &arena, &items, err);

    for (const ef__json *item = st == EF_OK ? items->first : NULL; item; item = item->next) {
        cli_list_next(c, list);
        ef__buf_add_str(&c->out, item->text);
        (void)cli_list_item_end(c, list);
    }
    return st;
}

static int check_as_json(cli *c, const char *path, ef__buf *text, cli_list *list)
{
    ef_error err = EF_ERROR_INIT, print_err = EF_ERROR_INIT;
    EF__AUTO(ef_text) report = {0};
    ef_status st = cli_file_read(path, text, &err);
    int rc;

    if (st == EF_OK)
        st = ef_program_check(path, ef__buf_str(text), EF_TEXT_JSON, &report, &err);
    rc =
        st == EF_OK || report.len > 0 ? ef_status_describe(st)->exit_code : cli_fail(c, &err, NULL);
    if (report.len > 0 && print_items(c, list, &report, &print_err) != EF_OK)
        rc = cli_fail(c, &print_err, NULL);
    return rc;
}

static ef_status check_files(cli *c, ef_error *err)
{
    cli_list list = {.lines = c->format == CLI_NDJSON};
    EF__AUTO(ef__buf) text = EF__BUF_INIT(CLI_PROGRAM_BYTES);

    (void)err; /* the errors of each file are reported */
    for (size_t i = 0; i < c->argument_count; i++) {
        int file_rc = c->format == CLI_TABLE ? check_as_text(c, c->arguments[i], &text)
                                             : check_as_json(c, c->arguments[i], &text, &list);
        c->exit_code = c->exit_code == 0 ? file_rc : c->exit_code;
    }
    if (c->format != CLI_TABLE)
        cli_list_end(c, &list);
    return EF_OK;
}

const cli_command cli_cmd_fold_check = {
    .name = "fold check",
    .summary = "check programs and report errors with file, line and column",
    .arguments = CLI_ARGUMENTS(
        CLI_ARGUMENT("FILE", "program file; - reads stdin", .many = true, .words = "@file")),
    .more = "Errors and warnings go to stderr with file, line, column and a caret; with -o json\n"
            "they are an array on stdout. The exit code is 2 if a program has an error.",
    .example = "everfold fold check shop/customer_orders.fold",
    .call = check_files,
};

/* This command has its own -o, for `dot`; -o before the command is the common option. */
static ef_status read_format(cli *c, ef_text_form *out, ef_error *err)
{
    const char *asked = cli_value(c, "output");

    *out = c->format == CLI_TABLE ? EF_TEXT_PLAIN : EF_TEXT_JSON;
    if (!asked)
        return EF_OK;
    c->format = CLI_TABLE;
    if (strcmp(asked, "text") == 0 || strcmp(asked, "table") == 0) {
        *out = EF_TEXT_PLAIN;
    } else if (strcmp(asked, "json") == 0 || strcmp(asked, "ndjson") == 0) {
        *out = EF_TEXT_JSON;
        c->format = CLI_JSON;
    } else if (strcmp(asked, "dot") == 0) {
        *out = EF_TEXT_DOT;
    } else {
        return ef_fail(err, EF_BAD_INPUT, "-o is '%s': must be text, json or dot", asked);
    }
    return EF_OK;
}

static ef_status explain_program(cli *c, ef_error *err)
{
    ef_text_form form;
    EF__AUTO(ef_text) report = {0};
    EF__AUTO(ef__buf) text = EF__BUF_INIT(CLI_PROGRAM_BYTES);
    ef_status st = read_format(c, &form, err);

    if (st == EF_OK)
        st = cli_file_read(c->arguments[0], &text, err);
    if (st == EF_OK)
        st = ef_program_explain(c->arguments[0], ef__buf_str(&text), form, &report, err);
    if (st == EF_OK) {
        ef__buf_add_str(&c->out, (ef_str){report.ptr, report.len});
        if (report.len > 0 && report.ptr[report.len - 1] != '\n')
            ef__buf_add_char(&c->out, '\n');
    } else if (st == EF_BAD_INPUT && report.len > 0 && form != EF_TEXT_JSON) {
        cli_lines_say((ef_str){report.ptr, report.len});
        c->error_shown = true;
    }
    return st;
}

const cli_command cli_cmd_fold_explain = {
    .name = "fold explain",
    .summary = "show what a program does, as compiled",
    .options = CLI_OPTIONS(CLI_TEXT("output", "FORMAT", "text, json or dot (for Graphviz)",
                                    .words = "text,json,dot", .letter = 'o')),
    .arguments =
        CLI_ARGUMENTS(CLI_ARGUMENT("FILE", "program file; - reads stdin", .words = "@file")),
    .example = "everfold fold explain shop/customer_orders.fold -o dot | dot -Tsvg > orders.svg",
    .call = explain_program,
};
