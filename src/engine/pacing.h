/*
 * pacing.h - the pace of a catch-up beside live work: events of its next step, and the pause.
 *
 * Live work is the work of the queue driver. Its lag is the age of the oldest row of the apply lane
 * in the journal, whichever process applies it. So a rebuild that one process drives yields to a
 * worker in another one. A row that no worker claims is not live work and slows nothing down.
 */
#ifndef EF_ENGINE_PACING_H
#define EF_ENGINE_PACING_H

#include "engine_priv.h"

/* A step of a catch-up took `step_events` events and `step_us`: decides about the next one
 * (engine->cursor.pacing.pace). The caller holds the lock of the cursor driver. */
ef_status ef__pacing_update(ef_engine *engine, size_t step_events, int64_t step_us, ef_error *err);

#endif
