/*
 * cmd_replay.c - everfold replay
 */
#include "commands.h"
#include "front.h"
#include "run.h"

#include <inttypes.h>
#include <stdio.h>

#define WARNINGS_DEFAULT 25
#define DATE_LENGTH 10 /* 2026-11-16 */

/* --- what was asked for ------------------------------------------------------------------------
 */

/* A time, or a day: then its first or last moment, for bounds are inclusive. */
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
                       "--%s is \"%s\": a day (2026-11-16) or an RFC 3339 time is needed", name,
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

static ef_replay replay_of(const cli *c)
{
    return (ef_replay){.projection = ef_str_from(cli_value(c, "projection")),
                       .tenant = cli_tenant(c),
                       .any_tenant = !cli_tenant_given(c) && !cli_has(c, "stream"),
                       .stream = ef_str_from(cli_value(c, "stream")),
                       .type = ef_str_from(cli_value(c, "type")),
                       .who = cli_actor(c),
                       .reason = cli_reason(c)};
}

/* --- looking ---------------------------------------------------------------------------------- */

typedef struct looking {
    cli *c;
    int64_t cap, failed;
    ef__json_writer writer;
} looking;

static void warn(void *context, ef_str projection, const ef_event *event, ef_str message)
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

static void print_counts(looking *l, const ef_replayed *r, bool validate)
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
        ef__json_key(&l->writer, keys[i]);
        ef__json_int(&l->writer, counts[i]);
    }
    ef__json_close(&l->writer, '}');
    ef__buf_add_char(&l->c->out, '\n');
}

static int look(cli *c, const ef_replay *replay, bool validate)
{
    ef_error err = EF_ERROR_INIT;
    looking l = {.c = c, .cap = WARNINGS_DEFAULT, .writer = EF__JSON_WRITER(&c->out)};
    ef_replayed r;
    int rc;

    if (cli_number(c, "warnings-cap", 0, INT64_MAX, &l.cap, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    rc = cli_engine_need(c, true);
    if (rc != 0)
        return rc;
    if (c->format != CLI_TABLE) {
        ef__json_open(&l.writer, '{');
        ef__json_key(&l.writer, "mode");
        ef__json_str(&l.writer, validate ? EF_STR("validate") : EF_STR("dry-run"));
    }
    if (c->format != CLI_TABLE && validate) {
        ef__json_key(&l.writer, "warnings");
        ef__json_open(&l.writer, '[');
    }
    if (cli_replay_look(c, replay, validate, warn, &l, &r, &err) != EF_OK) {
        ef__buf_reset(&c->out);
        return cli_fail(c, &err, NULL);
    }
    print_counts(&l, &r, validate);
    return r.failed ? 1 : 0;
}

/* --- the run ---------------------------------------------------------------------------------- */

static int go_on(cli *c, ef_run_list *runs)
{
    ef_error err = EF_ERROR_INIT;
    bool background = cli_has(c, "background");
    ef_replayed r;
    int rc = background ? 0 : cli_run_drive(c, runs);

    if (c->format != CLI_TABLE || background || ef_run_replayed(&runs->items[0], &r, &err) != EF_OK)
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
        rc = cli_fail(c, &err, err.status == EF_EXISTS ? "see: everfold run ls --open" : NULL);
    else
        rc = go_on(c, &runs);
    ef_run_list_release(&runs);
    return rc;
}

static int run_replay(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_replay replay = replay_of(c);

    if (read_bounds(c, &replay, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (cli_has(c, "validate") || cli_has(c, "dry-run"))
        return look(c, &replay, cli_has(c, "validate"));
    return replay_now(c, &replay);
}

static const cli_option options[] = {
    {"projection", 0, "NAME", NULL, NULL, "only for this one (default: all)"},
    {"stream", 0, "STREAM", NULL, NULL, "only this stream"},
    {"type", 0, "TYPE", NULL, NULL, "only this type, or PREFIX*"},
    {"from-position", 0, "A", NULL, NULL, "from this position on"},
    {"to-position", 0, "B", NULL, NULL, "up to this position"},
    {"from-date", 0, "WHEN", NULL, NULL, "what happened then or later: a day, or an RFC 3339 time"},
    {"to-date", 0, "WHEN", NULL, NULL, "what happened then or earlier"},
    {"after-seq", 0, "N", NULL, NULL, "of the stream: behind this seq"},
    {"until-seq", 0, "N", NULL, NULL, "of the stream: up to this seq (0: its end)"},
    {"dry-run", 0, NULL, NULL, NULL, "only count the events"},
    {"validate", 0, NULL, NULL, NULL, "fold in memory only, and show what fails"},
    {"warnings-cap", 0, "N", NULL, NULL, "how much of it to show (default 25, 0: all)"},
    {"background", 0, NULL, NULL, NULL, "leave it to a worker"},
    {"reason", 0, "TEXT", NULL, NULL, "why; kept with the run"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_replay = {
    .name = "replay",
    .summary = "bring events to projections once more",
    .options = options,
    .more =
        "What a projection has already is a duplicate and changes nothing; what it lacks is\n"
        "applied, in the order of its stream; what fails waits in the projection's own lane.\n"
        "Nothing is published. Bounds are inclusive, save --after-seq. Without --tenant and\n"
        "--stream the events of all tenants are meant. To fold a projection anew from nothing:\n"
        "everfold projection rebuild. --validate holds the views it makes in memory; its exit\n"
        "code is 1 when an event fails.",
    .example = "everfold replay --projection customer_orders --from-position 1000 --dry-run",
    .run = run_replay,
};
