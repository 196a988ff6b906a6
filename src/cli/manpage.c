/*
 * manpage.c - the manual page, generated from the tables of the commands in the man macros of roff.
 */
#include "commands.h"

/* Escapes roff: a backslash; a dot or a quote at the start of a line; a bare - would be a hyphen.
 */
static void add_plain(ef__buf *out, const char *text)
{
    for (char before = '\n'; *text != '\0'; before = *text++) {
        if (before == '\n' && (*text == '.' || *text == '\''))
            ef__buf_add_text(out, "\\&");
        if (*text == '\\')
            ef__buf_add_text(out, "\\e");
        else if (*text == '-')
            ef__buf_add_text(out, "\\-");
        else
            ef__buf_add_char(out, *text);
    }
}

static void add_bold(ef__buf *out, const char *prefix, const char *text)
{
    ef__buf_add_text(out, "\\fB");
    add_plain(out, prefix);
    add_plain(out, text);
    ef__buf_add_text(out, "\\fR");
}

static void add_options(ef__buf *out, const cli_option *options)
{
    for (const cli_option *o = options; o && o->name; o++) {
        char letter[2] = {o->letter, '\0'};
        ef__buf_add_text(out, ".TP\n");
        if (o->letter) {
            add_bold(out, "-", letter);
            ef__buf_add_text(out, ", ");
        }
        add_bold(out, "--", o->name);
        if (o->value) {
            ef__buf_add_char(out, ' ');
            add_plain(out, o->value);
        }
        ef__buf_add_char(out, '\n');
        add_plain(out, o->help);
        ef__buf_add_char(out, '\n');
    }
}

static void add_paragraph(ef__buf *out, const char *before, const char *text)
{
    ef__buf_add_text(out, ".PP\n");
    add_plain(out, before);
    add_plain(out, text);
    ef__buf_add_char(out, '\n');
}

static void add_command(ef__buf *out, const cli_command *command)
{
    ef__buf usage = EF__BUF_INIT(4096);

    cli_usage_line(&usage, command);
    ef__buf_add_text(out, ".SS everfold ");
    add_plain(out, usage.ptr ? usage.ptr : "");
    ef__buf_release(&usage);
    ef__buf_add_char(out, '\n');
    add_plain(out, command->summary);
    ef__buf_add_text(out, ".\n");
    for (const cli_argument *a = command->arguments; a && a->name; a++) {
        ef__buf_printf(out, ".TP\n%s\n", a->name);
        add_plain(out, a->help);
        ef__buf_add_char(out, '\n');
    }
    add_options(out, command->options);
    if (command->more)
        add_paragraph(out, "", command->more);
    if (command->example)
        add_paragraph(out, "Example: ", command->example);
}

static void add_settings(ef__buf *out, const ef__settings *settings)
{
    for (size_t i = 0; i < ef__settings_count(settings); i++) {
        ef__setting_view view = ef__settings_at(settings, i);
        ef__buf_add_text(out, ".TP\n");
        add_bold(out, "", view.spec->key);
        ef__buf_add_char(out, '\n');
        add_plain(out, view.spec->help);
        ef__buf_add_char(out, '\n');
    }
}

static int run_man_page(cli *c)
{
    ef__settings *settings = NULL;
    ef_error err = EF_ERROR_INIT;
    ef__buf *out = &c->out;

    if (cli_settings_table_open(&settings, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    ef__buf_printf(out, ".TH EVERFOLD 1 \"\" \"everfold %s\"\n", ef_version());
    ef__buf_add_text(
        out,
        ".SH NAME\neverfold \\- event journal, transactional outbox and "
        "exactly-once projections\n.SH SYNOPSIS\n\\fBeverfold\\fR COMMAND [ARGUMENTS] [OPTIONS]\n"
        ".SH COMMANDS\n");
    for (size_t i = 0; cli_commands[i]; i++)
        if (!cli_commands[i]->hidden)
            add_command(out, cli_commands[i]);
    ef__buf_add_text(out, ".SH COMMON OPTIONS\n");
    add_options(out, cli_common_options);
    ef__buf_add_text(out, ".SH SETTINGS\nPrecedence: flag, environment variable (EVERFOLD_ and the "
                          "key in capitals, dots as _), settings file, default."
                          "\n");
    add_settings(out, settings);
    ef__buf_add_text(out, ".SH EXIT STATUS\n0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 "
                          "timed out, 6 unhealthy.\n");
    ef__settings_close(settings);
    return 0;
}

const cli_command cli_cmd_man_page = {
    .name = "man-page",
    .summary = "print the manual page",
    .run = run_man_page,
    .hidden = true,
    .no_settings = true,
};
