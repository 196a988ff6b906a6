/*
 * scope.h - the cursor driver's scopes: who reads for a generation that goes by its cursor.
 *
 * A scope is a projection for one tenant, by the name tenant:projection:partition. One worker at a
 * time reads for all scopes of a generation, under a lease of that name in which the tenant is *
 * and the projection has its generation behind it. The fence in the view store refuses a late one.
 *
 * What is here is how things are going in this process. What must last is in the stores: the
 * cursors, the states, the failures (see tenant.h).
 */
#ifndef EF_ENGINE_SCOPE_H
#define EF_ENGINE_SCOPE_H

#include "apply.h"

#include "../base/limits.h"

/* How far the views of a generation are migrated; see migrate.h. */
typedef struct ef__migrate_place {
    int64_t era; /* of the generation: in another one it is worth nothing */
    bool begun;  /* the view that was looked at last is … */
    size_t tenant_len, id_len;
    char tenant[EF_LIMIT_NAME_BYTES], id[EF_LIMIT_NAME_BYTES];
} ef__migrate_place;

typedef struct ef__scope {
    struct ef__scope *next;
    int64_t generation;
    char name[320];
    char fence[32];
    int64_t token;              /* 0: not held */
    int64_t until_us, renew_us; /* monotonic: the lease counts as gone, is to be renewed */
    int64_t next_try_us;        /* monotonic: somebody else has it until then, or live work */
    bool seen;                  /* in the live set of this tick */
    bool placed;                /* the journal has what the cursor stands at … */
    int64_t comings;            /* … as it was when it had come so often */
    ef__migrate_place place;
} ef__scope;

/* The name of a scope: a blank tenant is called default. The partition is a part of the name, made
 * from tenant and projection, and splits nothing. */
void ef__scope_format(ef_str tenant, ef_str projection, char out[EF__SCOPE_MAX]);

/* The scope of a generation, made if need be. NULL when memory ran out. */
ef__scope *ef__scope_of(ef_engine *engine, const ef__generation *generation);
/*
 * May it be worked on now? Takes or renews its lease when that is due. *out false: not yet, or
 * somebody else has it; `tick` learns when to look again.
 */
ef_status ef__scope_ready(ef_engine *engine, ef__scope *scope, ef_tick *tick, bool *out,
                          ef_error *err);
/*
 * Apply a batch under the lease. `apply` says to what and how; its events and fences are filled in
 * for the call. What it did is added to `tick`, but for whether there is more.
 */
ef_status ef__scope_apply(ef_engine *engine, const ef__scope *scope, const ef_batch *batch,
                          bool skip_first, ef__apply *apply, ef_tick *tick, ef_error *err);
/* What a call made under the lease has answered, for the caller's caller: that another worker has
 * it now, or was quicker, is not a failure. */
ef_status ef__scope_answer(ef_engine *engine, ef__scope *scope, ef_status st, ef_tick *tick);
/* Its views cannot be migrated, as `err` says: it fails, and is tried again when it heals. */
ef_status ef__scope_failed(ef_engine *engine, ef__scope *scope, const ef__generation *generation,
                           ef_tick *tick, ef_error *err);
/* Give back the leases of scopes that are not seen any more, or of all. */
void ef__scopes_prune(ef_engine *engine, bool all);
void ef__scopes_release(ef_engine *engine); /* the memory only */

#endif
