/*
 * generation.c - which generation queries go to: switching, going back, retiring.
 */
#include "lane.h"
#include "migrate.h"
#include "route.h"
#include "run.h"
#include "workset.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdio.h>

#define ACTS_AT_ONCE 100
#define GRACE_LOOK_US 60000000
#define SWEEP_ROWS 1000 /* of a generation that goes, in a transaction: live work waits so long */

ef_status ef__generations_read(ef_engine *e, ef_str name, ef__generation_list *out, ef_error *err)
{
    ef_status st = ef__room_ready(&out->room, err);

    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, name, out, err);
    if (st == EF_OK && (name.len == 0 || out->count == 0))
        st = ef__projection_unknown(e, name, err);
    return st;
}

const ef__generation *ef__generation_number(const ef__generation_list *list, int64_t number)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].number == number)
            return &list->items[i];
    return NULL;
}

static const ef__generation *routed_of(const ef__generation_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].routed)
            return &list->items[i];
    return NULL;
}

static bool fits(const ef__generation *g, const ef_route *route)
{
    return g->state != EF__GENERATION_RETIRED &&
           (route->generation ? g->number == route->generation : g->version == route->version);
}

static ef_status not_there(const ef_route *route, ef_error *err)
{
    return ef_fail(err, EF_NOT_FOUND, "projection \"%.*s\" has no %s %d",
                   EF_STR_ARG(route->projection), route->generation ? "generation" : "version",
                   (int)(route->generation ? route->generation : route->version));
}

/* The newest that fits. */
static ef_status choose(const ef__generation_list *list, const ef_route *route,
                        const ef__generation **out, ef_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < list->count; i++)
        if (fits(&list->items[i], route))
            *out = &list->items[i];
    return *out ? EF_OK : not_there(route, err);
}

static ef_status check_route(const ef_engine *e, const ef_route *route, bool chosen, ef_error *err)
{
    if (!e || !route)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "route" : "engine");
    if (chosen && !route->version == !route->generation)
        return ef_fail(err, EF_BAD_INPUT, "give a version or a generation");
    return EF_OK;
}

static ef_status check_writable(const ef_engine *e, ef_error *err)
{
    return e->options.read_only ? ef_fail(err, EF_MISUSE, "the engine was opened read-only")
                                : EF_OK;
}

/* --- the route -------------------------------------------------------------------------------- */

/* File what the generations lack that keep rows once `to` is the active one, and do not while
 * `from` is. */
static ef_status file_lacking(ef_engine *e, const ef__generation *from, const ef__generation *to,
                              ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st = EF_OK;

    if (!from || from->number <= to->number)
        return EF_OK;
    st = ef__generations_read(e, to->name, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].number >= to->number && list.items[i].number < from->number &&
            ef__generation_by_queue(&list.items[i]))
            st = ef__lane_file(e, &list.items[i], err);
    ef__generation_list_release(&list);
    return st;
}

/* From here on rows are kept for `to` and those that were made after it. Until the route moved, a
 * worker filed nothing for them and may have removed what was filed: it is filed once more. Workers
 * would do this too, but an operator wants to see it done. */
static ef_status settle_lane(ef_engine *e, const ef__generation *from, const ef__generation *to,
                             ef_error *err)
{
    ef_status st = file_lacking(e, from, to, err);

    if (st == EF_OK)
        st = ef__lane_sweep(e, to->name, err);
    if (st == EF_OK)
        ef__journal_nudge(e->journal);
    return st;
}

ef_status ef__generation_route(ef_engine *e, const ef__generation *from, const ef__generation *to,
                               const char *act, ef_str who, ef_str reason, ef_error *err)
{
    ef_status st = ef_act_add(e->journal,
                              &(ef_act){.act = ef_str_from(act),
                                        .who = who,
                                        .reason = reason,
                                        .lane = to->name,
                                        .seq = from ? from->number : 0},
                              err);

    /* Rows come before the route moves and go after it: a process that ends in between leaves rows
     * too many, and not one too few. */
    if (st == EF_OK)
        st = file_lacking(e, from, to, err);
    if (st == EF_OK)
        st = e->views->ops->generation_route(e->views, to->id, to->era, err);
    ef__routes_outdate(e);
    if (st == EF_OK)
        st = settle_lane(e, from, to, err);
    return st;
}

