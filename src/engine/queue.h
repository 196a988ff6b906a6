/*
 * queue.h - the queue driver: live work, in order within each stream, for many streams at once.
 *
 * A pass handles due retry rows (retry.c), then queued rows (queue.c). Each claims under the leases
 * of partitions, folds, and acknowledges under the tokens: offsets move, rows are removed, and an
 * event that failed in a projection gets a row in the projection's lane, with the later events of
 * its stream blocked behind it.
 *
 * A process that crashes leaves its batch in flight, recorded in the journal. Any event of it may
 * have caused the crash, so the next holder isolates it: a large batch is claimed in pieces, a
 * small one event by event, and an event that was in flight alone gets a retry row in every
 * projection that lacks it, with one attempt counted.
 */
#ifndef EF_ENGINE_QUEUE_H
#define EF_ENGINE_QUEUE_H

#include "apply.h"

/* The error text of an event whose attempt did not end. For people: no code reads it. */
#define EF__CRASH_TEXT "the process crashed while it applied this event"

/* A step of the queue driver. The caller holds its lock. */
ef_status ef__queue_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                         ef_error *err);
/* Claims due retry rows and tries them again. The caller holds the lock of the queue driver. */
ef_status ef__retry_step_due(ef_engine *engine, ef_tick *tick, ef_error *err);

/* --- shared by both passes (retry_row.c) ------------------------------------------------------ */

/* The leases of partitions that this worker holds, `*out_count` of them, in the arena of the step.
 */
ef_status ef__partition_leases_read(ef_engine *engine, ef_partition_lease **out, size_t *out_count,
                                    ef_error *err);
/* The fences of the partitions that have items, in `arena`. */
ef_status ef__fences_make(ef__arena *arena, const ef_partition_lease *held, size_t held_count,
                          const ef_claimed_row *items, size_t item_count, ef__fence **out,
                          size_t *out_count, ef_error *err);

/* Does the event need a row in the projection's lane? */
bool ef__verdict_waits(ef__verdict verdict);
/* That row, after `failures_before` failures. */
ef_retry_row ef__retry_row_make(const ef_engine *engine, ef_str lane, int64_t position,
                                const ef__apply_result *result, int32_t failures_before);
/* One row per event and projection that needs one; generations of a projection are adjacent and
 * share its lane. `out` has space for all of them. Returns the number. */
size_t ef__retry_rows_collect(const ef_engine *engine, const ef__apply *apply, ef_retry_row *out);

/* Adds rows for the events of the stream before `event` that the generation lacks: no other row
 * brings them. A bounded number per call; existing rows stay. (gaps.c) */
ef_status ef__gap_add_rows(ef_engine *engine, const ef__generation *generation,
                           const ef_event *event, ef_error *err);

/* A step of the engine's shadow worker. (shadow.c) */
ef_status ef__shadow_work(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err);

void ef__tick_add(ef_tick *tick, const ef__apply *apply);

#endif
