/*
 * generation_work.h - the part of an apply that concerns one generation.
 *
 * Each generation folds the same events with its own program, views and watermarks, and shares
 * nothing with the others before the commit, so that several threads may fold at once, one
 * generation each. The result is an ef__generation_change, which the commit writes or discards.
 */
#ifndef EF_ENGINE_GENERATION_WORK_H
#define EF_ENGINE_GENERATION_WORK_H

#include "apply.h"
#include "skip.h"
#include "tenant.h"
#include "view_cache.h"

/* The memory is in `arena`, except for the view cache. */
typedef struct ef__generation_work {
    ef_engine *engine;
    ef__apply *apply;
    ef__arena *arena;          /* owned by the apply */
    ef__apply_result *results; /* one per event, owned by the apply */
    const ef__live *live;
    const bool *not_folded; /* per event: its type is not for folding */
    ef__skips *skips;       /* skipped events; NULL: none, or the batch has no old events */
    ef__view_cache *cache;
    ef__stream_watermark **event_watermarks; /* per event; NULL: not read yet */
    ef__match *match;                        /* for index keys */
    ef__failure *failures;
    size_t failure_count;
    ef__view_change *changes;
    size_t change_count;
    ef__watermark_change *watermarks;
    size_t watermark_count;
    int64_t applied, ignored, skipped;
    ef__stopped_tenants stopped; /* of a log-ordered generation */
    ef_status st;                /* result of the fold … */
    ef_error err;                /* … and its message */
} ef__generation_work;

/* Allocates, and opens the view cache. */
ef_status ef__generation_work_open(ef__generation_work *work, ef_error *err);
/* Folds all events; the store is only read. Any thread. */
ef_status ef__generation_work_fold(ef__generation_work *work, ef_error *err);
/* The values that the commit compares and writes. Borrows from `work`. */
void ef__generation_work_describe(const ef__generation_work *work, ef__generation_change *out);
/* After the commit, or instead of it. */
void ef__generation_work_close(ef__generation_work *work, const ef__generation_change *change,
                               bool is_committed);

#endif
