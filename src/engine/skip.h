/*
 * skip.h - events that operators let a projection pass, and that every build of it passes again.
 *
 * An operator skips an exception in a projection's lane (ef_outbox_skip). Before a worker lets a
 * generation pass it, it notes in the journal for which version: "skipped@3". Those notes are the
 * truth. Whatever folds that version anew, a rebuild beside or in place, a verification, a replay
 * or a repair, passes the same events, also where the view store was lost. Another version has
 * another program, and decides for itself.
 */
#ifndef EF_ENGINE_SKIP_H
#define EF_ENGINE_SKIP_H

#include "engine_priv.h"

typedef struct ef__skips ef__skips; /* of one version of a projection; the engine's */

/* The events that this version passes, as the journal knows now: what was noted since the last time
 * is read. NULL in *out: none. */
ef_status ef__skips_read(ef_engine *engine, const ef__generation *generation, ef__skips **out,
                         ef_error *err);
/* Is the event one of them? NULL has none. Any thread. */
bool ef__skips_has(ef_engine *engine, const ef__skips *skips, const ef_event *event);
/* Note that the generation's version passes the event, unless that is known. */
ef_status ef__skips_note(ef_engine *engine, const ef__generation *generation, const ef_event *event,
                         ef_error *err);
void ef__skips_release(ef_engine *engine);

#endif
