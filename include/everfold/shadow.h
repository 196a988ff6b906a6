/*
 * shadow.h - a worker that changes nothing: it folds the queued events into its own store in
 * memory, and compares the result with the live views.
 *
 * It first catches up with the journal, then reads only the rows of the queue, like a worker. It
 * holds a lease per partition, under its own names ("*:shadow:3"): a second shadow is on standby
 * and takes over. Failed events are retried on the schedule of the workers, are dead at the same
 * attempt and block their stream, with counters of the shadow's own. It changes no row, offset or
 * attempt of the outbox and no view: rows stay queued until a real worker claims them. An event
 * that was appended without a row, a row out of order, a program that fails: all of it shows in the
 * report.
 */
#pragma once

#include <everfold/engine.h>

EF_C_BEGIN

typedef struct ef_shadow ef_shadow;

/* A shadow of the live stream-ordered projections; projections that go live later are added. */
ef_status ef_shadow_open(ef_engine *engine, ef_shadow **out, ef_error *err);
void ef_shadow_close(ef_shadow *shadow); /* releases its leases; accepts NULL */

/* A bounded step, like ef_engine_work. `owned_count` 0: another shadow holds the leases, and
 * nothing was done. */
ef_status ef_shadow_step(ef_shadow *shadow, ef_tick *out, ef_error *err);

typedef struct ef_shadow_result {
    char name[256];
    int64_t position; /* folded up to here */
    int64_t applied;
    int64_t failed;       /* events that failed and are retried, … */
    int64_t dead;         /* … that are dead, … */
    int64_t blocked;      /* … and that are blocked behind them … */
    int64_t attempts;     /* … and the failures of all of these */
    char digest[33];      /* of the shadow's views */
    char live_digest[33]; /* of the active generation */
    bool same; /* the digests are equal; they may differ until both positions are equal */
} ef_shadow_result;

/* Up to `max` results; *out_count of them. */
ef_status ef_shadow_report(ef_shadow *shadow, ef_shadow_result *out, size_t max, size_t *out_count,
                           ef_error *err);

EF_C_END
