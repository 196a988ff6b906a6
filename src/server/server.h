/*
 * server.h - Everfold over HTTP: one process that takes events, answers queries, streams changes
 * and tells how it is doing.
 *
 * A server stands in front of an engine that is open, and of a supervisor if this process works
 * too. It owns its threads: one that talks to the network, a pool for what may wait (appends,
 * queries, waits), and one that follows the journal for subscribers.
 */
#ifndef EF_SERVER_SERVER_H
#define EF_SERVER_SERVER_H

#include <everfold/engine.h>
#include <everfold/supervisor.h>

typedef struct ef__server ef__server;

/* Zero means the default, everywhere. */
typedef struct ef__server_options {
    ef_journal *journal; /* borrowed for as long as the server runs, as the next two */
    ef_engine *engine;
    ef_supervisor *supervisor;   /* NULL: nobody works in this process */
    const char *listen;          /* ADDRESS:PORT, [ADDRESS]:PORT; port 0: any that is free */
    int listen_fd;               /* a socket that listens already (systemd); `listen` is not used */
    const char *socket;          /* path of the Unix socket for its own user; NULL: none */
    bool socket_optional;        /* where it cannot be had, a warning is logged */
    const char *tls_certificate; /* PEM files; both or none */
    const char *tls_key;
    const char *tokens;      /* the file with the tokens; NULL: there are none */
    const char *hosts;       /* comma list of names it is called by, besides its own address */
    const char *mode;        /* the word for status */
    const char *url;         /* of the journal, without a password, for status */
    const char *views_url;   /* of the views, to watch the room that they have; may be NULL */
    int64_t threads_max;     /* of the pool; 64 */
    int64_t connections_max; /* 4,096 */
    int64_t body_bytes_max;  /* of a request; 16 MiB */
    int64_t request_ms;      /* a whole request has to come within this; 60,000 */
    int64_t query_steps, query_ms; /* what one query or look into the past may cost; 0: no limit */
    ef_str
        publish_directories; /* that files of publishers have to be below; "": none may be named */
    int64_t publish_retry_ms, publish_attempts; /* of publishers that are set without; 0: default */
    int64_t heartbeat_ms; /* followers without news are told so as often; 15,000 */
    const ef_clock *clock;
    const ef_log *log;
    bool access_log; /* a line for each request, as long as nothing else is said */
    const char
        *otlp_url; /* where spans of requests go: http://HOST:4318/v1/traces; NULL: nowhere */
    const char *otlp_headers; /* "key=value,…" for it; may be NULL */
    const char *otlp_service; /* what this service is called there; "everfold" */
    const char *path; /* behind a reverse proxy: its paths begin with this, as "/everfold" */
    bool no_monitor;  /* nothing at / */
    bool probes_only; /* a worker's: /metrics, /livez, /readyz and nothing else */
} ef__server_options;

/*
 * Listen, and answer from then on.
 * EF_BAD_INPUT  an address that is not loopback needs TLS and a token; or the address is none
 * EF_EXISTS     the address is in use
 */
ef_status ef__server_start(const ef__server_options *options, ef__server **out, ef_error *err);

/* EF_BAD_INPUT unless it is a path as `path` of the options has it, or "". */
ef_status ef__server_path_check(ef_str path, ef_error *err);

/* "http://127.0.0.1:7450" */
const char *ef__server_url(const ef__server *server);

/* The absolute path of its Unix socket; NULL: it has none. */
const char *ef__server_socket(const ef__server *server);

/* Has any token been made, be it revoked? */
bool ef__server_has_tokens(const ef__server *server);

/* Read certificate, key and tokens again. On failure the old ones stay. */
ef_status ef__server_reload(ef__server *server, ef_error *err);

/* Whether each request gets a line in the log, from now on. */
void ef__server_log_access(ef__server *server, bool wanted);

/* Take no new request, answer those that are here within `drain_ms`, end. NULL is fine. */
void ef__server_stop(ef__server *server, int64_t drain_ms);

#endif
