/*
 * scan.c - ranges of views, by id or by an index.
 *
 * A range is half-open: from one place up to, but not including, another. Bounds, pages and
 * directions only choose the two places. Texts are compared by bytes, so the immediate successor of
 * x is x followed by a NUL.
 *
 * The read transaction lasts as long as the scan, so `each` must be fast: pages written meanwhile
 * accumulate, and the map cannot grow.
 */
#include "store.h"

typedef bool each_view(void *context, ef_str key, const ef__view *view);

/* Truncates a text that is longer than any stored one, which does not change its order to them. */
typedef struct place_text {
    size_t len;
    char bytes[EF__KEY_BYTES + 1];
} place_text;

_Static_assert(VL_NAME_MAX <= EF__KEY_BYTES, "an id and a place behind it fit");

static ef_str text_str(const place_text *text)
{
    return (ef_str){text->bytes, text->len};
}

static void text_set(place_text *text, ef_str from, size_t max, bool behind)
{
    text->len = from.len < max ? from.len : max;
    if (text->len)
        memcpy(text->bytes, from.ptr, text->len);
    if (behind && text->len < max)
        text->bytes[text->len++] = '\0';
}

/* --- views by id ------------------------------------------------------------------------------ */

/* Ids of one shelf. */
typedef struct id_range {
    place_text from, to;
    bool open; /* up to the end */
} id_range;

static void set_id(place_text *text, ef_str id, bool behind)
{
    text_set(text, id, VL_NAME_MAX + 1, behind);
}

static id_range id_bounds(const ef__view_scan *s)
{
    id_range r;

    r.from.len = r.to.len = 0;
    r.open = s->any_tenant || !s->has_high;
    if (!s->any_tenant && s->has_low)
        set_id(&r.from, s->low, s->low_open);
    if (!r.open)
        set_id(&r.to, s->high, !s->high_open);
    return r;
}

/* Starts after `after`, if that is inside the range. */
static void id_go_on(id_range *r, ef_str after, bool descending)
{
    if (descending && (r->open || ef__str_compare(after, text_str(&r->to)) < 0)) {
        set_id(&r->to, after, false);
        r->open = false;
    } else if (!descending && ef__str_compare(after, text_str(&r->from)) >= 0) {
        set_id(&r->from, after, true);
    }
}

typedef struct id_scan {
    const ef__view_scan *scan;
    each_view *each;
    void *context;
    vl_walk views;
    bool more;
} id_scan;

static bool id_inside(const id_range *r, ef_str id)
{
    return ef__str_compare(id, text_str(&r->from)) >= 0 &&
           (r->open || ef__str_compare(id, text_str(&r->to)) < 0);
}

static ef_status scan_shelf(id_scan *c, int64_t shelf, ef_str tenant, const id_range *r,
                            ef_error *err)
{
    bool back = c->scan->descending;
    vl_key prefix = vl_shelf_key(shelf, (ef_str){0}), start;
    vl_walk *walk = &c->views;
    ef_status st;

    if (back) {
        start =
            r->open ? vl_shelf_key(shelf + 1, (ef_str){0}) : vl_shelf_key(shelf, text_str(&r->to));
        st = vl_walk_before(walk, &start, err);
    } else {
        start = vl_shelf_key(shelf, text_str(&r->from));
        st = vl_walk_from(walk, &start, err);
    }
    while (st == EF_OK && walk->found && vl_has_prefix(walk->key, &prefix)) {
        ef_str id = {walk->key.ptr + prefix.len, walk->key.len - prefix.len};
        ef__view view;
        if (!id_inside(r, id))
            break;
        if (!vl_view_read(walk->value, &view, NULL))
            return vl_row_damaged(walk->txn, "a view", err);
        view.tenant = tenant;
        view.id = id;
        c->more = c->each(c->context, (ef_str){"", 0}, &view);
        if (!c->more)
            break;
        st = vl_walk_on(walk, back, err);
    }
    return st;
}

/* Shelf by shelf, in the order of tenants. */
static ef_status scan_tenants(id_scan *c, ef_error *err)
{
    const ef__view_scan *s = c->scan;
    vl_key prefix = vl_key_number(VL_SHELF, s->generation), start = prefix;
    vl_walk walk;
    int64_t shelf;
    ef_status st = vl_walk_open(c->views.txn, VL_STATE, &walk, err);

    if (s->has_after)
        start = vl_key_name(VL_SHELF, s->generation, s->after_tenant);
    if (s->descending && s->has_after)
        vl_key_add(&start, "", 1);
    else if (s->descending)
        start = vl_key_number(VL_SHELF, s->generation + 1);
    if (st == EF_OK)
        st = s->descending ? vl_walk_before(&walk, &start, err) : vl_walk_from(&walk, &start, err);
    while (st == EF_OK && c->more && walk.found && vl_has_prefix(walk.key, &prefix)) {
        ef_str tenant = {walk.key.ptr + prefix.len, walk.key.len - prefix.len};
        id_range all = id_bounds(s);
        if (s->has_after && ef_str_equal(tenant, s->after_tenant))
            id_go_on(&all, s->after_id, s->descending);
        st = vl_row_read(walk.value, &shelf, sizeof shelf)
                 ? scan_shelf(c, shelf, tenant, &all, err)
                 : vl_row_damaged(walk.txn, "a shelf", err);
        if (st == EF_OK && c->more)
            st = vl_walk_on(&walk, s->descending, err);
    }
    vl_walk_close(&walk);
    return st;
}

