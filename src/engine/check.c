/*
 * check.c - are the views as they were written?
 *
 * A generation says how many views it has and what the sum of their digests is; both move with
 * every commit. Reading all views again must lead to the same. Every view has one entry in every
 * index, so entries are counted per tenant, for indexes are read by tenant.
 */
#include "engine_priv.h"

#include "../base/utf8.h"

#include <inttypes.h>
#include <stdio.h>

#define PROGRESS_EVERY 1000

typedef struct check {
    ef_engine *engine;
    const ef__generation *generation;
    bool (*progress)(void *context, int64_t done, int64_t total);
    void *context;
    int64_t total; /* views of all generations, as they say */
    bool stopped;
    ef_projection_check_result *result;
    /* of one generation */
    int64_t views;
    uint64_t sums[2];
    ef__buf tenant_room; /* the name of the tenant whose views are read */
    int64_t tenant_views;
    ef_status st;
    ef_error *err;
} check;

static bool tell(check *c)
{
    if (c->progress && c->result->views % PROGRESS_EVERY == 0)
        c->stopped = !c->progress(c->context, c->result->views, c->total);
    return !c->stopped;
}

static ef_status damaged(const check *c, const char *what, int64_t said, int64_t found)
{
    const ef__generation *g = c->generation;

    return ef_fail_numbers(c->err, EF_DAMAGED, said, found,
                           "projection \"%.*s\" version %" PRId32 " generation %" PRId32
                           ": %s: %" PRId64 " by its own account, %" PRId64 " were found",
                           EF_STR_ARG(g->name), g->version, g->number, what, said, found);
}

/* --- entries of indexes ----------------------------------------------------------------------- */

static bool count_entry(void *context, ef_str key, const ef__view *view)
{
    int64_t *count = context;

    (void)key;
    (void)view;
    (*count)++;
    return true;
}

static int32_t index_count(const ef__generation *g)
{
    int32_t count = g->index_paths.len > 0;

    for (size_t i = 0; i < g->index_paths.len; i++)
        count += g->index_paths.ptr[i] == ',';
    return count;
}

static ef_status check_indexes(check *c, ef_str tenant, int64_t views)
{
    for (int32_t i = 0; i < index_count(c->generation); i++) {
        int64_t entries = 0;
        ef_status st = c->engine->views->ops->view_scan(
            c->engine->views,
            &(ef__view_scan){.generation = c->generation->id, .tenant = tenant, .index = i},
            count_entry, &entries, c->err);
        if (st != EF_OK)
            return st;
        c->result->index_entries += entries;
        if (entries != views)
            return damaged(c, "entries of an index", views, entries);
    }
    return EF_OK;
}

/* --- views ------------------------------------------------------------------------------------ */

/* Views come by tenant: when the next tenant begins, the entries of the one before are counted. */
static void end_tenant(check *c)
{
    if (c->st == EF_OK && c->tenant_views > 0)
        c->st = check_indexes(c, ef__buf_str(&c->tenant_room), c->tenant_views);
    c->tenant_views = 0;
}

static void note_large(check *c, const ef__view *view)
{
    ef_projection_check_result *r = c->result;

    r->large_views++;
    if ((int64_t)view->data.len <= r->largest_bytes)
        return;
    r->largest_bytes = (int64_t)view->data.len;
    (void)snprintf(r->largest, sizeof r->largest, "%.*s %.*s", EF_STR_ARG(c->generation->name),
                   EF_STR_ARG(ef__utf8_cut(view->id, sizeof r->largest / 2)));
}

static bool check_view(void *context, ef_str key, const ef__view *view)
{
    check *c = context;
    uint64_t digest[2];

    (void)key;
    if (c->tenant_views == 0 || !ef_str_equal(ef__buf_str(&c->tenant_room), view->tenant)) {
        end_tenant(c);
        ef__buf_reset(&c->tenant_room);
        (void)ef__buf_add_str(&c->tenant_room, view->tenant);
    }
    ef__view_digest(view, digest);
    ef__digest_add(c->sums, digest);
    if (view->data.len >= EF__LARGE_VIEW_BYTES)
        note_large(c, view);
    c->tenant_views++;
    c->views++;
    c->result->views++;
    return c->st == EF_OK && tell(c);
}

