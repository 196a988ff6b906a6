/*
 * inline_append.c - appends through an engine. In the inline modes the events are folded before the
 * append returns.
 *
 * In inline_apply_only nothing is queued and no worker is needed, so an append also does a worker's
 * part: it advances log-ordered projections to its events and a catch-up by a step, and retries due
 * rows. With a supervisor on the same engine, the last two are left to it.
 */
#include "queue.h"
#include "run.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define RUN_GAP 64        /* foreign events between two of the append: read together with them */
#define FOLLOW_US 2000000 /* another process may hold the lease of a log-ordered projection */
#define FOLLOW_POLL_MS 2
#define RETRY_TICKS 16 /* per append: it must not wait long for old failures */

/* --- stream-ordered projections --------------------------------------------------------------- */

/* Each batch is complete per stream. */
static ef_status apply_appended(ef_engine *engine, const ef_event *events, size_t count,
                                ef_error *err)
{
    EF__AUTO(ef__apply) apply = {.adds_retry_rows =
                                     engine->options.mode == EF_MODE_INLINE_APPLY_ONLY,
                                 .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    ef_status st = ef__apply_set_events(&apply, events, count, err);

    if (st == EF_OK)
        st = ef__apply_run_live(engine, &(ef__live_choice){.by_queue = true}, &apply, err);
    return st;
}

/* Applies the events at positions first to last. Failures are recorded by the apply. */
static ef_status fold_range(ef_engine *engine, int64_t first, int64_t last, ef_error *err)
{
    ef_status st = EF_OK;

    for (int64_t after = first - 1; st == EF_OK && after < last;) {
        ef_batch batch = EF_BATCH_INIT;
        int64_t reached = after;
        st = ef_journal_read_log(engine->journal,
                                 &(ef_log_query){.any_tenant = true,
                                                 .after = after,
                                                 .limit = EF__ENGINE_BATCH,
                                                 .out_reached = &reached},
                                 &batch, err);
        size_t n = batch.count;
        while (n > 0 && batch.events[n - 1].position > last)
            n--;
        if (st == EF_OK && n)
            st = apply_appended(engine, batch.events, n, err);
        EF_RELEASE(&batch);
        if (reached == after)
            break;
        after = reached;
    }
    return st;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Folds each range of adjacent positions: a duplicate may be far from the new events. */
static ef_status fold_runs(ef_engine *engine, int64_t *positions, size_t count, ef_error *err)
{
    ef_status st = EF_OK;

    qsort(positions, count, sizeof *positions, by_number);
    for (size_t first = 0, end; st == EF_OK && first < count; first = end) {
        for (end = first + 1; end < count && positions[end] - positions[end - 1] <= RUN_GAP; end++)
            ;
        st = fold_range(engine, positions[first], positions[end - 1], err);
    }
    return st;
}

/* --- a worker's part -------------------------------------------------------------------------- */

/* Generations with a cursor: is a live one before `last`, does one catch up? */
static ef_status read_cursors(ef_engine *engine, int64_t last, bool *out_behind,
                              bool *out_catching_up, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef_status st = ef__engine_generations(engine, (ef_str){0}, &list, err);

    *out_behind = *out_catching_up = false;
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *generation = &list.items[i];
        if (!ef__generation_by_cursor(generation) || ef__c_function_missing(engine, generation))
            continue;
        *out_catching_up = *out_catching_up || generation->state == EF__GENERATION_CATCHING_UP;
        *out_behind = *out_behind || (generation->state == EF__GENERATION_LIVE &&
                                      generation->by_log && generation->position < last);
    }
    return st;
}

/* Log-ordered projections advance to `last`, by this process or by the one that holds the lease. */
static ef_status follow_log(ef_engine *engine, int64_t last, ef_error *err)
{
    int64_t until_us = ef__engine_mono_us(engine) + FOLLOW_US;
    bool behind = true, catching_up = false, stepped = false;
    ef_status st = EF_OK;

    while (st == EF_OK) {
        ef_tick tick = {0};
        bool step;
        st = read_cursors(engine, last, &behind, &catching_up, err);
        step = behind || (catching_up && !stepped && !atomic_load(&engine->supervised));
        if (st != EF_OK || !step || ef__engine_mono_us(engine) > until_us)
            break;
        st = ef__cursor_driver_step(engine, NULL, &tick, err);
        stepped = true;
        if (st == EF_OK && behind && tick.caught_up == 0)
            (void)nanosleep(&(struct timespec){.tv_nsec = FOLLOW_POLL_MS * 1000000}, NULL);
    }
    return st;
}

/* Retry rows that are due, without a worker that claims them. */
static ef_status retry_due(ef_engine *engine, ef_error *err)
{
    ef_tick tick = {.more = true};
    bool waits = false, alone = false;
    ef_status st = EF_OK;

    if (atomic_load(&engine->supervised))
        return EF_OK;
    st = ef__outbox_has_work(engine->journal, &waits, err);
    if (st == EF_OK && waits)
        st = ef__worker_is_alone(engine, &alone, err);
    for (int i = 0; st == EF_OK && waits && alone && tick.more && i < RETRY_TICKS; i++) {
        tick = (ef_tick){0};
        st = ef__queue_driver_step(engine, &(ef_work_options){0}, &tick, err);
    }
    return st;
}

/* --- appending -------------------------------------------------------------------------------- */

/* The next tick of a worker in this engine checks for gaps. */
static void request_gap_check(ef_engine *engine)
{
    EF__LOCK(&engine->queue.lock);
    engine->queue.gaps.is_done = false;
    engine->queue.gaps.pass = (ef__gap_pass){0};
}

/* The events are committed to the journal. A failure here is logged and left to a worker: to the
 * queue, or in inline_apply_only to the gap check. */
static void fold_appended(ef_engine *engine, int64_t *positions, size_t count)
{
    bool only = engine->options.mode == EF_MODE_INLINE_APPLY_ONLY;
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    if (count == 0)
        return;
    st = fold_runs(engine, positions, count, &err);
    if (st == EF_OK && (only || engine->options.mode == EF_MODE_SHADOW_ONLY))
        st = follow_log(engine, positions[count - 1], &err);
    if (st == EF_OK && only)
        st = retry_due(engine, &err);
    if (st == EF_OK)
        return;
    ef__log(engine->options.log, EF_LOG_WARN, "inline fold failed, left to a worker",
            EF_LOG_NUMBER_FIELD("position", positions[0]),
            EF_LOG_TEXT_FIELD("error", ef_str_from(err.text)));
    if (only)
        request_gap_check(engine);
}

static bool folds_inline(const ef_engine *engine)
{
    return engine->options.mode != EF_MODE_OUTBOX_APPLY_ONLY;
}

static void fold_appends(ef_engine *engine, const ef_append *appends, size_t count)
{
    size_t events = 0, used = 0;
    int64_t *positions;

    for (size_t i = 0; i < count; i++)
        events += appends[i].status == EF_OK ? appends[i].count : 0;
    if (!folds_inline(engine) || events == 0)
        return;
    positions = malloc(events * sizeof *positions);
    for (size_t i = 0; positions && i < count; i++)
        for (size_t n = 0; appends[i].status == EF_OK && n < appends[i].count; n++)
            positions[used++] = appends[i].out_places[n].position;
    if (positions)
        fold_appended(engine, positions, used);
    else if (engine->options.mode == EF_MODE_INLINE_APPLY_ONLY)
        request_gap_check(engine);
    free(positions);
}

ef_status ef_engine_append(ef_engine *engine, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err)
{
    ef_append append = {.events = events, .count = count, .out_places = out_places};
    ef_status st;

    if (!engine)
        return ef_fail(err, EF_BAD_INPUT, "engine is NULL");
    st = ef_journal_append(engine->journal, events, count, out_places, err);
    append.status = st;
    if (st == EF_OK)
        fold_appends(engine, &append, 1);
    return st;
}

void ef_engine_append_each(ef_engine *engine, ef_append *appends, size_t count)
{
    ef_journal_append_each(engine ? engine->journal : NULL, appends, count);
    if (engine)
        fold_appends(engine, appends, count);
}
