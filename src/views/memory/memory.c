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

ef_str mem_put(char **at, ef_str text)
{
    ef_str copy = {*at, text.len};

    if (text.len)
        memcpy(*at, text.ptr, text.len);
    *at += text.len;
    return copy;
}

/* --- finding ---------------------------------------------------------------------------------- */

mem_generation *mem_generation_find(mem_store *store, int64_t id)
{
    for (size_t i = 0; i < store->generations.count; i++) {
        mem_generation *g = store->generations.items[i];
        if (g->about.id == id)
            return g;
    }
    return NULL;
}

static int compare_pair(ef_str a1, ef_str a2, ef_str b1, ef_str b2)
{
    int order = ef__str_compare(a1, b1);

    return order ? order : ef__str_compare(a2, b2);
}

size_t mem_view_find(const mem_generation *g, ef_str tenant, ef_str id, bool *out_found)
{
    size_t low = 0, high = g->views.count;

    *out_found = false;
    while (low < high && !*out_found) {
        size_t middle = low + (high - low) / 2;
        const ef__view *v = &((mem_view *)g->views.items[middle])->view;
        int order = compare_pair(v->tenant, v->id, tenant, id);
        *out_found = order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return *out_found ? high : low;
}

size_t mem_watermark_find(const mem_generation *g, ef_str tenant, ef_str stream, bool *out_found)
{
    size_t low = 0, high = g->watermarks.count;

    *out_found = false;
    while (low < high && !*out_found) {
        size_t middle = low + (high - low) / 2;
        const mem_watermark *w = g->watermarks.items[middle];
        int order = compare_pair(w->tenant, w->stream, tenant, stream);
        *out_found = order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return *out_found ? high : low;
}

ef__tenant_cursor_item *mem_tenant_find(const mem_generation *g, ef_str tenant)
{
    for (size_t i = 0; i < g->tenants.count; i++) {
        ef__tenant_cursor_item *t = g->tenants.items[i];
        if (ef_str_equal(t->tenant, tenant))
            return t;
    }
    return NULL;
}

mem_fence *mem_fence_find(const mem_store *store, ef_str scope)
{
    for (size_t i = 0; i < store->fences.count; i++) {
        mem_fence *fence = store->fences.items[i];
        if (ef_str_equal(fence->scope, scope))
            return fence;
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

/* An empty one that has its own texts. NULL when memory ran out. */
static mem_generation *copy_about(const ef__generation *from)
{
    mem_generation *g =
        malloc(sizeof *g + from->name.len + from->program.len + from->index_paths.len);
    char *at = (char *)(g + 1);

    if (!g)
        return NULL;
    *g = (mem_generation){.about = *from};
    g->about.name = mem_put(&at, from->name);
    g->about.program = mem_put(&at, from->program);
    g->about.index_paths = mem_put(&at, from->index_paths);
    return g;
}

static mem_generation *generation_make(mem_store *store, const ef__generation *from)
{
    mem_generation *g = copy_about(from);

    if (!g)
        return NULL;
    g->about.number = 1;
    g->about.era = 1;
    g->about.active = false;
    g->about.replaced = 0;
    g->about.superseded_us = 0;
    g->about.applied = g->about.ignored = g->about.skipped = 0;
    g->about.own_cursors = g->about.own_lowest = g->about.own_waiting = 0;
    g->about.updated_us = mem_now_us(store);
    if (g->about.created_us == 0)
        g->about.created_us = g->about.updated_us;
    return g;
}

static ef_status add_generation(mem_store *store, const ef__generation *generation, int64_t *out_id,
                                ef_error *err)
{
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

static ef_status mem_generation_add(ef_views *views, const ef__generation *generation,
                                    int64_t *out_id, ef_error *err)
{
    mem_store *store = (mem_store *)views;
    ef_status st;

    pthread_mutex_lock(&store->lock);
    st = add_generation(store, generation, out_id, err);
    pthread_mutex_unlock(&store->lock);
    return st;
}

/* Counts and sums are computed on each call: tests compare the stored ones of other stores with
 * them. */
static bool describe_generation(const mem_generation *g, ef__arena *arena, ef__generation *out)
{
    uint64_t sums[2] = {0, 0}, one[2];

    for (size_t i = 0; i < g->views.count; i++) {
        ef__view_digest(&((const mem_view *)g->views.items[i])->view, one);
        ef__digest_add(sums, one);
    }
    *out = g->about;
    out->views = (int64_t)g->views.count;
    out->own_cursors = (int64_t)g->tenants.count;
    for (size_t i = 0; i < g->tenants.count; i++) {
        const ef__tenant_cursor *c = &((const ef__tenant_cursor_item *)g->tenants.items[i])->cursor;
        out->own_waiting += c->waiting;
        if (i == 0 || c->position < out->own_lowest)
            out->own_lowest = c->position;
    }
    ef__digest_bytes(sums, out->digest);
    out->name = ef__arena_copy(arena, g->about.name);
    out->program = ef__arena_copy(arena, g->about.program);
    out->index_paths = ef__arena_copy(arena, g->about.index_paths);
    return out->name.ptr && out->program.ptr && out->index_paths.ptr;
}

static ef_status list_generations(mem_store *store, ef_str only_name, ef__generation_list *out,
                                  ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__generation *items = ef__arena_zalloc(arena, store->generations.count + 1, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    out->items = items;
    for (size_t i = 0; i < store->generations.count; i++) {
        const mem_generation *g = store->generations.items[i];
        if (only_name.len && !ef_str_equal(only_name, g->about.name))
            continue;
        if (!describe_generation(g, arena, &items[out->count]))
            return ef__no_memory(err);
        out->count++;
    }
    return EF_OK;
}

static ef_status mem_generation_ls(ef_views *views, ef_str only_name, ef__generation_list *out,
                                   ef_error *err)
{
    mem_store *store = (mem_store *)views;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    if (st != EF_OK)
        return st;
    pthread_mutex_lock(&store->lock);
    st = list_generations(store, only_name, out, err);
    pthread_mutex_unlock(&store->lock);
    return st;
}

/* The generation in the era that was read; 0: in any. NULL, and why in *out. */
static mem_generation *find_in_era(mem_store *store, int64_t id, int64_t era, ef_status *out,
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

static ef_status mem_generation_set_state(ef_views *views, int64_t id, int64_t era,
                                          ef__generation_state state, ef_error *err)
{
    mem_store *store = (mem_store *)views;
    mem_generation *g;
    ef_status st;

    pthread_mutex_lock(&store->lock);
    g = find_in_era(store, id, era, &st, err);
    if (g) {
        if ((g->about.state == EF__GENERATION_LIVE) != (state == EF__GENERATION_LIVE))
            store->live_set++;
        g->about.state = state;
        generation_changed(store, g);
    }
    pthread_mutex_unlock(&store->lock);
    return st;
}

static ef_status mem_generation_activate(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                         ef_error *err)
{
    mem_store *store = (mem_store *)views;
    mem_generation *g;
    ef_status st;

    pthread_mutex_lock(&store->lock);
    g = find_in_era(store, id, era, &st, err);
    if (g)
        make_active(store, g, replaced);
    pthread_mutex_unlock(&store->lock);
    return st;
}

/* Its texts are in its own memory, so another one takes its place. */
static ef_status replace_program(mem_store *store, mem_generation *g, const ef__generation *with,
                                 ef_error *err)
{
    ef__generation about = g->about;
    mem_generation *made;

    about.version = with->version;
    about.program = with->program;
    about.program_hash = with->program_hash;
    about.schema = with->schema;
    about.state = with->state;
    about.replaced = with->replaced;
    about.superseded_us = with->superseded_us;
    made = copy_about(&about);
    if (!made)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a generation");
    made->views = g->views;
    made->watermarks = g->watermarks;
    made->tenants = g->tenants;
    made->failures = g->failures;
    made->follows = g->follows;
    made->follow_floor = g->follow_floor;
    for (size_t i = 0; i < store->generations.count; i++)
        if (store->generations.items[i] == g)
            store->generations.items[i] = made;
    free(g);
    generation_changed(store, made);
    store->live_set++;
    return EF_OK;
}

static ef_status mem_generation_replace(ef_views *views, int64_t id, int64_t era,
                                        const ef__generation *with, ef_error *err)
{
    mem_store *store = (mem_store *)views;
    mem_generation *g;
    ef_status st;

    pthread_mutex_lock(&store->lock);
    g = find_in_era(store, id, era, &st, err);
    if (g)
        st = replace_program(store, g, with, err);
    pthread_mutex_unlock(&store->lock);
    return st;
}

static void release_contents(mem_generation *g)
{
    mem_list_release(&g->views);
    mem_list_release(&g->watermarks);
    mem_list_release(&g->tenants);
    mem_list_release(&g->failures);
    mem_follows_release(g);
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

static ef_status remove_generation(mem_store *store, int64_t id, int64_t era, int64_t limit,
                                   bool *out_more, ef_error *err)
{
    ef_status st;
    mem_generation *g = find_in_era(store, id, era, &st, err);

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
    release_contents(g);
    free(g);
    return EF_OK;
}

static ef_status mem_generation_remove(ef_views *views, int64_t id, int64_t era, int64_t limit,
                                       bool *out_more, ef_error *err)
{
    mem_store *store = (mem_store *)views;
    ef_status st;

    *out_more = false;
    pthread_mutex_lock(&store->lock);
    st = remove_generation(store, id, era, limit, out_more, err);
    pthread_mutex_unlock(&store->lock);
    return st;
}

/* --- projections ------------------------------------------------------------------------------ */

static ef_status mem_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err)
{
    mem_store *store = (mem_store *)views;

    (void)err;
    pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < store->generations.count; i++) {
        mem_generation *g = store->generations.items[i];
        if (ef_str_equal(g->about.name, name))
            g->about.on_error = on_error;
    }
    pthread_mutex_unlock(&store->lock);
    return EF_OK;
}

static bool has_retired(const mem_store *store, ef_str name, int32_t version)
{
    for (size_t i = 0; i < store->retired.count; i++) {
        const mem_retired *r = store->retired.items[i];
        if (r->version == version && ef_str_equal(r->name, name))
            return true;
    }
    return false;
}

static ef_status mem_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err)
{
    mem_store *store = (mem_store *)views;
    mem_retired *added = malloc(sizeof *added + name.len);
    char *at = (char *)(added + 1);
    ef_status st = EF_OK;

    pthread_mutex_lock(&store->lock);
    if (!added || !mem_list_reserve(&store->retired, 1)) {
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out for a retired version");
    } else if (!has_retired(store, name, version)) {
        *added = (mem_retired){mem_put(&at, name), version};
        mem_list_insert(&store->retired, store->retired.count, added);
        added = NULL;
    }
    pthread_mutex_unlock(&store->lock);
    free(added);
    return st;
}

static ef_status mem_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                        ef_error *err)
{
    mem_store *store = (mem_store *)views;

    (void)err;
    pthread_mutex_lock(&store->lock);
    *out = has_retired(store, name, version);
    pthread_mutex_unlock(&store->lock);
    return EF_OK;
}

static ef_status mem_live_set_get(ef_views *views, int64_t *out, ef_error *err)
{
    mem_store *store = (mem_store *)views;

    (void)err;
    pthread_mutex_lock(&store->lock);
    *out = store->live_set;
    pthread_mutex_unlock(&store->lock);
    return EF_OK;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void mem_close(ef_views *views)
{
    mem_store *store = (mem_store *)views;

    for (size_t i = 0; i < store->generations.count; i++)
        release_contents(store->generations.items[i]);
    mem_list_release(&store->generations);
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

static const ef__views_ops OPS = {
    .name = "memory",
    .close = mem_close,
    .generation_add = mem_generation_add,
    .generation_ls = mem_generation_ls,
    .generation_set_state = mem_generation_set_state,
    .generation_activate = mem_generation_activate,
    .generation_replace = mem_generation_replace,
    .generation_remove = mem_generation_remove,
    .on_error_set = mem_on_error_set,
    .version_retire = mem_version_retire,
    .version_is_retired = mem_version_is_retired,
    .commit = mem_commit,
    .follow = mem_follow_begin,
    .change_ls = mem_change_ls,
    .view_get = mem_view_get,
    .view_scan = mem_view_scan,
    .watermark_get = mem_watermark_get,
    .watermark_scan = mem_watermark_scan,
    .tenant_cursor_get = mem_tenant_cursor_get,
    .tenant_cursor_ls = mem_tenant_cursor_ls,
    .failure_ls = mem_failure_ls,
    .fence_get = mem_fence_get,
    .live_set_get = mem_live_set_get,
};
