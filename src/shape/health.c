/*
 * health.c - how it is, in one sentence.
 */
#include "health.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PUBLISHERS_MAX 64 /* that are looked at */

const char *ef__health_word(ef__health health)
{
    static const char *const words[] = {"well", "behind", "trouble"};

    return words[health];
}

static const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* The projection that is furthest behind; NULL when none is. */
static const ef_projection *last_one(const ef__health_facts *o)
{
    const ef_projection *last = NULL;

    for (size_t i = 0; i < o->projections->count; i++) {
        const ef_projection *p = &o->projections->items[i];
        if (p->routed && p->lag_events > 0 && (!last || p->lag_events > last->lag_events))
            last = p;
    }
    return last;
}

static const ef_projection *in_state(const ef__health_facts *o, const char *state)
{
    for (size_t i = 0; i < o->projections->count; i++)
        if (ef_str_equal(o->projections->items[i].state, ef_str_from(state)))
            return &o->projections->items[i];
    return NULL;
}

/* While events are being folded the sum moves, for it is read from two stores: only what is left at
 * rest is wrong. */
static bool is_lost(const ef__health_facts *o)
{
    return o->unaccounted != 0 && o->outbox->pending == 0 && o->outbox->processing == 0 &&
           !last_one(o);
}

static void say_dead(const ef_outbox_summary *o, char out[EF__HEALTH_TEXT])
{
    char behind[EF__HEALTH_TEXT / 2] = "";

    if (o->blocked > 0)
        (void)snprintf(behind, sizeof(behind), "; %" PRId64 " wait%s behind", o->blocked,
                       o->blocked == 1 ? "s" : "");
    (void)snprintf(out, EF__HEALTH_TEXT,
                   "%" PRId64 " event%s could not be digested and need%s you%s.", o->dead,
                   plural(o->dead), o->dead == 1 ? "s" : "", behind);
}

/* What no worker heals. */
static bool is_trouble(const ef__health_facts *o, char out[EF__HEALTH_TEXT])
{
    const ef_projection *failed = in_state(o, "failed");
    int64_t waiting = o->outbox->pending + o->outbox->processing;

    if (o->views_unreadable)
        (void)snprintf(out, EF__HEALTH_TEXT, "The views cannot be read; see: everfold doctor.");
    else if (is_lost(o))
        (void)snprintf(out, EF__HEALTH_TEXT,
                       "%" PRId64 " event%s neither done nor waiting: this must be 0.",
                       o->unaccounted, o->unaccounted == 1 ? " is" : "s are");
    else if (o->outbox->dead > 0)
        say_dead(o->outbox, out);
    else if (failed)
        (void)snprintf(out, EF__HEALTH_TEXT, "Projection %.*s has failed and is not fed.",
                       EF_STR_ARG(failed->name));
    else if (o->workers_live == 0 && waiting > 0 && !o->shadow_only)
        (void)snprintf(out, EF__HEALTH_TEXT, "Nobody works, and %" PRId64 " event%s wait%s.",
                       waiting, plural(waiting), waiting == 1 ? "s" : "");
    else
        return false;
    return true;
}

static bool is_behind(const ef__health_facts *o, char out[EF__HEALTH_TEXT])
{
    const ef_projection *last = last_one(o), *paused = in_state(o, "paused");

    if (o->publisher_down.len > 0)
        (void)snprintf(out, EF__HEALTH_TEXT, "Publisher %.*s cannot deliver, and tries again.",
                       EF_STR_ARG(o->publisher_down));
    else if (o->outbox->failed > 0)
        (void)snprintf(out, EF__HEALTH_TEXT, "%" PRId64 " event%s failed and %s tried again.",
                       o->outbox->failed, plural(o->outbox->failed),
                       o->outbox->failed == 1 ? "is" : "are");
    else if (paused)
        (void)snprintf(out, EF__HEALTH_TEXT, "Projection %.*s is paused.",
                       EF_STR_ARG(paused->name));
    else if (last)
        (void)snprintf(out, EF__HEALTH_TEXT,
                       "Catching up: %.*s is %" PRId64 " event%s behind, by %" PRId64 " s.",
                       EF_STR_ARG(last->name), last->lag_events, plural(last->lag_events),
                       last->lag_us / 1000000);
    else
        return false;
    return true;
}

ef__health ef__health_of(const ef__health_facts *o, char out[EF__HEALTH_TEXT])
{
    if (is_trouble(o, out))
        return EF__HEALTH_TROUBLE;
    if (is_behind(o, out))
        return EF__HEALTH_BEHIND;
    (void)snprintf(out, EF__HEALTH_TEXT, "All is well: every event is in every view.");
    if (o->projections->count == 0)
        (void)snprintf(out, EF__HEALTH_TEXT, "All is well; no projection is deployed yet.");
    return EF__HEALTH_WELL;
}

void ef__health_publisher_down(ef_engine *engine, char out[EF__HEALTH_NAME])
{
    ef_publisher_health *is = engine ? calloc(PUBLISHERS_MAX, sizeof *is) : NULL;
    size_t count = is ? ef_engine_publishers(engine, is, PUBLISHERS_MAX) : 0;

    out[0] = '\0';
    for (size_t i = 0; i < count && i < PUBLISHERS_MAX && !out[0]; i++)
        if (is[i].state == EF_PUBLISHER_RETRYING)
            (void)snprintf(out, EF__HEALTH_NAME, "%s", is[i].name);
    free(is);
}
