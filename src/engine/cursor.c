/*
 * cursor.c - the cursor driver: generations that catch up, and log-ordered ones.
 */
#include "pacing.h"
#include "journal_loss.h"
#include "migration.h"
#include "run.h"
#include "scope.h"
#include "tenant.h"
#include "view_cache.h"

#include "../journal/journal.h"

/* Applies events after the generation's cursor and moves it. An event of a log-ordered projection
 * that fails stops its tenant only. */
static ef_status advance_cursor(ef_engine *engine, const ef__live *live, const ef__scope *scope,
                                const ef_batch *batch, int64_t reached, bool at_end, ef_tick *tick,
                                ef_error *err)
{
    const ef__generation *generation = live->generation;
    ef__apply apply = {.generations = live,
                       .generation_count = 1,
                       .adds_retry_rows = !generation->by_log,
                       .reads_skips = true,
                       .caches = &engine->cursor.caches,
                       .moves_cursor = true,
                       .cursor_after = reached,
                       .go_live = at_end && generation->state == EF__GENERATION_CATCHING_UP,
                       .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    ef_status st = ef__scope_apply(engine, scope, batch, false, &apply, tick, err);

    if (st == EF_OK)
        tick->more = tick->more || (apply.go_live && !apply.went_live) || !at_end;
    ef__apply_release(&apply);
    return st;
}

/* More may have been read ahead than the pace allows now: the surplus is read again later. */
static void cut_batch(ef_batch *batch, size_t most, int64_t *reached)
{
    if (most == 0 || batch->count <= most)
        return;
    batch->count = most;
    batch->more = true;
    *reached = batch->events[most - 1].position;
}

/* A step of a catch-up, followed by a pause if live work is late. */
static ef_status advance_paced(ef_engine *engine, const ef__live *live, ef__scope *scope,
                               const ef_batch *batch, int64_t reached, ef_tick *tick, ef_error *err)
{
    int64_t began_us = ef__engine_mono_us(engine);
    ef_status st = advance_cursor(engine, live, scope, batch, reached, !batch->more, tick, err);

    if (st == EF_OK && batch->more)
        st = ef__pacing_update(engine, batch->count, ef__engine_mono_us(engine) - began_us, err);
    if (st == EF_OK && batch->more && engine->cursor.pacing.pace.pause_us)
        scope->next_try_us = ef__engine_mono_us(engine) + engine->cursor.pacing.pace.pause_us;
    return st;
}

/* Was the cursor checked against the journal, in this connection epoch? */
static bool cursor_is_checked(const ef_engine *engine, const ef__scope *scope)
{
    return scope->placed && scope->epoch == atomic_load(&engine->journal->epoch);
}

static ef_status read_and_apply(ef_engine *engine, const ef__live *live, ef__scope *scope,
                                ef_tick *tick, ef_error *err)
{
    bool catching_up = live->generation->state == EF__GENERATION_CATCHING_UP;
    ef_batch batch = EF_BATCH_INIT;
    ef__view_cache *set;
    int64_t reached;
    ef_status st = ef__view_cache_acquire(engine, &engine->cursor.caches, live, &set, err);

    if (st != EF_OK)
        return st;
    set->ahead.most = catching_up ? engine->cursor.pacing.pace.events : 0;
    st = ef__read_ahead_read(&set->ahead, engine->journal, live->generation->position, &batch,
                             &reached, err);
    cut_batch(&batch, set->ahead.most, &reached);
    if (st == EF_OK &&
        !cursor_is_checked(engine, scope)) { /* reconnected meanwhile: check the cursor */
        tick->more = true;
        ef_batch_release(&batch);
        return EF_OK;
    }
    if (st == EF_OK && batch.more && ef__view_cache_is_small(set))
        ef__read_ahead_start(&set->ahead, engine->journal, reached);
    if (st == EF_OK && catching_up)
        st = advance_paced(engine, live, scope, &batch, reached, tick, err);
    else if (st == EF_OK && reached > live->generation->position)
        st = advance_cursor(engine, live, scope, &batch, reached, !batch.more, tick, err);
    if (st == EF_OK)
        ef__journal_followed(engine->journal, ef_str_from(set->ahead.reader), reached);
    ef__read_ahead_recycle(&set->ahead, &batch);
    return st;
}

/* The journal has the events before the cursor again. */
static ef_status revive_failed(ef_engine *engine, const ef__generation *generation, ef_tick *tick,
                               ef_error *err)
{
    tick->more = true;
    return engine->views->ops->generation_set_state(engine->views, generation->id, generation->era,
                                                    EF__GENERATION_CATCHING_UP, err);
}

/* Continues from the cursor if the journal has the events before it. An open journal loses nothing,
 * so this is checked once per connection epoch; for a failed generation at every step, because the
 * right journal may have been restored. */
static ef_status continue_generation(ef_engine *engine, const ef__live *live, ef__scope *scope,
                                     ef_tick *tick, ef_error *err)
{
    const ef__generation *generation = live->generation;
    bool failed = generation->state == EF__GENERATION_FAILED;
    ef_status st = EF_OK;

    if (failed || !cursor_is_checked(engine, scope)) {
        scope->epoch = atomic_load(&engine->journal->epoch);
        st = ef__journal_loss_check_cursor(engine, generation, &scope->placed, err);
    }
    if (st != EF_OK)
        return st;
    if (!scope->placed)
        return failed ? EF_OK : ef__journal_loss_stop(engine, generation, err);
    if (failed)
        return revive_failed(engine, generation, tick, err);
    return ef__live_migrates(live) ? ef__migration_step(engine, live, scope, tick, err)
                                   : read_and_apply(engine, live, scope, tick, err);
}

/* Then it needs no lease. */
static ef_status has_read_all(ef_engine *engine, const ef__generation *generation,
                              const ef__scope *scope, bool *out, ef_error *err)
{
    bool at_ease = generation->state == EF__GENERATION_LIVE && cursor_is_checked(engine, scope);
    ef_head head = {0};
    ef_status st = at_ease ? ef_journal_head(engine->journal, &head, err) : EF_OK;

    *out = at_ease && st == EF_OK && generation->position >= head.position;
    return st;
}

/* It holds the lease and continues after a pause: the tick has more to do, but not at once. */
static void report_pause(ef_engine *engine, const ef__generation *generation,
                         const ef__scope *scope)
{
    if (scope->token && generation->state != EF__GENERATION_FAILED)
        atomic_store(&engine->cursor.pauses, true);
}

static ef_status step_generation(ef_engine *engine, const ef__live *live, ef_tick *tick,
                                 ef_error *err)
{
    ef__scope *scope = ef__scope_of(engine, live->generation);
    bool ready = false, done = false;
    ef_status st = scope ? has_read_all(engine, live->generation, scope, &done, err)
                         : ef_fail(err, EF_NO_MEMORY, "memory ran out in the cursor driver");

    if (scope)
        scope->seen = true;
    if (st == EF_OK && !done)
        st = ef__scope_ready(engine, scope, tick, &ready, err);
    if (st == EF_OK && !ready && !done)
        report_pause(engine, live->generation, scope);
    if (st != EF_OK || !ready)
        return st;
    st = continue_generation(engine, live, scope, tick, err);
    if (st == EF_CONFLICT)
        atomic_store(&engine->cursor.pauses, true);
    return ef__scope_result(engine, scope, st, tick);
}

static bool is_read(const ef__generation *generation)
{
    return ef__generation_by_cursor(generation) || generation->state == EF__GENERATION_FAILED;
}

static bool is_behind(const ef__generation *generation)
{
    return generation->own_cursors && ef__generation_by_cursor(generation);
}

typedef ef_status step_fn(ef_engine *e, const ef__live *live, ef_tick *tick, ef_error *err);

/* A failure of one generation does not stop the others. */
static ef_status step_each(ef_engine *engine, const ef__live_set *set,
                           bool (*wanted)(const ef__generation *generation), step_fn *step,
                           ef_tick *tick, ef_error *err)
{
    ef_error first = EF_ERROR_INIT;
    ef_status failed = EF_OK;

    for (size_t i = 0; i < set->count; i++) {
        ef_error error = EF_ERROR_INIT;
        ef_status st =
            wanted(set->items[i].generation) ? step(engine, &set->items[i], tick, &error) : EF_OK;
        if (st != EF_OK && failed == EF_OK) {
            failed = st;
            first = error;
        }
    }
    return failed == EF_OK ? EF_OK : ef_fail(err, failed, "%s", first.text);
}

/* Steps the tenants that had their own cursor before this tick, with the cursors read again. */
static ef_status step_tenants(ef_engine *engine, const ef__live_set *before, ef_tick *tick,
                              ef_error *err)
{
    ef__live_set set;
    bool any = false;
    ef_status st;

    for (size_t i = 0; i < before->count; i++)
        any = any || is_behind(before->items[i].generation);
    if (!any) /* the common case */
        return EF_OK;
    st = ef__live_set_read(engine, false, &set, err);
    if (st == EF_OK) {
        st = step_each(engine, &set, is_behind, ef__tenants_step, tick, err);
        ef__live_set_release(&set);
    }
    return st;
}

static bool reads_the_log(const ef__live_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        if (is_read(set->items[i].generation))
            return true;
    return false;
}

static ef_status step_all(ef_engine *engine, ef_tick *tick, ef_error *err)
{
    ef__live_set set;
    ef_status st = ef__live_set_read(engine, false, &set, err), second;

    if (st != EF_OK)
        return st;
    atomic_store(&engine->cursor.reads_log, reads_the_log(&set));
    atomic_store(&engine->cursor.pauses, false);
    ef__view_caches_prune(&engine->cursor.caches, &set, true);
    st = step_each(engine, &set, is_read, step_generation, tick, err);
    second = step_tenants(engine, &set, tick, st == EF_OK ? err : NULL);
    if (st == EF_OK && second == EF_OK)
        second = ef__retired_step(engine, &set.list, tick, err);
    if (st == EF_OK && second == EF_OK)
        second = ef__grace_step(engine, &set.list, tick, err);
    ef__scopes_prune(engine, false);
    ef__live_set_release(&set);
    return st == EF_OK ? second : st;
}

/* --- the driver ------------------------------------------------------------------------------- */

void ef__cursor_driver_init(ef__cursor_driver *driver)
{
    pthread_mutex_init(&driver->lock, NULL);
}

void ef__cursor_driver_release(ef__cursor_driver *driver)
{
    ef__view_caches_release(&driver->caches);
    ef__scopes_release(driver);
    pthread_mutex_destroy(&driver->lock);
}

ef_status ef__cursor_driver_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                 ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&engine->cursor.lock);
    if (options)
        ef__engine_lease_times(engine, options);
    st = step_all(engine, tick, err);
    pthread_mutex_unlock(&engine->cursor.lock);
    return st;
}
