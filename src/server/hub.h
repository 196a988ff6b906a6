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

#include "follower.h"

/*
 * Follow from `after` on; in a topic of events its number is the position. `first` is sent before
 * anything else; "" is nothing. It ends when `who` would not be let in any more. The follower is
 * the request's, which leaves by ef__follower_leave.
 */
ef_status ef__hub_join(ef__server *server, const ef__topic_key *key, const ef_view_place *after,
                       ef_str first, const ef__principal *who, ef__follower **out, ef_error *err);

/* The frame that says: read the views now, every later change follows. */
void ef__frame_reset(ef__buf *out, ef_str projection, const ef_view_place *place,
                     const ef_view_change_list *list);

#endif
