/*
 * main.c - the table of commands, and main.
 */
#include "cli.h"

#include <everfold/sqlite.h>

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

const cli_group cli_groups[] = {
    {"event", "append, import and read events"},
    {"journal", "copy or adopt a journal"},
    {"type", "event types: intent and publication"},
    {"fold", "check, explain and test programs"},
    {"projection", "deploy, inspect and control projections"},
    {"view", "read and query views"},
    {"outbox", "backlog, failed and dead rows of the outbox"},
    {"publisher", "forward events to files, webhooks and NATS"},
    {"audit", "audit log: actions of operators"},
    {"gaps", "events that a projection misses"},
    {"run", "runs: replays, rebuilds and verifications"},
    {"lease", "leases of workers"},
    {"worker", "workers and their heartbeats"},
    {"partition", "partitions of the outbox, shared by workers"},
    {"token", "API tokens of the server"},
    {"config", "settings: effective values and checks"},
    {NULL, NULL},
};

#define CLI_COMMAND_ADDRESS(name) &cli_cmd_##name,
const cli_command *const cli_commands[] = {CLI_COMMANDS(CLI_COMMAND_ADDRESS) NULL};

static volatile sig_atomic_t stop_signal;
static volatile int64_t stop_signal_ms; /* monotonic time of the signal */
#define SAME_REQUEST_MS 1000

const char *cli_command_verb(const cli_command *command, const char *group)
{
    size_t length = strlen(group);

    if (strncmp(command->name, group, length) == 0 && command->name[length] == ' ')
        return command->name + length + 1;
    return NULL;
}

const cli_command *cli_command_find(const char *first, const char *second)
{
    for (size_t i = 0; cli_commands[i]; i++) {
        const char *name =
            second ? cli_command_verb(cli_commands[i], first) : cli_commands[i]->name;
        if (name && strcmp(name, second ? second : first) == 0)
            return cli_commands[i];
    }
    return NULL;
}

const char *cli_command_word(const cli_command *command, const cli_group *group)
{
    const char *word = group ? cli_command_verb(command, group->name) : command->name;

    return word && !command->hidden && !strchr(word, ' ') ? word : NULL;
}

const cli_group *cli_group_find(const char *name)
{
    for (size_t i = 0; cli_groups[i].name; i++)
        if (strcmp(cli_groups[i].name, name) == 0)
            return &cli_groups[i];
    return NULL;
}

static int64_t signal_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* async-signal-safe */
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* One request to stop may arrive as two signals: GNU timeout signals its child and then its process
 * group. Only a later signal counts as a second request. */
static void record_stop_signal(int number)
{
    if (stop_signal && signal_ms() - stop_signal_ms > SAME_REQUEST_MS)
        _exit(128 + number);
    if (stop_signal)
        return;
    stop_signal_ms = signal_ms();
    stop_signal = number;
}

void cli_stop_on_signals(void)
{
    struct sigaction action = {.sa_handler = record_stop_signal};

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

void cli_stop_on_hangup(void)
{
    struct sigaction before;

    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(SIGHUP, &(struct sigaction){.sa_handler = record_stop_signal}, NULL);
}

void cli_sleep_us(int64_t us)
{
    (void)nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000},
                    NULL);
}

bool cli_stopped(void)
{
    return stop_signal != 0;
}

int cli_stopped_exit(void)
{
    return 128 + stop_signal;
}

/* Determines the output format before the settings are loaded, for errors in them. */
static void guess_format(cli *c)
{
    const char *asked = cli_value(c, "output");

    if (!asked)
        asked = getenv("EVERFOLD_OUTPUT");
    if (asked && (strcmp(asked, "json") == 0 || strcmp(asked, "ndjson") == 0))
        c->format = CLI_JSON;
}

static const char *hint_of(const cli_command *command, ef_status status)
{
    for (const cli_hint_row *row = command->hints; row && row->status != EF_OK; row++)
        if (row->status == status)
            return row->text;
    return command->hint;
}

static int call_command(cli *c)
{
    const cli_command *command = c->command;
    ef_error err = EF_ERROR_INIT;
    ef_status st = cli_options_check(c, &err);

    if (st == EF_OK && command->check)
        st = command->check(c, &err);
    if (st == EF_OK)
        st = cli_need(c, command->stores, &err);
    if (st == EF_OK)
        st = command->call(c, &err);
    if (st == EF_OK || c->error_shown)
        return st == EF_OK ? c->exit_code : ef_status_describe(st)->exit_code;
    int rc = cli_fail(c, &err, c->hint[0] ? c->hint : c->opened ? hint_of(command, st) : NULL);
    return c->exit_code ? c->exit_code : rc;
}

static int run_command(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    if (c->command->local && cli_has(c, "server")) {
        (void)ef_fail(&err, EF_UNSUPPORTED, "%s cannot be used with --server", c->command->name);
        return cli_fail(c, &err, "run it on the machine with the data: --data DIR");
    }
    if (c->command->no_settings)
        return call_command(c);
    st = cli_settings_load(c, &err);
    c->settings_error = err;
    if (st != EF_OK && !(c->command->settings_later && c->settings))
        return cli_fail(c, &err, NULL);
    return call_command(c);
}

/* Handles --help and --version first; -1 if neither was given. */
static int run_help(cli *c)
{
    /* Some commands have a --version of their own: of a projection. */
    if (cli_common_value(c, "version"))
        ef__buf_printf(&c->out, "everfold %s\n", ef_version());
    else if (cli_has(c, "help"))
        cli_help(c, c->command, c->group);
    else
        return -1;
    return 0;
}

static int run_arguments(cli *c, int argc, char **argv)
{
    ef_error err = EF_ERROR_INIT;
    ef_status st = cli_options_parse(c, argc, argv, &err);

    guess_format(c);
    c->quiet = cli_has(c, "quiet");
    if (st != EF_OK)
        return cli_fail(c, &err, c->hint[0] ? c->hint : NULL);
    int rc = run_help(c);
    if (rc >= 0)
        return rc;
    if (c->command)
        return run_command(c);
    (void)ef_fail(&err, EF_BAD_INPUT, "%s%s", c->group ? c->group->name : "no command given",
                  c->group ? " needs a subcommand" : "");
    cli_hint(c, "see: everfold %s%s--help", c->group ? c->group->name : "", c->group ? " " : "");
    return cli_fail(c, &err, c->hint);
}

static int finish_output(cli *c, int rc)
{
    ef_error err = EF_ERROR_INIT;

    (void)cli_flush(c);
    if (c->out_state != CLI_OUT_BROKEN)
        return rc;
    (void)ef_fail(&err, c->out_errno == ENOSPC ? EF_FULL : EF_IO, "writing to stdout failed: %s",
                  strerror(c->out_errno));
    return rc != 0 ? rc : cli_fail(c, &err, NULL);
}

int main(int argc, char **argv)
{
    cli c = {.program = argc > 0 ? argv[0] : "everfold", .out = EF__BUF_INIT(CLI_OUT_MAX)};

    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* only for character widths */
    (void)signal(SIGPIPE, SIG_IGN);
    ef_sqlite_uncounted();
    int rc = run_arguments(&c, argc, argv);
    ef_client_close(c.client);
    ef_engine_close(c.engine);
    ef_journal_close(c.journal);
    rc = finish_output(&c, rc);
    ef__settings_close(c.settings);
    ef__buf_release(&c.out);
    return rc;
}
