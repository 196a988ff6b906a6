/*
 * cmd_publisher_pause.c - everfold publisher pause NAME, resume and show
 */
#include "commands.h"
#include "calls.h"
#include "publisher.h"

static int set_paused(cli *c, bool paused)
{
    ef_error err = EF_ERROR_INIT;
    ef_str name = ef_str_from(c->arguments[0]);
    int rc = cli_journal_need(c, false);

    if (rc != 0)
        return rc;
    if (cli_publisher_pause(c, name, paused, cli_reason(c), &err) != EF_OK ||
        cli_note(c, paused ? "publisher_pause" : "publisher_resume", name, &err) != EF_OK)
        return cli_fail(c, &err, err.status == EF_NOT_FOUND ? "see: everfold publisher ls" : NULL);
    return cli_show_publisher(c, name);
}

static int run_pause(cli *c)
{
    return set_paused(c, true);
}

static int run_resume(cli *c)
{
    return set_paused(c, false);
}

static int run_show(cli *c)
{
    int rc = cli_journal_need(c, true);

    return rc == 0 ? cli_show_publisher(c, ef_str_from(c->arguments[0])) : rc;
}

const cli_command cli_cmd_publisher_pause = {
    .name = "publisher pause",
    .summary = "pause a publisher; its events stay queued",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("publisher"),
    .more = "To continue: everfold publisher resume NAME",
    .example = "everfold publisher pause mail",
    .run = run_pause,
};

const cli_command cli_cmd_publisher_resume = {
    .name = "publisher resume",
    .summary = "resume a paused publisher",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("publisher"),
    .more = "Events that were queued meanwhile are delivered in order.",
    .example = "everfold publisher resume mail",
    .run = run_resume,
};

const cli_command cli_cmd_publisher_show = {
    .name = "publisher show",
    .summary = "show one publisher with its settings",
    .arguments = CLI_NAME("publisher"),
    .example = "everfold publisher show mail -o json",
    .run = run_show,
};
