/*
 * http.c - the network: the only file that knows the HTTP library (libmicrohttpd).
 *
 * One thread (loop.c) reads requests and writes answers. A request that may wait is handed on with
 * its connection suspended, and comes back by ef__http_ready:
 *
 *     headers ─► body ─► running (here, or elsewhere) ─► answered
 *        └─ refused: answered at once, and the connection closed behind it
 *
 * Requests that a proxy may read differently are refused (framing.c). Slow ones are closed by the
 * reaper: a connection has to bring a whole request, and to take its answer, in request_ms, however
 * steadily it drips.
 */
#include "cloudevent.h"
#include "http_priv.h"
#include "hub.h"
#include "trace.h"

#include "../base/deadline.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

typedef enum phase { PHASE_HEADERS, PHASE_BODY, PHASE_READY } phase;

/* A connection, for the reaper; `lock` of the http guards the list. */
typedef struct peer {
    struct peer *before, *next;
    struct MHD_Connection *connection;
    int fd;
    unsigned address; /* of those with the same address, but for chance */
    int64_t since_us; /* it has been our peer's turn since then; 0: it is ours. Atomic */
} peer;

typedef struct exchange {
    phase phase;
    bool closes; /* the connection ends behind the answer: the body was not read, or is in chunks */
    bool too_large; /* the body; what comes of it is dropped */
    bool bad_frame; /* a line in front of the body or of a chunk does not end in CR LF */
    ef__framing framing;
    bool counted; /* in flight */
    peer *peer;
    struct exchange *next; /* of those that are kept for the next request */
    ef__request request;   /* last, for its own last things are left as they are (exchange_take) */
} exchange;

#define ADDRESSES 4096 /* that are counted apart */
#define REAP_MS 1000
#define CROWDED_US (2 * 1000000) /* for a request of an address that takes others their room */
#define SPARE_MAX 64             /* exchanges that are kept; as many as a busy round has */
#define SPARE_ARENA_MAX 2048     /* one that used more gives its memory back … */
#define SPARE_BODY_MAX 4096      /* … and so does one whose body was larger */
#define PLACE_BYTES 512 /* the answer to a small append: memory of the thread that frees it */

struct ef__http {
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    pthread_cond_t end;
    peer *peers;
    int64_t by_address[ADDRESSES]; /* how many peers of each */
    pthread_t reaper;
    bool reaping, ending;
    exchange *spare; /* the network's thread's */
    size_t spare_count;
};

/* --- connections and their time ----------------------------------------------------------------
 */

static void set_turn(ef__server *server, peer *p, bool theirs)
{
    if (p)
        __atomic_store_n(&p->since_us,
                         theirs ? __atomic_load_n(&server->round_us, __ATOMIC_RELAXED) : 0,
                         __ATOMIC_RELAXED);
}

static void peer_joins(ef__server *server, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct ef__http *http = server->http;
    peer *p = calloc(1, sizeof *p);

    *context = p;
    if (!p)
        return;
    p->connection = connection;
    p->fd = info ? info->connect_fd : -1;
    p->since_us = ef__server_mono(server);
    p->address = ef__peer_hash(connection) % ADDRESSES;
    pthread_mutex_lock(&http->lock);
    http->by_address[p->address]++;
    p->next = http->peers;
    if (http->peers)
        http->peers->before = p;
    http->peers = p;
    pthread_mutex_unlock(&http->lock);
    __atomic_add_fetch(&server->counts.connections, 1, __ATOMIC_RELAXED);
}

static void peer_leaves(ef__server *server, peer *p)
{
    struct ef__http *http = server->http;

    if (!p)
        return;
    pthread_mutex_lock(&http->lock);
    http->by_address[p->address]--;
    if (p->before)
        p->before->next = p->next;
    else
        http->peers = p->next;
    if (p->next)
        p->next->before = p->before;
    pthread_mutex_unlock(&http->lock);
    free(p);
    __atomic_sub_fetch(&server->counts.connections, 1, __ATOMIC_RELAXED);
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        peer_joins(cls, connection, context);
    else
        peer_leaves(cls, *context);
}

/* How long a peer may take. Where most connections are in use, an address that has a large part of
 * them gets less time, so that others come in. */
static int64_t time_of(const ef__server *server, const peer *p, bool crowded)
{
    int64_t limit_us = server->options.request_ms * 1000;
    bool crowds = server->http->by_address[p->address] > server->options.connections_max / 4;

    return crowded && crowds && limit_us > CROWDED_US ? CROWDED_US : limit_us;
}

