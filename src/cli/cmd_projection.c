/*
 * cmd_projection.c - everfold projection ls, show, failures, pause, resume, wait, switch, rollback
 * and retire
 */
#include "calls.h"

#include <inttypes.h>
#include <stdio.h>

/* "12 (3.456 s)": events, and the age of the oldest. */
static void events_text(int64_t events, int64_t us, char out[80])
{
    int64_t ms = us < 0 ? 0 : us / 1000;

    if (events > 0)
        (void)snprintf(out, 80, "%" PRId64 " (%" PRId64 ".%03" PRId64 " s)", events, ms / 1000,
                       ms % 1000);
    else
        (void)snprintf(out, 80, "0");
}

static void table_projections(cli *c, const ef_projection *items, size_t count)
{
    static const char *const heads[] = {"NAME",  "VERSION",  "GENERATION",  "ACTIVE",
                                        "STATE", "POSITION", "LAG",         "BLOCKED",
                                        "VIEWS", "FAILURES", "QUARANTINED", "DIGEST"};
    cli_table table = CLI_TABLE_INIT(heads, 12, 0x7E6);

    for (size_t i = 0; i < count; i++) {
        const ef_projection *p = &items[i];
        char lag[80], blocked[80];
        events_text(p->lag_events, p->lag_us, lag);
        events_text(p->blocked_events, p->blocked_us, blocked);
        cli_table_text(&table, p->name);
        cli_table_int(&table, p->version);
        cli_table_int(&table, p->generation);
        cli_table_text(&table, p->active ? EF_STR("yes") : EF_STR("no"));
        cli_table_text(&table, p->state);
        cli_table_int(&table, p->position);
        cli_table_text(&table, ef_str_from(lag));
        cli_table_text(&table, ef_str_from(blocked));
        cli_table_int(&table, p->views);
        cli_table_int(&table, p->failures);
        cli_table_int(&table, p->quarantined);
        cli_table_text(&table, ef_str_from(p->digest));
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

void cli_print_projection(cli *c, const ef_projection *projection)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        table_projections(c, projection, 1);
        return;
    }
    ef__projection_write(&w, projection);
    ef__buf_add_char(&c->out, '\n');
}

/* Prints a failure as text: event, attempts and time, then the reason. `indent` precedes each line.
 */
static void show_failure(cli *c, const ef_failure *f, const char *indent)
{
    char time[EF_TIME_TEXT_MAX];

    ef_time_format(f->open ? f->recorded_us : f->resolved_us, time);
    ef__buf_add_text(&c->out, indent);
    if (f->tenant.len > 0) {
        ef__buf_add_text(&c->out, "tenant ");
        cli_escape(&c->out, f->tenant);
        ef__buf_add_text(&c->out, "  ");
    }
    cli_escape(&c->out, f->stream);
    ef__buf_printf(
        &c->out, " seq %" PRId64 "  position %" PRId64 "  version %d  attempts %d  %s %s\n", f->seq,
        f->position, (int)f->version, (int)f->attempts, f->open ? "since" : "over", time);
    ef__buf_printf(&c->out, "%s    ", indent);
    cli_escape(&c->out, f->message);
    ef__buf_add_char(&c->out, '\n');
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
    cli_escape(&c->out, s->error);
    ef__buf_add_char(&c->out, '\n');
}

const char *cli_projection_hint(ef_status status)
{
    return status == EF_NOT_FOUND ? "see: everfold projection ls"
           : status == EF_EXISTS  ? "see: everfold run ls --open"
                                  : NULL;
}

int cli_show_projection(cli *c, ef_str name)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list list = {0};
    ef_status st = cli_projection_ls(c, name, &list, &err);
    int rc = st == EF_OK ? 0 : cli_fail(c, &err, cli_projection_hint(st));

    if (rc == 0)
        cli_print_projection(c, &list.items[0]);
    EF_RELEASE(&list);
    return rc;
}

