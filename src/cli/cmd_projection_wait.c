/*
 * cmd_projection_wait.c - everfold projection wait NAME
 *
 * Workers in any process move the position in the view store, which has no notification. The
 * command polls it, less often while much is left.
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"
#include "view.h"

#include <inttypes.h>
#include <time.h>

#define TIMEOUT_MS_DEFAULT 30000
#define POLL_MS_MIN 5
#define POLL_MS_MAX 200

static int64_t now_ms(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context) / 1000;
}

static void sleep_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&time, NULL);
}

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
    ef_projection_list_release(&found);
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
    int64_t began = now_ms(), first = -1;
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
        waited = now_ms() - began;
        left = timeout_ms - waited;
        if (left <= 0 || cli_stopped())
            return report_timeout(c, name, reached, position, err);
        delay = poll_delay_ms(waited, reached - first, position - reached);
        sleep_ms(left < delay ? left : delay);
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
