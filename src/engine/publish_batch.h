/*
 * publish_batch.h - a batch of a publisher's lane: due retry rows, and queued rows.
 */
#ifndef EF_ENGINE_PUBLISH_BATCH_H
#define EF_ENGINE_PUBLISH_BATCH_H

#include "publish.h"

/* Delivers due retry rows, up to a limit. */
ef_status ef__publish_due(ef__publisher_task *p, ef_partition_lease *held, size_t held_count,
                          ef_tick *tick, ef_error *err);
/* Delivers queued rows, `usual` at first. While all deliveries succeed and the sink overlaps
 * batches, several batches per call. On return no delivered row is in flight. */
ef_status ef__publish_queued(ef__publisher_task *p, ef_partition_lease *held, size_t held_count,
                             size_t usual, ef_tick *tick, ef_error *err);

#endif
