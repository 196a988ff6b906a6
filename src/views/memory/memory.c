/*
 * memory.c - opening and closing, lists, and generations.
 */
#include "memory.h"

#include <stdlib.h>

static const ef__views_ops OPS;

/* --- lists ------------------------------------------------------------------------------------ */

bool mem_list_reserve(mem_list *list, size_t more)
{
    size_t cap = list->cap ? list->cap : 8;
    void **items;

    while (cap < list->count + more)
        cap *= 2;
    if (cap == list->cap)
        return true;
    items = realloc(list->items, cap * sizeof *items);
    if (!items)
        return false;
    list->items = items;
    list->cap = cap;
    return true;
}

void mem_list_insert(mem_list *list, size_t at, void *item)
{
    memmove(&list->items[at + 1], &list->items[at], (list->count - at) * sizeof *list->items);
    list->items[at] = item;
    list->count++;
}

void mem_list_add(mem_list *list, void *item)
{
    mem_list_insert(list, list->count, item);
}

void *mem_list_remove(mem_list *list, size_t at)
{
    void *item = list->items[at];

    list->count--;
    memmove(&list->items[at], &list->items[at + 1], (list->count - at) * sizeof *list->items);
    return item;
}

void mem_list_release(mem_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (mem_list){0};
}

size_t mem_list_find(const mem_list *list, ef_str tenant, ef_str name, bool *out_found)
{
    size_t low = 0, high = list->count;

    *out_found = false;
    while (low < high && !*out_found) {
        size_t middle = low + (high - low) / 2;
        const ef__view_key *key = list->items[middle];
        int order = ef__str_compare(key->tenant, tenant);
        if (order == 0)
            order = ef__str_compare(key->name, name);
        *out_found = order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return *out_found ? high : low;
}

void *mem_list_get(const mem_list *list, ef_str tenant, ef_str name)
{
    bool found;
    size_t at = mem_list_find(list, tenant, name, &found);

    return found ? list->items[at] : NULL;
}

void *mem_list_named(const mem_list *list, ef_str name, size_t *out_at)
{
    for (size_t i = 0; i < list->count; i++)
        if (ef_str_equal(*(const ef_str *)list->items[i], name)) {
            if (out_at)
                *out_at = i;
            return list->items[i];
        }
    return NULL;
}

/* --- items ------------------------------------------------------------------------------------ */

void *mem_copy(size_t bytes, const ef__texts *texts, const void *from)
{
    size_t all = bytes;
    char *item, *at;

    for (size_t i = 0; i < texts->count; i++)
        all += ef__text_at(texts, from, i)->len;
    item = malloc(all);
    if (!item)
        return NULL;
    memcpy(item, from, bytes);
    at = item + bytes;
    for (size_t i = 0; i < texts->count; i++)
        *ef__text_at(texts, item, i) = mem_put(&at, *ef__text_at(texts, item, i));
    return item;
}

ef_str mem_put(char **at, ef_str text)
{
    ef_str copy = {*at, text.len};

    if (text.len)
        memcpy(*at, text.ptr, text.len);
    *at += text.len;
    return copy;
}

/* --- locking ---------------------------------------------------------------------------------- */

mem_store *mem_lock(ef_views *views)
{
    mem_store *store = (mem_store *)views;

    pthread_mutex_lock(&store->lock);
    return store;
}

void mem_unlock(mem_store **store)
{
    pthread_mutex_unlock(&(*store)->lock);
}

mem_generation *mem_generation_find(const mem_store *store, int64_t id)
{
    for (size_t i = 0; i < store->generations.count; i++) {
        mem_generation *g = store->generations.items[i];
        if (g->about.id == id)
            return g;
    }
    return NULL;
}

/* --- generations ------------------------------------------------------------------------------ */

static void generation_changed(mem_store *store, mem_generation *g)
{
    g->about.era++;
    g->about.updated_us = mem_now_us(store);
}

static void make_active(mem_store *store, mem_generation *g, int32_t replaced)
{
    if (g->about.active)
        return;
    for (size_t i = 0; i < store->generations.count; i++) {
        mem_generation *other = store->generations.items[i];
        if (other->about.active && ef_str_equal(other->about.name, g->about.name)) {
            other->about.active = false;
            other->about.superseded_us = mem_now_us(store);
            generation_changed(store, other);
        }
    }
    g->about.active = true;
    g->about.replaced = replaced;
    g->about.superseded_us = 0;
    generation_changed(store, g);
    store->live_set++;
}

static mem_generation *generation_make(mem_store *store, const ef__generation *from)
{
    mem_generation made = {.about = *from};

    made.about.number = 1;
    made.about.era = 1;
    made.about.active = false;
    made.about.replaced = 0;
    made.about.superseded_us = 0;
    made.about.applied = made.about.ignored = made.about.skipped = 0;
    made.about.own_cursors = made.about.own_lowest = made.about.own_waiting = 0;
    made.about.updated_us = mem_now_us(store);
    if (made.about.created_us == 0)
        made.about.created_us = made.about.updated_us;
    return mem_copy(sizeof made, &ef__generation_texts, &made);
}

ef_status mem_generation_add(ef_views *views, const ef__generation *generation, int64_t *out_id,
                             ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    mem_generation *g = generation_make(store, generation);
    size_t at = 0;

    if (!g || !mem_list_reserve(&store->generations, 1)) {
        free(g);
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a generation");
    }
    for (; at < store->generations.count; at++) {
        const mem_generation *other = store->generations.items[at];
        int order = ef__str_compare(other->about.name, g->about.name);
        if (order > 0)
            break;
        if (order == 0) {
            g->about.number = other->about.number + 1;
            g->about.on_error = other->about.on_error;
        }
    }
    if (generation->number && generation->number != g->about.number) {
        free(g);
        return ef__generation_number_exists(generation->name, generation->number, err);
    }
    *out_id = g->about.id = ++store->last_generation;
    mem_list_insert(&store->generations, at, g);
    if (g->about.state == EF__GENERATION_LIVE)
        store->live_set++;
    if (generation->active)
        make_active(store, g, 0);
    return EF_OK;
}

/* Counts and sums are computed on each call: tests compare other stores' stored ones with them. */
static ef__generation describe_generation(const mem_generation *g)
{
    ef__generation about = g->about;
    uint64_t sums[2] = {0, 0}, one[2];

    for (size_t i = 0; i < g->views.count; i++) {
        ef__view_digest(&((const mem_view *)g->views.items[i])->view, one);
        ef__digest_add(sums, one);
    }
    about.views = (int64_t)g->views.count;
    about.own_cursors = (int64_t)g->tenants.count;
    for (size_t i = 0; i < g->tenants.count; i++) {
        const ef__tenant_cursor *c = &((const ef__tenant_cursor_item *)g->tenants.items[i])->cursor;
        about.own_waiting += c->waiting;
        if (i == 0 || c->position < about.own_lowest)
            about.own_lowest = c->position;
    }
    ef__digest_bytes(sums, about.digest);
    return about;
}

ef_status mem_generation_ls(ef_views *views, ef_str only_name, ef__generation_list *out,
                            ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    ef_status st = ef__list_prepare(out, err);

    out->live_set = store->live_set;
    for (size_t i = 0; st == EF_OK && i < store->generations.count; i++) {
        const mem_generation *g = store->generations.items[i];
        ef__generation item = describe_generation(g);
        if (only_name.len == 0 || ef_str_equal(only_name, g->about.name))
            st = ef__list_add(out, &item, &ef__generation_texts, err);
    }
    return st;
}

/* The generation in the era that was read; 0: in any. NULL, and why in *out. */
static mem_generation *find_in_era(const mem_store *store, int64_t id, int64_t era, ef_status *out,
                                   ef_error *err)
{
    mem_generation *g = mem_generation_find(store, id);

    *out = EF_OK;
    if (!g)
        *out = ef__generation_missing(id, err);
    else if (era && era != g->about.era)
        *out = ef__generation_moved(id, era, g->about.era, err);
    return *out == EF_OK ? g : NULL;
}

/* The texts of a generation are in its own memory, so another one takes its place. NULL: memory ran
 * out. */
static mem_generation *replace_program(mem_store *store, mem_generation *g,
                                       const ef__generation *with)
{
    mem_generation changed = *g, *made;

    changed.about.version = with->version;
    changed.about.program = with->program;
    changed.about.program_hash = with->program_hash;
    changed.about.schema = with->schema;
    changed.about.replaced = with->replaced;
    changed.about.superseded_us = with->superseded_us;
    made = mem_copy(sizeof changed, &ef__generation_texts, &changed);
    for (size_t i = 0; made && i < store->generations.count; i++)
        if (store->generations.items[i] == g)
            store->generations.items[i] = made;
    if (made)
        free(g);
    return made;
}

ef_status mem_generation_change(ef_views *views, int64_t id, int64_t era,
                                ef__generation_state state, const ef__generation *with,
                                ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    ef_status st;
    mem_generation *g = find_in_era(store, id, era, &st, err);

    if (!g)
        return st;
    if (with && !(g = replace_program(store, g, with)))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a generation");
    if (with || (g->about.state == EF__GENERATION_LIVE) != (state == EF__GENERATION_LIVE))
        store->live_set++;
    g->about.state = state;
    generation_changed(store, g);
    return EF_OK;
}

ef_status mem_generation_activate(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                  ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    ef_status st;
    mem_generation *g = find_in_era(store, id, era, &st, err);

    if (g)
        make_active(store, g, replaced);
    return st;
}

/* Up to `limit` rows, last ones first. Are there others? */
static bool cut_contents(mem_generation *g, int64_t limit)
{
    mem_list *lists[] = {&g->views, &g->watermarks, &g->tenants, &g->failures};

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (; limit > 0 && lists[i]->count; limit--)
            free(mem_list_remove(lists[i], lists[i]->count - 1));
    mem_follows_cut(g, &limit);
    return limit <= 0;
}

static void generation_free(mem_generation *g)
{
    (void)cut_contents(g, INT64_MAX);
    mem_list_release(&g->views);
    mem_list_release(&g->watermarks);
    mem_list_release(&g->tenants);
    mem_list_release(&g->failures);
    mem_list_release(&g->follows);
    free(g);
}

ef_status mem_generation_remove(ef_views *views, int64_t id, int64_t era, int64_t limit,
                                bool *out_more, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    ef_status st;
    mem_generation *g = find_in_era(store, id, era, &st, err);

    *out_more = false;
    if (!g)
        return st;
    if (g->about.active)
        return ef__generation_is_active(id, err);
    *out_more = cut_contents(g, limit);
    if (*out_more)
        return EF_OK;
    if (g->about.state == EF__GENERATION_LIVE)
        store->live_set++;
    for (size_t i = 0; i < store->generations.count; i++)
        if (store->generations.items[i] == g)
            (void)mem_list_remove(&store->generations, i);
    generation_free(g);
    return EF_OK;
}

/* --- projections ------------------------------------------------------------------------------ */

ef_status mem_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);

    (void)err;
    for (size_t i = 0; i < store->generations.count; i++) {
        mem_generation *g = store->generations.items[i];
        if (ef_str_equal(g->about.name, name))
            g->about.on_error = on_error;
    }
    return EF_OK;
}

