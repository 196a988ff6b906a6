/*
 * tenant.c - see tenant.h.
 */
#include "tenant.h"

#include "queue.h"
#include "scope.h"
#include "skip.h"
#include "view_cache.h"

#include "../base/logger.h"
#include "../core/retry.h"

#include <stdlib.h>

#define HEAL_MS 60000 /* retry interval of a failed tenant */
#define TENANTS_PER_TICK                                                                           \
    16 /* per generation, so that the generation's own cursor does not wait long */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in the cursor driver");
}

bool ef__tenant_has_failed(const ef_engine *engine, const ef__tenant_cursor *cursor)
{
    int64_t attempts_max = engine->retry.cursor.attempts_max;

    return attempts_max > 0 && cursor->attempts >= attempts_max;
}

/* --- in a batch ------------------------------------------------------------------------------- */

void ef__stopped_tenants_release(ef__stopped_tenants *left)
{
    ef__pair_map_release(&left->known);
}

static ef_status add_change(const ef__apply *apply, ef__stopped_tenants *left, ef_str tenant,
                            ef__tenant_cursor before, ef__tenant_cursor after, ef_error *err)
{
    if (!left->items)
        left->items = ef__arena_alloc(left->arena, (apply->event_count + 1) * sizeof *left->items);
    if (!left->items)
        return no_memory(err);
    left->items[left->count++] =
        (ef__tenant_cursor_change){.tenant = tenant, .before = before, .after = after};
    return EF_OK;
}

ef_status ef__tenant_is_excluded(ef_engine *engine, ef__apply *apply, ef__stopped_tenants *left,
                                 const ef_event *event, bool *out, ef_error *err)
{
    const ef__generation *generation = left->generation;
    ef__tenant_cursor_item item;
    bool is_new, found = false;
    size_t *place;
    ef_status st = EF_OK;

    *out = false;
    if (apply->tenant || (generation->own_cursors == 0 && left->count == 0))
        return EF_OK; /* the common case */
    place = ef__pair_map_at(&left->known, event->tenant, EF_STR(""), &is_new);
    if (!place)
        return no_memory(err);
    if (is_new && generation->own_cursors)
        st = engine->views->ops->tenant_cursor_get(engine->views, generation->id, event->tenant,
                                                   &item, &found, err);
    if (st == EF_OK && found) {
        st = add_change(apply, left, event->tenant, item.cursor, item.cursor, err);
        *place = left->count;
    }
    *out = st == EF_OK && *place != 0;
    if (*out)
        left->items[*place - 1].after.waiting++;
    return st;
}

/* One more failure: sets the time of the next attempt; at once if the event will be skipped. */
static void count_failure(ef_engine *engine, const ef__generation *generation, bool may_skip,
                          int64_t failures, ef__tenant_cursor *cursor)
{
    ef__retry_step step =
        ef__retry_decide(&engine->retry.cursor, failures, EF__ERROR_PERMANENT, (uint64_t)failures);
    int64_t wait_ms = step.dead ? HEAL_MS : step.delay_ms;
    bool skips = step.dead && may_skip && generation->on_error == EF_ON_ERROR_SKIP;

    cursor->attempts = step.attempts;
    cursor->due_us = ef__engine_now(engine) + (skips ? 0 : wait_ms * 1000);
}

ef_status ef__tenant_stop(ef_engine *engine, ef__apply *apply, ef__stopped_tenants *left,
                          size_t index, bool may_skip, ef_error *err)
{
    const ef_event *event = apply->events[index].event;
    ef__tenant_cursor before = {0}, after = {.waiting = 1};
    bool is_new;
    size_t *place = ef__pair_map_at(&left->known, event->tenant, EF_STR(""), &is_new);
    ef_status st;

    if (!place)
        return no_memory(err);
    if (apply->tenant) {
        before = apply->tenant->cursor;
        after.waiting = before.waiting - (int64_t)index;
    }
    after.position = event->position - 1;
    count_failure(engine, left->generation, may_skip, index == 0 ? before.attempts : 0, &after);
    st = add_change(apply, left, event->tenant, before, after, err);
    *place = left->count;
    return st;
}

ef_status ef__tenant_advance(ef_engine *engine, ef__apply *apply, ef__stopped_tenants *left,
                             ef_error *err)
{
    const ef__tenant_cursor *before = &apply->tenant->cursor;

    return add_change(apply, left, apply->tenant->tenant, *before,
                      (ef__tenant_cursor){.position = apply->cursor_after,
                                          .waiting = before->waiting - (int64_t)apply->event_count,
                                          .due_us = ef__engine_now(engine)},
                      err);
}

