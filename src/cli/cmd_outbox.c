/*
 * cmd_outbox.c - everfold outbox report, requeue, skip, replay, requeue-dead and skip-dead
 *
 * The report covers all tenants unless --tenant is given, so that no dead row is overlooked.
 */
#include "calls.h"

#include "../base/limits.h"

/* Options of an operation on many dead rows. */
#define CLI_BULK_OPTIONS(reason_text, ...)                                                         \
    CLI_TEXT("lane", "LANE", __VA_ARGS__),                                                         \
        CLI_TEXT("stream", "STREAM", "only rows of this stream of --tenant"),                      \
        CLI_TEXT("types", "LIST", "only rows of these types: comma-separated NAME or PREFIX*"),    \
        CLI_TEXT("error", "TEXT", "only rows whose last error contains this text"),                \
        CLI_DURATION("older", "TIME", 0, "only rows enqueued longer ago than this: 10m"),          \
        CLI_INT("limit", "N", 1, INT64_MAX, 100, "at most N rows, oldest first (default 100)"),    \
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
    ef__buf_add_text(out, "  ");
    cli_add_name(c, row->tenant, row->stream);
    ef__buf_printf(out, " seq %" PRId64 "  position %" PRId64 "  ", row->seq, row->position);
    cli_escape(out, row->event_type);
    ef__buf_printf(out, "  attempts %d", (int)row->attempt_count);
    add_time(out, "next", row->next_attempt_us);
    add_time(out, "since", row->enqueued_us);
    add_time(out, "published", row->published_us);
    ef__buf_add_text(out, row->blocked ? "  blocked\n" : row->skip ? "  skipped\n" : "\n");
    if (row->last_error.len > 0)
        cli_line(c, 0, "    ", row->last_error);
}

/* {"mode":"outbox-requeue",COUNT_KEY:N,"rows":[…]}, or a line and the rows. */
static void print_acted(cli *c, const char *count_key, int64_t count, const ef_row_list *rows)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    char mode[32];

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out, "%s %" PRId64 "\n", count_key, count);
        for (size_t i = 0; i < rows->count; i++)
            print_row(c, &rows->items[i]);
        return;
    }
    (void)snprintf(mode, sizeof mode, "outbox-%s", cli_command_verb(c->command, "outbox"));
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "mode", mode);
    ef__json_member_int(&w, count_key, count);
    ef__json_key(&w, "rows");
    ef__shape_write_array(&w, &ef__shape_row, NULL, rows->items, rows->count);
    cli_object_end(c, &w);
}

/* Rows enqueued before this time; 0: all. */
static int64_t enqueued_before(const cli *c)
{
    int64_t older_ms = cli_int(c, "older");

    return older_ms > 0 ? cli_wall_us() - older_ms * 1000 : 0;
}

static ef_outbox_bulk read_bulk(const cli *c)
{
    return (ef_outbox_bulk){.lane = ef_str_from(cli_value(c, "lane")),
                            .tenant = cli_tenant(c),
                            .one_tenant = cli_tenant_given(c),
                            .stream = ef_str_from(cli_value(c, "stream")),
                            .types = ef_str_from(cli_value(c, "types")),
                            .error = ef_str_from(cli_value(c, "error")),
                            .before_us = enqueued_before(c),
                            .limit = cli_has(c, "all") ? 0 : cli_int(c, "limit"),
                            .dry_run = cli_has(c, "dry-run"),
                            .actor = cli_actor(c),
                            .reason = cli_reason(c)};
}

static ef_status check_bulk(cli *c, ef_error *err)
{
    return cli_has(c, "all") && cli_value(c, "limit")
               ? cli_refuse(c, err, "--all and --limit cannot be combined")
               : EF_OK;
}

/* As print_acted, with hints about a dry run and rows that are not listed. */
static void print_bulk(cli *c, const char *key, const ef_outbox_bulk *bulk, int64_t count,
                       const ef_row_list *rows)
{
    if (bulk->dry_run)
        cli_say(c, "dry run: nothing was changed");
    print_acted(c, key, count, rows);
    if (c->format == CLI_TABLE && count > (int64_t)rows->count)
        cli_say(c, "only the first %zu rows are listed", rows->count);
    if (bulk->limit && count == bulk->limit)
        cli_say(c, "more rows may match: use --all, or a higher --limit");
}

