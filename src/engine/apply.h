/*
 * apply.h - the one function that applies events, for all drivers; skipped events; side folds.
 *
 * Programs are pure, so a batch is folded in memory first and written once: the views that it
 * touches are read, each event is folded in order, and a transaction of the view store writes
 * views, index entries, digest, watermarks and cursor, after it has compared fence, live set,
 * generation, watermarks and view digests with what was read. A large batch needs several commits
 * (apply_group.h). Of two workers with the same events
 * the second one finds another watermark, starts over, and then drops the events as duplicates. A
 * crash before the commit leaves nothing; after a crash past the commit the events are claimed
 * again, and the watermarks drop them.
 */
#pragma once

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

typedef struct ef__apply_result {
    ef__verdict verdict;
    ef_str message; /* FAILED, DEFERRED: the reason; valid until the apply is released */
} ef__apply_result;

typedef struct ef__apply {
    const ef__live *generations;
    size_t generation_count;
    const ef_event *const *events; /* in order of position */
    size_t event_count;
    const ef__fence *fences;
    size_t fence_count;
    int64_t live_set; /* number of the live set; 0: not compared */
    /* Acknowledges the batch in the transaction of the views, once the results are known. NULL: the
     * caller acknowledges after the commit. */
    ef_status (*complete)(void *context, void *connection, ef_error *err);
    /* Called before each commit of a batch: renews leases, which would end during a long one. NULL:
     * they are renewed otherwise. */
    ef_status (*renew)(void *context, ef_error *err);
    void *context;        /* of both */
    bool accumulates;     /* several batches are folded into a commit (apply_group.h) */
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
    /* out; a log-ordered generation may apply only the first events: then event_count, cursor_after
     * and go_live are changed */
    bool went_live;
    bool stopped;                            /* the tenant stopped before an event that failed */
    const ef__tenant_cursor_change *tenants; /* tenants that stopped, in `arena` */
    size_t tenant_count;
    ef__apply_result *results; /* [generation * event_count + event] */
    size_t rows_from; /* the waiting events of the generations before it have their retry rows */
    int64_t applied, ignored, failed;
    ef__live_set set; /* of ef__apply_run_live */
    ef__arena arena;
    ef__arena *arenas;      /* one per generation: messages of results */
    ef__arena batch_arena;  /* results, and the following */
    const bool *not_folded; /* per event: its type is not for folding */
    const ef_event **owned; /* `events`, by ef__apply_set_events */
} ef__apply;

#define EF__APPLY_ARENA_MAX (512ul << 20)

/*
 * EF_CONFLICT    the live set or a compared value has changed: read again
 * EF_LEASE_LOST  a fence has seen a higher token: nothing changed
 */
ef_status ef__apply_run(ef_engine *engine, ef__apply *apply, ef_error *err);

/*
 * Several batches in one apply, for the cursor driver: begin, fold each, end. Views and watermarks
 * that many events change are written once. The events of a batch are borrowed until the next one
 * is folded, unless tenants have stopped (apply_group.h). After a failure the apply is ended with
 * that status.
 */
struct ef__apply_group;
ef_status ef__apply_begin(ef_engine *engine, ef__apply *apply, struct ef__apply_group *group,
                          ef_error *err);
ef_status ef__apply_fold(struct ef__apply_group *group, ef_error *err);
/* Commits what is folded if `st` is EF_OK. Returns the first failure. */
ef_status ef__apply_end(struct ef__apply_group *group, ef_status st, ef_error *err);

/*
 * Applies to the generations of `choice` as they are now. Reads them into `apply->set`, and starts
 * over when they or a compared value have changed. Without generations and fences there is nothing
 * to do.
 */
ef_status ef__apply_run_live(ef_engine *engine, const ef__live_choice *choice, ef__apply *apply,
                             ef_error *err);
/* Applies the events of a batch, which is borrowed. */
ef_status ef__apply_set_events(ef__apply *apply, const ef_event *events, size_t count,
                               ef_error *err);
/* The index keys of a changed view, one per index of the program, in `arena`. */
ef_status ef__index_keys(const ef__program *program, ef__match *match, ef__arena *arena,
                         ef__view_change *change, ef_error *err);
void ef__apply_release(ef__apply *apply);
EF__AUTO_TYPE(ef__apply, ef__apply_release)
/* Is `name` in the list, which is sorted by name? */
bool ef__types_has(const ef_type_list *types, ef_str name);

/*
 * Events that operators skipped for a version of a projection (skip.c).
 *
 * A skip is an entry in the journal, (projection, version, tenant, stream, seq), written in the
 * transaction of the operator's action. It holds for the versions that were blocked at exactly this
 * event at that time, and for no other. Every later build of such a version (rebuild, verification,
 * replay, repair) skips the same events, even if the view store was lost. Another version has
 * another program and may apply the event. The skips of a version are owned by the engine.
 */
typedef struct ef__skips ef__skips;

/* The events that this version skips; reads the entries that were added since the last call. NULL
 * in *out: none. */
ef_status ef__skips_read(ef_engine *engine, const ef__generation *generation, ef__skips **out,
                         ef_error *err);
/* Is the event skipped? NULL has none. Thread-safe. */
bool ef__skips_has(ef_engine *engine, const ef__skips *skips, const ef_event *event);
/* Records that the generation's version skips the event, unless that is recorded: a log-ordered
 * projection has no row that an operator could skip. */
ef_status ef__skips_add(ef_engine *engine, const ef__generation *generation, const ef_event *event,
                        ef_str reason, ef_error *err);
void ef__skips_release(ef_engine *engine);

/*
 * Folds events without writing: the views are in memory and are discarded (side_fold.c).
 *
 * A side fold is an engine on the same journal with empty views of its own, which are the views of
 * copied or new generations with nothing folded. It applies events like a driver does, with the
 * same watermarks and skips, but it writes nothing to the journal, not even a lease, and it never
 * ticks. Draft, dry run and shadow use it. One thread uses a side fold at a time.
 */
typedef struct ef__side_fold {
    ef_engine *engine; /* whose journal is read */
    ef_engine *side;   /* owns the views in memory */
    bool reads_skips;  /* it has copies: events that operators skipped are skipped here too */
    ef__apply apply;   /* the results of the last run, valid until the next one */
} ef__side_fold;

ef_status ef__side_fold_open(ef__side_fold *fold, ef_engine *engine, ef_str name, ef_error *err);
void ef__side_fold_close(ef__side_fold *fold); /* one that was not opened is fine */

/* Adds the active generations of `choice` that the side fold lacks. Those written in C are left
 * out: they need the functions of their process. */
ef_status ef__side_fold_add_active(ef__side_fold *fold, const ef__live_choice *choice,
                                   bool *out_added, ef_error *err);
/* Folds events, in order of position, into the generation with this id; 0: into all. The events are
 * borrowed until the next run. */
ef_status ef__side_fold_run(ef__side_fold *fold, int64_t generation, const ef_event *events,
                            size_t count, ef_error *err);
