/*
 * cursor.c - the cursor driver: generations that catch up, and log-ordered ones.
 */
#include "apply_group.h"
#include "run.h"
#include "lag.h"
#include "scope.h"
#include "view_cache.h"

#include "../journal/journal.h"

#define LIVE_US 1000000  /* work counts as live for this long after the last change */
#define STUCK_US 2000000 /* a row that is the oldest for this long is not claimed by any worker */

/* --- the pace of a catch-up beside live work -------------------------------------------------- */

/*
 * Live work is the work of the queue driver. Its lag is the age of the oldest row of the apply lane
 * in the journal, whichever process applies it. So a rebuild that one process drives yields to a
 * worker in another one. A row that no worker claims is not live work and slows nothing down.
 */

/* Has the journal grown, or the queue moved, within LIVE_US? */
static bool is_live(ef__pacing *pacing, int64_t head, int64_t oldest, int64_t now_us)
{
    bool moved =
        pacing->is_measured && (head != pacing->head || (oldest && oldest != pacing->oldest));

    if (oldest != pacing->oldest || !pacing->is_measured)
        pacing->oldest_since_us = now_us;
    if (moved)
        pacing->moved_us = now_us;
    pacing->is_live = moved || (pacing->is_live && now_us - pacing->moved_us < LIVE_US);
    pacing->head = head;
    pacing->oldest = oldest;
    pacing->is_measured = true;
    return pacing->is_live && !(oldest && now_us - pacing->oldest_since_us > STUCK_US);
}

/* A step of a catch-up took `step_events` events and `step_us`: decides about the next one. */
static ef_status update_pacing(ef_engine *engine, size_t step_events, int64_t step_us,
                               ef_error *err)
{
    ef__pacing *pacing = &engine->cursor.pacing;
    int64_t now_us = ef__engine_mono_us(engine);
    ef_row oldest;
    ef_head head;
    ef_status st = ef_journal_head(engine->journal, &head, err);

    if (st == EF_OK)
        st = ef__lane_first_row(engine, EF_STR(EF_LANE_APPLY), 0, &oldest, err);
    if (st == EF_OK)
        pacing->pace = ef__pace_decide(
            pacing->pace,
            &(ef__pace_seen){.objective_us = engine->options.live_lag_ms * 1000,
                             .live = is_live(pacing, head.position, oldest.position, now_us),
                             .lag_us =
                                 oldest.position ? ef__engine_now(engine) - oldest.enqueued_us : 0,
                             .step_events = step_events,
                             .step_us = step_us});
    return st;
}

/* --- a step ----------------------------------------------------------------------------------- */

#define STEP_US 1000000 /* a fraction of a lease; live work waits for a commit, not for a step */
#define STEP_GROWTH                                                                                \
    4 /* from one step to the next: whether there is live work is not known at first */

/*
 * A step of a catch-up reads several batches and folds them into one commit, or into more where
 * they change much: views and watermarks that many events change are written once, and the memory
 * is that of two batches and of the changes. Otherwise a step has one batch.
 */
typedef struct cursor_step {
    ef_engine *engine;
    const ef__live *live;
    ef__scope *scope;
    ef__view_cache *cache;
    ef__apply apply;
    ef__apply_group group;
    ef_batch batch;
    int64_t reached; /* the journal was read up to here */
    int64_t began_us;
    bool is_catch_up;
} cursor_step;

/* More may have been read ahead than the pace allows now: the surplus is read again later. */
static void cut_batch(cursor_step *step)
{
    size_t most = step->cache->ahead.most, done = step->group.events;
    ef_batch *batch = &step->batch;

    if (most == 0 || batch->count + done <= most)
        return;
    batch->count = most - done;
    batch->more = true;
    step->reached = batch->events[batch->count - 1].position;
}

/* Was the cursor checked against the journal, in this connection epoch? */
static bool cursor_is_checked(const ef_engine *engine, const ef__scope *scope)
{
    return scope->placed && scope->epoch == atomic_load(&engine->journal->epoch);
}

static ef_status read_batch(cursor_step *step, ef_error *err)
{
    int64_t after = step->reached;
    ef_status st = ef__read_ahead_read(&step->cache->ahead, step->engine->journal, after,
                                       &step->batch, &step->reached, err);

    if (st == EF_OK)
        cut_batch(step);
    return st;
}

