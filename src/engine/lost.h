/*
 * lost.h - events that the views have and the journal has no more.
 *
 * A disk that lied, an older copy put back, a server that took over and lacked the last moments:
 * then the views are ahead of the journal, and what is appended next gets places that they have
 * passed. An event's hash covers all that come before it in the journal. So if the journal has the
 * very event that a watermark stands at, it has everything up to there; if not, what comes is not
 * what was there, and must not be taken for it.
 */
#ifndef EF_ENGINE_LOST_H
#define EF_ENGINE_LOST_H

#include "engine_priv.h"

/* Has the journal the event that the watermark of `event`'s stream stands at? `event` is of the
 * journal, with a seq at or below applied_seq. */
ef_status ef__lost_look(ef_engine *engine, const ef__watermark *mark, const ef_event *event,
                        bool *out_there, ef_error *err);

/*
 * Has the journal what the generation's cursor stands at? What has taken the place of lost events
 * lies below the cursor and would never be read. A few events back from the cursor are looked at;
 * where the generation has none of them yet, because they failed or because their tenants are left
 * behind, it counts as there.
 */
ef_status ef__lost_look_at_cursor(ef_engine *engine, const ef__generation *generation,
                                  bool *out_there, ef_error *err);
/* It is not there: the generation has failed, and says so. Nothing moves it but a rebuild, or the
 * right journal. */
ef_status ef__lost_stop(ef_engine *engine, const ef__generation *generation, ef_error *err);

#endif
