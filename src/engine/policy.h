/*
 * policy.h - what becomes of an event that a projection cannot digest, after its last attempt.
 *
 * It stops its stream there (or its tenant, in the order of the log), and waits for a person: that
 * is how it is unless a projection is told to skip and record. Then a worker lets the event pass,
 * as an operator would, and what it was and why it failed stays on record. An event that is not the
 * one that was applied under its seq is an alarm, and is never let pass by itself.
 *
 * What a projection is told is an act in the journal, "on_error", with who told it and why. The
 * newest one holds.
 */
#ifndef EF_ENGINE_POLICY_H
#define EF_ENGINE_POLICY_H

#include "engine_priv.h"

#define EF__POLICY_REASON "the projection is to skip and record what it cannot digest"

/* Is the projection to skip and record? */
ef_status ef__policy_skips(ef_engine *engine, ef_str projection, bool *out, ef_error *err);
/* Is the event's stream held by an alarm, in this generation? Then nothing passes by itself. */
ef_status ef__policy_is_alarm(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                              ef_str stream, bool *out, ef_error *err);
/* Let pass what is dead in the lanes of projections that skip. Looks when something has died, and
 * now and then: whoever had it may have died with it. */
ef_status ef__policy_step(ef_engine *engine, ef_tick *tick, ef_error *err);

#endif