static void print_list(cli *c, const ef_projection_list *found)
{
    cli_list list = {.lines = c->format == CLI_NDJSON};

    for (size_t i = 0; i < found->count; i++) {
        ef__json_writer w = EF__JSON_WRITER(&c->out);
        cli_list_next(c, &list);
        ef__projection_write(&w, &found->items[i]);
        (void)cli_list_item_end(c, &list);
    }
    cli_list_end(c, &list);
}

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list found = {0};
    int rc = cli_engine_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_projection_ls(c, EF_STR(""), &found, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else if (c->format != CLI_TABLE)
        print_list(c, &found);
    else if (found.count == 0)
        cli_say(c, "no projections; deploy one: everfold projection deploy FILE");
    else
        table_projections(c, found.items, found.count);
    EF_RELEASE(&found);
    return rc;
}

const cli_command cli_cmd_projection_ls = {
    .name = "projection ls",
    .summary = "list projections: state, position, lag, failures",
    .example = "everfold projection ls -o json",
    .run = run_ls,
};

#define FAILURES_SHOWN 5

static void add_line(cli *c, const char *name, ef_str value)
{
    ef__buf_printf(&c->out, "%-12s", name);
    cli_escape(&c->out, value);
    ef__buf_add_char(&c->out, '\n');
}

static void add_int_line(cli *c, const char *name, int64_t value)
{
    ef__buf_printf(&c->out, "%-12s%" PRId64 "\n", name, value);
}

/* Prints the program line by line: line breaks stay, control characters are escaped. */
static void add_program(cli *c, ef_str text)
{
    ef__buf_add_text(&c->out, "program\n");
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t length = end ? (size_t)(end - text.ptr) : text.len;
        ef__buf_add_text(&c->out, length > 0 ? "    " : "");
        cli_escape(&c->out, (ef_str){text.ptr, length});
        ef__buf_add_char(&c->out, '\n');
        length += end ? 1 : 0;
        text.ptr += length;
        text.len -= length;
    }
}

