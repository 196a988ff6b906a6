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
#pragma once

#include "apply.h"

/* The error text of an event whose attempt did not end. For people: no code reads it. */
#define EF__CRASH_TEXT "the process crashed while it applied this event"

/* Claims due retry rows and tries them again. The caller holds the lock of the queue driver. */
ef_status ef__retry_step_due(ef_engine *engine, ef_tick *tick, ef_error *err);

/* --- shared by both passes -------------------------------------------------------------------- */

/* Sets the events of an apply, and the fences of their partitions, in the arena of the step. */
ef_status ef__apply_set_rows(ef_engine *engine, const ef_partition_lease *held, size_t held_count,
                             const ef_claimed_row *items, size_t count, ef__apply *apply,
                             ef_error *err);

/* Does the event need a row in the projection's lane? */
bool ef__verdict_waits(ef__verdict verdict);
/* The worst result of an event that needs a row, among the generations first … end - 1, which share
 * a lane, as far as they keep rows. NULL: no row is needed. */
const ef__apply_result *ef__apply_waiting(const ef__apply *apply, size_t first, size_t end,
                                          size_t event);
/* That row, after `failures_before` failures. */
ef_retry_row ef__retry_row_make(const ef_engine *engine, ef_str lane, int64_t position,
                                const ef__apply_result *result, int32_t failures_before);
/* One row per event and projection that needs one, of the generations first … last - 1;
 * generations of a projection are adjacent and share its lane. `out` has space for all of them.
 * Returns the number. */
size_t ef__retry_rows_collect(const ef_engine *engine, const ef__apply *apply, size_t first,
                              size_t last, ef_retry_row *out);

/* Adds rows for the events of the stream up to `upto` that the generation lacks: no other row
 * brings them. A bounded number per call; existing rows stay. (gaps.c) */
ef_status ef__gap_add_rows(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                           ef_str stream, int64_t upto, ef_error *err);
/* Adds or removes retry rows without the lease of a partition. (gaps.c) */
ef_status ef__retry_rows_write(ef_engine *engine, const ef_retry_row *rows, size_t count,
                               ef_error *err);

/* A step of the engine's shadow worker. (shadow.c) */
ef_status ef__shadow_work(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err);

void ef__tick_add(ef_tick *tick, const ef__apply *apply);

/* --- lanes (lane.c) --------------------------------------------------------------------------- */

/*
 * Retry rows are kept for the active generation and for those that were created after it, its
 * candidates. A superseded generation keeps its watermarks only. When it becomes active again, rows
 * for the events that it lacks are added; when another one becomes active, rows that only it needed
 * are removed.
 */

/* Are retry rows kept for the generation? `list` has all generations of its projection. */
bool ef__generation_keeps_rows(const ef__generation_list *list, const ef__generation *generation);

/* Does the generation lack the event `seq` of a stream? So it does in a blocked stream. */
ef_status ef__generation_lacks(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                               ef_str stream, int64_t seq, bool *out, ef_error *err);
/* Removes the rows of the lane that no generation of the projection needs. */
ef_status ef__lane_sweep(ef_engine *engine, ef_str lane, ef_error *err);

/*
 * Adds rows for all events that a live generation lacks, except those that are queued and not in
 * flight. The generation was superseded until now, so workers have added none for it, and a worker
 * may be about to acknowledge a batch for which it read the old list of generations. Existing rows
 * are filed again, so that a concurrent removal of unneeded rows leaves them.
 */
ef_status ef__lane_refile(ef_engine *engine, const ef__generation *generation, ef_error *err);

/* A bounded step of removing and adding rows after the list of generations has changed, in case the
 * process that changed it did not finish. One of the workers does it. */
ef_status ef__lanes_step(ef_engine *engine, ef_tick *tick, ef_error *err);

/* The retry rows of the action's event, in its lane or in all. (replay_row.c) */
ef_status ef__retry_rows_of_event(ef_engine *engine, const ef_outbox_action *action,
                                  ef_row_list *out, ef_error *err);

/* --- the error policy (failure.c) ------------------------------------------------------------- */

/*
 * By default an event that fails after its last attempt blocks its stream (its tenant in a
 * log-ordered projection) until an operator retries, requeues or skips it. If the projection is set
 * to skip and record (`on_error` of its generations), a worker skips the event like an operator
 * would; the event and the reason of its failure stay on record. An event that differs from the one
 * that was applied under its seq is an alarm, and is never skipped by the policy.
 */
#define EF__ERROR_POLICY_REASON "the projection is set to skip and record failed events"

/* Is the event's stream blocked by an alarm in this generation? Then the policy skips nothing. */
ef_status ef__error_policy_is_alarm(ef_engine *engine, const ef__generation *generation,
                                    ef_str tenant, ef_str stream, bool *out, ef_error *err);
/* Skips dead events in the lanes of projections that are set to skip. Checks after an event died,
 * and at an interval, because the worker that counted the death may have crashed. */
ef_status ef__error_policy_step(ef_engine *engine, ef_tick *tick, ef_error *err);
