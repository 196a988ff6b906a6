/*
 * publish_sink.h - the sink of a publisher: availability, stored position, lost messages. Called
 * from the publisher's step only.
 */
#ifndef EF_ENGINE_PUBLISH_SINK_H
#define EF_ENGINE_PUBLISH_SINK_H

#include "publish.h"

ef_status ef__sink_open(ef__publisher_task *publisher, ef_str progress, ef_error *err);
void ef__sink_close(ef__publisher_task *publisher);
/* The sink is unavailable: it is tried again later, and logged. Messages do not count as failed. */
void ef__sink_failed(ef__publisher_task *publisher, const ef_error *why);
void ef__sink_recovered(ef__publisher_task *publisher);
bool ef__sink_is_available(const ef__publisher_task *publisher);
/* Acknowledges a batch, and stores the sink's position in the same transaction if it has changed:
 * after any crash, a message below the offset is known to have reached that position. */
ef_status ef__sink_ack(ef__publisher_task *publisher, const ef_partition_lease *held,
                       size_t held_count, const ef_retry_row *retry_rows, size_t retry_row_count,
                       ef_error *err);
/* The lease of the first partition, under which state of the whole publisher is written. */
ef_partition_lease ef__sink_lease(const ef__publisher_task *publisher);
/* Whether the sink still has all messages that it acknowledged. False also if it does not know.
 * Without `ask_now` the answer is cached while the connection lasts. */
bool ef__sink_is_complete(ef__publisher_task *publisher, bool ask_now);
/* Another worker had the publisher meanwhile: a loss that was found before is its to handle. */
void ef__sink_forget_lost(ef__publisher_task *publisher);
/* The sink lost acknowledged messages: makes retained rows due again, before new rows, so that the
 * order of streams is kept. A bounded step. */
ef_status ef__sink_redeliver(ef__publisher_task *publisher, ef_tick *tick, ef_error *err);

#endif
