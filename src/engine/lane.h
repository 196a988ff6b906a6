/*
 * lane.h - which generations the retry rows of a projection's lane are kept for.
 *
 * Retry rows exist for what the active generation lacks, and those that were made after it: its
 * candidates. A generation that was superseded keeps its watermarks only. When it becomes the
 * active one again, what it lacks is filed anew; when another one does, rows that only it needed
 * go.
 */
#ifndef EF_ENGINE_LANE_H
#define EF_ENGINE_LANE_H

#include "queue.h"

/* Are retry rows kept for what the generation lacks? `list` has all generations of its projection.
 */
bool ef__generation_keeps_rows(const ef__generation_list *list, const ef__generation *g);

/* Remove the rows of the lane that no generation of the projection needs. */
ef_status ef__lane_sweep(ef_engine *engine, ef_str lane, ef_error *err);

/*
 * File all that a live generation lacks, save what is queued and not in flight: it was superseded
 * until now, so workers have filed nothing for it, and one may be about to acknowledge a batch that
 * it has read before. Rows that are there are filed again, so that a worker which took them to be
 * superfluous leaves them.
 */
ef_status ef__lane_file(ef_engine *engine, const ef__generation *generation, ef_error *err);

/* A bounded piece of sweeping, after the generations have changed: what an operator's process did
 * not finish, or a run has left. One of the workers does it. */
ef_status ef__lanes_step(ef_engine *engine, ef_tick *tick, ef_error *err);

/* The retry rows of the act's event, in its lane or in all. (replay_row.c) */
ef_status ef__rows_of_event(ef_engine *engine, const ef_outbox_act *act, ef_row_list *out,
                            ef_error *err);

#endif
