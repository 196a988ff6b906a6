/*
 * generation.c - the active generation of a projection: switch, rollback, retire.
 */
#include "queue.h"
#include "scope.h"
#include "read.h"
#include "run.h"
#include "view_cache.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdio.h>

#define GRACE_LOOK_US 60000000
#define SWEEP_ROWS 1000 /* removed in one transaction; live work waits for it */

ef_status ef__generations_read(ef_engine *engine, ef_str name, ef__generation_list *out,
                               ef_error *err)
{
    ef_status st = ef__engine_generations(engine, name, out, err);

    if (st == EF_OK && (name.len == 0 || out->count == 0))
        st = ef__projection_unknown(engine, name, err);
    return st;
}

const ef__generation *ef__generation_number(const ef__generation_list *list, int64_t number)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].number == number)
            return &list->items[i];
    return NULL;
}

const ef__generation *ef__generation_active(const ef__generation_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].active)
            return &list->items[i];
    return NULL;
}

int64_t ef__generation_highest(const ef__generation_list *list)
{
    int64_t highest = 0;

    for (size_t i = 0; i < list->count; i++)
        highest = list->items[i].number > highest ? list->items[i].number : highest;
    return highest;
}

ef_status ef__generation_add_build(ef_engine *engine, const ef__generation *active, int64_t number,
                                   ef__generation_state state, int64_t *out_id, ef_error *err)
{
    ef__generation made = *active;

    made.number = (int32_t)number; /* unique: a late driver cannot add a second one */
    made.state = state;
    made.active = false;
    made.position = made.seam = made.created_us = 0;
    return engine->views->ops->generation_add(engine->views, &made, out_id, err);
}

static bool matches_choice(const ef__generation *generation, const ef_generation_choice *target)
{
    return generation->state != EF__GENERATION_RETIRED &&
           (target->generation ? generation->number == target->generation
                               : generation->version == target->version);
}

static ef_status not_there(const ef_generation_choice *target, ef_error *err)
{
    return ef_fail(err, EF_NOT_FOUND, "projection \"%.*s\" has no %s %d",
                   EF_STR_ARG(target->projection), target->generation ? "generation" : "version",
                   (int)(target->generation ? target->generation : target->version));
}

/* The newest generation that matches. */
static ef_status choose_generation(const ef__generation_list *list,
                                   const ef_generation_choice *target, const ef__generation **out,
                                   ef_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < list->count; i++)
        if (matches_choice(&list->items[i], target))
            *out = &list->items[i];
    return *out ? EF_OK : not_there(target, err);
}

static ef_status check_route(const ef_engine *engine, const ef_generation_choice *target,
                             bool chosen, ef_error *err)
{
    if (!engine || !target)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "target" : "engine");
    if (chosen && !target->version == !target->generation)
        return ef_fail(err, EF_BAD_INPUT, "a version or a generation is missing");
    return EF_OK;
}

/* Checks the arguments of an operation that changes the projection, and reads its generations. */
static ef_status begin_change(ef_engine *engine, const ef_generation_choice *target, bool chosen,
                              ef__generation_list *list, ef_error *err)
{
    ef_status st = check_route(engine, target, chosen, err);

    if (st == EF_OK && engine->options.read_only)
        st = ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    return st == EF_OK ? ef__generations_read(engine, target->projection, list, err) : st;
}

/* --- switching -------------------------------------------------------------------------------- */

/* Adds rows for generations that keep rows once `to` is active, and do not while `from` is. */
static ef_status add_missing_rows(ef_engine *engine, const ef__generation *from,
                                  const ef__generation *to, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef_status st = EF_OK;

    if (!from || from->number <= to->number)
        return EF_OK;
    st = ef__generations_read(engine, to->name, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].number >= to->number && list.items[i].number < from->number &&
            ef__generation_by_queue(&list.items[i]))
            st = ef__lane_refile(engine, &list.items[i], err);
    return st;
}

