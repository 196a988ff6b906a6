/*
 * http_priv.h - declarations shared by the files that use the HTTP library.
 */
#pragma once

#include "server_priv.h"

#include <gnutls/abstract.h>
#include <microhttpd.h>

#define EF__HTTP_HEAD_BYTES                                                                        \
    16384 /* of a request line and its headers; the library clears it for each request */

/* The boundaries of a request (framing.c). */
typedef struct ef__framing {
    bool chunked;
    const char *body; /* start of the body in the library's buffer; NULL: unknown */
} ef__framing;

/* Refuses a request that a proxy may read differently. Reads all headers: ef__request_header can be
 * used afterwards. */
ef_status ef__framing_check(struct ef__request *r, const char *method, const char *version,
                            ef__framing *out, ef_error *err);
/* Checks received bytes of the body. False: the chunk line before them does not end in CR LF. */
bool ef__framing_body(const ef__framing *framing, const char *data);

/* Opens the listening socket of the options (address.c). Sets host, loopback and url. */
ef_status ef__listen(ef__server *server, int *out_fd, ef_error *err);

/*
 * Listens on a Unix socket, mode 0600, and replaces the file of a server that crashed (address.c).
 * EF_EXISTS     a live server listens there, or the file is not a socket
 * EF_BAD_INPUT  the path is longer than the system allows
 */
ef_status ef__socket_open(const char *path, ef__socket *out, ef_error *err);
/* Removes its file. The HTTP library closes the descriptor. */
void ef__socket_remove(const ef__socket *s);

/* The address of the client (address.c): "10.0.0.7", "::1", "unix"; `out` holds the text. */
#define EF__PEER_ADDRESS_MAX 46
ef_str ef__peer_address(const struct ef__request *r, char out[EF__PEER_ADDRESS_MAX]);
/* A hash of the address. */
unsigned ef__peer_hash(struct MHD_Connection *connection);
/* A request that a proxy on this machine forwards is remote. */
ef__peer ef__peer_of(const struct ef__request *r);

/* The open connections (connections.c): in its turn a client must send or receive, otherwise it
 * waits for the server. */
ef_status ef__connections_open(ef__server *server, ef_error *err);
void ef__connections_close(ef__server *server); /* frees the memory, after the last connection */
/* Finds the connections that their clients have closed, if `has_closed`, and closes slow ones. The
 * latter, not if the last check was less than EF__CONNECTIONS_CHECK_MS ago or nothing has happened
 * since then on settled connections. Called in each round of the network thread. */
#define EF__CONNECTIONS_CHECK_MS 500
void ef__connections_check(ef__server *server, bool has_closed);
/* Becomes readable when a client in the server's turn has closed its connection. */
int ef__connections_descriptor(const ef__server *server);
/* Whether no connection needs to be checked until something happens on one. */
bool ef__connections_settled(const ef__server *server);
ef__connection *ef__connection_add(ef__server *server, struct MHD_Connection *connection);
void ef__connection_remove(ef__server *server, ef__connection *c); /* accepts NULL, as the next */
void ef__connection_turn(ef__server *server, ef__connection *c, bool is_clients_turn);

/* The network thread (loop.c); it ends before the daemons are stopped. `local` is the daemon of the
 * Unix socket; NULL: none. */
ef_status ef__loop_start(ef__server *server, struct MHD_Daemon *daemon, struct MHD_Daemon *local,
                         ef_error *err);
void ef__loop_stop(ef__server *server);
/* Wakes the thread after a connection was resumed. From any thread. */
void ef__loop_wake(struct ef__loop *loop);

/* The callback of the library for the certificate (tls.c). */
int ef__tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                     const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                     gnutls_pcert_st **out_certificates, unsigned *out_count,
                     gnutls_privkey_t *out_key);
#define EF__TLS_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* The response of a subscription, which owns its follower; without a body for HEAD (sse.c). */
struct MHD_Response *ef__http_follow(struct ef__request *r);
