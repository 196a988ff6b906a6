/*
 * cmd_replay.c - everfold replay; gaps detect and repair
 */
#include "calls.h"

#include <inttypes.h>
#include <stdio.h>

#define WARNINGS_DEFAULT 25
#define DATE_LENGTH 10 /* 2026-11-16 */

/* --- options ---------------------------------------------------------------------------------- */

/* Parses a time or a day. A day is its first or last microsecond, because bounds are inclusive. */
static ef_status parse_date(const cli *c, const char *name, bool upper, int64_t *out, ef_error *err)
{
    const char *text = cli_value(c, name);
    char whole[64];

    if (!text)
        return EF_OK;
    (void)snprintf(whole, sizeof whole, "%s%s", text,
                   strlen(text) != DATE_LENGTH ? ""
                   : upper                     ? "T23:59:59.999999Z"
                                               : "T00:00:00Z");
    if (ef_time_parse(whole, strlen(whole), out) != 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "--%s is \"%s\": must be a day (2026-11-16) or an RFC 3339 time", name,
                       text);
    return EF_OK;
}

static ef_status read_bounds(const cli *c, ef_replay *out, ef_error *err)
{
    ef_status st = cli_number(c, "from-position", 1, INT64_MAX, &out->from, err);

    if (st == EF_OK)
        st = cli_number(c, "to-position", 1, INT64_MAX, &out->to, err);
    if (st == EF_OK)
        st = parse_date(c, "from-date", false, &out->from_us, err);
    if (st == EF_OK)
        st = parse_date(c, "to-date", true, &out->to_us, err);
    if (st == EF_OK)
        st = cli_number(c, "after-seq", 0, INT64_MAX, &out->after_seq, err);
    if (st == EF_OK)
        st = cli_number(c, "until-seq", 0, INT64_MAX, &out->until_seq, err);
    return st;
}

static ef_replay replay_from_options(const cli *c)
{
    return (ef_replay){.projection = ef_str_from(cli_value(c, "projection")),
                       .tenant = cli_tenant(c),
                       .any_tenant = !cli_tenant_given(c) && !cli_has(c, "stream"),
                       .stream = ef_str_from(cli_value(c, "stream")),
                       .type = ef_str_from(cli_value(c, "type")),
                       .actor = cli_actor(c),
                       .reason = cli_reason(c)};
}

/* --- dry run ---------------------------------------------------------------------------------- */

typedef struct looking {
    cli *c;
    int64_t cap, failed;
    ef__json_writer writer;
} looking;

static void print_warning(void *context, ef_str projection, const ef_event *event, ef_str message)
{
    looking *l = context;

    if (l->failed++ >= l->cap && l->cap > 0)
        return;
    if (l->c->format == CLI_TABLE) {
        cli_escape(&l->c->out, projection);
        ef__buf_add_text(&l->c->out, "  ");
        cli_escape(&l->c->out, event->stream);
        ef__buf_printf(&l->c->out, " seq %" PRId64 "  position %" PRId64 "\n    ", event->seq,
                       event->position);
        cli_escape(&l->c->out, message);
        ef__buf_add_char(&l->c->out, '\n');
        return;
    }
    ef__replay_warning_write(&l->writer, projection, event, message);
}

static void print_counts(looking *l, const ef_replay_result *r, bool validate)
{
    static const char *const keys[] = {"events", "applied", "ignored", "failed", "deferred"};
    const int64_t counts[] = {r->events, r->applied, r->ignored, r->failed, r->deferred};
    size_t count = validate ? 5 : 1;

    if (l->c->format == CLI_TABLE) {
        for (size_t i = 0; i < count; i++)
            ef__buf_printf(&l->c->out, "%s%s %" PRId64, i ? ", " : "", keys[i], counts[i]);
        ef__buf_add_char(&l->c->out, '\n');
        return;
    }
    if (validate)
        ef__json_close(&l->writer, ']');
    for (size_t i = 0; i < count; i++) {
        ef__json_member_int(&l->writer, keys[i], counts[i]);
    }
    ef__json_close(&l->writer, '}');
    ef__buf_add_char(&l->c->out, '\n');
}

