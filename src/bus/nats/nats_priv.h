/*
 * nats_priv.h - shared by the files of the NATS sink.
 */
#pragma once

#include "../bus.h"

#include <limits.h>
#include <nats/nats.h>

#define EF__NATS_SUBJECT_MAX 512 /* bytes of the subject in the address */
#define EF__NATS_MADE_MAX 2048   /* bytes of a subject with the names of an event, escaped */
#define EF__NATS_REPLY_BYTES (1024u * 1024) /* of an API response: stream names and state */

/*
 * The address that the sink publishes to:
 *
 *     nats://HOST[:PORT]/SUBJECT[?creds=FILE]
 *     tls://HOST[:PORT]/SUBJECT[?ca=FILE][&creds=FILE]
 *
 * {tenant}, {type}, {stream} and {key} in the subject stand for those of the event. With tls:// the
 * broker needs a certificate for its host, issued by an authority of the system or in `ca`.
 */
typedef struct ef__nats_address {
    char server[512]; /* nats://HOST:PORT */
    char host[256];
    char port[8];
    char subject[EF__NATS_SUBJECT_MAX];
    bool tls;
    char ca[PATH_MAX], creds[PATH_MAX]; /* "": none */
} ef__nats_address;

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

/* The subject of a message. False: too long. */
bool ef__nats_subject(const ef__nats_address *address, const ef__bus_message *message,
                      ef__buf *out);
/* EF_BUSY: the broker is unavailable. */
ef_status ef__nats_fail(const ef__nats_bus *n, natsStatus status, ef_error *err);
/* Publishes on an open connection. A status other than EF_OK: the results of WAITING messages are
 * unknown, and the connection must be closed. */
ef_status ef__nats_publish(ef__nats_bus *n, const ef__bus_message *messages, size_t count,
                           ef__bus_outcome *outcomes, ef__arena *arena, ef_error *err);
