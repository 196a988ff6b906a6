/*
 * cmd_projection.c - everfold projection ls, show, failures, pause, resume, wait, switch, rollback
 * and retire
 */
#include "calls.h"

/* "12 (3.456 s)": events, and the age of the oldest. */
static void add_events(ef__buf *out, int64_t events, int64_t us)
{
    int64_t ms = us < 0 ? 0 : us / 1000;

    ef__buf_printf(out, "%" PRId64, events > 0 ? events : 0);
    if (events > 0)
        ef__buf_printf(out, " (%" PRId64 ".%03" PRId64 " s)", ms / 1000, ms % 1000);
}

static void add_lag(ef__buf *out, const void *item)
{
    const ef_projection *p = item;

    add_events(out, p->lag_events, p->lag_us);
}

static void add_blocked(ef__buf *out, const void *item)
{
    const ef_projection *p = item;

    add_events(out, p->blocked_events, p->blocked_us);
}

static void write_projection(ef__json_writer *w, const void *item)
{
    ef__projection_write(w, item);
}

const cli_listing cli_projection_listing = {
    .shape = &ef__shape_projection,
    .more = &ef__shape_projection_more,
    .columns = CLI_COLUMNS(CLI_COLUMN("NAME", "name"), CLI_COLUMN("VERSION", "version"),
                           CLI_COLUMN("GENERATION", "generation"), CLI_COLUMN("ACTIVE", "routed"),
                           CLI_COLUMN("STATE", "state"), CLI_COLUMN("POSITION", "position"),
                           CLI_COLUMN("LAG", NULL, .text = add_lag, .right = true),
                           CLI_COLUMN("BLOCKED", NULL, .text = add_blocked, .right = true),
                           CLI_COLUMN("VIEWS", "views"), CLI_COLUMN("FAILURES", "failures"),
                           CLI_COLUMN("QUARANTINED", "quarantined"),
                           CLI_COLUMN("DIGEST", "digest", .none = "")),
    .write = write_projection,
    .empty = "no projections; deploy one: everfold projection deploy FILE",
};

/* Prints a failure: event, attempts and time, then the reason. `indent` precedes each line. */
static void show_failure(cli *c, const ef_failure *f, const char *indent)
{
    char time[EF_TIME_TEXT_MAX];

    ef_time_format(f->open ? f->recorded_us : f->resolved_us, time);
    ef__buf_add_text(&c->out, indent);
    cli_add_name(c, f->tenant, f->stream);
    ef__buf_printf(
        &c->out, " seq %" PRId64 "  position %" PRId64 "  version %d  attempts %d  %s %s\n", f->seq,
        f->position, (int)f->version, (int)f->attempts, f->open ? "since" : "over", time);
    ef__buf_printf(&c->out, "%s    ", indent);
    cli_line(c, 0, "", f->message);
}

void cli_show_scope(cli *c, const ef_scope *s, const char *indent)
{
    char time[EF_TIME_TEXT_MAX];

    ef__buf_add_text(&c->out, indent);
    cli_escape(&c->out, s->name);
    ef__buf_printf(&c->out, "  %.*s  position %" PRId64 "  pending %s%" PRId64,
                   EF_STR_ARG(s->state), s->position, s->pending_more ? "at least " : "",
                   s->pending);
    ef_time_format(s->synced_us, time);
    ef__buf_printf(&c->out, "  synced %s\n", s->synced_us ? time : "never");
    if (s->retries == 0)
        return;
    ef_time_format(s->next_try_us, time);
    ef__buf_printf(&c->out, "%s    retries %" PRId64 ", next %s: ", indent, s->retries, time);
    cli_line(c, 0, "", s->error);
}

ef_status cli_show_projection(cli *c, ef_str name, ef_error *err)
{
    EF__AUTO(ef_projection_list) list = {0};
    ef_status st = cli_projection_ls(c, name, &list, err);

    if (st == EF_OK)
        cli_print_item(c, &cli_projection_listing, &list.items[0]);
    return st;
}

static ef_status list_projections(cli *c, ef_error *err)
{
    return CLI_PRINT_FOUND(c, ef_projection_list, found, &cli_projection_listing,
                           cli_projection_ls(c, EF_STR(""), &found, err));
}

