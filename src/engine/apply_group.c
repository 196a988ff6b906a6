/*
 * apply_group.c - see apply_group.h.
 */
#include "apply_group.h"
#include "queue.h"
#include "read.h"

#include "../journal/journal.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#define ONE_THREAD_EVENTS 512 /* with fewer events a second thread costs more than it saves */

/* --- folding ---------------------------------------------------------------------------------- */

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

    while ((g = atomic_fetch_add(&folding->next, 1)) < folding->count) {
        ef__generation_work *work = &folding->works[g];
        bool is_begun = work->next > 0;
        work->st = is_begun && ef__work_has_folded(work) ? EF_OK : ef__work_fold(work, &work->err);
    }
    return NULL;
}

/* Generations share nothing before the commit, so two threads fold a large batch. The second thread
 * lives for this batch; if it cannot be created, the first one folds everything. */
static ef_status fold_all(ef__apply_group *group, ef_error *err)
{
    fold_queue folding = {.works = group->works, .count = group->count};
    int64_t began_us = ef__engine_mono_us(group->engine);
    bool helped = false;
    pthread_t thread;

    if (group->count > 1 && group->apply->event_count >= ONE_THREAD_EVENTS)
        helped = pthread_create(&thread, NULL, fold_waiting, &folding) == 0;
    (void)fold_waiting(&folding);
    if (helped)
        (void)pthread_join(thread, NULL);
    group->fold_us += ef__engine_mono_us(group->engine) - began_us;
    for (size_t g = 0; g < group->count; g++)
        if (group->works[g].st != EF_OK) {
            if (err)
                *err = group->works[g].err;
            return group->works[g].st;
        }
    return EF_OK;
}

/* --- committing ------------------------------------------------------------------------------- */

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

static void *write_commit(void *context)
{
    ef__group_commit *commit = context;
    const ef__apply *apply = commit->apply;
    ef_engine *engine = commit->engine;

    commit->st = engine->views->ops->commit(
        engine->views,
        &(ef__views_commit){.live_set = apply->live_set,
                            .no_sync = may_be_lost(engine, apply),
                            .head = read_head,
                            .head_context = engine->journal,
                            .out_live = &commit->went_live,
                            .also = commit->is_last ? apply->complete : NULL,
                            .also_context = apply->context,
                            .fences = apply->fences,
                            .fence_count = apply->fence_count,
                            .generations = commit->changes,
                            .generation_count = commit->count},
        &commit->err);
    if (commit->st == EF_OK)
        ef__read_waits_wake(engine);
    return NULL;
}

/* No outbox row brings these events again, so each gets a row in the projection's lane. Before the
 * commit: after a crash in between, a superfluous row is harmless, and a missing one would be a
 * gap. */
static ef_status add_waiting_rows(const ef__apply_group *group, ef_error *err)
{
    const ef__apply *apply = group->apply;
    const ef__apply_result *results = apply->results + group->first * apply->event_count;
    size_t most = group->count * apply->event_count, count = 0;
    ef_retry_row *rows;
    ef_status st = EF_OK;

    for (size_t i = 0; i < most; i++)
        count += ef__verdict_waits(results[i].verdict);
    if (count == 0)
        return EF_OK;
    rows = malloc(count * sizeof *rows);
    if (!rows)
        return ef__apply_no_memory(err);
    count = ef__retry_rows_collect(group->engine, apply, group->first, group->first + group->count,
                                   rows);
    for (size_t at = 0; st == EF_OK && at < count; at += EF__ENGINE_BATCH) {
        size_t left = count - at;
        st = ef__retry_rows_write(group->engine, rows + at,
                                  left < EF__ENGINE_BATCH ? left : EF__ENGINE_BATCH, err);
    }
    if (st == EF_OK && !apply->adds_retry_rows)
        ef__count_retry_rows(group->engine, rows, count);
    free(rows);
    return st;
}

/* The caller's acknowledgement brings the rows of the last group, unless there is none. */
static bool adds_rows(const ef__apply_group *group)
{
    return group->apply->adds_retry_rows || !group->acks;
}

