/*
 * help.c - help pages, generated from the tables of the commands.
 */
#include "cli.h"

#include <stdio.h>

#define HELP_COLUMN 28

void cli_usage_line(ef__buf *out, const cli_command *command)
{
    ef__buf_add_text(out, command->name);
    for (const cli_argument *a = command->arguments; a && a->name; a++)
        ef__buf_printf(out, " %s%s%s%s", a->optional ? "[" : "", a->name, a->many ? "…" : "",
                       a->optional ? "]" : "");
    if (command->options && command->options[0].name)
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
    for (size_t i = width + 2; i < HELP_COLUMN; i++)
        ef__buf_add_char(out, ' ');
    ef__buf_printf(out, "%s\n", help);
}

static void write_options(ef__buf *out, const cli_option *options, const cli_option *hidden_by)
{
    for (const cli_option *o = options; o && o->name; o++) {
        char left[80], letter[8] = "    ";
        bool hidden = false;
        for (const cli_option *h = hidden_by; h && h->name; h++)
            hidden = hidden || strcmp(h->name, o->name) == 0;
        if (hidden)
            continue;
        if (o->letter)
            (void)snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value ? " " : "",
                       o->value ? o->value : "");
        write_entry(out, left, o->help);
    }
}

void cli_help_all(cli *c)
{
    ef__buf *out = &c->out;

    ef__buf_add_text(
        out, "everfold - event journal, transactional outbox and exactly-once projections\n\n"
             "Usage: everfold COMMAND [ARGUMENTS] [OPTIONS]\n\nCommands:\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        ef__buf line = EF__BUF_INIT(4096);
        if (cli_commands[i]->hidden)
            continue;
        ef__buf_add_text(&line, cli_commands[i]->name);
        for (const cli_argument *a = cli_commands[i]->arguments; a && a->name; a++)
            ef__buf_printf(&line, a->optional ? " [%s%s]" : " %s%s", a->name, a->many ? "…" : "");
        write_entry(out, line.ptr ? line.ptr : "", cli_commands[i]->summary);
        ef__buf_release(&line);
    }
    ef__buf_add_text(out, "\nCommon options:\n");
    write_options(out, cli_common_options, NULL);
    ef__buf_add_text(out, "\nExit: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 busy "
                          "or timed out, 6 unhealthy.\n"
                          "More: everfold help COMMAND, everfold config show\n");
}

void cli_help_group(cli *c, const char *group)
{
    const cli_group *g = cli_group_find(group, strlen(group));

    ef__buf_printf(&c->out, "everfold %s - %s\n\nCommands:\n", group, g ? g->summary : "");
    for (size_t i = 0; cli_commands[i]; i++) {
        ef__buf line = EF__BUF_INIT(4096);
        if (!cli_command_verb(cli_commands[i], group) || cli_commands[i]->hidden)
            continue;
        cli_usage_line(&line, cli_commands[i]);
        write_entry(&c->out, line.ptr ? line.ptr : "", cli_commands[i]->summary);
        ef__buf_release(&line);
    }
    ef__buf_printf(&c->out, "\nMore: everfold help %s COMMAND\n", group);
}

void cli_help_command(cli *c, const cli_command *command)
{
    ef__buf *out = &c->out;

    ef__buf_printf(out, "everfold %s - %s\n\nUsage: everfold ", command->name, command->summary);
    cli_usage_line(out, command);
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
