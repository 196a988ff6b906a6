/*
 * scope.c - see scope.h.
 */
#include "scope.h"

#include "tenant.h"

#include "../base/hash.h"
#include "../base/logger.h"

#include <everfold/lease.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SCOPE_PARTITIONS 8     /* in the name only: a scope is never divided */
#define CONFLICT_AGAIN_MS 10   /* another process changed the generation: read it again */
#define MIGRATE_AGAIN_MS 60000 /* views could not be migrated: an operator has to act first */

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

ef_status ef__scope_apply(ef_engine *engine, const ef__scope *scope, const ef_batch *batch,
                          bool skip_first, ef__apply *apply, ef_tick *tick, ef_error *err)
{
    ef__fence fence = {ef_str_from(scope->fence), scope->token};
    ef__apply_event *events = ef__apply_events_make(batch->events, batch->count);
    ef_status st;

    assert(scope->token);
    if (!events)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out in the cursor driver");
    events[0].skip = skip_first && batch->count;
    apply->events = events;
    apply->event_count = batch->count;
    apply->fences = &fence;
    apply->fence_count = 1;
    st = ef__apply_run(engine, apply, err);
    if (st == EF_OK) {
        ef__tenants_report(engine, apply, tick);
        tick->applied += apply->applied;
        tick->ignored += apply->ignored;
        tick->failed += apply->failed;
        tick->caught_up += (int64_t)batch->count;
    }
    apply->events = NULL;
    apply->fences = NULL;
    free(events);
    return st;
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
    return engine->views->ops->generation_set_state(engine->views, generation->id, generation->era,
                                                    EF__GENERATION_FAILED, err);
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
