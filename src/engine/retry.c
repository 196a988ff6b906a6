/*
 * retry.c - see queue.h: what is due again.
 *
 * The rows of a projection's own lane are tried lane by lane: the first of each stream whose time
 * has come, and what waits behind it. Every attempt is counted before it is made, and the row says
 * that it is under way (`trying`), so that one that ends the process counts too and is known; an
 * outage of the view store gives it back. A row whose attempt never ended is tried alone.
 *
 *     pending | failed -> trying -> done | failed | dead | pending (something before it is missing)
 *
 * A row goes when every generation of its projection that keeps rows has the event (lane.h). An
 * operator's skip holds for the versions that are recorded for it (skip.h); for another version the
 * event is tried as any other. A version that passes the event runs no program on it, so a process
 * that ended is never a reason to refuse the skip: it is carried out before the row dies.
 */
#include "lane.h"
#include "queue.h"
#include "skip.h"

#include "../base/logger.h"
#include "../core/retry.h"

#include <inttypes.h>
#include <stdlib.h>

#define DUE_MAX 1000 /* rows at a time */
#define LOOK_AGAIN_US 5000000
#define LEAVE_US 30000000 /* rows of a projection that is not in this view store */

/* Rows of one lane that are tried together. */
typedef struct attempt {
    ef_engine *engine;
    const ef_holding *held;
    size_t held_count;
    const ef_taken *items;
    size_t count;
    ef__live *generations; /* of the lane's projection: live, or catching up */
    size_t generation_count;
    const ef__generation **stopped; /* paused or failed: what they lack stays */
    size_t stopped_count;
    ef__apply_event *events;
    ef_exception *exceptions; /* room for one an item */
    ef_tick *tick;
} attempt;

static ef_status write_rows(const attempt *a, const ef_exception *rows, size_t count, ef_error *err)
{
    if (count == 0)
        return EF_OK;
    return ef_outbox_mark(a->engine->journal, a->items[0].lane, a->held, a->held_count, rows, count,
                          err);
}

/* The row as it was taken. Whether it has failed before is told by its attempts. */
static ef_exception row_as_taken(const ef_taken *item)
{
    return (ef_exception){.lane = item->lane,
                          .position = item->event->position,
                          .status = item->attempts ? EF_ROW_FAILED : EF_ROW_PENDING,
                          .attempts = item->attempts,
                          .error = item->interrupted ? EF_STR(EF__CRASH_TEXT) : item->error};
}

static ef__retry_step next_failure(const attempt *a, int32_t failures_before, ef__error_class kind)
{
    return ef__retry_decide(&a->engine->retry.apply, failures_before, kind,
                            (uint64_t)ef__engine_now(a->engine));
}

/* --- counting first --------------------------------------------------------------------------- */

static ef_status count_first(const attempt *a, ef_error *err)
{
    size_t count = 0;

    for (size_t i = 0; i < a->count; i++) {
        ef_exception *x = &a->exceptions[count];
        if (a->items[i].follows)
            continue;
        ef__retry_step step = next_failure(a, a->items[i].attempts, EF__ERROR_PERMANENT);
        *x = row_as_taken(&a->items[i]);
        x->attempts = (int32_t)step.attempts;
        x->due_us = ef__engine_now(a->engine) + step.delay_ms * 1000;
        x->trying = true;
        count++;
    }
    return write_rows(a, a->exceptions, count, err);
}

/* The store was not at hand: that says nothing about the event. */
static void give_back(const attempt *a, ef_status why)
{
    ef_error ignored = EF_ERROR_INIT;
    size_t count = 0;

    for (size_t i = 0; i < a->count; i++) {
        ef__retry_step step = next_failure(a, a->items[i].attempts,
                                           why == EF_LEASE_LOST ? EF__ERROR_LOST : EF__ERROR_STORE);
        if (a->items[i].follows)
            continue;
        a->exceptions[count] = row_as_taken(&a->items[i]);
        a->exceptions[count++].due_us = ef__engine_now(a->engine) + step.delay_ms * 1000;
    }
    (void)write_rows(a, a->exceptions, count, &ignored);
}

/* --- trying ----------------------------------------------------------------------------------- */

