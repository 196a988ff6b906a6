/*
 * generation_diff.c - compares the views of two generations.
 *
 * One page of one side is in memory at a time, and each of its views is read on the other side;
 * then the other side is scanned for views that only it has. So memory is bounded, and no read
 * transaction lasts longer than a page.
 *
 * Views change meanwhile. Two live queue-fed generations change in the same transaction: if a view
 * is equal before and after the other side was read, both reads show the same moment. Log-ordered
 * ones have a cursor each: both cursors must be equal for the view's tenant, before and after.
 */
#include "lag.h"
#include "scope.h"
#include "run.h"

#include <inttypes.h>
#include <stdlib.h>

#define PAGE_VIEWS 500
#define PAGE_BYTES (64ul << 20)
#define READS_MAX 20

typedef struct view_diff {
    ef_engine *engine;
    int64_t left, right;
    ef_str name;
    bool has_cursors; /* both are log-ordered: each has its own cursor */
    ef__difference_fn *each;
    void *context;
    ef_diff *out;
    bool stop;
    ef__arena arena; /* of the current view */
} view_diff;

typedef struct view_page {
    ef__arena arena;
    ef__view views[PAGE_VIEWS];
    size_t count;
    bool full; /* memory ran out: the next page starts here */
    ef__scan_place place;
} view_page;

static bool views_equal(bool a_found, const ef__view *a, bool b_found, const ef__view *b)
{
    if (!a_found || !b_found)
        return a_found == b_found;
    return a->schema == b->schema && ef_str_equal(a->data, b->data);
}

/* One of the two generations, for the tenant of a view. */
typedef struct side {
    int32_t version, number; /* 0: it was removed */
    int64_t position;
    bool blocked; /* the tenant is blocked there */
} side;

static ef_status read_sides(view_diff *comparison, ef_str tenant, bool with_lag, side out[2],
                            ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef_status st = ef__generations_read(comparison->engine, comparison->name, &list, err);

    out[0] = (side){.position = -1};
    out[1] = (side){.position = -2}; /* so that it differs from the other one */
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *generation = &list.items[i];
        side *to = &out[generation->id == comparison->right];
        ef__lag lag = {0};
        if (generation->id != comparison->left && generation->id != comparison->right)
            continue;
        to->version = generation->version;
        to->number = generation->number;
        st = ef__engine_as_of(comparison->engine, generation, &tenant, &to->position, err);
        if (st == EF_OK && with_lag)
            st = ef__lag_read(comparison->engine, generation, &tenant, false, &lag, err);
        to->blocked = lag.blocked_streams > 0;
    }
    return st;
}

/* Are both at the same position, and at `*position` unless it is 0? Then reads since that position
 * was read show one moment. */
static ef_status is_one_moment(view_diff *comparison, ef_str tenant, int64_t *position, bool *out,
                               ef_error *err)
{
    side sides[2];
    ef_status st;

    *out = true;
    if (!comparison->has_cursors)
        return EF_OK;
    st = read_sides(comparison, tenant, false, sides, err);
    *out = st == EF_OK && sides[0].position == sides[1].position &&
           (!*position || *position == sides[0].position);
    *position = sides[0].position;
    return st;
}

/* --- why a view could not be compared --------------------------------------------------------- */

static ef_status fail_behind(const view_diff *comparison, ef_str tenant, const side *behind,
                             const side *ahead, ef_error *err)
{
    return ef_fail_numbers(
        err, behind->blocked ? EF_BLOCKED : EF_BUSY, ahead->position, behind->position,
        "version %d (generation %d) of projection \"%.*s\" is at position %" PRId64
        " for tenant \"%.*s\", version %d (generation %d) at %" PRId64 ": %" PRId64
        " position%s behind; %s",
        (int)behind->version, (int)behind->number, EF_STR_ARG(comparison->name), behind->position,
        EF_STR_ARG(tenant), (int)ahead->version, (int)ahead->number, ahead->position,
        ahead->position - behind->position, ahead->position - behind->position == 1 ? "" : "s",
        behind->blocked ? "an event that failed blocks it: requeue or skip the event"
                        : "compare again when it has caught up");
}

static ef_status fail_unsettled(view_diff *comparison, const ef__view *view, ef_error *err)
{
    side sides[2];
    ef_status st = read_sides(comparison, view->tenant, true, sides, err);

    if (st != EF_OK)
        return st;
    if (sides[0].number && sides[1].number && sides[0].position != sides[1].position) {
        bool left = sides[0].position < sides[1].position;
        return fail_behind(comparison, view->tenant, &sides[!left], &sides[left], err);
    }
    return ef_fail(err, EF_BUSY, "view \"%.*s\" changed %d times while it was compared",
                   EF_STR_ARG(view->id), READS_MAX);
}

