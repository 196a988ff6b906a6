/*
 * apply_group.h - generations that are folded together and committed at once.
 *
 * A commit is bounded by what it changes, not by its events: when the changes of one generation
 * fill a part, the parts of all are committed, and folding continues after them. Each part moves
 * the watermarks (and the cursor) past its own events only, so after a crash between two commits
 * the events are applied from there. The caller acknowledges events with the last commit, or later.
 *
 *     open ── begin, fold ──┬── commit the last part ──► close
 *                  ▲        │
 *                  └─ full ─┴ commit a part
 *
 * While the cursor driver folds several batches, a part is committed in a thread and the next one
 * is folded meanwhile, on the views in memory, which are newer than the store. That is correct
 * while no view is evicted: what the fold reads from the store is in no commit that runs. A failed
 * commit discards what was folded after it. At most one commit runs; it was started before the
 * next part was complete, so commits are in order.
 */
#pragma once

#include "apply_generation.h"

#include <pthread.h>

/* A commit: one part of each generation. */
typedef struct ef__group_commit {
    ef_engine *engine;
    const ef__apply *apply;
    ef__generation_part *parts;
    ef__generation_change *changes;
    size_t count;
    bool is_last; /* of the group: events may be acknowledged with it */
    bool went_live;
    ef_status st;
    ef_error err;
} ef__group_commit;

typedef struct ef__apply_group {
    ef_engine *engine;
    ef__apply *apply;
    ef__generation_work *works;
    size_t first, count; /* among the generations of the apply */
    bool acks;           /* its last commit completes the apply */
    ef__group_commit commits[2];
    int filling;    /* the commit that is being filled; the other one may be running … */
    bool running;   /* … in a thread, */
    bool is_thread; /* which must be joined */
    pthread_t thread;
    size_t events; /* that were folded */
    int64_t began_us, fold_us;
} ef__apply_group;

/* Opens the generations first … end - 1 of the apply. */
ef_status ef__group_open(ef_engine *engine, ef__apply *apply, size_t first, size_t end,
                         ef__apply_group *out, ef_error *err);
/* Folds the events of the apply after those that were folded before. Commits full parts. */
ef_status ef__group_fold(ef__apply_group *group, ef_error *err);
/* Of a log-ordered generation: it has folded as much as a commit may change. */
bool ef__group_is_full(const ef__apply_group *group);
/* Commits what is folded and not committed. */
ef_status ef__group_end(ef__apply_group *group, ef_error *err);
/* Waits for a running commit. `is_committed` false: what is folded and not committed is lost. */
void ef__group_close(ef__apply_group *group, bool is_committed);