/* From here on rows are kept for `to` and for generations after it. Before the switch a worker
 * added no rows for them and may have removed the added ones: they are added once more. Workers
 * would do this too; an operator sees the result at once. */
static ef_status update_lane(ef_engine *engine, const ef__generation *from,
                             const ef__generation *to, ef_error *err)
{
    ef_status st = add_missing_rows(engine, from, to, err);

    if (st == EF_OK)
        st = ef__lane_sweep(engine, to->name, err);
    if (st == EF_OK)
        ef__journal_wake(engine->journal);
    return st;
}

ef_status ef__generation_activate(ef_engine *engine, const ef__generation *from,
                                  const ef__generation *to, const char *act, ef_str actor,
                                  ef_str reason, ef_error *err)
{
    ef_status st = ef_audit_add(engine->journal,
                                &(ef_audit_entry){.action = ef_str_from(act),
                                                  .actor = actor,
                                                  .reason = reason,
                                                  .lane = to->name,
                                                  .seq = from ? from->number : 0},
                                err);

    /* Rows are added before the switch and removed after it: a crash in between leaves superfluous
     * rows, and no gap. */
    if (st == EF_OK)
        st = add_missing_rows(engine, from, to, err);
    if (st == EF_OK)
        st = engine->views->ops->generation_activate(engine->views, to->id, to->era,
                                                     from ? from->number : 0, err);
    ef__read_targets_invalidate(engine);
    return st == EF_OK ? update_lane(engine, from, to, err) : st;
}

/* The lag of each of two generations, in events. */
static ef_status read_lags(ef_engine *engine, const ef__generation *a, const ef__generation *b,
                           int64_t lags[2], ef_error *err)
{
    EF__AUTO(ef_projection_list) list = {0};
    ef_status st = ef_projection_ls(engine, a->name, &list, err);

    lags[0] = lags[1] = 0;
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        if (list.items[i].generation == a->number)
            lags[0] = list.items[i].lag_events + list.items[i].blocked_events;
        if (b && list.items[i].generation == b->number)
            lags[1] = list.items[i].lag_events + list.items[i].blocked_events;
    }
    return st;
}

/* May it become active? Events that the active one lacks too do not count. Two queue-fed
 * generations have the same lag: events that one of them failed on are on record, and do not
 * prevent it. */
static ef_status check_ready(ef_engine *engine, const ef__generation *active,
                             const ef__generation *to, int64_t lag_max, ef_error *err)
{
    int64_t lags[2];
    ef_status st = read_lags(engine, to, active, lags, err);

    if (st != EF_OK)
        return st;
    if (to->state != EF__GENERATION_LIVE)
        return ef_fail_numbers(err, EF_CONFLICT, 0, lags[0],
                               "generation %d of \"%.*s\" is not live yet: it lacks %" PRId64
                               " events, which a worker has to apply first",
                               (int)to->number, EF_STR_ARG(to->name), lags[0]);
    if (active && ef__generation_by_queue(active) && ef__generation_by_queue(to))
        return EF_OK;
    if (lags[0] > lag_max && lags[0] > lags[1])
        return ef_fail_numbers(err, EF_CONFLICT, lag_max, lags[0],
                               "generation %d of \"%.*s\" is behind by %" PRId64
                               " events, at most %" PRId64 " are allowed",
                               (int)to->number, EF_STR_ARG(to->name), lags[0], lag_max);
    return EF_OK;
}

/* The generation that `active` replaced. */
static ef_status choose_previous(const ef__generation_list *list, const ef__generation *active,
                                 ef_str projection, const ef__generation **out, ef_error *err)
{
    if (!active || active->replaced <= 0)
        return ef_fail(err, EF_NOT_FOUND,
                       "projection \"%.*s\" has no earlier active generation to roll back to",
                       EF_STR_ARG(projection));
    *out = ef__generation_number(list, active->replaced);
    return *out ? EF_OK
                : ef_fail(err, EF_NOT_FOUND, "generation %d of \"%.*s\" was retired: rebuild it",
                          (int)active->replaced, EF_STR_ARG(projection));
}

