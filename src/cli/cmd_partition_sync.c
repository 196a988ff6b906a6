/*
 * cmd_partition_sync.c - everfold partition sync
 */
#include "commands.h"
#include "calls.h"
#include "workers.h"

#include <inttypes.h>

static void print_sync_json(cli *c, const ef_partition_change *change,
                            const ef_partition_sync_result *done)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    ef__json_open(&w, '{');
    ef__shape_members(&w, &ef__shape_partition_sync_result, done);
    ef__json_member_bool(&w, "dry_run", change->dry_run);
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

static void print_sync_text(cli *c, const ef_partition_change *change,
                            const ef_partition_sync_result *done)
{
    const char *would = change->dry_run ? "dry run: " : "";

    if (done->before == done->after)
        ef__buf_printf(&c->out, "%" PRId32 " partition%s, unchanged\n", done->after,
                       cli_plural(done->after));
    else
        ef__buf_printf(&c->out, "%s%" PRId32 " partition%s, %s %" PRId32 "\n",
                       change->dry_run ? "dry run: " : "", done->after, cli_plural(done->after),
                       change->dry_run ? "now" : "before", done->before);
    if (change->prune)
        ef__buf_printf(&c->out, "%s%s %" PRId64 " lease%s beyond them\n", would, "pruned",
                       done->pruned, cli_plural(done->pruned));
    if (done->kept > 0)
        ef__buf_printf(&c->out, "%" PRId64 " lease%s beyond them %s still held\n", done->kept,
                       cli_plural(done->kept), done->kept == 1 ? "is" : "are");
}

static int run_sync(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_partition_change change = {.prune = cli_has(c, "prune"), .dry_run = cli_has(c, "dry-run")};
    ef_partition_sync_result done = {0};
    int64_t count = 0;
    ef_status st = cli_number(c, "count", 1, EF_PARTITIONS_MAX, &count, &err);
    int rc = st == EF_OK ? cli_journal_need(c, false) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    change.count = (int32_t)count;
    if (cli_partition_sync(c, &change, &done, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE)
        print_sync_text(c, &change, &done);
    else
        print_sync_json(c, &change, &done);
    return 0;
}

const cli_command cli_cmd_partition_sync = {
    .name = "partition sync",
    .summary = "change the number of partitions",
    .options =
        CLI_OPTIONS({"count", 0, "N", NULL, NULL, "number of partitions (default: unchanged)"},
                    {"prune", 0, NULL, NULL, NULL, "remove free leases beyond the count"},
                    {"dry-run", 0, NULL, NULL, NULL, "report the changes without making them"}),
    .more =
        "Workers and writers adopt the new count while they run. The count can be raised at any\n"
        "time: queued rows stay where they are. Lowering it is refused while rows are queued in\n"
        "a partition that would be removed; wait until they are applied. More partitions let\n"
        "more workers share the work; with fewer partitions than workers, some workers stay\n"
        "idle.",
    .example = "everfold partition sync --count 32",
    .run = run_sync,
};
