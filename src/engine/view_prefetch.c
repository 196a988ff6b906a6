/*
 * view_prefetch.c - reads the views and watermarks of a batch in advance: many keys per round trip
 * to a server, sorted, because neighbours share pages.
 *
 * The streams of a batch are known, and most events name their view. Other views (of a `for`, of a
 * C projection, lookups) are read on first use. A batch that has everything in memory reads
 * nothing.
 */
#include "view_cache.h"

#include <stdlib.h>

enum { KEYS_A_TRIP = 500 };

#define FETCH_BYTES (32ul << 20) /* views may be large: the rest is read on first use */

/* Keys to be read, each once, with the slot for the result. */
typedef struct key_set {
    struct want {
        ef__view_key key;
        void *slot;
    } * items;
    size_t count;
    ef__arena arena;
} key_set;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while reading ahead");
}

static int by_key(const void *a, const void *b)
{
    const ef__view_key *x = &((const struct want *)a)->key, *y = &((const struct want *)b)->key;
    int order = ef__str_compare(x->tenant, y->tenant);

    return order ? order : ef__str_compare(x->name, y->name);
}

/* The keys of the next round trip, from `at` on; returns how many. */
static size_t next_trip(const key_set *wanted, size_t at, ef__view_key keys[KEYS_A_TRIP])
{
    size_t count = wanted->count - at < KEYS_A_TRIP ? wanted->count - at : KEYS_A_TRIP;

    for (size_t i = 0; i < count; i++)
        keys[i] = wanted->items[at + i].key;
    return count;
}

/* --- watermarks ------------------------------------------------------------------------------- */

static ef_status read_watermarks(ef__view_cache *cache, ef_views *from, const key_set *wanted,
                                 ef_error *err)
{
    ef__watermark found[KEYS_A_TRIP];
    ef__view_key keys[KEYS_A_TRIP];
    size_t count;
    ef_status st = EF_OK;

    for (size_t at = 0; st == EF_OK && at < wanted->count; at += count) {
        count = next_trip(wanted, at, keys);
        st = from->ops->watermark_get_many(from, cache->generation, keys, count, found, err);
        for (size_t i = 0; st == EF_OK && i < count; i++)
            ((ef__stream_watermark *)wanted->items[at + i].slot)->now = found[i];
    }
    return st;
}

static ef_status want_watermarks(ef__view_cache *cache, const ef__apply_event *events, size_t count,
                                 key_set *wanted, ef__stream_watermark **out_watermarks,
                                 ef_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const ef_event *event = events[i].event;
        bool is_new;
        out_watermarks[i] =
            ef__pair_map_at(&cache->watermarks, event->tenant, event->stream, &is_new);
        if (!out_watermarks[i])
            return no_memory(err);
        if (is_new && !cache->is_complete)
            wanted->items[wanted->count++] =
                (struct want){{event->tenant, event->stream}, out_watermarks[i]};
    }
    return EF_OK;
}

/* --- views ------------------------------------------------------------------------------------ */

static ef_status read_views(ef__view_cache *cache, ef_views *from, const key_set *wanted,
                            ef_error *err)
{
    ef__view found[KEYS_A_TRIP];
    ef__view_key keys[KEYS_A_TRIP];
    size_t count;
    ef_status st = EF_OK;

    for (size_t at = 0;
         st == EF_OK && at < wanted->count && cache->prefetched_arena.used_bytes < FETCH_BYTES;
         at += count) {
        count = next_trip(wanted, at, keys);
        st = from->ops->view_get_many(from, cache->generation, keys, count,
                                      &cache->prefetched_arena, found, err);
        for (size_t i = 0; st == EF_OK && i < count; i++)
            *(ef__prefetched_view *)wanted->items[at + i].slot =
                (ef__prefetched_view){found[i], true};
    }
    return st;
}

/* Does the batch have to read the view of the event? */
static bool lacks_view(ef__view_cache *cache, const ef__apply_event *item,
                       const ef__stream_watermark *mark, ef_str *out_id)
{
    const ef_event *event = item->event;
    const uint64_t *digest;

    if (item->skip || event->seq <= mark->now.applied_seq)
        return false;
    *out_id = ef__folder_foresee(cache->folder, event);
    if (out_id->len == 0 || ef__folder_holds(cache->folder, event->tenant, *out_id))
        return false;
    if (!cache->is_complete)
        return true;
    digest = ef__pair_map_find(&cache->digests, event->tenant, *out_id);
    return digest && (digest[0] || digest[1]);
}

static ef_status want_views(ef__view_cache *cache, const ef__apply_event *events, size_t count,
                            ef__stream_watermark *const *marks, key_set *wanted, ef_error *err)
{
    for (size_t i = 0; i < count; i++) {
        ef_str tenant = events[i].event->tenant, id;
        ef__prefetched_view *slot;
        bool is_new;
        if (!lacks_view(cache, &events[i], marks[i], &id))
            continue;
        slot = ef__pair_map_at(&cache->prefetched, tenant, id, &is_new);
        if (!slot)
            return no_memory(err);
        if (!is_new)
            continue;
        id = ef__arena_copy(&wanted->arena, id);
        if (!id.ptr)
            return no_memory(err);
        wanted->items[wanted->count++] = (struct want){{tenant, id}, slot};
    }
    return EF_OK;
}

/* --- the batch -------------------------------------------------------------------------------- */

static ef_status read_wanted(ef__view_cache *cache, const key_set *w,
                             ef_status (*read)(ef__view_cache *, ef_views *, const key_set *,
                                               ef_error *),
                             ef_error *err)
{
    ef_views *from;
    ef_status st;

    if (w->count == 0)
        return EF_OK;
    qsort(w->items, w->count, sizeof *w->items, by_key);
    st = ef__view_cache_snapshot(cache, &from, err);
    return st == EF_OK ? read(cache, from, w, err) : st;
}

ef_status ef__view_cache_prefetch(ef__view_cache *cache, const ef__apply_event *events,
                                  size_t count, ef__stream_watermark **out_watermarks,
                                  ef_error *err)
{
    key_set wanted = {.arena = EF__ARENA_INIT(SIZE_MAX)};
    ef_status st;

    memset(out_watermarks, 0, count * sizeof *out_watermarks);
    if (!cache->engine->views->ops->view_get_many || count < 2)
        return EF_OK;
    wanted.items = ef__arena_alloc(&wanted.arena, count * sizeof *wanted.items);
    st = wanted.items ? want_watermarks(cache, events, count, &wanted, out_watermarks, err)
                      : no_memory(err);
    if (st == EF_OK)
        st = read_wanted(cache, &wanted, read_watermarks, err);
    wanted.count = 0;
    /* A complete cache without evictions has every view in its folder. */
    if (st == EF_OK && (!cache->is_complete || cache->has_evicted))
        st = want_views(cache, events, count, out_watermarks, &wanted, err);
    if (st == EF_OK)
        st = read_wanted(cache, &wanted, read_views, err);
    ef__arena_release(&wanted.arena);
    return st;
}
