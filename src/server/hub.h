/*
 * hub.h - subscriptions: the topics of followers, and their positions.
 *
 * Followers of the same data at the same position share a topic: it is read once, and its frames
 * are sent to all of them. A follower that starts further back has a topic of its own until it has
 * caught up; then the two topics are merged.
 *
 * A follower is one subscription. The hub queues chunks for it, which several followers share; the
 * network thread reads them. The data queued for a slow reader is bounded. A follower that exceeds
 * the bound is closed; its client reconnects with Last-Event-ID and misses nothing.
 */
#pragma once

#include "request.h"

#include <everfold/view.h>

#define EF__FOLLOWER_BYTES_MAX (1u << 20) /* queued for one follower */

typedef enum ef__topic_kind { EF__TOPIC_EVENTS, EF__TOPIC_VIEWS } ef__topic_kind;

typedef struct ef__topic_key {
    ef__topic_kind kind;
    char tenant[256];
    char name[256]; /* the projection, or a pattern of types */
    char id[256];   /* one view; "" all */
} ef__topic_key;

/* Data for several followers, stored once, with a reference count. */
typedef struct ef__chunk ef__chunk;

ef__chunk *ef__chunk_of(ef_str text); /* NULL: memory ran out, or the text is empty */
void ef__chunk_drop(ef__chunk *chunk);
int64_t ef__chunk_bytes(void); /* of all chunks */

typedef struct ef__follower ef__follower;

struct ef__follower {
    /* Owned by the hub. */
    ef__follower *next;                  /* in its topic, or in the list of new followers */
    ef__follower *next_all, *before_all; /* in the list of all followers */
    ef__topic_key key;
    ef_view_place after; /* in a topic of events the number is a position */
    ef__principal who;
    /* Private to follower.c. */
    int64_t users;        /* atomic reference count: the hub and the request */
    pthread_mutex_t lock; /* guards the members below */
    struct ef__chunk_link *first, *last;
    size_t read;     /* bytes read of the first chunk */
    size_t pending;  /* queued bytes */
    int64_t took_us; /* time of the last read, or since when data is queued */
    bool has_left;   /* the client has disconnected */
    bool over;       /* ended: nothing more is queued */
    bool parked;     /* the connection is suspended, because nothing is queued */
    ef__server *server;
    void *connection; /* of the network; NULL: not attached yet */
};

/* With two references: of the hub and of the request. NULL: memory ran out. */
ef__follower *ef__follower_make(const ef__topic_key *key, const ef_view_place *after,
                                const ef__principal *who);
void ef__follower_drop(ef__follower *follower); /* releases one reference */

/* Queues a chunk. False: the client has disconnected or is too slow; the hub must release it. */
bool ef__follower_give(ef__follower *follower, ef__chunk *chunk, int64_t now_us);
/* Much data is queued, and the client reads it. */
bool ef__follower_is_reading(ef__follower *follower, int64_t now_us);
/* Much data is queued, and the client does not read it. */
bool ef__follower_is_stalled(ef__follower *follower, int64_t now_us);
void ef__follower_end(ef__follower *follower); /* nothing more is queued */

void ef__follower_attach(ef__follower *follower, ef__server *server, void *connection);
/* Copies up to `max` bytes. 0: nothing is queued, the connection is suspended; -1: it has ended. */
int64_t ef__follower_read(ef__follower *follower, char *out, size_t max);
void ef__follower_leave(ef__follower *follower); /* accepts NULL */

/* --- the hub ---------------------------------------------------------------------------------- */

/*
 * Follows from `after` on; in a topic of events its number is the position. `first` is sent before
 * anything else; "": nothing. The subscription ends when the token of the request is no longer
 * valid. The request owns the follower and releases it with ef__follower_leave.
 */
ef_status ef__hub_join(ef__request *r, const ef__topic_key *key, const ef_view_place *after,
                       ef_str first, ef_error *err);

/* The frame `reset`: the client must read the views again; every later change follows. */
void ef__frame_reset(ef__buf *out, ef_str projection, const ef_view_place *place,
                     const ef_view_change_list *list);
