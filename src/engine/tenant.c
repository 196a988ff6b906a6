/*
 * tenant.c - see tenant.h.
 */
#include "tenant.h"

#include "policy.h"
#include "scope.h"
#include "skip.h"
#include "workset.h"

#include "../base/logger.h"
#include "../core/retry.h"

#include <stdlib.h>

#define HEAL_MS 60000     /* a failed one is tried again so often */
#define TENANTS_A_TICK 16 /* of one generation: the generation's own cursor is not to wait long */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in the cursor driver");
}

bool ef__tenant_has_failed(const ef_engine *e, const ef__tenant_cursor *cursor)
{
    int64_t attempts_max = e->retry.cursor.attempts_max;

    return attempts_max > 0 && cursor->attempts >= attempts_max;
}

/* --- in a batch --------------------------------------------------------------------------------
 */

void ef__left_behind_release(ef__left_behind *left)
{
    ef__pair_map_release(&left->known);
}

static ef_status add_change(ef__apply *apply, ef__left_behind *left, ef_str tenant,
                            ef__tenant_cursor before, ef__tenant_cursor after, ef_error *err)
{
    if (!left->items)
        left->items =
            ef__arena_alloc(&apply->arena, (apply->event_count + 1) * sizeof *left->items);
    if (!left->items)
        return no_memory(err);
    left->items[left->count++] =
        (ef__tenant_cursor_change){.tenant = tenant, .before = before, .after = after};
    return EF_OK;
}

ef_status ef__tenant_leaves_out(ef_engine *e, ef__apply *apply, ef__left_behind *left,
                                const ef_event *event, bool *out, ef_error *err)
{
    const ef__generation *g = apply->generations[0].generation;
    ef__tenant_cursor_item item;
    bool is_new, found = false;
    size_t *place;
    ef_status st = EF_OK;

    *out = false;
    if (apply->tenant || (g->own_cursors == 0 && left->count == 0))
        return EF_OK; /* as nearly always */
    place = ef__pair_map_at(&left->known, event->tenant, EF_STR(""), &is_new);
    if (!place)
        return no_memory(err);
    if (is_new && g->own_cursors)
        st = e->views->ops->tenant_cursor_get(e->views, g->id, event->tenant, &item, &found, err);
    if (st == EF_OK && found) {
        st = add_change(apply, left, event->tenant, item.cursor, item.cursor, err);
        *place = left->count;
    }
    *out = st == EF_OK && *place != 0;
    if (*out)
        left->items[*place - 1].after.waiting++;
    return st;
}

/* One more failure: when it is tried again. What is to be let pass is so at once. */
static ef_status count_failure(ef_engine *e, ef_str projection, bool may_pass, int64_t failures,
                               ef__tenant_cursor *cursor, ef_error *err)
{
    ef__retry_step step =
        ef__retry_decide(&e->retry.cursor, failures, EF__ERROR_PERMANENT, (uint64_t)failures);
    int64_t wait_ms = step.dead ? HEAL_MS : step.delay_ms;
    bool skips = false;
    ef_status st = EF_OK;

    if (step.dead && may_pass)
        st = ef__policy_skips(e, projection, &skips, err);
    cursor->attempts = step.attempts;
    cursor->due_us = ef__engine_now(e) + (skips ? 0 : wait_ms * 1000);
    return st;
}

ef_status ef__tenant_stops(ef_engine *e, ef__apply *apply, ef__left_behind *left, size_t index,
                           bool may_pass, ef_error *err)
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
    st = count_failure(e, apply->generations[0].generation->name, may_pass,
                       index == 0 ? before.attempts : 0, &after, err);
    if (st == EF_OK)
        st = add_change(apply, left, event->tenant, before, after, err);
    *place = left->count;
    return st;
}

ef_status ef__tenant_went_on(ef_engine *e, ef__apply *apply, ef__left_behind *left, ef_error *err)
{
    const ef__tenant_cursor *before = &apply->tenant->cursor;

    return add_change(apply, left, apply->tenant->tenant, *before,
                      (ef__tenant_cursor){.position = apply->cursor_after,
                                          .waiting = before->waiting - (int64_t)apply->event_count,
                                          .due_us = ef__engine_now(e)},
                      err);
}

