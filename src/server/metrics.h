/*
 * metrics.h - what the server counts, for /metrics.
 *
 * Counting is an atomic addition: it costs a request nothing that could be measured. Labels are of
 * sets that are known beforehand (outcomes, operations, states) or small and made by operators
 * (projections, lanes); a tenant, a stream or an id is never one.
 */
#ifndef EF_SERVER_METRICS_H
#define EF_SERVER_METRICS_H

#include "route.h"

#include <everfold/event.h>

#include <stdint.h>

struct ef__server;
struct ef__request;

#define EF__BUCKETS 14

/* Durations, in buckets that grow from 100 µs to 10 s. */
typedef struct ef__histogram {
    int64_t counts[EF__BUCKETS + 1]; /* the last: longer than all */
    int64_t sum_us;
} ef__histogram;

typedef struct ef__meter {
    int64_t appended[4]; /* events: ok, duplicate, conflict, error */
    ef__histogram append, request;
    ef__histogram waits[2]; /* reads that asked for freshness: had it, or not in time */
    int64_t requests[EF__ROUTES_MAX + 1][5]; /* by operation and first digit of the status; the last
                                              * row: no operation was found */
} ef__meter;

/* An append is over: `places` are looked at when it went well. */
void ef__meter_append(struct ef__server *server, ef_status status, const ef_place *places,
                      size_t count, int64_t us);
/* A read that asked for freshness is over. */
void ef__meter_wait(struct ef__server *server, ef_status status, int64_t us);
/* A request has its answer. */
void ef__meter_request(const struct ef__request *r);

#endif
