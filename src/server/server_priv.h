/*
 * server_priv.h - declarations private to the module server.
 */
#pragma once

#include "server.h"

#include "../base/logger.h"
#include "../shape/overview.h"

#include <everfold/view.h>

/* Nearly every file allocates and formats. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

struct ef__request;
typedef struct ef__connection ef__connection;

/* Limit per token of waiting requests, and of subscriptions. */
#define EF__OF_ONE_TOKEN(max) ((max) > 4 ? (max) / 4 : 1)

/* The origin of a request, which decides its scopes without a token. */
typedef enum ef__peer_kind {
    EF__PEER_REMOTE, /* another machine, or a proxy that forwards for one */
    EF__PEER_LOCAL,  /* this machine */
    EF__PEER_OWNER /* over a Unix socket, and the process is of the server's own user or of root */
} ef__peer_kind;

typedef struct ef__peer {
    ef__peer_kind kind;
    bool has_uid; /* over a Unix socket */
    unsigned uid;
} ef__peer;

/* A listening Unix socket (address.c). */
typedef struct ef__socket {
    int fd;
    char path[108]; /* of its file; "": none */
    ino_t inode;
} ef__socket;

/* The authenticated client: its scopes and tenant. */
typedef struct ef__principal {
    unsigned scopes;
    bool owner; /* the server's own user, without a token */
    bool bound; /* to `tenant` */
    char tenant[256];
    char name[160]; /* actor of audit entries and logs: "token ID", "loopback" or "uid N"; if the
                     * client names an actor, "alice (token ID)" */
    char token[40]; /* the token's id; "": no token */
} ef__principal;

#define EF__ROUTES_MAX 128 /* of all tables; a test counts them */
#define EF__BUCKETS 14

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

/* Current numbers, and (`refused`) the number of slow connections closed so far. Atomic. */
typedef struct ef__server_counts {
    int64_t in_flight, connections, followers;
    int64_t refused;
} ef__server_counts;

/* A thread of the server, with the lock of its data and the condition that it sleeps on. */
typedef struct ef__service {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* its timed waits use the monotonic clock */
    bool running;           /* the thread has to be joined */
    bool ending;            /* the thread has to end; under the lock */
} ef__service;

/* A zeroed object of `bytes` that begins with an ef__service. NULL: EF_NO_MEMORY. */
void *ef__service_new(size_t bytes, ef_error *err);
ef_status ef__service_start(ef__service *service, void *(*run)(void *), void *context,
                            const char *purpose, ef_error *err);
/* Ends the thread, if it was started. This and the next accept NULL. */
void ef__service_stop(void *object);
/* Stops, and frees the object. */
void ef__service_free(void *object);

struct ef__server {
    ef__server_options options; /* defaults filled in */
    char url[300];
    char host[256]; /* the address it listens on */
    bool loopback;
    ef__socket socket;
    struct ef__http *http;
    struct ef__connections *connections;
    struct ef__loop *loop;
    struct ef__pool *pool, *probes;
    struct ef__waiters *event_waiters, *view_waiters;
    struct ef__committer *committer;
    struct ef__tokens *tokens;
    struct ef__tls *tls; /* NULL: plain HTTP */
    struct ef__hub *hub;
    struct ef__tracer *tracer; /* NULL: tracing is off */
    struct ef__history *history;
    ef_view_reader *reader; /* only used by the network thread … */
    ef_view_list found;     /* … for its results */
    int64_t round_us;       /* … and the start of its current round */
    ef__server_counts counts;
    ef__server_meter meter;
    int64_t started_us;
    bool reads_at_once; /* a plain read of a view does not wait for another process */
    bool stopping;      /* atomic */
};

int64_t ef__server_now(const ef__server *server);  /* wall */
int64_t ef__server_mono(const ef__server *server); /* for durations */
/* The tasks of this process; returns their number. */
#define EF__TASKS_MAX 72
size_t ef__server_tasks(const ef__server *server, ef_task out[EF__TASKS_MAX]);

/* --- http.c, loop.c: the HTTP library --------------------------------------------------------- */

ef_status ef__http_start(ef__server *server, ef_error *err);
void ef__http_quiesce(ef__server *server); /* accept no new connection */
void ef__http_stop(ef__server *server);
/* The response is ready: the network thread continues with the request. From any thread. */
void ef__http_ready(struct ef__request *r);

/* For a subscription without data: the network leaves its connection, then continues with it. */
void ef__http_suspend(void *connection);
void ef__http_resume(ef__server *server, void *connection);

/* --- pool.c: threads for handlers that may block ---------------------------------------------- */

