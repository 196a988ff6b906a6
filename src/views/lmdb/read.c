/*
 * read.c - single views and watermarks, fences; ranges of views, by id or by an index (range.h).
 *
 * The read transaction lasts as long as the scan, so `each` must be fast: pages written meanwhile
 * accumulate, and the map cannot grow.
 */
#include "store.h"

#include "../range.h"

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
        out->tenant = tenant;
        out->id = id;
        if (!ef__texts_own(&ef__view_texts, out, arena))
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

/* --- views by id ------------------------------------------------------------------------------ */

typedef struct id_scan {
    const ef__view_scan *scan;
    ef__view_place from, to;
    ef__each_view *each;
    void *context;
    vl_walk views;
    bool more;
} id_scan;

/* Does the range have views of the tenant? */
static bool has_tenant(const id_scan *c, ef_str tenant)
{
    return ef__str_compare(tenant, ef__place_str(&c->from.second)) >= 0 &&
           (c->to.first != c->scan->generation ||
            ef__str_compare(tenant, ef__place_str(&c->to.second)) <= 0);
}

/* The views of a shelf that are in the range, which may begin or end in it. */
static void scan_shelf(id_scan *c, int64_t shelf, ef_str tenant)
{
    bool down = c->scan->descending;
    bool begins = ef_str_equal(tenant, ef__place_str(&c->from.second));
    bool ends =
        c->to.first == c->scan->generation && ef_str_equal(tenant, ef__place_str(&c->to.second));
    ef_str low = begins ? ef__place_str(&c->from.third) : (ef_str){0};
    ef_str high = ef__place_str(&c->to.third);
    vl_walk *walk = &c->views;
    vl_key start = !down  ? vl_shelf_key(shelf, low)
                   : ends ? vl_shelf_key(shelf, high)
                          : vl_shelf_key(shelf + 1, (ef_str){0});

    walk->prefix = vl_shelf_key(shelf, (ef_str){0});
    vl_walk_begin(walk, &start, down);
    for (; c->more && walk->found; vl_walk_on(walk, down)) {
        ef_str id = vl_walk_name(walk);
        ef__view view;
        if (down ? ef__str_compare(id, low) < 0 : ends && ef__str_compare(id, high) >= 0)
            return;
        vl_view_read(walk->txn, walk->value, &view, NULL);
        view.tenant = tenant;
        view.id = id;
        c->more = walk->txn->st == EF_OK && c->each(c->context, (ef_str){"", 0}, &view);
    }
}

/* Shelf by shelf, in the order of tenants. */
static void scan_ids(vl_txn *txn, const ef__view_scan *s, ef__each_view *each, void *context)
{
    id_scan c = {.scan = s, .each = each, .context = context, .more = true};
    bool down = s->descending;
    vl_walk walk = vl_walk_open(txn, VL_STATE, vl_key_number(VL_SHELF, s->generation));
    vl_key start;

    ef__view_range(s, &c.from, &c.to);
    start = vl_key_name(VL_SHELF, down ? c.to.first : s->generation,
                        ef__place_str(down ? &c.to.second : &c.from.second));
    if (down && c.to.first == s->generation) /* the tenant itself too */
        vl_key_add(&start, "", 1);
    c.views = vl_walk_open(txn, VL_VIEW, VL_NO_PREFIX);
    vl_walk_begin(&walk, &start, down);
    for (; c.more && walk.found && has_tenant(&c, vl_walk_name(&walk)); vl_walk_on(&walk, down)) {
        int64_t shelf;
        vl_row_take(txn, walk.value, &shelf, sizeof shelf, "a shelf");
        scan_shelf(&c, shelf, vl_walk_name(&walk));
    }
    vl_walk_close(&c.views);
    vl_walk_close(&walk);
}

/* --- an index --------------------------------------------------------------------------------- */

static int compare_place(ef_str key, ef_str id, const ef__view_place *place)
{
    int order = ef__str_compare(key, ef__place_str(&place->second));

    return order ? order : ef__str_compare(id, ef__place_str(&place->third));
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
    ef__view_place from, to, *first = s->descending ? &to : &from;
    int64_t shelf = vl_shelf_find(txn, s->generation, s->tenant);
    char buffer[EF__KEY_BYTES + 1];
    vl_entry start;
    vl_walk walk;
    bool more = shelf != 0;

    ef__view_range(s, &from, &to);
    start =
        vl_entry_of(shelf, s->index, ef__place_str(&first->second), ef__place_str(&first->third));
    walk = vl_walk_open(txn, VL_INDEX, vl_entry_of(shelf, s->index, (ef_str){0}, (ef_str){0}).key);
    for (vl_walk_begin_entry(&walk, &start, s->descending); more && walk.found;
         vl_walk_on(&walk, s->descending)) {
        ef_str key = {0}, id = {0};
        if (!vl_entry_read(walk.key, walk.value, buffer, &key, &id))
            vl_row_damaged(txn, "an index");
        more = compare_place(key, id, &from) >= 0 && compare_place(key, id, &to) < 0 &&
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
