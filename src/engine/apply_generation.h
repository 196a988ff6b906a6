/*
 * apply_generation.h - the part of an apply about one generation.
 *
 * It has its own program, views and watermarks, and shares nothing with other generations before
 * the commit, so that several threads may fold at once, one generation each. The result is an
 * ef__generation_change, which the commit writes or discards.
 */
#pragma once

#include "apply.h"
#include "scope.h"
#include "view_cache.h"

/* The memory is in `arena`, but for the view cache. */
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
    ef__generation_change *change;           /* what the commit compares and writes … */
    ef__failure *failures;                   /* … of which these are being filled */
    ef__view_change *views;
    ef__watermark_change *watermarks;
    ef__stopped_tenants stopped; /* of a log-ordered generation */
    ef_status st;                /* result of the fold … */
    ef_error err;                /* … and its message */
} ef__generation_work;

/* Allocates, and opens the view cache. */
ef_status ef__work_open(ef__generation_work *work, ef_error *err);
/* Folds all events; the store is only read. Any thread. */
ef_status ef__work_fold(ef__generation_work *work, ef_error *err);
/* The folded change is complete: counts it, and adds the cursors. */
void ef__work_complete(const ef__generation_work *work, ef__generation_change *out);
/* After the commit, or instead of it. */
void ef__work_close(ef__generation_work *work, bool is_committed);
ef_status ef__apply_no_memory(ef_error *err);