typedef struct retired {
    ef_str name;
    int32_t version;
} retired;

static const ef__texts RETIRED = {1, {offsetof(retired, name)}};

ef_status mem_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                 ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);

    (void)err;
    *out = false;
    for (size_t i = 0; i < store->retired.count; i++) {
        const retired *r = store->retired.items[i];
        *out = *out || (r->version == version && ef_str_equal(r->name, name));
    }
    return EF_OK;
}

ef_status mem_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    retired *added = mem_copy(sizeof *added, &RETIRED, &(retired){name, version});
    bool has;
    ef_status st = mem_version_is_retired(views, name, version, &has, err);

    if (!added || !mem_list_reserve(&store->retired, 1))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out for a retired version");
    if (st == EF_OK && !has)
        mem_list_add(&store->retired, added);
    else
        free(added);
    return st;
}

/* --- opening and closing ---------------------------------------------------------------------- */

void mem_close(ef_views *views)
{
    mem_store *store = (mem_store *)views;

    for (size_t i = 0; i < store->generations.count; i++)
        generation_free(store->generations.items[i]);
    free(store->generations.items);
    mem_list_release(&store->fences);
    mem_list_release(&store->retired);
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}

ef_status ef__views_memory_open(const ef__views_options *options, ef_views **out, ef_error *err)
{
    mem_store *store;
    pthread_mutexattr_t again;

    if (options->read_only)
        return ef_fail(err, EF_NOT_FOUND,
                       "a view store in memory starts empty: there is none yet "
                       "that could be opened read-only");
    store = calloc(1, sizeof *store);
    if (!store)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a view store");
    store->base = (ef_views){.ops = &OPS, .clock = options->clock, .log = options->log};
    store->live_set = 1;
    (void)pthread_mutexattr_init(&again);
    (void)pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&store->lock, &again);
    (void)pthread_mutexattr_destroy(&again);
    *out = &store->base;
    return EF_OK;
}

static const ef__views_ops OPS = {.name = "memory", EF__VIEWS_EVERY(EF__VIEWS_SET, mem)};
