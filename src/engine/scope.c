/*
 * scope.c - see scope.h.
 */
#include "scope.h"

#include "queue.h"
#include "apply.h"

#include "../base/hash.h"
#include "../base/logger.h"
#include "../core/retry.h"

#include <everfold/worker.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SCOPE_PARTITIONS 8     /* in the name only: a scope is never divided */
#define CONFLICT_AGAIN_MS 10   /* another process changed the generation: read it again */
#define MIGRATE_AGAIN_MS 60000 /* views could not be migrated: an operator has to act first */
#define HEAL_MS 60000          /* retry interval of a failed tenant */
#define TENANTS_PER_TICK                                                                           \
    16 /* per generation, so that the generation's own cursor does not wait long */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in the cursor driver");
}

static int partition_of(ef_str tenant, ef_str projection)
{
    return (int)(ef__xxh3(projection, ef__xxh3(tenant, 0)) % SCOPE_PARTITIONS);
}

void ef__scope_format(ef_str tenant, ef_str projection, char out[EF__SCOPE_MAX])
{
    ef_str called = tenant.len ? tenant : EF_STR("default");

    (void)snprintf(out, EF__SCOPE_MAX, "%.*s:%.*s:%d", EF_STR_ARG(called), EF_STR_ARG(projection),
                   partition_of(tenant, projection));
}

static ef_lease_key lease_of(const ef__scope *scope)
{
    return (ef_lease_key){
        .kind = EF_LEASE_SCOPE, .name = ef_str_from(scope->name), .partition = -1};
}

ef__scope *ef__scope_of(ef_engine *engine, const ef__generation *generation)
{
    ef__scope *scope;

    for (scope = engine->cursor.scopes; scope; scope = scope->next)
        if (scope->generation == generation->id)
            return scope;
    scope = calloc(1, sizeof *scope);
    if (!scope)
        return NULL;
    scope->generation = generation->id;
    (void)snprintf(scope->name, sizeof scope->name, "*:%.*s@%" PRId32 ":%d",
                   EF_STR_ARG(generation->name), generation->number,
                   partition_of(EF_STR("*"), generation->name));
    (void)snprintf(scope->fence, sizeof scope->fence, "scope/%" PRId64, generation->id);
    scope->next = engine->cursor.scopes;
    engine->cursor.scopes = scope;
    return scope;
}

/* The caller polls again then at the latest. */
static void poll_when_due(const ef_engine *engine, const ef__scope *scope, ef_tick *tick)
{
    ef__tick_wake_at(tick,
                     ef__engine_now(engine) + scope->next_try_us - ef__engine_mono_us(engine));
}

static ef_status acquire_lease(ef_engine *engine, ef__scope *scope, int64_t now_us, ef_error *err)
{
    ef_lease_key key = lease_of(scope);
    int64_t lease_ms = engine->lease_ms;
    int64_t until_us, length_us = lease_ms * 1000;
    ef_error held = EF_ERROR_INIT;
    ef_status st = ef__lease_acquire_one(engine->journal, &key, ef_str_from(engine->worker),
                                         lease_ms, &scope->token, &until_us, &held);

    if (st == EF_LEASE_HELD) {
        scope->token = 0;
        scope->next_try_us = now_us + (held.found > 50 ? held.found : 50) * 1000;
        return EF_OK;
    }
    if (st != EF_OK) /* a lease that is held is released at close */
        return ef_fail(err, st, "%s", held.text);
    scope->until_us = now_us + length_us;
    scope->renew_us = now_us + engine->renew_ms * 1000;
    return EF_OK;
}

