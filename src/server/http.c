/*
 * http.c - the exchange of request and response with the HTTP library (libmicrohttpd).
 *
 * One thread (loop.c) reads requests and writes responses. A request that may block is passed to
 * another thread with its connection suspended, and returns by ef__http_ready:
 *
 *     headers ─► body ─► running (here, or in another thread) ─► answered
 *        └─ refused: answered at once, then the connection is closed
 *
 * Requests that a proxy may read differently are refused (framing.c). connections.c closes slow
 * clients and detects disconnected ones.
 */
#include "http_priv.h"
#include "hub.h"

#include <errno.h>
#include <unistd.h>

typedef enum phase { PHASE_HEADERS, PHASE_BODY, PHASE_READY } phase;

typedef struct exchange {
    phase phase;
    bool closes; /* close the connection after the response: the body was not read, or is chunked */
    bool too_large; /* the body; the rest of it is dropped */
    bool bad_frame; /* a line before the body or a chunk does not end in CR LF */
    ef__framing framing;
    bool counted;          /* in flight */
    struct exchange *next; /* in the list of spare exchanges */
    ef__request request;   /* last, because its tail is not cleared on reuse (exchange_take) */
} exchange;

#define LOCAL_CONNECTIONS 256 /* of the Unix socket: command lines, and programs of its user */
#define SPARE_MAX 64          /* exchanges kept for reuse; the number of a busy round */
#define SPARE_ARENA_MAX 2048  /* a larger arena is freed before reuse … */
#define SPARE_BODY_MAX 4096   /* … and so is a larger body */
#define PLACE_BYTES 512       /* the response to a small append is allocated by this thread */

struct ef__http {
    struct MHD_Daemon *daemon; /* of the address */
    struct MHD_Daemon *local;  /* of the Unix socket, without TLS; NULL: none */
    exchange *spare;           /* only used by the network thread */
    size_t spare_count;
};

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *context = ef__connection_add(cls, connection);
    else
        ef__connection_remove(cls, *context);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void add_headers(struct MHD_Response *response, const ef__request *r, bool close)
{
    bool kept = false;

    (void)MHD_add_response_header(response, "Content-Type", r->type ? r->type : "application/json");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; i < r->header_count; i++) {
        kept = kept || strcmp(r->headers[i].name, "Cache-Control") == 0;
        (void)MHD_add_response_header(response, r->headers[i].name, r->headers[i].value);
    }
    if (!kept) /* responses with data must not be cached */
        (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    if (close)
        (void)MHD_add_response_header(response, "Connection", "close");
}

/* The library takes over the buffer's memory, without a copy, and omits the body of HEAD. */
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
    char address[EF__PEER_ADDRESS_MAX];

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
            EF_LOG_TEXT_FIELD("client", ef__peer_address(r, address)),
            EF_LOG_TEXT_FIELD("forwarded_for", ef__request_header(r, "X-Forwarded-For")),
            EF_LOG_TEXT_FIELD("trace_id", ef__trace_id(ef__request_header(r, "traceparent"))));
}

static enum MHD_Result send_answer(exchange *x)
{
    ef__request *r = &x->request;
    bool follows = r->follower != NULL && !r->head;
    struct MHD_Response *response = r->follower ? ef__http_follow(r) : response_of(r);
    enum MHD_Result sent;

    if (!response)
        return MHD_NO;
    r->follower = NULL; /* the response's from here on */
    add_headers(response, r, x->closes);
    ef__meter_request(r);
    log_access(r);
    ef__trace_request(r);
    ef__connection_turn(r->server, r->client, !follows);
    sent = MHD_queue_response(r->connection, (unsigned)(r->status ? r->status : 200), response);
    MHD_destroy_response(response);
    return sent;
}

/* --- phases of a request ---------------------------------------------------------------------- */

/* A zeroed exchange with an empty arena and body. In a reused one, the arrays that have a count are
 * not cleared: they are most of it. */
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
    x->request.server = server;
    x->request.client = info ? info->socket_context : NULL;
    x->request.connection = connection;
    x->request.out = (ef__buf)EF__BUF_INIT(EF__ANSWER_BYTES_MAX);
    x->request.began_us = ef__server_mono(server);
    (void)ef__request_target(&x->request, ef_str_from(uri), &x->request.error);
    return x;
}

static enum MHD_Result exchange_begin(exchange *x, const char *method, const char *version)
{
    ef__request *r = &x->request;

    /* A request that was refused before keeps its error. */
    (void)ef__framing_check(r, method, version, &x->framing,
                            r->error.status == EF_OK ? &r->error : NULL);
    r->method = ef_str_from(method);
    r->peer = ef__peer_of(r);
    x->closes = x->framing.chunked;
    if (r->error.status == EF_OK)
        (void)ef__dispatch_begin(r);
    if (r->error.status == EF_OK) {
        x->phase = PHASE_BODY;
        return MHD_YES;
    }
    /* Unread bytes of the body would be read as the next request. */
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

/* A read that asks for freshness, by parameter or header, may block. */
static bool is_quick(const ef__request *r)
{
    if (r->lists_methods || (r->route->flags & EF__ROUTE_QUICK))
        return true;
    return (r->route->flags & EF__ROUTE_QUICK_PLAIN) && r->server->reads_at_once &&
           r->parameter_count == 0 && ef__request_header(r, "Everfold-Token").len == 0;
}

/* Passes the request to the pool or the committer. False: its queue is full. */
static bool queue_request(ef__request *r)
{
    if ((r->route->flags & EF__ROUTE_APPEND) && r->body.len <= EF__COMMITTED_BYTES_MAX) {
        (void)ef__buf_reserve(&r->out, PLACE_BYTES - 1);
        return ef__committer_put(r->server->committer, r);
    }
    if (r->route->flags & EF__ROUTE_RESERVED)
        return ef__pool_put(r->server->probes, r);
    return ef__pool_put(r->server->pool, r);
}

static enum MHD_Result exchange_run(exchange *x)
{
    ef__request *r = &x->request;