/* The events of the batch are folded, and the next ones read meanwhile. */
static ef_status fold_batch(cursor_step *step, ef_error *err)
{
    const ef_batch *batch = &step->batch;
    ef_status st = ef__apply_set_events(&step->apply, batch->events, batch->count, err);

    if (batch->more)
        ef__read_ahead_start(&step->cache->ahead, step->engine->journal, step->reached);
    step->apply.cursor_after = step->reached;
    step->apply.go_live = step->is_catch_up && !batch->more;
    return st == EF_OK ? ef__apply_fold(&step->group, err) : st;
}

static size_t most_events(const cursor_step *step)
{
    size_t most = step->cache->step_events * STEP_GROWTH, pace = step->cache->ahead.most;

    most = most < step->engine->cursor_batch ? most : step->engine->cursor_batch;
    return pace && pace < most ? pace : most;
}

/* Does the step fold another batch? Not if the journal waits for acknowledgements, nor with tenants
 * that have stopped, whose names are those of the events. */
static bool goes_on(const cursor_step *step)
{
    const ef_engine *engine = step->engine;
    bool is_whole = step->apply.event_count == step->batch.count;

    return step->is_catch_up && step->batch.more && is_whole &&
           step->group.events < most_events(step) && !ef__group_is_full(&step->group) &&
           step->group.works[0].stopped.count == 0 &&
           !ef__journal_is_acknowledged(engine->journal) &&
           ef__engine_mono_us(engine) - step->began_us < STEP_US;
}

/* Folds batch after batch. After a reconnect the journal may lack events that it had. */
static ef_status fold_batches(cursor_step *step, ef_error *err)
{
    ef_status st = ef__apply_begin(step->engine, &step->apply, &step->group, err);

    if (st == EF_OK)
        st = fold_batch(step, err);
    while (st == EF_OK && goes_on(step)) {
        int64_t folded = step->reached;
        ef__read_ahead_recycle(&step->cache->ahead, &step->batch);
        st = read_batch(step, err);
        if (st == EF_OK && !cursor_is_checked(step->engine, step->scope)) {
            step->reached = step->apply.cursor_after = folded;
            step->batch.more = true;
            break;
        }
        if (st == EF_OK)
            st = fold_batch(step, err);
    }
    return ef__apply_end(&step->group, st, err);
}

/* After a step of a catch-up: the pause that it owes to live work. */
static ef_status pause_catch_up(const cursor_step *step, ef_error *err)
{
    ef_engine *engine = step->engine;
    ef_status st =
        update_pacing(engine, step->group.events, ef__engine_mono_us(engine) - step->began_us, err);

    if (st == EF_OK && engine->cursor.pacing.pace.pause_us)
        step->scope->next_try_us = ef__engine_mono_us(engine) + engine->cursor.pacing.pace.pause_us;
    return st;
}

/* Applies the events that were read after the cursor, and moves it past them. An event of a
 * log-ordered projection that fails stops its tenant only. */
