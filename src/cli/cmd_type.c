/*
 * cmd_type.c - everfold type ls, and set TYPE
 */
#include "calls.h"

static const cli_listing listing = {
    .shape = &ef__shape_type,
    .columns = CLI_COLUMNS(CLI_COLUMN("TYPE", "name"), CLI_COLUMN("INTENT", "intent"),
                           CLI_COLUMN("PUBLISH", "publish"), CLI_COLUMN("ALIAS OF", "alias_of")),
    .empty = "no types",
};

static ef_status list_types(cli *c, ef_error *err)
{
    return CLI_PRINT_FOUND(c, ef_type_list, types, &listing, cli_type_ls(c, NULL, &types, err));
}

const cli_command cli_cmd_type_ls = {
    .name = "type ls",
    .summary = "list event types",
    .example = "everfold type ls -o json",
    .stores = CLI_JOURNAL_READ,
    .call = list_types,
};

/* Changes only the fields whose options were given. */
static void change_type(const cli *c, ef_type *type)
{
    if (cli_has(c, "intent"))
        type->intent = (ef_intent)cli_int(c, "intent"); /* the words are in the order of the enum */
    if (cli_has(c, "publish"))
        type->publish = cli_int(c, "publish") == 0;
    if (cli_has(c, "alias-of"))
        type->alias_of = ef_str_from(cli_value(c, "alias-of"));
}

/* --- a pattern -------------------------------------------------------------------------------- */

/* Prints the changed types, with -o json. */
static ef_status change_matching(cli *c, ef_str start, const ef_type_list *types, size_t *out_count,
                                 ef_error *err)
{
    cli_list list = {.lines = c->format == CLI_NDJSON};
    ef_status st = EF_OK;

    *out_count = 0;
    for (size_t i = 0; st == EF_OK && i < types->count; i++) {
        ef_type type = types->items[i];
        if (type.name.len < start.len || memcmp(type.name.ptr, start.ptr, start.len) != 0)
            continue;
        change_type(c, &type);
        st = cli_type_set(c, &type, err);
        *out_count += st == EF_OK;
        if (st == EF_OK && c->format != CLI_TABLE)
            (void)cli_list_item(c, &list, &listing, &type);
    }
    if (st == EF_OK && c->format != CLI_TABLE && *out_count > 0)
        cli_list_end(c, &list);
    return st;
}

/* Changes all existing types that match PREFIX*. */
static ef_status set_matching(cli *c, ef_str pattern, ef_error *err)
{
    ef_str start = {pattern.ptr, pattern.len - 1};
    EF__AUTO(ef_type_list) types = {0};
    size_t count = 0;
    ef_status st;

    if (memchr(start.ptr, '*', start.len))
        return cli_refuse(c, err, "TYPE is '%s': a pattern has a single * at its end", pattern.ptr);
    if (cli_has(c, "alias-of"))
        return cli_refuse(c, err, "--alias-of needs the name of one type, not the pattern '%s'",
                          pattern.ptr);
    st = cli_need(c, CLI_JOURNAL, err);
    if (st == EF_OK)
        st = cli_type_ls(c, NULL, &types, err);
    if (st == EF_OK)
        st = change_matching(c, start, &types, &count, err);
    if (st == EF_OK && count == 0) {
        cli_hint(c, "see: everfold type ls");
        st = ef_fail(err, EF_NOT_FOUND, "no event type matches '%s'", pattern.ptr);
    }
    if (st == EF_OK)
        cli_say(c, "%zu type%s changed; types that are created later are not affected", count,
                cli_plural((int64_t)count));
    return st;
}

static ef_status set_type(cli *c, ef_error *err)
{
    EF__AUTO(ef_type_list) types = {0};
    ef_type type = {.name = ef_str_from(c->arguments[0])};
    ef_str alias_of = ef_str_from(cli_value(c, "alias-of"));
    ef_status st;

    if (type.name.len > 0 && type.name.ptr[type.name.len - 1] == '*')
        return set_matching(c, type.name, err);
    st = cli_need(c, CLI_JOURNAL, err);
    if (st == EF_OK && alias_of.len > 0 && !ef_str_equal(alias_of, type.name))
        st = cli_type_ls(c, &alias_of, &types, err); /* a mistyped name would become a new type */
    if (st == EF_NOT_FOUND)
        cli_hint(c, "create it first: everfold type set %s", alias_of.ptr);
    if (st != EF_OK)
        return st;
    st = cli_type_ls(c, &type.name, &types, err);
    if (st == EF_OK)
        type = types.items[0];
    if (st == EF_OK || st == EF_NOT_FOUND) {
        change_type(c, &type);
        st = cli_type_set(c, &type, err);
    }
    if (st == EF_OK)
        cli_print_item(c, &listing, &type);
    return st;
}

const cli_command cli_cmd_type_set = {
    .name = "type set",
    .summary = "create or change an event type",
    .options = CLI_OPTIONS(
        CLI_ONE_OF("intent", "INTENT", "projection_and_replay,replay_only,audit_only",
                   "projection_and_replay, replay_only or audit_only"),
        CLI_ONE_OF("publish", "YES|NO", "yes,no", "whether publishers forward events of this type"),
        CLI_TEXT("alias-of", "TYPE",
                 "treat events of this name as events of TYPE; '' removes the alias")),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT(
        "TYPE", "type to create or change; PREFIX* changes all existing types that match")),
    .example = "everfold type set order.placed --publish yes",
    .call = set_type,
};
