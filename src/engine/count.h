/*
 * count.h - what an engine counts, for its operators. Atomic additions: they cost nothing that
 * could be measured, and order nothing.
 */
#ifndef EF_ENGINE_COUNT_H
#define EF_ENGINE_COUNT_H

#include <everfold/engine.h>
#include <everfold/outbox.h>

#include <everfold/throughput.h>

#include <pthread.h>
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
    _Atomic int64_t retries, store_retries, quarantined, large_views;
    _Atomic int64_t leases[3]; /* by ef__transfer */
    ef__tally tick_us;
    _Atomic int64_t ticks, ticks_empty, ticks_failed;
    _Atomic int64_t claimed, run_events;
} ef__counts;

#define EF__MINUTES_KEPT 8 /* a store that is down for longer loses the oldest ones */

/* What was done in the last minutes and is not in the store yet; oldest first. */
typedef struct ef__minutes {
    pthread_mutex_t lock;
    ef_throughput items[EF__MINUTES_KEPT];
    size_t count;
    int64_t written_us; /* the minute in which rows were last handed out to be written */
} ef__minutes;

/* Adds what a tick did to the present minute. */
void ef__count_minute(ef_engine *engine, const ef_tick *tick);
/* The rows that are due to be written: once a minute those of minutes that are over, with one of
 * the last minute in any case, for its position; with `all` what there is, if anything was done.
 * `out` has room for EF__MINUTES_KEPT + 1. If they could not be written they are given back. */
size_t ef__minutes_take(ef_engine *engine, bool all, ef_throughput *out);
void ef__minutes_give_back(ef_engine *engine, const ef_throughput *minutes, size_t count);

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