/* A query, and what it points to. */
typedef struct report {
    ef_outbox_query query;
    ef_row_status status;
    int32_t partition;
} report;

/* Reads the filters. --stream names a stream of --tenant. */
static ef_status read_report(const cli *c, report *r, ef_error *err)
{
    const char *label = cli_value(c, "partition");
    int status = ef_name_find(EF_NAMES_ROW_STATUS, ef_str_from(cli_value(c, "status")));

    *r = (report){.query = {.lane = ef_str_from(cli_value(c, "lane")),
                            .tenant = cli_tenant(c),
                            .any_tenant = !cli_tenant_given(c) && !cli_value(c, "stream"),
                            .stream = ef_str_from(cli_value(c, "stream")),
                            .types = ef_str_from(cli_value(c, "types")),
                            .error = ef_str_from(cli_value(c, "error")),
                            .before_us = enqueued_before(c),
                            .partition = label ? &r->partition : NULL,
                            .after = ef_str_from(cli_value(c, "after"))}};
    r->query.blocked_only = cli_has(c, "status") && status < 0; /* blocked rows are pending */
    r->status = status < 0 ? EF_ROW_PENDING : (ef_row_status)status;
    r->query.status = status < 0 ? NULL : &r->status;
    return label ? ef_partition_parse(ef_str_from(label), &r->partition, err) : EF_OK;
}

static void write_summary(cli *c, ef__json_writer *w, const ef_outbox_summary *s)
{
    const ef_row *oldest = s->oldest.count > 0 ? &s->oldest.items[0] : NULL;

    if (c->format == CLI_TABLE) {
        cli_print_members(c, &ef__shape_summary, s, "  ");
        ef__buf_add_text(&c->out, "\noldest: ");
        if (oldest)
            print_row(c, oldest);
        else
            ef__buf_add_text(&c->out, "none\n");
        return;
    }
    ef__json_open(w, '{');
    ef__json_member_str(w, "mode", EF_STR("outbox"));
    ef__json_key(w, "summary");
    ef__summary_write(w, s, false);
    ef__json_member_open(w, "rows", '[');
}

/* The summary is printed after the first page was read, so that an invalid cursor is refused before
 * any output. `next` receives the cursor of the next page, "" after the last row. */
static ef_status write_rows(cli *c, ef__json_writer *w, const ef_outbox_summary *summary,
                            ef_outbox_query *query, int64_t limit, char next[EF_CURSOR_MAX],
                            ef_error *err)
{
    EF__AUTO(ef_row_list) rows = {0};
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
    ef__json_member_name(w, "next", ef_str_from(next));
    cli_object_end(c, w);
}

static const cli_listing group_listing = {
    .shape = &ef__shape_row_group,
    .columns = CLI_COLUMNS(CLI_COLUMN("ROWS", "rows"), CLI_COLUMN("LANE", "lane"),
                           CLI_COLUMN("OLDEST", "oldest"), CLI_COLUMN("STREAM", "stream"),
                           CLI_COLUMN("SEQ", "seq"), CLI_COLUMN("ERROR", "error")),
};

static void print_groups(cli *c, const report *r, const ef_row_groups *groups)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format != CLI_TABLE) {
        ef__groups_write(&w, groups);
        ef__buf_add_char(&c->out, '\n');
        return;
    }
    if (groups->count == 0)
        cli_say(c, "no %s rows", ef_name_of(EF_NAMES_ROW_STATUS, r->status));
    else
        cli_print_list(c, &group_listing, groups->items, groups->count);
    if (groups->more)
        cli_say(c, "more groups follow, which are not listed");
}

/* Counts rows by lane and error: dead rows, or those of --status. */
static ef_status report_groups(cli *c, report *r, ef_error *err)
{
    EF__AUTO(ef_row_groups) groups = {0};
    ef_status st;

    if (!r->query.status && !r->query.blocked_only) {
        r->status = EF_ROW_DEAD;
        r->query.status = &r->status;
    }
    st = cli_outbox_group(c, &r->query, &groups, err);
    if (st == EF_OK)
        print_groups(c, r, &groups);
    return st;
}

