/*
 * cmd_projection_wait.c - everfold projection wait NAME
 *
 * The position moves in the view store, by whoever works, and nobody rings a bell there: it is
 * looked at again and again, more slowly while there is far to go.
 */
#include "commands.h"
#include "front.h"
#include "projection.h"
#include "view.h"

#include <inttypes.h>
#include <time.h>

#define TIMEOUT_MS_DEFAULT 30000
#define LOOK_MS_MIN 5
#define LOOK_MS_MAX 200

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

/* Who holds it up: the tenant that was asked for, or the first that is behind. */
static ef_status too_late(cli *c, ef_str name, int64_t reached, int64_t position, ef_error *err)
{
    ef_projection_list found = {0};
    ef_status st = cli_projection_ls(c, name, &found, err);
    const ef_projection *p = found.items;

    if (st == EF_OK && p->scopes_behind > 0 && p->scope_count > 1)
        st = ef_fail_numbers(err, EF_TIMEOUT, position, reached,
                             "projection %.*s (%.*s) is at position %" PRId64
                             " and has not reached %" PRId64 ": scope %.*s is %.*s",
                             EF_STR_ARG(p->name), EF_STR_ARG(p->state), reached, position,
                             EF_STR_ARG(p->scopes[1].name), EF_STR_ARG(p->scopes[1].state));
    else if (st == EF_OK)
        st = ef_fail_numbers(err, EF_TIMEOUT, position, reached,
                             "projection %.*s (%.*s) is at position %" PRId64
                             " and has not reached %" PRId64,
                             EF_STR_ARG(p->name), EF_STR_ARG(p->state), reached, position);
    ef_projection_list_release(&found);
    return st;
}

/* Twice as long each time, or by its pace: when a quarter of what is left should be there, for it
 * comes in batches. */
static int64_t look_in_ms(int64_t waited_ms, int64_t came, int64_t left)
{
    double ms = (double)waited_ms;

    if (came > 0)
        ms = ms / (double)came * (double)left / 4;
    return ms < LOOK_MS_MIN ? LOOK_MS_MIN : ms > LOOK_MS_MAX ? LOOK_MS_MAX : (int64_t)ms;
}

/* On EF_OK it is there. Only where it is, is looked at meanwhile: what `ls` tells besides is
 * counted, and of a long queue that takes as much as a worker beside us does. */
static ef_status wait_for(cli *c, ef_str name, int64_t position, int64_t timeout_ms, ef_error *err)
{
    int64_t began = now_ms(), first = -1;
    ef_str tenant = cli_tenant(c);

    for (;;) {
        int64_t reached, waited, left, look;
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
            return too_late(c, name, reached, position, err);
        look = look_in_ms(waited, reached - first, position - reached);
        sleep_ms(left < look ? left : look);
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
    return cli_fail(c, &err, cli_view_hint(st));
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "the projection"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"position", 0, "P", NULL, NULL, "wait for this position (default: the journal's head now)"},
    {"timeout", 0, "D", NULL, NULL, "give up after so long, as 500ms or 10s (default 30s)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_projection_wait = {
    .name = "projection wait",
    .summary = "wait until a projection has got somewhere",
    .options = options,
    .arguments = arguments,
    .more =
        "It waits and does no work itself: everfold work does. With --tenant it waits for that\n"
        "tenant, otherwise for all of them. The exit code is 5 when it took too long, and 4 at\n"
        "once when the tenant of a log-ordered projection is blocked by an event that failed.",
    .example = "everfold projection wait customer_orders --timeout 10s",
    .run = run_wait,
};