/* Prints the latest open failures only. */
static ef_status add_failures(cli *c, const ef_projection *p, ef_error *err)
{
    ef_failure_list list = {0};
    ef_status st = EF_OK;

    add_int_line(c, "failures", p->failures);
    if (p->failures > 0)
        st = cli_projection_failures(c, p->name, false, FAILURES_SHOWN, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        show_failure(c, &list.items[i], "            ");
    if (st == EF_OK && (size_t)p->failures > list.count) {
        ef__buf_add_text(&c->out, "            all of them: everfold projection failures ");
        cli_escape(&c->out, p->name);
        ef__buf_add_char(&c->out, '\n');
    }
    EF_RELEASE(&list);
    return st;
}

/* Prints the common scope, then the scopes that lag; with --tenant, the scope of that tenant. */
static ef_status add_scopes(cli *c, const ef_projection *p, ef_error *err)
{
    static const char INDENT[] = "            ";
    ef_scope_list one = {0};
    ef_status st = EF_OK;

    if (cli_tenant_given(c))
        st = cli_projection_scope(c, p->name, cli_tenant(c), &one, err);
    if (st == EF_OK && (p->scope_count > 0 || one.count > 0))
        ef__buf_add_text(&c->out, "scopes\n");
    if (one.count > 0)
        cli_show_scope(c, &one.items[0], INDENT);
    for (size_t i = 0; st == EF_OK && one.count == 0 && i < p->scope_count; i++)
        cli_show_scope(c, &p->scopes[i], INDENT);
    EF_RELEASE(&one);
    return st;
}

static ef_status write_lines(cli *c, const ef_projection *p, ef_error *err)
{
    ef_status st;

    add_line(c, "name", p->name);
    add_int_line(c, "version", p->version);
    add_int_line(c, "generation", p->generation);
    add_line(c, "order", p->by_log ? EF_STR("log") : EF_STR("stream"));
    add_line(c, "state", p->state);
    add_line(c, "on error", p->skips_errors ? EF_STR("skip") : EF_STR("stop"));
    if (p->no_function)
        add_line(c, "", EF_STR("not available: its C function is not registered in this process"));
    add_int_line(c, "position", p->position);
    ef__buf_printf(&c->out, "%-12s%" PRId64 " event%s, %.3f s\n", "lag", p->lag_events,
                   cli_plural(p->lag_events), (double)p->lag_us / 1e6);
    if (p->blocked_streams)
        ef__buf_printf(&c->out, "%-12s%" PRId64 " event%s of %" PRId64 " %s%s, %.3f s\n", "blocked",
                       p->blocked_events, cli_plural(p->blocked_events), p->blocked_streams,
                       p->by_log ? "tenant" : "stream", cli_plural(p->blocked_streams),
                       (double)p->blocked_us / 1e6);
    add_int_line(c, "views", p->views);
    add_line(c, "digest", ef_str_from(p->digest));
    add_int_line(c, "unaccounted", p->unaccounted);
    st = add_failures(c, p, err);
    add_int_line(c, "quarantined", p->quarantined);
    if (st == EF_OK)
        st = add_scopes(c, p, err);
    add_program(c, p->program);
    return st;
}

/* With --tenant, only the scope of that tenant is written. */
static ef_status write_json(cli *c, const ef_projection *p, ef_error *err)
{
    ef_projection shown = *p;
    ef_scope_list one = {0};
    ef_status st = EF_OK;

    if (cli_tenant_given(c)) {
        st = cli_projection_scope(c, p->name, cli_tenant(c), &one, err);
        shown.scopes = one.items;
        shown.scope_count = one.count;
    }
    if (st == EF_OK)
        cli_print_projection(c, &shown);
    EF_RELEASE(&one);
    return st;
}

static int run_show(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list found = {0};
    int rc = cli_engine_need(c, true);

    if (rc != 0)
        return rc;
    ef_status st = cli_projection_ls(c, ef_str_from(c->arguments[0]), &found, &err);
    if (st == EF_OK)
        st = c->format == CLI_TABLE ? write_lines(c, &found.items[0], &err)
                                    : write_json(c, &found.items[0], &err);
    if (st != EF_OK)
        rc = cli_fail(c, &err, cli_projection_hint(st));
    EF_RELEASE(&found);
    return rc;
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
    .run = run_show,
};

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 10000

static void write_failure(ef__json_writer *w, ef_str projection, const ef_failure *f)
{
    ef__json_open(w, '{');
    ef__json_member_str(w, "projection", projection);
    ef__shape_members(w, &ef__shape_failure, f);
    ef__json_close(w, '}');
}

static void print_failures(cli *c, ef_str projection, const ef_failure_list *found)
{
    cli_list list = {.lines = c->format == CLI_NDJSON};

    for (size_t i = 0; i < found->count; i++) {
        ef__json_writer w = EF__JSON_WRITER(&c->out);
        cli_list_next(c, &list);
        write_failure(&w, projection, &found->items[i]);
        (void)cli_list_item_end(c, &list);
    }
    cli_list_end(c, &list);
}

static void print_text(cli *c, const ef_failure_list *found)
{
    for (size_t i = 0; i < found->count; i++)
        show_failure(c, &found->items[i], "");
    if (found->count == 0)
        cli_say(c, cli_has(c, "all") ? "no failures" : "no open failures");
}

static int run_failures(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_failure_list found = {0};
    ef_str name = ef_str_from(c->arguments[0]);
    int64_t limit = LIMIT_DEFAULT;
    ef_status st = cli_number(c, "limit", 1, LIMIT_MAX, &limit, &err);
    int rc = st == EF_OK ? cli_engine_need(c, true) : cli_fail(c, &err, NULL);

    if (rc != 0)
        return rc;
    st = cli_projection_failures(c, name, cli_has(c, "all"), (size_t)limit, &found, &err);
    if (st != EF_OK)
        rc = cli_fail(c, &err, cli_projection_hint(st));
    else if (c->format == CLI_TABLE)
        print_text(c, &found);
    else
        print_failures(c, name, &found);
    EF_RELEASE(&found);
    return rc;
}

const cli_command cli_cmd_projection_failures = {
    .name = "projection failures",
    .summary = "list the events that a projection failed on, newest first",
    .options = CLI_OPTIONS({"all", 0, NULL, NULL, NULL, "include resolved failures"},
                           {"limit", 0, "N", NULL, NULL, "at most N failures (default 100)"}),
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
    .run = run_failures,
};

static int set_paused(cli *c, bool paused)
{
    ef_error err = EF_ERROR_INIT;
    ef_str name = ef_str_from(c->arguments[0]);
    ef_status st;
    int rc = cli_engine_need(c, false);

    if (rc != 0)
        return rc;
    st = paused ? cli_projection_pause(c, name, cli_actor(c), cli_reason(c), &err)
                : cli_projection_resume(c, name, cli_actor(c), cli_reason(c), &err);
    return st == EF_OK ? cli_show_projection(c, name) : cli_fail(c, &err, cli_projection_hint(st));
}

static int run_pause(cli *c)
{
    return set_paused(c, true);
}

static int run_resume(cli *c)
{
    return set_paused(c, false);
}

const cli_command cli_cmd_projection_pause = {
    .name = "projection pause",
    .summary = "pause a projection; no event is lost",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "Its events stay queued. To continue: everfold projection resume NAME",
    .example = "everfold projection pause customer_orders",
    .run = run_pause,
};

const cli_command cli_cmd_projection_resume = {
    .name = "projection resume",
    .summary = "resume a projection that was paused or has failed",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "It continues where it stopped. Failed scopes are retried at once.",
    .example = "everfold projection resume customer_orders",
    .run = run_resume,
};

#define TIMEOUT_MS_DEFAULT 30000
#define POLL_MS_MIN 5
#define POLL_MS_MAX 200

/* Reports a timeout, with the scope of --tenant or the first scope that lags. */
static ef_status report_timeout(cli *c, ef_str name, int64_t reached, int64_t position,
                                ef_error *err)
{
    ef_projection_list found = {0};
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
    EF_RELEASE(&found);
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

static int run_wait(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_head head = {0};
    int64_t position = -1, timeout_ms = TIMEOUT_MS_DEFAULT;
    ef_status st = cli_number(c, "position", 0, INT64_MAX, &position, &err);

    if (st == EF_OK)
        st = cli_duration(c, "timeout", &timeout_ms, &err);
    int rc = st == EF_OK ? cli_engine_need(c, true) : cli_fail(c, &err, NULL);
    if (rc != 0)
        return rc;
    cli_stop_on_signals();
    if (position < 0) {
        st = cli_head(c, &head, &err);
        position = head.position;
    }
    if (st == EF_OK)
        st = wait_for(c, ef_str_from(c->arguments[0]), position, timeout_ms, &err);
    if (st == EF_OK)
        return cli_show_projection(c, ef_str_from(c->arguments[0]));
    return cli_fail(c, &err, st == EF_NOT_FOUND ? cli_projection_hint(st) : cli_view_hint(st));
}

const cli_command cli_cmd_projection_wait = {
    .name = "projection wait",
    .summary = "wait until a projection has reached a position",
    .options = CLI_OPTIONS(
        {"position", 0, "P", NULL, NULL,
         "wait for this position (default: the current head of the journal)"},
        {"timeout", 0, "D", NULL, NULL, "give up after this time: 500ms, 10s (default 30s)"}),
    .arguments = CLI_NAME("projection"),
    .more =
        "The command only waits; workers do the work (everfold work). With --tenant it waits\n"
        "for that tenant, otherwise for all tenants. The exit code is 5 after a timeout. It is\n"
        "4, without waiting, if the tenant of a log-ordered projection is blocked by an event\n"
        "that failed.",
    .example = "everfold projection wait customer_orders --timeout 10s",
    .run = run_wait,
};

/* Reads --version or --generation; one of them is required. 0, or the exit code. */
static int read_generation(cli *c, ef_generation_choice *out)
{
    ef_error err = EF_ERROR_INIT;
    int64_t version = 0, generation = 0;
    ef_status st = cli_number(c, "version", 1, INT32_MAX, &version, &err);

    if (st == EF_OK)
        st = cli_number(c, "generation", 1, INT32_MAX, &generation, &err);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    if (!version == !generation)
        return cli_usage(c, "%s needs either --version or --generation", c->command->name);
    *out = (ef_generation_choice){.projection = ef_str_from(c->arguments[0]),
                                  .version = (int32_t)version,
                                  .generation = (int32_t)generation,
                                  .actor = cli_actor(c),
                                  .reason = cli_reason(c)};
    return 0;
}

/* Reads --max-lag and opens the engine: 0, or the exit code. */
static int open_for_switch(cli *c, ef_generation_choice *choice)
{
    ef_error err = EF_ERROR_INIT;

    if (cli_number(c, "max-lag", 0, INT64_MAX, &choice->lag_max, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    return cli_engine_need(c, false);
}

static int show_result(cli *c, const ef_generation_choice *choice, ef_status st,
                       const ef_error *err)
{
    return st == EF_OK ? cli_show_projection(c, choice->projection)
                       : cli_fail(c, err, "see: everfold projection ls");
}

static int run_switch(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_generation_choice choice;
    int rc = read_generation(c, &choice);

    if (rc == 0)
        rc = open_for_switch(c, &choice);
    return rc == 0 ? show_result(c, &choice, cli_projection_switch(c, &choice, &err), &err) : rc;
}

static int run_rollback(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_generation_choice choice = {
        .projection = ef_str_from(c->arguments[0]), .actor = cli_actor(c), .reason = cli_reason(c)};
    int rc = open_for_switch(c, &choice);

    return rc == 0 ? show_result(c, &choice, cli_projection_rollback(c, &choice, &err), &err) : rc;
}

static int run_retire(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_generation_choice choice;
    int64_t count = 0;
    ef_status st;
    int rc = read_generation(c, &choice);

    if (rc == 0)
        rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    st = cli_projection_retire(c, &choice, &count, &err);
    if (st == EF_OK)
        cli_say(c, "removed %" PRId64 " generation%s", count, cli_plural(count));
    return show_result(c, &choice, st, &err);
}

const cli_command cli_cmd_projection_switch = {
    .name = "projection switch",
    .summary = "switch queries to another version or generation, atomically",
    .options = CLI_OPTIONS(
        {"version", 0, "N", NULL, NULL, "to the newest generation of this version"},
        {"generation", 0, "N", NULL, NULL, "to this generation"},
        {"max-lag", 0, "EVENTS", NULL, NULL, "allow a lag of N events (default 0)"}, CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "To go back: everfold projection rollback NAME",
    .example = "everfold projection rebuild customer_orders --no-switch --wait && "
               "everfold projection switch customer_orders --generation 2",
    .run = run_switch,
};

const cli_command cli_cmd_projection_rollback = {
    .name = "projection rollback",
    .summary = "switch queries back to the previously active generation",
    .options = CLI_OPTIONS(
        {"max-lag", 0, "EVENTS", NULL, NULL, "allow a lag of N events (default 0)"}, CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection rollback customer_orders --reason 'totals are off'",
    .run = run_rollback,
};

const cli_command cli_cmd_projection_retire = {
    .name = "projection retire",
    .summary = "remove a version or generation that is not active",
    .options = CLI_OPTIONS(
        {"version", 0, "N", NULL, NULL, "all generations of this version that are not active"},
        {"generation", 0, "N", NULL, NULL, "this generation"}, CLI_REASON),
    .arguments = CLI_NAME("projection"),
    .more = "Its views are deleted. The events stay, so it can be deployed again.",
    .example = "everfold projection rebuild customer_orders --wait && "
               "everfold projection retire customer_orders --generation 1",
    .run = run_retire,
};