static ef_status check_generation(check *c)
{
    uint8_t digest[EF__DIGEST_BYTES];
    ef_status st;

    c->views = c->tenant_views = 0;
    c->sums[0] = c->sums[1] = 0;
    c->st = EF_OK;
    st = c->engine->views->ops->view_scan(
        c->engine->views,
        &(ef__view_scan){.generation = c->generation->id, .any_tenant = true, .index = -1},
        check_view, c, c->err);
    if (st == EF_OK && !c->stopped)
        end_tenant(c);
    if (st != EF_OK || c->st != EF_OK || c->stopped)
        return st != EF_OK ? st : c->st;
    c->result->generations++;
    if (c->views != c->generation->views)
        return damaged(c, "views", c->generation->views, c->views);
    ef__digest_bytes(c->sums, digest);
    if (memcmp(digest, c->generation->digest, sizeof digest) != 0)
        return ef_fail(c->err, EF_DAMAGED,
                       "projection \"%.*s\" version %" PRId32 " generation %" PRId32
                       ": its views are not those that its digest speaks of",
                       EF_STR_ARG(c->generation->name), c->generation->version,
                       c->generation->number);
    return EF_OK;
}

/* --- all of them ------------------------------------------------------------------------------ */

static ef_status read_generation(const check *c, int64_t id, ef__generation_list *list,
                                 const ef__generation **out)
{
    ef_status st = ef__room_ready(&list->room, c->err);

    *out = NULL;
    if (st == EF_OK)
        st = c->engine->views->ops->generation_ls(c->engine->views, (ef_str){0}, list, c->err);
    for (size_t i = 0; st == EF_OK && i < list->count; i++)
        if (list->items[i].id == id && list->items[i].state != EF__GENERATION_RETIRED)
            *out = &list->items[i];
    return st;
}

/* What the generation says and its views are read one after the other. When they differ although
 * nobody has written between the two, it is damage; otherwise both are read again. */
static ef_status check_steady(check *c, int64_t id)
{
    ef__generation_list before = {0}, after = {0};
    const ef__generation *now;
    ef_status st = EF_OK;

    for (int tries = 0; tries < EF__ENGINE_START_OVER; tries++) {
        ef_projection_check_result result = *c->result;
        st = read_generation(c, id, &before, &c->generation);
        if (st != EF_OK || !c->generation) /* it is being removed */
            break;
        st = check_generation(c);
        if (st != EF_DAMAGED)
            break;
        st = read_generation(c, id, &after, &now);
        if (st != EF_OK || !now)
            break;
        if (now->era == c->generation->era &&
            memcmp(now->digest, c->generation->digest, sizeof now->digest) == 0) {
            st = EF_DAMAGED;
            break;
        }
        *c->result = result;
        st = ef_fail(c->err, EF_BUSY,
                     "projection \"%.*s\" is written to all the time: look again when its workers "
                     "rest",
                     EF_STR_ARG(now->name));
    }
    ef__room_release(&before.room);
    ef__room_release(&after.room);
    return st;
}

ef_status ef_projection_check(ef_engine *e,
                              bool (*progress)(void *context, int64_t done, int64_t total),
                              void *context, ef_projection_check_result *out, ef_error *err)
{
    ef__generation_list list = {0};
    check c = {.engine = e,
               .progress = progress,
               .context = context,
               .result = out,
               .tenant_room = EF__BUF_INIT(4096),
               .err = err};
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    *out = (ef_projection_check_result){0};
    st = ef__room_ready(&list.room, err);
    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, (ef_str){0}, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        c.total += list.items[i].views;
    for (size_t i = 0; st == EF_OK && i < list.count && !c.stopped; i++)
        st = check_steady(&c, list.items[i].id);
    ef__buf_release(&c.tenant_room);
    ef__room_release(&list.room);
    return st;
}
