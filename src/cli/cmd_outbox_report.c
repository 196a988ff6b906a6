/*
 * cmd_outbox_report.c - everfold outbox report
 *
 * The report covers all tenants unless --tenant is given, so that no dead row is overlooked.
 */
#include "commands.h"
#include "calls.h"
#include "outbox.h"
#include "../base/limits.h"

#include <inttypes.h>

static ef_status read_status(const cli *c, ef_outbox_query *query, ef_row_status *status,
                             ef_error *err)
{
    const char *text = cli_value(c, "status");

    if (!text)
        return EF_OK;
    if (strcmp(text, "blocked") == 0) {
        query->blocked_only = true;
        return EF_OK;
    }
    if (ef_row_status_parse(ef_str_from(text), status) != 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "--status is '%s': must be pending, processing, failed, dead, blocked "
                       "or published",
                       text);
    query->status = status;
    return EF_OK;
}

/* Reads the filters. --stream names a stream of --tenant. */
static ef_status read_filters(const cli *c, ef_outbox_query *query, int32_t *partition,
                              ef_error *err)
{
    const ef_clock *clock = ef_clock_system();
    const char *label = cli_value(c, "partition");
    int64_t older_ms = 0;
    ef_status st = cli_duration(c, "older", &older_ms, err);

    query->stream = ef_str_from(cli_value(c, "stream"));
    query->types = ef_str_from(cli_value(c, "types"));
    query->error = ef_str_from(cli_value(c, "error"));
    if (query->stream.len)
        query->any_tenant = false;
    if (older_ms > 0)
        query->before_us = clock->wall_us(clock->context) - older_ms * 1000;
    if (st == EF_OK && label) {
        st = ef_partition_parse(ef_str_from(label), partition, err);
        query->partition = partition;
    }
    return st;
}

static void write_summary(cli *c, ef__json_writer *w, const ef_outbox_summary *s)
{
    const ef_row *oldest = s->oldest.count > 0 ? &s->oldest.items[0] : NULL;

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out,
                       "pending %" PRId64 "  processing %" PRId64 "  failed %" PRId64
                       "  dead %" PRId64 "  blocked %" PRId64 "\noldest: ",
                       s->pending, s->processing, s->failed, s->dead, s->blocked);
        if (oldest)
            cli_text_row(c, oldest);
        else
            ef__buf_add_text(&c->out, "none\n");
        return;
    }
    ef__json_open(w, '{');
    ef__json_member_str(w, "mode", EF_STR("outbox"));
    ef__json_key(w, "summary");
    ef__summary_write(w, s);
    ef__json_member_open(w, "rows", '[');
}

/* The summary is printed after the first page was read, so that an invalid cursor is refused before
 * any output. `next` receives the cursor of the next page, "" after the last row. */
static ef_status write_rows(cli *c, ef__json_writer *w, const ef_outbox_summary *summary,
                            ef_outbox_query *query, int64_t limit, char next[EF_CURSOR_MAX],
                            ef_error *err)
{
    ef_row_list rows = {0};
    ef_status st;
    bool go_on = true, begun = false;

    do {
        query->limit = limit < CLI_PAGE_ROWS ? (size_t)limit : CLI_PAGE_ROWS;
        st = cli_outbox_ls(c, query, &rows, err);
        if (st == EF_OK && !begun)
            write_summary(c, w, summary);
        begun = true;
        for (size_t i = 0; st == EF_OK && go_on && i < rows.count; i++) {
            if (c->format == CLI_TABLE)
                cli_text_row(c, &rows.items[i]);
            else
                ef__shape_write(w, &ef__shape_row, &rows.items[i]);
            go_on = cli_flush_some(c);
        }
        limit -= (int64_t)rows.count;
        memcpy(next, rows.next, EF_CURSOR_MAX);
        query->after = ef_str_from(next);
    } while (st == EF_OK && go_on && limit > 0 && next[0] != '\0');
    ef_row_list_release(&rows);
    return st;
}

static void write_end(cli *c, ef__json_writer *w, const char *next)
{
    if (c->format == CLI_TABLE) {
        if (next[0] != '\0')
            cli_say(c, "more rows follow: continue with --after %s", next);
        return;
    }
    ef__json_close(w, ']');
    ef__json_key(w, "next");
    if (next[0] != '\0')
        ef__json_str(w, ef_str_from(next));
    else
        ef__json_null(w);
    ef__json_close(w, '}');
    ef__buf_add_char(&c->out, '\n');
}

