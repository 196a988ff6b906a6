/*
 * view_cache.c - see view_cache.h.
 */
#include "view_cache.h"
#include "lag.h"
#include "scope.h"

#include "../journal/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define KEYS_A_TRIP 500
#define FETCH_BYTES (32ul << 20)  /* views may be large: the rest is read on first use */
#define LOADED_BYTES (64ul << 20) /* a view has at most 1 MB; an event may look up several */

/* A view that was read in advance. */
typedef struct prefetched_view {
    ef__view view; /* without data: the store has no such view */
    bool is_read;  /* false: memory was short; it is read on first use */
} prefetched_view;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while applying events");
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The snapshot of the store that a batch reads from, opened by its first read.
 * Without a snapshot every read would open its own transaction, which costs more than the row. A
 * store without snapshots is read directly. */
static ef_status open_snapshot(ef__view_cache *cache, ef_views **out, ef_error *err)
{
    ef_views *views = cache->engine->views;
    ef_status st = EF_OK;

    if (!cache->snapshot && views->ops->snapshot_open)
        st = views->ops->snapshot_open(views, &cache->snapshot, err);
    *out = cache->snapshot ? cache->snapshot : views;
    return st;
}

void ef__view_cache_end_reads(ef__view_cache *cache)
{
    ef__views_close(cache->snapshot);
    cache->snapshot = NULL;
    ef__pair_map_reset(&cache->prefetched);
    ef__arena_reset(&cache->prefetched_arena);
}

/* `engine`: that of the cache, whose snapshot is read, or another one. */
static ef_status get_view(ef__view_cache *cache, ef_engine *engine, int64_t generation,
                          ef_str tenant, ef_str id, ef__view *out, bool *out_found, ef_error *err)
{
    ef_views *from = engine->views;
    ef_status st = engine == cache->engine ? open_snapshot(cache, &from, err) : EF_OK;

    *out_found = false;
    ef__arena_reset(&cache->loaded);
    if (st != EF_OK)
        return st;
    return from->ops->view_get(from, generation, tenant, id, &cache->loaded, out, out_found, err);
}

void ef__view_cache_digest(const ef__view_cache *cache, ef_str tenant, ef_str id, uint64_t out[2])
{
    const uint64_t *digest = ef__pair_map_find(&cache->digests, tenant, id);

    out[0] = digest ? digest[0] : 0;
    out[1] = digest ? digest[1] : 0;
}

static bool has_digest(const ef__view_cache *cache, ef_str tenant, ef_str id)
{
    uint64_t digest[2];

    ef__view_cache_digest(cache, tenant, id, digest);
    return digest[0] || digest[1];
}

static ef_status load_view(void *context, ef_str tenant, ef_str id, ef__stored_view *out,
                           ef_error *err)
{
    ef__view_cache *cache = context;
    const prefetched_view *fetched = ef__pair_map_find(&cache->prefetched, tenant, id);
    ef__view view;
    bool is_new;
    uint64_t *digest;
    ef_status st = EF_OK;

    if (cache->is_complete && !has_digest(cache, tenant, id))
        return EF_OK;
    if (fetched && fetched->is_read) {
        view = fetched->view;
        out->found = view.data.len > 0;
    } else {
        st = get_view(cache, cache->engine, cache->generation, tenant, id, &view, &out->found, err);
    }
    if (st != EF_OK || !out->found)
        return st;
    digest = ef__pair_map_at(&cache->digests, tenant, id, &is_new);
    if (!digest)
        return no_memory(err);
    digest[0] = view.digest[0];
    digest[1] = view.digest[1];
    out->data = view.data;
    out->schema = view.schema;
    return EF_OK;
}

static ef_status read_lookup(void *context, ef_str projection, ef_str tenant, ef_str id,
                             ef__stored_view *out, ef_error *err)
{
    ef__view_cache *cache = context;
    EF__AUTO(ef__generation_list) list = {0};
    const ef__generation *generation;
    ef__view view;
    ef_engine *from = cache->engine->lookups ? cache->engine->lookups : cache->engine;
    ef_status st = ef__engine_active_generation(from, projection, &list, &generation, err);

    *out = (ef__stored_view){0};
    if (st == EF_OK)
        st = get_view(cache, from, generation->id, tenant, id, &view, &out->found, err);
    else if (st == EF_NOT_FOUND)
        st = EF_OK; /* not deployed: the lookup finds nothing */
    if (st == EF_OK && out->found)
        st = ef__view_migrate(from, generation, &cache->loaded, &view, err);
    if (st == EF_OK && out->found) {
        out->data = view.data;
        out->schema = view.schema;
    }
    return st;
}

