/*
 * cmd_type.c - everfold type ls, and set TYPE
 */
#include "calls.h"

/* {"name","intent","publish","alias_of"} */
static void table_types(cli *c, const ef_type *types, size_t count)
{
    static const char *const heads[] = {"TYPE", "INTENT", "PUBLISH", "ALIAS OF"};
    cli_table table = CLI_TABLE_INIT(heads, 4, 0);

    for (size_t i = 0; i < count; i++) {
        cli_table_text(&table, types[i].name);
        cli_table_text(&table, ef_str_from(ef_name_of(EF_NAMES_INTENT, types[i].intent)));
        cli_table_text(&table, types[i].publish ? EF_STR("yes") : EF_STR("no"));
        cli_table_text(&table, types[i].alias_of.len > 0 ? types[i].alias_of : EF_STR("-"));
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_type_list types = {0};
    int rc = cli_journal_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_type_ls(c, &types, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format != CLI_TABLE)
        cli_list_shapes(c, &ef__shape_type, types.items, types.count);
    else if (types.count == 0)
        cli_say(c, "no types");
    else
        table_types(c, types.items, types.count);
    EF_RELEASE(&types);
    return 0;
}

const cli_command cli_cmd_type_ls = {
    .name = "type ls",
    .summary = "list event types",
    .example = "everfold type ls -o json",
    .run = run_ls,
};

/* Changes only the fields whose options were given. */
static ef_status change_type(const cli *c, ef_type *type, ef_error *err)
{
    const char *intent = cli_value(c, "intent"), *publish = cli_value(c, "publish");
    int found = ef_name_find(EF_NAMES_INTENT, ef_str_from(intent));

    if (intent && found < 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "--intent is '%s': must be projection_and_replay, replay_only or audit_only",
                       intent);
    if (intent)
        type->intent = (ef_intent)found;
    if (publish && strcmp(publish, "yes") != 0 && strcmp(publish, "no") != 0)
        return ef_fail(err, EF_BAD_INPUT, "--publish is '%s': must be yes or no", publish);
    if (publish)
        type->publish = strcmp(publish, "yes") == 0;
    if (cli_has(c, "alias-of"))
        type->alias_of = ef_str_from(cli_value(c, "alias-of"));
    return EF_OK;
}

static void write_type(cli *c, const ef_type *type)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        table_types(c, type, 1);
        return;
    }
    ef__shape_write(&w, &ef__shape_type, type);
    ef__buf_add_char(&c->out, '\n');
}

/* --- a pattern -------------------------------------------------------------------------------- */

static bool begins_with(ef_str text, ef_str start)
{
    return text.len >= start.len && memcmp(text.ptr, start.ptr, start.len) == 0;
}

static ef_status change_matching(cli *c, ef_str start, const ef_type_list *types, size_t *out_count,
                                 ef_error *err)
{
    cli_list list = {.lines = c->format == CLI_NDJSON};
    ef_status st = EF_OK;

    *out_count = 0;
    for (size_t i = 0; st == EF_OK && i < types->count; i++) {
        ef_type type = types->items[i];
        ef__json_writer w = EF__JSON_WRITER(&c->out);
        if (!begins_with(type.name, start))
            continue;
        st = change_type(c, &type, err);
        if (st == EF_OK)
            st = cli_type_set(c, &type, err);
        *out_count += st == EF_OK;
        if (st != EF_OK || c->format == CLI_TABLE)
            continue;
        cli_list_next(c, &list);
        ef__shape_write(&w, &ef__shape_type, &type);
        (void)cli_list_item_end(c, &list);
    }
    if (st == EF_OK && c->format != CLI_TABLE && *out_count > 0)
        cli_list_end(c, &list);
    return st;
}

/* Changes all existing types that match PREFIX*. */
static int set_matching(cli *c, ef_str pattern)
{
    ef_error err = EF_ERROR_INIT;
    ef_str start = {pattern.ptr, pattern.len - 1};
    ef_type_list types = {0};
    size_t count = 0;
    ef_status st;
    int rc;

    if (memchr(start.ptr, '*', start.len))
        return cli_usage(c, "TYPE is '%s': a pattern has a single * at its end", c->arguments[0]);
    if (cli_has(c, "alias-of"))
        return cli_usage(c, "--alias-of needs the name of one type, not the pattern '%s'",
                         c->arguments[0]);
    rc = cli_journal_need(c, false);
    if (rc != 0)
        return rc;
    st = cli_type_ls(c, &types, &err);
    if (st == EF_OK)
        st = change_matching(c, start, &types, &count, &err);
    if (st == EF_OK && count == 0)
        st = ef_fail(&err, EF_NOT_FOUND, "no event type matches '%s'", c->arguments[0]);
    EF_RELEASE(&types);
    if (st != EF_OK)
        return cli_fail(c, &err, st == EF_NOT_FOUND ? "see: everfold type ls" : NULL);
    cli_say(c, "%zu type%s changed; types that are created later are not affected", count,
            count == 1 ? "" : "s");
    return 0;
}

static int run_set(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_type_list types = {0};
    ef_type type = {.name = ef_str_from(c->arguments[0])};
    ef_status st = change_type(
        c, &type, &err); /* checked before the journal is opened, so that usage errors come first */
    int rc;

    if (st == EF_OK && type.name.len > 0 && type.name.ptr[type.name.len - 1] == '*')
        return set_matching(c, type.name);
    rc = st == EF_OK ? cli_journal_need(c, false) : cli_fail(c, &err, NULL);
    if (rc != 0)
        return rc;
    st = cli_type_get(c, type.name, &types, &err);
    if (st == EF_OK)
        type = types.items[0];
    if (st == EF_OK || st == EF_NOT_FOUND)
        st = change_type(c, &type, &err);
    if (st == EF_OK)
        st = cli_type_set(c, &type, &err);
    if (st == EF_OK)
        write_type(c, &type);
    EF_RELEASE(&types);
    return st == EF_OK ? 0 : cli_fail(c, &err, NULL);
}

static const cli_option options[] = {
    {"intent", 0, "INTENT", NULL, "projection_and_replay,replay_only,audit_only",
     "projection_and_replay, replay_only or audit_only"},
    {"publish", 0, "YES|NO", NULL, "yes,no", "whether publishers forward events of this type"},
    {"alias-of", 0, "TYPE", NULL, NULL,
     "treat events of this name as events of TYPE; '' removes the alias"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_type_set = {
    .name = "type set",
    .summary = "create or change an event type",
    .options = options,
    .arguments =
        CLI_ARGUMENTS({"TYPE", false, false, NULL,
                       "type to create or change; PREFIX* changes all existing types that match"}),
    .example = "everfold type set order.placed --publish yes",
    .run = run_set,
};
