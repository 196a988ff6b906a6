/*
 * tenant.h - the tenants of a projection in the order of the log.
 *
 * A cursor is per projection and tenant. As long as all goes well they all stand where the
 * generation's cursor stands, and that is all there is. A tenant with an event that the program
 * cannot digest is left behind, by the very commit that moves the generation's cursor past it, with
 * a cursor of its own: the others go on. It is tried again from there; when it has come up, its
 * cursor goes in the commit in which the two are level.
 *
 *     with the others ─ stops ─► retrying ─ five retries ─► failed ─ every minute, or resumed ─┐
 *            ▲                      └──────────── passes ──┐                                   │
 *            └── level with the generation ── catching_up ◄┴─────────── passes ────────────────┘
 *
 * All of it is in the view store. A worker knows nothing that another would miss.
 */
#ifndef EF_ENGINE_TENANT_H
#define EF_ENGINE_TENANT_H

#include "apply.h"

#include "../base/pair_map.h"

/* What a batch does to the tenants that are left behind: a part of the work on a generation. */
typedef struct ef__left_behind {
    ef__tenant_cursor_change *items; /* as many as events at most; in the apply's arena */
    size_t count;
    ef__pair_map known; /* size_t, by tenant and "": the place in items plus 1, 0 for the others */
} ef__left_behind;

#define EF__LEFT_BEHIND_INIT                                                                       \
    {                                                                                              \
        .known = EF__PAIR_MAP_INIT(size_t, SIZE_MAX)                                               \
    }
void ef__left_behind_release(ef__left_behind *left);

/* Is this event to be left out, for its tenant goes by a cursor of its own? Then it is counted. */
ef_status ef__tenant_leaves_out(ef_engine *engine, ef__apply *apply, ef__left_behind *left,
                                const ef_event *event, bool *out, ef_error *err);
/* The tenant of event number `index` stops before it. `may_pass`: after its last try it may be let
 * pass, if that is the projection's policy. */
ef_status ef__tenant_stops(ef_engine *engine, ef__apply *apply, ef__left_behind *left, size_t index,
                           bool may_pass, ef_error *err);
/* The batch of a tenant with a cursor of its own went well. */
ef_status ef__tenant_went_on(ef_engine *engine, ef__apply *apply, ef__left_behind *left,
                             ef_error *err);

/* After the commit: `tick` learns when to look again, and the log who was left behind or failed. */
void ef__tenants_settled(const ef_engine *engine, const ef__apply *apply, ef_tick *tick);

/* It has used up its retries. */
bool ef__tenant_has_failed(const ef_engine *engine, const ef__tenant_cursor *cursor);

/* Try those tenants of a generation that are due, a few at a time. */
ef_status ef__tenants_step(ef_engine *engine, const ef__live *live, ef_tick *tick, ef_error *err);
/* All that fail are due now and begin to count anew. EF_CONFLICT: look again. */
ef_status ef__tenants_resume(ef_engine *engine, const ef__generation *generation, ef_error *err);
/* The scopes of a generation that goes by a cursor, with what is open among its failures.
 * (scope_list.c) */
ef_status ef__scopes_describe(ef_engine *engine, const ef__generation *generation,
                              const ef__failure_list *failures, int64_t head, ef__arena *arena,
                              ef_projection *out, ef_error *err);
/* Does each tenant stand in the same place in both? */
ef_status ef__tenants_even(ef_engine *engine, const ef__generation *a, const ef__generation *b,
                           bool *out, ef_error *err);

#endif
