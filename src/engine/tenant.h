/*
 * tenant.h - tenants of a log-ordered projection that have stopped.
 *
 * Normally all tenants share the cursor of the generation. A tenant whose next event fails gets its
 * own cursor, in the commit that moves the generation's cursor past the event, so that the other
 * tenants continue. It is retried from there. When it has caught up, its cursor is removed in the
 * commit in which it reaches the generation's cursor.
 *
 *     with the others ─ stops ─► retrying ─ five retries ─► failed ─ every minute, or resumed ─┐
 *            ▲                      └──────── succeeds ────┐                                   │
 *            └── level with the generation ── catching_up ◄┴───────── succeeds ────────────────┘
 *
 * All of this state is in the view store, so that any worker can continue.
 */
#ifndef EF_ENGINE_TENANT_H
#define EF_ENGINE_TENANT_H

#include "apply.h"

#include "../base/pair_map.h"

/* The changes of a batch to tenants with their own cursor; a part of ef__generation_work. */
typedef struct ef__stopped_tenants {
    const ef__generation *generation;
    ef__arena *arena;
    ef__tenant_cursor_change *items; /* at most one per event; in `arena` */
    size_t count;
    ef__pair_map known; /* size_t, by tenant and "": index in items plus 1; 0: no own cursor */
} ef__stopped_tenants;

#define EF__STOPPED_TENANTS_INIT(of, memory)                                                       \
    {                                                                                              \
        .generation = (of), .arena = (memory), .known = EF__PAIR_MAP_INIT(size_t, SIZE_MAX)        \
    }
void ef__stopped_tenants_release(ef__stopped_tenants *stopped);

/* Has the event's tenant its own cursor? Then the event is counted there and not applied. */
ef_status ef__tenant_is_excluded(ef_engine *engine, ef__apply *apply, ef__stopped_tenants *stopped,
                                 const ef_event *event, bool *out, ef_error *err);
/* The tenant of event number `index` stops before it. `may_skip`: the error policy may skip the
 * event after its last attempt. */
ef_status ef__tenant_stop(ef_engine *engine, ef__apply *apply, ef__stopped_tenants *stopped,
                          size_t index, bool may_skip, ef_error *err);
/* The batch of a tenant with its own cursor succeeded: moves the cursor, or removes it. */
ef_status ef__tenant_advance(ef_engine *engine, ef__apply *apply, ef__stopped_tenants *stopped,
                             ef_error *err);

/* After the commit: sets the next due time in `tick`, and logs tenants that stopped or failed. */
void ef__tenants_report(const ef_engine *engine, const ef__apply *apply, ef_tick *tick);

/* Has it used up its retries? */
bool ef__tenant_has_failed(const ef_engine *engine, const ef__tenant_cursor *cursor);

/* Retries tenants of a generation that are due, a few per call. */
ef_status ef__tenants_step(ef_engine *engine, const ef__live *live, ef_tick *tick, ef_error *err);
/* Makes all failed tenants due now, with no failures counted. EF_CONFLICT: a concurrent change. */
ef_status ef__tenants_resume(ef_engine *engine, const ef__generation *generation, ef_error *err);
/* The scopes of a generation that is fed by its cursor, with their open failures. (scope_list.c) */
ef_status ef__scopes_describe(ef_engine *engine, const ef__generation *generation,
                              const ef__failure_list *failures, int64_t head, ef__arena *arena,
                              ef_projection *out, ef_error *err);
/* Has each tenant the same position in both generations? */
ef_status ef__tenants_are_level(ef_engine *engine, const ef__generation *a, const ef__generation *b,
                                bool *out, ef_error *err);

#endif