ef_status ef_projection_switch(ef_engine *engine, const ef_generation_choice *target, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    const ef__generation *to = NULL, *from;
    bool back = target && target->previous;
    ef_status st = begin_change(engine, target, !back, &list, err);

    from = ef__generation_active(&list);
    if (st == EF_OK)
        st = back ? choose_previous(&list, from, target->projection, &to, err)
                  : choose_generation(&list, target, &to, err);
    if (st == EF_OK && to->active)
        st = ef_fail(err, EF_CONFLICT, "projection \"%.*s\": generation %d is active already",
                     EF_STR_ARG(to->name), (int)to->number);
    if (st == EF_OK)
        st = check_ready(engine, from, to, target->lag_max, err);
    if (st == EF_OK)
        st = ef__generation_activate(engine, from, to, back ? "rollback" : "switch", target->actor,
                                     target->reason, err);
    return st;
}

/* --- retiring --------------------------------------------------------------------------------- */

ef_status ef__generation_sweep(ef_engine *engine, const ef__generation *generation, int64_t era,
                               bool *out_more, ef_error *err)
{
    char reader[EF__READER_MAX];
    ef_status st = engine->views->ops->generation_remove(engine->views, generation->id, era,
                                                         SWEEP_ROWS, out_more, err);

    if (st == EF_NOT_FOUND) /* another worker removed it */
        return EF_OK;
    if (st == EF_OK && !*out_more) {
        ef__generation_reader(generation, reader);
        ef__journal_unfollow(engine->journal, ef_str_from(reader));
    }
    return st;
}

void ef__generation_reader(const ef__generation *generation, char out[EF__READER_MAX])
{
    (void)snprintf(out, EF__READER_MAX, "%.*s-%" PRId32, EF_STR_ARG(generation->name),
                   generation->number);
}

ef_status ef__retired_step(ef_engine *engine, const ef__generation_list *list, ef_tick *tick,
                           ef_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const ef__generation *generation = &list->items[i];
        bool more;
        if (generation->state != EF__GENERATION_RETIRED || generation->active)
            continue;
        tick->more = true; /* more slices, or the next generation */
        return ef__generation_sweep(engine, generation, generation->era, &more, err);
    }
    return EF_OK;
}

/* The entry comes first, as in deployment.c. */
static ef_status record_retirement(ef_engine *engine, ef_str name, int32_t version, ef_str actor,
                                   ef_str reason, ef_error *err)
{
    ef_status st = ef__engine_audit(engine, "retire", name, version, actor, reason, err);

    return st == EF_OK ? engine->views->ops->version_retire(engine->views, name, version, err) : st;
}

/* A generation that was never active stays: an operator decides about it. */
static ef_status retire_after_grace(ef_engine *engine, const ef__generation *generation,
                                    ef_tick *tick, ef_error *err)
{
    ef_status st;

    if (!generation->superseded_us ||
        ef__engine_now(engine) - generation->superseded_us < engine->options.retire_after_ms * 1000)
        return EF_OK;
    st = record_retirement(engine, generation->name, generation->version, EF_STR("everfold"),
                           EF_STR("the grace period is over"), err);
    if (st == EF_OK)
        st = ef__generation_set_state(engine, generation, EF__GENERATION_RETIRED, err);
    if (st != EF_OK)
        return st == EF_CONFLICT ? EF_OK : st; /* an operator made it active again */
    ef__log(engine->options.log, EF_LOG_INFO, "generation retired after its grace period",
            EF_LOG_TEXT_FIELD("projection", generation->name),
            EF_LOG_NUMBER_FIELD("generation", generation->number));
    tick->more = true;
    return EF_OK;
}