/* Logs only that a tenant stopped, and that it failed; attempts in between are on record. */
static void log_change(const ef_engine *engine, ef_str projection,
                       const ef__tenant_cursor_change *change)
{
    bool fails = ef__tenant_has_failed(engine, &change->after) &&
                 !ef__tenant_has_failed(engine, &change->before);
    char name[EF__SCOPE_MAX];

    if (!fails && !ef__tenant_cursor_is_none(&change->before))
        return;
    ef__scope_format(change->tenant, projection, name);
    ef__log(engine->options.log, EF_LOG_WARN,
            fails ? "projection failed for tenant" : "projection stopped for tenant: event failed",
            EF_LOG_TEXT_FIELD("scope", ef_str_from(name)),
            EF_LOG_NUMBER_FIELD("position", change->after.position + 1));
}

void ef__tenants_report(const ef_engine *engine, const ef__apply *apply, ef_tick *tick)
{
    for (size_t i = 0; i < apply->tenant_count; i++) {
        const ef__tenant_cursor_change *change = &apply->tenants[i];
        log_change(engine, apply->generations[0].generation->name, change);
        if (change->after.attempts)
            ef__tick_wake_at(tick, change->after.due_us);
    }
}

/* --- a tenant with its own cursor ------------------------------------------------------------- */

/* Its next events up to the generation's cursor; while it fails, only the event that failed. */
static ef_status read_events(ef_engine *engine, const ef__generation *generation,
                             const ef__tenant_cursor_item *item, ef_batch *out,
                             int64_t *out_reached, ef_error *err)
{
    size_t most = EF__ENGINE_BATCH < engine->cursor_batch ? EF__ENGINE_BATCH : engine->cursor_batch;
    ef_status st = ef_journal_read_log(engine->journal,
                                       &(ef_log_query){.tenant = item->tenant,
                                                       .after = item->cursor.position,
                                                       .limit = item->cursor.attempts ? 1 : most,
                                                       .out_reached = out_reached},
                                       out, err);

    if (st != EF_OK)
        return st;
    while (out->count && out->events[out->count - 1].position > generation->position)
        out->count--;
    if (*out_reached > generation->position)
        *out_reached = generation->position;
    return EF_OK;
}

/* May the event that failed be skipped? Then the skip is recorded before it is carried out. */
static ef_status skip_failed_event(ef_engine *engine, const ef__generation *generation,
                                   const ef__tenant_cursor_item *item, const ef_batch *batch,
                                   bool *out, ef_error *err)
{
    bool alarm = false;
    ef_status st;

    *out = false;
    if (!ef__tenant_has_failed(engine, &item->cursor) || batch->count == 0 ||
        generation->on_error != EF_ON_ERROR_SKIP)
        return EF_OK;
    const ef_event *event = &batch->events[0];
    st = ef__error_policy_is_alarm(engine, generation, event->tenant, event->stream, &alarm, err);
    *out = !alarm;
    if (st != EF_OK || !*out)
        return st;
    ef__log(engine->options.log, EF_LOG_WARN, "event skipped by the error policy",
            EF_LOG_TEXT_FIELD("projection", generation->name),
            EF_LOG_TEXT_FIELD("tenant", event->tenant), EF_LOG_TEXT_FIELD("stream", event->stream),
            EF_LOG_NUMBER_FIELD("seq", event->seq));
    return ef__skips_add(engine, generation, event, EF_STR(EF__ERROR_POLICY_REASON), err);
}

