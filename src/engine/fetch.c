/*
 * fetch.c - reading what a batch will ask for before it asks: many at once where each read is a
 * trip to a server, and in the order of their keys where neighbours share pages.
 *
 * The streams of a batch are known, and most events name the view that they go to. What is not
 * foreseen (views of a `for`, of a program in C, lookups) is read one by one when it is asked for.
 * A batch that finds everything in memory reads nothing.
 */
#include "workset.h"

#include <stdlib.h>

enum { KEYS_A_TRIP = 500 };

#define FETCH_BYTES                                                                                \
    (32ul << 20) /* views may be large: what does not fit is read when asked for                   \
                  */

/* What is not known yet: each key once, with the place in a map where the answer goes. */
typedef struct wanted {
    struct want {
        ef__view_key key;
        void *slot;
    } * items;
    size_t count;
    ef__arena arena;
} wanted;

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

/* The keys of the next trip, from `at` on; how many. */
static size_t next_trip(const wanted *w, size_t at, ef__view_key keys[KEYS_A_TRIP])
{
    size_t count = w->count - at < KEYS_A_TRIP ? w->count - at : KEYS_A_TRIP;

    for (size_t i = 0; i < count; i++)
        keys[i] = w->items[at + i].key;
    return count;
}

/* --- watermarks ------------------------------------------------------------------------------- */

static ef_status read_marks(ef__workset *set, ef_views *from, const wanted *w, ef_error *err)
{
    ef__watermark found[KEYS_A_TRIP];
    ef__view_key keys[KEYS_A_TRIP];
    size_t count;
    ef_status st = EF_OK;

    for (size_t at = 0; st == EF_OK && at < w->count; at += count) {
        count = next_trip(w, at, keys);
        st = from->ops->watermark_get_many(from, set->generation, keys, count, found, err);
        for (size_t i = 0; st == EF_OK && i < count; i++)
            ((ef__mark *)w->items[at + i].slot)->now = found[i];
    }
    return st;
}

static ef_status want_marks(ef__workset *set, const ef__apply_event *events, size_t count,
                            wanted *w, ef__mark **out_marks, ef_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const ef_event *e = events[i].event;
        bool is_new;
        out_marks[i] = ef__pair_map_at(&set->marks, e->tenant, e->stream, &is_new);
        if (!out_marks[i])
            return no_memory(err);
        if (is_new && !set->whole)
            w->items[w->count++] = (struct want){{e->tenant, e->stream}, out_marks[i]};
    }
    return EF_OK;
}

/* --- views ------------------------------------------------------------------------------------ */

static ef_status read_views(ef__workset *set, ef_views *from, const wanted *w, ef_error *err)
{
    ef__view found[KEYS_A_TRIP];
    ef__view_key keys[KEYS_A_TRIP];
    size_t count;
    ef_status st = EF_OK;

    for (size_t at = 0; st == EF_OK && at < w->count && set->fetched_arena.used_bytes < FETCH_BYTES;
         at += count) {
        count = next_trip(w, at, keys);
        st = from->ops->view_get_many(from, set->generation, keys, count, &set->fetched_arena,
                                      found, err);
        for (size_t i = 0; st == EF_OK && i < count; i++)
            *(ef__fetched *)w->items[at + i].slot = (ef__fetched){found[i], true};
    }
    return st;
}

/* Does the batch have to read the view that the event goes to? */
static bool lacks_view(ef__workset *set, const ef__apply_event *item, const ef__mark *mark,
                       ef_str *out_id)
{
    const ef_event *e = item->event;
    const uint64_t *digest;

    if (item->skip || e->seq <= mark->now.applied_seq)
        return false;
    *out_id = ef__folder_foresee(set->folder, e);
    if (out_id->len == 0 || ef__folder_holds(set->folder, e->tenant, *out_id))
        return false;
    if (!set->whole)
        return true;
    digest = ef__pair_map_find(&set->digests, e->tenant, *out_id);
    return digest && (digest[0] || digest[1]);
}

static ef_status want_views(ef__workset *set, const ef__apply_event *events, size_t count,
                            ef__mark *const *marks, wanted *w, ef_error *err)
{
    for (size_t i = 0; i < count; i++) {
        ef_str tenant = events[i].event->tenant, id;
        ef__fetched *slot;
        bool is_new;
        if (!lacks_view(set, &events[i], marks[i], &id))
            continue;
        slot = ef__pair_map_at(&set->fetched, tenant, id, &is_new);
        if (!slot)
            return no_memory(err);
        if (!is_new)
            continue;
        id = ef__arena_copy(&w->arena, id);
        if (!id.ptr)
            return no_memory(err);
        w->items[w->count++] = (struct want){{tenant, id}, slot};
    }
    return EF_OK;
}

/* --- both ------------------------------------------------------------------------------------- */

static ef_status
read_wanted(ef__workset *set, const wanted *w,
            ef_status (*read)(ef__workset *, ef_views *, const wanted *, ef_error *), ef_error *err)
{
    ef_views *from;
    ef_status st;

    if (w->count == 0)
        return EF_OK;
    qsort(w->items, w->count, sizeof *w->items, by_key);
    st = ef__workset_reads_from(set, &from, err);
    return st == EF_OK ? read(set, from, w, err) : st;
}

ef_status ef__workset_fetch(ef__workset *set, const ef__apply_event *events, size_t count,
                            ef__mark **out_marks, ef_error *err)
{
    wanted w = {.arena = EF__ARENA_INIT(SIZE_MAX)};
    ef_status st;

    memset(out_marks, 0, count * sizeof *out_marks);
    if (!set->engine->views->ops->view_get_many || count < 2)
        return EF_OK;
    w.items = ef__arena_alloc(&w.arena, count * sizeof *w.items);
    st = w.items ? want_marks(set, events, count, &w, out_marks, err) : no_memory(err);
    if (st == EF_OK)
        st = read_wanted(set, &w, read_marks, err);
    w.count = 0;
    /* A whole one that has dropped nothing has every view that there is in its folder. */
    if (st == EF_OK && (!set->whole || set->dropped))
        st = want_views(set, events, count, out_marks, &w, err);
    if (st == EF_OK)
        st = read_wanted(set, &w, read_views, err);
    ef__arena_release(&w.arena);
    return st;
}