    ef__connection_turn(r->server, r->client, false);
    x->phase = PHASE_READY; /* the next callback sends the response */
    x->counted = !(r->route->flags & EF__ROUTE_STREAM);
    if (x->counted)
        __atomic_add_fetch(&r->server->counts.in_flight, 1, __ATOMIC_ACQ_REL);
    if (x->bad_frame)
        (void)ef_fail(&r->error, EF_BAD_INPUT, "a line in front of the body does not end in CR LF");
    else if (x->too_large)
        (void)ef_fail(&r->error, EF_TOO_LARGE, "the body has more than %lld bytes",
                      (long long)r->server->options.body_bytes_max);
    x->closes = x->closes || x->bad_frame;
    r->at_once = is_quick(r);
    if (r->error.status != EF_OK || r->at_once) {
        if (r->error.status != EF_OK)
            ef__dispatch_problem(r);
        else
            ef__dispatch_run(r);
        return send_answer(x);
    }
    MHD_suspend_connection(r->connection);
    if (!queue_request(r)) {
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
        return exchange_begin(x, method, version);
    if (*size > 0)
        return take_body(x, data, size);
    if (x->phase == PHASE_BODY)
        return exchange_run(x);
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
    ef__connection_turn(server, x->request.client, true);
    ef__follower_leave(x->request.follower);
    exchange_give(server->http, x);
    *context = NULL;
}

/* --- start and stop --------------------------------------------------------------------------- */

/* Keeps escapes: the library would decode %2F, which is part of a name. */
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

/* Connections per address: some are kept for other addresses, because probes bypass the proxy. */
static int64_t of_one_address(int64_t connections_max)
{
    return connections_max - connections_max / 8;
}

static struct MHD_Daemon *start_daemon(ef__server *server, int fd, bool tls,
                                       int64_t connections_max)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)ef__tls_retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)EF__TLS_VERSIONS},
        {MHD_OPTION_END, 0, NULL},
    };

    return MHD_start_daemon(
        tls ? flags | MHD_USE_TLS : flags, 0, NULL, NULL, on_access, server,
        MHD_OPTION_EXTERNAL_LOGGER, be_silent, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escapes, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)connections_max, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)of_one_address(connections_max), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(server->options.request_ms / 1000 + 1), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)EF__HTTP_HEAD_BYTES, MHD_OPTION_ARRAY, tls ? secure : secure + 2, MHD_OPTION_END);
}

/* The daemon of the Unix socket. Its connections are limited separately, so that many clients at
 * the address do not lock out the server's own user. */
static ef_status start_local(ef__server *server, ef_error *err)
{
    const char *path = server->options.socket;
    ef_error why = EF_ERROR_INIT;
    ef_status st;

    if (!path)
        return EF_OK;
    st = ef__socket_open(path, &server->socket, &why);
    if (st != EF_OK && !server->options.socket_optional)
        return ef_fail(err, st, "%s", why.text);
    if (st != EF_OK) {
        ef__log(server->options.log, EF_LOG_WARN, "no Unix socket",
                EF_LOG_TEXT_FIELD("error", ef_str_from(why.text)));
        return EF_OK;
    }
    server->http->local = start_daemon(server, server->socket.fd, false, LOCAL_CONNECTIONS);
    if (server->http->local)
        return EF_OK;
    (void)close(server->socket.fd);
    return ef_fail(err, EF_IO, "the HTTP library does not start: %s", strerror(errno));
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
    http->daemon = start_daemon(server, fd, server->tls != NULL, server->options.connections_max);
    if (!http->daemon) {
        (void)close(fd);
        return ef_fail(err, EF_IO, "the HTTP library does not start: %s", strerror(errno));
    }
    st = start_local(server, err);
    if (st == EF_OK)
        st = ef__connections_open(server, err);
    return st == EF_OK ? ef__loop_start(server, http->daemon, http->local, err) : st;
}

static void daemon_quiesce(struct MHD_Daemon *daemon)
{
    int fd = daemon ? MHD_quiesce_daemon(daemon) : -1;

    if (fd >= 0)
        (void)close(fd);
}

void ef__http_quiesce(ef__server *server)
{
    if (!server->http)
        return;
    ef__socket_remove(&server->socket);
    daemon_quiesce(server->http->daemon);
    daemon_quiesce(server->http->local);
}

void ef__http_stop(ef__server *server)
{
    struct ef__http *http = server->http;

    if (!http)
        return;
    ef__loop_stop(server);
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    if (http->local)
        MHD_stop_daemon(http->local);
    ef__connections_close(server);
    for (exchange *x; (x = http->spare) != NULL;) {
        http->spare = x->next;
        ef__request_release(&x->request);
        free(x);
    }
    free(http);
    server->http = NULL;
}