/* Stopping and giving up are told once; the tries between are on record. */
static void log_change(const ef_engine *e, ef_str projection, const ef__tenant_cursor_change *c)
{
    bool fails = ef__tenant_has_failed(e, &c->after) && !ef__tenant_has_failed(e, &c->before);
    char name[EF__SCOPE_MAX];

    if (!fails && !ef__tenant_cursor_is_none(&c->before))
        return;
    ef__scope_format(c->tenant, projection, name);
    ef__log(e->options.log, EF_LOG_WARN,
            fails ? "a scope has failed: its cursor stays"
                  : "a scope stops: its program cannot digest an event",
            EF_LOG_TEXT_FIELD("scope", ef_str_from(name)),
            EF_LOG_NUMBER_FIELD("position", c->after.position + 1));
}

static void look_again(ef_tick *tick, int64_t now_us, int64_t due_us)
{
    if (due_us > now_us && (tick->due_us == 0 || due_us < tick->due_us))
        tick->due_us = due_us;
}

void ef__tenants_settled(const ef_engine *e, const ef__apply *apply, ef_tick *tick)
{
    for (size_t i = 0; i < apply->tenant_count; i++) {
        const ef__tenant_cursor_change *c = &apply->tenants[i];
        log_change(e, apply->generations[0].generation->name, c);
        if (c->after.attempts)
            look_again(tick, ef__engine_now(e), c->after.due_us);
    }
}

/* --- on its own --------------------------------------------------------------------------------
 */

/* Its next events up to the generation's cursor; while it fails, only the one that it fails on. */
static ef_status read_events(ef_engine *e, const ef__generation *g,
                             const ef__tenant_cursor_item *item, ef_batch *out,
                             int64_t *out_reached, ef_error *err)
{
    size_t most = EF__ENGINE_BATCH < e->cursor_batch ? EF__ENGINE_BATCH : e->cursor_batch;
    ef_status st = ef_journal_read_log(e->journal,
                                       &(ef_log_query){.tenant = item->tenant,
                                                       .after = item->cursor.position,
                                                       .limit = item->cursor.attempts ? 1 : most,
                                                       .out_reached = out_reached},
                                       out, err);

    if (st != EF_OK)
        return st;
    while (out->count && out->events[out->count - 1].position > g->position)
        out->count--;
    if (*out_reached > g->position)
        *out_reached = g->position;
    return EF_OK;
}

/* May the event that it fails on be let pass? Then it is noted, before it is. */
static ef_status lets_pass(ef_engine *e, const ef__generation *g,
                           const ef__tenant_cursor_item *item, const ef_batch *batch, bool *out,
                           ef_error *err)
{
    bool alarm = false;
    ef_status st = EF_OK;

    *out = false;
    if (!ef__tenant_has_failed(e, &item->cursor) || batch->count == 0)
        return EF_OK;
    const ef_event *event = &batch->events[0];
    st = ef__policy_skips(e, g->name, out, err);
    if (st == EF_OK && *out)
        st = ef__policy_is_alarm(e, g, event->tenant, event->stream, &alarm, err);
    *out = *out && !alarm;
    if (st != EF_OK || !*out)
        return st;
    ef__log(e->options.log, EF_LOG_WARN, "a projection passes over an event",
            EF_LOG_TEXT_FIELD("projection", g->name), EF_LOG_TEXT_FIELD("tenant", event->tenant),
            EF_LOG_TEXT_FIELD("stream", event->stream), EF_LOG_NUMBER_FIELD("seq", event->seq));
    if (e->ghost) /* it leaves no entry */
        return EF_OK;
    return ef__skips_add(e, g, event, EF_STR(EF__POLICY_REASON), err);
}