const cli_command cli_cmd_projection_ls = {
    .name = "projection ls",
    .summary = "list projections: state, position, lag, failures",
    .example = "everfold projection ls -o json",
    .stores = CLI_ENGINE_READ,
    .call = list_projections,
};

#define FAILURES_SHOWN 5
#define WIDTH 12 /* of the names of fields */

/* Prints the latest open failures only. */
static ef_status add_failures(cli *c, const ef_projection *p, ef_error *err)
{
    EF__AUTO(ef_failure_list) list = {0};
    ef_status st = EF_OK;

    cli_line_int(c, WIDTH, "failures", p->failures);
    if (p->failures > 0)
        st = cli_projection_failures(
            c, &(ef_failure_query){.projection = p->name, .limit = FAILURES_SHOWN}, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        show_failure(c, &list.items[i], "            ");
    if (st == EF_OK && (size_t)p->failures > list.count)
        cli_line(c, 0, "            all of them: everfold projection failures ", p->name);
    return st;
}

/* Prints the common scope, then the scopes that lag; with --tenant, the scope of that tenant. */
static ef_status add_scopes(cli *c, const ef_projection *p, ef_error *err)
{
    static const char INDENT[] = "            ";
    EF__AUTO(ef_scope_list) one = {0};
    ef_status st = EF_OK;

    if (cli_tenant_given(c))
        st = cli_projection_scope(c, p->name, cli_tenant(c), &one, err);
    if (st == EF_OK && (p->scope_count > 0 || one.count > 0))
        ef__buf_add_text(&c->out, "scopes\n");
    if (one.count > 0)
        cli_show_scope(c, &one.items[0], INDENT);
    for (size_t i = 0; st == EF_OK && one.count == 0 && i < p->scope_count; i++)
        cli_show_scope(c, &p->scopes[i], INDENT);
    return st;
}

static ef_status write_lines(cli *c, const ef_projection *p, ef_error *err)
{
    ef_status st;

    cli_line(c, WIDTH, "name", p->name);
    cli_line_int(c, WIDTH, "version", p->version);
    cli_line_int(c, WIDTH, "generation", p->generation);
    cli_line(c, WIDTH, "order", p->by_log ? EF_STR("log") : EF_STR("stream"));
    cli_line(c, WIDTH, "state", p->state);
    cli_line(c, WIDTH, "on error", p->skips_errors ? EF_STR("skip") : EF_STR("stop"));
    if (p->no_function)
        cli_line(c, WIDTH, "",
                 EF_STR("not available: its C function is not registered in this process"));
    cli_line_int(c, WIDTH, "position", p->position);
    ef__buf_printf(&c->out, "%-*s%" PRId64 " event%s, %.3f s\n", WIDTH, "lag", p->lag_events,
                   cli_plural(p->lag_events), (double)p->lag_us / 1e6);
    if (p->blocked_streams)
        ef__buf_printf(&c->out, "%-*s%" PRId64 " event%s of %" PRId64 " %s%s, %.3f s\n", WIDTH,
                       "blocked", p->blocked_events, cli_plural(p->blocked_events),
                       p->blocked_streams, p->by_log ? "tenant" : "stream",
                       cli_plural(p->blocked_streams), (double)p->blocked_us / 1e6);
    cli_line_int(c, WIDTH, "views", p->views);
    cli_line(c, WIDTH, "digest", ef_str_from(p->digest));
    cli_line_int(c, WIDTH, "unaccounted", p->unaccounted);
    st = add_failures(c, p, err);
    cli_line_int(c, WIDTH, "quarantined", p->quarantined);
    if (st == EF_OK)
        st = add_scopes(c, p, err);
    ef__buf_add_text(&c->out, "program\n");
    cli_escape_lines(&c->out, p->program, "    ");
    return st;
}

/* With --tenant, only the scope of that tenant is written. */
static ef_status write_json(cli *c, const ef_projection *p, ef_error *err)
{
    ef_projection shown = *p;
    EF__AUTO(ef_scope_list) one = {0};
    ef_status st = EF_OK;

    if (cli_tenant_given(c)) {
        st = cli_projection_scope(c, p->name, cli_tenant(c), &one, err);
        shown.scopes = one.items;
        shown.scope_count = one.count;
    }
    if (st == EF_OK)
        cli_print_item(c, &cli_projection_listing, &shown);
    return st;
}

static ef_status show_projection(cli *c, ef_error *err)
{
    EF__AUTO(ef_projection_list) found = {0};
    ef_status st = cli_projection_ls(c, ef_str_from(c->arguments[0]), &found, err);

    if (st == EF_OK)
        st = c->format == CLI_TABLE ? write_lines(c, &found.items[0], err)
                                    : write_json(c, &found.items[0], err);
    return st;
}

const cli_command cli_cmd_projection_show = {
    .name = "projection show",
    .summary = "show a projection: state, lag, latest failures and program",
    .arguments = CLI_NAME("projection"),
    .more =
        "If there are several versions, the active one is shown. A log-ordered projection has\n"
        "scopes, named tenant:projection:partition: * for all tenants without a failure, and\n"
        "one for each tenant that is blocked by an event that failed. --tenant shows the scope\n"
        "of one tenant.",
    .example = "everfold projection show customer_orders",
    .stores = CLI_ENGINE_READ,
    .call = show_projection,
    .hints = CLI_PROJECTION_HINTS,
};

static const cli_listing failure_listing = {.shape = &ef__shape_failure,
                                            .columns = CLI_COLUMNS({.key = NULL})};

static void print_text(cli *c, const ef_failure_list *found)
{
    for (size_t i = 0; i < found->count; i++)
        show_failure(c, &found->items[i], "");
    if (found->count == 0)
        cli_say(c, cli_has(c, "all") ? "no failures" : "no open failures");
}

static ef_status list_failures(cli *c, ef_error *err)
{
    EF__AUTO(ef_failure_list) found = {0};
    ef_str name = ef_str_from(c->arguments[0]);
    ef_failure_query query = {
        .projection = name, .resolved = cli_has(c, "all"), .limit = (size_t)cli_int(c, "limit")};
    ef_status st = cli_projection_failures(c, &query, &found, err);

    if (st == EF_OK && c->format == CLI_TABLE)
        print_text(c, &found);
    else if (st == EF_OK)
        cli_print_list(c, &failure_listing, found.items, found.count);
    return st;
}

const cli_command cli_cmd_projection_failures = {
    .name = "projection failures",
    .summary = "list the events that a projection failed on, newest first",
    .options =
        CLI_OPTIONS(CLI_FLAG("all", "include resolved failures"),
                    CLI_INT("limit", "N", 1, 10000, 100, "at most N failures (default 100)")),
    .arguments = CLI_NAME("projection"),
    .more =
        "A failure is open until its event is applied or skipped. The rows to act on are listed\n"
        "by: everfold outbox report.\n"
        "\n"
        "hash_mismatch: the event differs from the one that was applied under the same seq, for\n"
        "example after an older copy of the journal was restored. The stream stays blocked\n"
        "until you rebuild the projection (projection rebuild) or accept the event (outbox\n"
        "skip). With the right journal restored, requeue it.",
    .example = "everfold projection failures customer_orders --all",
    .stores = CLI_ENGINE_READ,
    .call = list_failures,
    .hints = CLI_PROJECTION_HINTS,
};

/* Pauses, or resumes, by the command. */
static ef_status set_paused(cli *c, ef_error *err)
{
    ef_str name = ef_str_from(c->arguments[0]);
    bool paused = c->command == &cli_cmd_projection_pause;
    ef_status st = cli_projection_pause(c, name, paused, cli_reason(c), err);

    return st == EF_OK ? cli_show_projection(c, name, err) : st;
}

const cli_command cli_cmd_projection_pause = {
    .name = "projection pause",
    .summary = "pause a projection; no event is lost",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "Its events stay queued. To continue: everfold projection resume NAME",
    .example = "everfold projection pause customer_orders",
    .stores = CLI_ENGINE,
    .call = set_paused,
    .hints = CLI_PROJECTION_HINTS,
};

const cli_command cli_cmd_projection_resume = {
    .name = "projection resume",
    .summary = "resume a projection that was paused or has failed",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "It continues where it stopped. Failed scopes are retried at once.",
    .example = "everfold projection resume customer_orders",
    .stores = CLI_ENGINE,
    .call = set_paused,
    .hints = CLI_PROJECTION_HINTS,
};

#define TIMEOUT_MS_DEFAULT 30000
#define POLL_MS_MIN 5
#define POLL_MS_MAX 200

/* Reports a timeout, with the scope of --tenant or the first scope that lags. */
static ef_status report_timeout(cli *c, ef_str name, int64_t reached, int64_t position,
                                ef_error *err)
{
    EF__AUTO(ef_projection_list) found = {0};
    ef_status st = cli_projection_ls(c, name, &found, err);
    const ef_projection *p = found.items;

    if (st == EF_OK && p->scopes_behind > 0 && p->scope_count > 1)
        st = ef_fail_numbers(err, EF_TIMEOUT, position, reached,
                             "projection \"%.*s\" (%.*s) has reached position %" PRId64
                             ", not %" PRId64 ": scope %.*s is %.*s",
                             EF_STR_ARG(p->name), EF_STR_ARG(p->state), reached, position,
                             EF_STR_ARG(p->scopes[1].name), EF_STR_ARG(p->scopes[1].state));
    else if (st == EF_OK)
        st = ef_fail_numbers(err, EF_TIMEOUT, position, reached,
                             "projection \"%.*s\" (%.*s) has reached position %" PRId64
                             ", not %" PRId64,
                             EF_STR_ARG(p->name), EF_STR_ARG(p->state), reached, position);
    return st;
}

/* Time until the next poll: as long as it has waited so far, or, once progress is known, the
 * estimated time for a quarter of the rest, because positions advance in batches. */
static int64_t poll_delay_ms(int64_t waited_ms, int64_t came, int64_t left)
{
    double ms = (double)waited_ms;

    if (came > 0)
        ms = ms / (double)came * (double)left / 4;
    return ms < POLL_MS_MIN ? POLL_MS_MIN : ms > POLL_MS_MAX ? POLL_MS_MAX : (int64_t)ms;
}

/* Polls the position only: the other fields of `projection ls` are counted, which on a long queue
 * costs as much as a worker. */
static ef_status wait_for(cli *c, ef_str name, int64_t position, int64_t timeout_ms, ef_error *err)
{
    int64_t began = cli_mono_us() / 1000, first = -1;
    ef_str tenant = cli_tenant(c);

    for (;;) {
        int64_t reached, waited, left, delay;
        ef_status st =
            cli_projection_reached(c, name, cli_tenant_given(c) ? &tenant : NULL, &reached, err);
        if ((st == EF_OK || st == EF_BLOCKED) && reached >= position)
            return EF_OK;
        if (st != EF_OK)
            return st;
        first = first < 0 ? reached : first;
        waited = cli_mono_us() / 1000 - began;
        left = timeout_ms - waited;
        if (left <= 0 || cli_stopped())
            return report_timeout(c, name, reached, position, err);
        delay = poll_delay_ms(waited, reached - first, position - reached);
        cli_sleep_us((left < delay ? left : delay) * 1000);
    }
}

static ef_status wait_for_projection(cli *c, ef_error *err)
{
    ef_str name = ef_str_from(c->arguments[0]);
    ef_head head = {.position = cli_int(c, "position")};
    ef_status st = EF_OK;

    cli_stop_on_signals();
    if (!cli_has(c, "position"))
        st = cli_head(c, &head, err);
    if (st == EF_OK)
        st = wait_for(c, name, head.position, cli_int(c, "timeout"), err);
    return st == EF_OK ? cli_show_projection(c, name, err) : st;
}

const cli_command cli_cmd_projection_wait = {
    .name = "projection wait",
    .summary = "wait until a projection has reached a position",
    .options =
        CLI_OPTIONS(CLI_INT("position", "P", 0, INT64_MAX, 0,
                            "wait for this position (default: the current head of the journal)"),
                    CLI_DURATION("timeout", "D", TIMEOUT_MS_DEFAULT,
                                 "give up after this time: 500ms, 10s (default 30s)")),
    .arguments = CLI_NAME("projection"),
    .more =
        "The command only waits; workers do the work (everfold work). With --tenant it waits\n"
        "for that tenant, otherwise for all tenants. The exit code is 5 after a timeout. It is\n"
        "4, without waiting, if the tenant of a log-ordered projection is blocked by an event\n"
        "that failed.",
    .example = "everfold projection wait customer_orders --timeout 10s",
    .stores = CLI_ENGINE_READ,
    .call = wait_for_projection,
    .hints = CLI_HINTS(CLI_NO_PROJECTION, CLI_NOT_FRESH),
};

/* One of --version and --generation is required. */
static ef_status check_generation(cli *c, ef_error *err)
{
    return !cli_int(c, "version") == !cli_int(c, "generation")
               ? cli_refuse(c, err, "%s needs either --version or --generation", c->command->name)
               : EF_OK;
}

/* The generation of --version or --generation; without these options, the previous one. */
static ef_generation_choice read_generation(const cli *c)
{
    bool previous = c->command == &cli_cmd_projection_rollback;

    return (ef_generation_choice){.projection = ef_str_from(c->arguments[0]),
                                  .version = previous ? 0 : (int32_t)cli_int(c, "version"),
                                  .generation = previous ? 0 : (int32_t)cli_int(c, "generation"),
                                  .previous = previous,
                                  .actor = cli_actor(c),
                                  .reason = cli_reason(c)};
}

static ef_status switch_projection(cli *c, ef_error *err)
{
    ef_generation_choice choice = read_generation(c);
    ef_status st;

    choice.lag_max = cli_int(c, "max-lag");
    st = cli_projection_switch(c, &choice, err);
    return st == EF_OK ? cli_show_projection(c, choice.projection, err) : st;
}

static ef_status retire_projection(cli *c, ef_error *err)
{
    ef_generation_choice choice = read_generation(c);
    int64_t count = 0;
    ef_status st = cli_projection_retire(c, &choice, &count, err);

    if (st != EF_OK)
        return st;
    cli_say(c, "removed %" PRId64 " generation%s", count, cli_plural(count));
    return cli_show_projection(c, choice.projection, err);
}

const cli_command cli_cmd_projection_switch = {
    .name = "projection switch",
    .summary = "switch queries to another version or generation, atomically",
    .options = CLI_OPTIONS(
        CLI_INT("version", "N", 1, INT32_MAX, 0, "to the newest generation of this version"),
        CLI_INT("generation", "N", 1, INT32_MAX, 0, "to this generation"),
        CLI_INT("max-lag", "EVENTS", 0, INT64_MAX, 0, "allow a lag of N events (default 0)"),
        CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "To go back: everfold projection rollback NAME",
    .example = "everfold projection rebuild customer_orders --no-switch --wait && "
               "everfold projection switch customer_orders --generation 2",
    .check = check_generation,
    .stores = CLI_ENGINE,
    .call = switch_projection,
    .hint = "see: everfold projection ls",
};

const cli_command cli_cmd_projection_rollback = {
    .name = "projection rollback",
    .summary = "switch queries back to the previously active generation",
    .options = CLI_OPTIONS(
        CLI_INT("max-lag", "EVENTS", 0, INT64_MAX, 0, "allow a lag of N events (default 0)"),
        CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection rollback customer_orders --reason 'totals are off'",
    .stores = CLI_ENGINE,
    .call = switch_projection,
    .hint = "see: everfold projection ls",
};

const cli_command cli_cmd_projection_retire = {
    .name = "projection retire",
    .summary = "remove a version or generation that is not active",
    .options =
        CLI_OPTIONS(CLI_INT("version", "N", 1, INT32_MAX, 0,
                            "all generations of this version that are not active"),
                    CLI_INT("generation", "N", 1, INT32_MAX, 0, "this generation"), CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "Its views are deleted. The events stay, so it can be deployed again.",
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection retire customer_orders --generation 1",
    .check = check_generation,
    .stores = CLI_ENGINE,
    .call = retire_projection,
    .hint = "see: everfold projection ls",
};
