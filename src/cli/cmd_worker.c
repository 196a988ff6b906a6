/*
 * cmd_worker.c - everfold worker ls, lease ls, partition ls and partition sync
 */
#include "calls.h"

/* A worker, and the membership that determines its target partitions. */
typedef struct member {
    ef_worker worker; /* first: the fields of its shape */
    const ef_worker_list *workers;
    size_t index;
    int32_t partitions;
    int32_t *targets; /* buffer for them, shared by all members */
} member;

static size_t targets_of(const member *m)
{
    return ef_worker_targets(m->workers, m->index, m->partitions, m->targets);
}

/* "p00 p02 p04"; the table cuts the cell if it is too long. */
static void add_targets(ef__buf *out, const void *item)
{
    const member *m = item;
    size_t count = targets_of(m);

    for (size_t i = 0; i < count; i++) {
        char label[EF_PARTITION_LABEL_MAX];
        ef_partition_label(m->targets[i], label);
        ef__buf_printf(out, "%s%s", i ? " " : "", label);
    }
}

static void write_worker(ef__json_writer *w, const void *item)
{
    const member *m = item;
    size_t count = targets_of(m);

    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_worker, &m->worker);
    ef__json_member_open(w, "target_partitions", '[');
    for (size_t i = 0; i < count; i++) {
        char label[EF_PARTITION_LABEL_MAX];
        ef_partition_label(m->targets[i], label);
        ef__json_str(w, ef_str_from(label));
    }
    ef__json_close(w, ']');
    ef__json_member_text(w, "state", ef_name_of(EF_NAMES_WORKER_STATE, m->worker.state));
    ef__json_close(w, '}');
}

static const cli_listing worker_listing = {
    .shape = &ef__shape_worker,
    .more = &ef__shape_worker_more,
    .size = sizeof(member),
    .columns = CLI_COLUMNS(CLI_COLUMN("WORKER", "id"), CLI_COLUMN("HOST", "host", .none = ""),
                           CLI_COLUMN("PID", "pid"), CLI_COLUMN("STARTED", "started_at"),
                           CLI_COLUMN("TTL", "ttl_ms"), CLI_COLUMN("STATE", "state"),
                           CLI_COLUMN("TARGETS", NULL, .text = add_targets)),
    .write = write_worker,
    .empty = "no workers; start one: everfold work",
};

static ef_status list_workers(cli *c, ef_error *err)
{
    EF__AUTO(ef_worker_list) workers = {0};
    ef_store_facts facts = {0};
    ef_status st = cli_facts(c, &facts, err);

    if (st == EF_OK)
        st = cli_worker_ls(c, &workers, err);
    member *members = calloc(workers.count + 1, sizeof *members);
    int32_t *targets = calloc((size_t)facts.partitions + 1, sizeof *targets);
    if (st == EF_OK && (!members || !targets))
        st = ef_fail(err, EF_NO_MEMORY, "out of memory");
    for (size_t i = 0; st == EF_OK && i < workers.count; i++)
        members[i] = (member){workers.items[i], &workers, i, facts.partitions, targets};
    if (st == EF_OK)
        cli_print_list(c, &worker_listing, members, workers.count);
    free(targets);
    free(members);
    return st;
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
    .stores = CLI_JOURNAL_READ,
    .call = list_workers,
};

static const cli_listing lease_listing = {
    .shape = &ef__shape_lease,
    .columns =
        CLI_COLUMNS(CLI_COLUMN("KIND", "kind"), CLI_COLUMN("NAME", "name"),
                    CLI_COLUMN("PARTITION", "partition"), CLI_COLUMN("TTL", "ttl_ms"),
                    CLI_COLUMN("TOKEN", "token"), CLI_COLUMN("HOLDER", "holder", .none = "free")),
    .empty = "no leases: no worker has run yet",
};

/* Reads --kind; NULL without it. */
static const ef_lease_kind *read_kind(const cli *c)
{
    static ef_lease_kind kind;
    const char *asked = cli_value(c, "kind");

    for (kind = 0; asked && kind <= EF_LEASE_RUN; kind++)
        if (strcmp(ef_name_of(EF_NAMES_LEASE_KIND, kind), asked) == 0)
            return &kind;
    return NULL;
}

