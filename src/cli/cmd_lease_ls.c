/*
 * cmd_lease_ls.c - everfold lease ls
 */
#include "commands.h"
#include "calls.h"
#include "workers.h"

static cli_hold hold_of(const ef_lease *lease)
{
    return (cli_hold){lease->holder, lease->until_us, lease->live};
}

static void print_table(cli *c, const ef_lease_list *leases)
{
    static const char *const heads[] = {"KIND", "NAME", "PARTITION", "TTL", "TOKEN", "HOLDER"};
    cli_table table = CLI_TABLE_INIT(heads, 6, 1u << 3 | 1u << 4);

    for (size_t i = 0; i < leases->count; i++) {
        const ef_lease *lease = &leases->items[i];
        cli_hold hold = hold_of(lease);
        char label[EF_PARTITION_LABEL_MAX];
        ef_partition_label(lease->key.partition, label);
        cli_table_text(&table, ef_str_from(ef_lease_kind_name(lease->key.kind)));
        cli_table_text(&table, lease->key.name.len > 0 ? lease->key.name : EF_STR("-"));
        cli_table_text(&table, label[0] ? ef_str_from(label) : EF_STR("-"));
        cli_table_ttl(&table, &hold);
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
        if (strcmp(ef_lease_kind_name(kind), asked) == 0) {
            *room = kind;
            *out = room;
            return EF_OK;
        }
    return ef_fail(err, EF_BAD_INPUT,
                   "--kind is \"%s\": must be partition, publisher, scope, run or sequencer",
                   asked);
}

static int run_ls(cli *c)
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
        print_table(c, &leases);
    ef_lease_list_release(&leases);
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
    .run = run_ls,
};
