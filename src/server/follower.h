/*
 * follower.h - one subscription: what waits to be sent to it.
 *
 * The hub gives it chunks, which several followers share; the network reads them. What waits for a
 * slow reader is bounded. One that lets more pile up ends; it comes back with Last-Event-ID and
 * misses nothing.
 */
#ifndef EF_SERVER_FOLLOWER_H
#define EF_SERVER_FOLLOWER_H

#include "request.h"

#include <everfold/view.h>

#define EF__FOLLOWER_BYTES_MAX (1u << 20) /* that wait for one follower */

typedef enum ef__topic_kind { EF__TOPIC_EVENTS, EF__TOPIC_VIEWS } ef__topic_kind;

typedef struct ef__topic_key {
    ef__topic_kind kind;
    char tenant[256];
    char name[256]; /* the projection, or a pattern of types */
    char id[256];   /* one view; "" all */
} ef__topic_key;

/* What several followers are sent, once. */
typedef struct ef__chunk ef__chunk;

ef__chunk *ef__chunk_of(ef_str text); /* NULL: memory ran out, or there is no text */
void ef__chunk_drop(ef__chunk *chunk);
int64_t ef__chunk_bytes(void); /* of all chunks */

typedef struct ef__follower ef__follower;

/* Of the network: how its connection is parked while nothing waits, and woken. */
typedef struct ef__follower_reader {
    ef__server *server;
    void *connection;
    void (*park)(void *connection);
    void (*wake)(ef__server *server, void *connection);
} ef__follower_reader;

struct ef__follower {
    /* The hub's. */
    ef__follower *next;                  /* in its topic, or among those who are new */
    ef__follower *next_all, *before_all; /* of all that the hub has */
    ef__topic_key key;
    ef_view_place after; /* in a topic of events the number is a position */
    ef__principal who;
    /* Seen by follower.c only. */
    int64_t users;        /* atomic: the hub, and the request */
    pthread_mutex_t lock; /* of what follows */
    struct ef__chunk_link *first, *last;
    size_t read;     /* of the first chunk */
    size_t pending;  /* bytes that wait */
    int64_t took_us; /* when it last took something, or began to have something to take */
    bool gone;       /* the reader has left */
    bool over;       /* nothing more comes */
    bool parked;
    ef__follower_reader reader;
};

/* Two have it: the hub, and the request. NULL: memory ran out. */
ef__follower *ef__follower_make(const ef__topic_key *key, const ef_view_place *after,
                                const ef__principal *who);
void ef__follower_drop(ef__follower *follower); /* one of them is done with it */

/* Hand it a chunk. False: it is gone, or too slow, and the hub lets it go. */
bool ef__follower_give(ef__follower *follower, ef__chunk *chunk, int64_t now_us);
/* Does a good deal wait for it, and does it get on with that? */
bool ef__follower_is_taking(ef__follower *follower, int64_t now_us);
/* Much waits for it, and it takes none of it. */
bool ef__follower_stalls(ef__follower *follower, int64_t now_us);
void ef__follower_end(ef__follower *follower); /* nothing more comes */

void ef__follower_attach(ef__follower *follower, const ef__follower_reader *reader);
/* Copy up to `max` bytes; 0: none just now, and the reader is parked; -1: it is over. */
int64_t ef__follower_read(ef__follower *follower, char *out, size_t max);
void ef__follower_leave(ef__follower *follower); /* NULL is fine */

#endif
