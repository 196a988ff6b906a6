/*
 * apply.c - see apply.h.
 *
 * The batch: each live generation folds it (apply_generation.h), two at a time when it is large,
 * and one commit writes the changes of all.
 */
#include "apply.h"
#include "apply_generation.h"
#include "queue.h"
#include "read.h"
#include "run.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#define ONE_THREAD_EVENTS 512 /* with fewer events a second thread costs more than it saves */

/* --- all generations -------------------------------------------------------------------------- */

/* Generations that are not folded yet; shared by the folding threads. */
typedef struct fold_queue {
    ef__generation_work *works;
    size_t count;
    atomic_size_t next;
} fold_queue;

static void *fold_waiting(void *context)
{
    fold_queue *folding = context;
    size_t g;

    while ((g = atomic_fetch_add(&folding->next, 1)) < folding->count)
        folding->works[g].st = ef__work_fold(&folding->works[g], &folding->works[g].err);
    return NULL;
}

/* Generations share nothing before the commit, so two threads fold a large batch. The second thread
 * lives for this batch; if it cannot be created, the first one folds everything. */
static ef_status fold_all(ef__generation_work *works, size_t count, size_t event_count,
                          ef_error *err)
{
    fold_queue folding = {.works = works, .count = count};
    bool helped = false;
    pthread_t thread;
    ef_status st = EF_OK;

    for (size_t g = 0; st == EF_OK && g < count; g++)
        st = ef__work_open(&works[g], err);
    if (st != EF_OK)
        return st;
    if (count > 1 && event_count >= ONE_THREAD_EVENTS)
        helped = pthread_create(&thread, NULL, fold_waiting, &folding) == 0;
    (void)fold_waiting(&folding);
    if (helped)
        (void)pthread_join(thread, NULL);
    for (size_t g = 0; g < count; g++)
        if (works[g].st != EF_OK) {
            if (err)
                *err = works[g].err;
            return works[g].st;
        }
    return EF_OK;
}

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
static ef_status read_intents(ef_engine *engine, ef__apply *apply, bool **out, ef_error *err)
{
    EF__AUTO(ef_type_list) types = {0};
    ef_status st = ef__types_not_folded(engine->journal, &types, err);

    *out = ef__arena_zalloc(&apply->arena, apply->event_count + 1, sizeof **out);
    if (st == EF_OK && !*out)
        st = ef__apply_no_memory(err);
    for (size_t n = 0; st == EF_OK && types.count && n < apply->event_count; n++)
        (*out)[n] = ef__types_has(&types, apply->events[n]->type);
    return st;
}

static ef_status read_head(void *context, int64_t *out, ef_error *err)
{
    ef_head head;
    ef_status st = ef_journal_head(context, &head, err);

    *out = st == EF_OK ? head.position : -1;
    return st;
}

/* May a power cut undo the commit? A cursor and its views are undone together, and the events are
 * read again. Not where events are acknowledged to the journal (JetStream), nor for a tenant with
 * its own cursor there, whose events were acknowledged when it stopped. */
static bool may_be_lost(const ef_engine *engine, const ef__apply *apply)
{
    bool by_cursor = apply->moves_cursor || apply->tenant;

    return by_cursor && !ef__journal_is_acknowledged(engine->journal);
}

static ef_status commit_batch(ef_engine *engine, ef__apply *apply,
                              const ef__generation_change *changes, size_t count, ef_error *err)
{
    ef_status st =
        engine->views->ops->commit(engine->views,
                                   &(ef__views_commit){.live_set = apply->live_set,
                                                       .no_sync = may_be_lost(engine, apply),
                                                       .head = read_head,
                                                       .head_context = engine->journal,
                                                       .out_live = &apply->went_live,
                                                       .also = apply->complete,
                                                       .also_context = apply->complete_context,
                                                       .fences = apply->fences,
                                                       .fence_count = apply->fence_count,
                                                       .generations = changes,
                                                       .generation_count = count},
                                   err);

    if (st == EF_OK)
        ef__read_waits_wake(engine);
    return st;
}

/* No outbox row brings these events again, so each gets a row in the projection's lane. Before the
 * commit: after a crash in between, a superfluous row is harmless, and a missing one would be a
 * gap.
 */
