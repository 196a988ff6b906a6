/*
 * view_cache.h - the part of a generation that is in memory while events are folded: decoded views,
 * the digests that they have in the store, and the watermarks of streams.
 *
 * Views and watermarks are read from the store on first use. After a commit the cache equals the
 * store and may be kept for the next batch; after a failed commit it is emptied. Another writer of
 * the generation changes its era, its cursor, its digest or its event counts (a watermark moves
 * only with these): ef__view_cache_acquire compares them and empties a stale cache. A write after
 * that is found by the commit, which compares every value that it replaces.
 *
 * One thread uses a cache at a time: the driver that owns it, or the thread that folds for it.
 */
#pragma once

#include "apply.h"
#include "engine_priv.h"

#include "../base/pair_map.h"
#include "../fold/folder.h"

/* --- reading ahead (read_ahead.c) ------------------------------------------------------------- */

/*
 * Reads the next batch of a long catch-up in a thread while the current one is folded.
 *
 * The thread lives for one read, uses the journal only, and is started only if a full batch is
 * known to follow. Once the batch size is stable, the thread reads until its batch is wanted, so
 * that neither side waits: the batch has the events read by then, and at least half of the limit.
 */

#define EF__READER_MAX 300 /* projection name and a number */

typedef struct ef__read_ahead {
    ef_journal *journal;
    pthread_t thread;
    size_t limit; /* events of the next read; lower for large events; 0 before the first read */
    size_t limit_max;
    bool is_stable;              /* the last batch did not raise the limit */
    size_t most;                 /* set by the caller: maximum for pacing; 0: none */
    char reader[EF__READER_MAX]; /* set by the caller: reader name for the journal */
    atomic_bool wanted;          /* the caller waits for the batch */
    bool running;  /* the thread must be joined; until then the following members belong to it */
    int64_t epoch; /* connection epoch of the journal at the start */
    int64_t after, reached;
    size_t asked, least; /* events of the read: maximum, and minimum once they are wanted */
    ef_batch batch;
    ef_status st;
    ef_error err;
    ef_batch spare; /* empty: memory for the next read; belongs to the caller's thread */
} ef__read_ahead;

/* Starts to read the events after `after`. Without a thread, ef__read_ahead_read reads them. */
void ef__read_ahead_start(ef__read_ahead *ahead, ef_journal *journal, int64_t after);
/* Returns the events after `after` and the position up to which the journal was read. `out` is
 * empty on entry, and owned by the caller. */
ef_status ef__read_ahead_read(ef__read_ahead *ahead, ef_journal *journal, int64_t after,
                              ef_batch *out, int64_t *out_reached, ef_error *err);
/* Ends the use of a batch. While another one is read, its memory is kept for the next read. */
void ef__read_ahead_recycle(ef__read_ahead *ahead, ef_batch *batch);
/* Joins the thread and drops what it has read. Accepts a zeroed struct. */
void ef__read_ahead_release(ef__read_ahead *ahead);

/* --- the cache -------------------------------------------------------------------------------- */

typedef struct ef__stream_watermark {
    ef__watermark now;
    uint64_t batch;   /* number of the last batch that moved it … */
    size_t change;    /* … and its change; valid during that batch */
    uint64_t checked; /* number of the last batch that found its event in the journal */
} ef__stream_watermark;

typedef struct ef__view_cache {
    struct ef__view_cache *next;       /* of the caches that a driver keeps … */
    struct ef__view_cache *const *all; /* … which share one limit; NULL: used for one batch */
    ef_engine *engine;
    int64_t generation;
    /* The generation as of the last commit; another state makes the cache stale. */
    int64_t era, position, events;
    uint8_t digest[EF__DIGEST_BYTES];
    bool is_complete; /* it started with an empty generation: the store has no other views */
    bool has_evicted; /* views with a digest in here may be missing from the folder */
    uint64_t batch;   /* number of the current batch, from 1 */
    ef__folder *folder;
    ef__pair_map watermarks; /* ef__stream_watermark, by stream */
    ef__pair_map digests;    /* uint64_t[2], by view, as stored */
    ef__arena loaded;        /* the view that was loaded last */
    ef__read_ahead ahead;    /* the next events */
    size_t step_events;      /* of the last step of a catch-up; 0: none yet */
    ef__pair_map prefetched; /* prefetched_view, for this batch */
    ef__arena prefetched_arena;
    ef_views *snapshot; /* of the store, from the first to the last read of a batch */
} ef__view_cache;

/* Limit of all caches of a driver. It is checked after each batch, which may exceed it. */
#define EF__VIEW_CACHES_BYTES (24ul << 20)

ef_status ef__view_cache_open(ef_engine *engine, const ef__live *live, ef__view_cache **out,
                              ef_error *err);
void ef__view_cache_close(ef__view_cache *cache); /* NULL is fine */

/* The cache of a generation among `all`, emptied if it is stale; created if there is none. It stays
 * in the list. */
ef_status ef__view_cache_acquire(ef_engine *engine, ef__view_cache **all, const ef__live *live,
                                 ef__view_cache **out, ef_error *err);
/* The reader name under which a generation reads the journal. */
void ef__generation_reader(const ef__generation *generation, char out[EF__READER_MAX]);
/* Closes the caches of generations that `live` lacks or that are fed in another way now. */
void ef__view_caches_prune(ef__view_cache **all, const ef__live_set *live, bool by_cursor);
void ef__view_caches_release(ef__view_cache **all);

/* Reads the watermarks and views that the batch will need, as far as they are known.
 * `out_watermarks` has one item per event; NULL: not read. */
ef_status ef__view_cache_prefetch(ef__view_cache *cache, const ef_event *const *events,
                                  size_t count, ef__stream_watermark **out_watermarks,
                                  ef_error *err);
/* The watermark of the event's stream, read on first use. */
ef_status ef__view_cache_watermark(ef__view_cache *cache, const ef_event *event,
                                   ef__stream_watermark **out, ef_error *err);
/* The stored digest of a view; both 0: the store has no such view. */
void ef__view_cache_digest(const ef__view_cache *cache, ef_str tenant, ef_str id, uint64_t out[2]);
/* The batch is folded: closes the snapshot, so that the commit is not blocked by it. */
void ef__view_cache_end_reads(ef__view_cache *cache);

/* The change was committed, or will be before another one. False: memory ran out; the cache must be
 * reset after the commit. */
bool ef__view_cache_commit(ef__view_cache *cache, const ef__generation_change *change);
/* Are the caches of the driver above their limit? */
bool ef__view_caches_are_full(const ef__view_cache *cache);
/* Evicts views, or everything, above the limit. All changes are in the store. */
void ef__view_cache_evict(ef__view_cache *cache);
/* The change was not committed: empties the cache. */
void ef__view_cache_reset(ef__view_cache *cache);
