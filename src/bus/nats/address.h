/*
 * address.h - where the NATS sink publishes to.
 *
 *     nats://HOST[:PORT]/SUBJECT[?creds=FILE]
 *     tls://HOST[:PORT]/SUBJECT[?ca=FILE][&creds=FILE]
 *
 * In the subject {tenant}, {type}, {stream} and {key} stand for the event's. By tls:// the broker
 * has to show a certificate for its host, which the system trusts, or the authority in `ca`.
 */
#ifndef EF_BUS_NATS_ADDRESS_H
#define EF_BUS_NATS_ADDRESS_H

#include "../bus.h"

#include <limits.h>

#define EF__NATS_SUBJECT_MAX 512 /* as it is written in the address */
#define EF__NATS_MADE_MAX 2048   /* and with names in the place of {tenant} and so on */

typedef struct ef__nats_address {
    char server[512]; /* nats://HOST:PORT */
    char host[256];
    char port[8];
    char subject[EF__NATS_SUBJECT_MAX];
    bool tls;
    char ca[PATH_MAX], creds[PATH_MAX]; /* "": none */
} ef__nats_address;

/* EF_BAD_INPUT: it is none, and why. */
ef_status ef__nats_address_take(ef_str url, ef__nats_address *out, ef_error *err);
/* The subject of a message. False: it is too long. */
bool ef__nats_subject(const ef__nats_address *address, const ef__bus_message *message,
                      ef__buf *out);

#endif
