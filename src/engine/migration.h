/*
 * migration.h - migrates the views of a generation whose program has a higher schema now.
 *
 *     live ─ new program ─► catching up, migrating ─ page by page ─► catching up ─► live
 *
 * The new program has incremented the era, so no worker writes a view of an older schema any more.
 * The generation's `schema` stays the old one until the last old view is rewritten. Each view
 * stores its schema and is rewritten once, in a commit that compares its digest: a crash leaves no
 * view half migrated, and the next worker scans the views from the start. No event is folded before
 * all views are migrated. Meanwhile a single view is migrated in memory when it is read; queries
 * wait or are refused.
 */
#ifndef EF_ENGINE_MIGRATION_H
#define EF_ENGINE_MIGRATION_H

#include "scope.h"

/* May it have views of an older schema than its program's? A live one has none. */
bool ef__live_migrates(const ef__live *live);
/* The same without a compiled program. */
ef_status ef__generation_migrates(ef_engine *engine, const ef__generation *generation, bool *out,
                                  ef_error *err);
/* EF_BUSY: its views are being migrated, and queries over all views are refused until then. */
ef_status ef__generation_check_migrated(ef_engine *engine, const ef__generation *generation,
                                        ef_error *err);

/* Returns a view in the schema of the generation's program, migrated in `arena` if it is older. */
ef_status ef__view_migrate(ef_engine *engine, const ef__generation *generation, ef__arena *arena,
                           ef__view *view, ef_error *err);

/* Migrates all views of a generation in memory and writes nothing. EF_BAD_INPUT names the first
 * view that cannot be migrated. */
ef_status ef__migration_dry_run(ef_engine *engine, const ef__generation *generation,
                                const ef__program *program, ef_error *err);
/* Rewrites the next page of old views; after the last, stores the new schema. A view that cannot be
 * migrated sets the generation to failed. */
ef_status ef__migration_step(ef_engine *engine, const ef__live *live, ef__scope *scope,
                             ef_tick *tick, ef_error *err);

#endif
