/*
 * cmd_partition_sync.c - everfold partition sync
 */
#include "commands.h"
#include "front.h"
#include "crew.h"

#include <inttypes.h>

static void print_json(cli *c, const ef_partition_change *change, const ef_partition_changed *done)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    ef__json_open(&w, '{');
    cli_json_field_int(&w, "before", done->before);
    cli_json_field_int(&w, "after", done->after);
    cli_json_field_int(&w, "pruned", done->pruned);
    cli_json_field_int(&w, "kept", done->kept);
    cli_json_field_bool(&w, "dry_run", change->dry_run);
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

static void print_text(cli *c, const ef_partition_change *change, const ef_partition_changed *done)
{
    const char *would = change->dry_run ? "would " : "";

    if (done->before == done->after)
        ef__buf_printf(&c->out, "%" PRId32 " partition%s, as before\n", done->after,
                       cli_plural(done->after));
    else
        ef__buf_printf(&c->out, "%s%" PRId32 " partition%s, %s %" PRId32 "\n",
                       change->dry_run ? "would be " : "", done->after, cli_plural(done->after),
                       change->dry_run ? "now" : "were", done->before);
    if (change->prune)
        ef__buf_printf(&c->out, "%s%s %" PRId64 " lease%s beyond them\n", would,
                       change->dry_run ? "prune" : "pruned", done->pruned,
                       cli_plural(done->pruned));
    if (done->kept > 0)
        ef__buf_printf(&c->out, "%" PRId64 " lease%s beyond them %s still held\n", done->kept,
                       cli_plural(done->kept), done->kept == 1 ? "is" : "are");
}

static int run_sync(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_partition_change change = {.prune = cli_has(c, "prune"), .dry_run = cli_has(c, "dry-run")};
    ef_partition_changed done = {0};
    int64_t count = 0;
    ef_status st = cli_number(c, "count", 1, EF_PARTITIONS_MAX, &count, &err);
    int rc = st == EF_OK ? cli_journal_need(c, false) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    change.count = (int32_t)count;
    if (cli_partition_sync(c, &change, &done, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE)
        print_text(c, &change, &done);
    else
        print_json(c, &change, &done);
    return 0;
}

static const cli_option options[] = {
    {"count", 0, "N", NULL, NULL, "so many partitions (default: as many as there are)"},
    {"prune", 0, NULL, NULL, NULL, "remove leases beyond the count that nobody holds"},
    {"dry-run", 0, NULL, NULL, NULL, "only say what would be done"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_partition_sync = {
    .name = "partition sync",
    .summary = "change the number of partitions",
    .options = options,
    .more =
        "Workers and writers follow by themselves. The count may be raised at any time: what is\n"
        "queued stays where it is. Lowering it is refused while rows wait in a partition that\n"
        "would be nobody's; let them be worked off first. More partitions let more workers share\n"
        "the work; with fewer than there are workers, some have nothing to do.",
    .example = "everfold partition sync --count 32",
    .run = run_sync,
};