static ef_status apply_events(ef_engine *engine, const ef__live *live, const ef__scope *scope,
                              const ef__tenant_cursor_item *item, const ef_batch *batch,
                              int64_t reached, ef_tick *tick, ef_error *err)
{
    ef__apply apply = {.generations = live,
                       .generation_count = 1,
                       .reads_skips = true,
                       .tenant = item,
                       .cursor_after = reached,
                       .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    bool passes;
    ef_status st = skip_failed_event(engine, live->generation, item, batch, &passes, err);

    if (st == EF_OK)
        st = ef__scope_apply(engine, scope, batch, passes, &apply, tick, err);
    if (st == EF_OK)
        tick->more = tick->more || !apply.stopped;
    ef__apply_release(&apply);
    return st;
}

static ef_status step_tenant(ef_engine *engine, const ef__live *live, const ef__scope *scope,
                             const ef__tenant_cursor_item *item, ef_tick *tick, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t reached = item->cursor.position;
    ef_status st;

    /* The generation was read before we had the lease, and another worker has advanced it since:
     * its old cursor is not where the tenant should stop. */
    if (reached > live->generation->position) {
        tick->more = true;
        return EF_OK;
    }
    st = read_events(engine, live->generation, item, &batch, &reached, err);

    /* A journal that lost its last events has nothing to continue with. */
    if (st == EF_OK &&
        (batch.count || reached > item->cursor.position || reached == live->generation->position))
        st = apply_events(engine, live, scope, item, &batch, reached, tick, err);
    EF_RELEASE(&batch);
    return st;
}

ef_status ef__tenants_step(ef_engine *engine, const ef__live *live, ef_tick *tick, ef_error *err)
{
    const ef__generation *generation = live->generation;
    int64_t now_us = ef__engine_now(engine);
    ef__tenant_cursor_list list = {0};
    ef__scope *scope = ef__scope_of(engine, generation);
    size_t due = 0;
    bool ready;
    ef_status st = scope ? ef__scope_ready(engine, scope, tick, &ready, err) : no_memory(err);

    if (st != EF_OK || !ready)
        return st;
    st = engine->views->ops->tenant_cursor_ls(engine->views, generation->id, INT64_MAX,
                                              TENANTS_PER_TICK, &list, err);
    while (st == EF_OK && due < list.count && list.items[due].cursor.due_us <= now_us)
        st = step_tenant(engine, live, scope, &list.items[due++], tick, err);
    if (due == TENANTS_PER_TICK)
        tick->more = true;
    else if (st == EF_OK && due < list.count)
        ef__tick_wake_at(tick, list.items[due].cursor.due_us);
    EF_RELEASE(&list);
    return ef__scope_result(engine, scope, st, tick);
}

/* --- all tenants of a generation -------------------------------------------------------------- */

static ef_status list_all(ef_engine *engine, const ef__generation *generation,
                          ef__tenant_cursor_list *out, ef_error *err)
{
    return engine->views->ops->tenant_cursor_ls(engine->views, generation->id, INT64_MAX,
                                                (size_t)generation->own_cursors, out, err);
}

ef_status ef__tenants_resume(ef_engine *engine, const ef__generation *generation, ef_error *err)
{
    ef__tenant_cursor_list list = {0};
    ef__tenant_cursor_change *changes = NULL;
    size_t count = 0;
    ef_status st;

    if (generation->own_cursors == 0)
        return EF_OK;
    st = list_all(engine, generation, &list, err);
    changes = calloc(list.count + 1, sizeof *changes);
    if (st == EF_OK && !changes)
        st = no_memory(err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__tenant_cursor_item *item = &list.items[i];
        ef__tenant_cursor after = item->cursor;
        after.attempts = after.due_us = 0;
        if (item->cursor.attempts)
            changes[count++] = (ef__tenant_cursor_change){item->tenant, item->cursor, after};
    }
    if (st == EF_OK && count)
        st = engine->views->ops->commit(
            engine->views,
            &(ef__views_commit){.generations =
                                    &(ef__generation_change){.generation = generation->id,
                                                             .era = generation->era,
                                                             .tenants = changes,
                                                             .tenant_count = count},
                                .generation_count = 1},
            err);
    free(changes);
    EF_RELEASE(&list);
    return st;
}

ef_status ef__tenants_are_level(ef_engine *engine, const ef__generation *a, const ef__generation *b,
                                bool *out, ef_error *err)
{
    ef__tenant_cursor_list list = {0};
    ef_status st = EF_OK;

    *out = a->position == b->position && a->own_cursors == b->own_cursors;
    if (*out && a->own_cursors)
        st = list_all(engine, a, &list, err);
    for (size_t i = 0; st == EF_OK && *out && i < list.count; i++) {
        ef__tenant_cursor_item other;
        bool found;
        st = engine->views->ops->tenant_cursor_get(engine->views, b->id, list.items[i].tenant,
                                                   &other, &found, err);
        *out = found && other.cursor.position == list.items[i].cursor.position;
    }
    EF_RELEASE(&list);
    return st;
}
