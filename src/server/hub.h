/*
 * hub.h - subscriptions: the topics of followers, and their positions.
 *
 * Followers of the same data at the same position share a topic: it is read once, and its frames
 * are sent to all of them. A follower that starts further back has a topic of its own until it has
 * caught up; then the two topics are merged.
 *
 * The data queued for a slow reader is bounded. A follower that exceeds the bound is closed; it
 * reconnects with Last-Event-ID and misses nothing.
 */
#ifndef EF_SERVER_HUB_H
#define EF_SERVER_HUB_H

#include "follower.h"

/*
 * Follows from `after` on; in a topic of events its number is the position. `first` is sent before
 * anything else; "": nothing. The subscription ends when the token of `who` is no longer valid. The
 * request owns the follower and releases it with ef__follower_leave.
 */
ef_status ef__hub_join(ef__server *server, const ef__topic_key *key, const ef_view_place *after,
                       ef_str first, const ef__principal *who, ef__follower **out, ef_error *err);

/* The frame `reset`: the client must read the views again; every later change follows. */
void ef__frame_reset(ef__buf *out, ef_str projection, const ef_view_place *place,
                     const ef_view_change_list *list);

#endif
