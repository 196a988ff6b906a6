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
    bool begun;       /* bytes of the body have come */
    const char *body; /* in the library's buffer, where the body begins; NULL: not known */
} ef__framing;

/* Refuses a request that a proxy may read differently. Reads all headers: ef__request_header is of
 * use from here on. */
ef_status ef__framing_check(struct ef__request *r, const char *version, ef__framing *out,
                            ef_error *err);
/* Bytes of the body came. False: the empty line, or the line of the chunk in front of them, does
 * not end in CR LF. */
bool ef__framing_body(ef__framing *framing, const char *data);

/* A socket that listens where the options say (listen.c). Fills in host, loopback and url. */
ef_status ef__listen(ef__server *server, int *out_fd, ef_error *err);

/* Where a request comes from (peer.c): "10.0.0.7", "::1", "unix"; `room` holds the text. */
#define EF__PEER_ADDRESS_MAX 46
ef_str ef__peer_address(const struct ef__request *r, char room[EF__PEER_ADDRESS_MAX]);
/* The same number for the same address. */
unsigned ef__peer_hash(struct MHD_Connection *connection);
/* From this machine, and not forwarded by a proxy on it. */
bool ef__peer_is_local(const struct ef__request *r);

/* The thread that runs the library (loop.c); it ends before the daemon is stopped. */
ef_status ef__loop_start(ef__server *server, struct MHD_Daemon *daemon, ef_error *err);
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