static ef_status scan_ids(vl_txn *txn, const ef__view_scan *s, each_view *each, void *context,
                          ef_error *err)
{
    id_scan c = {.scan = s, .each = each, .context = context, .more = true};
    id_range range = id_bounds(s);
    int64_t shelf = 0;
    ef_status st = vl_walk_open(txn, VL_VIEW, &c.views, err);

    if (st == EF_OK && s->any_tenant) {
        st = scan_tenants(&c, err);
    } else if (st == EF_OK) {
        if (s->has_after)
            id_go_on(&range, s->after_id, s->descending);
        st = vl_shelf_find(txn, s->generation, s->tenant, &shelf, err);
        if (st == EF_OK && shelf)
            st = scan_shelf(&c, shelf, s->tenant, &range, err);
    }
    vl_walk_close(&c.views);
    return st;
}

/* --- an index --------------------------------------------------------------------------------- */

typedef struct index_place {
    place_text key, id;
} index_place;

typedef struct index_range {
    index_place from, to;
    bool open; /* up to the end */
} index_range;

static void set_place(index_place *p, ef_str key, bool behind, ef_str id, bool behind_id)
{
    text_set(&p->key, key, EF__KEY_BYTES + 1, behind);
    set_id(&p->id, id, behind_id);
}

static int compare_place(ef_str key, ef_str id, const index_place *p)
{
    int order = ef__str_compare(key, text_str(&p->key));

    return order ? order : ef__str_compare(id, text_str(&p->id));
}

static index_range index_bounds(const ef__view_scan *s)
{
    ef_str none = {0};
    index_range r;

    r.open = !s->has_high;
    set_place(&r.from, s->has_low ? s->low : none, s->has_low && s->low_open, none, false);
    set_place(&r.to, r.open ? none : s->high, !r.open && !s->high_open, none, false);
    if (s->has_after && s->descending &&
        (r.open || compare_place(s->after_key, s->after_id, &r.to) < 0)) {
        set_place(&r.to, s->after_key, false, s->after_id, false);
        r.open = false;
    } else if (s->has_after && !s->descending &&
               compare_place(s->after_key, s->after_id, &r.from) >= 0) {
        set_place(&r.from, s->after_key, false, s->after_id, true);
    }
    return r;
}

static ef_status find_start(vl_walk *walk, int64_t shelf, const ef__view_scan *s,
                            const index_range *r, vl_entry *start, ef_error *err)
{
    if (!s->descending) {
        *start = vl_entry_of(shelf, s->index, text_str(&r->from.key), text_str(&r->from.id));
        return vl_walk_from_entry(walk, start, err);
    }
    if (r->open) {
        *start = vl_entry_of(shelf, s->index + 1, (ef_str){0}, (ef_str){0});
        return vl_walk_before(walk, &start->key, err);
    }
    *start = vl_entry_of(shelf, s->index, text_str(&r->to.key), text_str(&r->to.id));
    return vl_walk_before_entry(walk, start, err);
}

/* The view of an index entry. A scan skips an entry without a view; the deep check reports it. */
static ef_status scan_entry(vl_txn *txn, int64_t shelf, const ef__view_scan *s, ef_str key,
                            ef_str id, each_view *each, void *context, bool *more, ef_error *err)
{
    ef__view view;
    ef_str row;
    bool found;
    ef_status st = vl_get(txn, VL_VIEW, vl_shelf_key(shelf, id), &row, &found, err);

    if (st != EF_OK || !found)
        return st;
    if (!vl_view_read(row, &view, NULL))
        return vl_row_damaged(txn, "a view", err);
    view.digest[0] = view.digest[1] = 0;
    view.tenant = s->tenant;
    view.id = id;
    *more = each(context, key, &view);
    return EF_OK;
}

static ef_status scan_entries(vl_walk *walk, int64_t shelf, const ef__view_scan *s,
                              const index_range *r, each_view *each, void *context, ef_error *err)
{
    vl_key prefix = vl_entry_of(shelf, s->index, (ef_str){0}, (ef_str){0}).key;
    char buffer[EF__KEY_BYTES + 1];
    vl_entry start;
    ef_str key, id;
    bool more = true;
    ef_status st = find_start(walk, shelf, s, r, &start, err);

    while (st == EF_OK && more && walk->found && vl_has_prefix(walk->key, &prefix)) {
        if (!vl_entry_read(walk->key, walk->value, buffer, &key, &id))
            return vl_row_damaged(walk->txn, "an index", err);
        if (compare_place(key, id, &r->from) < 0 ||
            (!r->open && compare_place(key, id, &r->to) >= 0))
            break;
        st = scan_entry(walk->txn, shelf, s, key, id, each, context, &more, err);
        if (st == EF_OK && more)
            st = vl_walk_on(walk, s->descending, err);
    }
    return st;
}

static ef_status scan_index(vl_txn *txn, const ef__view_scan *s, each_view *each, void *context,
                            ef_error *err)
{
    index_range range = index_bounds(s);
    int64_t shelf = 0;
    vl_walk walk;
    ef_status st = vl_shelf_find(txn, s->generation, s->tenant, &shelf, err);

    if (st != EF_OK || shelf == 0)
        return st;
    st = vl_walk_open(txn, VL_INDEX, &walk, err);
    if (st == EF_OK)
        st = scan_entries(&walk, shelf, s, &range, each, context, err);
    vl_walk_close(&walk);
    return st;
}

ef_status vl_view_scan(ef_views *views, const ef__view_scan *scan, each_view *each, void *context,
                       ef_error *err)
{
    vl_txn txn;
    ef_status st = vl_begin(views, &txn, err);

    if (st != EF_OK)
        return st;
    st = scan->index < 0 ? scan_ids(&txn, scan, each, context, err)
                         : scan_index(&txn, scan, each, context, err);
    vl_read_end(&txn);
    return st;
}
