/*
 * cmd_replay.c - everfold replay; gaps detect and repair
 */
#include "calls.h"

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

static ef_replay replay_from_options(const cli *c)
{
    return (ef_replay){.projection = ef_str_from(cli_value(c, "projection")),
                       .tenant = cli_tenant(c),
                       .any_tenant = !cli_tenant_given(c) && !cli_has(c, "stream"),
                       .stream = ef_str_from(cli_value(c, "stream")),
                       .type = ef_str_from(cli_value(c, "type")),
                       .from = cli_int(c, "from-position"),
                       .to = cli_int(c, "to-position"),
                       .after_seq = cli_int(c, "after-seq"),
                       .until_seq = cli_int(c, "until-seq"),
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
        cli_line(l->c, 0, "", message);
        return;
    }
    ef__replay_warning_write(&l->writer, projection, event, message);
}

static void print_counts(looking *l, const ef_replay_result *r, bool validate)
{
    ef__shape counts = ef__shape_replay_result;

    counts.count = validate ? counts.count : 1; /* only the events */
    if (l->c->format == CLI_TABLE) {
        cli_print_members(l->c, &counts, r, ", ");
        ef__buf_add_char(&l->c->out, '\n');
        return;
    }
    if (validate)
        ef__json_close(&l->writer, ']');
    ef__shape_members(&l->writer, &counts, r);
    cli_object_end(l->c, &l->writer);
}

static ef_status preview_replay(cli *c, const ef_replay *replay, bool validate, ef_error *err)
{
    looking l = {.c = c, .cap = cli_int(c, "warnings-cap"), .writer = EF__JSON_WRITER(&c->out)};
    ef_replay_result r;
    ef_status st = cli_need(c, CLI_ENGINE_READ, err);

    if (st != EF_OK)
        return st;
    if (c->format != CLI_TABLE) {
        ef__json_open(&l.writer, '{');
        ef__json_member_text(&l.writer, "mode", validate ? "validate" : "dry-run");
    }
    if (c->format != CLI_TABLE && validate)
        ef__json_member_open(&l.writer, "warnings", '[');
    st = cli_replay_dry_run(c, replay, validate, print_warning, &l, &r, err);
    if (st != EF_OK) {
        ef__buf_reset(&c->out);
        return st;
    }
    print_counts(&l, &r, validate);
    c->exit_code = r.failed ? 1 : 0;
    return EF_OK;
}

/* --- run -------------------------------------------------------------------------------------- */

static ef_status finish_replay(cli *c, ef_run_list *runs, ef_error *err)
{
    bool background = cli_has(c, "background");
    ef_replay_result r;
    ef_status st = background ? EF_OK : cli_run_follow(c, runs, true, err);

    if (c->format != CLI_TABLE || background ||
        ef_run_replay_result(&runs->items[0], &r, NULL) != EF_OK)
        cli_print_run(c, &runs->items[0]);
    else
        ef__buf_printf(&c->out,
                       "events %" PRId64 ", applied %" PRId64 ", duplicates %" PRId64
                       ", ignored %" PRId64 ", failed %" PRId64 ", deferred %" PRId64 "\n",
                       r.events, r.applied, r.duplicates, r.ignored, r.failed, r.deferred);
    return st;
}

static ef_status replay_events(cli *c, ef_error *err)
{
    EF__AUTO(ef_run_list) runs = {0};
    ef_replay replay = replay_from_options(c);
    ef_status st = parse_date(c, "from-date", false, &replay.from_us, err);

    if (st == EF_OK)
        st = parse_date(c, "to-date", true, &replay.to_us, err);
    if (st != EF_OK)
        return st;
    if (cli_has(c, "validate") || cli_has(c, "dry-run"))
        return preview_replay(c, &replay, cli_has(c, "validate"), err);
    st = cli_need(c, CLI_ENGINE, err);
    if (st == EF_OK)
        st = cli_replay_request(c, &replay, &runs, err);
    return st == EF_OK ? finish_replay(c, &runs, err) : st;
}