/* The result of a commit; on EF_OK it is part of the results of the apply. */
static ef_status end_commit(ef__apply_group *group, ef__group_commit *commit, ef_error *err)
{
    if (commit->st != EF_OK) {
        if (err)
            *err = commit->err;
        return commit->st;
    }
    group->apply->went_live = group->apply->went_live || commit->went_live;
    for (size_t g = 0; g < group->count; g++) {
        ef__part_commit(&group->works[g], &commit->parts[g]);
        ef__part_reset(&commit->parts[g]);
    }
    return EF_OK;
}

/* Waits for the commit that runs. */
static ef_status join_commit(ef__apply_group *group, ef_error *err)
{
    if (!group->running)
        return EF_OK;
    if (group->is_thread)
        (void)pthread_join(group->thread, NULL);
    group->running = group->is_thread = false;
    return end_commit(group, &group->commits[!group->filling], err);
}

static ef__group_commit *complete_commit(ef__apply_group *group, bool is_last)
{
    ef__group_commit *commit = &group->commits[group->filling];

    for (size_t g = 0; g < group->count; g++)
        ef__work_complete(&group->works[g], is_last);
    commit->is_last = is_last && group->acks;
    commit->st = EF_OK;
    return commit;
}

/* What follows is a part of the other commit. */
static void begin_part(ef__apply_group *group)
{
    group->filling = !group->filling;
    for (size_t g = 0; g < group->count; g++)
        group->works[g].part = &group->commits[group->filling].parts[g];
}

/* May the next part be folded before this one is committed? The views must stay in memory. */
static bool may_run_beside(const ef__apply_group *group)
{
    return group->apply->accumulates && group->count == 1 &&
           !ef__view_caches_are_full(group->works[0].cache);
}

/* Starts the commit of a part. The view cache is ahead of the store until it is done. */
static void start_commit(ef__apply_group *group, ef__group_commit *commit)
{
    begin_part(group);
    group->running = true;
    group->is_thread = pthread_create(&group->thread, NULL, write_commit, commit) == 0;
    if (!group->is_thread)
        (void)write_commit(commit);
}

/* Commits, then evicts: no change is in memory only. */
static ef_status commit_now(ef__apply_group *group, ef__group_commit *commit, ef_error *err)
{
    ef_status st;

    (void)write_commit(commit);
    for (size_t g = 0; commit->st == EF_OK && g < group->count; g++) {
        const ef__generation_work *work = &group->works[g];
        if (!ef__view_cache_commit(work->cache, work->part->change))
            ef__view_cache_reset(work->cache);
        ef__view_cache_evict(work->cache);
    }
    st = end_commit(group, commit, err);
    begin_part(group);
    return st;
}

static ef_status commit_part(ef__apply_group *group, bool is_last, ef_error *err)
{
    ef__group_commit *commit;
    ef_status st = join_commit(group, err);

    for (size_t g = 0; st == EF_OK && g < group->count; g++)
        if (!group->works[g].part->views)
            st = ef__work_collect_views(&group->works[g], err);
    if (st == EF_OK && !is_last && adds_rows(group))
        st = add_waiting_rows(group, err);
    if (st == EF_OK && group->apply->renew)
        st = group->apply->renew(group->apply->context, err);
    if (st != EF_OK)
        return st;
    commit = complete_commit(group, is_last);
    if (is_last || !may_run_beside(group) ||
        !ef__view_cache_commit(group->works[0].cache, commit->changes))
        return commit_now(group, commit, err);
    start_commit(group, commit);
    return EF_OK;
}

/* --- the group -------------------------------------------------------------------------------- */

static ef_status open_commits(ef__apply_group *group, ef_error *err)
{
    for (int i = 0; i < 2; i++) {
        ef__group_commit *commit = &group->commits[i];
        ef__arena *arena = &group->apply->arena;
        *commit = (ef__group_commit){
            .engine = group->engine,
            .apply = group->apply,
            .parts = ef__arena_zalloc(arena, group->count + 1, sizeof *commit->parts),
            .changes = ef__arena_zalloc(arena, group->count + 1, sizeof *commit->changes),
            .count = group->count,
            .err = EF_ERROR_INIT};
        if (!commit->parts || !commit->changes)
            return ef__apply_no_memory(err);
        for (size_t g = 0; g < group->count; g++) {
            const ef__live *live = &group->apply->generations[group->first + g];
            commit->changes[g].generation = live->generation->id;
            commit->changes[g].era = live->generation->era;
            commit->parts[g].change = &commit->changes[g];
            commit->parts[g].arena = (ef__arena)EF__ARENA_INIT(EF__APPLY_ARENA_MAX);
        }
    }
    return EF_OK;
}

