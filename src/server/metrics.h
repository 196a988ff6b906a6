/*
 * metrics.h - what the server counts, for /metrics.
 *
 * Counting is an atomic addition, whose cost per request is not measurable. Labels have values from
 * fixed sets (outcomes, operations, states) or small sets that operators define (projections,
 * lanes), never a tenant, stream or id.
 */
#ifndef EF_SERVER_METRICS_H
#define EF_SERVER_METRICS_H

#include "route.h"

#include <everfold/event.h>

#include <stdint.h>

struct ef__server;
struct ef__request;

#define EF__BUCKETS 14
extern const int64_t ef__bucket_us[EF__BUCKETS]; /* upper bounds */

/* Durations, in buckets that grow from 100 µs to 10 s. */
typedef struct ef__histogram {
    int64_t counts[EF__BUCKETS + 1]; /* the last: above all bounds */
    int64_t sum_us;
} ef__histogram;

typedef struct ef__server_meter {
    int64_t appended[4]; /* events: ok, duplicate, conflict, error */
    ef__histogram append, request;
    ef__histogram waits[2]; /* reads that asked for freshness: in time, or timed out */
    int64_t requests[EF__ROUTES_MAX + 1][5]; /* by operation and first digit of the status; the last
                                              * row: unknown operation */
} ef__server_meter;

/* Counts an append; `places` are read if `status` is EF_OK. */
void ef__meter_append(struct ef__server *server, ef_status status, const ef_place *places,
                      size_t count, int64_t us);
/* Counts a read that asked for freshness. */
void ef__meter_wait(struct ef__server *server, ef_status status, int64_t us);
/* Counts a request that has its response. */
void ef__meter_request(const struct ef__request *r);

#endif