const cli_command cli_cmd_replay = {
    .name = "replay",
    .summary = "deliver events to projections again; those that were applied have no effect",
    .options = CLI_OPTIONS(
        CLI_TEXT("projection", "NAME", "only to this projection (default: all)"),
        CLI_TEXT("stream", "STREAM", "only events of this stream"),
        CLI_TEXT("type", "TYPE", "only events of this type, or PREFIX*"),
        CLI_INT("from-position", "A", 1, INT64_MAX, 0, "from this position"),
        CLI_INT("to-position", "B", 1, INT64_MAX, 0, "up to this position"),
        CLI_TEXT("from-date", "WHEN", "events from this time: a day, or an RFC 3339 time"),
        CLI_TEXT("to-date", "WHEN", "events up to this time"),
        CLI_INT("after-seq", "N", 0, INT64_MAX, 0, "with --stream: after this seq"),
        CLI_INT("until-seq", "N", 0, INT64_MAX, 0,
                "with --stream: up to this seq (0: end of the stream)"),
        CLI_FLAG("dry-run", "count the events only"),
        CLI_FLAG("validate", "fold in memory only and list the events that fail"),
        CLI_INT("warnings-cap", "N", 0, INT64_MAX, 25,
                "with --validate: list at most N events (default 25, 0: all)"),
        CLI_FLAG("background", "queue the run for a worker"),
        CLI_TEXT("reason", "TEXT", "reason, recorded with the run")),
    .more =
        "An event that a projection has applied is a duplicate and changes nothing; a missing\n"
        "event is applied in the order of its stream; an event that fails becomes a retry row\n"
        "in the lane of the projection. Nothing is published. Bounds are inclusive, except\n"
        "--after-seq. Without --tenant and --stream, the events of all tenants are replayed. To\n"
        "rebuild a projection from scratch: everfold projection rebuild. --validate keeps the\n"
        "views in memory; its exit code is 1 if an event fails.",
    .example = "everfold replay --projection customer_orders --from-position 1000 --dry-run",
    .call = replay_events,
    .hints = CLI_PROJECTION_HINTS,
};

/* --- gaps --- */

static const cli_listing gap_listing = {
    .shape = &ef__shape_gap,
    .columns =
        CLI_COLUMNS(CLI_COLUMN("PROJECTION", "projection"), CLI_COLUMN("TENANT", "tenant"),
                    CLI_COLUMN("STREAM", "stream"), CLI_COLUMN("APPLIED", "applied_seq"),
                    CLI_COLUMN("EXPECTED", "expected_next_seq"),
                    CLI_COLUMN("JOURNAL", "journal_seq"), CLI_COLUMN("REPLAYED", "replayed")),
    .empty = "no gaps",
};

/* `mode` is "gap-detect" or "gap-repair". */
static void print_gaps(cli *c, const char *mode, const ef_gap_list *gaps)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        cli_print_list(c, &gap_listing, gaps->items, gaps->count);
        return;
    }
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "mode", mode);
    ef__json_key(&w, "gaps");
    ef__shape_write_array(&w, &ef__shape_gap, NULL, gaps->items, gaps->count);
    cli_object_end(c, &w);
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

static ef_status repair_gaps(cli *c, ef_error *err)
{
    EF__AUTO(ef_gap_list) gaps = {0};
    ef_status st = cli_gap_ls(c, true, cli_reason(c), &gaps, err);
    int64_t missing = count_missing(&gaps);

    if (st == EF_OK)
        st = cli_note(c, "gap_repair", EF_STR(""), err);
    if (st == EF_OK)
        print_gaps(c, "gap-repair", &gaps);
    if (st == EF_OK && missing) {
        cli_warn(c, "everfold: %" PRId64 " event%s still missing; see: everfold outbox report",
                 missing, missing == 1 ? " is" : "s are");
        c->exit_code = 1;
    }
    return st;
}

static ef_status detect_gaps(cli *c, ef_error *err)
{
    EF__AUTO(ef_gap_list) gaps = {0};
    ef_status st = cli_gap_ls(c, false, (ef_str){0}, &gaps, err);

    if (st == EF_OK)
        print_gaps(c, "gap-detect", &gaps);
    if (st == EF_OK && gaps.count)
        cli_say(c, "repair them: everfold gaps repair");
    return st;
}

const cli_command cli_cmd_gaps_detect = {
    .name = "gaps detect",
    .summary = "find events that a projection misses and that no queued or retry row will bring",
    .more =
        "Compares the watermark of every stream in every live projection with the journal.\n"
        "Events that are queued, or blocked by a failed event, are late and not gaps. A worker\n"
        "detects gaps when it starts.",
    .example = "everfold gaps detect -o json",
    .stores = CLI_ENGINE_READ,
    .call = detect_gaps,
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
    .stores = CLI_ENGINE,
    .call = repair_gaps,
};