static void write_groups(cli *c, const ef_row_groups *groups)
{
    static const char *const heads[] = {"ROWS", "LANE", "OLDEST", "STREAM", "SEQ", "ERROR"};
    cli_table table = CLI_TABLE_INIT(heads, 6, 1u << 0 | 1u << 4);

    for (size_t i = 0; i < groups->count; i++) {
        const ef_row_group *group = &groups->items[i];
        cli_table_int(&table, group->rows);
        cli_table_text(&table, group->lane);
        cli_table_time(&table, group->oldest_us);
        cli_table_text(&table, group->stream);
        cli_table_int(&table, group->seq);
        cli_table_text(&table, group->error);
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
    if (groups->more)
        cli_say(c, "more groups follow, which are not listed");
}

/* Counts rows by lane and error: dead rows, or those of --status. */
static int report_groups(cli *c, ef_outbox_query *query, ef_row_status *status)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    ef_error err = EF_ERROR_INIT;
    ef_row_groups groups = {0};
    int rc = 0;

    if (!query->status && !query->blocked_only) {
        *status = EF_ROW_DEAD;
        query->status = status;
    }
    if (cli_outbox_group(c, query, &groups, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else if (c->format == CLI_TABLE && groups.count == 0)
        cli_say(c, "no %s rows", ef_row_status_name(*status));
    else if (c->format == CLI_TABLE)
        write_groups(c, &groups);
    else {
        ef__groups_write(&w, &groups);
        ef__buf_add_char(&c->out, '\n');
    }
    ef_row_groups_release(&groups);
    return rc;
}

static int run_report(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    ef_outbox_summary summary = {0};
    ef_row_status status = EF_ROW_PENDING;
    char next[EF_CURSOR_MAX] = "";
    int32_t partition = 0;
    int64_t limit = 50;
    ef_outbox_query query = {.lane = ef_str_from(cli_value(c, "lane")),
                             .tenant = cli_tenant(c),
                             .any_tenant = !cli_tenant_given(c),
                             .after = ef_str_from(cli_value(c, "after"))};
    ef_status st = read_status(c, &query, &status, &err);

    if (st == EF_OK)
        st = read_filters(c, &query, &partition, &err);
    if (st == EF_OK)
        st = cli_number(c, "limit", 1, INT64_MAX, &limit, &err);
    int rc = st == EF_OK ? cli_journal_need(c, true) : cli_fail(c, &err, NULL);
    if (rc != 0)
        return rc;
    if (cli_value(c, "by") && strcmp(cli_value(c, "by"), "error") != 0)
        return cli_usage(c, "--by is '%s': must be error", cli_value(c, "by"));
    if (cli_value(c, "by"))
        return report_groups(c, &query, &status);
    st = cli_outbox_summarise(c, &query, &summary, &err);
    if (st == EF_OK)
        st = write_rows(c, &w, &summary, &query, limit, next, &err);
    ef_row_list_release(&summary.oldest);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    write_end(c, &w, next);
    return 0;
}

const cli_command cli_cmd_outbox_report = {
    .name = "outbox report",
    .summary = "show the backlog of the outbox: counts by status, and rows",
    .options = CLI_OPTIONS(
        {"status", 0, "STATUS", NULL, "pending,processing,failed,dead,blocked,published",
         "only rows with this status: pending, processing, failed, dead, blocked, published"},
        {"lane", 0, "LANE", NULL, NULL, "only rows of this lane"},
        {"stream", 0, "STREAM", NULL, NULL, "only rows of this stream of --tenant"},
        {"types", 0, "LIST", NULL, NULL,
         "only rows of these types: comma-separated NAME or PREFIX*"},
        {"partition", 0, "PARTITION", NULL, NULL, "only rows of this partition: p07"},
        {"error", 0, "TEXT", NULL, NULL, "only rows whose last error contains this text"},
        {"older", 0, "TIME", NULL, NULL, "only rows enqueued longer ago than this: 10m"},
        {"by", 0, "WHAT", NULL, "error",
         "error: count rows by lane and error (default: dead rows)"},
        {"limit", 0, "N", NULL, NULL, "at most N rows (default 50)"},
        {"after", 0, "CURSOR", NULL, NULL, "continue an earlier report after its cursor"}),
    .more =
        "Covers all tenants unless --tenant is given. A blocked row is pending after a dead row\n"
        "of its stream and is counted under both. The counts depend on lane and tenant only,\n"
        "not on the other filters. Published rows are listed newest first for as long as their\n"
        "publisher retains them (publisher add --retain).",
    .example = "everfold outbox report --status dead -o json",
    .run = run_report,
};
