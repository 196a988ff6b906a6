/*
 * cmd_publisher_resume.c - everfold publisher resume NAME
 */
#include "commands.h"
#include "publisher.h"

static int run_resume(cli *c)
{
    return cli_pause_publisher(c, false);
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "name of the publisher"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded in the audit log (everfold audit ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_publisher_resume = {
    .name = "publisher resume",
    .summary = "resume a paused publisher",
    .options = options,
    .arguments = arguments,
    .more = "Events that were queued meanwhile are delivered in order.",
    .example = "everfold publisher resume mail",
    .run = run_resume,
};
