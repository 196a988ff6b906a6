/*
 * http_priv.h - what http.c shares with the files beside it that talk to the HTTP library.
 */
#ifndef EF_SERVER_HTTP_PRIV_H
#define EF_SERVER_HTTP_PRIV_H

#include "server_priv.h"

#include <microhttpd.h>

#define EF__HTTP_HEAD_BYTES 32768 /* of a request line and its headers */

/* A socket that listens where the options say (listen.c). Fills in host, loopback and url. */
ef_status ef__listen(ef__server *server, int *out_fd, ef_error *err);

/* The answer of a subscription (sse.c). */
struct ef__follower;
struct MHD_Response *ef__http_follow(struct ef__follower *follower, struct MHD_Connection *c);

#endif
