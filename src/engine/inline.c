/*
 * inline.c - appending through an engine. In the inline modes the events are folded before the
 * append returns.
 *
 * In inline_apply_only nothing is queued and no worker need run, so an append also does what a
 * worker would: it lets log-ordered projections read up to its events, moves a catch-up on by a
 * step, and retries failed events that are due. Where a supervisor works in the same engine, the
 * last two are left to it.
 */
#include "queue.h"
#include "run.h"
#include "workset.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define RUN_GAP 64        /* events of others between two of ours: read along with them */
#define FOLLOW_US 2000000 /* another process may hold the lease of a log-ordered projection */
#define FOLLOW_POLL_MS 2
#define RETRY_TICKS 16 /* of one append: it must not wait long for old failures */

/* --- stream-ordered projections ------------------------------------------------------------------
 */

/* Apply the events at positions first to last. Failures are recorded by the apply. */
static ef_status fold_range(ef_engine *e, int64_t first, int64_t last, ef_error *err)
{
    ef_status st = EF_OK;

    for (int64_t after = first - 1; st == EF_OK && after < last;) {
        ef_batch batch = EF_BATCH_INIT;
        int64_t reached = after;
        st = ef_journal_read_log(e->journal,
                                 &(ef_log_query){.any_tenant = true,
                                                 .after = after,
                                                 .limit = EF__ENGINE_BATCH,
                                                 .out_reached = &reached},
                                 &batch, err);
        size_t n = batch.count;
        while (n > 0 && batch.events[n - 1].position > last)
            n--;
        if (st == EF_OK && n)
            st = ef__apply_live(e, batch.events, n, err);
        ef_batch_release(&batch);
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

/* Each run of neighbouring positions once: a duplicate may be far from what is new. */
static ef_status fold_runs(ef_engine *e, int64_t *positions, size_t count, ef_error *err)
{
    ef_status st = EF_OK;

    qsort(positions, count, sizeof *positions, by_number);
    for (size_t first = 0, end; st == EF_OK && first < count; first = end) {
        for (end = first + 1; end < count && positions[end] - positions[end - 1] <= RUN_GAP; end++)
            ;
        st = fold_range(e, positions[first], positions[end - 1], err);
    }
    return st;
}

/* --- what a worker would do ----------------------------------------------------------------------
 */

/* Generations that are fed by a cursor: is one that is live before `last`, does one catch up? */
static ef_status look_at_cursors(ef_engine *e, int64_t last, bool *out_behind,
                                 bool *out_catching_up, ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st = ef__room_ready(&list.room, err);

    *out_behind = *out_catching_up = false;
    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, (ef_str){0}, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *g = &list.items[i];
        if (!ef__generation_by_cursor(g) || ef__function_missing(e, g))
            continue;
        *out_catching_up = *out_catching_up || g->state == EF__GENERATION_CATCHING_UP;
        *out_behind =
            *out_behind || (g->state == EF__GENERATION_LIVE && g->by_log && g->position < last);
    }
    ef__room_release(&list.room);
    return st;
}

/* Log-ordered projections read up to `last`, by this process or by the one that has the lease. */
static ef_status follow_log(ef_engine *e, int64_t last, ef_error *err)
{
    const ef_clock *clock = e->options.clock;
    int64_t until_us = clock->mono_us(clock->context) + FOLLOW_US;
    bool behind = true, catching_up = false, stepped = false;
    ef_status st = EF_OK;

    while (st == EF_OK) {
        ef_tick tick = {0};
        bool step;
        st = look_at_cursors(e, last, &behind, &catching_up, err);
        step = behind || (catching_up && !stepped && !atomic_load(&e->supervised));
        if (st != EF_OK || !step || clock->mono_us(clock->context) > until_us)
            break;
        st = ef__cursor_work(e, NULL, &tick, err);
        stepped = true;
        if (st == EF_OK && behind && tick.caught_up == 0)
            (void)nanosleep(&(struct timespec){.tv_nsec = FOLLOW_POLL_MS * 1000000}, NULL);
    }
    return st;
}

/* Retry rows are due, and no worker is there to claim them. */
static ef_status retry_due(ef_engine *e, ef_error *err)
{
    ef_tick tick = {.more = true};
    bool waits = false, alone = false;
    ef_status st = EF_OK;

    if (atomic_load(&e->supervised))
        return EF_OK;
    st = ef__outbox_waits(e->journal, &waits, err);
    if (st == EF_OK && waits)
        st = ef__worker_is_alone(e, &alone, err);
    for (int i = 0; st == EF_OK && waits && alone && tick.more && i < RETRY_TICKS; i++) {
        tick = (ef_tick){0};
        st = ef__queue_work(e, &(ef_work_options){0}, &tick, err);
    }
    return st;
}

/* --- appending ----------------------------------------------------------------------------------
 */

/* The next tick of a worker in this engine looks for events that projections lack. */
static void look_for_gaps(ef_engine *e)
{
    pthread_mutex_lock(&e->working);
    e->gaps_looked = false;
    e->gaps_after[0] = '\0';
    pthread_mutex_unlock(&e->working);
}

/* The journal has the events. What fails here is logged and left to a worker: to the queue, or
 * where there is none, to the search for gaps. */
static void fold_at_once(ef_engine *e, int64_t *positions, size_t count)
{
    bool only = e->options.mode == EF_MODE_INLINE_APPLY_ONLY;
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    if (count == 0)
        return;
    st = fold_runs(e, positions, count, &err);
    if (st == EF_OK && (only || e->options.mode == EF_MODE_SHADOW_ONLY))
        st = follow_log(e, positions[count - 1], &err);
    if (st == EF_OK && only)
        st = retry_due(e, &err);
    if (st == EF_OK)
        return;
    ef__log(e->options.log, EF_LOG_WARN, "folding an append failed; a worker will do it",
            EF_LOG_NUMBER_FIELD("position", positions[0]),
            EF_LOG_TEXT_FIELD("error", ef_str_from(err.text)));
    if (only)
        look_for_gaps(e);
}

static bool folds(const ef_engine *e)
{
    return e->options.mode != EF_MODE_OUTBOX_APPLY_ONLY;
}

static void fold_appends(ef_engine *e, const ef_append *appends, size_t count)
{
    size_t events = 0, used = 0;
    int64_t *positions;

    for (size_t i = 0; i < count; i++)
        events += appends[i].status == EF_OK ? appends[i].count : 0;
    if (!folds(e) || events == 0)
        return;
    positions = malloc(events * sizeof *positions);
    for (size_t i = 0; positions && i < count; i++)
        for (size_t n = 0; appends[i].status == EF_OK && n < appends[i].count; n++)
            positions[used++] = appends[i].out_places[n].position;
    if (positions)
        fold_at_once(e, positions, used);
    else if (e->options.mode == EF_MODE_INLINE_APPLY_ONLY)
        look_for_gaps(e);
    free(positions);
}

ef_status ef_engine_append(ef_engine *e, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err)
{
    ef_append append = {.events = events, .count = count, .out_places = out_places};
    ef_status st;

    if (!e)
        return ef_fail(err, EF_BAD_INPUT, "engine is NULL");
    st = ef_journal_append(e->journal, events, count, out_places, err);
    append.status = st;
    if (st == EF_OK)
        fold_appends(e, &append, 1);
    return st;
}

void ef_engine_append_each(ef_engine *e, ef_append *appends, size_t count)
{
    ef_journal_append_each(e ? e->journal : NULL, appends, count);
    if (e)
        fold_appends(e, appends, count);
}
