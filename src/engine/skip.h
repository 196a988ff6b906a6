/*
 * skip.h - events that operators let a version of a projection pass, in every build of it.
 *
 * A skip is an entry in the journal: (projection, version, tenant, stream, seq), written in the
 * transaction of the operator's action. It holds for the versions that were blocked at exactly this
 * event when the operator acted, and for no other. Whatever folds such a version from scratch, a
 * rebuild beside or in place, a verification, a replay or a repair, passes the same events, also
 * where the view store was lost. Another version has another program, and decides for itself.
 */
#ifndef EF_ENGINE_SKIP_H
#define EF_ENGINE_SKIP_H

#include "engine_priv.h"

typedef struct ef__skips ef__skips; /* of one version of a projection; the engine's */

/* The events that this version passes, as the journal knows now: entries that were added since the
 * last time are read. NULL in *out: none. */
ef_status ef__skips_read(ef_engine *engine, const ef__generation *generation, ef__skips **out,
                         ef_error *err);
/* Is the event one of them? NULL has none. Any thread. */
bool ef__skips_has(ef_engine *engine, const ef__skips *skips, const ef_event *event);
/* Add that the generation's version passes the event, unless that is known: a projection in the
 * order of the log has no row that an operator could skip. */
ef_status ef__skips_add(ef_engine *engine, const ef__generation *generation, const ef_event *event,
                        ef_str reason, ef_error *err);
void ef__skips_release(ef_engine *engine);

/*
 * The versions of a row's projection that are blocked at exactly its event: in the arena. A version
 * is blocked if a generation of it that keeps rows has everything before the event and has failed
 * on it, and no generation of it has the event. A generation that is catching up is never blocked.
 */
ef_status ef__versions_blocked(ef_engine *engine, const ef__generation_list *list,
                               const ef_row *row, ef__arena *arena, const int32_t **out,
                               size_t *out_count, ef_error *err);

#endif
