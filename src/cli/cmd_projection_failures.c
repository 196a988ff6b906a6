/*
 * cmd_projection_failures.c - everfold projection failures NAME
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 10000

static void write_failure(ef__json_writer *w, ef_str projection, const ef_failure *f)
{
    ef__json_open(w, '{');
    ef__json_member_str(w, "projection", projection);
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
        cli_say(c, cli_has(c, "all") ? "no failures" : "no open failures");
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
        rc = cli_fail(c, &err, cli_projection_hint(st));
    else if (c->format == CLI_TABLE)
        print_text(c, &found);
    else
        print_list(c, name, &found);
    ef_failure_list_release(&found);
    return rc;
}

const cli_command cli_cmd_projection_failures = {
    .name = "projection failures",
    .summary = "list the events that a projection failed on, newest first",
    .options = CLI_OPTIONS({"all", 0, NULL, NULL, NULL, "include resolved failures"},
                           {"limit", 0, "N", NULL, NULL, "at most N failures (default 100)"}),
    .arguments = CLI_NAME("projection"),
    .more =
        "A failure is open until its event is applied or skipped. The rows to act on are listed\n"
        "by: everfold outbox report.\n"
        "\n"
        "hash_mismatch: the event differs from the one that was applied under the same seq, for\n"
        "example after an older copy of the journal was restored. The stream stays blocked\n"
        "until you rebuild the projection (projection rebuild) or accept the event (outbox\n"
        "skip). With the right journal restored, requeue it.",
    .example = "everfold projection failures customer_orders --all",
    .run = run_failures,
};
