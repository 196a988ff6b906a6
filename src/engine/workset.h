/*
 * workset.h - what of a generation is in memory while events are folded into it: decoded views, the
 * digests that they have in the store, and how far it is in each stream.
 *
 * It fills up from the store as events ask for views and streams. When what changed has been
 * committed it is settled, and is then as good as the store; when not, it is thrown away. So it may
 * be kept from batch to batch for as long as nobody else writes to its generation. Who does so
 * changes its era, its cursor, the digest over all views or the number of events that it has: a
 * watermark moves by counting them. ef__workset_kept compares these with what they were when it was
 * settled. What is written meanwhile is found by the commit, which compares what it changes.
 */
#ifndef EF_ENGINE_WORKSET_H
#define EF_ENGINE_WORKSET_H

#include "ahead.h"
#include "apply.h"
#include "engine_priv.h"

#include "../base/pair_map.h"
#include "../fold/folder.h"

/* How far it is in a stream. */
typedef struct ef__mark {
    ef__watermark now;
    uint64_t batch;               /* the one that moved it last … */
    ef__watermark_change *change; /* … how, while that batch lasts: in its memory */
    uint64_t checked;             /* the one that found what it stands at in the journal */
} ef__mark;

/* A view that was read before it is asked for. */
typedef struct ef__fetched {
    ef__view view; /* without data: not there */
    bool read;     /* else there was no room for it, and it is read when it is asked for */
} ef__fetched;

typedef struct ef__workset {
    struct ef__workset *next;       /* of those that are kept … */
    struct ef__workset *const *all; /* … together, and share their memory; NULL: for one batch */
    ef_engine *engine;
    int64_t generation;
    /* As the generation was when it was settled: what a kept one is good for. */
    int64_t era, position, events;
    uint8_t digest[EF__DIGEST_BYTES];
    bool whole;   /* it began with an empty generation: a stream or view that has no mark or digest
                     here has none in the store */
    bool dropped; /* views that have a digest here may not be in the folder any more */
    uint64_t batch; /* which one it is at, from 1 on */
    ef__folder *folder;
    ef__pair_map marks;   /* ef__mark, by stream */
    ef__pair_map digests; /* uint64_t[2], by view: of those that the store has */
    ef__arena loaded;     /* the view that was loaded last */
    ef__ahead ahead;      /* events that come next */
    ef__pair_map fetched; /* ef__fetched, for this batch */
    ef__arena fetched_arena;
    ef_views *snapshot; /* what is read from, from the first read of a batch to its last */
} ef__workset;

/* Fed by its cursor: it catches up, or follows the log. */
static inline bool ef__generation_by_cursor(const ef__generation *g)
{
    return g->state == EF__GENERATION_CATCHING_UP || (g->state == EF__GENERATION_LIVE && g->by_log);
}

/* Fed by the queue: it has no cursor that says how far it is. */
static inline bool ef__generation_by_queue(const ef__generation *g)
{
    return g->state == EF__GENERATION_LIVE && !g->by_log;
}

/* What all that a driver keeps may take; the cursors keep some, and the queue. One batch more may
 * come on top: this is looked at when it is over. */
#define EF__WORKSETS_BYTES (24ul << 20)

ef_status ef__workset_open(ef_engine *engine, const ef__live *live, ef__workset **out,
                           ef_error *err);
void ef__workset_close(ef__workset *set); /* NULL is fine */

/* The one of `all` that is kept for this generation, emptied unless it is as the generation was
 * read; a new one if there is none. It stays where it is kept. For one tick at a time. */
ef_status ef__workset_kept(ef_engine *engine, ef__workset **all, const ef__live *live,
                           ef__workset **out, ef_error *err);
/* Under which name a generation reads the journal. */
void ef__generation_reader(const ef__generation *g, char out[EF__READER_MAX]);
/* Close those that are kept for generations that `live` has not, or that are fed in another way
 * now. */
void ef__worksets_prune(ef__workset **all, const ef__live_set *live, bool by_cursor);
void ef__worksets_release(ef__workset **all);

/* Read what the batch will ask for, as far as it can be foreseen (fetch.c). `out_marks` has room
 * for one an event: NULL where it was not looked up. */
ef_status ef__workset_fetch(ef__workset *set, const ef__apply_event *events, size_t count,
                            ef__mark **out_marks, ef_error *err);
/* What a batch reads from: the store as it was at its first read. */
ef_status ef__workset_reads_from(ef__workset *set, ef_views **out, ef_error *err);
/* How far the generation is in the event's stream; read if need be. */
ef_status ef__workset_mark(ef__workset *set, const ef_event *event, ef__mark **out, ef_error *err);
/* The digest that a view has in the store; both 0 when it is not there. */
void ef__workset_digest(const ef__workset *set, ef_str tenant, ef_str id, uint64_t out[2]);
/* Few streams and views: then reading the journal is a good part of the work, and memory is left to
 * do it ahead. */
bool ef__workset_is_small(const ef__workset *set);
/* The batch is folded: nothing more is read, and the store is free for its commit. */
void ef__workset_read_end(ef__workset *set);

/* The change was committed. Forgets views, or everything, when it has become much. */
void ef__workset_settle(ef__workset *set, const ef__generation_change *change);
/* It was not: forget everything. */
void ef__workset_reset(ef__workset *set);

#endif
