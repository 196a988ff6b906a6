/*
 * cmd_outbox.c - everfold outbox report, requeue, skip, replay, requeue-dead and skip-dead
 *
 * The report covers all tenants unless --tenant is given, so that no dead row is overlooked.
 */
#include "calls.h"

#include "../base/limits.h"

#include <inttypes.h>

/* Options of an operation on many dead rows. */
#define CLI_BULK_OPTIONS(lane_text, reason_text)                                                   \
    CLI_TEXT("lane", "LANE", lane_text),                                                           \
        CLI_TEXT("stream", "STREAM", "only rows of this stream of --tenant"),                      \
        CLI_TEXT("types", "LIST", "only rows of these types: comma-separated NAME or PREFIX*"),    \
        CLI_TEXT("error", "TEXT", "only rows whose last error contains this text"),                \
        CLI_TEXT("older", "TIME", "only rows enqueued longer ago than this: 10m"),                 \
        CLI_TEXT("limit", "N", "at most N rows, oldest first (default 100)"),                      \
        CLI_FLAG("all", "all matching rows"),                                                      \
        CLI_FLAG("dry-run", "count and list them without changing anything"),                      \
        CLI_TEXT("reason", "TEXT", reason_text)

static void add_time(ef__buf *out, const char *name, int64_t time_us)
{
    char text[EF_TIME_TEXT_MAX];

    if (time_us == 0)
        return;
    ef_time_format(time_us, text);
    ef__buf_printf(out, "  %s %s", name, text);
}

/* Prints one line per row, and an indented line for its last error. */
static void print_row(cli *c, const ef_row *row)
{
    ef__buf *out = &c->out;
    enum cli_colour colour = row->status == EF_ROW_DEAD     ? CLI_RED
                             : row->status == EF_ROW_FAILED ? CLI_YELLOW
                                                            : CLI_PLAIN;

    ef__buf_printf(out, "%s%-10s%s  lane ", cli_colour(c, colour),
                   ef_name_of(EF_NAMES_ROW_STATUS, row->status), cli_colour(c, CLI_PLAIN));
    cli_escape(out, row->lane);
    if (row->tenant.len > 0) {
        ef__buf_add_text(out, "  tenant ");
        cli_escape(out, row->tenant);
    }
    ef__buf_add_text(out, "  ");
    cli_escape(out, row->stream);
    ef__buf_printf(out, " seq %" PRId64 "  position %" PRId64 "  ", row->seq, row->position);
    cli_escape(out, row->event_type);
    ef__buf_printf(out, "  attempts %d", (int)row->attempt_count);
    add_time(out, "next", row->next_attempt_us);
    add_time(out, "since", row->enqueued_us);
    add_time(out, "published", row->published_us);
    ef__buf_add_text(out, row->blocked ? "  blocked\n" : row->skip ? "  skipped\n" : "\n");
    if (row->last_error.len > 0) {
        ef__buf_add_text(out, "    ");
        cli_escape(out, row->last_error);
        ef__buf_add_char(out, '\n');
    }
}

/* {"mode":MODE,COUNT_KEY:N,"rows":[…]}, or a line and the rows. */
static void print_acted(cli *c, const char *mode, const char *count_key, int64_t count,
                        const ef_row_list *rows)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out, "%s %" PRId64 "\n", count_key, count);
        for (size_t i = 0; i < rows->count; i++)
            print_row(c, &rows->items[i]);
        return;
    }
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "mode", mode);
    ef__json_member_int(&w, count_key, count);
    ef__json_member_open(&w, "rows", '[');
    for (size_t i = 0; i < rows->count; i++) {
        ef__shape_write(&w, &ef__shape_row, &rows->items[i]);
        (void)cli_flush_some(c);
    }
    ef__json_close(&w, ']');
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

