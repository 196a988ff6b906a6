/*
 * apply.c - see apply.h.
 *
 * The generations of a batch form groups. Each group folds the batch and commits it (apply_group.h)
 * before the next one begins, so that memory and commits are bounded whatever the number of
 * projections. Only the commit of the last group may acknowledge the batch: after a crash between
 * two groups it is claimed again, and the watermarks drop what the first groups have.
 */
#include "apply.h"
#include "apply_group.h"
#include "queue.h"
#include "read.h"
#include "run.h"

#include "../journal/journal.h"

#include <assert.h>
#include <stdlib.h>

/* --- the batch -------------------------------------------------------------------------------- */

static int compare_type(const void *name, const void *type)
{
    return ef__str_compare(*(const ef_str *)name, ((const ef_type *)type)->name);
}

bool ef__types_has(const ef_type_list *types, ef_str name)
{
    return types->count &&
           bsearch(&name, types->items, types->count, sizeof *types->items, compare_type);
}

/* For each event: is its type one that is not folded? */
static ef_status read_intents(ef_engine *engine, ef__apply *apply, ef_error *err)
{
    EF__AUTO(ef_type_list) types = {0};
    ef_status st = ef__types_not_folded(engine->journal, &types, err);
    bool *out = ef__arena_zalloc(&apply->batch_arena, apply->event_count + 1, sizeof *out);

    if (st == EF_OK && !out)
        st = ef__apply_no_memory(err);
    for (size_t n = 0; st == EF_OK && types.count && n < apply->event_count; n++)
        out[n] = ef__types_has(&types, apply->events[n]->type);
    apply->not_folded = out;
    return st;
}

/* Memory for the results of the events, which are folded next. */
static ef_status begin_batch(ef_engine *engine, ef__apply *apply, ef_error *err)
{
    size_t count = apply->generation_count * apply->event_count;

    ef__arena_reset(&apply->batch_arena);
    apply->stopped = false;
    apply->results = ef__arena_zalloc(&apply->batch_arena, count + 1, sizeof *apply->results);
    return apply->results ? read_intents(engine, apply, err) : ef__apply_no_memory(err);
}

static ef_status begin_apply(ef__apply *apply, ef_error *err)
{
    apply->went_live = apply->stopped = false;
    apply->batch_arena.max_bytes = EF__APPLY_ARENA_MAX;
    apply->arenas =
        ef__arena_zalloc(&apply->arena, apply->generation_count + 1, sizeof *apply->arenas);
    if (!apply->arenas)
        return ef__apply_no_memory(err);
    for (size_t g = 0; g < apply->generation_count; g++)
        apply->arenas[g] = (ef__arena)EF__ARENA_INIT(EF__APPLY_ARENA_MAX);
    return EF_OK;
}

/* --- groups ----------------------------------------------------------------------------------- */

/* The end of the group that begins with generation `first`: one projection, and more of them while
 * their outcomes are within the limit. Generations of a projection share their retry rows. */
static size_t group_end(const ef_engine *engine, const ef__apply *apply, size_t first)
{
    size_t end = first;

    while (end < apply->generation_count) {
        ef_str name = apply->generations[end].generation->name;
        size_t next = end;
        while (next < apply->generation_count &&
               ef_str_equal(apply->generations[next].generation->name, name))
            next++;
        if (end > first && (next - first) * apply->event_count > engine->commit_outcomes)
            break;
        end = next;
    }
    return end;
}

static ef_status run_group(ef_engine *engine, ef__apply *apply, size_t first, size_t end,
                           int64_t *fold_us, ef_error *err)
{
    ef__apply_group group;
    ef_status st = ef__group_open(engine, apply, first, end, &group, err);

    apply->rows_from = first;
    if (st == EF_OK)
        st = ef__group_fold(&group, err);
    if (st == EF_OK)
        st = ef__group_end(&group, err);
    ef__group_close(&group, st == EF_OK);
    *fold_us += group.fold_us;
    return st;
}

