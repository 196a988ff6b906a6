/*
 * failure.c - the events that projections failed on: listing them, and skipping them by the error
 * policy (queue.h).
 */
#include "queue.h"
#include "scope.h"

#include "../base/logger.h"

#include <everfold/replay.h>

#define FAILURES_DEFAULT 100
#define FAILURES_MAX 10000
#define LOOK_AGAIN_US INT64_C(60000000)
#define DEAD_AT_ONCE 1000

static ef_status copy_failure(ef__arena *arena, const ef__generation *generation,
                              const ef__failure *from, ef_failure *to, ef_error *err)
{
    *to = (ef_failure){.projection = generation->name,
                       .version = generation->version,
                       .generation = generation->number,
                       .tenant = from->tenant,
                       .stream = from->stream,
                       .seq = from->seq,
                       .position = from->position,
                       .event_id = from->event_id,
                       .code = from->code,
                       .message = from->message,
                       .line = from->line,
                       .attempts = from->attempts,
                       .open = from->open,
                       .recorded_us = from->recorded_us,
                       .resolved_us = from->open ? 0 : from->resolved_us};
    return ef__arena_own(arena, err, &to->projection, &to->tenant, &to->stream, &to->event_id, &to->code,
                         &to->message, NULL);
}

/* Appends the failures of one generation. */
static ef_status add_failures(ef_engine *engine, const ef__generation *generation,
                              const ef_failure_query *query, size_t limit, ef_failure *items,
                              ef_failure_list *out, ef_error *err)
{
    EF__AUTO(ef__failure_list) found = {0};
    ef_status st =
        engine->views->ops->failure_ls(engine->views, generation->id, query->tenant,
                                       !query->resolved, limit - out->count, &found, err);

    for (size_t i = 0; st == EF_OK && i < found.count; i++) {
        st = copy_failure(&out->room->arena, generation, &found.items[i], &items[out->count], err);
        out->count += st == EF_OK;
    }
    return st;
}

ef_status ef_projection_failures(ef_engine *engine, const ef_failure_query *query,
                                 ef_failure_list *out, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    const ef__generation *active;
    ef_failure *items;
    size_t limit = query && query->limit ? query->limit : FAILURES_DEFAULT;
    ef_status st;

    if (!engine || !query || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL",
                       !engine  ? "engine"
                       : !query ? "query"
                                : "out");
    if (limit > FAILURES_MAX)
        return ef_fail(err, EF_BAD_INPUT, "limit is %zu, at most %d are listed", limit,
                       FAILURES_MAX);
    st = ef__list_prepare(out, err);
    if (st == EF_OK)
        st = ef__engine_active_generation(engine, query->projection, &list, &active, err);
    if (st == EF_OK) {
        items = ef__arena_zalloc(&out->room->arena, limit, sizeof *items);
        st = items ? EF_OK : ef__no_memory(err);
        out->items = items;
    }
    for (size_t i = 0; st == EF_OK && i < list.count && out->count < limit; i++)
        if (list.items[i].state != EF__GENERATION_RETIRED)
            st = add_failures(engine, &list.items[i], query, limit, items, out, err);
    return st;
}

ef_status ef__error_policy_is_alarm(ef_engine *engine, const ef__generation *generation,
                                    ef_str tenant, ef_str stream, bool *out, ef_error *err)
{
    ef__watermark watermark;
    ef_status st = ef__watermark_read(engine, generation, tenant, stream, &watermark, err);

    *out = st == EF_OK && ef__watermark_is_blocked(&watermark);
    return st;
}

/* --- the error policy ------------------------------------------------------------------------- */

/* Is its stream blocked by an alarm in any generation of the projection? */
static ef_status is_alarm(ef_engine *engine, const ef__generation_list *list, const ef_row *row,
                          bool *out, ef_error *err)
{
    ef_status st = EF_OK;

    *out = false;
    for (size_t i = 0; st == EF_OK && !*out && i < list->count; i++)
        if (ef_str_equal(list->items[i].name, row->lane) &&
            list->items[i].state != EF__GENERATION_RETIRED)
            st = ef__error_policy_is_alarm(engine, &list->items[i], row->tenant, row->stream, out,
                                           err);
    return st;
}

