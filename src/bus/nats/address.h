/*
 * address.h - the address that the NATS sink publishes to.
 *
 *     nats://HOST[:PORT]/SUBJECT[?creds=FILE]
 *     tls://HOST[:PORT]/SUBJECT[?ca=FILE][&creds=FILE]
 *
 * {tenant}, {type}, {stream} and {key} in the subject stand for those of the event. With tls:// the
 * broker needs a certificate for its host, issued by an authority of the system or in `ca`.
 */
#ifndef EF_BUS_NATS_ADDRESS_H
#define EF_BUS_NATS_ADDRESS_H

#include "../bus.h"

#include <limits.h>

#define EF__NATS_SUBJECT_MAX 512 /* bytes of the subject in the address */
#define EF__NATS_MADE_MAX 2048   /* bytes of a subject with the names of an event, escaped */

typedef struct ef__nats_address {
    char server[512]; /* nats://HOST:PORT */
    char host[256];
    char port[8];
    char subject[EF__NATS_SUBJECT_MAX];
    bool tls;
    char ca[PATH_MAX], creds[PATH_MAX]; /* "": none */
} ef__nats_address;

/* EF_BAD_INPUT: invalid; the message has the reason. */
ef_status ef__nats_address_parse(ef_str url, ef__nats_address *out, ef_error *err);
/* The subject of a message. False: too long. */
bool ef__nats_subject(const ef__nats_address *address, const ef__bus_message *message,
                      ef__buf *out);

#endif