typedef struct ef__pool ef__pool;
ef__pool *ef__pool_new(int64_t threads_max); /* NULL: memory ran out. The next accept that */
/* Queues a request: a thread of the pool runs its handler, then calls ef__http_ready. False: the
 * queue is full. */
bool ef__pool_put(ef__pool *pool, struct ef__request *r);
void ef__pool_stop(ef__pool *pool); /* answers queued requests and refuses new ones */
void ef__pool_free(ef__pool *pool); /* after the network thread has ended */

/* --- waiters.c: requests that wait for an event or a fold ------------------------------------- */

ef_status ef__waiters_start(ef__server *server, ef_error *err);
/* Called by a handler, which then returns EF_OK: the request waits without a thread, and its
 * handler runs again when the wait is over, or at `end_us`. Waits for events after position
 * `after`; or for views, and then takes ownership of `view`. False: the deadline has passed, the
 * token has too many waiting requests, or the server stops. */
bool ef__waiters_park(struct ef__request *r, int64_t end_us, int64_t after, ef_view_wait *view);
void ef__waiters_put(struct ef__request *r); /* called by the pool after the handler */
void ef__waiters_stop(ef__server *server);   /* resumes all waiting requests */

/* --- append.c: group commit of appends -------------------------------------------------------- */

#define EF__COMMITTED_BYTES_MAX 65536 /* of a body: parsing a larger one would delay the others */

typedef struct ef__committer ef__committer;
ef_status ef__committer_start(ef__server *server, ef_error *err);
/* Like ef__pool_put, for an append with a small body. Starts with the next ef__committer_go. */
bool ef__committer_put(ef__committer *committer, struct ef__request *r);
void ef__committer_go(ef__committer *committer);

/* --- dispatch.c: from the headers to the handler ---------------------------------------------- */

/* After the headers: finds the route, and checks host, origin and token. On failure the response
 * has been written. */
ef_status ef__dispatch_begin(struct ef__request *r);
/* After the body: runs the handler in this thread. */
void ef__dispatch_run(struct ef__request *r);
/* Completes the response with the status of the handler. */
void ef__dispatch_end(struct ef__request *r, ef_status st);
/* Writes r->error as the response. */
void ef__dispatch_problem(struct ef__request *r);

/* --- hub.c: subscriptions --------------------------------------------------------------------- */

ef_status ef__hub_start(ef__server *server, ef_error *err);
void ef__hub_stop(ef__server *server); /* ends all subscriptions */

/* --- history.c: samples of the last hour ------------------------------------------------------ */

ef_status ef__history_start(ef__server *server, ef_error *err);

/* --- tls.c: certificate and key --------------------------------------------------------------- */

/* Reads the files of the options, if they are set. */
ef_status ef__tls_open(ef__server *server, ef_error *err);
/* Reads the files again. On failure the old pair stays in use. */
ef_status ef__tls_reload(ef__server *server, ef_error *err);
void ef__tls_close(ef__server *server); /* after the network thread has ended */

/* --- metrics.c: what the server counts -------------------------------------------------------- */

/* Counting is an atomic addition, whose cost per request is not measurable. Labels have values from
 * fixed sets (outcomes, operations, states) or small sets that operators define (projections,
 * lanes), never a tenant, stream or id. */

/* Counts an append; `places` are read if `status` is EF_OK. */
void ef__meter_append(struct ef__server *server, ef_status status, const ef_place *places,
                      size_t count, int64_t us);
/* Counts a read that asked for freshness. */
void ef__meter_wait(struct ef__server *server, ef_status status, int64_t us);
/* Counts a request that has its response. */
void ef__meter_request(const struct ef__request *r);

/* --- trace.c: spans of requests --------------------------------------------------------------- */

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
/* Zeros without a tracer. */
ef__trace_counts ef__tracer_counts(const ef__server *server);
/* The trace id in a traceparent; "" if it is invalid. */
ef_str ef__trace_id(ef_str parent);

/* --- auth.c ----------------------------------------------------------------------------------- */

/* The principal of a request, by its Authorization header or else by its origin: EF_OK, or
 * EF_UNAUTHORIZED. `now_us` is a time of ef__server_mono. */
ef_status ef__token_check(ef__server *server, ef_str authorization, const ef__peer *peer,
                          int64_t now_us, ef__principal *out, ef_error *err);
/* Whether a new request of the principal would be accepted. False: its token was revoked or has
 * expired, or it has none and a token was created meanwhile. */
bool ef__principal_stands(ef__server *server, const ef__principal *who);
ef_status ef__tokens_open(ef__server *server, ef_error *err);
ef_status ef__tokens_reload(ef__server *server, ef_error *err);
void ef__tokens_close(ef__server *server);
