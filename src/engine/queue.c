/*
 * queue.c - see queue.h: what is queued.
 */
#include "queue.h"
#include "lost.h"
#include "workset.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>

#define LATELY_MS 60000 /* longer than a lease, and than any post rests after a failure */
#define BATCH_GROWTH 16 /* a backlog is taken in batches of up to so many times the usual one … */
#define BATCH_STEP 4    /* … each so many times the one before */
/* Events times projections of a batch: all that they change is in memory at once, and if all of it
 * failed, all of it would be filed by one mark. */
#define BATCH_OUTCOMES ((size_t)5 * EF_LIMIT_TAKE_ROWS)

/* A batch on its way through a pass. */
typedef struct pass {
    ef_engine *engine;
    ef_holding *held;
    size_t held_count;
    ef_taken_batch taken;
    ef__live_set set;
    ef__apply apply;
    bool completed; /* the commit of the views took the marks with it */
    ef_tick *tick;
} pass;

/* --- settling --------------------------------------------------------------------------------- */

/* What is held and has something taken from it, with where that ends. */
static size_t taken_from(const pass *p, ef_holding *out)
{
    int64_t upto[EF_LIMIT_PARTITIONS] = {0};
    size_t used = 0;

    for (size_t i = 0; i < p->taken.count; i++)
        upto[p->taken.items[i].partition] = p->taken.items[i].event->position;
    for (size_t h = 0; h < p->held_count; h++)
        if (upto[p->held[h].partition]) {
            out[used] = p->held[h];
            out[used++].upto = upto[p->held[h].partition];
        }
    return used;
}

/* Move the marks past what was taken; what waits gets its rows in the same transaction: that of the
 * views where there is a connection of theirs. */
static ef_status settle(const pass *p, void *connection, const ef_exception *exceptions,
                        size_t count, ef_error *err)
{
    ef_holding *held = malloc((p->held_count + 1) * sizeof *held);
    ef__marking mark = {.lane = EF_STR(EF_LANE_APPLY),
                        .held = held,
                        .exceptions = exceptions,
                        .exception_count = count};
    ef_status st;

    if (!held)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    mark.held_count = taken_from(p, held);
    st = ef__outbox_mark_with(p->engine->journal, connection, &mark, err);
    free(held);
    return st;
}

/* Settle a batch by its outcomes. */
static ef_status complete(void *context, void *connection, ef_error *err)
{
    pass *p = context;
    size_t most = p->apply.event_count * p->apply.generation_count, count = 0;
    ef_exception *exceptions = malloc((most + 1) * sizeof *exceptions);
    ef_status st = exceptions ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");

    if (st == EF_OK)
        st = ef__crew_keep(&p->engine->crew, p->tick, err); /* a large batch may have taken long */
    if (st == EF_OK)
        count = ef__exceptions_collect(p->engine, &p->apply, exceptions);
    if (st == EF_OK)
        st = settle(p, connection, exceptions, count, err);
    if (st == EF_OK)
        ef__count_exceptions(p->engine, exceptions, count);
    p->completed = st == EF_OK;
    free(exceptions);
    return st;
}

/* --- folding ---------------------------------------------------------------------------------- */

