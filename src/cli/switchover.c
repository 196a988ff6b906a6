/*
 * switchover.c - see switchover.h.
 */
#include "switchover.h"
#include "calls.h"
#include "projection.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define LOOK_MS 250
#define STUCK_MS 30000

typedef struct versions {
    ef_projection_list list;
    const ef_projection *active, *next; /* next: the deployed version */
} versions;

static int64_t now_ms(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context) / 1000;
}

static ef_status read_versions(cli *c, ef_str name, int32_t generation, versions *v, ef_error *err)
{
    ef_status st = cli_projection_ls(c, name, &v->list, err);

    v->active = v->next = NULL;
    for (size_t i = 0; st == EF_OK && i < v->list.count; i++) {
        const ef_projection *p = &v->list.items[i];
        v->active = p->active ? p : v->active;
        v->next = p->generation == generation ? p : v->next;
    }
    if (st == EF_OK && !v->next)
        st = ef_fail(err, EF_NOT_FOUND, "generation %d of projection %.*s was removed",
                     (int)generation, EF_STR_ARG(name));
    return st;
}

static bool has_caught_up(const ef_projection *p)
{
    return ef_str_equal(p->state, EF_STR("live")) && p->lag_events == 0;
}

/* Waits until the version has applied every event that is not blocked. */
static ef_status wait_until_caught_up(cli *c, ef_str name, int32_t generation, versions *v,
                                      ef_error *err)
{
    int64_t moved_ms = now_ms(), last = -1;
    cli_progress progress;
    ef_status st = read_versions(c, name, generation, v, err);

    cli_progress_begin(&progress, c, "catching up", "events", false);
    while (st == EF_OK && !has_caught_up(v->next) && !cli_stopped()) {
        const ef_projection *p = v->next;
        int64_t done = p->applied + p->ignored + p->skipped;
        cli_progress_update(&progress, done, done + p->lag_events, done);
        moved_ms = done != last ? now_ms() : moved_ms;
        last = done;
        if (ef_str_equal(p->state, EF_STR("paused")))
            st = ef_fail(err, EF_CONFLICT, "projection %.*s is paused", EF_STR_ARG(name));
        else if (now_ms() - moved_ms > STUCK_MS)
            st = ef_fail(err, EF_TIMEOUT,
                         "version %d of %.*s is deployed, but makes no progress: %" PRId64
                         " events are left",
                         (int)p->version, EF_STR_ARG(name), p->lag_events);
        if (st == EF_OK) {
            (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
            st = read_versions(c, name, generation, v, err);
        }
    }
    cli_progress_end(&progress);
    if (st == EF_OK && cli_stopped())
        st = ef_fail(err, EF_TIMEOUT, "stopped: version %d of %.*s is deployed, but not active",
                     (int)v->next->version, EF_STR_ARG(name));
    return st;
}

/* A callback that ignores the differences: the comparison counts them. */
static bool count_only(void *context, const ef_difference *difference)
{
    (void)context;
    (void)difference;
    return true;
}

static ef_status compare_versions(cli *c, const versions *v, ef_error *err)
{
    ef_generation_choice left = {.projection = v->next->name, .generation = v->active->generation};
    ef_generation_choice right = {.projection = v->next->name, .generation = v->next->generation};
    ef_diff diff;
    ef_status st = cli_projection_diff(c, &left, &right, count_only, NULL, &diff, err);

    if (st == EF_OK)
        cli_say(c,
                "version %d compared with version %d: %" PRId64 " view%s, %" PRId64
                " differ, %" PRId64 " only in version %d, %" PRId64 " only in version %d",
                (int)v->next->version, (int)v->active->version, diff.views, cli_plural(diff.views),
                diff.different, diff.left_only, (int)v->active->version, diff.right_only,
                (int)v->next->version);
    return st;
}

static ef_status refuse_more_blocked(const versions *v, ef_error *err)
{
    if (v->next->blocked_events <= v->active->blocked_events)
        return EF_OK;
    return ef_fail_numbers(err, EF_CONFLICT, v->active->blocked_events, v->next->blocked_events,
                           "version %d of %.*s is deployed, but not active: %" PRId64
                           " of its events are blocked, of version %d only %" PRId64,
                           (int)v->next->version, EF_STR_ARG(v->next->name),
                           v->next->blocked_events, (int)v->active->version,
                           v->active->blocked_events);
}

static int switch_hint(cli *c, ef_str name, int32_t generation, const ef_error *err)
{
    char hint[512];

    if (err->status == EF_TIMEOUT)
        (void)snprintf(hint, sizeof hint,
                       "start a worker (everfold work), then run: everfold projection switch %.*s "
                       "--generation %d",
                       EF_STR_ARG(name), (int)generation);
    else
        (void)snprintf(hint, sizeof hint,
                       "see: everfold projection failures %.*s; to switch anyway: everfold "
                       "projection switch %.*s --generation %d",
                       EF_STR_ARG(name), EF_STR_ARG(name), (int)generation);
    return cli_fail(c, err, err->status == EF_TIMEOUT || err->status == EF_CONFLICT ? hint : NULL);
}

int cli_switchover(cli *c, ef_str name, int32_t generation)
{
    ef_error err = EF_ERROR_INIT;
    versions v = {0};
    ef_status st;
    int rc;

    cli_stop_on_signals();
    st = wait_until_caught_up(c, name, generation, &v, &err);
    if (st == EF_OK && v.active && v.active != v.next) {
        st = compare_versions(c, &v, &err);
        if (st == EF_OK)
            st = refuse_more_blocked(&v, &err);
        if (st == EF_OK)
            st = cli_projection_switch(c,
                                       &(ef_generation_choice){.projection = name,
                                                               .generation = generation,
                                                               .actor = cli_actor(c),
                                                               .reason = cli_reason(c)},
                                       &err);
    }
    rc = st == EF_OK ? cli_show_projection(c, name) : switch_hint(c, name, generation, &err);
    ef_projection_list_release(&v.list);
    return rc;
}
