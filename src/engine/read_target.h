/*
 * read_target.h - the active generation of a name, and its position for a tenant, cached.
 *
 * A read without freshness requirement may report an older position than the views have: the data
 * is at least as new. So one lookup serves all reads of the next few milliseconds. A change that
 * this engine makes to a projection is visible at once.
 */
#ifndef EF_ENGINE_READ_TARGET_H
#define EF_ENGINE_READ_TARGET_H

#include "engine_priv.h"

typedef struct ef__read_target {
    struct ef__read_target *next; /* in the engine's cache */
    int references;               /* of the engine, and of current reads */
    int64_t read_us;              /* when it was read */
    int64_t changes;              /* engine->changes at that time */
    const ef__generation *generation;
    bool migrates; /* some of its views may have an older schema than its program */
    int64_t as_of;
    struct ef__lag *lag; /* for waiting reads (read_wait.c), under reads_lock; NULL: not read */
    int64_t lag_us;      /* when it was read */
    ef__generation_list list; /* owns the generation */
    bool any_tenant;          /* as_of holds for all tenants */
    size_t tenant_len;
    char tenant[];
} ef__read_target;

/* The read target of a name for a tenant, or NULL for all of them; `fresh`: not from the cache.
 * Release it. EF_NOT_FOUND */
ef_status ef__read_target_acquire(ef_engine *engine, ef_str name, const ef_str *tenant, bool fresh,
                                  ef__read_target **out, ef_error *err);
void ef__read_target_release(ef_engine *engine, ef__read_target *target); /* NULL is fine */
/* This engine changed something: cached targets are not used again. */
void ef__read_targets_invalidate(ef_engine *engine);
void ef__read_targets_release(ef_engine *engine);

#endif