/* How many events each of two generations is behind. */
static ef_status read_lags(ef_engine *e, const ef__generation *a, const ef__generation *b,
                           int64_t lags[2], ef_error *err)
{
    ef_projection_list list = {0};
    ef_status st = ef_projection_ls(e, a->name, &list, err);

    lags[0] = lags[1] = 0;
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        if (list.items[i].generation == a->number)
            lags[0] = list.items[i].lag_events + list.items[i].blocked_events;
        if (b && list.items[i].generation == b->number)
            lags[1] = list.items[i].lag_events + list.items[i].blocked_events;
    }
    ef_projection_list_release(&list);
    return st;
}

/* May queries go to it? What the routed one lacks too is no step back. Two that are fed by the
 * queue are equally far: what one of them cannot digest is on record, and no reason to stay. */
static ef_status check_ready(ef_engine *e, const ef__generation *routed, const ef__generation *to,
                             int64_t lag_max, ef_error *err)
{
    int64_t lags[2];
    ef_status st = read_lags(e, to, routed, lags, err);

    if (st != EF_OK)
        return st;
    if (to->state != EF__GENERATION_LIVE)
        return ef_fail_numbers(err, EF_CONFLICT, 0, lags[0],
                               "generation %d of \"%.*s\" is not live yet: it lacks %" PRId64
                               " events; is a worker there?",
                               (int)to->number, EF_STR_ARG(to->name), lags[0]);
    if (routed && ef__generation_by_queue(routed) && ef__generation_by_queue(to))
        return EF_OK;
    if (lags[0] > lag_max && lags[0] > lags[1])
        return ef_fail_numbers(err, EF_CONFLICT, lag_max, lags[0],
                               "generation %d of \"%.*s\" is behind by %" PRId64
                               " events, at most %" PRId64 " are allowed",
                               (int)to->number, EF_STR_ARG(to->name), lags[0], lag_max);
    return EF_OK;
}

ef_status ef_projection_switch(ef_engine *e, const ef_route *route, ef_error *err)
{
    ef__generation_list list = {0};
    const ef__generation *to = NULL, *from;
    ef_status st = check_route(e, route, true, err);

    if (st == EF_OK)
        st = check_writable(e, err);
    if (st == EF_OK)
        st = ef__generations_read(e, route->projection, &list, err);
    if (st == EF_OK)
        st = choose(&list, route, &to, err);
    from = routed_of(&list);
    if (st == EF_OK && to->routed)
        st = ef_fail(err, EF_CONFLICT, "queries for \"%.*s\" go to generation %d already",
                     EF_STR_ARG(to->name), (int)to->number);
    if (st == EF_OK)
        st = check_ready(e, from, to, route->lag_max, err);
    if (st == EF_OK)
        st = ef__generation_route(e, from, to, "switch", route->who, route->reason, err);
    ef__generation_list_release(&list);
    return st;
}

/* --- and back --------------------------------------------------------------------------------- */

static bool is_move(const ef_act *act)
{
    return ef_str_equal(act->act, EF_STR("switch")) || ef_str_equal(act->act, EF_STR("rollback"));
}

/* The newest note of a move from generation `from` (0: any), but not from `but`. Its seq in
 * *out_number and its time; 0 when there is none. */
static ef_status last_move(ef_engine *e, ef_str name, int64_t from, int64_t but,
                           int64_t *out_number, int64_t *out_at_us, ef_error *err)
{
    ef_act_query query = {.lane = name, .limit = ACTS_AT_ONCE};
    ef_act_list acts = {0};
    ef_status st;

    *out_number = *out_at_us = 0;
    do {
        st = ef_act_ls(e->journal, &query, &acts, err);
        for (size_t i = 0; st == EF_OK && *out_number == 0 && i < acts.count; i++) {
            const ef_act *act = &acts.items[i];
            if (is_move(act) && act->seq != but && (from == 0 || act->seq == from)) {
                *out_number = act->seq;
                *out_at_us = act->at_us;
            }
        }
        query.before = st == EF_OK && acts.count ? acts.items[acts.count - 1].id : 0;
    } while (st == EF_OK && *out_number == 0 && acts.count == ACTS_AT_ONCE);
    ef_act_list_release(&acts);
    return st;
}

