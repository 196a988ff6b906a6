/*
 * migrate.h - views changed in place: a generation that was given a program of a higher schema.
 *
 *     live ─ new program ─► catching up, migrating ─ page by page ─► catching up ─► live
 *
 * The era has grown with the new program, so nobody writes a view of an older schema any more. The
 * generation's own `schema` stays the old one until the last old view is rewritten. Each view says
 * its schema and is rewritten once, in a commit that compares its digest: a worker that dies leaves
 * nothing half done, and the next one goes through the views from the beginning. No event is folded
 * until they are through. Meanwhile a view that is asked for is migrated in memory, and queries
 * wait or are refused.
 */
#ifndef EF_ENGINE_MIGRATE_H
#define EF_ENGINE_MIGRATE_H

#include "scope.h"

/* May it have views that are older than its program? One that is live has none. */
bool ef__live_migrates(const ef__live *live);
/* The same where the program is not at hand. */
ef_status ef__generation_migrates(ef_engine *engine, const ef__generation *generation, bool *out,
                                  ef_error *err);
/* EF_BUSY: its views are being migrated, and there is no answer yet that speaks of all of them. */
ef_status ef__generation_is_whole(ef_engine *engine, const ef__generation *generation,
                                  ef_error *err);

/* A view of the generation as its program has it: one that is older is migrated, in `arena`. */
ef_status ef__view_migrate(ef_engine *engine, const ef__generation *generation, ef__arena *arena,
                           ef__view *view, ef_error *err);

/* Migrate all views of a generation, and keep nothing: would it go well? EF_BAD_INPUT names the
 * first view that cannot be migrated. */
ef_status ef__migrate_try(ef_engine *engine, const ef__generation *generation,
                          const ef__program *program, ef_error *err);
/* Rewrite the next old views; behind the last, say that all are new. A view that cannot be migrated
 * fails the generation. */
ef_status ef__migrate_step(ef_engine *engine, const ef__live *live, ef__scope *scope, ef_tick *tick,
                           ef_error *err);

#endif
