/*
 * hub.h - subscriptions: who follows what, and how far.
 *
 * Followers that want the same and are at the same position share a topic: it is read once, and
 * what it gives is handed to all of them. One that begins further back has a topic of its own until
 * it has caught up; then the two become one.
 *
 * What waits for a slow reader is bounded. One that lets more pile up is let go; it comes back with
 * Last-Event-ID and misses nothing.
 */
#ifndef EF_SERVER_HUB_H
#define EF_SERVER_HUB_H

#include "request.h"

#include <everfold/view.h>

typedef enum ef__topic_kind { EF__TOPIC_EVENTS, EF__TOPIC_VIEWS } ef__topic_kind;

typedef struct ef__topic_key {
    ef__topic_kind kind;
    char tenant[256];
    char name[256]; /* the projection, or a pattern of types */
    char id[256];   /* one view; "" all */
} ef__topic_key;

typedef struct ef__follower ef__follower;

/* Follow from `after` on; nothing waits there in a topic of events. It ends when
 * `who` would not be let in any more. The follower is the request's;
 * it leaves by ef__follower_leave. */
ef_status ef__hub_join(ef__server *server, const ef__topic_key *key, const ef_view_place *after,
                       const ef__principal *who, ef__follower **out, ef_error *err);

/* For the network: copy up to `max` bytes; 0: none just now, and whoever reads is parked, to be
 * woken by `wake`; -1: it is over. */
typedef struct ef__follower_reader {
    ef__server *server;
    void *connection;
    void (*park)(void *connection);
    void (*wake)(ef__server *server, void *connection);
} ef__follower_reader;

void ef__follower_attach(ef__follower *follower, const ef__follower_reader *reader);
int64_t ef__follower_read(ef__follower *follower, char *out, size_t max);
void ef__follower_leave(ef__follower *follower); /* NULL is fine */

#endif