ef_status ef_projection_rollback(ef_engine *e, const ef_route *route, ef_error *err)
{
    ef__generation_list list = {0};
    const ef__generation *to = NULL, *from = NULL;
    int64_t number = 0, at_us;
    ef_status st = check_route(e, route, false, err);

    if (st == EF_OK)
        st = check_writable(e, err);
    if (st == EF_OK)
        st = ef__generations_read(e, route->projection, &list, err);
    if (st == EF_OK) {
        from = routed_of(&list);
        /* A note whose switch never came is passed over: it leads to where queries go now. */
        st = from ? last_move(e, from->name, 0, from->number, &number, &at_us, err) : EF_OK;
    }
    if (st == EF_OK && number == 0)
        st = ef_fail(err, EF_NOT_FOUND, "queries for \"%.*s\" have gone to no other generation",
                     EF_STR_ARG(route->projection));
    if (st == EF_OK) {
        to = ef__generation_number(&list, number);
        st = to ? check_ready(e, from, to, route->lag_max, err)
                : ef_fail(err, EF_NOT_FOUND,
                          "generation %" PRId64 " of \"%.*s\" was retired: rebuild it", number,
                          EF_STR_ARG(route->projection));
    }
    if (st == EF_OK)
        st = ef__generation_route(e, from, to, "rollback", route->who, route->reason, err);
    ef__generation_list_release(&list);
    return st;
}

ef_status ef__version_is_retired(ef_engine *e, ef_str name, int64_t version, bool *out,
                                 ef_error *err)
{
    ef_act_query query = {.lane = name, .limit = ACTS_AT_ONCE};
    ef_act_list acts = {0};
    bool known = false;
    ef_status st;

    *out = false;
    do {
        st = ef_act_ls(e->journal, &query, &acts, err);
        for (size_t i = 0; st == EF_OK && !known && i < acts.count; i++) {
            const ef_act *act = &acts.items[i];
            *out = ef_str_equal(act->act, EF_STR("retire")) && act->seq == version;
            known = *out || (ef_str_equal(act->act, EF_STR("deploy")) && act->seq == version);
        }
        query.before = st == EF_OK && acts.count ? acts.items[acts.count - 1].id : 0;
    } while (st == EF_OK && !known && acts.count == ACTS_AT_ONCE);
    ef_act_list_release(&acts);
    return st;
}

/* --- the end of one --------------------------------------------------------------------------- */

ef_status ef__generation_retire(ef_engine *e, const ef__generation *g, ef_error *err)
{
    return e->views->ops->generation_set_state(e->views, g->id, g->era, EF__GENERATION_RETIRED,
                                               err);
}

ef_status ef__generation_sweep(ef_engine *e, const ef__generation *g, int64_t era, bool *out_more,
                               ef_error *err)
{
    char reader[EF__READER_MAX];
    ef_status st =
        e->views->ops->generation_remove(e->views, g->id, era, SWEEP_ROWS, out_more, err);

    if (st == EF_NOT_FOUND) /* another worker was quicker */
        return EF_OK;
    if (st == EF_OK && !*out_more) {
        ef__generation_reader(g, reader);
        ef__journal_unfollow(e->journal, ef_str_from(reader));
    }
    return st;
}

void ef__generation_reader(const ef__generation *g, char out[EF__READER_MAX])
{
    (void)snprintf(out, EF__READER_MAX, "%.*s-%" PRId32, EF_STR_ARG(g->name), g->number);
}

ef_status ef__retired_step(ef_engine *e, const ef__generation_list *list, ef_tick *tick,
                           ef_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const ef__generation *g = &list->items[i];
        bool more;
        if (g->state != EF__GENERATION_RETIRED || g->routed)
            continue;
        tick->more = true; /* of it, or of the next */
        return ef__generation_sweep(e, g, g->era, &more, err);
    }
    return EF_OK;
}

/* Queries never went to one that has no note: that one is somebody's to decide about. */
static ef_status retire_if_left(ef_engine *e, const ef__generation *g, ef_tick *tick, ef_error *err)
{
    int64_t number, left_us;
    ef_status st = last_move(e, g->name, g->number, 0, &number, &left_us, err);

    if (st != EF_OK || !number || ef__engine_now(e) - left_us < e->options.retire_after_ms * 1000)
        return st;
    st = ef__engine_note(e, "retire", g->name, g->version, EF_STR("everfold"),
                         EF_STR("queries left it long ago"), err);
    if (st == EF_OK)
        st = ef__generation_retire(e, g, err);
    if (st != EF_OK)
        return st == EF_CONFLICT ? EF_OK : st; /* an operator has gone back to it */
    ef__log(e->options.log, EF_LOG_INFO, "a generation is retired: queries left it long ago",
            EF_LOG_TEXT_FIELD("projection", g->name), EF_LOG_NUMBER_FIELD("generation", g->number));
    tick->more = true;
    return EF_OK;
}

