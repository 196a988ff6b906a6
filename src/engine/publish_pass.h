/*
 * publish_pass.h - rows of a publisher's lane on their way to its sink: what is due again, and what
 * is queued.
 */
#ifndef EF_ENGINE_PUBLISH_PASS_H
#define EF_ENGINE_PUBLISH_PASS_H

#include "publish.h"

/* Exceptions that are due, up to a limit. */
ef_status ef__publish_due(ef__publishing *p, ef_holding *held, size_t held_count, ef_tick *tick,
                          ef_error *err);
/* A batch of what is queued; where the sink overlaps and all goes well, for a second one behind the
 * other. `usual` rows at first. Nothing stays in hand behind this that was delivered. */
ef_status ef__publish_queued(ef__publishing *p, ef_holding *held, size_t held_count, size_t usual,
                             ef_tick *tick, ef_error *err);

#endif