static ef_status pass_row(ef_engine *engine, const ef_row *row, ef_tick *tick, ef_error *err)
{
    ef_row_list passed = {0};
    ef_status st =
        ef_projection_skip(engine,
                           &(ef_outbox_action){.tenant = row->tenant,
                                               .stream = row->stream,
                                               .seq = row->seq,
                                               .lane = row->lane,
                                               .actor = ef_str_from(engine->worker),
                                               .reason = EF_STR(EF__ERROR_POLICY_REASON)},
                           &passed, err);

    EF_RELEASE(&passed);
    if (st == EF_OK)
        ef__log(engine->options.log, EF_LOG_WARN, "event skipped by the error policy",
                EF_LOG_TEXT_FIELD("projection", row->lane),
                EF_LOG_TEXT_FIELD("tenant", row->tenant), EF_LOG_TEXT_FIELD("stream", row->stream),
                EF_LOG_NUMBER_FIELD("seq", row->seq), EF_LOG_TEXT_FIELD("error", row->last_error));
    tick->more = tick->more || st == EF_OK;
    /* It was requeued or applied meanwhile, or a generation is still catching up. */
    return st == EF_NOT_FOUND || st == EF_CONFLICT ? EF_OK : st;
}

static ef_status pass_lane(ef_engine *engine, const ef__generation_list *list, ef_str lane,
                           ef_tick *tick, ef_error *err)
{
    ef_row_list rows = {0};
    ef_row_status dead = EF_ROW_DEAD;
    ef_status st =
        ef_outbox_ls(engine->journal,
                     &(ef_outbox_query){
                         .lane = lane, .status = &dead, .any_tenant = true, .limit = DEAD_AT_ONCE},
                     &rows, err);

    for (size_t i = 0; st == EF_OK && i < rows.count; i++) {
        bool alarm;
        st = is_alarm(engine, list, &rows.items[i], &alarm, err);
        if (st != EF_OK || alarm)
            continue;
        st = pass_row(engine, &rows.items[i], tick, err);
    }
    EF_RELEASE(&rows);
    return st == EF_NOT_FOUND ? EF_OK : st; /* the lane has no row yet */
}

static ef_status pass_all(ef_engine *engine, ef_tick *tick, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef_status st = ef__engine_generations(engine, (ef_str){0}, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *generation = &list.items[i];
        bool first = i == 0 || !ef_str_equal(generation->name, list.items[i - 1].name);
        if (first && generation->on_error == EF_ON_ERROR_SKIP)
            st = pass_lane(engine, &list, generation->name, tick, err);
    }
    return st;
}

ef_status ef__error_policy_step(ef_engine *engine, ef_tick *tick, ef_error *err)
{
    int64_t now_us = ef__engine_mono_us(engine);
    ef_status st;

    if (now_us < engine->queue.policy_next_us)
        return EF_OK;
    st = pass_all(engine, tick, err);
    if (st == EF_OK)
        engine->queue.policy_next_us = now_us + LOOK_AGAIN_US;
    return st;
}

/* --- setting the policy ----------------------------------------------------------------------- */

ef_status ef_projection_on_error(ef_engine *engine, ef_str name, ef_on_error what, ef_str actor,
                                 ef_str reason, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    const ef__generation *active;
    ef_tick ignored = {0};
    ef_status st;

    if (!engine)
        return ef_fail(err, EF_BAD_INPUT, "engine is NULL");
    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    if (what != EF_ON_ERROR_STOP && what != EF_ON_ERROR_SKIP)
        return ef_fail(err, EF_BAD_INPUT, "on_error is %d, neither stop nor skip", (int)what);
    st = ef__engine_active_generation(engine, name, &list, &active, err);
    if (st == EF_OK)
        st = ef__engine_audit(engine, "on_error", name, what,
                              actor.len ? actor : ef_str_from(engine->worker), reason, err);
    if (st == EF_OK)
        st = engine->views->ops->on_error_set(engine->views, name, what, err);
    /* Already blocked: stopped tenants are retried and skip; dead rows are skipped now, not at the
     * next check of a worker. */
    for (size_t i = 0; st == EF_OK && what == EF_ON_ERROR_SKIP && i < list.count; i++)
        if (ef_str_equal(list.items[i].name, name))
            st = ef__tenants_resume(engine, &list.items[i], err);
    return st == EF_OK && what == EF_ON_ERROR_SKIP ? pass_all(engine, &ignored, err) : st;
}