/* Reads STREAM, SEQ and the actor: 0, or the exit code. */
static int read_action(cli *c, ef_outbox_action *act)
{
    ef_error err = EF_ERROR_INIT;

    *act = (ef_outbox_action){.tenant = cli_tenant(c),
                              .stream = ef_str_from(c->arguments[0]),
                              .lane = ef_str_from(cli_value(c, "lane")),
                              .actor = cli_actor(c)};
    if (cli_number_parse("SEQ", c->arguments[1], 1, INT64_MAX, &act->seq, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    return 0;
}

/* Reads these options: 0, or the exit code. */
static int read_bulk(cli *c, ef_outbox_bulk *bulk)
{
    ef_error err = EF_ERROR_INIT;
    int64_t older_ms = 0;

    *bulk = (ef_outbox_bulk){.lane = ef_str_from(cli_value(c, "lane")),
                             .tenant = cli_tenant(c),
                             .one_tenant = cli_tenant_given(c),
                             .stream = ef_str_from(cli_value(c, "stream")),
                             .types = ef_str_from(cli_value(c, "types")),
                             .error = ef_str_from(cli_value(c, "error")),
                             .limit = 100,
                             .dry_run = cli_has(c, "dry-run"),
                             .actor = cli_actor(c),
                             .reason = cli_reason(c)};
    if (cli_has(c, "all") && cli_value(c, "limit"))
        return cli_usage(c, "--all and --limit cannot be combined");
    if (cli_number(c, "limit", 1, INT64_MAX, &bulk->limit, &err) != EF_OK ||
        cli_duration(c, "older", &older_ms, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (older_ms > 0)
        bulk->before_us = cli_wall_us() - older_ms * 1000;
    bulk->limit = cli_has(c, "all") ? 0 : bulk->limit;
    return 0;
}

/* As print_acted, with hints about a dry run and rows that are not listed. */
static void print_bulk_rows(cli *c, const char *mode, const char *key, const ef_outbox_bulk *bulk,
                            int64_t count, const ef_row_list *rows)
{
    if (bulk->dry_run)
        cli_say(c, "dry run: nothing was changed");
    print_acted(c, mode, key, count, rows);
    if (c->format == CLI_TABLE && count > (int64_t)rows->count)
        cli_say(c, "only the first %zu rows are listed", rows->count);
    if (bulk->limit && count == bulk->limit)
        cli_say(c, "more rows may match: use --all, or a higher --limit");
}

static ef_status read_status(const cli *c, ef_outbox_query *query, ef_row_status *status,
                             ef_error *err)
{
    const char *text = cli_value(c, "status");
    int found = ef_name_find(EF_NAMES_ROW_STATUS, ef_str_from(text));

    if (!text)
        return EF_OK;
    if (strcmp(text, "blocked") == 0) {
        query->blocked_only = true;
        return EF_OK;
    }
    if (found < 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "--status is '%s': must be pending, processing, failed, dead, blocked "
                       "or published",
                       text);
    *status = (ef_row_status)found;
    query->status = status;
    return EF_OK;
}

/* Reads the filters. --stream names a stream of --tenant. */
static ef_status read_filters(const cli *c, ef_outbox_query *query, int32_t *partition,
                              ef_error *err)
{
    const char *label = cli_value(c, "partition");
    int64_t older_ms = 0;
    ef_status st = cli_duration(c, "older", &older_ms, err);

    query->stream = ef_str_from(cli_value(c, "stream"));
    query->types = ef_str_from(cli_value(c, "types"));
    query->error = ef_str_from(cli_value(c, "error"));
    if (query->stream.len)
        query->any_tenant = false;
    if (older_ms > 0)
        query->before_us = cli_wall_us() - older_ms * 1000;
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
            print_row(c, oldest);
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
                print_row(c, &rows.items[i]);
            else
                ef__shape_write(w, &ef__shape_row, &rows.items[i]);
            go_on = cli_flush_some(c);
        }
        limit -= (int64_t)rows.count;
        memcpy(next, rows.next, EF_CURSOR_MAX);
        query->after = ef_str_from(next);
    } while (st == EF_OK && go_on && limit > 0 && next[0] != '\0');
    EF_RELEASE(&rows);
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
        cli_say(c, "no %s rows", ef_name_of(EF_NAMES_ROW_STATUS, *status));
    else if (c->format == CLI_TABLE)
        write_groups(c, &groups);
    else {
        ef__groups_write(&w, &groups);
        ef__buf_add_char(&c->out, '\n');
    }
    EF_RELEASE(&groups);
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
    int rc = st == EF_OK ? cli_open(c, CLI_JOURNAL_READ) : cli_fail(c, &err, NULL);
    if (rc != 0)
        return rc;
    if (cli_value(c, "by") && strcmp(cli_value(c, "by"), "error") != 0)
        return cli_usage(c, "--by is '%s': must be error", cli_value(c, "by"));
    if (cli_value(c, "by"))
        return report_groups(c, &query, &status);
    st = cli_outbox_summarise(c, &query, &summary, &err);
    if (st == EF_OK)
        st = write_rows(c, &w, &summary, &query, limit, next, &err);
    EF_RELEASE(&summary.oldest);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    write_end(c, &w, next);
    return 0;
}

const cli_command cli_cmd_outbox_report = {
    .name = "outbox report",
    .summary = "show the backlog of the outbox: counts by status, and rows",
    .options = CLI_OPTIONS(
        CLI_WORDS(
            "status", "STATUS", "pending,processing,failed,dead,blocked,published",
            "only rows with this status: pending, processing, failed, dead, blocked, published"),
        CLI_TEXT("lane", "LANE", "only rows of this lane"),
        CLI_TEXT("stream", "STREAM", "only rows of this stream of --tenant"),
        CLI_TEXT("types", "LIST", "only rows of these types: comma-separated NAME or PREFIX*"),
        CLI_TEXT("partition", "PARTITION", "only rows of this partition: p07"),
        CLI_TEXT("error", "TEXT", "only rows whose last error contains this text"),
        CLI_TEXT("older", "TIME", "only rows enqueued longer ago than this: 10m"),
        CLI_WORDS("by", "WHAT", "error",
                  "error: count rows by lane and error (default: dead rows)"),
        CLI_TEXT("limit", "N", "at most N rows (default 50)"),
        CLI_TEXT("after", "CURSOR", "continue an earlier report after its cursor")),
    .more =
        "Covers all tenants unless --tenant is given. A blocked row is pending after a dead row\n"
        "of its stream and is counted under both. The counts depend on lane and tenant only,\n"
        "not on the other filters. Published rows are listed newest first for as long as their\n"
        "publisher retains them (publisher add --retain).",
    .example = "everfold outbox report --status dead -o json",
    .run = run_report,
};

/* Prints the rows of an action that returned `st`, and releases them. */
static int print_rows(cli *c, const char *mode, const char *key, ef_status st, ef_row_list *rows,
                      const ef_error *err, const char *hint)
{
    int rc = 0;

    if (st == EF_OK)
        print_acted(c, mode, key, (int64_t)rows->count, rows);
    else
        rc = cli_fail(c, err, hint);
    EF_RELEASE(rows);
    return rc;
}

static int run_requeue(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_action action;
    ef_status st;
    int rc = read_action(c, &action);

    if (rc == 0)
        rc = cli_open(c, CLI_JOURNAL);
    if (rc != 0)
        return rc;
    if (cli_value(c, "reason"))
        action.reason = cli_reason(c);
    st = cli_outbox_requeue(c, &action, &rows, &err);
    return print_rows(c, "outbox-requeue", "requeued", st, &rows, &err,
                      "see: everfold outbox report --status dead");
}

static int run_skip(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_action action;
    ef_status st;
    const char *reason = cli_value(c, "reason"), *lane = cli_value(c, "lane");
    int rc;

    if (!lane || lane[0] == '\0')
        return cli_usage(c, "outbox skip needs --lane");
    if (!reason || reason[0] == '\0')
        return cli_usage(c, "outbox skip needs --reason: it is recorded in the audit log");
    rc = read_action(c, &action);
    if (rc == 0)
        rc = cli_open(c, CLI_ENGINE);
    if (rc != 0)
        return rc;
    action.reason = ef_str_from(reason);
    st = cli_outbox_skip(c, &action, &rows, &err);
    return print_rows(c, "outbox-skip", "skipped", st, &rows, &err, "see: everfold outbox report");
}

static int run_replay(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_action action;
    ef_status st;
    size_t left;
    int rc = read_action(c, &action);

    if (rc == 0)
        rc = cli_open(c, CLI_ENGINE);
    if (rc != 0)
        return rc;
    st = cli_outbox_replay(c, &action, &rows, &err);
    left = rows.count;
    rc = print_rows(c, "outbox-replay", "left", st, &rows, &err, "see: everfold outbox report");
    return rc == 0 && left > 0 ? 1 : rc;
}

#define ROW                                                                                        \
    CLI_ARGUMENTS(CLI_ARGUMENT("STREAM", "stream of the event"),                                   \
                  CLI_ARGUMENT("SEQ", "seq of the event"))

const cli_command cli_cmd_outbox_requeue = {
    .name = "outbox requeue",
    .summary = "requeue a dead row: attempts 0, due now",
    .options = CLI_OPTIONS(
        CLI_TEXT("lane", "LANE", "only in this lane (default: every lane in which it is dead)"),
        CLI_REASON),
    .arguments = ROW,
    .example = "everfold outbox requeue order-1 7",
    .run = run_requeue,
};

const cli_command cli_cmd_outbox_skip = {
    .name = "outbox skip",
    .summary = "skip an event in a lane, without applying it",
    .options =
        CLI_OPTIONS(CLI_TEXT("lane", "LANE", "lane that skips the event (required)"),
                    CLI_TEXT("reason", "TEXT",
                             "reason (required), recorded in the audit log (everfold audit ls)")),
    .arguments = ROW,
    .more = "In the lane of a projection, a skip holds for the versions that are blocked at the\n"
            "event, also after a rebuild, and for no other version.",
    .example = "everfold outbox skip order-1 7 --lane totals --reason 'sent by mistake'",
    .run = run_skip,
};

const cli_command cli_cmd_outbox_replay = {
    .name = "outbox replay",
    .summary = "retry a failed event now",
    .options = CLI_OPTIONS(
        CLI_TEXT("lane", "LANE", "only in this lane (default: every lane in which it failed)")),
    .arguments = ROW,
    .more =
        "The event is retried under the lease of its partition, before its next attempt is due.\n"
        "The row is printed if it is still there afterwards; nothing is printed if the event\n"
        "was applied. The exit code is 1 if it failed again.",
    .example = "everfold outbox replay order-1 7",
    .run = run_replay,
};

static int print_bulk(cli *c, const char *mode, const char *key, const ef_outbox_bulk *bulk,
                      ef_status st, int64_t count, ef_row_list *rows, const ef_error *err)
{
    int rc = 0;

    if (st == EF_OK)
        print_bulk_rows(c, mode, key, bulk, count, rows);
    else
        rc = cli_fail(c, err, NULL);
    EF_RELEASE(rows);
    return rc;
}

static int run_requeue_dead(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_bulk bulk;
    int64_t count = 0;
    ef_status st;
    int rc = read_bulk(c, &bulk);

    if (rc == 0)
        rc = cli_open(c, CLI_JOURNAL);
    if (rc != 0)
        return rc;
    st = cli_outbox_requeue_dead(c, &bulk, &count, &rows, &err);
    return print_bulk(c, "outbox-requeue-dead", "requeued", &bulk, st, count, &rows, &err);
}

static int run_skip_dead(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_row_list rows = {0};
    ef_outbox_bulk bulk;
    int64_t count = 0;
    ef_status st;
    int rc = read_bulk(c, &bulk);

    if (rc == 0 && bulk.lane.len == 0)
        rc = cli_usage(c, "outbox skip-dead needs --lane");
    if (rc == 0 && bulk.reason.len == 0 && !bulk.dry_run)
        rc = cli_usage(c, "outbox skip-dead needs --reason: it is recorded in the audit log");
    if (rc == 0)
        rc = cli_open(c, bulk.dry_run ? CLI_ENGINE_READ : CLI_ENGINE);
    if (rc != 0)
        return rc;
    st = cli_outbox_skip_dead(c, &bulk, &count, &rows, &err);
    return print_bulk(c, "outbox-skip-dead", "skipped", &bulk, st, count, &rows, &err);
}

const cli_command cli_cmd_outbox_requeue_dead = {
    .name = "outbox requeue-dead",
    .summary = "requeue dead rows, oldest first",
    .options =
        CLI_OPTIONS(CLI_BULK_OPTIONS("only rows of this lane (default: all)",
                                     "reason, recorded in the audit log (everfold audit ls)")),
    .more = "Covers all tenants unless --tenant is given. Without --all or --limit, at most 100\n"
            "rows are requeued. Rows are changed in transactions of 1000; one audit entry counts\n"
            "all of them. A requeued row has no attempts and is due now.",
    .example = "everfold outbox requeue-dead --lane totals --error 'not a number' --all --dry-run",
    .run = run_requeue_dead,
};

const cli_command cli_cmd_outbox_skip_dead = {
    .name = "outbox skip-dead",
    .summary = "skip dead rows of a lane, oldest first",
    .options = CLI_OPTIONS(
        CLI_BULK_OPTIONS("lane that skips the events (required)",
                         "reason (required), recorded in the audit log (everfold audit ls)")),
    .more = "In the lane of a projection, a skip holds for the versions that are blocked at the\n"
            "event, also after a rebuild, and for no other version. Without --all or --limit, at\n"
            "most 100 rows are skipped. One audit entry counts all of them.",
    .example =
        "everfold outbox skip-dead --lane totals --types 'test.*' --all --reason 'test data'",
    .run = run_skip_dead,
};
