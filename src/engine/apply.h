/*
 * apply.h - the one function that applies events, for all drivers.
 *
 * Programs are pure, so a batch is folded in memory first and written once: the views that it
 * touches are read, each event is folded in order, and one transaction of the view store writes
 * views, index entries, digest, watermarks and cursor, after it has compared fence, live set,
 * generation, watermarks and view digests with what was read. Of two workers with the same events
 * the second one finds another watermark, starts over, and then drops the events as duplicates. A
 * crash before the commit leaves nothing; after a crash past the commit the events are claimed
 * again, and the watermarks drop them.
 */
#ifndef EF_ENGINE_APPLY_H
#define EF_ENGINE_APPLY_H

#include "engine_priv.h"

#include "../fold/match.h"

typedef enum ef__verdict {
    EF__VERDICT_APPLIED,
    EF__VERDICT_IGNORED,   /* no handler, or a type that is not folded; moves the watermark too */
    EF__VERDICT_SKIPPED,   /* skipped by an operator; moves the watermark too */
    EF__VERDICT_DUPLICATE, /* applied before */
    EF__VERDICT_EXCLUDED,  /* its tenant has its own cursor */
    EF__VERDICT_FAILED,    /* the program failed on it: none of its changes is written */
    EF__VERDICT_DEFERRED   /* an earlier event of its stream has to be applied first */
} ef__verdict;

typedef struct ef__apply_event {
    const ef_event *event;
    bool skip;
} ef__apply_event;

typedef struct ef__apply_result {
    ef__verdict verdict;
    ef_str message; /* FAILED, DEFERRED: the reason; valid until the apply is released */
} ef__apply_result;

typedef struct ef__apply {
    const ef__live *generations;
    size_t generation_count;
    const ef__apply_event *events; /* in order of position */
    size_t event_count;
    const ef__fence *fences;
    size_t fence_count;
    int64_t live_set; /* number of the live set; 0: not compared */
    /* Acknowledges the batch in the transaction of the views, once the results are known. NULL: the
     * caller acknowledges after the commit. */
    ef_status (*complete)(void *context, void *connection, ef_error *err);
    void *complete_context;
    bool adds_retry_rows; /* failed and deferred events get rows before the commit: no outbox row
                           * brings them again */
    bool reads_skips;     /* the batch may have old events: recorded skips apply to them */
    struct ef__view_cache **caches; /* the driver's caches; NULL: nothing is kept */
    /* For the cursor driver, with one generation. */
    bool moves_cursor;
    int64_t cursor_after;
    bool go_live;
    /* For one tenant with its own cursor, to which all events belong: cursor_after is the tenant's,
     * and the generation's cursor stays. NULL otherwise. */
    const ef__tenant_cursor_item *tenant;
    /* out */
    bool went_live;
    bool stopped;                            /* the tenant stopped before an event that failed */
    const ef__tenant_cursor_change *tenants; /* tenants that stopped, in `arena` */
    size_t tenant_count;
    ef__apply_result *results; /* [generation * event_count + event], in `arena` */
    int64_t applied, ignored, failed;
    ef__arena arena;
    ef__arena *arenas; /* one per generation: messages, and what the commit writes */
} ef__apply;

#define EF__APPLY_ARENA_MAX (512ul << 20)

/*
 * EF_CONFLICT    the live set or a compared value has changed: read again
 * EF_LEASE_LOST  a fence has seen a higher token: nothing changed
 */
ef_status ef__apply_run(ef_engine *engine, ef__apply *apply, ef_error *err);

/*
 * Applies to the generations of `choice` as they are now. Reads them into `set`, and starts over
 * when they or a compared value have changed. Without generations and fences there is nothing to
 * do. The caller releases `set` and `apply`.
 */
ef_status ef__apply_run_live(ef_engine *engine, const ef__live_choice *choice, ef__live_set *set,
                             ef__apply *apply, ef_error *err);
/* The events of a batch for an apply, malloc'ed; NULL: memory ran out. */
ef__apply_event *ef__apply_events_make(const ef_event *events, size_t count);
/* The index keys of a changed view, one per index of the program, in `arena`. */
ef_status ef__index_keys(const ef__program *program, ef__match *match, ef__arena *arena,
                         ef__view_change *change, ef_error *err);
void ef__apply_release(ef__apply *apply);
/* Is `name` in the list, which is sorted by name? */
bool ef__types_has(const ef_type_list *types, ef_str name);

#endif
