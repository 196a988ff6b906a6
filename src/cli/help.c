/*
 * help.c - help pages, the manual page and completion, generated from the tables of the commands.
 *
 * The completion scripts for bash and zsh call the hidden command `complete`, which prints
 * candidates from the tables, so that a new command or option is completed without further work. It
 * prints one candidate per line; the lines @file and @dir leave the completion to the shell. The
 * manual page is written in the man macros of roff.
 */
#include "cli.h"
#include "completion.h" /* the scripts, made by the build from completion.bash and completion.zsh */

#include "../base/same.h"

#include <everfold/version.h>

#define HELP_COLUMN 28

/* "event append STREAM [OPTIONS]" */
static void add_usage(ef__buf *out, const cli_command *command, bool with_options)
{
    ef__buf_add_text(out, command->name);
    for (const cli_argument *a = command->arguments; a && a->name; a++)
        ef__buf_printf(out, " %s%s%s%s", a->optional ? "[" : "", a->name, a->many ? "…" : "",
                       a->optional ? "]" : "");
    if (with_options && command->options && command->options[0].name)
        ef__buf_add_text(out, " [OPTIONS]");
}

static void write_entry(ef__buf *out, const char *left, const char *help)
{
    size_t width = cli_text_width(ef_str_from(left));

    ef__buf_printf(out, "  %s", left);
    if (width + 4 > HELP_COLUMN) {
        ef__buf_add_char(out, '\n');
        width = 0;
        ef__buf_add_text(out, "  ");
    }
    cli_spaces(out, HELP_COLUMN - width - 2);
    ef__buf_printf(out, "%s\n", help);
}

static void write_options(ef__buf *out, const cli_option *options, const cli_option *hidden_by)
{
    for (const cli_option *o = options; o && o->name; o++) {
        char left[80], letter[8] = "    ";
        if (cli_option_index(hidden_by, o->name, 0) >= 0)
            continue;
        if (o->letter)
            (void)snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value ? " " : "",
                       o->value ? o->value : "");
        write_entry(out, left, o->help);
    }
}

/* All commands, or those of a group. */
static void write_commands(ef__buf *out, const char *group)
{
    ef__buf_add_text(out, "\n\nCommands:\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        EF__AUTO(ef__buf) line = EF__BUF_INIT(4096);
        if (cli_commands[i]->hidden || (group && !cli_command_verb(cli_commands[i], group)))
            continue;
        add_usage(&line, cli_commands[i], group != NULL);
        write_entry(out, ef__buf_str(&line).ptr, cli_commands[i]->summary);
    }
}

static void describe_all(cli *c)
{
    ef__buf *out = &c->out;

    ef__buf_add_text(
        out, "everfold - event journal, transactional outbox and exactly-once projections\n\n"
             "Usage: everfold COMMAND [ARGUMENTS] [OPTIONS]");
    write_commands(out, NULL);
    ef__buf_add_text(out, "\nCommon options:\n");
    write_options(out, cli_common_options, NULL);
    ef__buf_add_text(out, "\nExit: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 busy "
                          "or timed out, 6 unhealthy.\n"
                          "More: everfold help COMMAND, everfold config show\n");
}

static void describe_group(cli *c, const cli_group *group)
{
    ef__buf_printf(&c->out, "everfold %s - %s", group->name, group->summary);
    write_commands(&c->out, group->name);
    ef__buf_printf(&c->out, "\nMore: everfold help %s COMMAND\n", group->name);
}

static void describe_command(cli *c, const cli_command *command)
{
    ef__buf *out = &c->out;

    ef__buf_printf(out, "everfold %s - %s\n\nUsage: everfold ", command->name, command->summary);
    add_usage(out, command, true);
    ef__buf_add_char(out, '\n');
    if (command->arguments && command->arguments[0].name)
        ef__buf_add_text(out, "\nArguments:\n");
    for (const cli_argument *a = command->arguments; a && a->name; a++)
        write_entry(out, a->name, a->help);
    if (command->options && command->options[0].name)
        ef__buf_add_text(out, "\nOptions:\n");
    write_options(out, command->options, NULL);
    ef__buf_add_text(out, "\nCommon options:\n");
    write_options(out, cli_common_options, command->options);
    if (command->more)
        ef__buf_printf(out, "\n%s\n", command->more);
    if (command->example)
        ef__buf_printf(out, "\nExample:\n  %s\n", command->example);
}

void cli_help(cli *c, const cli_command *command, const cli_group *group)
{
    if (command)
        describe_command(c, command);
    else if (group)
        describe_group(c, group);
    else
        describe_all(c);
}

static ef_status run_help(cli *c, ef_error *err)
{
    const char *first = c->argument_count > 0 ? c->arguments[0] : NULL;
    const char *second = c->argument_count > 1 ? c->arguments[1] : NULL;
    const cli_command *command =
        first && c->argument_count <= 2 ? cli_command_find(first, second) : NULL;
    const cli_group *group = first && !second ? cli_group_find(first) : NULL;

    if (!first || command || group) {
        cli_help(c, command, group);
        return EF_OK;
    }
    EF__AUTO(ef__buf) words = EF__BUF_INIT(4096);
    c->group = cli_group_find(first);
    for (size_t i = c->group ? 1 : 0; i < c->argument_count; i++)
        ef__buf_printf(&words, "%s%s", words.len ? " " : "", c->arguments[i]);
    return cli_unknown_command(c, words.ptr ? words.ptr : "", err);
}