static ef_status apply_step(cursor_step *step, ef_tick *tick, ef_error *err)
{
    ef__fence fence = ef__scope_fence(step->scope);
    ef__apply *apply = &step->apply;
    bool more;
    ef_status st;

    *apply = (ef__apply){.generations = step->live,
                         .generation_count = 1,
                         .fences = &fence,
                         .fence_count = 1,
                         .adds_retry_rows = !step->live->generation->by_log,
                         .reads_skips = true,
                         .caches = &step->engine->cursor.caches,
                         .moves_cursor = true,
                         .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    st = fold_batches(step, err);
    more = step->batch.more || apply->event_count < step->batch.count;
    if (st == EF_OK) {
        step->reached = apply->cursor_after;
        step->cache->step_events = step->group.events;
        ef__scope_report(step->engine, apply, step->group.events, tick);
        tick->more = tick->more || more || (apply->go_live && !apply->went_live);
    }
    if (st == EF_OK && step->is_catch_up && more)
        st = pause_catch_up(step, err);
    ef__apply_release(apply);
    return st;
}

static ef_status advance_cursor(ef_engine *engine, const ef__live *live, ef__scope *scope,
                                ef_tick *tick, ef_error *err)
{
    const ef__generation *generation = live->generation;
    cursor_step step = {.engine = engine,
                        .live = live,
                        .scope = scope,
                        .batch = EF_BATCH_INIT,
                        .reached = generation->position,
                        .began_us = ef__engine_mono_us(engine),
                        .is_catch_up = generation->state == EF__GENERATION_CATCHING_UP};
    ef_status st = ef__view_cache_acquire(engine, &engine->cursor.caches, live, &step.cache, err);

    if (st != EF_OK)
        return st;
    step.cache->ahead.most = step.is_catch_up ? engine->cursor.pacing.pace.events : 0;
    st = read_batch(&step, err);
    if (st == EF_OK && !cursor_is_checked(engine, scope)) { /* reconnected meanwhile */
        tick->more = true;
        EF_RELEASE(&step.batch);
        return EF_OK;
    }
    if (st == EF_OK && (step.is_catch_up || step.reached > generation->position))
        st = apply_step(&step, tick, err);
    if (st == EF_OK)
        ef__journal_followed(engine->journal, ef_str_from(step.cache->ahead.reader), step.reached);
    ef__read_ahead_recycle(&step.cache->ahead, &step.batch);
    return st;
}

/* The journal has the events before the cursor again. */
static ef_status revive_failed(ef_engine *engine, const ef__generation *generation, ef_tick *tick,
                               ef_error *err)
{
    tick->more = true;
    return ef__generation_set_state(engine, generation, EF__GENERATION_CATCHING_UP, err);
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
                                   : advance_cursor(engine, live, scope, tick, err);
}

/* Then it needs no lease. */
static ef_status has_read_all(ef_engine *engine, const ef__generation *generation,
                              const ef__scope *scope, bool *out, ef_error *err)
{
    bool may_be_done = generation->state == EF__GENERATION_LIVE && cursor_is_checked(engine, scope);
    ef_head head = {0};
    ef_status st = may_be_done ? ef_journal_head(engine->journal, &head, err) : EF_OK;

    *out = may_be_done && st == EF_OK && generation->position >= head.position;
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

static bool has_own_cursors(const ef__generation *generation)
{
    return generation->own_cursors && ef__generation_by_cursor(generation);
}

/* A failure of one generation does not stop the others; the first one is returned. */
static void keep_first(ef_status st, const ef_error *why, ef_status *out, ef_error *err)
{
    if (st != EF_OK && *out == EF_OK)
        *out = ef_fail(err, st, "%s", why->text);
}

/* Steps the tenants that had their own cursor before this tick, with the cursors read again. */
static ef_status step_tenants(ef_engine *engine, const ef__live_set *before, ef_tick *tick,
                              ef_error *err)
{
    ef__live_set set;
    bool any = false;
    ef_status st;

    for (size_t i = 0; i < before->count; i++)
        any = any || has_own_cursors(before->items[i].generation);
    if (!any) /* the common case */
        return EF_OK;
    st = ef__live_set_read(engine, &(ef__live_choice){0}, &set, err);
    for (size_t i = 0; i < set.count; i++) {
        ef_error why = EF_ERROR_INIT;
        if (has_own_cursors(set.items[i].generation))
            keep_first(ef__tenants_step(engine, &set.items[i], tick, &why), &why, &st, err);
    }
    ef__live_set_release(&set);
    return st;
}

ef_status ef__cursor_driver_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                                 ef_error *err)
{
    ef__live_set set;
    bool reads_log = false;
    ef_status st, second;
    EF__LOCK(&engine->cursor.lock);

    if (options)
        ef__engine_lease_times(engine, options);
    st = ef__live_set_read(engine, &(ef__live_choice){0}, &set, err);
    if (st != EF_OK)
        return st;
    for (size_t i = 0; i < set.count; i++)
        reads_log = reads_log || is_read(set.items[i].generation);
    atomic_store(&engine->cursor.reads_log, reads_log);
    atomic_store(&engine->cursor.pauses, false);
    ef__view_caches_prune(&engine->cursor.caches, &set, true);
    for (size_t i = 0; i < set.count; i++) {
        ef_error why = EF_ERROR_INIT;
        if (is_read(set.items[i].generation))
            keep_first(step_generation(engine, &set.items[i], tick, &why), &why, &st, err);
    }
    second = step_tenants(engine, &set, tick, st == EF_OK ? err : NULL);
    if (st == EF_OK && second == EF_OK)
        second = ef__retired_step(engine, &set.list, tick, err);
    if (st == EF_OK && second == EF_OK)
        second = ef__grace_step(engine, &set.list, tick, err);
    ef__scopes_prune(engine, false);
    ef__live_set_release(&set);
    return st == EF_OK ? second : st;
}
