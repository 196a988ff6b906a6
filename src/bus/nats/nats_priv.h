/*
 * nats_priv.h - shared by the files of the NATS sink.
 */
#ifndef EF_BUS_NATS_PRIV_H
#define EF_BUS_NATS_PRIV_H

#include "address.h"

#include <nats/nats.h>

#define EF__NATS_REPLY_BYTES (1024u * 1024) /* of an API response: stream names and state */

typedef struct ef__nats_bus {
    ef__bus base; /* first: an ef__bus * is cast to ef__nats_bus * */
    ef__nats_address address;
    natsConnection *connection;
    natsInbox *inbox; /* prefix of the reply inboxes; a number follows */
    natsSubscription *answers;
    uint64_t published;      /* by this connection */
    char stream_name[256];   /* of the subject; "": not yet known */
    bool compared;           /* the stream was compared on this connection */
    char progress_text[384]; /* the result of `progress` */
    uint64_t last_seq;       /* the highest sequence that was acknowledged or read */
    int64_t replicas;        /* of the stream */
    int64_t alone_us;        /* from then on no other writer is assumed; monotonic */
} ef__nats_bus;

/* EF_BUSY: the broker is unavailable. */
ef_status ef__nats_fail(const ef__nats_bus *n, natsStatus status, ef_error *err);
/* Publishes on an open connection. A status other than EF_OK: the results of WAITING messages are
 * unknown, and the connection must be closed. */
ef_status ef__nats_publish(ef__nats_bus *n, const ef__bus_message *messages, size_t count,
                           ef__bus_outcome *outcomes, ef__arena *arena, ef_error *err);

#endif