/* What became of an item in all generations of the lane. NULL: they are through with it. */
static const ef__applied *left_over(const attempt *a, const ef__apply *apply, size_t item)
{
    const ef__applied *found = NULL;

    for (size_t g = 0; g < a->generation_count; g++) {
        const ef__applied *result = &apply->results[g * a->count + item];
        if (ef__verdict_waits(result->verdict) && (!found || result->verdict == EF__VERDICT_FAILED))
            found = result;
    }
    return found;
}

static ef_status lacks_event(const attempt *a, const ef__generation *g, const ef_event *event,
                             bool *out, ef_error *err)
{
    ef_views *views = a->engine->views;
    ef__watermark mark = {0};
    bool found;
    ef_status st =
        views->ops->watermark_get(views, g->id, event->tenant, event->stream, &mark, &found, err);

    *out = mark.applied_seq < event->seq || ef__watermark_held(&mark);
    return st;
}

/* Does one of the stopped generations from `first` on lack the event? It will want it when it goes
 * on. */
static ef_status stopped_lacks(const attempt *a, size_t first, const ef_event *event, bool *out,
                               ef_error *err)
{
    ef_status st = EF_OK;

    *out = false;
    for (size_t g = first; st == EF_OK && !*out && g < a->stopped_count; g++)
        st = lacks_event(a, a->stopped[g], event, out, err);
    return st;
}

static void report_dead_row(const attempt *a, const ef_taken *item, const ef_exception *x)
{
    a->tick->dead++;
    a->engine->policy_next_us = 0;
    a->tick->more = true; /* it may be let pass */
    ef__log(a->engine->options.log, EF_LOG_WARN, "an event is dead: its stream waits behind it",
            EF_LOG_TEXT_FIELD("projection", item->lane),
            EF_LOG_TEXT_FIELD("tenant", item->event->tenant),
            EF_LOG_TEXT_FIELD("stream", item->event->stream),
            EF_LOG_NUMBER_FIELD("seq", item->event->seq),
            EF_LOG_NUMBER_FIELD("attempts", x->attempts), EF_LOG_TEXT_FIELD("error", x->error));
}

/* The row that an item leaves; false when it leaves it as it is. */
static bool row_after(const attempt *a, const ef_taken *item, const ef__applied *result,
                      bool is_kept, ef_exception *out)
{
    if (!result && !is_kept) {
        *out = (ef_exception){.lane = item->lane,
                              .position = item->event->position,
                              .status = EF_ROW_DONE,
                              .filed = item->filed,
                              .skip = item->skip};
        a->tick->more = true; /* what comes behind it may be due now */
        return true;
    }
    if (item->follows)
        return false; /* it goes on waiting behind the one before it */
    if (result && result->verdict == EF__VERDICT_FAILED) {
        *out = ef__exception_make(a->engine, item->lane, item->event->position, result,
                                  item->attempts);
        out->skip = item->skip;
        if (out->status == EF_ROW_DEAD)
            report_dead_row(a, item, out);
        return true;
    }
    /* Something before it is missing: it is filed. Or a generation that is stopped will want it. */
    *out = row_as_taken(item);
    out->due_us = ef__engine_now(a->engine) + LOOK_AGAIN_US;
    out->skip = item->skip && result;
    if (result) {
        out->status = EF_ROW_PENDING;
        out->error = result->message;
    }
    return true;
}

/* What a live generation lacks before an event is filed. One that is catching up reads it itself.
 */
static ef_status file_gaps(const attempt *a, const ef__apply *apply, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < a->count; i++)
        for (size_t g = 0; st == EF_OK && !a->items[i].follows && g < a->generation_count; g++)
            if (apply->results[g * a->count + i].verdict == EF__VERDICT_DEFERRED &&
                a->generations[g].generation->state == EF__GENERATION_LIVE)
                st = ef__gap_file(a->engine, a->generations[g].generation, a->items[i].event, err);
    return st;
}

static ef_status settle(const attempt *a, const ef__apply *apply, ef_error *err)
{
    size_t count = 0;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < a->count; i++) {
        bool is_kept = false;
        st = stopped_lacks(a, 0, a->items[i].event, &is_kept, err);
        if (st == EF_OK)
            count +=
                row_after(a, &a->items[i], left_over(a, apply, i), is_kept, &a->exceptions[count]);
    }
    if (st == EF_OK)
        st = write_rows(a, a->exceptions, count, err);
    if (st == EF_OK)
        ef__count_exceptions(a->engine, a->exceptions, count);
    return st == EF_OK ? file_gaps(a, apply, err) : st;
}