ef_status ef__grace_step(ef_engine *e, const ef__generation_list *list, ef_tick *tick,
                         ef_error *err)
{
    int64_t now_us = e->options.clock->mono_us(e->options.clock->context);
    ef_status st = EF_OK;

    if (e->options.retire_after_ms <= 0 || e->ghost || now_us < e->grace_next_us)
        return EF_OK;
    for (size_t i = 0; st == EF_OK && i < list->count; i++)
        if (!list->items[i].routed && list->items[i].state != EF__GENERATION_RETIRED)
            st = retire_if_left(e, &list->items[i], tick, err);
    if (st == EF_OK)
        e->grace_next_us = now_us + GRACE_LOOK_US;
    return st;
}

/* One of those that are to go; also one that was retired and not removed, for a process ended. */
static bool may_go(const ef__generation *g, const ef_route *route)
{
    return !g->routed && (fits(g, route) || g->state == EF__GENERATION_RETIRED);
}

static ef_status retire(ef_engine *e, const ef__generation *g, ef_error *err)
{
    bool is_out = g->state == EF__GENERATION_RETIRED, more = true;
    ef_status st = is_out ? EF_OK : ef__generation_retire(e, g, err);

    while (st == EF_OK && more)
        st = ef__generation_sweep(e, g, is_out ? g->era : g->era + 1, &more, err);
    return st;
}

static int32_t version_of(const ef__generation_list *list, const ef_route *route)
{
    const ef__generation *g = ef__generation_number(list, route->generation);

    return route->version ? route->version : g ? g->version : 0;
}

ef_status ef_projection_retire(ef_engine *e, const ef_route *route, int64_t *out_count,
                               ef_error *err)
{
    ef__generation_list list = {0};
    int64_t count = 0;
    ef_status st = check_route(e, route, true, err);

    if (st == EF_OK)
        st = check_writable(e, err);
    if (st == EF_OK)
        st = ef__generations_read(e, route->projection, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].routed && fits(&list.items[i], route) && route->generation)
            st = ef_fail(err, EF_CONFLICT,
                         "queries for \"%.*s\" go to generation %d: switch to another first",
                         EF_STR_ARG(route->projection), (int)list.items[i].number);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        count += may_go(&list.items[i], route);
    if (st == EF_OK && count == 0)
        st = routed_of(&list) && fits(routed_of(&list), route)
                 ? ef_fail(err, EF_CONFLICT,
                           "queries for \"%.*s\" go to version %d: switch to another first",
                           EF_STR_ARG(route->projection), (int)route->version)
                 : not_there(route, err);
    if (st == EF_OK) /* noted first, as in deploy.c: a record too many, and not one too few */
        st = ef__engine_note(e, "retire", route->projection, version_of(&list, route), route->who,
                             route->reason, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (may_go(&list.items[i], route))
            st = retire(e, &list.items[i], err);
    if (st == EF_OK)
        st = ef__lane_sweep(e, route->projection, err);
    if (out_count)
        *out_count = st == EF_OK ? count : 0;
    ef__generation_list_release(&list);
    return st;
}

/* --- comparing two ---------------------------------------------------------------------------- */

ef_status ef_projection_diff(ef_engine *e, const ef_route *left, const ef_route *right,
                             bool (*each)(void *context, const ef_difference *difference),
                             void *context, ef_diff *out, ef_error *err)
{
    ef__generation_list list = {0};
    const ef__generation *a = NULL, *b = NULL;
    ef_status st = check_route(e, left, true, err);

    if (st == EF_OK)
        st = check_route(e, right, true, err);
    if (st == EF_OK && !out)
        st = ef_fail(err, EF_BAD_INPUT, "out is NULL");
    if (st == EF_OK)
        st = ef__generations_read(e, left->projection, &list, err);
    if (st == EF_OK)
        st = choose(&list, left, &a, err);
    if (st == EF_OK)
        st = choose(&list, right, &b, err);
    if (st == EF_OK)
        st = ef__generation_is_whole(e, a, err);
    if (st == EF_OK)
        st = ef__generation_is_whole(e, b, err);
    if (st == EF_OK)
        st = ef__generations_compare(e, a, b, each, context, out, err);
    ef__generation_list_release(&list);
    return st;
}
