/*
 * cmd_init.c - everfold init
 */
#include "commands.h"

#include <stdio.h>

static void write_answer(cli *c, const char *data, const ef_store_facts *facts, bool made)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out,
                       made ? "created %s (%d partitions)\n" : "%s exists (%d partitions)\n",
                       c->journal_shown, (int)facts->partitions);
        ef__buf_printf(&c->out, "views are in %s\n", c->views_shown);
        return;
    }
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "data", data);
    ef__json_member_text(&w, "journal", c->journal_shown);
    ef__json_member_text(&w, "journal_id", facts->journal_id);
    ef__json_member_int(&w, "partitions", facts->partitions);
    ef__json_member_bool(&w, "created", made);
    ef__json_member_text(&w, "views", c->views_shown);
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

/* Prints the SQL of the schema, for operators who create it themselves. */
static int print_schema(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_text text = {0};
    ef_status st = ef_stores_schema(c->journal_url, c->views_url, &text, &err);

    if (st == EF_OK && text.len == 0)
        st = ef_fail(
            &err, EF_BAD_INPUT,
            "neither %s nor %s is on a database server: --sql has nothing to print",
            c->journal_shown, c->views_shown);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    ef__buf_add(&c->out, text.ptr, text.len);
    ef_text_release(&text);
    return 0;
}

static int run_init(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_store_facts facts;
    char data[PATH_MAX], hint[PATH_MAX + 128];
    bool made = false;
    ef_status st;

    if (cli_has(c, "sql"))
        return print_schema(c);
    (void)snprintf(data, sizeof(data), "%.*s", EF_STR_ARG(ef__settings_text(c->settings, "data")));
    if (strncmp(c->journal_url, "memory:", 7) == 0)
        cli_say(c, "memory: is not stored: there is nothing to create");
    st = cli_stores_make(c, &made, &err);
    if (st == EF_OK)
        st = cli_init_settings_write(c, &err);
    if (st == EF_OK)
        st = ef_journal_facts(c->journal, &facts, &err);
    if (st != EF_OK)
        return cli_fail(c, &err,
                        st == EF_NOT_FOUND ? NULL : cli_journal_hint(c, st, hint, sizeof(hint)));
    if (!made && cli_has(c, "partitions") &&
        ef__settings_int(c->settings, "outbox.partitions") != facts.partitions)
        cli_warn(
            c,
            "everfold: the existing journal keeps its %d partitions; see: everfold partition sync",
            (int)facts.partitions);
    write_answer(c, data, &facts, made);
    return 0;
}

const cli_command cli_cmd_init = {
    .name = "init",
    .summary = "create the data directory and the stores; idempotent",
    .options =
        CLI_OPTIONS({"partitions", 0, "N", "outbox.partitions", NULL,
                     "partitions of a new journal (default 16)"},
                    {"sql", 0, NULL, NULL, NULL,
                     "print the SQL that creates the stores on a server, and create nothing"}),
    .more = "The stores that --journal and --views name are written to everfold.conf in the data\n"
            "directory, so that later commands find them. A URL with a password is not written;\n"
            "neither is anything if --config names another settings file.",
    .example = "everfold init --data /srv/shop",
    .run = run_init,
    .local = true,
};