static ef_status report_rows(cli *c, report *r, ef_error *err)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    EF__AUTO(ef_outbox_summary) summary = {0};
    char next[EF_CURSOR_MAX] = "";
    ef_status st = cli_outbox_summarise(c, &r->query, &summary, err);

    if (st == EF_OK)
        st = write_rows(c, &w, &summary, &r->query, cli_int(c, "limit"), next, err);
    if (st == EF_OK)
        write_end(c, &w, next);
    return st;
}

/* A mistyped lane would look like one without rows. A projection has a lane once it has failed. The
 * lanes are not known to a token of one tenant, nor the projections without a view store: then any
 * lane is accepted. */
static ef_status check_lane(cli *c, ef_str lane, ef_error *err)
{
    EF__AUTO(ef_lane_list) lanes = {0};
    EF__AUTO(ef_projection_list) projections = {0};
    bool known = lane.len == 0 || cli_lane_ls(c, &lanes, NULL) != EF_OK;

    for (size_t i = 0; i < lanes.count; i++)
        known = known || ef_str_equal(lanes.items[i].name, lane);
    if (known || (!c->client && !c->engine && cli_engine_open(c, false, true, NULL) != EF_OK) ||
        cli_projection_ls(c, lane, &projections, NULL) != EF_NOT_FOUND)
        return EF_OK;
    cli_hint(c, "a lane is *, a projection or a publisher: everfold projection ls, publisher ls");
    return ef_fail(err, EF_NOT_FOUND, "there is no lane \"%.*s\"", EF_STR_ARG(lane));
}

static ef_status run_report(cli *c, ef_error *err)
{
    report r;
    ef_status st = read_report(c, &r, err);

    if (st == EF_OK)
        st = cli_need(c, CLI_JOURNAL_READ, err);
    if (st == EF_OK)
        st = check_lane(c, r.query.lane, err);
    if (st != EF_OK)
        return st;
    return cli_value(c, "by") ? report_groups(c, &r, err) : report_rows(c, &r, err);
}

const cli_command cli_cmd_outbox_report = {
    .name = "outbox report",
    .summary = "show the backlog of the outbox: counts by status, and rows",
    .options = CLI_OPTIONS(
        CLI_ONE_OF(
            "status", "STATUS", "pending,processing,failed,dead,blocked,published",
            "only rows with this status: pending, processing, failed, dead, blocked, published"),
        CLI_TEXT("lane", "LANE", "only rows of this lane"),
        CLI_TEXT("stream", "STREAM", "only rows of this stream of --tenant"),
        CLI_TEXT("types", "LIST", "only rows of these types: comma-separated NAME or PREFIX*"),
        CLI_TEXT("partition", "PARTITION", "only rows of this partition: p07"),
        CLI_TEXT("error", "TEXT", "only rows whose last error contains this text"),
        CLI_DURATION("older", "TIME", 0, "only rows enqueued longer ago than this: 10m"),
        CLI_ONE_OF("by", "WHAT", "error",
                   "error: count rows by lane and error (default: dead rows)"),
        CLI_INT("limit", "N", 1, INT64_MAX, 50, "at most N rows (default 50)"),
        CLI_TEXT("after", "CURSOR", "continue an earlier report after its cursor")),
    .more =
        "Covers all tenants unless --tenant is given. A blocked row is pending after a dead row\n"
        "of its stream and is counted under both. The counts depend on lane and tenant only,\n"
        "not on the other filters. Published rows are listed newest first for as long as their\n"
        "publisher retains them (publisher add --retain).",
    .example = "everfold outbox report --status dead -o json",
    .call = run_report,
};

/* Calls `act` with the row that the arguments name, and prints the rows; `key` is their count. */
static ef_status act_on_row(cli *c, cli_stores stores,
                            ef_status (*act)(cli *c, const ef_outbox_action *action,
                                             ef_row_list *out, ef_error *err),
                            const char *key, ef_error *err)
{
    EF__AUTO(ef_row_list) rows = {0};
    ef_outbox_action action = {.tenant = cli_tenant(c),
                               .stream = ef_str_from(c->arguments[0]),
                               .lane = ef_str_from(cli_value(c, "lane")),
                               .actor = cli_actor(c),
                               .reason = cli_reason(c)};
    ef_status st = cli_number_parse("SEQ", c->arguments[1], 1, INT64_MAX, &action.seq, err);

    if (st == EF_OK)
        st = cli_need(c, stores, err);
    if (st == EF_OK)
        st = act(c, &action, &rows, err);
    if (st == EF_OK)
        print_acted(c, key, (int64_t)rows.count, &rows);
    if (c->command == &cli_cmd_outbox_replay) /* a row that is left has failed again */
        c->exit_code = rows.count > 0 ? 1 : 0;
    return st;
}

