/*
 * govern.h - a catch-up beside live work: how much it may take in its next step, and when.
 *
 * Live work is what the queue brings. Whoever it is done by, in this process or another, how late
 * it is stands in the journal: the age of the oldest row of the apply lane. So a rebuild that a
 * command drives yields to a worker elsewhere. Rows that nobody takes are nobody's work, and slow
 * nothing down.
 */
#ifndef EF_ENGINE_GOVERN_H
#define EF_ENGINE_GOVERN_H

#include "engine_priv.h"

/* A step of a catch-up is over: it took so many events and so long. Decides about the next one
 * (e->governor.pace). For whoever holds `reading`. */
ef_status ef__govern(ef_engine *engine, size_t step_events, int64_t step_us, ef_error *err);

#endif