static ef_status add_waiting_rows(ef_engine *engine, const ef__apply *apply, ef_error *err)
{
    size_t most = apply->generation_count * apply->event_count, count = 0;
    ef_retry_row *rows;
    ef_status st;

    for (size_t i = 0; i < most; i++)
        count += ef__verdict_waits(apply->results[i].verdict);
    if (count == 0)
        return EF_OK;
    rows = malloc(count * sizeof *rows);
    if (!rows)
        return ef__apply_no_memory(err);
    count = ef__retry_rows_collect(engine, apply, rows);
    st = EF_OK;
    for (size_t at = 0; st == EF_OK && at < count; at += EF__ENGINE_BATCH) {
        size_t left = count - at;
        st = ef__retry_rows_write(engine, rows + at,
                                  left < EF__ENGINE_BATCH ? left : EF__ENGINE_BATCH, err);
    }
    free(rows);
    return st;
}

/* Allocates the work of each generation, and its change. */
static ef_status create_works(ef_engine *engine, ef__apply *apply, ef__generation_change *changes,
                              ef__generation_work **out, ef_error *err)
{
    size_t count = apply->generation_count;
    ef__generation_work *works = ef__arena_zalloc(&apply->arena, count + 1, sizeof *works);
    bool *not_folded = NULL;
    ef_status st;

    apply->results =
        ef__arena_zalloc(&apply->arena, count * apply->event_count + 1, sizeof *apply->results);
    apply->arenas = ef__arena_zalloc(&apply->arena, count + 1, sizeof *apply->arenas);
    if (!works || !apply->results || !apply->arenas)
        return ef__apply_no_memory(err);
    st = read_intents(engine, apply, &not_folded, err);
    for (size_t g = 0; g < count; g++) {
        apply->arenas[g] = (ef__arena)EF__ARENA_INIT(EF__APPLY_ARENA_MAX);
        changes[g].generation = apply->generations[g].generation->id;
        changes[g].era = apply->generations[g].generation->era;
        works[g] = (ef__generation_work){.engine = engine,
                                         .apply = apply,
                                         .change = &changes[g],
                                         .arena = &apply->arenas[g],
                                         .results = apply->results + g * apply->event_count,
                                         .live = &apply->generations[g],
                                         .not_folded = not_folded,
                                         .stopped = EF__STOPPED_TENANTS_INIT(
                                             apply->generations[g].generation, &apply->arenas[g]),
                                         .err = EF_ERROR_INIT};
    }
    *out = works;
    return st;
}

ef_status ef__apply_run(ef_engine *engine, ef__apply *apply, ef_error *err)
{
    size_t generations = apply->generation_count;
    ef__generation_change *changes =
        ef__arena_zalloc(&apply->arena, generations + 1, sizeof *changes);
    int64_t began_us = ef__engine_mono_us(engine), folded_us;
    ef__generation_work *works = NULL;
    ef_status st;

    apply->went_live = apply->stopped = false;
    apply->applied = apply->ignored = apply->failed = 0;
    st = changes ? create_works(engine, apply, changes, &works, err) : ef__apply_no_memory(err);
    if (st == EF_OK)
        st = fold_all(works, generations, apply->event_count, err);
    folded_us = ef__engine_mono_us(engine);
    for (size_t g = 0; st == EF_OK && g < generations; g++)
        ef__work_complete(&works[g], &changes[g]);
    if (st == EF_OK && apply->adds_retry_rows)
        st = add_waiting_rows(engine, apply, err);
    if (st == EF_OK)
        st = commit_batch(engine, apply, changes, generations, err);
    ef__read_targets_invalidate(engine);
    if (st == EF_OK)
        ef__count_batch(engine, apply->event_count, ef__engine_mono_us(engine) - began_us,
                        folded_us - began_us);
    apply->tenants = changes && generations ? changes[0].tenants : NULL;
    apply->tenant_count = st == EF_OK && generations ? changes[0].tenant_count : 0;
    for (size_t g = 0; works && g < generations; g++)
        ef__work_close(&works[g], st == EF_OK);
    return st;
}

static void release_results(ef__apply *apply)
{
    for (size_t g = 0; apply->arenas && g < apply->generation_count; g++)
        ef__arena_release(&apply->arenas[g]);
    apply->arenas = NULL;
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
        st = ef__apply_run(engine, apply, err);
        if (st != EF_CONFLICT || tries == EF__ENGINE_RESTARTS_MAX)
            return st;
    }
}

ef_status ef__apply_set_events(ef__apply *apply, const ef_event *events, size_t count,
                               ef_error *err)
{
    apply->owned = malloc((count + 1) * sizeof(ef_event *));
    if (!apply->owned)
        return ef__apply_no_memory(err);
    for (size_t i = 0; i < count; i++)
        apply->owned[i] = &events[i];
    apply->events = apply->owned;
    apply->event_count = count;
    return EF_OK;
}
