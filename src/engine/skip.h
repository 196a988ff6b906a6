/*
 * skip.h - events that operators skipped for a version of a projection.
 *
 * A skip is an entry in the journal, (projection, version, tenant, stream, seq), written in the
 * transaction of the operator's action. It holds for the versions that were blocked at exactly this
 * event at that time, and for no other. Every later build of such a version (rebuild, verification,
 * replay, repair) skips the same events, even if the view store was lost. Another version has
 * another program and may apply the event.
 */
#ifndef EF_ENGINE_SKIP_H
#define EF_ENGINE_SKIP_H

#include "engine_priv.h"

typedef struct ef__skips ef__skips; /* of one version of a projection; owned by the engine */

/* The events that this version skips; reads the entries that were added since the last call. NULL
 * in *out: none. */
ef_status ef__skips_read(ef_engine *engine, const ef__generation *generation, ef__skips **out,
                         ef_error *err);
/* Is the event skipped? NULL has none. Thread-safe. */
bool ef__skips_has(ef_engine *engine, const ef__skips *skips, const ef_event *event);
/* Records that the generation's version skips the event, unless that is recorded: a log-ordered
 * projection has no row that an operator could skip. */
ef_status ef__skips_add(ef_engine *engine, const ef__generation *generation, const ef_event *event,
                        ef_str reason, ef_error *err);
void ef__skips_release(ef_engine *engine);

#endif