static ef_status try_items(const attempt *a, ef_error *err)
{
    ef__fence_set fences = {0};
    ef__apply apply = {.generations = a->generations,
                       .generation_count = a->generation_count,
                       .events = a->events,
                       .event_count = a->count,
                       .looks_back = true,
                       .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    ef_status st = ef__fences_make(a->held, a->held_count, a->items, a->count, &fences, err);

    for (size_t i = 0; i < a->count; i++)
        a->events[i] = (ef__apply_event){a->items[i].event, false};
    if (st == EF_OK && a->generation_count)
        st = count_first(a, err);
    if (st == EF_OK) {
        apply.fences = fences.items;
        apply.fence_count = fences.count;
        st = ef__apply_run(a->engine, &apply, err);
        if (st != EF_OK) {
            give_back(a, st);
            ef__count_store_retry(a->engine, st);
        }
    }
    if (st == EF_OK) {
        a->tick->claimed += (int64_t)a->count;
        ef__tick_add(a->tick, &apply);
        st = settle(a, &apply, err);
    }
    ef__apply_release(&apply);
    ef__fences_release(&fences);
    return st;
}

/* --- lane by lane ------------------------------------------------------------------------------
 */

/* The generations of a lane that its rows are kept for. */
static void choose_generations(attempt *a, const ef__live_set *set, ef_str lane)
{
    a->generation_count = a->stopped_count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const ef__generation *g = set->items[i].generation;
        if (!ef_str_equal(g->name, lane) || !set->items[i].keeps_rows)
            continue;
        if (g->state == EF__GENERATION_LIVE || g->state == EF__GENERATION_CATCHING_UP)
            a->generations[a->generation_count++] = set->items[i];
        else
            a->stopped[a->stopped_count++] = g;
    }
}

/* How many items from `first` on are tried together: those of one lane; one alone if need be. */
static size_t group_of(const ef_taken_batch *taken, size_t first)
{
    size_t end = first + 1;

    if (taken->items[first].interrupted)
        return 1;
    while (end < taken->count && ef_str_equal(taken->items[end].lane, taken->items[first].lane) &&
           !taken->items[end].interrupted)
        end++;
    return end - first;
}

/* Was the attempt that never ended the last one? */
static bool was_last_attempt(const attempt *a)
{
    const ef_taken *item = &a->items[0];

    return item->interrupted && item->attempts > 0 &&
           next_failure(a, item->attempts - 1, EF__ERROR_PERMANENT).dead;
}

/* The event ends every process that applies it. */
static ef_status bury(const attempt *a, ef_error *err)
{
    ef_exception x = row_as_taken(&a->items[0]);
    ef_status st;

    x.status = EF_ROW_DEAD;
    x.skip = a->items[0].skip;
    st = write_rows(a, &x, 1, err);
    if (st == EF_OK) {
        ef__count_exceptions(a->engine, &x, 1);
        report_dead_row(a, &a->items[0], &x);
    }
    return st;
}

/* Leave only the generations whose version passes the event; the others are stopped. */
static ef_status choose_passing(attempt *a, ef_error *err)
{
    size_t count = 0;
    ef_status st = EF_OK;

    for (size_t g = 0; st == EF_OK && g < a->generation_count; g++) {
        ef__live one = a->generations[g];
        ef__skips *skips = NULL;
        st = ef__skips_read(a->engine, one.generation, &skips, err);
        if (st == EF_OK && ef__skips_has(a->engine, skips, a->items[0].event))
            a->generations[count++] = one;
        else
            a->stopped[a->stopped_count++] = one.generation;
    }
    a->generation_count = count;
    return st;
}

/* The attempt that never ended was the last one. The event may be skipped for some versions: they
 * pass it now. The row dies if another one still lacks the event. */
