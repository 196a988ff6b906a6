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

/* What one commit writes for the generation. */
typedef struct ef__generation_part {
    ef__generation_change *change; /* compared and written; its arrays are the following … */
    ef__failure *failures;
    ef__view_change *views; /* NULL: the changed views are in the view cache only */
    ef__watermark_change *watermarks;
    size_t failure_cap, watermark_cap;
    ef__arena arena; /* … in here */
} ef__generation_part;

typedef struct ef__generation_work {
    ef_engine *engine;
    ef__apply *apply;
    ef__arena *messages;       /* of results; owned by the apply */
    ef__apply_result *results; /* one per event, owned by the apply */
    const ef__live *live;
    ef__skips *skips; /* skipped events; NULL: none, or the batch has no old events */
    ef__view_cache *cache;
    ef__stream_watermark **event_watermarks; /* per event; NULL: not read yet */
    ef__match *match;                        /* for index keys */
    ef__generation_part *part;               /* that is being filled */
    size_t next;                             /* the events before it are folded */
    size_t part_events;                      /* of them, those whose changes are in the part */
    size_t bytes_before;                     /* of the view cache at the start of the part */
    int64_t cursor;                          /* after the last part */
    bool is_full;                            /* the changes are enough for a commit */
    ef__stopped_tenants stopped;             /* of a log-ordered generation */
    ef_status st;                            /* result of the fold … */
    ef_error err;                            /* … and its message */
} ef__generation_work;

/* Opens the view cache. The caller sets `part`. */
ef_status ef__work_open(ef__generation_work *work, ef_error *err);
/* The events of the apply are folded next. */
ef_status ef__work_begin_batch(ef__generation_work *work, ef__apply_result *results, ef_error *err);
/* Folds events until all are folded or the part is full; the store is only read. Any thread. */
ef_status ef__work_fold(ef__generation_work *work, ef_error *err);
bool ef__work_has_folded(const ef__generation_work *work);
/* Adds the views that changed, encoded, and the cursors to the change, which is then complete. */
ef_status ef__work_collect_views(ef__generation_work *work, ef_error *err);
void ef__work_complete(ef__generation_work *work, bool is_last);
/* The part was committed, or is discarded: empties it. */
void ef__part_commit(const ef__generation_work *work, ef__generation_part *part);
void ef__part_reset(ef__generation_part *part);
void ef__work_close(ef__generation_work *work, bool is_committed);
ef_status ef__apply_no_memory(ef_error *err);
