/*
 * error_policy.h - what happens to an event that fails in a projection, after its last attempt.
 *
 * By default it blocks its stream (its tenant in a log-ordered projection) until an operator
 * retries, requeues or skips it.
 * If the projection is set to skip and record, a worker skips the event like an operator would; the
 * event and the reason of its failure stay on record. An event that differs from the one that was
 * applied under its seq is an alarm, and is never skipped by the policy.
 *
 * The setting of a projection is in the view store, in each of its generations (`on_error`).
 */
#ifndef EF_ENGINE_ERROR_POLICY_H
#define EF_ENGINE_ERROR_POLICY_H

#include "engine_priv.h"

#define EF__ERROR_POLICY_REASON "the projection is set to skip and record failed events"

/* Is the event's stream blocked by an alarm in this generation? Then the policy skips nothing. */
ef_status ef__error_policy_is_alarm(ef_engine *engine, const ef__generation *generation,
                                    ef_str tenant, ef_str stream, bool *out, ef_error *err);
/* Skips dead events in the lanes of projections that are set to skip. Checks after an event died,
 * and at an interval, because the worker that counted the death may have crashed. */
ef_status ef__error_policy_step(ef_engine *engine, ef_tick *tick, ef_error *err);

#endif
