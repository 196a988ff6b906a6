/*
 * scope.h - the cursor driver's scopes: one for each generation that reads the journal by cursor.
 *
 * One worker at a time reads for a scope, under a lease named tenant:projection:partition; the
 * tenant is * because a cursor reads for all of them, and the projection has its generation behind
 * it. The fence in the view store refuses a late one.
 *
 *     starting ─► catching_up ─► live        paused and failed are the generation's own states
 *                     └─ retrying ─► failed ─ a minute later, or resumed ─► catching_up
 *
 * What is here is how things are going in this process. What must last is in the stores: the
 * cursor, the state, the failures.
 */
#ifndef EF_ENGINE_SCOPE_H
#define EF_ENGINE_SCOPE_H

#include "engine_priv.h"

typedef struct ef__scope {
    struct ef__scope *next;
    int64_t generation;
    char name[320];
    char fence[32];
    int64_t token;              /* 0: not held */
    int64_t until_us, renew_us; /* monotonic: the lease counts as gone, is to be renewed */
    int64_t next_try_us;        /* monotonic: nothing is tried before */
    int64_t failures;           /* in a row */
    int64_t skip_position;      /* skip and record: let this one pass; 0: none */
    bool seen;                  /* in the live set of this tick */
} ef__scope;

#define EF__SCOPE_GIVEN_UP 5 /* failures after which the next one gives up again */

/* The scope of a generation, made if need be. NULL when memory ran out. */
ef__scope *ef__scope_of(ef_engine *engine, const ef__generation *generation);
/*
 * May it be worked on now? Takes or renews its lease when that is due. *out false: not yet, or
 * somebody else has it; `tick` learns when to look again.
 */
ef_status ef__scope_ready(ef_engine *engine, ef__scope *scope, ef_tick *tick, bool *out,
                          ef_error *err);
void ef__scope_went_on(ef__scope *scope);
/* It stopped before an event that its program cannot digest: try again later, in the end give up.
 */
ef_status ef__scope_stopped(ef_engine *engine, ef__scope *scope, const ef__generation *generation,
                            int64_t position, ef_tick *tick, ef_error *err);
/* Give back the leases of scopes that are not seen any more, or of all. */
void ef__scopes_prune(ef_engine *engine, bool all);
void ef__scopes_release(ef_engine *engine); /* the memory only */

#endif
