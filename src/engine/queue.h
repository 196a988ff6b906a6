/*
 * queue.h - the queue driver: live work, in the order of each stream, many streams at once.
 *
 * A pass: what is due again (retry), then what is queued. Each takes under the leases held, folds,
 * and settles under the tokens: the mark moves, rows go, and what a projection failed on gets a row
 * in the projection's own lane, with what waits behind it in its stream.
 *
 * A process that ends in the middle leaves its batch in hand, noted in the journal. Nobody can say
 * whether an event of it is to blame, so its successor goes carefully: a large batch in pieces, a
 * small one event by event, and one that was alone in hand becomes an exception of every projection
 * that lacks it, with one attempt counted.
 */
#ifndef EF_ENGINE_QUEUE_H
#define EF_ENGINE_QUEUE_H

#include "apply.h"

/* The error of an event whose attempt never ended. */
#define EF__CRASH_TEXT "the process ended while this event was being applied"

/* A tick of each driver, under its lock. */
ef_status ef__queue_work(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                         ef_error *err);
/* The same for one who goes on for days: while nobody has anything to do it holds nothing, is no
 * worker, and only looks. (rest.c) */
ef_status ef__queue_watch(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err);
ef_status ef__cursor_work(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err);

/* Take one batch from the queue, fold it, move the marks. */
ef_status ef__queue_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                         ef_error *err);
/* Take exceptions that are due and try them again. */
ef_status ef__retry_step_due(ef_engine *engine, ef_tick *tick, ef_error *err);

/* A batch of the journal for every generation that catches up or follows the log. */
ef_status ef__cursor_step(ef_engine *engine, ef_tick *tick, ef_error *err);

/* --- shared by the drivers (settle.c) --------------------------------------------------------- */

/* The partitions held, with room for all; how many in *out_count. malloc'ed. */
ef_status ef__held_read(const ef_engine *engine, ef_holding **out, size_t *out_count,
                        ef_error *err);

/* The fences of the held partitions that items are in, and their names. */
typedef struct ef__fence_set {
    ef__fence *items;
    size_t count;
    char (*names)[32];
} ef__fence_set;

ef_status ef__fences_make(const ef_holding *held, size_t held_count, const ef_taken *items,
                          size_t item_count, ef__fence_set *out, ef_error *err);
void ef__fences_release(ef__fence_set *set);

/* What of an outcome needs a row in the projection's own lane. */
bool ef__verdict_waits(ef__verdict verdict);
/* That row. `failures_before` is how often it has failed already. */
ef_exception ef__exception_make(const ef_engine *engine, ef_str lane, int64_t position,
                                const ef__applied *result, int32_t failures_before);
/* One for each event and projection that needs one: generations of one projection, which follow
 * one another, share its lane. `out` has room for all; how many. */
size_t ef__exceptions_collect(const ef_engine *engine, const ef__apply *apply, ef_exception *out);

/* File what the generation lacks of the stream before `event`, as rows of its own lane: nothing
 * else would bring it. A bounded number at a time; what is there already stays. (gaps.c) */
ef_status ef__gap_file(ef_engine *engine, const ef__generation *generation, const ef_event *event,
                       ef_error *err);

/* A step of the engine's shadow, which a supervisor keeps going. (shadow.c) */
ef_status ef__shadow_work(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err);

void ef__tick_add(ef_tick *tick, const ef__apply *apply);

#endif
