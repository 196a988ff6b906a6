/*
 * doctor_projections.c - see doctor.h.
 */
#include "doctor.h"
#include "calls.h"

#include <inttypes.h>
#include <stdio.h>

/* Is a worker alive? If that cannot be read, another check reports it. */
static bool has_worker(cli *c)
{
    ef_error ignored = EF_ERROR_INIT;
    ef_worker_list workers = {0};
    bool found = cli_worker_ls(c, &workers, &ignored) != EF_OK;

    for (size_t i = 0; i < workers.count; i++)
        found = found || workers.items[i].live;
    ef_worker_list_release(&workers);
    return found;
}

/* Finds the first projection that lags while no worker is alive to catch it up. */
static const ef_projection *find_stranded(cli *c, const ef_projection_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (ef_str_equal(list->items[i].state, EF_STR("catching_up")) &&
            list->items[i].lag_events > 0)
            return has_worker(c) ? NULL : &list->items[i];
    return NULL;
}

/* " since TIME by ANN: reason", or "" if no operator paused it (it is being seeded). */
static void format_pause(cli *c, ef_str name, char *out, size_t size)
{
    ef_audit_query query = {.action = EF_STR("pause"), .lane = name, .limit = 1};
    char since[EF_TIME_TEXT_MAX];
    ef_error ignored = EF_ERROR_INIT;
    ef_audit_list acts = {0};

    out[0] = '\0';
    if (cli_audit_ls(c, &query, &acts, &ignored) == EF_OK && acts.count) {
        const ef_audit_entry *act = &acts.items[0];
        ef_time_format(act->at_us, since);
        (void)snprintf(out, size, " since %s by %.*s%s%.*s", since, EF_STR_ARG(act->actor),
                       act->reason.len ? ": " : "", EF_STR_ARG(act->reason));
    }
    ef_audit_list_release(&acts);
}

static bool is_paused(const ef_projection *p)
{
    return ef_str_equal(p->state, EF_STR("paused"));
}

/* Reports one line per projection, whichever of its generations are paused. */
static size_t check_paused(diagnosis *d, const ef_projection_list *list)
{
    char fix[512], pause[512];
    size_t count = 0;
    ef_str last = {NULL, 0};

    for (size_t i = 0; i < list->count; i++) {
        const ef_projection *p = &list->items[i];
        if (!is_paused(p) || (last.ptr && ef_str_equal(last, p->name)))
            continue;
        last = p->name;
        count++;
        format_pause(d->c, p->name, pause, sizeof(pause));
        (void)snprintf(fix, sizeof(fix), "run: everfold projection resume %.*s",
                       EF_STR_ARG(p->name));
        doctor_report(d, WARN, "projections", fix, "%.*s is paused%s; lag %" PRId64 " event%s",
                      EF_STR_ARG(p->name), pause, p->lag_events, cli_plural(p->lag_events));
    }
    return count;
}

/* Counts the failed events of all generations and names one of their projections. */
static int64_t count_failures(const ef_projection_list *list, ef_str *out_name)
{
    int64_t failures = 0;

    for (size_t i = 0; i < list->count; i++) {
        failures += list->items[i].failures;
        if (list->items[i].failures > 0)
            *out_name = list->items[i].name;
    }
    return failures;
}

static const ef_projection *find_unaccounted(const ef_projection_list *list)
{
    for (size_t i = list->count; i > 0; i--)
        if (list->items[i - 1].unaccounted != 0)
            return &list->items[i - 1];
    return NULL;
}

static void check_events_of(diagnosis *d, const ef_projection_list *list, size_t paused)
{
    const ef_projection *off = find_unaccounted(list), *stranded = NULL;
    ef_str failing = {NULL, 0};
    int64_t failures = count_failures(list, &failing);
    char fix[512];

    (void)snprintf(fix, sizeof(fix), "see: everfold projection failures %.*s", EF_STR_ARG(failing));
    if (off)
        doctor_report(d, WARN, "projections", "run it again when the workers are idle",
                      "%.*s: %" PRId64 " events are neither applied, ignored, skipped nor queued",
                      EF_STR_ARG(off->name), off->unaccounted);
    else if ((stranded = find_stranded(d->c, list)))
        doctor_report(d, WARN, "projections", "run: everfold work --drain",
                      "%.*s lags by %" PRId64 " events, and no worker is running",
                      EF_STR_ARG(stranded->name), stranded->lag_events);
    else if (failures > 0)
        doctor_report(d, WARN, "projections", fix, "%" PRId64 " open failure%s", failures,
                      cli_plural(failures));
    else if (paused == 0)
        doctor_report(d, OK, "projections", NULL, "%zu deployed, no open failures", list->count);
}

void doctor_check_projections(diagnosis *d)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list list = {0};

    if (cli_projection_ls(d->c, EF_STR(""), &list, &err) != EF_OK) {
        doctor_report(d, FAIL, "projections", NULL, "%s", err.text);
        return;
    }
    check_events_of(d, &list, check_paused(d, &list));
    ef_projection_list_release(&list);
}