/* Shut the socket and no more: the library's thread finds it so, and cleans up. */
static void reap(ef__server *server)
{
    int64_t now_us = ef__server_mono(server), most = server->options.connections_max;
    bool crowded = __atomic_load_n(&server->counts.connections, __ATOMIC_RELAXED) > most / 4 * 3;

    for (peer *p = server->http->peers; p; p = p->next) {
        int64_t since_us = __atomic_load_n(&p->since_us, __ATOMIC_RELAXED);
        if (since_us <= 0 || now_us - since_us <= time_of(server, p, crowded))
            continue;
        (void)shutdown(p->fd, SHUT_RDWR);
        __atomic_store_n(&p->since_us, now_us, __ATOMIC_RELAXED); /* its end may take a moment */
        __atomic_add_fetch(&server->counts.refused, 1, __ATOMIC_RELAXED);
    }
}

static void *reaper(void *cls)
{
    ef__server *server = cls;
    struct ef__http *http = server->http;

    pthread_mutex_lock(&http->lock);
    while (!http->ending) {
        struct timespec until = ef__deadline(CLOCK_MONOTONIC, REAP_MS);
        (void)pthread_cond_timedwait(&http->end, &http->lock, &until);
        reap(server);
    }
    pthread_mutex_unlock(&http->lock);
    return NULL;
}

/* --- answers ------------------------------------------------------------------------------------
 */

static void add_headers(struct MHD_Response *response, const ef__request *r, bool close)
{
    bool kept = false;

    (void)MHD_add_response_header(response, "Content-Type", r->type ? r->type : "application/json");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; i < r->header_count; i++) {
        kept = kept || strcmp(r->headers[i].name, "Cache-Control") == 0;
        (void)MHD_add_response_header(response, r->headers[i].name, r->headers[i].value);
    }
    if (!kept) /* what is told of events is for whoever asked, now */
        (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    if (close)
        (void)MHD_add_response_header(response, "Connection", "close");
}

/* The buffer's memory goes to the library: nothing is copied. */
static struct MHD_Response *response_of(ef__request *r)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(r->out.len, r->out.ptr, MHD_RESPMEM_MUST_FREE);

    r->answer_bytes = r->head ? 0 : (int64_t)r->out.len;
    if (response)
        r->out = (ef__buf)EF__BUF_INIT(EF__ANSWER_BYTES_MAX);
    return response;
}

static void log_access(const ef__request *r)
{
    const ef__server *server = r->server;
    char room[EF__PEER_ADDRESS_MAX];

    if (!__atomic_load_n(&server->options.access_log, __ATOMIC_RELAXED))
        return;
    ef__log(server->options.log, EF_LOG_INFO, "request", EF_LOG_TEXT_FIELD("method", r->method),
            EF_LOG_TEXT_FIELD("path", r->path),
            EF_LOG_TEXT_FIELD("operation", ef_str_from(r->route ? r->route->id : "none")),
            EF_LOG_NUMBER_FIELD("status", r->status ? r->status : 200),
            EF_LOG_NUMBER_FIELD("us", ef__server_mono(server) - r->began_us),
            EF_LOG_NUMBER_FIELD("body_bytes", (int64_t)r->body.len),
            EF_LOG_NUMBER_FIELD("answer_bytes", r->answer_bytes),
            EF_LOG_TEXT_FIELD("who", ef_str_from(r->who.name)),
            EF_LOG_TEXT_FIELD("client", ef__peer_address(r, room)),
            EF_LOG_TEXT_FIELD("forwarded_for", ef__request_header(r, "X-Forwarded-For")),
            EF_LOG_TEXT_FIELD("trace_id", ef__trace_id(ef__request_header(r, "traceparent"))));
}

/* The library leaves the body out where the method is HEAD. */
static struct MHD_Response *make_response(ef__request *r)
{
    if (!r->follower)
        return response_of(r);
    return r->head ? ef__http_follow_head(r->follower)
                   : ef__http_follow(r->follower, r->server, r->connection);
}

static enum MHD_Result send_answer(exchange *x)
{
    ef__request *r = &x->request;
    bool follows = r->follower != NULL && !r->head;
    struct MHD_Response *response = make_response(r);
    enum MHD_Result sent;

    if (!response)
        return MHD_NO;
    r->follower = NULL; /* the response's from here on */
    add_headers(response, r, x->closes);
    ef__meter_request(r);
    log_access(r);
    ef__trace_request(r);
    set_turn(r->server, x->peer, !follows);
    sent = MHD_queue_response(r->connection, (unsigned)(r->status ? r->status : 200), response);
    MHD_destroy_response(response);
    return sent;
}

/* --- the course of a request --------------------------------------------------------------------
 */

/* One that is zeroed but for an arena and a body that are empty. Of one that is used again, what is
 * only looked at as far as it was filled stays as it is: it is most of it. */
