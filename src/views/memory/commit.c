/*
 * commit.c - commits all changes or none, in three steps: compare with what was read, allocate all
 * memory, then change. The last step cannot fail.
 */
#include "memory.h"

#include "../compare.h"

#include <stdlib.h>

/* --- look ------------------------------------------------------------------------------------- */

static ef_status check_fence(const mem_store *store, const ef__fence *fence, ef_error *err)
{
    const ef__fence *seen = mem_list_named(&store->fences, fence->scope, NULL);

    return ef__fence_compare(fence, seen ? seen->token : 0, err);
}

static ef_status check_watermark(const mem_generation *g, const ef__watermark_change *change,
                                 ef_error *err)
{
    const mem_watermark *w = mem_list_get(&g->watermarks, change->tenant, change->stream);

    return ef__watermark_compare(change, w ? &w->watermark : &(ef__watermark){0}, err);
}

static ef_status check_view(const mem_generation *g, const ef__view_change *change, ef_error *err)
{
    const mem_view *v = mem_list_get(&g->views, change->view.tenant, change->view.id);
    uint64_t is[2] = {0, 0};

    if (v)
        ef__view_digest(&v->view, is);
    return ef__view_compare(change, is, err);
}

static ef_status check_tenant(const mem_generation *g, const ef__tenant_cursor_change *change,
                              ef_error *err)
{
    const ef__tenant_cursor_item *t = mem_list_named(&g->tenants, change->tenant, NULL);
    ef__tenant_cursor is = t ? t->cursor : (ef__tenant_cursor){0};

    return ef__tenant_cursor_equal(&is, &change->before)
               ? EF_OK
               : ef__tenant_cursor_moved(change->tenant, err);
}

static ef_status check_generation(mem_store *store, const ef__generation_change *change,
                                  ef_error *err)
{
    const mem_generation *g = mem_generation_find(store, change->generation);
    ef_status st = ef__era_compare(change, g != NULL, g ? g->about.era : 0, err);

    if (st == EF_OK)
        st = ef__cursor_compare(change, g->about.position, err);
    for (size_t i = 0; st == EF_OK && i < change->watermark_count; i++)
        st = check_watermark(g, &change->watermarks[i], err);
    for (size_t i = 0; st == EF_OK && i < change->view_count; i++)
        st = check_view(g, &change->views[i], err);
    for (size_t i = 0; st == EF_OK && i < change->tenant_count; i++)
        st = check_tenant(g, &change->tenants[i], err);
    return st;
}

/* *out_head is only read if a generation is about to go live; otherwise -1. */
static ef_status check_all(mem_store *store, const ef__views_commit *commit, int64_t *out_head,
                           ef_error *err)
{
    bool wanted = false;
    ef_status st = EF_OK;

    *out_head = -1;
    for (size_t i = 0; st == EF_OK && i < commit->fence_count; i++)
        st = check_fence(store, &commit->fences[i], err);
    if (st == EF_OK)
        st = ef__live_set_compare(commit->live_set, store->live_set, err);
    for (size_t i = 0; st == EF_OK && i < commit->generation_count; i++) {
        st = check_generation(store, &commit->generations[i], err);
        wanted = wanted || commit->generations[i].go_live;
    }
    return st == EF_OK && wanted ? ef__commit_head(commit, out_head, err) : st;
}

/* --- make ------------------------------------------------------------------------------------- */

static mem_view *view_make(const ef__view_change *change)
{
    const ef__view *from = &change->view;
    size_t bytes = from->tenant.len + from->id.len + from->data.len;
    mem_view *v;
    char *at;

    for (size_t i = 0; i < change->key_count; i++)
        bytes += change->keys[i].key.len;
    v = malloc(sizeof *v + change->key_count * sizeof v->keys[0] + bytes);
    if (!v)
        return NULL;
    at = (char *)&v->keys[change->key_count];
    v->view = *from;
    v->view.tenant = mem_put(&at, from->tenant);
    v->view.id = mem_put(&at, from->id);
    v->view.data = mem_put(&at, from->data);
    v->at = (ef__view_key){v->view.tenant, v->view.id};
    ef__view_digest(from, v->view.digest);
    v->key_count = change->key_count;
    for (size_t i = 0; i < change->key_count; i++)
        v->keys[i] = (ef__index_key){change->keys[i].index, mem_put(&at, change->keys[i].key)};
    return v;
}