static void init_work(ef__apply_group *group, size_t g)
{
    const ef__live *live = &group->apply->generations[group->first + g];
    ef__arena *messages = &group->apply->arenas[group->first + g];

    group->works[g] =
        (ef__generation_work){.engine = group->engine,
                              .apply = group->apply,
                              .messages = messages,
                              .live = live,
                              .part = group->commits[0].parts ? &group->commits[0].parts[g] : NULL,
                              .stopped = EF__STOPPED_TENANTS_INIT(live->generation, messages),
                              .err = EF_ERROR_INIT};
}

ef_status ef__group_open(ef_engine *engine, ef__apply *apply, size_t first, size_t end,
                         ef__apply_group *out, ef_error *err)
{
    size_t count = end - first;
    ef_status st;

    *out = (ef__apply_group){
        .engine = engine,
        .apply = apply,
        .works = ef__arena_zalloc(&apply->arena, count + 1, sizeof(ef__generation_work)),
        .first = first,
        .acks = end == apply->generation_count,
        .began_us = ef__engine_mono_us(engine)};
    out->count = out->works ? count : 0;
    st = out->works ? open_commits(out, err) : ef__apply_no_memory(err);
    for (size_t g = 0; g < out->count; g++)
        init_work(out, g);
    for (size_t g = 0; st == EF_OK && g < count; g++)
        st = ef__work_open(&out->works[g], err);
    return st;
}

static bool has_folded(const ef__apply_group *group)
{
    for (size_t g = 0; g < group->count; g++)
        if (!ef__work_has_folded(&group->works[g]))
            return false;
    return true;
}

bool ef__group_is_full(const ef__apply_group *group)
{
    for (size_t g = 0; g < group->count; g++)
        if (group->works[g].is_full)
            return true;
    return false;
}

/* Do the changes fill a commit that is not the last? In a log-ordered generation it is the last. */
static bool needs_commit(const ef__apply_group *group)
{
    const ef__apply *apply = group->apply;
    bool by_log = group->count && group->works[0].live->generation->by_log;

    return !has_folded(group) || (apply->accumulates && !by_log && ef__group_is_full(group));
}

ef_status ef__group_fold(ef__apply_group *group, ef_error *err)
{
    ef__apply *apply = group->apply;
    ef_status st = EF_OK;

    for (size_t g = 0; st == EF_OK && g < group->count; g++)
        st = ef__work_begin_batch(&group->works[g],
                                  apply->results + (group->first + g) * apply->event_count, err);
    if (st == EF_OK)
        st = fold_all(group, err);
    while (st == EF_OK && needs_commit(group)) {
        st = commit_part(group, false, err);
        if (st == EF_OK && !has_folded(group))
            st = fold_all(group, err);
    }
    group->events += apply->event_count;
    return st == EF_OK && adds_rows(group) ? add_waiting_rows(group, err) : st;
}

ef_status ef__group_end(ef__apply_group *group, ef_error *err)
{
    return commit_part(group, true, err);
}

void ef__group_close(ef__apply_group *group, bool is_committed)
{
    is_committed = join_commit(group, NULL) == EF_OK && is_committed;
    if (is_committed && group->count == 1) {
        group->apply->tenants = group->works[0].stopped.items;
        group->apply->tenant_count = group->works[0].stopped.count;
    }
    for (size_t g = 0; g < group->count; g++)
        ef__work_close(&group->works[g], is_committed);
    for (int i = 0; i < 2; i++)
        for (size_t g = 0; group->commits[i].parts && g < group->count; g++)
            ef__arena_release(&group->commits[i].parts[g].arena);
}
