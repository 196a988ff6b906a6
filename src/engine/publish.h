/*
 * publish.h - the publisher driver: delivers the rows of a publisher's lane to its sink.
 *
 *     claim ─► key, group ─► deliver ─► acknowledge under the token
 *                                        delivered: the offset passes it (kept for a while, if set)
 *                                        failed: a retry row, due after retry_ms; later rows of its
 *                                                stream are blocked behind it
 *                                        sink unavailable: the offset stops before it
 *
 * Only delivered rows are acknowledged, so a crash between delivery and ack delivers again.
 * Published rows are retained for a while, and purged only after a check that the sink still has
 * the acknowledged messages; a sink that lost messages gets all retained rows again. Order is kept
 * per stream: rows of a stream with a retry row are blocked behind it, and retry rows are delivered
 * in order. Each publisher has its own leases, sink, budget and health, and its own thread under a
 * supervisor (publish_threads.c), so that a hanging sink delays no other publisher.
 */
#pragma once

#include "engine_priv.h"

#include "../bus/bus.h"

#include <everfold/publisher.h>

typedef struct ef__publisher_task {
    ef_engine *engine;
    char name[256];
    pthread_mutex_t stepping; /* one step at a time; guards the members down to redelivered */
    ef__arena arena;          /* of the definition */
    ef_publisher definition;
    ef_str settings; /* of the lane, as they were read */
    ef__membership membership;
    ef__bus *bus;                       /* the sink; NULL: not open */
    size_t batch;                       /* rows of the next claim */
    int64_t next_try_us, next_purge_us; /* monotonic */
    char stored_progress[512];          /* the sink position that was stored last */
    int64_t token;                      /* under which it was read */
    bool is_copy;                       /* the journal is a copy that was not adopted */
    int64_t redelivered;                /* rows that the sink got again so far */
    ef_publisher_health health;         /* guarded by health_lock, like the next one */
    ef_publisher_health reported;       /* its counts as ticks have reported them */
    _Atomic int64_t step_us;            /* when the current step started; 0: none */
    atomic_bool is_removed;             /* it is no longer in the journal */
    ef__task task;                      /* under a supervisor … */
    ef_work_options options;            /* … with these options */
    struct ef__publisher_task *next;
} ef__publisher_task;

/* A bounded step of one publisher. An unavailable sink does not fail the step. */
ef_status ef__publish_step(ef__publisher_task *p, const ef_work_options *options, ef_tick *tick,
                           ef_error *err);
/* Adds the work done since the last report to `tick`. */
void ef__publishers_report(ef_engine *engine, ef_tick *tick);

static inline int64_t ef__publish_mono_us(const ef__publisher_task *p)
{
    return ef__engine_mono_us(p->engine);
}

static inline ef_status ef__publish_no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
}

/* --- definitions (publisher.c) ---------------------------------------------------------------- */

bool ef__lane_is_publisher(const ef_lane *lane);
/* The lane of the publisher of that name; NULL: none. */
const ef_lane *ef__publisher_lane(const ef_lane_list *lanes, ef_str name);
/* The texts of `out` are in the arena. */
ef_status ef__publisher_read(const ef_lane *lane, ef__arena *arena, ef_publisher *out,
                             ef_error *err);
ef__bus_options ef__publisher_bus_options(const ef_publisher *publisher);

/* --- the sink (publish.c) --------------------------------------------------------------------- */

/* The sink is unavailable: it is tried again later, and logged. Messages do not count as failed. */
void ef__sink_failed(ef__publisher_task *publisher, const ef_error *why);
void ef__sink_recovered(ef__publisher_task *publisher);
/* Acknowledges a batch, and stores the sink's position in the same transaction if it has changed:
 * after any crash, a message below the offset is known to have reached that position. */
ef_status ef__sink_ack(ef__publisher_task *publisher, const ef_partition_lease *held,
                       size_t held_count, const ef_retry_row *retry_rows, size_t retry_row_count,
                       ef_error *err);

/* --- batches (publish_batch.c) ---------------------------------------------------------------- */

/* Delivers due retry rows, up to a limit. */
ef_status ef__publish_due(ef__publisher_task *p, ef_partition_lease *held, size_t held_count,
                          ef_tick *tick, ef_error *err);
/* Delivers queued rows, `usual` at first. While all deliveries succeed and the sink overlaps
 * batches, several batches per call. On return no delivered row is in flight. */
ef_status ef__publish_queued(ef__publisher_task *p, ef_partition_lease *held, size_t held_count,
                             size_t usual, ef_tick *tick, ef_error *err);

/* Sets keys and groups of messages: messages that share a stream or a key are in one group. */
ef_status ef__publish_keys(const ef_publisher *publisher, ef__bus_message *messages, size_t count,
                           bool grouped, ef__arena *arena, ef_error *err);
