/*
 * scope.h - the scopes of the cursor driver: which worker reads for a generation.
 *
 * A scope is a projection for one tenant, named tenant:projection:partition. One worker at a time
 * reads for all scopes of a generation, under a lease whose name has * as the tenant and the
 * generation after the projection. A fence in the view store refuses a late worker.
 *
 * A struct ef__scope is state of this process. State that must survive a crash is in the stores:
 * cursors, states, failures (see tenant.h).
 */
#ifndef EF_ENGINE_SCOPE_H
#define EF_ENGINE_SCOPE_H

#include "apply.h"

#include "../base/limits.h"

/* The progress of migrating the views of a generation; see migration.h. */
typedef struct ef__migration_cursor {
    int64_t era; /* of the generation; the cursor is invalid in another era */
    bool begun;  /* tenant and id are those of the last view that was checked */
    size_t tenant_len, id_len;
    char tenant[EF_LIMIT_NAME_BYTES], id[EF_LIMIT_NAME_BYTES];
} ef__migration_cursor;

typedef struct ef__scope {
    struct ef__scope *next;
    int64_t generation;
    char name[320];
    char fence[32];
    int64_t token;              /* 0: not held */
    int64_t until_us, renew_us; /* monotonic: end of the lease, time of its renewal */
    int64_t next_try_us;        /* monotonic: another worker holds it until then, or a pause */
    bool seen;                  /* in the list of generations of this tick */
    bool placed;                /* the journal has the events before the cursor … */
    int64_t epoch;              /* … as of this connection epoch */
    ef__migration_cursor place;
} ef__scope;

/* The name of a scope; the tenant "" is written as default. The partition in the name is computed
 * from tenant and projection and divides nothing. */
void ef__scope_format(ef_str tenant, ef_str projection, char out[EF__SCOPE_MAX]);

/* The scope of a generation, created on first use. NULL: memory ran out. */
ef__scope *ef__scope_of(ef_engine *engine, const ef__generation *generation);
/*
 * Acquires the lease of a scope, or renews it when that is due. *out false: another worker holds
 * it, or the scope pauses; `tick` gets the time of the next try.
 */
ef_status ef__scope_ready(ef_engine *engine, ef__scope *scope, ef_tick *tick, bool *out,
                          ef_error *err);
/*
 * Applies a batch under the lease. `apply` has the generation and the options; its events and
 * fences are set for the call. Results are added to `tick`, except for `more`.
 */
ef_status ef__scope_apply(ef_engine *engine, const ef__scope *scope, const ef_batch *batch,
                          bool skip_first, ef__apply *apply, ef_tick *tick, ef_error *err);
/* The result of a step under the lease: a lost lease or a conflict with another worker is not a
 * failure. */
ef_status ef__scope_result(ef_engine *engine, ef__scope *scope, ef_status st, ef_tick *tick);
/* Its views cannot be migrated, for the reason in `err`: the generation fails. */
ef_status ef__scope_failed(ef_engine *engine, ef__scope *scope, const ef__generation *generation,
                           ef_tick *tick, ef_error *err);
/* Releases the leases of scopes that were not seen in this tick, or of all. */
void ef__scopes_prune(ef_engine *engine, bool all);
void ef__scopes_release(ef__cursor_driver *driver); /* the memory only */

#endif
