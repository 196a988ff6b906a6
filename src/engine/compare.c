/*
 * compare.c - the views of two generations, side by side.
 *
 * A page of one side at a time is held, and each view of it is looked up on the other; then the
 * other side is gone through for what only it has. So memory is bounded, and no read transaction
 * lasts longer than a page.
 *
 * Views change meanwhile. Two live generations change together, in one transaction: a view that was
 * the same before and after the other side was read belongs to what was read there. Those in the
 * order of the log have a cursor each: there both must stand at the same place for the view's
 * tenant, before and after.
 */
#include "lag.h"
#include "run.h"

#include <inttypes.h>
#include <stdlib.h>

#define PAGE_VIEWS 500
#define PAGE_BYTES (64ul << 20)
#define LOOKS 20

typedef struct comparing {
    ef_engine *engine;
    int64_t left, right;
    ef_str name;
    bool apart; /* each goes by a cursor of its own */
    ef__differs *each;
    void *context;
    ef_diff *out;
    bool stop;
    ef__arena arena; /* of the views at hand */
} comparing;

typedef struct page {
    ef__arena arena;
    ef__view views[PAGE_VIEWS];
    size_t count;
    bool full; /* of memory */
} page;

static bool same(bool a_found, const ef__view *a, bool b_found, const ef__view *b)
{
    if (!a_found || !b_found)
        return a_found == b_found;
    return a->schema == b->schema && ef_str_equal(a->data, b->data);
}

/* Where the two are in the events of a tenant. */
static ef_status read_places(comparing *c, ef_str tenant, int64_t out[2], ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st = ef__generations_read(c->engine, c->name, &list, err);

    out[0] = -1;
    out[1] = -2; /* one that is gone is nowhere */
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *g = &list.items[i];
        if (g->id == c->left || g->id == c->right)
            st = ef__engine_as_of(c->engine, g, &tenant, &out[g->id == c->right], err);
    }
    ef__generation_list_release(&list);
    return st;
}

/* Is what was read meanwhile of one moment? NULL: nothing was read yet. */
static ef_status is_settled(comparing *c, ef_str tenant, const int64_t before[2], int64_t now[2],
                            bool *out, ef_error *err)
{
    ef_status st = EF_OK;

    *out = true;
    if (!c->apart)
        return EF_OK;
    st = read_places(c, tenant, now, err);
    *out = st == EF_OK && now[0] == now[1] && (!before || before[0] == now[0]);
    return st;
}

/* --- why a view could not be compared ----------------------------------------------------------
 */

typedef struct side {
    int32_t version, number;
    int64_t position; /* of the view's tenant */
    bool blocked;     /* at the next event of the tenant */
} side;

static ef_status read_side(comparing *c, const ef__generation *g, ef_str tenant, side *out,
                           ef_error *err)
{
    ef__lag lag;
    ef_status st = ef__engine_as_of(c->engine, g, &tenant, &out->position, err);

    if (st == EF_OK)
        st = ef__lag_read(c->engine, g, &tenant, false, &lag, err);
    out->version = g->version;
    out->number = g->number;
    out->blocked = st == EF_OK && lag.blocked_streams > 0;
    return st;
}

static ef_status fail_behind(const comparing *c, ef_str tenant, const side *behind,
                             const side *ahead, ef_error *err)
{
    return ef_fail_numbers(
        err, behind->blocked ? EF_BLOCKED : EF_BUSY, ahead->position, behind->position,
        "version %d (generation %d) of projection \"%.*s\" is at position %" PRId64
        " for tenant \"%.*s\", version %d (generation %d) at %" PRId64 ": %" PRId64
        " position%s behind; %s",
        (int)behind->version, (int)behind->number, EF_STR_ARG(c->name), behind->position,
        EF_STR_ARG(tenant), (int)ahead->version, (int)ahead->number, ahead->position,
        ahead->position - behind->position, ahead->position - behind->position == 1 ? "" : "s",
        behind->blocked ? "an event that failed blocks it: requeue or skip the event"
                        : "compare again when it has caught up");
}

static ef_status fail_unsettled(comparing *c, const ef__view *view, ef_error *err)
{
    side sides[2] = {{0}, {0}};
    ef__generation_list list = {0};
    ef_status st = ef__generations_read(c->engine, c->name, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *g = &list.items[i];
        if (g->id == c->left || g->id == c->right)
            st = read_side(c, g, view->tenant, &sides[g->id == c->right], err);
    }
    ef__generation_list_release(&list);
    if (st != EF_OK)
        return st;
    if (sides[0].number && sides[1].number && sides[0].position != sides[1].position) {
        bool left = sides[0].position < sides[1].position;
        return fail_behind(c, view->tenant, &sides[!left], &sides[left], err);
    }
    return ef_fail(err, EF_BUSY, "view \"%.*s\" changed %d times while it was compared",
                   EF_STR_ARG(view->id), LOOKS);
}

