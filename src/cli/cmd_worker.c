/*
 * cmd_worker.c - everfold worker ls, lease ls, partition ls and partition sync
 */
#include "calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A lease: holder and expiry. Not live with a holder: it has expired. */
typedef struct cli_hold {
    ef_str holder; /* "" if it is free */
    int64_t until_us;
    bool live;
} cli_hold;

/* The store decides whether a lease has expired: the local clock never shows a live one as expired.
 */
static int64_t ms_left(const cli_hold *hold)
{
    int64_t left = (hold->until_us - cli_wall_us()) / 1000;

    if (!hold->live)
        return 0;
    return left > 0 ? left : 1;
}

/* "9.8 s", "expired" or "-". */
static void add_ttl(cli_table *table, const cli_hold *hold)
{
    int64_t left = ms_left(hold);
    char text[40];

    (void)snprintf(text, sizeof text, "%" PRId64 ".%" PRId64 " s", left / 1000, left % 1000 / 100);
    cli_table_text(table, hold->holder.len == 0 ? EF_STR("-")
                          : hold->live          ? ef_str_from(text)
                                                : EF_STR("expired"));
}

/* The workers, and a buffer for the target partitions of one of them. */
typedef struct membership {
    ef_worker_list workers;
    int32_t partitions;
    int32_t *targets;
} membership;

static cli_hold hold_of_worker(const ef_worker *worker)
{
    return (cli_hold){worker->id, worker->heartbeat_until_us, worker->live};
}