ef_status ef__view_cache_watermark(ef__view_cache *cache, const ef_event *event,
                                   ef__stream_watermark **out, ef_error *err)
{
    bool is_new;
    ef__stream_watermark *mark =
        ef__pair_map_at(&cache->watermarks, event->tenant, event->stream, &is_new);
    ef_views *from;
    ef_status st;

    *out = mark;
    if (!mark)
        return no_memory(err);
    if (!is_new || cache->is_complete)
        return EF_OK;
    st = open_snapshot(cache, &from, err);
    return st == EF_OK ? ef__watermarks_read(from, cache->generation,
                                             &(ef__view_key){event->tenant, event->stream}, 1,
                                             &mark->now, err)
                       : st;
}

/* --- reading in advance -------------------------------------------------------------------------
 *
 * Many keys per round trip to a server, sorted, because neighbours share pages. The streams of a
 * batch are known, and most events name their view. Other views (of a `for`, of a C projection,
 * lookups) are read on first use. A batch that has everything in memory reads nothing.
 */

/* Keys to be read, each once, with the slot for the result. */
typedef struct key_set {
    struct want {
        ef__view_key key;
        void *slot;
    } * items;
    size_t count;
    ef__arena arena;
} key_set;

static int by_key(const void *a, const void *b)
{
    const ef__view_key *x = &((const struct want *)a)->key, *y = &((const struct want *)b)->key;
    int order = ef__str_compare(x->tenant, y->tenant);

    return order ? order : ef__str_compare(x->name, y->name);
}

