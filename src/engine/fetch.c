/*
 * fetch.c - reading what a batch will ask for before it asks, where each read is a trip to a
 * server.
 *
 * The streams of a batch are known, and most events name the view that they go to. What is not
 * foreseen (views of a `for`, of a program in C, lookups) is read one by one when it is asked for.
 * A batch that finds everything in memory reads nothing.
 */
#include "workset.h"

enum { KEYS_A_TRIP = 500 };

#define FETCH_BYTES                                                                                \
    (32ul << 20) /* views may be large: what does not fit is read when asked for                   \
                  */

/* Keys that are not known yet, each once. */
typedef struct wanted {
    ef__view_key *keys;
    size_t count;
    ef__pair_map seen; /* bool */
    ef__arena arena;
} wanted;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while reading ahead");
}

static ef_status want(wanted *w, ef_str tenant, ef_str name, ef_error *err)
{
    bool is_new;

    if (!ef__pair_map_at(&w->seen, tenant, name, &is_new))
        return no_memory(err);
    if (is_new)
        w->keys[w->count++] = (ef__view_key){tenant, name};
    return EF_OK;
}

/* --- watermarks ------------------------------------------------------------------------------- */

static ef_status read_marks(ef__workset *set, ef_views *from, const wanted *w, size_t at,
                            size_t count, ef_error *err)
{
    ef__watermark found[KEYS_A_TRIP];
    ef_status st =
        from->ops->watermark_get_many(from, set->generation, w->keys + at, count, found, err);

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        bool is_new;
        ef__mark *mark =
            ef__pair_map_at(&set->marks, w->keys[at + i].tenant, w->keys[at + i].name, &is_new);
        if (!mark)
            return no_memory(err);
        mark->now = found[i];
    }
    return st;
}

static ef_status fetch_marks(ef__workset *set, ef_views *from, const ef__apply_event *events,
                             size_t count, wanted *w, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        const ef_event *e = events[i].event;
        if (!ef__pair_map_find(&set->marks, e->tenant, e->stream))
            st = want(w, e->tenant, e->stream, err);
    }
    for (size_t at = 0; st == EF_OK && at < w->count; at += KEYS_A_TRIP) {
        size_t left = w->count - at;
        st = read_marks(set, from, w, at, left < KEYS_A_TRIP ? left : KEYS_A_TRIP, err);
    }
    return st;
}

/* --- views ------------------------------------------------------------------------------------ */

static ef_status read_views(ef__workset *set, ef_views *from, const wanted *w, size_t at,
                            size_t count, ef_error *err)
{
    ef__view found[KEYS_A_TRIP];
    ef_status st = from->ops->view_get_many(from, set->generation, w->keys + at, count,
                                            &set->fetched_arena, found, err);

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        bool is_new;
        ef__view *view =
            ef__pair_map_at(&set->fetched, w->keys[at + i].tenant, w->keys[at + i].name, &is_new);
        if (!view)
            return no_memory(err);
        *view = found[i];
    }
    return st;
}

/* Does the batch have to read the view that the event goes to? */
static bool lacks_view(ef__workset *set, const ef__apply_event *item, ef_str *out_id)
{
    const ef_event *e = item->event;
    const ef__mark *mark = ef__pair_map_find(&set->marks, e->tenant, e->stream);
    const uint64_t *digest;

    if (item->skip || !mark || e->seq <= mark->now.applied_seq)
        return false;
    *out_id = ef__folder_foresee(set->folder, e);
    if (out_id->len == 0 || ef__folder_holds(set->folder, e->tenant, *out_id))
        return false;
    digest = ef__pair_map_find(&set->digests, e->tenant, *out_id);
    return !set->whole || (digest && (digest[0] || digest[1]));
}

static ef_status fetch_views(ef__workset *set, ef_views *from, const ef__apply_event *events,
                             size_t count, wanted *w, ef_error *err)
{
    ef_status st = EF_OK;
    ef_str id;

    for (size_t i = 0; st == EF_OK && i < count; i++)
        if (lacks_view(set, &events[i], &id)) {
            id = ef__arena_copy(&w->arena, id);
            st = id.ptr ? want(w, events[i].event->tenant, id, err) : no_memory(err);
        }
    for (size_t at = 0; st == EF_OK && at < w->count && set->fetched_arena.used_bytes < FETCH_BYTES;
         at += KEYS_A_TRIP) {
        size_t left = w->count - at;
        st = read_views(set, from, w, at, left < KEYS_A_TRIP ? left : KEYS_A_TRIP, err);
    }
    return st;
}

ef_status ef__workset_fetch(ef__workset *set, const ef__apply_event *events, size_t count,
                            ef_error *err)
{
    wanted w = {.seen = EF__PAIR_MAP_INIT(bool, SIZE_MAX), .arena = EF__ARENA_INIT(SIZE_MAX)};
    ef_views *from;
    ef_status st;

    if (!set->engine->views->ops->view_get_many || count < 2)
        return EF_OK;
    w.keys = ef__arena_alloc(&w.arena, count * sizeof *w.keys);
    st = w.keys ? ef__workset_reads_from(set, &from, err) : no_memory(err);
    if (st == EF_OK && !set->whole)
        st = fetch_marks(set, from, events, count, &w, err);
    w.count = 0;
    ef__pair_map_reset(&w.seen);
    if (st == EF_OK)
        st = fetch_views(set, from, events, count, &w, err);
    ef__pair_map_release(&w.seen);
    ef__arena_release(&w.arena);
    return st;
}
