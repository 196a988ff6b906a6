/*
 * policy.c - see policy.h.
 */
#include "policy.h"

#include "tenant.h"

#include <everfold/replay.h>

#include "../base/logger.h"

#define ACT "on_error"
#define LOOK_AGAIN_US INT64_C(60000000)
#define DEAD_AT_ONCE 1000

ef_status ef__policy_skips(ef_engine *e, ef_str projection, bool *out, ef_error *err)
{
    ef_act_list acts = {0};
    ef_status st =
        ef_act_ls(e->journal, &(ef_act_query){.act = EF_STR(ACT), .lane = projection, .limit = 1},
                  &acts, err);

    *out = st == EF_OK && acts.count && acts.items[0].seq == EF_ON_ERROR_SKIP;
    ef_act_list_release(&acts);
    return st;
}

ef_status ef__policy_is_alarm(ef_engine *e, const ef__generation *g, ef_str tenant, ef_str stream,
                              bool *out, ef_error *err)
{
    ef__watermark mark = {0};
    bool found;
    ef_status st =
        e->views->ops->watermark_get(e->views, g->id, tenant, stream, &mark, &found, err);

    *out = st == EF_OK && ef__watermark_held(&mark);
    return st;
}

/* --- letting pass ------------------------------------------------------------------------------
 */

/* Is its stream held by an alarm in any generation of the projection? */
static ef_status is_alarm(ef_engine *e, const ef__generation_list *list, const ef_row *row,
                          bool *out, ef_error *err)
{
    ef_status st = EF_OK;

    *out = false;
    for (size_t i = 0; st == EF_OK && !*out && i < list->count; i++)
        if (ef_str_equal(list->items[i].name, row->lane) &&
            list->items[i].state != EF__GENERATION_RETIRED)
            st = ef__policy_is_alarm(e, &list->items[i], row->tenant, row->stream, out, err);
    return st;
}

static ef_status pass_row(ef_engine *e, const ef_row *row, ef_tick *tick, ef_error *err)
{
    ef_row_list passed = {0};
    ef_status st = ef_projection_skip(e,
                                      &(ef_outbox_act){.tenant = row->tenant,
                                                       .stream = row->stream,
                                                       .seq = row->seq,
                                                       .lane = row->lane,
                                                       .who = ef_str_from(e->worker),
                                                       .reason = EF_STR(EF__POLICY_REASON)},
                                      &passed, err);

    ef_row_list_release(&passed);
    if (st == EF_OK)
        ef__log(e->options.log, EF_LOG_WARN, "a projection passes over an event",
                EF_LOG_TEXT_FIELD("projection", row->lane),
                EF_LOG_TEXT_FIELD("tenant", row->tenant), EF_LOG_TEXT_FIELD("stream", row->stream),
                EF_LOG_NUMBER_FIELD("seq", row->seq), EF_LOG_TEXT_FIELD("error", row->last_error));
    tick->more = tick->more || st == EF_OK;
    /* It was requeued or applied meanwhile; or a generation is still catching up. */
    return st == EF_NOT_FOUND || st == EF_CONFLICT ? EF_OK : st;
}

static ef_status pass_lane(ef_engine *e, const ef__generation_list *list, ef_str lane,
                           ef_tick *tick, ef_error *err)
{
    ef_row_list rows = {0};
    ef_row_status dead = EF_ROW_DEAD;
    ef_status st =
        ef_outbox_ls(e->journal,
                     &(ef_outbox_query){
                         .lane = lane, .status = &dead, .any_tenant = true, .limit = DEAD_AT_ONCE},
                     &rows, err);

    for (size_t i = 0; st == EF_OK && i < rows.count; i++) {
        bool alarm;
        st = is_alarm(e, list, &rows.items[i], &alarm, err);
        if (st != EF_OK || alarm)
            continue;
        st = pass_row(e, &rows.items[i], tick, err);
    }
    ef_row_list_release(&rows);
    return st == EF_NOT_FOUND ? EF_OK : st; /* nothing has failed there yet */
}

static ef_status pass_all(ef_engine *e, ef_tick *tick, ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st = ef__room_ready(&list.room, err);

    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, (ef_str){0}, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *g = &list.items[i];
        bool first = i == 0 || !ef_str_equal(g->name, list.items[i - 1].name), skips = false;
        if (first)
            st = ef__policy_skips(e, g->name, &skips, err);
        if (st == EF_OK && skips)
            st = pass_lane(e, &list, g->name, tick, err);
    }
    ef__room_release(&list.room);
    return st;
}

ef_status ef__policy_step(ef_engine *e, ef_tick *tick, ef_error *err)
{
    int64_t now_us = e->options.clock->mono_us(e->options.clock->context);
    ef_status st;

    if (now_us < e->policy_next_us)
        return EF_OK;
    st = pass_all(e, tick, err);
    if (st == EF_OK)
        e->policy_next_us = now_us + LOOK_AGAIN_US;
    return st;
}

/* --- telling it --------------------------------------------------------------------------------
 */

ef_status ef_projection_on_error(ef_engine *e, ef_str name, ef_on_error what, ef_str who,
                                 ef_str reason, ef_error *err)
{
    ef__generation_list list = {0};
    const ef__generation *routed;
    ef_tick ignored = {0};
    ef_status st;

    if (!e)
        return ef_fail(err, EF_BAD_INPUT, "engine is NULL");
    if (e->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    if (what != EF_ON_ERROR_STOP && what != EF_ON_ERROR_SKIP)
        return ef_fail(err, EF_BAD_INPUT, "on_error is %d, neither stop nor skip", (int)what);
    st = ef__engine_routed(e, name, &list, &routed, err);
    if (st == EF_OK)
        st = ef_act_add(e->journal,
                        &(ef_act){.act = EF_STR(ACT),
                                  .who = who.len ? who : ef_str_from(e->worker),
                                  .reason = reason,
                                  .lane = name,
                                  .seq = what},
                        err);
    /* What has stopped already: tenants try again, and pass; what is dead is let pass now, and not
     * when a worker looks. */
    for (size_t i = 0; st == EF_OK && what == EF_ON_ERROR_SKIP && i < list.count; i++)
        if (ef_str_equal(list.items[i].name, name))
            st = ef__tenants_resume(e, &list.items[i], err);
    ef__room_release(&list.room);
    return st == EF_OK && what == EF_ON_ERROR_SKIP ? pass_all(e, &ignored, err) : st;
}