static ef_status end_attempts(attempt *a, ef_error *err)
{
    const ef_event *event = a->items[0].event;
    size_t others = a->stopped_count;
    bool is_lacking = true, is_passed = true;
    ef_status st = choose_passing(a, err);

    if (st == EF_OK && a->generation_count) {
        st = try_items(a, err);
        if (st == EF_OK)
            st = stopped_lacks(a, others, event, &is_lacking, err);
    }
    for (size_t g = 0; st == EF_OK && is_passed && g < a->generation_count; g++) {
        bool lacks = false;
        st = lacks_event(a, a->generations[g].generation, event, &lacks, err);
        is_passed = !lacks;
    }
    return st == EF_OK && is_lacking && is_passed ? bury(a, err) : st;
}

static bool has_generation(const ef__live_set *set, ef_str lane)
{
    for (size_t i = 0; i < set->count; i++)
        if (ef_str_equal(set->items[i].generation->name, lane))
            return true;
    return false;
}

/* The projection is not in this view store: it is another's, or an empty one. The rows stay as they
 * are for a worker that has the projection; they are due later, so that others get their turn. */
static ef_status leave_rows(const attempt *a, ef_error *err)
{
    size_t count = 0;

    for (size_t i = 0; i < a->count; i++) {
        ef_exception *x = &a->exceptions[count];
        if (a->items[i].follows)
            continue;
        *x = row_as_taken(&a->items[i]);
        x->due_us = ef__engine_now(a->engine) + LEAVE_US;
        x->trying = a->items[i].interrupted;
        x->skip = a->items[i].skip;
        count++;
    }
    ef__log(a->engine->options.log, EF_LOG_WARN,
            "retry rows of a projection that is not in the view store",
            EF_LOG_TEXT_FIELD("projection", a->items[0].lane),
            EF_LOG_NUMBER_FIELD("rows", (int64_t)count));
    return write_rows(a, a->exceptions, count, err);
}

static ef_status try_lane(attempt *a, const ef__live_set *set, ef_error *err)
{
    if (!has_generation(set, a->items[0].lane))
        return leave_rows(a, err);
    choose_generations(a, set, a->items[0].lane);
    return was_last_attempt(a) && a->generation_count ? end_attempts(a, err) : try_items(a, err);
}

static ef_status try_lanes(attempt *a, const ef_taken_batch *taken, const ef__live_set *set,
                           ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t first = 0; st == EF_OK && first < taken->count; first += a->count) {
        a->items = &taken->items[first];
        a->count = group_of(taken, first);
        st = try_lane(a, set, err);
        if (st == EF_CONFLICT) { /* somebody else was quicker: given back, and tried again */
            a->tick->more = true;
            st = EF_OK;
        }
        /* What waits behind one that was tried alone comes the next time. */
        if (a->items[0].interrupted)
            while (first + a->count < taken->count && a->items[a->count].follows)
                a->count++;
    }
    return st;
}

ef_status ef__retry_step_due(ef_engine *e, ef_tick *tick, ef_error *err)
{
    ef_taken_batch taken = EF_TAKEN_BATCH_INIT;
    ef__live_set set = {0};
    attempt a = {.engine = e, .tick = tick};
    ef_holding *held = NULL;
    ef_status st = ef__held_read(e, &held, &a.held_count, err);

    a.held = held;
    if (st == EF_OK && a.held_count)
        st = ef_outbox_take_due(e->journal, (ef_str){0}, held, a.held_count, DUE_MAX, &taken, err);
    tick->due_us = taken.next_due_us;
    if (st == EF_OK && taken.count)
        st = ef__live_set_read(e, false, &set, err);
    if (st == EF_OK && taken.count) {
        a.generations = malloc((set.count + 1) * sizeof *a.generations);
        a.stopped = malloc((set.count + 1) * sizeof(const ef__generation *));
        a.events = malloc(taken.count * sizeof *a.events);
        a.exceptions = malloc(taken.count * sizeof *a.exceptions);
        st = a.generations && a.stopped && a.events && a.exceptions
                 ? try_lanes(&a, &taken, &set, err)
                 : ef_fail(err, EF_NO_MEMORY, "memory ran out in the queue driver");
    }
    free(a.generations);
    free(a.stopped);
    free(a.events);
    free(a.exceptions);
    ef__live_set_release(&set);
    ef_taken_batch_release(&taken);
    free(held);
    return st;
}
