/*
 * counters.h - counters of an engine for metrics, and reports of large views. Counters are relaxed
 * atomics: adding costs little, and orders no other memory access.
 */
#pragma once

#include "../fold/limits.h"
#include "../journal/journal.h"
#include "../views/views.h"

#include <everfold/engine.h>
#include <everfold/outbox.h>

#include <everfold/worker.h>

#include <stdatomic.h>

typedef struct ef__histogram_counts {
    _Atomic int64_t counts[EF_COUNTED_BOUNDS + 1];
    _Atomic int64_t sum;
} ef__histogram_counts;

typedef enum ef__lease_transfer {
    EF__LEASE_ACQUIRED,
    EF__LEASE_RELEASED,
    EF__LEASE_LOST
} ef__lease_transfer;

typedef struct ef__counts {
    ef__histogram_counts batch_events, batch_us, fold_us;
    _Atomic int64_t retries, store_retries, quarantined, large_views;
    _Atomic int64_t leases[3]; /* by ef__lease_transfer */
    ef__histogram_counts tick_us;
    _Atomic int64_t ticks, ticks_empty, ticks_failed;
    _Atomic int64_t claimed, run_events;
} ef__counts;

#define EF__MINUTES_KEPT 8 /* during an outage of the store the oldest minutes are dropped */

/* Throughput of the last minutes that is not stored yet, oldest first. */
typedef struct ef__minutes {
    ef_throughput items[EF__MINUTES_KEPT];
    size_t count;
    int64_t written_us; /* the minute in which rows were last drained */
} ef__minutes;

/* Adds the work of a tick to the current minute. */
void ef__count_minute(ef_engine *engine, const ef_tick *tick);
/* Removes the rows that are due for writing: once a minute the completed minutes, and in any case a
 * row of the last minute, for its position; with `all` every row, if there is one. `out` has space
 * for EF__MINUTES_KEPT + 1. Rows that could not be written are restored. */
size_t ef__minutes_drain(ef_engine *engine, bool all, ef_throughput *out);
void ef__minutes_restore(ef_engine *engine, const ef_throughput *minutes, size_t count);

/* Counts an applied batch. */
void ef__count_batch(ef_engine *engine, size_t events, int64_t us, int64_t fold_us);
/* Counts written retry rows. */
void ef__count_retry_rows(ef_engine *engine, const ef_retry_row *rows, size_t count);
/* Counts a failure of a store. */
void ef__count_store_retry(ef_engine *engine, ef_status why);
/* Counts a tick, and logs it at debug if it did something. `task`: of the task or publisher. */
void ef__count_tick(ef_engine *engine, const char *task, const ef_tick *tick, ef_status st);
/* Counts a change of the holder of a partition lease. */
void ef__count_transfer(ef_engine *engine, ef__lease_transfer what);

/*
 * A view of more than EF_FOLD_LIMIT_VIEW_BYTES cannot be written: each event that would make it
 * larger fails, and blocks its stream. At half of the limit a view is reported, once per view and
 * process.
 */
#define EF__LARGE_VIEW_BYTES (EF_FOLD_LIMIT_VIEW_BYTES / 2)
#define EF__LARGE_VIEWS_MAX 1024 /* reports per process; more would add nothing */

typedef struct ef__large_views {
    size_t count;
    uint64_t seen[EF__LARGE_VIEWS_MAX]; /* hashes of generation, tenant and view id */
} ef__large_views;

/* Reports the large views of a commit. */
void ef__view_size_check(ef_engine *engine, const ef__generation *generation,
                         const ef__view_change *changes, size_t count);
