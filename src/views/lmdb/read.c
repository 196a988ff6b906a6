/*
 * read.c - single views and watermarks, fences; ranges of views, by id or by an index.
 *
 * A range is half-open: from one place up to, but not including, another. Bounds, pages and
 * directions only choose the two places. Texts are compared by bytes, so the immediate successor of
 * x is x followed by a NUL.
 *
 * The read transaction lasts as long as the scan, so `each` must be fast: pages written meanwhile
 * accumulate, and the map cannot grow.
 */
#include "store.h"

/* --- rows ------------------------------------------------------------------------------------- */

void vl_view_read(vl_txn *txn, ef_str row, ef__view *out, ef_str *out_keys)
{
    vl_view head;

    *out = (ef__view){0};
    if (!vl_row_read(row, &head, sizeof head) || row.len - sizeof head < head.data_bytes) {
        vl_row_damaged(txn, "a view");
        return;
    }
    *out = (ef__view){.data = {row.ptr + sizeof head, head.data_bytes},
                      .last_position = head.last_position,
                      .last_seq = head.last_seq,
                      .schema = head.schema,
                      .digest = {head.digest[0], head.digest[1]}};
    if (out_keys)
        *out_keys = vl_key_rest(row, sizeof head + head.data_bytes);
}

void vl_watermark_read(vl_txn *txn, ef_str row, ef__watermark *out)
{
    vl_watermark head;

    vl_row_take(txn, row, &head, sizeof head, "a watermark");
    *out = (ef__watermark){.applied_seq = head.applied_seq,
                           .expected_next_seq = head.expected_next_seq};
    memcpy(out->hash, head.hash, sizeof out->hash);
}

/* The row of `name` on the tenant's shelf. */
static bool find_row(vl_txn *txn, vl_tree tree, int64_t generation, ef_str tenant, ef_str name,
                     ef_str *out)
{
    int64_t shelf = vl_shelf_find(txn, generation, tenant);

    return shelf != 0 && vl_get(txn, tree, vl_shelf_key(shelf, name), out);
}

ef_status vl_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                      ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    vl_txn txn = vl_begin(views, err);
    ef_str row;

    *out_found = find_row(&txn, VL_VIEW, generation, tenant, id, &row);
    if (*out_found) {
        vl_view_read(&txn, row, out, NULL);
        out->tenant = ef__arena_copy(arena, tenant);
        out->id = ef__arena_copy(arena, id);
        out->data = ef__arena_copy(arena, out->data);
        if (!out->tenant.ptr || !out->id.ptr || !out->data.ptr)
            vl_try(&txn, ef_fail(err, EF_NO_MEMORY, "memory ran out for a view"));
    }
    return vl_end(views, &txn);
}

ef_status vl_watermark_get(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                           ef__watermark *out, bool *out_found, ef_error *err)
{
    vl_txn txn = vl_begin(views, err);
    ef_str row;

    *out = (ef__watermark){0};
    *out_found = find_row(&txn, VL_WATERMARK, generation, tenant, stream, &row);
    if (*out_found)
        vl_watermark_read(&txn, row, out);
    return vl_end(views, &txn);
}

ef_status vl_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err)
{
    vl_txn txn = vl_begin(views, err);

    *out_token = vl_fence_find(&txn, scope);
    return vl_end(views, &txn);
}

ef_status vl_live_set_get(ef_views *views, int64_t *out, ef_error *err)
{
    vl_txn txn = vl_begin(views, err);

    *out = vl_state_get(&txn).live_set;
    return vl_end(views, &txn);
}

/* --- watermarks of a generation --------------------------------------------------------------- */

ef_status vl_watermark_scan(ef_views *views, int64_t generation, ef__each_watermark *each,
                            void *context, ef_error *err)
{
    vl_txn txn = vl_begin(views, err);
    vl_walk shelves = vl_walk_first(&txn, VL_STATE, vl_key_number(VL_SHELF, generation));
    vl_walk marks = vl_walk_open(&txn, VL_WATERMARK, VL_NO_PREFIX);
    bool more = true;

    for (; more && shelves.found; vl_walk_on(&shelves, false)) {
        ef__watermark w;
        int64_t shelf;
        vl_row_take(&txn, shelves.value, &shelf, sizeof shelf, "a shelf");
        marks.prefix = vl_shelf_key(shelf, (ef_str){0});
        vl_walk_from(&marks, &marks.prefix);
        for (; more && marks.found; vl_walk_on(&marks, false)) {
            vl_watermark_read(&txn, marks.value, &w);
            more =
                txn.st == EF_OK && each(context, vl_walk_name(&shelves), vl_walk_name(&marks), &w);
        }
    }
    vl_walk_close(&marks);
    vl_walk_close(&shelves);
    return vl_end(views, &txn);
}

/* --- places ----------------------------------------------------------------------------------- */

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
    ef__each_view *each;
    void *context;
    vl_walk views;
    bool more;
} id_scan;

static bool id_inside(const id_range *r, ef_str id)
{
    return ef__str_compare(id, text_str(&r->from)) >= 0 &&
           (r->open || ef__str_compare(id, text_str(&r->to)) < 0);
}