ef_status ef__grace_step(ef_engine *engine, const ef__generation_list *list, ef_tick *tick,
                         ef_error *err)
{
    int64_t now_us = ef__engine_mono_us(engine);
    ef_status st = EF_OK;

    if (engine->options.retire_after_ms <= 0 || engine->is_side_engine ||
        now_us < engine->cursor.grace_next_us)
        return EF_OK;
    for (size_t i = 0; st == EF_OK && i < list->count; i++)
        if (!list->items[i].active && list->items[i].state != EF__GENERATION_RETIRED)
            st = retire_after_grace(engine, &list->items[i], tick, err);
    if (st == EF_OK)
        engine->cursor.grace_next_us = now_us + GRACE_LOOK_US;
    return st;
}

/* May be retired; also one that was retired and not removed completely. */
static bool may_retire(const ef__generation *generation, const ef_generation_choice *target)
{
    return !generation->active &&
           (matches_choice(generation, target) || generation->state == EF__GENERATION_RETIRED);
}

static ef_status retire_generation(ef_engine *engine, const ef__generation *generation,
                                   ef_error *err)
{
    bool is_out = generation->state == EF__GENERATION_RETIRED, more = true;
    ef_status st =
        is_out ? EF_OK : ef__generation_set_state(engine, generation, EF__GENERATION_RETIRED, err);

    while (st == EF_OK && more)
        st = ef__generation_sweep(engine, generation,
                                  is_out ? generation->era : generation->era + 1, &more, err);
    return st;
}

static int32_t version_of(const ef__generation_list *list, const ef_generation_choice *target)
{
    const ef__generation *generation = ef__generation_number(list, target->generation);

    return target->version ? target->version : generation ? generation->version : 0;
}

ef_status ef_projection_retire(ef_engine *engine, const ef_generation_choice *target,
                               int64_t *out_count, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    const ef__generation *active;
    bool is_active;
    int64_t count = 0;
    ef_status st = begin_change(engine, target, true, &list, err);

    active = ef__generation_active(&list);
    is_active = st == EF_OK && active && matches_choice(active, target);
    if (st == EF_OK && is_active && target->generation)
        st = ef_fail(err, EF_CONFLICT,
                     "projection \"%.*s\": generation %d is active; switch to another one first",
                     EF_STR_ARG(target->projection), (int)active->number);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        count += may_retire(&list.items[i], target);
    if (st == EF_OK && count == 0)
        st = is_active
                 ? ef_fail(err, EF_CONFLICT,
                           "projection \"%.*s\": version %d is active; switch to another one first",
                           EF_STR_ARG(target->projection), (int)target->version)
                 : not_there(target, err);
    if (st == EF_OK)
        st = record_retirement(engine, target->projection, version_of(&list, target), target->actor,
                               target->reason, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (may_retire(&list.items[i], target))
            st = retire_generation(engine, &list.items[i], err);
    if (st == EF_OK)
        st = ef__lane_sweep(engine, target->projection, err);
    if (out_count)
        *out_count = st == EF_OK ? count : 0;
    return st;
}

/* --- comparing -------------------------------------------------------------------------------- */

ef_status ef_projection_diff(ef_engine *engine, const ef_generation_choice *left,
                             const ef_generation_choice *right,
                             bool (*each)(void *context, const ef_difference *difference),
                             void *context, ef_diff *out, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    const ef__generation *a = NULL, *b = NULL;
    ef_status st = check_route(engine, left, true, err);

    if (st == EF_OK)
        st = check_route(engine, right, true, err);
    if (st == EF_OK && !out)
        st = ef_fail(err, EF_BAD_INPUT, "out is NULL");
    if (st == EF_OK)
        st = ef__generations_read(engine, left->projection, &list, err);
    if (st == EF_OK)
        st = choose_generation(&list, left, &a, err);
    if (st == EF_OK)
        st = choose_generation(&list, right, &b, err);
    if (st == EF_OK)
        st = ef__generation_check_migrated(engine, a, err);
    if (st == EF_OK)
        st = ef__generation_check_migrated(engine, b, err);
    return st == EF_OK ? ef__generations_compare(engine, a, b, each, context, out, err) : st;
}