static ef_status apply_events(ef_engine *e, const ef__live *live, const ef__scope *scope,
                              const ef__tenant_cursor_item *item, const ef_batch *batch,
                              int64_t reached, ef_tick *tick, ef_error *err)
{
    ef__apply apply = {.generations = live,
                       .generation_count = 1,
                       .looks_back = true,
                       .tenant = item,
                       .cursor_after = reached,
                       .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    bool passes;
    ef_status st = lets_pass(e, live->generation, item, batch, &passes, err);

    if (st == EF_OK)
        st = ef__scope_apply(e, scope, batch, passes, &apply, tick, err);
    if (st == EF_OK)
        tick->more = tick->more || !apply.stopped;
    ef__apply_release(&apply);
    return st;
}

static ef_status step_tenant(ef_engine *e, const ef__live *live, const ef__scope *scope,
                             const ef__tenant_cursor_item *item, ef_tick *tick, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t reached = item->cursor.position;
    ef_status st;

    /* The generation was read before we had the lease, and has gone on with another worker since:
     * where it was then is no place to bring the tenant to. */
    if (reached > live->generation->position) {
        tick->more = true;
        return EF_OK;
    }
    st = read_events(e, live->generation, item, &batch, &reached, err);

    /* A journal that lost its end has nothing to go on with. */
    if (st == EF_OK &&
        (batch.count || reached > item->cursor.position || reached == live->generation->position))
        st = apply_events(e, live, scope, item, &batch, reached, tick, err);
    ef_batch_release(&batch);
    return st;
}

ef_status ef__tenants_step(ef_engine *e, const ef__live *live, ef_tick *tick, ef_error *err)
{
    const ef__generation *g = live->generation;
    int64_t now_us = ef__engine_now(e);
    ef__tenant_cursor_list list = {0};
    ef__scope *scope = ef__scope_of(e, g);
    size_t due = 0;
    bool ready;
    ef_status st = scope ? ef__scope_ready(e, scope, tick, &ready, err) : no_memory(err);

    if (st != EF_OK || !ready)
        return st;
    st = e->views->ops->tenant_cursor_ls(e->views, g->id, INT64_MAX, TENANTS_A_TICK, &list, err);
    while (st == EF_OK && due < list.count && list.items[due].cursor.due_us <= now_us)
        st = step_tenant(e, live, scope, &list.items[due++], tick, err);
    if (due == TENANTS_A_TICK)
        tick->more = true;
    else if (st == EF_OK && due < list.count)
        look_again(tick, now_us, list.items[due].cursor.due_us);
    ef__tenant_cursor_list_release(&list);
    return ef__scope_answer(e, scope, st, tick);
}

/* --- all of a generation -----------------------------------------------------------------------
 */

static ef_status list_all(ef_engine *e, const ef__generation *g, ef__tenant_cursor_list *out,
                          ef_error *err)
{
    return e->views->ops->tenant_cursor_ls(e->views, g->id, INT64_MAX, (size_t)g->own_cursors, out,
                                           err);
}

ef_status ef__tenants_resume(ef_engine *e, const ef__generation *g, ef_error *err)
{
    ef__tenant_cursor_list list = {0};
    ef__tenant_cursor_change *changes = NULL;
    size_t count = 0;
    ef_status st;

    if (g->own_cursors == 0)
        return EF_OK;
    st = list_all(e, g, &list, err);
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
        st = e->views->ops->commit(
            e->views,
            &(ef__views_commit){.generations = &(ef__generation_change){.generation = g->id,
                                                                        .era = g->era,
                                                                        .tenants = changes,
                                                                        .tenant_count = count},
                                .generation_count = 1},
            err);
    free(changes);
    ef__tenant_cursor_list_release(&list);
    return st;
}

ef_status ef__tenants_even(ef_engine *e, const ef__generation *a, const ef__generation *b,
                           bool *out, ef_error *err)
{
    ef__tenant_cursor_list list = {0};
    ef_status st = EF_OK;

    *out = a->position == b->position && a->own_cursors == b->own_cursors;
    if (*out && a->own_cursors)
        st = list_all(e, a, &list, err);
    for (size_t i = 0; st == EF_OK && *out && i < list.count; i++) {
        ef__tenant_cursor_item other;
        bool found;
        st = e->views->ops->tenant_cursor_get(e->views, b->id, list.items[i].tenant, &other, &found,
                                              err);
        *out = found && other.cursor.position == list.items[i].cursor.position;
    }
    ef__tenant_cursor_list_release(&list);
    return st;
}