static int preview_replay(cli *c, const ef_replay *replay, bool validate)
{
    ef_error err = EF_ERROR_INIT;
    looking l = {.c = c, .cap = WARNINGS_DEFAULT, .writer = EF__JSON_WRITER(&c->out)};
    ef_replay_result r;
    int rc;

    if (cli_number(c, "warnings-cap", 0, INT64_MAX, &l.cap, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    rc = cli_engine_need(c, true);
    if (rc != 0)
        return rc;
    if (c->format != CLI_TABLE) {
        ef__json_open(&l.writer, '{');
        ef__json_member_str(&l.writer, "mode", validate ? EF_STR("validate") : EF_STR("dry-run"));
    }
    if (c->format != CLI_TABLE && validate) {
        ef__json_member_open(&l.writer, "warnings", '[');
    }
    if (cli_replay_preview(c, replay, validate, print_warning, &l, &r, &err) != EF_OK) {
        ef__buf_reset(&c->out);
        return cli_fail(c, &err, NULL);
    }
    print_counts(&l, &r, validate);
    return r.failed ? 1 : 0;
}

/* --- run -------------------------------------------------------------------------------------- */

static int finish_replay(cli *c, ef_run_list *runs)
{
    ef_error err = EF_ERROR_INIT;
    bool background = cli_has(c, "background");
    ef_replay_result r;
    int rc = background ? 0 : cli_run_drive(c, runs);

    if (c->format != CLI_TABLE || background ||
        ef_run_replay_result(&runs->items[0], &r, &err) != EF_OK)
        cli_print_run(c, &runs->items[0]);
    else
        ef__buf_printf(&c->out,
                       "events %" PRId64 ", applied %" PRId64 ", duplicates %" PRId64
                       ", ignored %" PRId64 ", failed %" PRId64 ", deferred %" PRId64 "\n",
                       r.events, r.applied, r.duplicates, r.ignored, r.failed, r.deferred);
    return rc;
}

static int replay_now(cli *c, const ef_replay *replay)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    int rc = cli_engine_need(c, false);

    if (rc != 0)
        return rc;
    if (cli_replay_request(c, replay, &runs, &err) != EF_OK)
        rc = cli_fail(c, &err, cli_projection_hint(err.status));
    else
        rc = finish_replay(c, &runs);
    EF_RELEASE(&runs);
    return rc;
}

static int run_replay(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_replay replay = replay_from_options(c);

    if (read_bounds(c, &replay, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (cli_has(c, "validate") || cli_has(c, "dry-run"))
        return preview_replay(c, &replay, cli_has(c, "validate"));
    return replay_now(c, &replay);
}

static const cli_option options[] = {
    {"projection", 0, "NAME", NULL, NULL, "only to this projection (default: all)"},
    {"stream", 0, "STREAM", NULL, NULL, "only events of this stream"},
    {"type", 0, "TYPE", NULL, NULL, "only events of this type, or PREFIX*"},
    {"from-position", 0, "A", NULL, NULL, "from this position"},
    {"to-position", 0, "B", NULL, NULL, "up to this position"},
    {"from-date", 0, "WHEN", NULL, NULL, "events from this time: a day, or an RFC 3339 time"},
    {"to-date", 0, "WHEN", NULL, NULL, "events up to this time"},
    {"after-seq", 0, "N", NULL, NULL, "with --stream: after this seq"},
    {"until-seq", 0, "N", NULL, NULL, "with --stream: up to this seq (0: end of the stream)"},
    {"dry-run", 0, NULL, NULL, NULL, "count the events only"},
    {"validate", 0, NULL, NULL, NULL, "fold in memory only and list the events that fail"},
    {"warnings-cap", 0, "N", NULL, NULL,
     "with --validate: list at most N events (default 25, 0: all)"},
    {"background", 0, NULL, NULL, NULL, "queue the run for a worker"},
    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded with the run"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_replay = {
    .name = "replay",
    .summary = "deliver events to projections again; those that were applied have no effect",
    .options = options,
    .more =
        "An event that a projection has applied is a duplicate and changes nothing; a missing\n"
        "event is applied in the order of its stream; an event that fails becomes a retry row\n"
        "in the lane of the projection. Nothing is published. Bounds are inclusive, except\n"
        "--after-seq. Without --tenant and --stream, the events of all tenants are replayed. To\n"
        "rebuild a projection from scratch: everfold projection rebuild. --validate keeps the\n"
        "views in memory; its exit code is 1 if an event fails.",
    .example = "everfold replay --projection customer_orders --from-position 1000 --dry-run",
    .run = run_replay,
};

/* --- gaps --- */

static void table_gaps(cli *c, const ef_gap_list *gaps)
{
    static const char *const heads[] = {"PROJECTION", "TENANT",  "STREAM",  "APPLIED",
                                        "EXPECTED",   "JOURNAL", "REPLAYED"};
    cli_table table = CLI_TABLE_INIT(heads, 7, 0x78);

    for (size_t i = 0; i < gaps->count; i++) {
        cli_table_text(&table, gaps->items[i].projection);
        cli_table_text(&table, gaps->items[i].tenant);
        cli_table_text(&table, gaps->items[i].stream);
        cli_table_int(&table, gaps->items[i].applied_seq);
        cli_table_int(&table, gaps->items[i].expected_next_seq);
        cli_table_int(&table, gaps->items[i].journal_seq);
        cli_table_int(&table, gaps->items[i].replayed);
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

/* `mode` is "gap-detect" or "gap-repair". */
static void print_gaps(cli *c, const char *mode, const ef_gap_list *gaps)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        if (gaps->count)
            table_gaps(c, gaps);
        else
            cli_say(c, "no gaps");
        return;
    }
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "mode", mode);
    ef__json_member_open(&w, "gaps", '[');
    for (size_t i = 0; i < gaps->count; i++) {
        ef__shape_write(&w, &ef__shape_gap, &gaps->items[i]);
        (void)cli_flush_some(c);
    }
    ef__json_close(&w, ']');
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

/* Counts the events that are still missing after the repair. */
static int64_t count_missing(const ef_gap_list *gaps)
{
    int64_t left = 0;

    for (size_t i = 0; i < gaps->count; i++) {
        const ef_gap *gap = &gaps->items[i];
        int64_t missing = gap->journal_seq - gap->applied_seq - gap->replayed;
        left += missing < 0 ? -missing : missing;
    }
    return left;
}

static int run_repair(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_gap_list gaps = {0};
    int rc = cli_engine_need(c, false);

    if (rc != 0)
        return rc;
    if (cli_gap_repair(c, cli_reason(c), &gaps, &err) != EF_OK ||
        cli_note(c, "gap_repair", EF_STR(""), &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else {
        print_gaps(c, "gap-repair", &gaps);
        if (count_missing(&gaps)) {
            cli_warn(c, "everfold: %" PRId64 " event%s still missing; see: everfold outbox report",
                     count_missing(&gaps), count_missing(&gaps) == 1 ? " is" : "s are");
            rc = 1;
        }
    }
    EF_RELEASE(&gaps);
    return rc;
}

static int run_detect(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_gap_list gaps = {0};
    int rc = cli_engine_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_gap_ls(c, &gaps, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else {
        print_gaps(c, "gap-detect", &gaps);
        if (gaps.count)
            cli_say(c, "repair them: everfold gaps repair");
    }
    EF_RELEASE(&gaps);
    return rc;
}

const cli_command cli_cmd_gaps_detect = {
    .name = "gaps detect",
    .summary = "find events that a projection misses and that no queued or retry row will bring",
    .more =
        "Compares the watermark of every stream in every live projection with the journal.\n"
        "Events that are queued, or blocked by a failed event, are late and not gaps. A worker\n"
        "detects gaps when it starts.",
    .example = "everfold gaps detect -o json",
    .run = run_detect,
};

const cli_command cli_cmd_gaps_repair = {
    .name = "gaps repair",
    .summary = "apply the events that projections miss",
    .options = CLI_OPTIONS(CLI_REASON),
    .more =
        "Each missing event becomes a row in the lane of its projection and is applied from\n"
        "there, in order and exactly once. The exit code is 1 if events are still missing: one\n"
        "of them fails, or another worker holds the partition and will apply them.",
    .example = "everfold gaps repair",
    .run = run_repair,
};
