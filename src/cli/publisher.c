/*
 * publisher.c - see publisher.h.
 */
#include "publisher.h"

#include "workers.h"
#include "calls.h"

#include <inttypes.h>
#include <stdio.h>

static ef_status count_rows(cli *c, ef_str name, ef_outbox_summary *out, int64_t *published,
                            ef_error *err)
{
    ef_outbox_query query = {.lane = name, .any_tenant = true};
    ef_status st = cli_outbox_summarise(c, &query, out, err);

    return st == EF_OK ? cli_published_count(c, name, published, err) : st;
}

static void print_publisher_json(cli *c, cli_list *list, bool one, const ef_publisher *p,
                                 const ef_outbox_summary *rows, int64_t published)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (!one)
        cli_list_next(c, list);
    ef__json_open(&w, '{');
    ef__shape_members(&w, &ef__shape_publisher, p);
    ef__json_member_int(&w, "pending", rows->pending);
    ef__json_member_int(&w, "processing", rows->processing);
    ef__json_member_int(&w, "failed", rows->failed);
    ef__json_member_int(&w, "dead", rows->dead);
    ef__json_member_int(&w, "blocked", rows->blocked);
    ef__json_member_int(&w, "kept", published);
    ef__json_close(&w, '}');
    if (one)
        ef__buf_add_char(&c->out, '\n');
    else
        (void)cli_list_item_end(c, list);
}

static void add_row(cli_table *table, const ef_publisher *p, const ef_outbox_summary *rows,
                    int64_t published)
{
    char kept[32];

    cli_table_text(table, p->name);
    cli_table_text(table, p->url);
    cli_table_text(table, p->types.len ? p->types : EF_STR("*"));
    cli_table_text(table, p->partition_by);
    cli_table_text(table, p->paused ? EF_STR("paused") : EF_STR("running"));
    cli_table_int(table, rows->pending + rows->processing);
    cli_table_int(table, rows->failed);
    cli_table_int(table, rows->dead);
    (void)snprintf(kept, sizeof kept, "%" PRId64 "%s", published,
                   published < EF_PUBLISHED_COUNTED ? "" : "+");
    cli_table_text(table, ef_str_from(kept));
}

int cli_show_publishers(cli *c, const ef_publisher_list *publishers, bool one)
{
    static const char *const heads[] = {"PUBLISHER", "TO",     "TYPES", "BY",  "STATE",
                                        "PENDING",   "FAILED", "DEAD",  "KEPT"};
    cli_table table = CLI_TABLE_INIT(heads, 9, 0xfu << 5);
    cli_list list = {.lines = c->format == CLI_NDJSON};
    ef_error err = EF_ERROR_INIT;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < publishers->count; i++) {
        const ef_publisher *p = &publishers->items[i];
        ef_outbox_summary rows = {0};
        int64_t published = 0;
        st = count_rows(c, p->name, &rows, &published, &err);
        if (st == EF_OK && c->format == CLI_TABLE)
            add_row(&table, p, &rows, published);
        else if (st == EF_OK)
            print_publisher_json(c, &list, one, p, &rows, published);
        ef_row_list_release(&rows.oldest);
    }
    if (st == EF_OK && c->format != CLI_TABLE && !one)
        cli_list_end(c, &list);
    if (st == EF_OK && c->format == CLI_TABLE)
        (void)cli_table_flush(c, &table);
    cli_table_release(&table);
    return st == EF_OK ? 0 : cli_fail(c, &err, NULL);
}

int cli_show_publisher(cli *c, ef_str name)
{
    ef_error err = EF_ERROR_INIT;
    ef_publisher_list list = {0};
    int rc;

    if (cli_publisher_get(c, name, &list, &err) != EF_OK)
        rc = cli_fail(c, &err, "see: everfold publisher ls");
    else
        rc = cli_show_publishers(c, &list, true);
    ef_publisher_list_release(&list);
    return rc;
}
