/*
 * upgrade.h - fills in state that a view store of an earlier version lacks.
 */
#ifndef EF_ENGINE_UPGRADE_H
#define EF_ENGINE_UPGRADE_H

#include "engine_priv.h"

/* Does nothing if the store has no generation of an earlier version. */
ef_status ef__views_upgrade(ef_engine *engine, ef_error *err);

#endif