static ef_status check_kind(cli *c, ef_error *err)
{
    const char *asked = cli_value(c, "kind");

    if (!asked || read_kind(c))
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT,
                   "--kind is \"%s\": must be partition, publisher, scope, run or sequencer",
                   asked);
}

static ef_status list_leases(cli *c, ef_error *err)
{
    return CLI_PRINT_FOUND(c, ef_lease_list, leases, &lease_listing,
                           cli_lease_ls(c, read_kind(c), &leases, err));
}

const cli_command cli_cmd_lease_ls = {
    .name = "lease ls",
    .summary = "list leases: holder, expiry and fencing token",
    .options = CLI_OPTIONS(
        CLI_WORDS("kind", "KIND", "partition,publisher,scope,run,sequencer",
                  "only leases of this kind: partition, publisher, scope, run, sequencer")),
    .more = "The token grows with every take-over; a write under an older token is refused. A\n"
            "released lease is free and keeps its token.",
    .example = "everfold lease ls --kind partition",
    .check = check_kind,
    .stores = CLI_JOURNAL_READ,
    .call = list_leases,
};

static const cli_listing partition_listing = {
    .shape = &ef__shape_partition,
    .columns =
        CLI_COLUMNS(CLI_COLUMN("PARTITION", "partition"), CLI_COLUMN("TTL", "ttl_ms"),
                    CLI_COLUMN("EPOCH", "epoch"), CLI_COLUMN("PENDING", "pending"),
                    CLI_COLUMN("IN FLIGHT", "in_flight"), CLI_COLUMN("RETRY ROWS", "retry_rows"),
                    CLI_COLUMN("HOLDER", "holder", .none = "free")),
};

static ef_status list_partitions(cli *c, ef_error *err)
{
    return CLI_PRINT_FOUND(c, ef_partition_list, partitions, &partition_listing,
                           cli_partition_ls(c, &partitions, err));
}

const cli_command cli_cmd_partition_ls = {
    .name = "partition ls",
    .summary = "list partitions: holder, expiry, backlog",
    .more = "PENDING and IN FLIGHT count the rows that are queued for the projections; RETRY ROWS\n"
            "counts rows that failed and rows that are blocked by one (everfold outbox report).\n"
            "EPOCH is the fencing token of the lease of the partition.",
    .example = "everfold partition ls",
    .stores = CLI_JOURNAL_READ,
    .call = list_partitions,
};

static void print_sync_json(cli *c, const ef_partition_change *change,
                            const ef_partition_sync_result *done)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    ef__json_open(&w, '{');
    ef__shape_members(&w, &ef__shape_partition_sync_result, done);
    ef__json_member_bool(&w, "dry_run", change->dry_run);
    cli_object_end(c, &w);
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

static ef_status sync_partitions(cli *c, ef_error *err)
{
    ef_partition_change change = {.count = (int32_t)cli_int(c, "count"),
                                  .prune = cli_has(c, "prune"),
                                  .dry_run = cli_has(c, "dry-run")};
    ef_partition_sync_result done = {0};
    ef_status st = cli_partition_sync(c, &change, &done, err);

    if (st != EF_OK)
        return st;
    if (c->format == CLI_TABLE)
        print_sync_text(c, &change, &done);
    else
        print_sync_json(c, &change, &done);
    return EF_OK;
}

const cli_command cli_cmd_partition_sync = {
    .name = "partition sync",
    .summary = "change the number of partitions",
    .options = CLI_OPTIONS(
        CLI_INT("count", "N", 1, EF_PARTITIONS_MAX, 0, "number of partitions (default: unchanged)"),
        CLI_FLAG("prune", "remove free leases beyond the count"),
        CLI_FLAG("dry-run", "report the changes without making them")),
    .more =
        "Workers and writers adopt the new count while they run. The count can be raised at any\n"
        "time: queued rows stay where they are. Lowering it is refused while rows are queued in\n"
        "a partition that would be removed; wait until they are applied. More partitions let\n"
        "more workers share the work; with fewer partitions than workers, some workers stay\n"
        "idle.",
    .example = "everfold partition sync --count 32",
    .stores = CLI_JOURNAL,
    .call = sync_partitions,
};
