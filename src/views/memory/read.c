/*
 * read.c - reads views, watermarks, failures and fences. An index is built when it is read.
 */
#include "memory.h"

#include <stdlib.h>

ef_status mem_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                       ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    const mem_generation *g = mem_generation_find(store, generation);
    const mem_view *v = g ? mem_list_get(&g->views, tenant, id) : NULL;

    *out_found = v != NULL;
    if (v)
        *out = v->view;
    return !v || ef__texts_own(&ef__view_texts, out, arena)
               ? EF_OK
               : ef_fail(err, EF_NO_MEMORY, "memory ran out for a view");
}

/* --- scans ------------------------------------------------------------------------------------ */

typedef struct entry {
    ef_str key; /* "" for a scan of ids */
    const ef__view *view;
} entry;

/* The key of the view in the index; false when it has none. Scans of ids go by "". */
static bool key_in(const mem_view *v, int32_t index, ef_str *out)
{
    *out = (ef_str){"", 0};
    if (index < 0)
        return true;
    for (size_t i = 0; i < v->key_count; i++)
        if (v->keys[i].index == index) {
            *out = v->keys[i].key;
            return true;
        }
    return false;
}

static int compare_places(const entry *a, const entry *b)
{
    int order = ef__str_compare(a->key, b->key);

    if (order == 0)
        order = ef__str_compare(a->view->tenant, b->view->tenant);
    return order ? order : ef__str_compare(a->view->id, b->view->id);
}

static int compare_ascending(const void *a, const void *b)
{
    return compare_places(a, b);
}

static int compare_descending(const void *a, const void *b)
{
    return compare_places(b, a);
}

static bool in_bounds(const ef__view_scan *scan, const entry *e)
{
    ef_str value = scan->index < 0 ? e->view->id : e->key;
    int low = scan->has_low ? ef__str_compare(value, scan->low) : 1;
    int high = scan->has_high ? ef__str_compare(value, scan->high) : -1;

    if (scan->any_tenant)
        return true;
    return (scan->low_open ? low > 0 : low >= 0) && (scan->high_open ? high < 0 : high <= 0);
}

static bool is_behind(const ef__view_scan *scan, const entry *e)
{
    ef__view at = {.tenant = scan->any_tenant ? scan->after_tenant : scan->tenant,
                   .id = scan->after_id};
    entry after = {scan->index < 0 ? (ef_str){"", 0} : scan->after_key, &at};
    int order = compare_places(e, &after);

    if (!scan->has_after)
        return true;
    return scan->descending ? order < 0 : order > 0;
}

static entry *collect_entries(const mem_generation *g, const ef__view_scan *scan, size_t *out_count)
{
    entry *found = calloc(g->views.count + 1, sizeof *found);

    *out_count = 0;
    for (size_t i = 0; found && i < g->views.count; i++) {
        const mem_view *v = g->views.items[i];
        entry e = {.view = &v->view};
        bool mine = scan->any_tenant || ef_str_equal(v->view.tenant, scan->tenant);
        if (mine && key_in(v, scan->index, &e.key) && in_bounds(scan, &e) && is_behind(scan, &e))
            found[(*out_count)++] = e;
    }
    return found;
}

ef_status mem_view_scan(ef_views *views, const ef__view_scan *scan, ef__each_view *each,
                        void *context, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    const mem_generation *g = mem_generation_find(store, scan->generation);
    size_t count = 0;
    entry *found = g ? collect_entries(g, scan, &count) : NULL;

    if (!found)
        return g ? ef_fail(err, EF_NO_MEMORY, "memory ran out for a scan") : EF_OK;
    qsort(found, count, sizeof *found, scan->descending ? compare_descending : compare_ascending);
    for (size_t i = 0; i < count; i++)
        if (!each(context, found[i].key, found[i].view))
            break;
    free(found);
    return EF_OK;
}

/* --- watermarks, failures, fences ------------------------------------------------------------- */

ef_status mem_watermark_get(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                            ef__watermark *out, bool *out_found, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    const mem_generation *g = mem_generation_find(store, generation);
    const mem_watermark *w = g ? mem_list_get(&g->watermarks, tenant, stream) : NULL;

    (void)err;
    *out = w ? w->watermark : (ef__watermark){0};
    *out_found = w != NULL;
    return EF_OK;
}

ef_status mem_watermark_scan(ef_views *views, int64_t generation, ef__each_watermark *each,
                             void *context, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    const mem_generation *g = mem_generation_find(store, generation);
    bool more = true;

    (void)err;
    for (size_t i = 0; g && more && i < g->watermarks.count; i++) {
        const mem_watermark *w = g->watermarks.items[i];
        more = each(context, w->at.tenant, w->at.name, &w->watermark);
    }
    return EF_OK;
}

ef_status mem_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                                ef__tenant_cursor_item *out, bool *out_found, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    const mem_generation *g = mem_generation_find(store, generation);
    const ef__tenant_cursor_item *t = g ? mem_list_named(&g->tenants, tenant, NULL) : NULL;

    (void)err;
    *out_found = t != NULL;
    *out = t ? *t : (ef__tenant_cursor_item){0};
    out->tenant = tenant;
    return EF_OK;
}

static int by_due(const void *a, const void *b)
{
    const ef__tenant_cursor_item *x = a, *y = b;
    int64_t x_us = x->cursor.due_us, y_us = y->cursor.due_us;

    return x_us == y_us ? ef__str_compare(x->tenant, y->tenant) : (x_us > y_us) - (x_us < y_us);
}

ef_status mem_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                               ef__tenant_cursor_list *out, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    const mem_generation *g = mem_generation_find(store, generation);
    ef_status st = ef__list_prepare(out, err);

    for (size_t i = 0; g && st == EF_OK && i < g->tenants.count; i++) {
        const ef__tenant_cursor_item *t = g->tenants.items[i];
        if (t->cursor.due_us <= due_us)
            st = ef__list_add(out, t, &mem_tenant_texts, err);
    }
    if (out->count)
        qsort((void *)out->items, out->count, sizeof *out->items, by_due);
    out->count = out->count < limit ? out->count : limit;
    return st;
}

ef_status mem_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                         size_t limit, ef__failure_list *out, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    const mem_generation *g = mem_generation_find(store, generation);
    ef_status st = ef__list_prepare(out, err);

    for (size_t i = g ? g->failures.count : 0; st == EF_OK && i > 0 && out->count < limit; i--) {
        const ef__failure *f = g->failures.items[i - 1];
        if ((f->open || !open_only) && (!tenant || ef_str_equal(f->tenant, *tenant)))
            st = ef__list_add(out, f, &ef__failure_texts, err);
    }
    return st;
}

ef_status mem_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    const ef__fence *fence = mem_list_named(&store->fences, scope, NULL);

    (void)err;
    *out_token = fence ? fence->token : 0;
    return EF_OK;
}
