/*
 * cmd_projection_wait.c - everfold projection wait NAME
 *
 * The position moves in the view store, by whoever works, and nobody rings a bell there: it is
 * looked at again and again, ever more slowly.
 */
#include "commands.h"
#include "front.h"
#include "projection.h"

#include <inttypes.h>
#include <time.h>

#define TIMEOUT_MS_DEFAULT 30000
#define LOOK_MS_FIRST 5
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
static ef_status too_late(const ef_projection *p, int64_t reached, int64_t position, ef_error *err)
{
    if (p->scopes_behind > 0 && p->scope_count > 1)
        return ef_fail_numbers(err, EF_TIMEOUT, position, reached,
                               "projection %.*s (%.*s) is at position %" PRId64
                               " and has not reached %" PRId64 ": scope %.*s is %.*s",
                               EF_STR_ARG(p->name), EF_STR_ARG(p->state), reached, position,
                               EF_STR_ARG(p->scopes[1].name), EF_STR_ARG(p->scopes[1].state));
    return ef_fail_numbers(err, EF_TIMEOUT, position, reached,
                           "projection %.*s (%.*s) is at position %" PRId64
                           " and has not reached %" PRId64,
                           EF_STR_ARG(p->name), EF_STR_ARG(p->state), reached, position);
}

/* How far it is for the tenant that was given, or for everybody. */
static ef_status read_place(cli *c, ef_str name, ef_projection_list *found, int64_t *out,
                            ef_error *err)
{
    ef_status st = cli_projection_ls(c, name, found, err);

    if (st != EF_OK)
        return st;
    *out = found->items[0].position;
    return cli_tenant_given(c) ? cli_projection_as_of(c, name, cli_tenant(c), out, err) : EF_OK;
}

/* On EF_OK `found` holds the projection as it was when it was there. */
static ef_status wait_for(cli *c, ef_str name, int64_t position, int64_t timeout_ms,
                          ef_projection_list *found, ef_error *err)
{
    int64_t until = now_ms() + timeout_ms, look_ms = LOOK_MS_FIRST;

    for (;;) {
        int64_t reached;
        ef_status st = read_place(c, name, found, &reached, err);
        if (st != EF_OK || reached >= position)
            return st;
        int64_t left = until - now_ms();
        if (left <= 0 || cli_stopped())
            return too_late(&found->items[0], reached, position, err);
        sleep_ms(left < look_ms ? left : look_ms);
        look_ms = look_ms * 2 > LOOK_MS_MAX ? LOOK_MS_MAX : look_ms * 2;
        ef_projection_list_release(found);
    }
}

static int run_wait(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_head head = {0};
    ef_projection_list found = {0};
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
        st = wait_for(c, ef_str_from(c->arguments[0]), position, timeout_ms, &found, &err);
    if (st == EF_OK)
        cli_print_projection(c, &found.items[0]);
    else
        rc = cli_fail(c, &err, st == EF_TIMEOUT ? "is a worker there? everfold work" : NULL);
    ef_projection_list_release(&found);
    return rc;
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
        "tenant, otherwise for all of them. The exit code is 5 when it took too long.",
    .example = "everfold projection wait customer_orders --timeout 10s",
    .run = run_wait,
};