/* Both sides of a view as of one moment. */
static ef_status look(comparing *c, const ef__view *at, ef__view *left, bool *left_found,
                      ef__view *right, bool *right_found, ef_error *err)
{
    ef_views *views = c->engine->views;
    ef__view again = {0};
    int64_t before[2], after[2];
    bool found = false, settled = false;
    ef_status st = EF_OK;

    for (int i = 0; st == EF_OK && i < LOOKS; i++) {
        st = is_settled(c, at->tenant, NULL, before, &settled, err);
        if (st != EF_OK || !settled)
            continue;
        ef__arena_reset(&c->arena);
        st = views->ops->view_get(views, c->left, at->tenant, at->id, &c->arena, left, left_found,
                                  err);
        if (st == EF_OK)
            st = views->ops->view_get(views, c->right, at->tenant, at->id, &c->arena, right,
                                      right_found, err);
        if (st == EF_OK)
            st = views->ops->view_get(views, c->left, at->tenant, at->id, &c->arena, &again, &found,
                                      err);
        if (st == EF_OK)
            st = is_settled(c, at->tenant, before, after, &settled, err);
        if (st == EF_OK && settled && same(*left_found, left, found, &again) &&
            (!found || left->last_position == again.last_position))
            return EF_OK;
    }
    return st != EF_OK || !c->apart ? st : fail_unsettled(c, at, err);
}

static ef_status compare_view(comparing *c, const ef__view *at, ef_error *err)
{
    ef__view left = {0}, right = {0};
    bool in_left, in_right;
    ef_status st = look(c, at, &left, &in_left, &right, &in_right, err);

    if (st != EF_OK || same(in_left, &left, in_right, &right))
        return st;
    c->out->different += in_left && in_right;
    c->out->left_only += in_left && !in_right;
    c->out->right_only += !in_left && in_right;
    if (c->each)
        c->stop =
            !c->each(c->context, &(ef_difference){.tenant = at->tenant,
                                                  .view_id = at->id,
                                                  .left = in_left ? left.data : (ef_str){0},
                                                  .right = in_right ? right.data : (ef_str){0}});
    return EF_OK;
}

/* --- page by page ------------------------------------------------------------------------------
 */

static bool keep_view(void *context, ef_str key, const ef__view *view)
{
    page *p = context;
    ef__view *kept = &p->views[p->count];

    (void)key;
    *kept = *view;
    kept->tenant = ef__arena_copy(&p->arena, view->tenant);
    kept->id = ef__arena_copy(&p->arena, view->id);
    kept->data = ef__arena_copy(&p->arena, view->data);
    if (!kept->tenant.ptr || !kept->id.ptr || !kept->data.ptr) {
        p->full = true;
        return false;
    }
    return ++p->count < PAGE_VIEWS;
}

static ef_status compare_page(comparing *c, const page *p, bool left_side, ef_error *err)
{
    ef_views *views = c->engine->views;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && !c->stop && i < p->count; i++) {
        ef__view other;
        bool found;
        ef__arena_reset(&c->arena);
        st = views->ops->view_get(views, left_side ? c->right : c->left, p->views[i].tenant,
                                  p->views[i].id, &c->arena, &other, &found, err);
        if (st != EF_OK)
            break;
        c->out->views += left_side || !found;
        if (left_side ? !same(true, &p->views[i], found, &other) : !found)
            st = compare_view(c, &p->views[i], err);
    }
    return st;
}

static ef_status compare_side(comparing *c, bool left_side, page *p, ef_error *err)
{
    ef_views *views = c->engine->views;
    ef__buf tenant = EF__BUF_INIT(65536), id = EF__BUF_INIT(1 << 20);
    bool first = true, more = true;
    ef_status st = EF_OK;

    while (st == EF_OK && more && !c->stop) {
        ef__arena_reset(&p->arena);
        p->count = 0;
        p->full = false;
        st = views->ops->view_scan(views,
                                   &(ef__view_scan){.generation = left_side ? c->left : c->right,
                                                    .any_tenant = true,
                                                    .index = -1,
                                                    .has_after = !first,
                                                    .after_tenant = ef__buf_str(&tenant),
                                                    .after_id = ef__buf_str(&id)},
                                   keep_view, p, err);
        more = p->count == PAGE_VIEWS || p->full;
        if (st == EF_OK && p->full && p->count == 0)
            st = ef_fail(err, EF_NO_MEMORY, "memory ran out while comparing views");
        if (st == EF_OK)
            st = compare_page(c, p, left_side, err);
        if (st == EF_OK && p->count) {
            ef__buf_reset(&tenant);
            ef__buf_reset(&id);
            if (!ef__buf_add_str(&tenant, p->views[p->count - 1].tenant) ||
                !ef__buf_add_str(&id, p->views[p->count - 1].id))
                st = ef_fail(err, EF_NO_MEMORY, "memory ran out while comparing views");
        }
        first = false;
    }
    ef__buf_release(&tenant);
    ef__buf_release(&id);
    return st;
}

static bool follows_log(const ef__generation *g)
{
    return g->by_log && g->state == EF__GENERATION_LIVE;
}

ef_status ef__generations_compare(ef_engine *e, const ef__generation *left,
                                  const ef__generation *right, ef__differs *each, void *context,
                                  ef_diff *out, ef_error *err)
{
    comparing c = {.engine = e,
                   .left = left->id,
                   .right = right->id,
                   .name = left->name,
                   .apart = follows_log(left) && follows_log(right),
                   .each = each,
                   .context = context,
                   .out = out,
                   .arena = EF__ARENA_INIT(PAGE_BYTES)};
    page *p = malloc(sizeof *p);
    ef_status st;

    *out = (ef_diff){0};
    if (!p)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while comparing views");
    p->arena = (ef__arena)EF__ARENA_INIT(PAGE_BYTES);
    st = compare_side(&c, true, p, err);
    if (st == EF_OK && !c.stop)
        st = compare_side(&c, false, p, err);
    ef__arena_release(&p->arena);
    ef__arena_release(&c.arena);
    free(p);
    return st;
}
