/*
 * fresh.h - reads that wait for an append: what they wait for, and when they look again.
 *
 * A token names streams: it is satisfied when their watermarks in the active generation cover it
 * (applied, ignored or skipped). `current`, and a token that is a position, ask for every event up
 * to a position that is not blocked. In the order of the log both ask for the tenant's cursor.
 *
 * Commits of this process wake waiting reads at once. Other processes announce nothing; for their
 * commits one of the waiting reads keeps the time for all. Reads that look at the same moment share
 * what they read, so that many cost little more than one.
 */
#ifndef EF_ENGINE_FRESH_H
#define EF_ENGINE_FRESH_H

#include "route.h"

void ef__fresh_open(ef__fresh *fresh);
void ef__fresh_close(ef__fresh *fresh);
/* Views have changed, by this process. */
void ef__fresh_moved(ef_engine *engine);

/*
 * The route of a name as soon as it is as fresh as asked for, and `whole` where all views are read.
 * Give it back. *out_blocked: blocked streams, if `current` is asked for; otherwise 0.
 * EF_TIMEOUT; EF_BLOCKED: a stream of the token, or the tenant in the order of the log, is blocked
 */
ef_status ef__fresh_route(ef_engine *engine, ef_str name, const ef_str *tenant,
                          const ef_freshness *freshness, bool whole, ef__route **out,
                          int64_t *out_blocked, ef_error *err);

#endif