static ef_status requeue_row(cli *c, ef_error *err)
{
    return act_on_row(c, CLI_JOURNAL, cli_outbox_requeue, "requeued", err);
}

static ef_status skip_row(cli *c, ef_error *err)
{
    return act_on_row(c, CLI_ENGINE, cli_outbox_skip, "skipped", err);
}

static ef_status replay_row(cli *c, ef_error *err)
{
    return act_on_row(c, CLI_ENGINE, cli_outbox_replay, "left", err);
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
    .call = requeue_row,
    .hint = "see: everfold outbox report --status dead",
};

const cli_command cli_cmd_outbox_skip = {
    .name = "outbox skip",
    .summary = "skip an event in a lane, without applying it",
    .options =
        CLI_OPTIONS(CLI_TEXT("lane", "LANE", "lane that skips the event (required)", .needed = ""),
                    CLI_TEXT("reason", "TEXT",
                             "reason (required), recorded in the audit log (everfold audit ls)",
                             .needed = ": it is recorded in the audit log")),
    .arguments = ROW,
    .more = "In the lane of a projection, a skip holds for the versions that are blocked at the\n"
            "event, also after a rebuild, and for no other version.",
    .example = "everfold outbox skip order-1 7 --lane totals --reason 'sent by mistake'",
    .call = skip_row,
    .hint = "see: everfold outbox report",
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
    .call = replay_row,
    .hint = "see: everfold outbox report",
};

/* Requeues, or skips, by the command. */
static ef_status act_on_dead(cli *c, ef_error *err)
{
    EF__AUTO(ef_row_list) rows = {0};
    ef_outbox_bulk bulk = read_bulk(c);
    bool skips = c->command == &cli_cmd_outbox_skip_dead;
    int64_t count = 0;
    ef_status st = cli_need(c,
                            !skips         ? CLI_JOURNAL
                            : bulk.dry_run ? CLI_ENGINE_READ
                                           : CLI_ENGINE,
                            err);

    if (st == EF_OK)
        st = skips ? cli_outbox_skip_dead(c, &bulk, &count, &rows, err)
                   : cli_outbox_requeue_dead(c, &bulk, &count, &rows, err);
    if (st == EF_OK)
        print_bulk(c, skips ? "skipped" : "requeued", &bulk, count, &rows);
    return st;
}

static ef_status check_skip_dead(cli *c, ef_error *err)
{
    if (cli_reason(c).len == 0 && !cli_has(c, "dry-run"))
        return cli_refuse(c, err,
                          "outbox skip-dead needs --reason: it is recorded in the audit log");
    return check_bulk(c, err);
}

const cli_command cli_cmd_outbox_requeue_dead = {
    .name = "outbox requeue-dead",
    .summary = "requeue dead rows, oldest first",
    .options = CLI_OPTIONS(CLI_BULK_OPTIONS("reason, recorded in the audit log (everfold audit ls)",
                                            "only rows of this lane (default: all)")),
    .more = "Covers all tenants unless --tenant is given. Without --all or --limit, at most 100\n"
            "rows are requeued. Rows are changed in transactions of 1000; one audit entry counts\n"
            "all of them. A requeued row has no attempts and is due now.",
    .example = "everfold outbox requeue-dead --lane totals --error 'not a number' --all --dry-run",
    .check = check_bulk,
    .call = act_on_dead,
};

const cli_command cli_cmd_outbox_skip_dead = {
    .name = "outbox skip-dead",
    .summary = "skip dead rows of a lane, oldest first",
    .options = CLI_OPTIONS(
        CLI_BULK_OPTIONS("reason (required), recorded in the audit log (everfold audit ls)",
                         "lane that skips the events (required)", .needed = "")),
    .more = "In the lane of a projection, a skip holds for the versions that are blocked at the\n"
            "event, also after a rebuild, and for no other version. Without --all or --limit, at\n"
            "most 100 rows are skipped. One audit entry counts all of them.",
    .example =
        "everfold outbox skip-dead --lane totals --types 'test.*' --all --reason 'test data'",
    .check = check_skip_dead,
    .call = act_on_dead,
};
