/*
 * cursor.c - the cursor driver: generations that catch up, and those that follow the log.
 */
#include "govern.h"
#include "lost.h"
#include "migrate.h"
#include "run.h"
#include "scope.h"
#include "tenant.h"
#include "workset.h"

#include "../journal/journal.h"

/* Apply events after the generation's cursor and move it. An event of a log-ordered projection that
 * fails leaves its tenant behind. */
static ef_status advance(ef_engine *e, const ef__live *live, const ef__scope *scope,
                         const ef_batch *batch, int64_t reached, bool at_end, ef_tick *tick,
                         ef_error *err)
{
    const ef__generation *g = live->generation;
    ef__apply apply = {.generations = live,
                       .generation_count = 1,
                       .files = !g->by_log && !e->ghost,
                       .looks_back = true,
                       .worksets = &e->worksets,
                       .moves_cursor = true,
                       .cursor_after = reached,
                       .go_live = at_end && g->state == EF__GENERATION_CATCHING_UP,
                       .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    ef_status st = ef__scope_apply(e, scope, batch, false, &apply, tick, err);

    if (st == EF_OK)
        tick->more = tick->more || (apply.go_live && !apply.went_live) || !at_end;
    ef__apply_release(&apply);
    return st;
}

static int64_t mono_us(const ef_engine *e)
{
    return e->options.clock->mono_us(e->options.clock->context);
}

/* What was read ahead may be more than the governor allows by now: the rest is read again. */
static void cut(ef_batch *batch, size_t most, int64_t *reached)
{
    if (most == 0 || batch->count <= most)
        return;
    batch->count = most;
    batch->more = true;
    *reached = batch->events[most - 1].position;
}

/* A step of a catch-up, and a pause behind it when live work is late. */
static ef_status advance_governed(ef_engine *e, const ef__live *live, ef__scope *scope,
                                  const ef_batch *batch, int64_t reached, ef_tick *tick,
                                  ef_error *err)
{
    int64_t began_us = mono_us(e);
    ef_status st = advance(e, live, scope, batch, reached, !batch->more, tick, err);

    if (st == EF_OK && batch->more)
        st = ef__govern(e, batch->count, mono_us(e) - began_us, err);
    if (st == EF_OK && batch->more && e->governor.pace.pause_us)
        scope->next_try_us = mono_us(e) + e->governor.pace.pause_us;
    return st;
}

/* Has the journal what the cursor stands at, and not been away since that was found? */
static bool is_placed(const ef_engine *e, const ef__scope *scope)
{
    return scope->placed && scope->comings == atomic_load(&e->journal->comings);
}

static ef_status read_on(ef_engine *e, const ef__live *live, ef__scope *scope, ef_tick *tick,
                         ef_error *err)
{
    bool catching_up = live->generation->state == EF__GENERATION_CATCHING_UP;
    ef_batch batch = EF_BATCH_INIT;
    ef__workset *set;
    int64_t reached;
    ef_status st = ef__workset_kept(e, &e->worksets, live, &set, err);

    if (st != EF_OK)
        return st;
    set->ahead.most = catching_up ? e->governor.pace.events : 0;
    st = ef__ahead_take(&set->ahead, e->journal, live->generation->position, &batch, &reached, err);
    cut(&batch, set->ahead.most, &reached);
    if (st == EF_OK && !is_placed(e, scope)) { /* it came back while we read: look first */
        tick->more = true;
        ef_batch_release(&batch);
        return EF_OK;
    }
    if (st == EF_OK && batch.more && ef__workset_is_small(set))
        ef__ahead_start(&set->ahead, e->journal, reached);
    if (st == EF_OK && catching_up)
        st = advance_governed(e, live, scope, &batch, reached, tick, err);
    else if (st == EF_OK && reached > live->generation->position)
        st = advance(e, live, scope, &batch, reached, !batch.more, tick, err);
    if (st == EF_OK)
        ef__journal_followed(e->journal, ef_str_from(set->ahead.reader), reached);
    ef__ahead_done(&set->ahead, &batch);
    return st;
}

/* The journal has it after all; or it was stopped by an Everfold that had one cursor for all
 * tenants. */
static ef_status wake_failed(ef_engine *e, const ef__generation *g, ef_tick *tick, ef_error *err)
{
    tick->more = true;
    return e->views->ops->generation_set_state(e->views, g->id, g->era, EF__GENERATION_CATCHING_UP,
                                               err);
}

/* Go on from the cursor, if that is a place to go on from. A journal that is open loses nothing, so
 * it is asked once, and of one that has failed every time: the right journal may be back. */
static ef_status go_on(ef_engine *e, const ef__live *live, ef__scope *scope, ef_tick *tick,
                       ef_error *err)
{
    const ef__generation *g = live->generation;
    bool failed = g->state == EF__GENERATION_FAILED;
    ef_status st = EF_OK;

    if (failed || !is_placed(e, scope)) {
        scope->comings = atomic_load(&e->journal->comings);
        st = ef__lost_look_at_cursor(e, g, &scope->placed, err);
    }
    if (st != EF_OK)
        return st;
    if (!scope->placed)
        return failed ? EF_OK : ef__lost_stop(e, g, err);
    if (failed)
        return wake_failed(e, g, tick, err);
    return ef__live_migrates(live) ? ef__migrate_step(e, live, scope, tick, err)
                                   : read_on(e, live, scope, tick, err);
}

/* Then no lease need be kept for it. */
static ef_status has_read_all(ef_engine *e, const ef__generation *g, const ef__scope *scope,
                              bool *out, ef_error *err)
{
    bool at_ease = g->state == EF__GENERATION_LIVE && is_placed(e, scope);
    ef_head head = {0};
    ef_status st = at_ease ? ef_journal_head(e->journal, &head, err) : EF_OK;

    *out = at_ease && st == EF_OK && g->position >= head.position;
    return st;
}

/* It holds the lease and goes on after a pause: the tick has more to do, though not at once. */
static void note_pause(ef_engine *e, const ef__generation *g, const ef__scope *scope)
{
    if (scope->token && g->state != EF__GENERATION_FAILED)
        atomic_store(&e->catch_up_pauses, true);
}

static ef_status cursor_generation(ef_engine *e, const ef__live *live, ef_tick *tick, ef_error *err)
{
    ef__scope *scope = ef__scope_of(e, live->generation);
    bool ready = false, done = false;
    ef_status st = scope ? has_read_all(e, live->generation, scope, &done, err)
                         : ef_fail(err, EF_NO_MEMORY, "memory ran out in the cursor driver");

    if (scope)
        scope->seen = true;
    if (st == EF_OK && !done)
        st = ef__scope_ready(e, scope, tick, &ready, err);
    if (st == EF_OK && !ready && !done)
        note_pause(e, live->generation, scope);
    if (st != EF_OK || !ready)
        return st;
    st = go_on(e, live, scope, tick, err);
    if (st == EF_CONFLICT)
        atomic_store(&e->catch_up_pauses, true);
    return ef__scope_answer(e, scope, st, tick);
}

static bool is_read(const ef__generation *g)
{
    return ef__generation_by_cursor(g) || g->state == EF__GENERATION_FAILED;
}

static bool is_behind(const ef__generation *g)
{
    return g->own_cursors && ef__generation_by_cursor(g);
}

typedef ef_status step_fn(ef_engine *e, const ef__live *live, ef_tick *tick, ef_error *err);

/* What goes wrong with one is no reason to leave the others where they are. */
static ef_status step_each(ef_engine *e, const ef__live_set *set,
                           bool (*wanted)(const ef__generation *g), step_fn *step, ef_tick *tick,
                           ef_error *err)
{
    ef_error first = EF_ERROR_INIT;
    ef_status failed = EF_OK;

    for (size_t i = 0; i < set->count; i++) {
        ef_error error = EF_ERROR_INIT;
        ef_status st =
            wanted(set->items[i].generation) ? step(e, &set->items[i], tick, &error) : EF_OK;
        if (st != EF_OK && failed == EF_OK) {
            failed = st;
            first = error;
        }
    }
    return failed == EF_OK ? EF_OK : ef_fail(err, failed, "%s", first.text);
}

/* The tenants that were behind before this tick, against the cursors as they are now. */
static ef_status step_tenants(ef_engine *e, const ef__live_set *before, ef_tick *tick,
                              ef_error *err)
{
    ef__live_set set;
    bool any = false;
    ef_status st;

    for (size_t i = 0; i < before->count; i++)
        any = any || is_behind(before->items[i].generation);
    if (!any) /* as nearly always */
        return EF_OK;
    st = ef__live_set_read(e, false, &set, err);
    if (st == EF_OK) {
        st = step_each(e, &set, is_behind, ef__tenants_step, tick, err);
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

ef_status ef__cursor_step(ef_engine *e, ef_tick *tick, ef_error *err)
{
    ef__live_set set;
    ef_status st = ef__live_set_read(e, false, &set, err), behind;

    if (st != EF_OK)
        return st;
    atomic_store(&e->reads_log, reads_the_log(&set));
    atomic_store(&e->catch_up_pauses, false);
    ef__worksets_prune(&e->worksets, &set, true);
    st = step_each(e, &set, is_read, cursor_generation, tick, err);
    behind = step_tenants(e, &set, tick, st == EF_OK ? err : NULL);
    if (st == EF_OK && behind == EF_OK)
        behind = ef__retired_step(e, &set.list, tick, err);
    if (st == EF_OK && behind == EF_OK)
        behind = ef__grace_step(e, &set.list, tick, err);
    ef__scopes_prune(e, false);
    ef__live_set_release(&set);
    return st == EF_OK ? behind : st;
}
