/*
 * shadow.h - a worker that touches nothing: it folds what is queued into a store of its own, in
 * memory, and compares the result with the views that people see.
 *
 * It first catches up with the journal, then goes by the rows of the queue alone, as a worker
 * would. It holds a lease per partition, under names of its own ("*:shadow:3"): a second shadow
 * stands by and takes over. What fails is retried by the schedule of the workers, is dead at the
 * same attempt and blocks its stream, on counters of the shadow's own. No row, offset or attempt of
 * the outbox and no view is changed: rows stay queued until a real worker claims them. An event
 * that was appended without a row, a row out of order, a program that fails: all of it shows in the
 * report.
 */
#ifndef EVERFOLD_SHADOW_H
#define EVERFOLD_SHADOW_H

#include <everfold/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_shadow ef_shadow;

/* A shadow of the stream-ordered projections that are live; those that go live later join. */
ef_status ef_shadow_open(ef_engine *engine, ef_shadow **out, ef_error *err);
void ef_shadow_close(ef_shadow *shadow); /* releases its leases; NULL is fine */

/* A bounded piece of work, as ef_engine_work. `owned_count` 0: another shadow holds the leases, and
 * nothing was done. */
ef_status ef_shadow_step(ef_shadow *shadow, ef_tick *out, ef_error *err);

typedef struct ef_shadow_result {
    char name[256];
    int64_t position; /* up to where the shadow has folded */
    int64_t applied;
    int64_t failed;       /* events that failed and are retried, … */
    int64_t dead;         /* … that failed for the last time, … */
    int64_t blocked;      /* … and that are blocked behind them … */
    int64_t attempts;     /* … and how often all of these have failed */
    char digest[33];      /* of the shadow's views */
    char live_digest[33]; /* of the views that people see */
    bool same;            /* they agree; before both are at the same position they need not */
} ef_shadow_result;

/* Up to `max` results; *out_count of them. */
ef_status ef_shadow_report(ef_shadow *shadow, ef_shadow_result *out, size_t max, size_t *out_count,
                           ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
