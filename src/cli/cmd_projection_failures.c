/*
 * cmd_projection_failures.c - everfold projection failures NAME
 */
#include "commands.h"
#include "front.h"
#include "projection.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 10000

static void write_failure(ef__json_writer *w, ef_str projection, const ef_failure *f)
{
    ef__json_open(w, '{');
    ef__json_key(w, "projection");
    ef__json_str(w, projection);
    ef__shape_members(w, &ef__shape_failure, f);
    ef__json_close(w, '}');
}

static void print_list(cli *c, ef_str projection, const ef_failure_list *found)
{
    cli_list list = {.lines = c->format == CLI_NDJSON};

    for (size_t i = 0; i < found->count; i++) {
        ef__json_writer w = EF__JSON_WRITER(&c->out);
        cli_list_next(c, &list);
        write_failure(&w, projection, &found->items[i]);
        (void)cli_list_item_end(c, &list);
    }
    cli_list_end(c, &list);
}

static void print_text(cli *c, const ef_failure_list *found)
{
    for (size_t i = 0; i < found->count; i++)
        cli_show_failure(c, &found->items[i], "");
    if (found->count == 0)
        cli_say(c, cli_has(c, "all") ? "nothing has failed" : "no failure is open");
}

static int run_failures(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_failure_list found = {0};
    ef_str name = ef_str_from(c->arguments[0]);
    int64_t limit = LIMIT_DEFAULT;
    ef_status st = cli_number(c, "limit", 1, LIMIT_MAX, &limit, &err);
    int rc = st == EF_OK ? cli_engine_need(c, true) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    st = cli_projection_failures(c, name, cli_has(c, "all"), (size_t)limit, &found, &err);
    if (st != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else if (c->format == CLI_TABLE)
        print_text(c, &found);
    else
        print_list(c, name, &found);
    ef_failure_list_release(&found);
    return rc;
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "the projection"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"all", 0, NULL, NULL, NULL, "also those that are over"},
    {"limit", 0, "N", NULL, NULL, "at most so many (default 100)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_projection_failures = {
    .name = "projection failures",
    .summary = "events that a projection could not digest",
    .options = options,
    .arguments = arguments,
    .more =
        "Newest first. A failure is open until its event is passed: applied by a program that\n"
        "can, or skipped. What is to be done next stands in: everfold outbox report.\n"
        "\n"
        "hash_mismatch: the event is not the one that was applied under its seq, as after an\n"
        "older copy of the journal was put in its place. Nothing more of the stream is folded\n"
        "until you rebuild the projection (projection rebuild), or let the event stand for the\n"
        "one that was lost (outbox skip). With the right journal back, requeue it.",
    .example = "everfold projection failures customer_orders --all",
    .run = run_failures,
};
