/*
 * cmd_fold_explain.c - everfold fold explain FILE [-o json|dot]
 */
#include "commands.h"
#include "program.h"

/* This command has an option -o of its own, for `dot`; -o before the command is the common option.
 */
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

static int run_explain(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_text_form form;
    ef_text report = {0};
    ef__buf text = EF__BUF_INIT(CLI_PROGRAM_BYTES);
    ef_status st = read_format(c, &form, &err);
    int rc = 0;

    if (st == EF_OK)
        st = cli_file_read(c->arguments[0], &text, &err);
    if (st == EF_OK)
        st = ef_program_explain(c->arguments[0], ef__buf_str(&text), form, &report, &err);
    if (st == EF_OK) {
        ef__buf_add_str(&c->out, (ef_str){report.ptr, report.len});
        if (report.len > 0 && report.ptr[report.len - 1] != '\n')
            ef__buf_add_char(&c->out, '\n');
    } else if (st == EF_BAD_INPUT && report.len > 0 && form != EF_TEXT_JSON) {
        cli_lines_say((ef_str){report.ptr, report.len});
        rc = ef_status_exit(st);
    } else {
        rc = cli_fail(c, &err, NULL);
    }
    ef_text_release(&report);
    ef__buf_release(&text);
    return rc;
}

const cli_command cli_cmd_fold_explain = {
    .name = "fold explain",
    .summary = "show what a program does, as compiled",
    .options = CLI_OPTIONS(
        {"output", 'o', "FORMAT", NULL, "text,json,dot", "text, json or dot (for Graphviz)"}),
    .arguments = CLI_ARGUMENTS({"FILE", false, false, "@file", "program file; - reads stdin"}),
    .example = "everfold fold explain shop/customer_orders.fold -o dot | dot -Tsvg > orders.svg",
    .run = run_explain,
};
