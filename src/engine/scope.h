/*
 * scope.h - the scopes of the cursor driver: which worker reads for a generation; and tenants of a
 * log-ordered projection that have stopped.
 *
 * A scope is a projection for one tenant, named tenant:projection:partition. One worker at a time
 * reads for all scopes of a generation, under a lease whose name has * as the tenant and the
 * generation after the projection. A fence in the view store refuses a late worker.
 *
 * A struct ef__scope is state of this process. State that must survive a crash is in the stores:
 * cursors, states, failures.
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
#pragma once

#include "apply.h"

#include "../base/limits.h"
#include "../base/pair_map.h"

/* The progress of a scan of all views of a generation, page by page. */
typedef struct ef__scan_place {
    int64_t era; /* of the generation; migrating the views starts again in another era */
    bool begun;  /* tenant and id are those of the last view that was scanned */
    size_t tenant_len, id_len;
    char tenant[EF_LIMIT_NAME_BYTES], id[EF_LIMIT_NAME_BYTES];
} ef__scan_place;

void ef__scan_place_move(ef__scan_place *place, const ef__view *view);
/* The scan that continues after `place`, which it borrows. */
#define EF__SCAN_FROM(generation_id, place)                                                        \
    ((ef__view_scan){.generation = (generation_id),                                                \
                     .any_tenant = true,                                                           \
                     .index = -1,                                                                  \
                     .has_after = (place)->begun,                                                  \
                     .after_tenant = {(place)->tenant, (place)->tenant_len},                       \
                     .after_id = {(place)->id, (place)->id_len}})

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
    ef__scan_place place;
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
/* The fence of an apply under the lease. */
ef__fence ef__scope_fence(const ef__scope *scope);
/* Adds the results of an apply to `tick`, except for `more`. */
void ef__scope_report(ef_engine *engine, const ef__apply *apply, size_t events, ef_tick *tick);
/* The result of a step under the lease: losing it or a conflict with another is no failure. */
ef_status ef__scope_result(ef_engine *engine, ef__scope *scope, ef_status st, ef_tick *tick);
/* Its views cannot be migrated, for the reason in `err`: the generation fails. */
ef_status ef__scope_failed(ef_engine *engine, ef__scope *scope, const ef__generation *generation,
                           ef_tick *tick, ef_error *err);
/* Releases the leases of scopes that were not seen in this tick, or of all. */
void ef__scopes_prune(ef_engine *engine, bool all);
void ef__scopes_release(ef__cursor_driver *driver); /* the memory only */

/* --- tenants with their own cursor ------------------------------------------------------------ */

/* The changes of a batch to tenants with their own cursor, of one generation (apply.c). */
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

/* Has it used up its retries? */
bool ef__tenant_has_failed(const ef_engine *engine, const ef__tenant_cursor *cursor);

/* Retries tenants of a generation that are due, a few per call. */
ef_status ef__tenants_step(ef_engine *engine, const ef__live *live, ef_tick *tick, ef_error *err);
/* Makes all failed tenants due now, with no failures counted. EF_CONFLICT: a concurrent change. */
ef_status ef__tenants_resume(ef_engine *engine, const ef__generation *generation, ef_error *err);
/* Has each tenant the same position in both generations? */
ef_status ef__tenants_are_level(ef_engine *engine, const ef__generation *a, const ef__generation *b,
                                bool *out, ef_error *err);

/* --- migrating views (migration.c) ------------------------------------------------------------ */

/*
 * The views of a generation whose program has a higher schema now.
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