ef_status ef__scope_ready(ef_engine *engine, ef__scope *scope, ef_tick *tick, bool *out,
                          ef_error *err)
{
    int64_t now_us = ef__engine_mono_us(engine);
    ef_status st = EF_OK;

    assert(ef__mutex_is_locked(&engine->cursor.lock));
    scope->seen = true;
    *out = false;
    if (now_us < scope->next_try_us) {
        poll_when_due(engine, scope, tick);
        return EF_OK;
    }
    if (!scope->token || now_us >= scope->renew_us)
        st = acquire_lease(engine, scope, now_us, err);
    *out = st == EF_OK && scope->token && now_us < scope->until_us;
    if (st == EF_OK && !*out)
        poll_when_due(engine, scope, tick);
    return st;
}

bool ef__tenant_has_failed(const ef_engine *engine, const ef__tenant_cursor *cursor)
{
    int64_t attempts_max = engine->retry.cursor.attempts_max;

    return attempts_max > 0 && cursor->attempts >= attempts_max;
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

/* After the commit: sets the next due time in `tick`, and logs tenants that stopped or failed. */
static void report_tenants(const ef_engine *engine, const ef__apply *apply, ef_tick *tick)
{
    for (size_t i = 0; i < apply->tenant_count; i++) {
        const ef__tenant_cursor_change *change = &apply->tenants[i];
        log_change(engine, apply->generations[0].generation->name, change);
        if (change->after.attempts)
            ef__tick_wake_at(tick, change->after.due_us);
    }
}

ef__fence ef__scope_fence(const ef__scope *scope)
{
    assert(scope->token);
    return (ef__fence){ef_str_from(scope->fence), scope->token};
}

void ef__scope_report(ef_engine *engine, const ef__apply *apply, size_t events, ef_tick *tick)
{
    report_tenants(engine, apply, tick);
    tick->applied += apply->applied;
    tick->ignored += apply->ignored;
    tick->failed += apply->failed;
    tick->caught_up += (int64_t)events;
}

/* If the lease is still held by the journal, the view store has seen a higher token than the
 * journal gave out: one of them was restored from a copy. Each release increments the token, until
 * it is higher than any that was seen. */
static void drop_lease(ef_engine *engine, ef__scope *scope, ef_tick *tick)
{
    ef_lease_key key = lease_of(scope);

    if (ef__lease_release_one(engine->journal, &key, scope->token, NULL) == EF_OK)
        tick->more = true;
    scope->token = 0;
}

ef_status ef__scope_result(ef_engine *engine, ef__scope *scope, ef_status st, ef_tick *tick)
{
    if (st == EF_LEASE_LOST)
        drop_lease(engine, scope, tick);
    if (st == EF_CONFLICT) {
        scope->next_try_us = ef__engine_mono_us(engine) + CONFLICT_AGAIN_MS * INT64_C(1000);
        poll_when_due(engine, scope, tick);
    }
    if (st != EF_OK && st != EF_CONFLICT)
        scope->placed = false; /* the store may have been restored from a copy */
    return st == EF_LEASE_LOST || st == EF_CONFLICT ? EF_OK : st;
}

ef_status ef__scope_failed(ef_engine *engine, ef__scope *scope, const ef__generation *generation,
                           ef_tick *tick, ef_error *err)
{
    ef__log(engine->options.log, EF_LOG_WARN, "projection failed: views cannot be migrated",
            EF_LOG_TEXT_FIELD("scope", ef_str_from(scope->name)),
            EF_LOG_TEXT_FIELD("error", ef_str_from(err ? err->text : "")));
    scope->next_try_us = ef__engine_mono_us(engine) + MIGRATE_AGAIN_MS * INT64_C(1000);
    poll_when_due(engine, scope, tick);
    return ef__generation_set_state(engine, generation, EF__GENERATION_FAILED, err);
}

void ef__scopes_prune(ef_engine *engine, bool all)
{
    for (ef__scope **at = &engine->cursor.scopes; *at;) {
        ef__scope *scope = *at;
        ef_lease_key key = lease_of(scope);
        if (scope->seen && !all) {
            scope->seen = false;
            at = &scope->next;
            continue;
        }
        if (scope->token)
            (void)ef__lease_release_one(engine->journal, &key, scope->token, NULL);
        *at = scope->next;
        free(scope);
    }
}

void ef__scopes_release(ef__cursor_driver *driver)
{
    while (driver->scopes) {
        ef__scope *next = driver->scopes->next;
        free(driver->scopes);
        driver->scopes = next;
    }
}

/* --- tenants with their own cursor, in a batch ------------------------------------------------ */

ef_status ef__tenant_cursor_read(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                                 ef__tenant_cursor_item *out, bool *out_found, ef_error *err)
{
    *out_found = false;
    return generation->own_cursors ? engine->views->ops->tenant_cursor_get(
                                         engine->views, generation->id, tenant, out, out_found, err)
                                   : EF_OK;
}

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
    if (is_new)
        st = ef__tenant_cursor_read(engine, generation, event->tenant, &item, &found, err);
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
    const ef_event *event = apply->events[index];
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

/* If the event that failed may be skipped, records the skip, which the apply carries out. */
static ef_status skip_failed_event(ef_engine *engine, const ef__generation *generation,
                                   const ef__tenant_cursor_item *item, const ef_batch *batch,
                                   ef_error *err)
{
    bool alarm = false;
    ef_status st;

    if (!ef__tenant_has_failed(engine, &item->cursor) || batch->count == 0 ||
        generation->on_error != EF_ON_ERROR_SKIP)
        return EF_OK;
    const ef_event *event = &batch->events[0];
    st = ef__error_policy_is_alarm(engine, generation, event->tenant, event->stream, &alarm, err);
    if (st != EF_OK || alarm)
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
    EF__AUTO(ef__apply) apply = {.generations = live,
                                 .generation_count = 1,
                                 .reads_skips = true,
                                 .tenant = item,
                                 .cursor_after = reached,
                                 .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    ef__fence fence = ef__scope_fence(scope);
    ef_status st = skip_failed_event(engine, live->generation, item, batch, err);

    apply.fences = &fence;
    apply.fence_count = 1;
    if (st == EF_OK)
        st = ef__apply_set_events(&apply, batch->events, batch->count, err);
    if (st == EF_OK)
        st = ef__apply_run(engine, &apply, err);
    if (st != EF_OK)
        return st;
    ef__scope_report(engine, &apply, apply.event_count, tick);
    tick->more = tick->more || !apply.stopped;
    return EF_OK;
}

static ef_status step_tenant(ef_engine *engine, const ef__live *live, const ef__scope *scope,
                             const ef__tenant_cursor_item *item, ef_tick *tick, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
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
    return st;
}

ef_status ef__tenants_step(ef_engine *engine, const ef__live *live, ef_tick *tick, ef_error *err)
{
    const ef__generation *generation = live->generation;
    int64_t now_us = ef__engine_now(engine);
    EF__AUTO(ef__tenant_cursor_list) list = {0};
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
    EF__AUTO(ef__tenant_cursor_list) list = {0};
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
        st = ef__generation_commit(
            engine, generation, (ef__generation_change){.tenants = changes, .tenant_count = count},
            err);
    free(changes);
    return st;
}

ef_status ef__tenants_are_level(ef_engine *engine, const ef__generation *a, const ef__generation *b,
                                bool *out, ef_error *err)
{
    EF__AUTO(ef__tenant_cursor_list) list = {0};
    ef_status st = EF_OK;

    *out = a->position == b->position && a->own_cursors == b->own_cursors;
    if (*out && a->own_cursors)
        st = list_all(engine, a, &list, err);
    for (size_t i = 0; st == EF_OK && *out && i < list.count; i++) {
        ef__tenant_cursor_item other;
        bool found;
        st = ef__tenant_cursor_read(engine, b, list.items[i].tenant, &other, &found, err);
        *out = found && other.cursor.position == list.items[i].cursor.position;
    }
    return st;
}
