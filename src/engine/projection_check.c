/*
 * projection_check.c - verifies that the views are as they were written.
 *
 * A generation stores the number of its views and the sum of their digests, updated in every
 * commit. Reading all views must give the same values. Every view has one entry in every index;
 * entries are counted per tenant, because indexes are read by tenant.
 */
#include "engine_priv.h"

#include "../base/utf8.h"

#include <inttypes.h>
#include <stdio.h>

#define PROGRESS_EVERY 1000

typedef struct check_state {
    ef_engine *engine;
    const ef__generation *generation;
    bool (*progress)(void *context, int64_t done, int64_t total);
    void *context;
    int64_t total; /* stored number of views of all generations */
    bool stopped;
    ef_projection_check_result *result;
    /* the current generation */
    int64_t views;
    uint64_t sums[2];
    ef__buf tenant_room; /* name of the current tenant */
    int64_t tenant_views;
    ef_status st;
    ef_error *err;
} check_state;

static bool report_progress(check_state *check)
{
    if (check->progress && check->result->views % PROGRESS_EVERY == 0)
        check->stopped = !check->progress(check->context, check->result->views, check->total);
    return !check->stopped;
}

static ef_status fail_damaged(const check_state *check, const char *what, int64_t recorded,
                              int64_t found)
{
    const ef__generation *generation = check->generation;

    return ef_fail_numbers(check->err, EF_DAMAGED, recorded, found,
                           "projection \"%.*s\" version %" PRId32 " generation %" PRId32
                           ": %s: %" PRId64 " recorded, %" PRId64 " found",
                           EF_STR_ARG(generation->name), generation->version, generation->number,
                           what, recorded, found);
}

/* --- index entries ---------------------------------------------------------------------------- */

static bool count_entry(void *context, ef_str key, const ef__view *view)
{
    int64_t *count = context;

    (void)key;
    (void)view;
    (*count)++;
    return true;
}

static int32_t index_count(const ef__generation *generation)
{
    int32_t count = generation->index_paths.len > 0;

    for (size_t i = 0; i < generation->index_paths.len; i++)
        count += generation->index_paths.ptr[i] == ',';
    return count;
}

static ef_status check_indexes(check_state *check, ef_str tenant, int64_t views)
{
    for (int32_t i = 0; i < index_count(check->generation); i++) {
        int64_t entries = 0;
        ef_status st = check->engine->views->ops->view_scan(
            check->engine->views,
            &(ef__view_scan){.generation = check->generation->id, .tenant = tenant, .index = i},
            count_entry, &entries, check->err);
        if (st != EF_OK)
            return st;
        check->result->index_entries += entries;
        if (entries != views)
            return fail_damaged(check, "entries of an index", views, entries);
    }
    return EF_OK;
}

/* --- views ------------------------------------------------------------------------------------ */

/* Views are sorted by tenant: at the start of the next tenant the index entries are compared. */
static void end_tenant(check_state *check)
{
    if (check->st == EF_OK && check->tenant_views > 0)
        check->st = check_indexes(check, ef__buf_str(&check->tenant_room), check->tenant_views);
    check->tenant_views = 0;
}

static void note_large(check_state *check, const ef__view *view)
{
    ef_projection_check_result *r = check->result;

    r->large_views++;
    if ((int64_t)view->data.len <= r->largest_bytes)
        return;
    r->largest_bytes = (int64_t)view->data.len;
    (void)snprintf(r->largest, sizeof r->largest, "%.*s %.*s", EF_STR_ARG(check->generation->name),
                   EF_STR_ARG(ef__utf8_cut(view->id, sizeof r->largest / 2)));
}

