/*
 * cmd_type_set.c - everfold type set TYPE
 */
#include "commands.h"
#include "front.h"
#include "type.h"

/* What was not asked for stays as it is. */
static ef_status change_type(const cli *c, ef_type *type, ef_error *err)
{
    const char *intent = cli_value(c, "intent"), *publish = cli_value(c, "publish");

    if (intent && ef_intent_parse(ef_str_from(intent), &type->intent) != 0)
        return ef_fail(
            err, EF_BAD_INPUT,
            "--intent is '%s': projection_and_replay, replay_only or audit_only is needed", intent);
    if (publish && strcmp(publish, "yes") != 0 && strcmp(publish, "no") != 0)
        return ef_fail(err, EF_BAD_INPUT, "--publish is '%s': yes or no is needed", publish);
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
        cli_table_types(c, type, 1);
        return;
    }
    ef__shape_write(&w, &ef__shape_type, type);
    ef__buf_add_char(&c->out, '\n');
}

static int run_set(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_type_list types = {0};
    ef_type type = {.name = ef_str_from(c->arguments[0])};
    ef_status st = change_type(c, &type, &err); /* before the journal is opened: usage first */
    int rc = st == EF_OK ? cli_journal_need(c, false) : cli_fail(c, &err, NULL);

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
    ef_type_list_release(&types);
    return st == EF_OK ? 0 : cli_fail(c, &err, NULL);
}

static const cli_argument arguments[] = {
    {"TYPE", false, false, NULL, "the type to make or change"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"intent", 0, "INTENT", NULL, "projection_and_replay,replay_only,audit_only",
     "projection_and_replay, replay_only or audit_only"},
    {"publish", 0, "YES|NO", NULL, "yes,no", "whether publishers may take it"},
    {"alias-of", 0, "TYPE", NULL, NULL, "events of this name are read as TYPE; '' ends that"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_type_set = {
    .name = "type set",
    .summary = "make an event type or change it",
    .options = options,
    .arguments = arguments,
    .example = "everfold type set order.placed --publish yes",
    .run = run_set,
};
