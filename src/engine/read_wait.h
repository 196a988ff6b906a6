/*
 * read_wait.h - reads that wait until an append is applied (read your writes).
 *
 * A read token names streams and seqs: it is satisfied when the watermarks of these streams in the
 * active generation cover it (applied, ignored or skipped). `current`, and a token that is a
 * position, require every event up to a position that is not blocked. In a log-ordered projection
 * both require the cursor of the tenant.
 *
 * Commits of this process wake waiting reads at once. Commits of other processes are not announced:
 * one of the waiting reads polls for all. Reads that check at the same moment share the results of
 * their lookups, so that many cost little more than one.
 */
#ifndef EF_ENGINE_READ_WAIT_H
#define EF_ENGINE_READ_WAIT_H

#include "read_target.h"

void ef__read_waits_open(ef__read_waits *waits);
void ef__read_waits_close(ef__read_waits *waits);
/* This process has changed views. */
void ef__read_waits_wake(ef_engine *engine);

/*
 * Returns the read target of a name once it is as fresh as required; with `all_views`, once its
 * views are migrated too. Release it. *out_blocked: number of blocked streams for `current`, else
 * 0.
 *
 * EF_TIMEOUT
 * EF_BLOCKED  a stream of the token, or the tenant in a log-ordered projection, is blocked
 */
ef_status ef__read_target_wait(ef_engine *engine, ef_str name, const ef_str *tenant,
                               const ef_freshness *freshness, bool all_views, ef__read_target **out,
                               int64_t *out_blocked, ef_error *err);

#endif
