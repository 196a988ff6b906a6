/*
 * cmd_partition_ls.c - everfold partition ls
 */
#include "commands.h"
#include "calls.h"
#include "workers.h"

static cli_hold hold_of(const ef_partition *partition)
{
    return (cli_hold){partition->holder, partition->until_us, partition->live};
}

static void print_table(cli *c, const ef_partition_list *partitions)
{
    static const char *const heads[] = {"PARTITION", "TTL",        "EPOCH", "PENDING",
                                        "IN FLIGHT", "RETRY ROWS", "HOLDER"};
    cli_table table = CLI_TABLE_INIT(heads, 7, 0x3e);

    for (size_t i = 0; i < partitions->count; i++) {
        const ef_partition *partition = &partitions->items[i];
        cli_hold hold = hold_of(partition);
        char label[EF_PARTITION_LABEL_MAX];
        ef_partition_label(partition->number, label);
        cli_table_text(&table, ef_str_from(label));
        cli_table_ttl(&table, &hold);
        cli_table_int(&table, partition->token);
        cli_table_int(&table, partition->pending);
        cli_table_int(&table, partition->in_flight);
        cli_table_int(&table, partition->retry_rows);
        cli_table_text(&table, partition->holder.len > 0 ? partition->holder : EF_STR("free"));
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_partition_list partitions = {0};
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_partition_ls(c, &partitions, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE)
        print_table(c, &partitions);
    else
        cli_list_shapes(c, &ef__shape_partition, partitions.items, partitions.count);
    ef_partition_list_release(&partitions);
    return 0;
}

const cli_command cli_cmd_partition_ls = {
    .name = "partition ls",
    .summary = "list partitions: holder, expiry, backlog",
    .more = "PENDING and IN FLIGHT count the rows that are queued for the projections; RETRY ROWS\n"
            "counts rows that failed and rows that are blocked by one (everfold outbox report).\n"
            "EPOCH is the fencing token of the lease of the partition.",
    .example = "everfold partition ls",
    .run = run_ls,
};