static ef_str state_of(const ef_worker *worker)
{
    return ef_str_from(ef_name_of(EF_NAMES_WORKER_STATE, worker->state));
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

static void print_workers(cli *c, const membership *found)
{
    static const char *const heads[] = {"WORKER", "HOST",  "PID",    "STARTED",
                                        "TTL",    "STATE", "TARGETS"};
    cli_table table = CLI_TABLE_INIT(heads, 7, 1u << 2 | 1u << 4);

    for (size_t i = 0; i < found->workers.count; i++) {
        const ef_worker *worker = &found->workers.items[i];
        cli_hold hold = hold_of_worker(worker);
        cli_table_text(&table, worker->id);
        cli_table_text(&table, worker->host);
        cli_table_int(&table, worker->pid);
        cli_table_time(&table, worker->started_us);
        add_ttl(&table, &hold);
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

static int run_worker_ls(cli *c)
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
        print_workers(c, &found);
    for (size_t i = 0; rc == 0 && c->format != CLI_TABLE && i < found.workers.count; i++)
        print_worker(c, &list, &found, i);
    if (rc == 0 && c->format != CLI_TABLE)
        cli_list_end(c, &list);
    EF_RELEASE(&found.workers);
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
    .run = run_worker_ls,
};

static cli_hold hold_of_lease(const ef_lease *lease)
{
    return (cli_hold){lease->holder, lease->until_us, lease->live};
}

static void print_leases(cli *c, const ef_lease_list *leases)
{
    static const char *const heads[] = {"KIND", "NAME", "PARTITION", "TTL", "TOKEN", "HOLDER"};
    cli_table table = CLI_TABLE_INIT(heads, 6, 1u << 3 | 1u << 4);

    for (size_t i = 0; i < leases->count; i++) {
        const ef_lease *lease = &leases->items[i];
        cli_hold hold = hold_of_lease(lease);
        char label[EF_PARTITION_LABEL_MAX];
        ef_partition_label(lease->key.partition, label);
        cli_table_text(&table, ef_str_from(ef_name_of(EF_NAMES_LEASE_KIND, lease->key.kind)));
        cli_table_text(&table, lease->key.name.len > 0 ? lease->key.name : EF_STR("-"));
        cli_table_text(&table, label[0] ? ef_str_from(label) : EF_STR("-"));
        add_ttl(&table, &hold);
        cli_table_int(&table, lease->token);
        cli_table_text(&table, lease->holder.len > 0 ? lease->holder : EF_STR("free"));
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

/* Reads --kind; `*out` is NULL without it. */
static ef_status read_kind(const cli *c, ef_lease_kind *room, const ef_lease_kind **out,
                           ef_error *err)
{
    const char *asked = cli_value(c, "kind");

    *out = NULL;
    if (!asked)
        return EF_OK;
    for (ef_lease_kind kind = 0; kind <= EF_LEASE_RUN; kind++)
        if (strcmp(ef_name_of(EF_NAMES_LEASE_KIND, kind), asked) == 0) {
            *room = kind;
            *out = room;
            return EF_OK;
        }
    return ef_fail(err, EF_BAD_INPUT,
                   "--kind is \"%s\": must be partition, publisher, scope, run or sequencer",
                   asked);
}

static int run_lease_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_lease_list leases = {0};
    ef_lease_kind room;
    const ef_lease_kind *kind;
    int rc = read_kind(c, &room, &kind, &err) == EF_OK ? cli_journal_need(c, true)
                                                       : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    if (cli_lease_ls(c, kind, &leases, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format != CLI_TABLE)
        cli_list_shapes(c, &ef__shape_lease, leases.items, leases.count);
    else if (leases.count == 0)
        cli_say(c, "no leases: no worker has run yet");
    else
        print_leases(c, &leases);
    EF_RELEASE(&leases);
    return 0;
}

const cli_command cli_cmd_lease_ls = {
    .name = "lease ls",
    .summary = "list leases: holder, expiry and fencing token",
    .options =
        CLI_OPTIONS({"kind", 0, "KIND", NULL, "partition,publisher,scope,run,sequencer",
                     "only leases of this kind: partition, publisher, scope, run, sequencer"}),
    .more = "The token grows with every take-over; a write under an older token is refused. A\n"
            "released lease is free and keeps its token.",
    .example = "everfold lease ls --kind partition",
    .run = run_lease_ls,
};

static cli_hold hold_of_partition(const ef_partition *partition)
{
    return (cli_hold){partition->holder, partition->until_us, partition->live};
}

static void print_partitions(cli *c, const ef_partition_list *partitions)
{
    static const char *const heads[] = {"PARTITION", "TTL",        "EPOCH", "PENDING",
                                        "IN FLIGHT", "RETRY ROWS", "HOLDER"};
    cli_table table = CLI_TABLE_INIT(heads, 7, 0x3e);

    for (size_t i = 0; i < partitions->count; i++) {
        const ef_partition *partition = &partitions->items[i];
        cli_hold hold = hold_of_partition(partition);
        char label[EF_PARTITION_LABEL_MAX];
        ef_partition_label(partition->number, label);
        cli_table_text(&table, ef_str_from(label));
        add_ttl(&table, &hold);
        cli_table_int(&table, partition->token);
        cli_table_int(&table, partition->pending);
        cli_table_int(&table, partition->in_flight);
        cli_table_int(&table, partition->retry_rows);
        cli_table_text(&table, partition->holder.len > 0 ? partition->holder : EF_STR("free"));
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

static int run_partition_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_partition_list partitions = {0};
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_partition_ls(c, &partitions, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE)
        print_partitions(c, &partitions);
    else
        cli_list_shapes(c, &ef__shape_partition, partitions.items, partitions.count);
    EF_RELEASE(&partitions);
    return 0;
}

const cli_command cli_cmd_partition_ls = {
    .name = "partition ls",
    .summary = "list partitions: holder, expiry, backlog",
    .more = "PENDING and IN FLIGHT count the rows that are queued for the projections; RETRY ROWS\n"
            "counts rows that failed and rows that are blocked by one (everfold outbox report).\n"
            "EPOCH is the fencing token of the lease of the partition.",
    .example = "everfold partition ls",
    .run = run_partition_ls,
};

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
