/*
 * trace.h - spans of requests for OpenTelemetry: OTLP over HTTP, as JSON.
 *
 * Off unless an endpoint is configured; then it costs one comparison per request. If on, a request
 * puts its span into a bounded queue and does not wait; a thread sends the queued spans. If the
 * queue is full, the span is dropped and counted.
 *
 * A request whose traceparent is not sampled has no span.
 */
#ifndef EF_SERVER_TRACE_H
#define EF_SERVER_TRACE_H

#include "server_priv.h"

typedef struct ef__tracer ef__tracer;

/* Spans by result, since the start. */
typedef struct ef__trace_counts {
    int64_t sent, failed, dropped;
} ef__trace_counts;

/* Without options.otlp_url, server->tracer stays NULL. */
ef_status ef__tracer_start(ef__server *server, ef_error *err);
/* Sends the queued spans, within a few seconds. */
void ef__tracer_stop(ef__server *server);
/* Queues the span of a request that has its response. */
void ef__trace_request(const struct ef__request *r);
ef__trace_counts ef__tracer_counts(const ef__server *server);

#endif
