/*
 * scope.c - see scope.h.
 */
#include "scope.h"

#include "tenant.h"

#include "../base/hash.h"
#include "../base/logger.h"

#include <everfold/lease.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SCOPE_PARTITIONS 8     /* of the name only: a scope is never split */
#define CONFLICT_AGAIN_MS 10   /* another process changed the generation: read it again */
#define MIGRATE_AGAIN_MS 60000 /* views that could not be migrated: somebody has to look first */

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

static int64_t mono_us(const ef_engine *e)
{
    return e->options.clock->mono_us(e->options.clock->context);
}

static ef_lease_key lease_of(const ef__scope *scope)
{
    return (ef_lease_key){
        .kind = EF_LEASE_SCOPE, .name = ef_str_from(scope->name), .partition = -1};
}

ef__scope *ef__scope_of(ef_engine *e, const ef__generation *g)
{
    ef__scope *scope;

    for (scope = e->scopes; scope; scope = scope->next)
        if (scope->generation == g->id)
            return scope;
    scope = calloc(1, sizeof *scope);
    if (!scope)
        return NULL;
    scope->generation = g->id;
    (void)snprintf(scope->name, sizeof scope->name, "*:%.*s@%" PRId32 ":%d", EF_STR_ARG(g->name),
                   g->number, partition_of(EF_STR("*"), g->name));
    (void)snprintf(scope->fence, sizeof scope->fence, "scope/%" PRId64, g->id);
    scope->next = e->scopes;
    e->scopes = scope;
    return scope;
}

/* The caller rests until then at the latest. */
static void look_again(const ef_engine *e, const ef__scope *scope, ef_tick *tick)
{
    int64_t due_us = ef__engine_now(e) + (scope->next_try_us - mono_us(e));

    if (tick->due_us == 0 || due_us < tick->due_us)
        tick->due_us = due_us;
}

static ef_status take_lease(ef_engine *e, ef__scope *scope, int64_t now_us, ef_error *err)
{
    ef_lease_key key = lease_of(scope);
    int64_t lease_ms = e->lease_ms;
    int64_t until_us, length_us = lease_ms * 1000;
    ef_error held = EF_ERROR_INIT;
    ef_status st = ef_lease_acquire(e->journal, &key, ef_str_from(e->worker), lease_ms,
                                    &scope->token, &until_us, &held);

    if (st == EF_LEASE_HELD) {
        scope->token = 0;
        scope->next_try_us = now_us + (held.found > 50 ? held.found : 50) * 1000;
        return EF_OK;
    }
    if (st != EF_OK) /* one that we have is still ours, to be given back when we close */
        return ef_fail(err, st, "%s", held.text);
    scope->until_us = now_us + length_us;
    scope->renew_us = now_us + e->renew_ms * 1000;
    return EF_OK;
}

ef_status ef__scope_ready(ef_engine *e, ef__scope *scope, ef_tick *tick, bool *out, ef_error *err)
{
    int64_t now_us = mono_us(e);
    ef_status st = EF_OK;

    scope->seen = true;
    *out = false;
    if (now_us < scope->next_try_us) {
        look_again(e, scope, tick);
        return EF_OK;
    }
    if (e->ghost) /* its views are its own: nobody to keep out */
        scope->token = 1, scope->until_us = scope->renew_us = INT64_MAX;
    else if (!scope->token || now_us >= scope->renew_us)
        st = take_lease(e, scope, now_us, err);
    *out = st == EF_OK && scope->token && now_us < scope->until_us;
    if (st == EF_OK && !*out)
        look_again(e, scope, tick);
    return st;
}

ef_status ef__scope_apply(ef_engine *e, const ef__scope *scope, const ef_batch *batch,
                          bool skip_first, ef__apply *apply, ef_tick *tick, ef_error *err)
{
    ef__fence fence = {ef_str_from(scope->fence), scope->token};
    ef__apply_event *events = malloc((batch->count + 1) * sizeof *events);
    ef_status st;

    if (!events)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out in the cursor driver");
    for (size_t i = 0; i < batch->count; i++)
        events[i] = (ef__apply_event){&batch->events[i], skip_first && i == 0};
    apply->events = events;
    apply->event_count = batch->count;
    apply->fences = &fence;
    apply->fence_count = 1;
    st = ef__apply_run(e, apply, err);
    if (st == EF_OK) {
        ef__tenants_settled(e, apply, tick);
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

/* Where the lease is still ours by the journal, the view store has seen a higher token than that
 * gave us: one of them was restored from a copy. With every release the token grows, until it is
 * higher than any that was seen. */
static void lose(ef_engine *e, ef__scope *scope, ef_tick *tick)
{
    ef_lease_key key = lease_of(scope);

    if (!e->ghost && ef_lease_release(e->journal, &key, scope->token, NULL) == EF_OK)
        tick->more = true;
    scope->token = 0;
}

ef_status ef__scope_answer(ef_engine *e, ef__scope *scope, ef_status st, ef_tick *tick)
{
    if (st == EF_LEASE_LOST)
        lose(e, scope, tick);
    if (st == EF_CONFLICT) {
        scope->next_try_us = mono_us(e) + CONFLICT_AGAIN_MS * INT64_C(1000);
        look_again(e, scope, tick);
    }
    if (st != EF_OK && st != EF_CONFLICT)
        scope->placed = false; /* a store that was away may have come back as another */
    return st == EF_LEASE_LOST || st == EF_CONFLICT ? EF_OK : st;
}

ef_status ef__scope_failed(ef_engine *e, ef__scope *scope, const ef__generation *g, ef_tick *tick,
                           ef_error *err)
{
    ef__log(e->options.log, EF_LOG_WARN, "a projection has failed: its views cannot be migrated",
            EF_LOG_TEXT_FIELD("scope", ef_str_from(scope->name)),
            EF_LOG_TEXT_FIELD("error", ef_str_from(err ? err->text : "")));
    scope->next_try_us = mono_us(e) + MIGRATE_AGAIN_MS * INT64_C(1000);
    look_again(e, scope, tick);
    return e->views->ops->generation_set_state(e->views, g->id, g->era, EF__GENERATION_FAILED, err);
}

void ef__scopes_prune(ef_engine *e, bool all)
{
    for (ef__scope **at = &e->scopes; *at;) {
        ef__scope *scope = *at;
        ef_lease_key key = lease_of(scope);
        if (scope->seen && !all) {
            scope->seen = false;
            at = &scope->next;
            continue;
        }
        if (scope->token && !e->ghost)
            (void)ef_lease_release(e->journal, &key, scope->token, NULL);
        *at = scope->next;
        free(scope);
    }
}

void ef__scopes_release(ef_engine *e)
{
    while (e->scopes) {
        ef__scope *next = e->scopes->next;
        free(e->scopes);
        e->scopes = next;
    }
}