static ef_status apply_to(pass *p, const ef__fence_set *fences, const ef__apply_event *events,
                          ef_error *err)
{
    p->completed = false;
    p->apply = (ef__apply){.generations = p->set.items,
                           .generation_count = p->set.count,
                           .events = events,
                           .event_count = p->taken.count,
                           .fences = fences->items,
                           .fence_count = fences->count,
                           .live_set = p->set.number,
                           .worksets = &p->engine->queued,
                           .complete = p->engine->joined ? complete : NULL,
                           .complete_context = p,
                           .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    return ef__apply_run(p->engine, &p->apply, err);
}

/* Apply what was taken to the live generations, starting over when one has just gone live or
 * somebody else was quicker. */
static ef_status apply_taken(pass *p, ef_error *err)
{
    ef__fence_set fences = {0};
    ef__apply_event *events = malloc(p->taken.count * sizeof *events);
    ef_status st = events ? ef__fences_make(p->held, p->held_count, p->taken.items, p->taken.count,
                                            &fences, err)
                          : ef_fail(err, EF_NO_MEMORY, "memory ran out in the queue driver");

    for (size_t i = 0; events && i < p->taken.count; i++)
        events[i] = (ef__apply_event){p->taken.items[i].event, false};
    if (st == EF_OK)
        st = EF_CONFLICT;
    for (int tries = 0; st == EF_CONFLICT && tries < EF__ENGINE_START_OVER; tries++) {
        ef__apply_release(&p->apply);
        ef__live_set_release(&p->set);
        st = ef__live_set_read(p->engine, true, &p->set, err);
        if (st != EF_OK)
            break;
        ef__worksets_prune(&p->engine->queued, &p->set, false);
        st = apply_to(p, &fences, events, err);
    }
    p->apply.fences = NULL;
    p->apply.events = NULL;
    if (st == EF_OK) {
        p->apply.events = events;
        ef__tick_add(p->tick, &p->apply);
    }
    if (st == EF_OK && !p->completed)
        st = complete(p, NULL, err);
    ef__fences_release(&fences);
    free(events);
    return st;
}

/* --- what was in hand when a process ended ------------------------------------------------------
 */

/* Does the generation still lack the event? It may have another one of that seq. */
static ef_status lacks(const pass *p, const ef__generation *g, const ef_event *event, bool *out,
                       ef_error *err)
{
    ef__watermark mark = {0};
    bool found, there = true;
    ef_views *views = p->engine->views;
    ef_status st =
        views->ops->watermark_get(views, g->id, event->tenant, event->stream, &mark, &found, err);

    if (st == EF_OK && mark.applied_seq >= event->seq)
        st = ef__lost_look(p->engine, &mark, event, &there, err);
    *out = st == EF_OK && (mark.applied_seq < event->seq || !there);
    return st;
}

/* It was alone in hand: every projection that lacks it counts one attempt, and tries it in its own
 * lane, where the others do not wait for it. */
static ef_status set_aside(pass *p, ef_error *err)
{
    const ef_event *event = p->taken.items[0].event;
    ef__applied ended = {.verdict = EF__VERDICT_FAILED, .message = EF_STR(EF__CRASH_TEXT)};
    ef_exception *exceptions = NULL;
    size_t count = 0;
    ef_status st = ef__live_set_read(p->engine, true, &p->set, err);

    if (st == EF_OK) {
        exceptions = malloc((p->set.count + 1) * sizeof *exceptions);
        st = exceptions ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    }
    for (size_t g = 0; st == EF_OK && g < p->set.count; g++) {
        const ef__generation *generation = p->set.items[g].generation;
        bool lacking, there = count && ef_str_equal(exceptions[count - 1].lane, generation->name);
        if (!p->set.items[g].keeps_rows || there)
            continue;
        st = lacks(p, generation, event, &lacking, err);
        if (st == EF_OK && lacking) {
            exceptions[count] =
                ef__exception_make(p->engine, generation->name, event->position, &ended, 0);
            exceptions[count].trying = true;                        /* so it is tried alone … */
            exceptions[count++].due_us = ef__engine_now(p->engine); /* … and at once */
        }
    }
    if (st == EF_OK)
        st = settle(p, NULL, exceptions, count, err);
    if (st == EF_OK && count)
        ef__log(p->engine->options.log, EF_LOG_WARN, EF__CRASH_TEXT,
                EF_LOG_TEXT_FIELD("stream", event->stream), EF_LOG_NUMBER_FIELD("seq", event->seq));
    free(exceptions);
    return st;
}

/* --- a pass ----------------------------------------------------------------------------------- */

static ef_status take(pass *p, size_t limit, ef_error *err)
{
    return ef_outbox_take(p->engine->journal, EF_STR(EF_LANE_APPLY), p->held, p->held_count, limit,
                          &p->taken, err);
}

static size_t largest_batch(size_t usual, size_t projections)
{
    size_t most =
        usual < EF_LIMIT_TAKE_ROWS / BATCH_GROWTH ? usual * BATCH_GROWTH : EF_LIMIT_TAKE_ROWS;

    return most * projections > BATCH_OUTCOMES ? BATCH_OUTCOMES / projections : most;
}

/* Large batches while there is a backlog, the usual ones again when it is gone. */
static void adapt(ef_engine *e, size_t usual, size_t projections, bool more)
{
    size_t most = largest_batch(usual, projections);

    e->batch = e->batch ? e->batch : usual;
    e->batch = more ? e->batch * BATCH_STEP : e->batch / BATCH_STEP;
    e->batch = e->batch > most ? most : e->batch;
    e->batch = e->batch < usual ? usual : e->batch;
}

/* A store that cannot be written makes owners lose their leases with rows in hand, and that is not
 * the rows' doing. So whoever has met that lately tries a lone row as any other. One that does end
 * the process is told by the next, who has met nothing. */
static bool has_failed_lately(const ef_engine *e)
{
    const ef_clock *clock = e->options.clock;

    return e->failed_us &&
           clock->mono_us(clock->context) - e->failed_us < LATELY_MS * INT64_C(1000);
}

static void note_failure(ef_engine *e, ef_status st)
{
    const ef_clock *clock = e->options.clock;

    ef__count_store_retry(e, st);
    if (st != EF_OK && st != EF_LEASE_LOST && st != EF_CONFLICT)
        e->failed_us = clock->mono_us(clock->context);
}

static ef_status step(pass *p, size_t usual, ef_error *err)
{
    ef_engine *e = p->engine;
    bool suspect, alone;
    ef_status st = take(p, e->batch ? e->batch : usual, err);

    if (st != EF_OK || p->taken.count == 0)
        return st;
    suspect = p->taken.items[0].suspect;
    alone =
        suspect && p->taken.count == 1 && !p->taken.more && !e->careful && !has_failed_lately(e);
    e->careful = suspect && p->taken.more; /* the last of them is not one that was alone in hand */
    p->tick->claimed += (int64_t)p->taken.count;
    p->tick->more = p->tick->more || p->taken.more || suspect;
    st = alone ? set_aside(p, err) : apply_taken(p, err);
    note_failure(e, st);
    if (st == EF_OK)
        adapt(e, usual, p->set.count, p->taken.more && !suspect);
    return st;
}

ef_status ef__queue_step(ef_engine *e, const ef_work_options *options, ef_tick *tick, ef_error *err)
{
    pass p = {.engine = e,
              .taken = EF_TAKEN_BATCH_INIT,
              .apply = {.arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)},
              .tick = tick};
    size_t usual = options->batch ? options->batch : EF__ENGINE_BATCH;
    ef_status st = ef__held_read(e, &p.held, &p.held_count, err);

    if (st == EF_OK && p.held_count)
        st = step(&p, usual, err);
    ef__apply_release(&p.apply);
    ef__live_set_release(&p.set);
    ef_taken_batch_release(&p.taken);
    free(p.held);
    return st;
}
