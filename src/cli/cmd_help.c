/*
 * cmd_help.c - everfold help [COMMAND…]
 */
#include "commands.h"

#include <stdio.h>

static int run_help(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    char name[256];

    if (c->argument_count == 0) {
        cli_help_all(c);
        return 0;
    }
    (void)snprintf(name, sizeof(name), "%s%s%s", c->arguments[0], c->argument_count > 1 ? " " : "",
                   c->argument_count > 1 ? c->arguments[1] : "");
    const cli_command *command = cli_command_find(name);
    if (command && c->argument_count <= 2)
        cli_help_command(c, command);
    else if (c->argument_count == 1 && cli_group_find(name, strlen(name)))
        cli_help_group(c, name);
    else {
        (void)ef_fail(&err, EF_BAD_INPUT, "unknown command '%s'", name);
        return cli_fail(c, &err, "see: everfold help");
    }
    return 0;
}

const cli_command cli_cmd_help = {
    .name = "help",
    .summary = "describe a command",
    .arguments = CLI_ARGUMENTS({"COMMAND", true, true, NULL, "command, one or two words"}),
    .example = "everfold help event append",
    .run = run_help,
    .no_settings = true,
};
