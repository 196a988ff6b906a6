/*
 * side_fold.h - folds events without writing: the views are in memory and are discarded.
 *
 * A side fold is an engine on the same journal with empty views of its own, which are the views of
 * copied or new generations with nothing folded. It applies events like a driver does, with the
 * same watermarks and skips, but it writes nothing to the journal, not even a lease, and it never
 * ticks. Draft, dry run and shadow use it. One thread uses a side fold at a time.
 */
#ifndef EF_ENGINE_SIDE_FOLD_H
#define EF_ENGINE_SIDE_FOLD_H

#include "apply.h"

typedef struct ef__side_fold {
    ef_engine *engine; /* whose journal is read */
    ef_engine *side;   /* owns the views in memory */
    bool reads_skips;  /* it has copies: events that operators skipped are skipped here too */
    ef__live_set set;  /* generations of the last run … */
    ef__apply apply;   /* … and its results, valid until the next run */
} ef__side_fold;

ef_status ef__side_fold_open(ef__side_fold *fold, ef_engine *engine, ef_str name, ef_error *err);
void ef__side_fold_close(ef__side_fold *fold); /* one that was not opened is fine */

/* Adds the active generations of `choice` that the side fold lacks. Those written in C are left
 * out: they need the functions of their process. */
ef_status ef__side_fold_add_active(ef__side_fold *fold, const ef__live_choice *choice,
                                   bool *out_added, ef_error *err);
/* Folds events, in order of position, into the generation with this id; 0: into all. The events are
 * borrowed until the next run. */
ef_status ef__side_fold_run(ef__side_fold *fold, int64_t generation, const ef__apply_event *events,
                            size_t count, ef_error *err);

#endif