static void scan_shelf(id_scan *c, int64_t shelf, ef_str tenant, const id_range *r)
{
    bool back = c->scan->descending;
    vl_walk *walk = &c->views;
    vl_key start = !back     ? vl_shelf_key(shelf, text_str(&r->from))
                   : r->open ? vl_shelf_key(shelf + 1, (ef_str){0})
                             : vl_shelf_key(shelf, text_str(&r->to));

    walk->prefix = vl_shelf_key(shelf, (ef_str){0});
    if (back)
        vl_walk_before(walk, &start);
    else
        vl_walk_from(walk, &start);
    for (; c->more && walk->found && id_inside(r, vl_walk_name(walk)); vl_walk_on(walk, back)) {
        ef__view view;
        vl_view_read(walk->txn, walk->value, &view, NULL);
        view.tenant = tenant;
        view.id = vl_walk_name(walk);
        c->more = walk->txn->st == EF_OK && c->each(c->context, (ef_str){"", 0}, &view);
    }
}

/* Shelf by shelf, in the order of tenants. */
static void scan_tenants(id_scan *c)
{
    const ef__view_scan *s = c->scan;
    vl_walk walk = vl_walk_open(c->views.txn, VL_STATE, vl_key_number(VL_SHELF, s->generation));
    vl_key start = s->has_after ? vl_key_name(VL_SHELF, s->generation, s->after_tenant)
                                : vl_key_number(VL_SHELF, s->generation + s->descending);

    if (s->descending && s->has_after)
        vl_key_add(&start, "", 1);
    if (s->descending)
        vl_walk_before(&walk, &start);
    else
        vl_walk_from(&walk, &start);
    for (; c->more && walk.found; vl_walk_on(&walk, s->descending)) {
        ef_str tenant = vl_walk_name(&walk);
        id_range all = id_bounds(s);
        int64_t shelf;
        if (s->has_after && ef_str_equal(tenant, s->after_tenant))
            id_go_on(&all, s->after_id, s->descending);
        vl_row_take(walk.txn, walk.value, &shelf, sizeof shelf, "a shelf");
        scan_shelf(c, shelf, tenant, &all);
    }
    vl_walk_close(&walk);
}

static void scan_ids(vl_txn *txn, const ef__view_scan *s, ef__each_view *each, void *context)
{
    id_scan c = {.scan = s, .each = each, .context = context, .more = true};
    id_range range = id_bounds(s);
    int64_t shelf;

    c.views = vl_walk_open(txn, VL_VIEW, VL_NO_PREFIX);
    if (s->any_tenant) {
        scan_tenants(&c);
    } else if ((shelf = vl_shelf_find(txn, s->generation, s->tenant)) != 0) {
        if (s->has_after)
            id_go_on(&range, s->after_id, s->descending);
        scan_shelf(&c, shelf, s->tenant, &range);
    }
    vl_walk_close(&c.views);
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

static void find_start(vl_walk *walk, int64_t shelf, const ef__view_scan *s, const index_range *r,
                       vl_entry *start)
{
    const index_place *place = s->descending ? &r->to : &r->from;

    *start = s->descending && r->open
                 ? vl_entry_of(shelf, s->index + 1, (ef_str){0}, (ef_str){0})
                 : vl_entry_of(shelf, s->index, text_str(&place->key), text_str(&place->id));
    if (!s->descending)
        vl_walk_from_entry(walk, start);
    else if (r->open)
        vl_walk_before(walk, &start->key);
    else
        vl_walk_before_entry(walk, start);
}

/* The view of an index entry. A scan skips an entry without a view; the deep check reports it. */
static bool scan_entry(vl_txn *txn, int64_t shelf, const ef__view_scan *s, ef_str key, ef_str id,
                       ef__each_view *each, void *context)
{
    ef__view view;
    ef_str row;

    if (!vl_get(txn, VL_VIEW, vl_shelf_key(shelf, id), &row))
        return true;
    vl_view_read(txn, row, &view, NULL);
    view.digest[0] = view.digest[1] = 0;
    view.tenant = s->tenant;
    view.id = id;
    return txn->st == EF_OK && each(context, key, &view);
}

static void scan_index(vl_txn *txn, const ef__view_scan *s, ef__each_view *each, void *context)
{
    index_range range = index_bounds(s);
    int64_t shelf = vl_shelf_find(txn, s->generation, s->tenant);
    char buffer[EF__KEY_BYTES + 1];
    vl_entry start;
    vl_walk walk;
    bool more = shelf != 0;

    walk = vl_walk_open(txn, VL_INDEX, vl_entry_of(shelf, s->index, (ef_str){0}, (ef_str){0}).key);
    for (find_start(&walk, shelf, s, &range, &start); more && walk.found;
         vl_walk_on(&walk, s->descending)) {
        ef_str key = {0}, id = {0};
        if (!vl_entry_read(walk.key, walk.value, buffer, &key, &id))
            vl_row_damaged(txn, "an index");
        more = compare_place(key, id, &range.from) >= 0 &&
               (range.open || compare_place(key, id, &range.to) < 0) &&
               scan_entry(txn, shelf, s, key, id, each, context);
    }
    vl_walk_close(&walk);
}

ef_status vl_view_scan(ef_views *views, const ef__view_scan *scan, ef__each_view *each,
                       void *context, ef_error *err)
{
    vl_txn txn = vl_begin(views, err);

    if (scan->index < 0)
        scan_ids(&txn, scan, each, context);
    else
        scan_index(&txn, scan, each, context);
    return vl_end(views, &txn);
}
