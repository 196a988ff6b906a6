/*
 * count.h - what an engine counts, for its operators. Atomic additions: they cost nothing that
 * could be measured, and order nothing.
 */
#ifndef EF_ENGINE_COUNT_H
#define EF_ENGINE_COUNT_H

#include <everfold/engine.h>
#include <everfold/outbox.h>

#include <stdatomic.h>

typedef struct ef__tally {
    _Atomic int64_t counts[EF_COUNTED_BOUNDS + 1];
    _Atomic int64_t sum;
} ef__tally;

typedef enum ef__transfer {
    EF__TRANSFER_TAKEN,
    EF__TRANSFER_RELEASED,
    EF__TRANSFER_LOST
} ef__transfer;

typedef struct ef__counts {
    ef__tally batch_events, batch_us, fold_us;
    _Atomic int64_t retries, store_retries, quarantined;
    _Atomic int64_t leases[3]; /* by ef__transfer */
    ef__tally tick_us;
    _Atomic int64_t ticks, ticks_empty, ticks_failed;
    _Atomic int64_t claimed, run_events;
} ef__counts;

/* A batch was applied. */
void ef__count_batch(ef_engine *engine, size_t events, int64_t us, int64_t fold_us);
/* These rows were written. */
void ef__count_exceptions(ef_engine *engine, const ef_exception *rows, size_t count);
/* A store was not at hand. */
void ef__count_store_retry(ef_engine *engine, ef_status why);
/* A tick is over: it is counted, and told at level debug where it did something. `who` is the post
 * or the publisher. */
void ef__count_tick(ef_engine *engine, const char *who, const ef_tick *tick, ef_status st);
/* The lease of a partition came or went. */
void ef__count_transfer(ef_engine *engine, ef__transfer what);

#endif
