/*
 * apply.h - the one function that applies events, whoever drives it.
 *
 * Programs are pure, so a batch is folded in memory first and written once: the views it touches
 * are read, each event is folded in order, and one transaction of the view store writes views,
 * index entries, digest, watermarks and cursor, after it has compared fence, live set, generation
 * and watermarks with what was read. Whoever comes second finds another watermark and starts over;
 * then its events are duplicates. A crash before the commit leaves nothing; one after it is
 * repaired by the watermarks when the events come again.
 */
#ifndef EF_ENGINE_APPLY_H
#define EF_ENGINE_APPLY_H

#include "engine_priv.h"

#include "../fold/match.h"

typedef enum ef__verdict {
    EF__VERDICT_APPLIED,
    EF__VERDICT_IGNORED,   /* no handler wants it, or it is not for folding: moves the watermark too
                            */
    EF__VERDICT_SKIPPED,   /* an operator let it pass: moves the watermark */
    EF__VERDICT_DUPLICATE, /* was applied before */
    EF__VERDICT_LEFT_OUT,  /* its tenant goes by a cursor of its own */
    EF__VERDICT_FAILED,    /* the program cannot digest it: nothing of it is written */
    EF__VERDICT_DEFERRED   /* an earlier event of its stream has yet to be applied */
} ef__verdict;

typedef struct ef__apply_event {
    const ef_event *event;
    bool skip;
} ef__apply_event;

typedef struct ef__applied {
    ef__verdict verdict;
    ef_str message; /* FAILED, DEFERRED: why; lives as long as the apply */
} ef__applied;

typedef struct ef__apply {
    const ef__live *generations;
    size_t generation_count;
    const ef__apply_event *events; /* in order of position */
    size_t event_count;
    const ef__fence *fences;
    size_t fence_count;
    int64_t live_set; /* 0: does not matter */
    /* What completes the batch in the journal, in the commit of the views: called when the outcome
     * is known. NULL: the caller does it afterwards. */
    ef_status (*complete)(void *context, void *connection, ef_error *err);
    void *complete_context;
    bool files;      /* what waits is filed in the own lanes: no queued row will bring it */
    bool looks_back; /* events may have been there before: what operators skipped is passed again */
    struct ef__workset **worksets; /* where what is in memory is kept; NULL: it is not */
    /* the cursor driver's, for one generation */
    bool moves_cursor;
    int64_t cursor_after;
    bool go_live;
    /* and for one tenant with a cursor of its own, to which all events belong: cursor_after is that
     * one's, and the generation's stays; NULL otherwise */
    const ef__tenant_cursor_item *tenant;
    /* out */
    bool went_live;
    bool stopped; /* the tenant: before an event that the program cannot digest */
    const ef__tenant_cursor_change *tenants; /* those that were left behind, in `arena` */
    size_t tenant_count;
    ef__applied *results; /* [generation * event_count + event], in `arena` */
    int64_t applied, ignored, failed;
    ef__arena arena;
    ef__arena *arenas; /* one a generation: their messages, and what is committed */
} ef__apply;

#define EF__APPLY_ARENA_MAX (512ul << 20)

/*
 * EF_CONFLICT    the live set has changed: read it again
 * EF_LEASE_LOST  a fence has seen a higher token: nothing changed
 * An event that is not the one that was applied under its seq fails, loudly.
 */
ef_status ef__apply_run(ef_engine *engine, ef__apply *apply, ef_error *err);
/* Apply to the live generations what was just appended; what they lack before it comes first. */
ef_status ef__apply_live(ef_engine *engine, const ef_event *events, size_t count, ef_error *err);
/* The keys of a changed view, one for each index of the program, in `arena`. */
ef_status ef__index_keys(const ef__program *program, ef__match *match, ef__arena *arena,
                         ef__view_change *change, ef_error *err);
void ef__apply_release(ef__apply *apply);

#endif
