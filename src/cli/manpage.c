/*
 * manpage.c - the manual page as scdoc, out of the tables.
 */
#include "commands.h"

/* scdoc gives * _ and some others a meaning, and - at the start of a line; in ours they have none.
 */
static void add_plain(ef__buf *out, const char *text)
{
    for (char before = '\n'; *text != '\0'; before = *text++) {
        if (strchr("\\*_<>[]`|#", *text) || (before == '\n' && *text == '-'))
            ef__buf_add_char(out, '\\');
        ef__buf_add_char(out, *text);
    }
}

static void add_options(ef__buf *out, const cli_option *options)
{
    for (const cli_option *o = options; o && o->name; o++) {
        if (o->letter)
            ef__buf_printf(out, "*-%c*, ", o->letter);
        ef__buf_printf(out, "*--%s*", o->name);
        if (o->value) {
            ef__buf_add_text(out, " ");
            add_plain(out, o->value);
        }
        ef__buf_add_text(out, "\n\t");
        add_plain(out, o->help);
        ef__buf_add_text(out, "\n\n");
    }
}

static void add_command(ef__buf *out, const cli_command *command)
{
    ef__buf usage = EF__BUF_INIT(4096);

    cli_usage_line(&usage, command);
    ef__buf_add_text(out, "## everfold ");
    add_plain(out, usage.ptr ? usage.ptr : "");
    ef__buf_release(&usage);
    ef__buf_add_text(out, "\n\n");
    add_plain(out, command->summary);
    ef__buf_add_text(out, ".\n\n");
    for (const cli_argument *a = command->arguments; a && a->name; a++) {
        ef__buf_printf(out, "%s\n\t", a->name);
        add_plain(out, a->help);
        ef__buf_add_text(out, "\n\n");
    }
    add_options(out, command->options);
    if (command->more) {
        add_plain(out, command->more);
        ef__buf_add_text(out, "\n\n");
    }
    if (command->example) {
        ef__buf_add_text(out, "Example: ");
        add_plain(out, command->example);
        ef__buf_add_text(out, "\n\n");
    }
}

static void add_settings(ef__buf *out, const ef__settings *settings)
{
    for (size_t i = 0; i < ef__settings_count(settings); i++) {
        ef__setting_view view = ef__settings_at(settings, i);
        ef__buf_add_char(out, '*');
        add_plain(out, view.spec->key);
        ef__buf_add_text(out, "*\n\t");
        add_plain(out, view.spec->help);
        ef__buf_add_text(out, "\n\n");
    }
}

static int run_man_page(cli *c)
{
    ef__settings *settings = NULL;
    ef_error err = EF_ERROR_INIT;
    ef__buf *out = &c->out;

    if (cli_settings_table_open(&settings, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    ef__buf_printf(out, "everfold(1) \"everfold %s\"\n\n", ef_version());
    ef__buf_add_text(out, "# NAME\n\neverfold - an event journal with an outbox that forgets "
                          "nothing\n\n# SYNOPSIS\n\n*everfold* COMMAND \\[ARGUMENTS\\] "
                          "\\[OPTIONS\\]\n\n# COMMANDS\n\n");
    for (size_t i = 0; cli_commands[i]; i++)
        if (!cli_commands[i]->hidden)
            add_command(out, cli_commands[i]);
    ef__buf_add_text(out, "# COMMON OPTIONS\n\n");
    add_options(out, cli_common_options);
    ef__buf_add_text(out, "# SETTINGS\n\nA flag goes before the environment (EVERFOLD\\_ and the "
                          "key in capitals, dots as \\_), that before the settings file, that "
                          "before the default.\n\n");
    add_settings(out, settings);
    ef__buf_add_text(out, "# EXIT STATUS\n\n0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 "
                          "timed out, 6 unhealthy.\n");
    ef__settings_close(settings);
    return 0;
}

const cli_command cli_cmd_man_page = {
    .name = "man-page",
    .summary = "print the manual page as scdoc",
    .run = run_man_page,
    .hidden = true,
    .no_settings = true,
};
