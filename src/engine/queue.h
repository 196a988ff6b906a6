/*
 * queue.h - the two drivers in their simplest form: the queue and the cursor.
 */
#ifndef EF_ENGINE_QUEUE_H
#define EF_ENGINE_QUEUE_H

#include "apply.h"

/* Lease what can be leased; e->tokens says what is held. */
ef_status ef__queue_lease(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err);
/* Take one batch from the queue, fold it, move the marks. */
ef_status ef__queue_step(ef_engine *engine, size_t batch, ef_tick *tick, ef_error *err);
/* Take exceptions that are due and try them again. */
ef_status ef__queue_retry(ef_engine *engine, size_t batch, ef_tick *tick, ef_error *err);

/* A batch of the journal for every generation that catches up or follows the log. */
ef_status ef__cursor_step(ef_engine *engine, ef_tick *tick, ef_error *err);

#endif
