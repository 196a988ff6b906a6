/*
 * lane.h - the generations that retry rows of a projection's lane are kept for.
 *
 * Retry rows are kept for the active generation and for those that were created after it, its
 * candidates. A superseded generation keeps its watermarks only. When it becomes active again, rows
 * for the events that it lacks are added; when another one becomes active, rows that only it needed
 * are removed.
 */
#ifndef EF_ENGINE_LANE_H
#define EF_ENGINE_LANE_H

#include "queue.h"

/* Are retry rows kept for the generation? `list` has all generations of its projection. */
bool ef__generation_keeps_rows(const ef__generation_list *list, const ef__generation *generation);

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

#endif
