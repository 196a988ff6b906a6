/*
 * cmd_version.c - everfold version
 */
#include "commands.h"

#include <everfold/version.h>

static int run_version(cli *c)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out, "everfold %s\n", ef_version());
        return 0;
    }
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "version", ef_version());
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
    return 0;
}

const cli_command cli_cmd_version = {
    .name = "version",
    .summary = "print the version",
    .example = "everfold version",
    .run = run_version,
    .no_settings = true,
};