static exchange *exchange_take(struct ef__http *http, int64_t body_bytes_max)
{
    exchange *x = http->spare;
    ef__arena arena = EF__ARENA_INIT(EF__REQUEST_ARENA);
    ef__buf body = EF__BUF_INIT((size_t)body_bytes_max);

    if (!x) {
        x = calloc(1, sizeof *x);
    } else {
        http->spare = x->next;
        http->spare_count--;
        arena = x->request.arena;
        body = x->request.body;
        memset(x, 0, offsetof(exchange, request.parameters));
        x->request.error.status = EF_OK;
        x->request.error.has_numbers = false;
        x->request.error.text[0] = '\0';
    }
    if (x) {
        x->request.arena = arena;
        x->request.body = body;
    }
    return x;
}

static void exchange_give(struct ef__http *http, exchange *x)
{
    ef__request *r = &x->request;

    if (http->spare_count == SPARE_MAX || r->arena.used_bytes > SPARE_ARENA_MAX) {
        ef__request_release(r);
        free(x);
        return;
    }
    if (r->body.cap > SPARE_BODY_MAX)
        ef__buf_release(&r->body);
    ef__buf_reset(&r->body);
    ef__buf_release(&r->out);
    ef__arena_reset(&r->arena);
    x->next = http->spare;
    http->spare = x;
    http->spare_count++;
}

static void *on_target(void *cls, const char *uri, struct MHD_Connection *connection)
{
    ef__server *server = cls;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    exchange *x = exchange_take(server->http, server->options.body_bytes_max);

    if (!x)
        return NULL;
    x->peer = info ? info->socket_context : NULL;
    x->request.server = server;
    x->request.connection = connection;
    x->request.out = (ef__buf)EF__BUF_INIT(EF__ANSWER_BYTES_MAX);
    x->request.began_us = ef__server_mono(server);
    (void)ef__request_target(&x->request, ef_str_from(uri), &x->request.error);
    return x;
}

static enum MHD_Result begin(exchange *x, const char *method, const char *version)
{
    ef__request *r = &x->request;

    /* One that is refused already keeps its error. */
    (void)ef__framing_check(r, version, &x->framing, r->error.status == EF_OK ? &r->error : NULL);
    r->method = ef_str_from(method);
    r->from_loopback = ef__peer_is_local(r);
    x->closes = x->framing.chunked;
    if (r->error.status == EF_OK)
        (void)ef__dispatch_begin(r);
    if (r->error.status == EF_OK) {
        x->phase = PHASE_BODY;
        return MHD_YES;
    }
    /* Whatever of a body is on its way would be taken for the next request. */
    ef__dispatch_problem(r);
    x->closes = true;
    x->phase = PHASE_READY;
    return send_answer(x);
}

static enum MHD_Result take_body(exchange *x, const char *data, size_t *size)
{
    ef__request *r = &x->request;

    x->bad_frame = x->bad_frame || !ef__framing_body(&x->framing, data);
    if (!ef__buf_add(&r->body, data, *size))
        x->too_large = true;
    *size = 0;
    return MHD_YES;
}

/* A read that asks for freshness may wait; the header that asks for it counts as well. */
static bool is_quick(const ef__request *r)
{
    if (r->lists_methods || (r->route->flags & EF__ROUTE_QUICK))
        return true;
    return (r->route->flags & EF__ROUTE_QUICK_PLAIN) && r->server->reads_at_once &&
           r->parameter_count == 0 && ef__request_header(r, "Everfold-Token").len == 0;
}

/* To whoever may wait; false: too many do already. */
static bool hand_on(ef__request *r)
{
    if ((r->route->flags & EF__ROUTE_APPEND) && r->body.len <= EF__COMMITTED_BYTES_MAX) {
        (void)ef__buf_reserve(&r->out, PLACE_BYTES - 1);
        return ef__committer_put(r->server->committer, r);
    }
    if (r->route->flags & EF__ROUTE_RESERVED)
        return ef__pool_put(r->server->probes, r);
    return ef__pool_put(r->server->pool, r);
}

static enum MHD_Result run(exchange *x)
{
    ef__request *r = &x->request;