/* Reads both sides of a view at one moment. */
static ef_status read_both_sides(view_diff *comparison, const ef__view *at, ef__view *left,
                                 bool *left_found, ef__view *right, bool *right_found,
                                 ef_error *err)
{
    ef_views *views = comparison->engine->views;
    ef__view again = {0};
    bool found = false, settled = false;
    ef_status st = EF_OK;

    for (int i = 0; st == EF_OK && i < READS_MAX; i++) {
        int64_t position = 0;
        st = is_one_moment(comparison, at->tenant, &position, &settled, err);
        if (st != EF_OK || !settled)
            continue;
        ef__arena_reset(&comparison->arena);
        st = views->ops->view_get(views, comparison->left, at->tenant, at->id, &comparison->arena,
                                  left, left_found, err);
        if (st == EF_OK)
            st = views->ops->view_get(views, comparison->right, at->tenant, at->id,
                                      &comparison->arena, right, right_found, err);
        if (st == EF_OK)
            st = views->ops->view_get(views, comparison->left, at->tenant, at->id,
                                      &comparison->arena, &again, &found, err);
        if (st == EF_OK)
            st = is_one_moment(comparison, at->tenant, &position, &settled, err);
        if (st == EF_OK && settled && views_equal(*left_found, left, found, &again) &&
            (!found || left->last_position == again.last_position))
            return EF_OK;
    }
    return st != EF_OK || !comparison->has_cursors ? st : fail_unsettled(comparison, at, err);
}

static ef_status compare_view(view_diff *comparison, const ef__view *at, ef_error *err)
{
    ef__view left = {0}, right = {0};
    bool in_left, in_right;
    ef_status st = read_both_sides(comparison, at, &left, &in_left, &right, &in_right, err);

    if (st != EF_OK || views_equal(in_left, &left, in_right, &right))
        return st;
    comparison->out->different += in_left && in_right;
    comparison->out->left_only += in_left && !in_right;
    comparison->out->right_only += !in_left && in_right;
    if (comparison->each)
        comparison->stop = !comparison->each(
            comparison->context, &(ef_difference){.tenant = at->tenant,
                                                  .view_id = at->id,
                                                  .left = in_left ? left.data : (ef_str){0},
                                                  .right = in_right ? right.data : (ef_str){0}});
    return EF_OK;
}

/* --- pages ------------------------------------------------------------------------------------ */

static bool add_to_page(void *context, ef_str key, const ef__view *view)
{
    view_page *page = context;
    ef__view *kept = &page->views[page->count];

    (void)key;
    *kept = *view;
    page->full =
        ef__arena_own(&page->arena, NULL, &kept->tenant, &kept->id, &kept->data, NULL) != EF_OK;
    return !page->full && ++page->count < PAGE_VIEWS;
}

static ef_status compare_page(view_diff *comparison, const view_page *page, bool left_side,
                              ef_error *err)
{
    ef_views *views = comparison->engine->views;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && !comparison->stop && i < page->count; i++) {
        ef__view other;
        bool found;
        ef__arena_reset(&comparison->arena);
        st = views->ops->view_get(views, left_side ? comparison->right : comparison->left,
                                  page->views[i].tenant, page->views[i].id, &comparison->arena,
                                  &other, &found, err);
        if (st != EF_OK)
            break;
        comparison->out->views += left_side || !found;
        if (left_side ? !views_equal(true, &page->views[i], found, &other) : !found)
            st = compare_view(comparison, &page->views[i], err);
    }
    return st;
}

static ef_status compare_side(view_diff *comparison, bool left_side, view_page *page, ef_error *err)
{
    ef_views *views = comparison->engine->views;
    ef__scan_place *place = &page->place;
    bool more = true;
    ef_status st = EF_OK;

    *place = (ef__scan_place){0};
    while (st == EF_OK && more && !comparison->stop) {
        ef__arena_reset(&page->arena);
        page->count = 0;
        page->full = false;
        st = views->ops->view_scan(
            views, &EF__SCAN_FROM(left_side ? comparison->left : comparison->right, place),
            add_to_page, page, err);
        more = page->count == PAGE_VIEWS || page->full;
        if (st == EF_OK && page->full && page->count == 0)
            st = ef_fail(err, EF_NO_MEMORY, "memory ran out while comparing views");
        if (st == EF_OK)
            st = compare_page(comparison, page, left_side, err);
        if (page->count)
            ef__scan_place_move(place, &page->views[page->count - 1]);
    }
    return st;
}

static bool follows_log(const ef__generation *generation)
{
    return generation->by_log && generation->state == EF__GENERATION_LIVE;
}

ef_status ef__generations_compare(ef_engine *engine, const ef__generation *left,
                                  const ef__generation *right, ef__difference_fn *each,
                                  void *context, ef_diff *out, ef_error *err)
{
    view_diff comparison = {.engine = engine,
                            .left = left->id,
                            .right = right->id,
                            .name = left->name,
                            .has_cursors = follows_log(left) && follows_log(right),
                            .each = each,
                            .context = context,
                            .out = out,
                            .arena = EF__ARENA_INIT(PAGE_BYTES)};
    view_page *page = malloc(sizeof *page);
    ef_status st;

    *out = (ef_diff){0};
    if (!page)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while comparing views");
    page->arena = (ef__arena)EF__ARENA_INIT(PAGE_BYTES);
    st = compare_side(&comparison, true, page, err);
    if (st == EF_OK && !comparison.stop)
        st = compare_side(&comparison, false, page, err);
    ef__arena_release(&page->arena);
    ef__arena_release(&comparison.arena);
    free(page);
    return st;
}