static ef_status want_watermarks(ef__view_cache *cache, const ef_event *const *events, size_t count,
                                 key_set *wanted, ef__stream_watermark **out_watermarks,
                                 ef_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const ef_event *event = events[i];
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

/* Does the batch have to read the view of the event? */
static bool lacks_view(ef__view_cache *cache, const ef_event *event,
                       const ef__stream_watermark *mark, ef_str *out_id)
{
    if (event->seq <= mark->now.applied_seq)
        return false;
    *out_id = ef__folder_foresee(cache->folder, event);
    if (out_id->len == 0 || ef__folder_holds(cache->folder, event->tenant, *out_id))
        return false;
    return !cache->is_complete || has_digest(cache, event->tenant, *out_id);
}

static ef_status want_views(ef__view_cache *cache, const ef_event *const *events, size_t count,
                            ef__stream_watermark *const *marks, key_set *wanted, ef_error *err)
{
    for (size_t i = 0; i < count; i++) {
        ef_str tenant = events[i]->tenant, id;
        prefetched_view *slot;
        bool is_new;
        if (!lacks_view(cache, events[i], marks[i], &id))
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

/* Reads the views or the watermarks of the wanted keys into their slots. */
static ef_status read_wanted(ef__view_cache *cache, const key_set *wanted, bool is_views,
                             ef_error *err)
{
    ef__watermark marks[KEYS_A_TRIP];
    ef__view found[KEYS_A_TRIP];
    ef__view_key keys[KEYS_A_TRIP];
    ef_views *from;
    size_t count;
    ef_status st = EF_OK;

    if (wanted->count == 0)
        return EF_OK;
    qsort(wanted->items, wanted->count, sizeof *wanted->items, by_key);
    st = open_snapshot(cache, &from, err);
    for (size_t at = 0; st == EF_OK && at < wanted->count; at += count) {
        if (is_views && cache->prefetched_arena.used_bytes >= FETCH_BYTES)
            break;
        count = wanted->count - at < KEYS_A_TRIP ? wanted->count - at : KEYS_A_TRIP;
        for (size_t i = 0; i < count; i++)
            keys[i] = wanted->items[at + i].key;
        st = is_views
                 ? from->ops->view_get_many(from, cache->generation, keys, count,
                                            &cache->prefetched_arena, found, err)
                 : from->ops->watermark_get_many(from, cache->generation, keys, count, marks, err);
        for (size_t i = 0; st == EF_OK && i < count; i++)
            if (is_views)
                *(prefetched_view *)wanted->items[at + i].slot = (prefetched_view){found[i], true};
            else
                ((ef__stream_watermark *)wanted->items[at + i].slot)->now = marks[i];
    }
    return st;
}

ef_status ef__view_cache_prefetch(ef__view_cache *cache, const ef_event *const *events,
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
        st = read_wanted(cache, &wanted, false, err);
    wanted.count = 0;
    /* A complete cache without evictions has every view in its folder. */
    if (st == EF_OK && (!cache->is_complete || cache->has_evicted))
        st = want_views(cache, events, count, out_watermarks, &wanted, err);
    if (st == EF_OK)
        st = read_wanted(cache, &wanted, true, err);
    ef__arena_release(&wanted.arena);
    return st;
}

/* --- after the commit ------------------------------------------------------------------------- */

static bool record_view(ef__view_cache *cache, const ef__view_change *change, uint64_t sums[2])
{
    bool is_new;
    uint64_t *digest =
        ef__pair_map_at(&cache->digests, change->view.tenant, change->view.id, &is_new);

    if (!digest)
        return false;
    if (change->deleted)
        digest[0] = digest[1] = 0;
    else
        ef__view_digest(&change->view, digest);
    ef__digest_subtract(sums, change->before);
    ef__digest_add(sums, digest);
    return true;
}

static size_t name_bytes(const ef__view_cache *cache)
{
    return ef__pair_map_bytes(&cache->watermarks) + ef__pair_map_bytes(&cache->digests);
}

/* Sums over all caches of the driver. */
static size_t all_bytes(const ef__view_cache *cache, size_t *out_names)
{
    size_t names = 0, views = 0;

    for (const ef__view_cache *s = cache->all ? *cache->all : cache; s; s = s->next) {
        names += name_bytes(s);
        views += ef__folder_bytes(s->folder);
    }
    *out_names = names;
    return names + views;
}

bool ef__view_caches_are_full(const ef__view_cache *cache)
{
    size_t names;

    return all_bytes(cache, &names) > cache->engine->view_caches_bytes;
}

/* Decoded views are the largest part, and can be read again. Watermarks and digests are small, and
 * save a read for each stream or view that the store does not have. */
void ef__view_cache_evict(ef__view_cache *cache)
{
    size_t names, max = cache->engine->view_caches_bytes, bytes = all_bytes(cache, &names);

    if (bytes <= max)
        return;
    if (names > max / 4 * 3)
        ef__view_cache_reset(cache);
    ef__folder_reset(cache->folder);
    cache->has_evicted = true;
    /* Many caches share the limit: what each keeps for its next batch would exceed it. */
    ef__pair_map_release(&cache->prefetched);
    ef__arena_release(&cache->prefetched_arena);
    ef__arena_release(&cache->loaded);
}

bool ef__view_cache_commit(ef__view_cache *cache, const ef__generation_change *change)
{
    uint64_t sums[2];

    ef__digest_sums(cache->digest, sums);
    for (size_t i = 0; i < change->view_count; i++)
        if (!record_view(cache, &change->views[i], sums))
            return false;
    ef__folder_settle(cache->folder);
    if (change->cursor_after)
        cache->position = change->cursor_after;
    cache->batch++;
    cache->events += change->applied + change->ignored + change->skipped;
    ef__digest_bytes(sums, cache->digest);
    return true;
}

void ef__view_cache_reset(ef__view_cache *cache)
{
    ef__folder_reset(cache->folder);
    ef__pair_map_release(&cache->watermarks);
    ef__pair_map_release(&cache->digests);
    cache->is_complete = false;
    cache->has_evicted = false;
}

/* --- opening and closing ---------------------------------------------------------------------- */

ef_status ef__view_cache_open(ef_engine *engine, const ef__live *live, ef__view_cache **out,
                              ef_error *err)
{
    ef__view_cache *cache = malloc(sizeof *cache);
    ef_status st;

    *out = NULL;
    if (!cache)
        return no_memory(err);
    *cache = (ef__view_cache){.engine = engine,
                              .generation = live->generation->id,
                              .era = live->generation->era,
                              .position = live->generation->position,
                              .batch = 1,
                              .watermarks = EF__PAIR_MAP_INIT(ef__stream_watermark, SIZE_MAX),
                              .digests = EF__PAIR_MAP_INIT(uint64_t[2], SIZE_MAX),
                              .loaded = EF__ARENA_INIT(LOADED_BYTES),
                              .prefetched = EF__PAIR_MAP_INIT(prefetched_view, SIZE_MAX),
                              .prefetched_arena = EF__ARENA_INIT(SIZE_MAX),
                              .ahead = {.limit_max = engine->cursor_read < engine->cursor_batch
                                                         ? engine->cursor_read
                                                         : engine->cursor_batch,
                                        .batch = EF_BATCH_INIT}};
    if (!engine->is_side_engine) /* it must not share the reader of the engine that it copies */
        ef__generation_reader(live->generation, cache->ahead.reader);
    st = ef__folder_open(
        &(ef__folder_options){
            .program = live->program, .load = load_view, .lookup = read_lookup, .context = cache},
        &cache->folder, err);
    if (st != EF_OK) {
        ef__view_cache_close(cache);
        return st;
    }
    *out = cache;
    return EF_OK;
}

void ef__view_cache_close(ef__view_cache *cache)
{
    if (!cache)
        return;
    ef__read_ahead_release(&cache->ahead);
    ef__view_cache_end_reads(cache);
    ef__folder_close(cache->folder);
    ef__pair_map_release(&cache->watermarks);
    ef__pair_map_release(&cache->digests);
    ef__arena_release(&cache->loaded);
    ef__pair_map_release(&cache->prefetched);
    ef__arena_release(&cache->prefetched_arena);
    free(cache);
}

/* Nothing was ever applied to it. */
static bool is_empty(const ef__generation *generation)
{
    return generation->position == 0 && generation->seam == 0 && generation->views == 0 &&
           ef__generation_done(generation) == 0;
}

static bool is_as_read(const ef__view_cache *cache, const ef__generation *generation)
{
    return cache->era == generation->era && cache->position == generation->position &&
           cache->events == ef__generation_done(generation) &&
           memcmp(cache->digest, generation->digest, sizeof cache->digest) == 0;
}

ef_status ef__view_cache_acquire(ef_engine *engine, ef__view_cache **all, const ef__live *live,
                                 ef__view_cache **out, ef_error *err)
{
    const ef__generation *generation = live->generation;
    ef__view_cache *cache = *all;
    ef_status st;

    while (cache && cache->generation != generation->id)
        cache = cache->next;
    if (!cache) {
        st = ef__view_cache_open(engine, live, &cache, err);
        if (st != EF_OK)
            return st;
        cache->all = all;
        cache->next = *all;
        *all = cache;
    }
    if (!is_as_read(cache, generation))
        ef__view_cache_reset(cache);
    if (is_empty(generation)) {
        ef__view_cache_reset(cache);
        cache->is_complete = true;
    }
    cache->era = generation->era;
    cache->position = generation->position;
    cache->events = ef__generation_done(generation);
    memcpy(cache->digest, generation->digest, sizeof cache->digest);
    *out = cache;
    return EF_OK;
}

static bool is_in_use(const ef__view_cache *cache, const ef__live_set *live, bool by_cursor)
{
    for (size_t i = 0; i < live->count; i++) {
        const ef__generation *generation = live->items[i].generation;
        if (generation->id == cache->generation)
            return ef__generation_by_cursor(generation) == by_cursor &&
                   generation->era == cache->era;
    }
    return false;
}

static bool is_removed(const ef__view_cache *cache, const ef__generation_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].id == cache->generation)
            return list->items[i].state == EF__GENERATION_RETIRED;
    return true;
}

/* The removal of a generation removes its reader too; but this process may have read once more,
 * which creates the reader again. So each process that has read removes it as well. */
static void unfollow_removed(const ef__view_cache *cache, const ef__generation_list *list)
{
    if (cache->ahead.reader[0] && is_removed(cache, list))
        ef__journal_unfollow(cache->engine->journal, ef_str_from(cache->ahead.reader));
}

void ef__view_caches_prune(ef__view_cache **all, const ef__live_set *live, bool by_cursor)
{
    for (ef__view_cache **at = all; *at;) {
        ef__view_cache *cache = *at;
        if (is_in_use(cache, live, by_cursor)) {
            at = &cache->next;
            continue;
        }
        *at = cache->next;
        ef__read_ahead_release(&cache->ahead); /* joins its thread, which uses the reader */
        unfollow_removed(cache, &live->list);
        ef__view_cache_close(cache);
    }
}

void ef__view_caches_release(ef__view_cache **all)
{
    while (*all) {
        ef__view_cache *next = (*all)->next;
        ef__view_cache_close(*all);
        *all = next;
    }
}