    set_turn(r->server, x->peer, false);
    x->phase = PHASE_READY; /* the next that is heard of it is that it can be answered */
    x->counted = !(r->route->flags & EF__ROUTE_STREAM);
    if (x->counted)
        __atomic_add_fetch(&r->server->counts.in_flight, 1, __ATOMIC_ACQ_REL);
    if (x->bad_frame) {
        x->closes = true;
        (void)ef_fail(&r->error, EF_BAD_INPUT, "a line in front of the body does not end in CR LF");
        ef__dispatch_problem(r);
        return send_answer(x);
    }
    if (x->too_large) {
        (void)ef_fail(&r->error, EF_TOO_LARGE, "the body has more than %lld bytes",
                      (long long)r->server->options.body_bytes_max);
        ef__dispatch_problem(r);
        return send_answer(x);
    }
    r->at_once = is_quick(r);
    if (r->at_once) {
        ef__dispatch_run(r);
        return send_answer(x);
    }
    MHD_suspend_connection(r->connection);
    if (!hand_on(r)) {
        (void)ef_fail(&r->error, EF_BUSY, "too many requests wait already; try again in a second");
        ef__dispatch_problem(r);
        ef__http_ready(r);
    }
    return MHD_YES;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **context)
{
    exchange *x = *context;

    (void)cls;
    (void)connection;
    (void)url;
    if (!x)
        return MHD_NO; /* memory ran out in on_target */
    if (x->phase == PHASE_HEADERS)
        return begin(x, method, version);
    if (*size > 0)
        return take_body(x, data, size);
    if (x->phase == PHASE_BODY)
        return run(x);
    return send_answer(x);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode why)
{
    exchange *x = *context;
    ef__server *server = cls;

    (void)connection;
    (void)why;
    if (!x)
        return;
    if (x->counted)
        __atomic_sub_fetch(&server->counts.in_flight, 1, __ATOMIC_ACQ_REL);
    set_turn(server, x->peer, true);
    ef__follower_leave(x->request.follower);
    exchange_give(server->http, x);
    *context = NULL;
}

/* --- start and stop -----------------------------------------------------------------------------
 */

/* The library would undo %2F before anybody could see that it is part of a name. */
static size_t leave_escapes(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    return strlen(text);
}

static void be_silent(void *cls, const char *format, va_list args)
{
    (void)cls;
    (void)format;
    (void)args;
}

/* A part of the connections is kept for other addresses: probes do not come by the proxy. */
static int64_t of_one_address(int64_t connections_max)
{
    return connections_max - connections_max / 8;
}

static struct MHD_Daemon *start_daemon(ef__server *server, int fd)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)ef__tls_retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)EF__TLS_VERSIONS},
        {MHD_OPTION_END, 0, NULL},
    };

    return MHD_start_daemon(
        server->tls ? flags | MHD_USE_TLS : flags, 0, NULL, NULL, on_access, server,
        MHD_OPTION_EXTERNAL_LOGGER, be_silent, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escapes, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)server->options.connections_max, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)of_one_address(server->options.connections_max), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(server->options.request_ms / 1000 + 1), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)EF__HTTP_HEAD_BYTES, MHD_OPTION_ARRAY, server->tls ? secure : secure + 2,
        MHD_OPTION_END);
}

ef_status ef__http_start(ef__server *server, ef_error *err)
{
    struct ef__http *http = calloc(1, sizeof *http);
    int fd = -1;
    ef_status st = http ? ef__listen(server, &fd, err) : ef_fail(err, EF_NO_MEMORY, "memory");

    if (st != EF_OK) {
        free(http);
        return st;
    }
    server->http = http;
    pthread_mutex_init(&http->lock, NULL);
    ef__cond_init(&http->end);
    http->daemon = start_daemon(server, fd);
    if (!http->daemon) {
        (void)close(fd);
        st = ef_fail(err, EF_IO, "the HTTP library does not start: %s", strerror(errno));
    } else if ((st = ef__loop_start(server, http->daemon, err)) != EF_OK) {
        return st;
    } else if (pthread_create(&http->reaper, NULL, reaper, server) != 0) {
        st = ef_fail(err, EF_NO_MEMORY, "no thread for the connections");
    } else {
        http->reaping = true;
    }
    return st;
}

void ef__http_quiesce(ef__server *server)
{
    int fd = server->http && server->http->daemon ? MHD_quiesce_daemon(server->http->daemon) : -1;

    if (fd >= 0)
        (void)close(fd);
}

void ef__http_stop(ef__server *server)
{
    struct ef__http *http = server->http;

    if (!http)
        return;
    pthread_mutex_lock(&http->lock);
    http->ending = true;
    pthread_cond_signal(&http->end);
    pthread_mutex_unlock(&http->lock);
    if (http->reaping)
        (void)pthread_join(http->reaper, NULL);
    ef__loop_stop(server);
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    for (exchange *x; (x = http->spare) != NULL;) {
        http->spare = x->next;
        ef__request_release(&x->request);
        free(x);
    }
    pthread_cond_destroy(&http->end);
    pthread_mutex_destroy(&http->lock);
    free(http);
    server->http = NULL;
}

/* --- budgets ---------------------------------------------------------------------------------- */

/* Its connection is suspended, so no other thread reads from the socket or closes it. */
static bool client_is_gone(void *context)
{
    const ef__request *r = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd ask = {.fd = info ? info->connect_fd : -1, .events = POLLRDHUP};

    return poll(&ask, 1, 0) == 1 && (ask.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

ef_budget ef__request_budget(ef__request *r)
{
    return (ef_budget){.steps = r->server->options.query_steps,
                       .time_ms = r->server->options.query_ms,
                       .stop = r->connection ? client_is_gone : NULL,
                       .stop_context = r};
}