static ef_status run_groups(ef_engine *engine, ef__apply *apply, ef_error *err)
{
    int64_t began_us = ef__engine_mono_us(engine), fold_us = 0;
    size_t end = 0;
    ef_status st = begin_apply(apply, err);

    if (st == EF_OK)
        st = begin_batch(engine, apply, err);
    while (st == EF_OK) {
        size_t first = end;
        end = group_end(engine, apply, first);
        st = run_group(engine, apply, first, end, &fold_us, err);
        if (end == apply->generation_count)
            break;
    }
    ef__read_targets_invalidate(engine);
    if (st == EF_OK)
        ef__count_batch(engine, apply->event_count, ef__engine_mono_us(engine) - began_us, fold_us);
    return st;
}

ef_status ef__apply_run(ef_engine *engine, ef__apply *apply, ef_error *err)
{
    apply->applied = apply->ignored = apply->failed = 0;
    return run_groups(engine, apply, err);
}

/* --- several batches -------------------------------------------------------------------------- */

ef_status ef__apply_begin(ef_engine *engine, ef__apply *apply, ef__apply_group *group,
                          ef_error *err)
{
    ef_status st = begin_apply(apply, err);

    *group = (ef__apply_group){.engine = engine, .apply = apply};
    apply->accumulates = true;
    apply->applied = apply->ignored = apply->failed = 0;
    return st == EF_OK ? ef__group_open(engine, apply, 0, apply->generation_count, group, err) : st;
}

ef_status ef__apply_fold(ef__apply_group *group, ef_error *err)
{
    ef_status st = begin_batch(group->engine, group->apply, err);

    return st == EF_OK ? ef__group_fold(group, err) : st;
}

ef_status ef__apply_end(ef__apply_group *group, ef_status st, ef_error *err)
{
    ef_engine *engine = group->engine;

    if (st == EF_OK)
        st = ef__group_end(group, err);
    ef__group_close(group, st == EF_OK);
    ef__read_targets_invalidate(engine);
    if (st == EF_OK)
        ef__count_batch(engine, group->events, ef__engine_mono_us(engine) - group->began_us,
                        group->fold_us);
    return st;
}

static void release_results(ef__apply *apply)
{
    for (size_t g = 0; apply->arenas && g < apply->generation_count; g++)
        ef__arena_release(&apply->arenas[g]);
    apply->arenas = NULL;
    ef__arena_release(&apply->batch_arena);
    ef__arena_release(&apply->arena);
    apply->results = NULL;
}

void ef__apply_release(ef__apply *apply)
{
    release_results(apply);
    ef__live_set_release(&apply->set);
    free(apply->owned);
    apply->owned = NULL;
}

/* --- live generations ------------------------------------------------------------------------- */

ef_status ef__apply_run_live(ef_engine *engine, const ef__live_choice *choice, ef__apply *apply,
                             ef_error *err)
{
    ef__live_set *set = &apply->set;

    apply->applied = apply->ignored = apply->failed = 0;
    for (int tries = 1;; tries++) {
        ef_status st;
        release_results(apply);
        ef__live_set_release(set);
        st = ef__live_set_read(engine, choice, set, err);
        if (st != EF_OK)
            return st;
        if (apply->caches)
            ef__view_caches_prune(apply->caches, set, false);
        apply->generations = set->items;
        apply->generation_count = set->count;
        apply->live_set = set->list.live_set;
        if (set->count == 0 && apply->fence_count == 0)
            return EF_OK;
        st = run_groups(engine, apply, err);
        if (st != EF_CONFLICT || tries == EF__ENGINE_RESTARTS_MAX)
            return st;
    }
}

ef_status ef__apply_set_events(ef__apply *apply, const ef_event *events, size_t count,
                               ef_error *err)
{
    const ef_event **owned = realloc(apply->owned, (count + 1) * sizeof(ef_event *));

    if (!owned)
        return ef__apply_no_memory(err);
    apply->owned = owned;
    for (size_t i = 0; i < count; i++)
        apply->owned[i] = &events[i];
    apply->events = apply->owned;
    apply->event_count = count;
    return EF_OK;
}
