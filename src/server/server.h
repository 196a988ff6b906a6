/*
 * server.h - Everfold over HTTP: appends, queries, subscriptions, operator actions and health.
 *
 * A server uses an open engine, and a supervisor if the process runs workers. It owns its threads:
 * one for the network, a pool for handlers that may block, and one that reads the journal for
 * subscriptions.
 */
#pragma once

#include <everfold/engine.h>
#include <everfold/supervisor.h>

typedef struct ef__server ef__server;

/* Zero means the default. */
typedef struct ef__server_options {
    ef_journal *journal; /* this and the next two are borrowed while the server runs */
    ef_engine *engine;
    ef_supervisor *supervisor;   /* NULL: this process runs no tasks */
    const char *listen;          /* ADDRESS:PORT, [ADDRESS]:PORT; port 0: any free port */
    int listen_fd;               /* a listening socket (systemd); `listen` is ignored */
    const char *socket;          /* path of the Unix socket for its own user; NULL: none */
    bool socket_optional;        /* if it cannot be opened, only log a warning */
    const char *tls_certificate; /* PEM files; both or none */
    const char *tls_key;
    const char *tokens;      /* the token file; NULL: no tokens */
    const char *hosts;       /* comma list of accepted Host names, in addition to the address */
    const char *mode;        /* for status */
    const char *url;         /* of the journal, without a password, for status */
    const char *views_url;   /* of the views, to check their disk space; may be NULL */
    int64_t threads_max;     /* of the pool; default 64 */
    int64_t connections_max; /* default 4,096 */
    int64_t body_bytes_max;  /* of a request; default 16 MiB */
    int64_t request_ms;      /* time limit of receiving a request; default 60,000 */
    int64_t query_steps, query_ms; /* budget of a query or a history; 0: no limit */
    ef_str publish_directories;    /* allowed directories of publishers' files; "": none */
    int64_t publish_retry_ms, publish_attempts; /* defaults of publishers; 0: the library's */
    int64_t heartbeat_ms; /* interval of heartbeats to idle followers; default 15,000 */
    const ef_clock *clock;
    const ef_log *log;
    bool access_log;          /* log each request, until ef__server_log_access changes it */
    const char *otlp_url;     /* receives spans: http://HOST:4318/v1/traces; NULL: no tracing */
    const char *otlp_headers; /* "key=value,…" for it; may be NULL */
    const char *otlp_service; /* service name in spans; default "everfold" */
    const char *path;         /* path prefix behind a reverse proxy, such as "/everfold" */
    bool no_monitor;          /* do not serve the monitor at / */
    bool probes_only;         /* of a worker: only /metrics, /livez and /readyz */
} ef__server_options;

/*
 * Starts to listen and to answer requests.
 * EF_BAD_INPUT  the address is invalid, or is not loopback and there is no TLS or no token
 * EF_EXISTS     the address is in use
 */
ef_status ef__server_start(const ef__server_options *options, ef__server **out, ef_error *err);

/* EF_BAD_INPUT: not valid as `path` of the options. */
ef_status ef__server_path_check(ef_str path, ef_error *err);

/* "http://127.0.0.1:7450" */
const char *ef__server_url(const ef__server *server);

/* The absolute path of its Unix socket; NULL: none. */
const char *ef__server_socket(const ef__server *server);

/* Whether a token exists, even a revoked one. */
bool ef__tokens_any(const ef__server *server);

/* Reads certificate, key and tokens again. On failure the old ones stay in use. */
ef_status ef__server_reload(ef__server *server, ef_error *err);

/* Turns the access log on or off. */
void ef__server_log_access(ef__server *server, bool wanted);

/* Refuses new requests, waits up to `drain_ms` for requests in flight, and ends. Accepts NULL. */
void ef__server_stop(ef__server *server, int64_t drain_ms);
