/*
 * trace.h - spans of requests for OpenTelemetry: OTLP over HTTP, as JSON.
 *
 * Off unless an endpoint is named, and then one comparison a request. On, a span is put into a
 * bounded queue, and a thread of its own sends what has gathered; nobody waits for it. What finds
 * the queue full is dropped and counted.
 *
 * A request whose traceparent says that it is not sampled gives no span.
 */
#ifndef EF_SERVER_TRACE_H
#define EF_SERVER_TRACE_H

#include "server_priv.h"

typedef struct ef__tracer ef__tracer;

/* What became of spans so far. */
typedef struct ef__trace_counts {
    int64_t sent, failed, dropped;
} ef__trace_counts;

/* server->tracer stays NULL when options.otlp_url is. */
ef_status ef__tracer_start(ef__server *server, ef_error *err);
/* Sends what is left, within some seconds. */
void ef__tracer_stop(ef__server *server);
/* A request has its answer. */
void ef__trace_request(const struct ef__request *r);
ef__trace_counts ef__tracer_counts(const ef__server *server);

#endif