static const ef__texts WATERMARK = {
    2, {offsetof(mem_watermark, at.tenant), offsetof(mem_watermark, at.name)}};
const ef__texts mem_tenant_texts = {1, {offsetof(ef__tenant_cursor_item, tenant)}};
static const ef__texts FENCE = {1, {offsetof(ef__fence, scope)}};

/* Allocated items in the order of the commit; removed one by one from the front. */
typedef struct made {
    mem_list items;
    size_t next;
} made;

static bool made_add(made *m, void *item)
{
    if (item && mem_list_reserve(&m->items, 1)) {
        mem_list_add(&m->items, item);
        return true;
    }
    free(item);
    return false;
}

static void *made_next(made *m)
{
    void *item = m->items.items[m->next];

    m->items.items[m->next++] = NULL; /* free(NULL) when the list is released */
    return item;
}

/* Of the changes that are recorded, in their order. */
static mem_follow_row *follow_of(const mem_generation *g, const ef__view_change *change)
{
    return g->follows.count == 0 || ef__view_change_is_nothing(change)
               ? NULL
               : mem_list_named(&g->follows, change->view.tenant, NULL);
}

static bool make_records(mem_generation *g, const ef__generation_change *change, made *m)
{
    bool ok = true;

    for (size_t i = 0; ok && i < g->follows.count; i++)
        ok =
            mem_list_reserve(&((mem_follow_row *)g->follows.items[i])->records, change->view_count);
    for (size_t i = 0; ok && i < change->view_count; i++)
        if (follow_of(g, &change->views[i]))
            ok = made_add(m, mem_record_make(&change->views[i]));
    return ok;
}

static bool make_generation(mem_store *store, const ef__generation_change *change, made *m)
{
    mem_generation *g = mem_generation_find(store, change->generation);
    bool ok = mem_list_reserve(&g->views, change->view_count) &&
              mem_list_reserve(&g->watermarks, change->watermark_count) &&
              mem_list_reserve(&g->tenants, change->tenant_count) &&
              mem_list_reserve(&g->failures, change->failure_count);

    for (size_t i = 0; ok && i < change->watermark_count; i++) {
        const ef__watermark_change *c = &change->watermarks[i];
        mem_watermark w = {{c->tenant, c->stream}, c->after};
        ok = made_add(m, mem_copy(sizeof w, &WATERMARK, &w));
    }
    for (size_t i = 0; ok && i < change->view_count; i++)
        ok = change->views[i].deleted || made_add(m, view_make(&change->views[i]));
    for (size_t i = 0; ok && i < change->tenant_count; i++) {
        const ef__tenant_cursor_change *c = &change->tenants[i];
        ef__tenant_cursor_item t = {c->tenant, c->after, 0};
        ok = made_add(m, mem_copy(sizeof t, &mem_tenant_texts, &t));
    }
    for (size_t i = 0; ok && i < change->failure_count; i++)
        ok = made_add(m, mem_copy(sizeof(ef__failure), &ef__failure_texts, &change->failures[i]));
    return ok && make_records(g, change, m);
}

static bool make_all(mem_store *store, const ef__views_commit *commit, made *m)
{
    bool ok = mem_list_reserve(&store->fences, commit->fence_count);

    for (size_t i = 0; ok && i < commit->fence_count; i++)
        ok = made_add(m, mem_copy(sizeof(ef__fence), &FENCE, &commit->fences[i]));
    for (size_t i = 0; ok && i < commit->generation_count; i++)
        ok = make_generation(store, &commit->generations[i], m);
    return ok;
}

/* --- change ----------------------------------------------------------------------------------- */

static void put_fence(mem_store *store, ef__fence *fence)
{
    ef__fence *seen = mem_list_named(&store->fences, fence->scope, NULL);

    if (seen)
        seen->token = fence->token;
    if (seen || fence->scope.len == 0)
        free(fence);
    else
        mem_list_add(&store->fences, fence);
}

/* In a list by tenant and name; NULL: only removes. */
static void put_item(mem_list *list, ef_str tenant, ef_str name, void *item)
{
    bool found;
    size_t at = mem_list_find(list, tenant, name, &found);

    if (found)
        free(mem_list_remove(list, at));
    if (item)
        mem_list_insert(list, at, item);
}

