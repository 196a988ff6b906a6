/*
 * cmd_publisher_pause.c - everfold publisher pause NAME
 */
#include "commands.h"
#include "publisher.h"

static int run_pause(cli *c)
{
    return cli_pause_publisher(c, true);
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "name of the publisher"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded in the audit log (everfold audit ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_publisher_pause = {
    .name = "publisher pause",
    .summary = "pause a publisher; its events stay queued",
    .options = options,
    .arguments = arguments,
    .more = "To continue: everfold publisher resume NAME",
    .example = "everfold publisher pause mail",
    .run = run_pause,
};
