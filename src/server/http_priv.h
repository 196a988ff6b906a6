/*
 * http_priv.h - what http.c shares with the files beside it that talk to the HTTP library.
 */
#ifndef EF_SERVER_HTTP_PRIV_H
#define EF_SERVER_HTTP_PRIV_H

#include "server_priv.h"

#include <gnutls/abstract.h>
#include <microhttpd.h>

#define EF__HTTP_HEAD_BYTES                                                                        \
    16384 /* of a request line and its headers; the library clears it for each */

/* Where a request ends (framing.c). */
typedef struct ef__framing {
    bool chunked;
    const char *body; /* in the library's buffer, where the body begins; NULL: not known */
} ef__framing;

/* Refuses a request that a proxy may read differently. Reads all headers: ef__request_header is of
 * use from here on. */
ef_status ef__framing_check(struct ef__request *r, const char *method, const char *version,
                            ef__framing *out, ef_error *err);
/* Bytes of the body came. False: the line of the chunk in front of them does not end in CR LF. */
bool ef__framing_body(const ef__framing *framing, const char *data);

/* A socket that listens where the options say (listen.c). Fills in host, loopback and url. */
ef_status ef__listen(ef__server *server, int *out_fd, ef_error *err);

/*
 * Listens on a Unix socket, mode 0600, and replaces the file of a server that has died (socket.c).
 * EF_EXISTS     a live server listens there, or the file is no socket
 * EF_BAD_INPUT  the path is longer than the system allows
 */
ef_status ef__socket_open(const char *path, ef__socket *out, ef_error *err);
/* Removes its file. The descriptor is the HTTP library's. */
void ef__socket_remove(const ef__socket *s);

/* Where a request comes from (peer.c): "10.0.0.7", "::1", "unix"; `room` holds the text. */
#define EF__PEER_ADDRESS_MAX 46
ef_str ef__peer_address(const struct ef__request *r, char room[EF__PEER_ADDRESS_MAX]);
/* The same number for the same address. */
unsigned ef__peer_hash(struct MHD_Connection *connection);
/* A request that a proxy on this machine forwards comes from elsewhere. */
ef__peer ef__peer_of(const struct ef__request *r);

/* The connections there are (connections.c). A client has its turn to send or to take something, or
 * waits for us. */
ef_status ef__connections_start(ef__server *server, ef_error *err);
void ef__connections_stop(ef__server *server);  /* its thread … */
void ef__connections_close(ef__server *server); /* … and its memory, when there is none any more */
ef__connection *ef__connection_add(ef__server *server, struct MHD_Connection *connection);
void ef__connection_remove(ef__server *server, ef__connection *c); /* NULL is fine, as below */
void ef__connection_turn(ef__server *server, ef__connection *c, bool theirs);

/* The thread that runs the library (loop.c); it ends before the daemons are stopped. `local` is
 * that of the Unix socket; NULL: none. */
ef_status ef__loop_start(ef__server *server, struct MHD_Daemon *daemon, struct MHD_Daemon *local,
                         ef_error *err);
void ef__loop_stop(ef__server *server);
/* A connection was resumed: it is looked at. From any thread. */
void ef__loop_wake(struct ef__loop *loop);

/* What the library asks for the certificate (tls.c). */
int ef__tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                     const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                     gnutls_pcert_st **out_certificates, unsigned *out_count,
                     gnutls_privkey_t *out_key);
#define EF__TLS_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* The answer of a subscription (sse.c). */
struct ef__follower;
struct MHD_Response *ef__http_follow(struct ef__follower *follower, ef__server *server,
                                     struct MHD_Connection *c);
/* The same without a body, for HEAD. The follower leaves. */
struct MHD_Response *ef__http_follow_head(struct ef__follower *follower);

#endif
