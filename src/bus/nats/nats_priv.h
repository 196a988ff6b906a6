/*
 * nats_priv.h - the NATS sink, as its own files see it.
 */
#ifndef EF_BUS_NATS_PRIV_H
#define EF_BUS_NATS_PRIV_H

#include "address.h"

#include <nats/nats.h>

#define EF__NATS_REPLY_BYTES (1024u * 1024)

typedef struct ef__nats_bus {
    ef__bus base; /* first, so that an ef__bus * is this */
    ef__nats_address address;
    natsConnection *connection;
    natsInbox *inbox; /* what messages are answered to is this and a number behind it */
    natsSubscription *answers;
    uint64_t published;    /* by this connection */
    char stream_name[256]; /* that takes the subject; "" until it is known */
    bool compared;         /* it was, by this connection */
    char said[384];        /* progress */
    uint64_t last_seq;     /* the highest that was acknowledged or seen */
    int64_t replicas;      /* of the stream */
    int64_t alone_us;      /* from then on nobody else is thought to write to it; monotonic */
} ef__nats_bus;

/* The broker is not at hand. */
ef_status ef__nats_fail(const ef__nats_bus *n, natsStatus status, ef_error *err);
/* Publish by a connection that is ready. Anything but EF_OK: nobody can say what became of what is
 * still WAITING, and the connection is of no more use. */
ef_status ef__nats_publish(ef__nats_bus *n, const ef__bus_message *messages, size_t count,
                           ef__bus_outcome *outcomes, ef__arena *arena, ef_error *err);

#endif