static bool check_view(void *context, ef_str key, const ef__view *view)
{
    check_state *check = context;
    uint64_t digest[2];

    (void)key;
    if (check->tenant_views == 0 || !ef_str_equal(ef__buf_str(&check->tenant_room), view->tenant)) {
        end_tenant(check);
        ef__buf_reset(&check->tenant_room);
        (void)ef__buf_add_str(&check->tenant_room, view->tenant);
    }
    ef__view_digest(view, digest);
    ef__digest_add(check->sums, digest);
    if (view->data.len >= EF__LARGE_VIEW_BYTES)
        note_large(check, view);
    check->tenant_views++;
    check->views++;
    check->result->views++;
    return check->st == EF_OK && report_progress(check);
}

static ef_status check_generation(check_state *check)
{
    uint8_t digest[EF__DIGEST_BYTES];
    ef_status st;

    check->views = check->tenant_views = 0;
    check->sums[0] = check->sums[1] = 0;
    check->st = EF_OK;
    st = check->engine->views->ops->view_scan(
        check->engine->views,
        &(ef__view_scan){.generation = check->generation->id, .any_tenant = true, .index = -1},
        check_view, check, check->err);
    if (st == EF_OK && !check->stopped)
        end_tenant(check);
    if (st != EF_OK || check->st != EF_OK || check->stopped)
        return st != EF_OK ? st : check->st;
    check->result->generations++;
    if (check->views != check->generation->views)
        return fail_damaged(check, "views", check->generation->views, check->views);
    ef__digest_bytes(check->sums, digest);
    if (memcmp(digest, check->generation->digest, sizeof digest) != 0)
        return ef_fail(check->err, EF_DAMAGED,
                       "projection \"%.*s\" version %" PRId32 " generation %" PRId32
                       ": the views do not match its digest",
                       EF_STR_ARG(check->generation->name), check->generation->version,
                       check->generation->number);
    return EF_OK;
}

/* --- all generations -------------------------------------------------------------------------- */

static ef_status read_generation(const check_state *check, int64_t id, ef__generation_list *list,
                                 const ef__generation **out)
{
    ef_status st = ef__engine_generations(check->engine, (ef_str){0}, list, check->err);

    *out = NULL;
    for (size_t i = 0; st == EF_OK && i < list->count; i++)
        if (list->items[i].id == id && list->items[i].state != EF__GENERATION_RETIRED)
            *out = &list->items[i];
    return st;
}

/* The record of the generation and its views are read one after the other. A difference is damage
 * only if the record did not change in between; otherwise both are read again. */
static ef_status check_unchanged(check_state *check, int64_t id)
{
    EF__AUTO(ef__generation_list) before = {0}, after = {0};
    const ef__generation *now;
    ef_status st = EF_OK;

    for (int tries = 0; tries < EF__ENGINE_RESTARTS_MAX; tries++) {
        ef_projection_check_result result = *check->result;
        st = read_generation(check, id, &before, &check->generation);
        if (st != EF_OK || !check->generation) /* removed meanwhile */
            break;
        st = check_generation(check);
        if (st != EF_DAMAGED)
            break;
        st = read_generation(check, id, &after, &now);
        if (st != EF_OK || !now)
            break;
        if (now->era == check->generation->era &&
            memcmp(now->digest, check->generation->digest, sizeof now->digest) == 0) {
            st = EF_DAMAGED;
            break;
        }
        *check->result = result;
        st = ef_fail(check->err, EF_BUSY,
                     "projection \"%.*s\" changed during every attempt to check it: check again "
                     "when its workers are idle",
                     EF_STR_ARG(now->name));
    }
    return st;
}

ef_status ef_projection_check(ef_engine *engine,
                              bool (*progress)(void *context, int64_t done, int64_t total),
                              void *context, ef_projection_check_result *out, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    check_state check = {.engine = engine,
                         .progress = progress,
                         .context = context,
                         .result = out,
                         .tenant_room = EF__BUF_INIT(4096),
                         .err = err};
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    *out = (ef_projection_check_result){0};
    st = ef__engine_generations(engine, (ef_str){0}, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        check.total += list.items[i].views;
    for (size_t i = 0; st == EF_OK && i < list.count && !check.stopped; i++)
        st = check_unchanged(&check, list.items[i].id);
    ef__buf_release(&check.tenant_room);
    return st;
}