const cli_command cli_cmd_help = {
    .name = "help",
    .summary = "describe a command",
    .arguments = CLI_ARGUMENTS(
        CLI_ARGUMENT("COMMAND", "command, one or two words", .optional = true, .many = true)),
    .example = "everfold help event append",
    .call = run_help,
    .no_settings = true,
};

static ef_status run_version(cli *c, ef_error *err)
{
    (void)err;
    ef__buf_printf(&c->out, c->format == CLI_TABLE ? "everfold %s\n" : "{\"version\":\"%s\"}\n",
                   ef_version());
    return EF_OK;
}

const cli_command cli_cmd_version = {
    .name = "version",
    .summary = "print the version",
    .example = "everfold version",
    .call = run_version,
    .no_settings = true,
};

static ef_status run_completion(cli *c, ef_error *err)
{
    const char *shell = c->arguments[0];

    if (strcmp(shell, "bash") == 0)
        ef__buf_add_text(&c->out, completion_bash);
    else if (strcmp(shell, "zsh") == 0)
        ef__buf_add_text(&c->out, completion_zsh);
    else
        return cli_refuse(c, err, "no completion for shell '%s': must be bash or zsh", shell);
    return EF_OK;
}

/* --- candidates ------------------------------------------------------------------------------- */

static void print_words(cli *c, const char *words)
{
    for (ef_str rest = ef_str_from(words); rest.len > 0;) {
        ef_str word = ef__str_split(&rest, ',');
        ef__buf_printf(&c->out, "%.*s\n", EF_STR_ARG(word));
    }
}

/* The option of "--name" or "-n", a word that begins with a dash. */
static const cli_option *option_of(const cli_command *command, const char *word)
{
    const cli_option *tables[] = {command ? command->options : NULL, cli_common_options};
    bool is_long = word[1] == '-', is_letter = word[1] != '\0' && word[2] == '\0';

    for (size_t i = 0; i < 2 && (is_long || is_letter); i++) {
        int index = cli_option_index(tables[i], is_long ? word + 2 : NULL, word[1]);
        if (index >= 0)
            return &tables[i][index];
    }
    return NULL;
}

static void print_options(cli *c, const cli_option *options)
{
    for (const cli_option *o = options; o && o->name; o++)
        ef__buf_printf(&c->out, "--%s\n", o->name);
}

static void print_commands(cli *c, const cli_group *group)
{
    for (size_t i = 0; !group && cli_groups[i].name; i++)
        ef__buf_printf(&c->out, "%s\n", cli_groups[i].name);
    for (size_t i = 0; cli_commands[i]; i++) {
        const char *word = cli_command_word(cli_commands[i], group);
        if (word)
            ef__buf_printf(&c->out, "%s\n", word);
    }
}

static void print_argument(cli *c, const cli_command *command, size_t index)
{
    const cli_argument *a = command->arguments;

    for (size_t i = 0; a && a[i].name; i++)
        if (i == index || (i < index && a[i].many && !a[i + 1].name))
            print_words(c, a[i].words);
}

/* Arguments are the words so far; the last one is being completed. */
static ef_status run_complete(cli *c, ef_error *err)
{
    const cli_command *command = NULL;
    const cli_group *group = NULL;
    const cli_option *waiting = NULL; /* the option whose value comes next */
    size_t arguments = 0;
    const char *last = c->argument_count > 0 ? c->arguments[c->argument_count - 1] : "";

    (void)err;
    for (size_t i = 0; i + 1 < c->argument_count; i++) {
        const char *word = c->arguments[i];
        if (waiting) {
            waiting = NULL;
        } else if (word[0] == '-') {
            waiting = option_of(command, word);
            waiting = waiting && waiting->value ? waiting : NULL;
        } else if (command) {
            arguments++;
        } else {
            command = group ? cli_command_find(group->name, word) : cli_command_find(word, NULL);
            group = group ? group : cli_group_find(word);
        }
    }
    if (waiting) {
        print_words(c, waiting->words);
    } else if (last[0] == '-') {
        print_options(c, command ? command->options : NULL);
        print_options(c, cli_common_options);
    } else if (command) {
        print_argument(c, command, arguments);
    } else {
        print_commands(c, group);
    }
    return EF_OK;
}

const cli_command cli_cmd_completion = {
    .name = "completion",
    .summary = "print a completion script for a shell",
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("SHELL", "bash or zsh", .words = "bash,zsh")),
    .example = "eval \"$(everfold completion bash)\"",
    .call = run_completion,
    .no_settings = true,
};

const cli_command cli_cmd_complete = {
    .name = "complete",
    .summary = "answer a completion script",
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("WORD", "the command line so far, word by word",
                                            .optional = true, .many = true)),
    .call = run_complete,
    .hidden = true,
    .no_settings = true,
};

/* Escapes roff: a backslash, a dot or quote that starts a line, a bare - (it prints a hyphen). */
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
    EF__AUTO(ef__buf) usage = EF__BUF_INIT(4096);

    add_usage(&usage, command, true);
    ef__buf_add_text(out, ".SS everfold ");
    add_plain(out, usage.ptr ? usage.ptr : "");
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

static ef_status run_man_page(cli *c, ef_error *err)
{
    ef__settings *settings = NULL;
    ef__buf *out = &c->out;
    ef_status st = cli_settings_table_open(&settings, err);

    if (st != EF_OK)
        return st;
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
    return EF_OK;
}

const cli_command cli_cmd_man_page = {
    .name = "man-page",
    .summary = "print the manual page",
    .call = run_man_page,
    .hidden = true,
    .no_settings = true,
};
