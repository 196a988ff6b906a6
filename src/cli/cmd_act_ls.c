/*
 * cmd_act_ls.c - everfold act ls
 */
#include "commands.h"
#include "front.h"
#include "crew.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX 10000

static void print_json(cli *c, cli_list *list, const ef_act *act)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    cli_list_next(c, list);
    ef__json_open(&w, '{');
    cli_json_field_int(&w, "id", act->id);
    cli_json_field_time(&w, "at", act->at_us);
    cli_json_field_str(&w, "act", act->act);
    cli_json_field_str(&w, "who", act->who);
    cli_json_field_str(&w, "reason", act->reason);
    cli_json_field_str(&w, "lane", act->lane);
    ef__json_key(&w, "tenant");
    ef__json_str(&w, act->tenant);
    cli_json_field_str(&w, "stream", act->stream);
    cli_json_field_int(&w, "seq", act->seq);
    cli_json_field_int(&w, "rows", act->rows);
    ef__json_close(&w, '}');
    (void)cli_list_item_end(c, list);
}

static void add_text(cli_table *table, ef_str text)
{
    cli_table_text(table, text.len > 0 ? text : EF_STR("-"));
}

static void print_table(cli *c, const ef_act_list *acts)
{
    static const char *const heads[] = {"AT",     "ACT", "WHO",  "LANE",  "TENANT",
                                        "STREAM", "SEQ", "ROWS", "REASON"};
    cli_table table = CLI_TABLE_INIT(heads, 9, 3u << 6);

    for (size_t i = 0; i < acts->count; i++) {
        const ef_act *act = &acts->items[i];
        cli_table_time(&table, act->at_us);
        add_text(&table, act->act);
        add_text(&table, act->who);
        add_text(&table, act->lane);
        add_text(&table, act->tenant);
        add_text(&table, act->stream);
        cli_table_int(&table, act->seq);
        cli_table_int(&table, act->rows);
        add_text(&table, act->reason);
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_act_list acts = {0};
    cli_list list = {.lines = c->format == CLI_NDJSON};
    int64_t limit = LIMIT_DEFAULT;
    ef_status st = cli_number(c, "limit", 1, LIMIT_MAX, &limit, &err);
    int rc = st == EF_OK ? cli_journal_need(c, true) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    if (cli_act_ls(c, &(ef_act_query){.limit = (size_t)limit}, &acts, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else if (c->format == CLI_TABLE && acts.count == 0)
        cli_say(c, "nobody has requeued, skipped or switched anything");
    else if (c->format == CLI_TABLE)
        print_table(c, &acts);
    for (size_t i = 0; rc == 0 && c->format != CLI_TABLE && i < acts.count; i++)
        print_json(c, &list, &acts.items[i]);
    if (rc == 0 && c->format != CLI_TABLE)
        cli_list_end(c, &list);
    ef_act_list_release(&acts);
    return rc;
}

static const cli_option options[] = {
    {"limit", 0, "N", NULL, NULL, "at most so many (default 50)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_act_ls = {
    .name = "act ls",
    .summary = "what operators did, who and why",
    .options = options,
    .more =
        "Newest first: requeue, skip, replay, switch, rollback. They are kept for good. An "
        "operation\n"
        "on many rows is one entry, with the number of rows. For a switch or a\n"
        "rollback the lane is the projection, and the seq is the number of the generation that\n"
        "queries went to before.",
    .example = "everfold act ls --limit 10",
    .run = run_ls,
};
