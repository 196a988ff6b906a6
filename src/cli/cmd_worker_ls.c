/*
 * cmd_worker_ls.c - everfold worker ls
 */
#include "commands.h"
#include "calls.h"
#include "workers.h"

#include <stdlib.h>

/* The workers, and a buffer for the target partitions of one of them. */
typedef struct membership {
    ef_worker_list workers;
    int32_t partitions;
    int32_t *targets;
} membership;

static cli_hold hold_of(const ef_worker *worker)
{
    return (cli_hold){worker->id, worker->heartbeat_until_us, worker->live};
}

static ef_str state_of(const ef_worker *worker)
{
    return ef_str_from(ef_worker_state_name(worker->state));
}

static void print_worker(cli *c, cli_list *list, const membership *found, size_t index)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    const ef_worker *worker = &found->workers.items[index];
    size_t count = ef_worker_targets(&found->workers, index, found->partitions, found->targets);

    cli_list_next(c, list);
    ef__json_open(&w, '{');
    ef__shape_members(&w, &ef__shape_worker, worker);
    ef__json_member_open(&w, "target_partitions", '[');
    for (size_t i = 0; i < count; i++) {
        char label[EF_PARTITION_LABEL_MAX];
        ef_partition_label(found->targets[i], label);
        ef__json_str(&w, ef_str_from(label));
    }
    ef__json_close(&w, ']');
    ef__json_member_name(&w, "state", state_of(worker));
    ef__json_close(&w, '}');
    (void)cli_list_item_end(c, list);
}

/* "p00 p02 p04"; the table cuts the cell if it is too long. */
static void add_targets(cli_table *table, const membership *found, size_t index)
{
    ef__buf text = EF__BUF_INIT(CLI_OUT_MAX);
    size_t count = ef_worker_targets(&found->workers, index, found->partitions, found->targets);

    for (size_t i = 0; i < count; i++) {
        char label[EF_PARTITION_LABEL_MAX];
        ef_partition_label(found->targets[i], label);
        ef__buf_printf(&text, "%s%s", i ? " " : "", label);
    }
    cli_table_text(table, count ? ef__buf_str(&text) : EF_STR("-"));
    ef__buf_release(&text);
}

static void print_table(cli *c, const membership *found)
{
    static const char *const heads[] = {"WORKER", "HOST",  "PID",    "STARTED",
                                        "TTL",    "STATE", "TARGETS"};
    cli_table table = CLI_TABLE_INIT(heads, 7, 1u << 2 | 1u << 4);

    for (size_t i = 0; i < found->workers.count; i++) {
        const ef_worker *worker = &found->workers.items[i];
        cli_hold hold = hold_of(worker);
        cli_table_text(&table, worker->id);
        cli_table_text(&table, worker->host);
        cli_table_int(&table, worker->pid);
        cli_table_time(&table, worker->started_us);
        cli_table_ttl(&table, &hold);
        cli_table_text(&table, state_of(worker));
        add_targets(&table, found, i);
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

static ef_status read_membership(cli *c, membership *out, ef_error *err)
{
    ef_store_facts facts = {0};
    ef_status st = cli_facts(c, &facts, err);

    if (st == EF_OK)
        st = cli_worker_ls(c, &out->workers, err);
    out->partitions = facts.partitions;
    out->targets = calloc((size_t)facts.partitions + 1, sizeof *out->targets);
    return st != EF_OK || out->targets ? st : ef_fail(err, EF_NO_MEMORY, "out of memory");
}

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    membership found = {0};
    cli_list list = {.lines = c->format == CLI_NDJSON};
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (read_membership(c, &found, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else if (c->format == CLI_TABLE && found.workers.count == 0)
        cli_say(c, "no workers; start one: everfold work");
    else if (c->format == CLI_TABLE)
        print_table(c, &found);
    for (size_t i = 0; rc == 0 && c->format != CLI_TABLE && i < found.workers.count; i++)
        print_worker(c, &list, &found, i);
    if (rc == 0 && c->format != CLI_TABLE)
        cli_list_end(c, &list);
    ef_worker_list_release(&found.workers);
    free(found.targets);
    return rc;
}

const cli_command cli_cmd_worker_ls = {
    .name = "worker ls",
    .summary = "list workers: state, heartbeat and target partitions",
    .more =
        "Working workers share the partitions. A worker without work for 10 seconds is idle: it\n"
        "holds no partitions and claims its share again with the first event. A worker without\n"
        "a heartbeat for half of the heartbeat time is late: the others take over its share.\n"
        "When the heartbeat has expired it is stale, and it is removed after some minutes. The\n"
        "heartbeat time is twice worker.lease_ttl; 150 s for an idle worker, which sends one\n"
        "per minute. A worker that runs with --no-leasing has no heartbeat and is not listed;\n"
        "its leases are: everfold lease ls.",
    .example = "everfold worker ls",
    .run = run_ls,
};