/* The cursor of the generation has been moved. */
static void put_tenant(mem_store *store, mem_generation *g, ef__tenant_cursor_item *t)
{
    size_t at;

    if (mem_list_named(&g->tenants, t->tenant, &at))
        free(mem_list_remove(&g->tenants, at));
    t->updated_us = mem_now_us(store);
    if (t->cursor.position == g->about.position)
        free(t);
    else
        mem_list_add(&g->tenants, t);
}

static void put_failure(mem_store *store, mem_generation *g, ef__failure *f)
{
    f->generation = g->about.id;
    f->open = true;
    f->attempts = 1;
    f->resolved_us = 0;
    f->recorded_us = mem_now_us(store);
    for (size_t i = 0; i < g->failures.count; i++) {
        ef__failure *old = g->failures.items[i];
        if (old->open && old->seq == f->seq && ef_str_equal(old->tenant, f->tenant) &&
            ef_str_equal(old->stream, f->stream)) {
            f->id = old->id;
            f->attempts = old->attempts + 1;
            f->recorded_us = old->recorded_us;
            g->failures.items[i] = f;
            free(old);
            return;
        }
    }
    f->id = ++store->last_failure;
    mem_list_add(&g->failures, f);
}

static void resolve_failures(mem_store *store, mem_generation *g,
                             const ef__watermark_change *change)
{
    for (size_t i = 0; i < g->failures.count; i++) {
        ef__failure *f = g->failures.items[i];
        if (f->open && f->seq >= change->before.expected_next_seq &&
            f->seq < change->after.expected_next_seq && ef_str_equal(f->tenant, change->tenant) &&
            ef_str_equal(f->stream, change->stream)) {
            f->open = false;
            f->resolved_us = mem_now_us(store);
        }
    }
}

static bool put_generation(mem_store *store, const ef__generation_change *change, int64_t head,
                           made *m)
{
    mem_generation *g = mem_generation_find(store, change->generation);

    for (size_t i = 0; i < change->watermark_count; i++)
        put_item(&g->watermarks, change->watermarks[i].tenant, change->watermarks[i].stream,
                 made_next(m));
    for (size_t i = 0; i < change->view_count; i++) {
        const ef__view_change *c = &change->views[i];
        if (!ef__view_change_is_nothing(c))
            put_item(&g->views, c->view.tenant, c->view.id, c->deleted ? NULL : made_next(m));
    }
    if (change->cursor_after != 0)
        g->about.position = change->cursor_after;
    for (size_t i = 0; i < change->tenant_count; i++)
        put_tenant(store, g, made_next(m));
    for (size_t i = 0; i < change->failure_count; i++)
        put_failure(store, g, made_next(m));
    for (size_t i = 0; i < change->view_count; i++) {
        mem_follow_row *follow = follow_of(g, &change->views[i]);
        if (follow)
            mem_record_put(store, follow, made_next(m));
    }
    mem_records_tidy(store, g);
    for (size_t i = 0; i < change->watermark_count; i++)
        resolve_failures(store, g, &change->watermarks[i]);
    g->about.applied += change->applied;
    g->about.ignored += change->ignored;
    g->about.skipped += change->skipped;
    g->about.updated_us = mem_now_us(store);
    if (!change->go_live || head != g->about.position)
        return false;
    g->about.state = EF__GENERATION_LIVE;
    g->about.seam = g->about.position;
    g->about.era++;
    store->live_set++;
    return true;
}

static bool put_all(mem_store *store, const ef__views_commit *commit, int64_t head, made *m)
{
    bool live = false;

    for (size_t i = 0; i < commit->fence_count; i++)
        put_fence(store, made_next(m));
    for (size_t i = 0; i < commit->generation_count; i++)
        if (put_generation(store, &commit->generations[i], head, m))
            live = true;
    return live;
}

ef_status mem_commit(ef_views *views, const ef__views_commit *commit, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    made m = {0};
    int64_t head;
    bool live = false;
    ef_status st = check_all(store, commit, &head, err);

    if (st == EF_OK && !make_all(store, commit, &m))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out for a commit");
    if (st == EF_OK)
        live = put_all(store, commit, head, &m);
    mem_list_release(&m.items);
    if (commit->out_live)
        *commit->out_live = live;
    return st;
}
