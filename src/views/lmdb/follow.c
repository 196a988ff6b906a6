/*
 * follow.c - followed tenants: follow, record the changes of a commit, list them. Each tenant has a
 * second row, ordered by its expiry.
 */
#include "store.h"

#include "../follow.h"

#include <stdlib.h>

/* --- rows ------------------------------------------------------------------------------------- */

static vl_key end_key(int64_t generation, int64_t until_us, ef_str tenant)
{
    return vl_key_time(VL_FOLLOW_END, generation, until_us, tenant);
}

static bool follow_get(vl_txn *txn, int64_t generation, ef_str tenant, ef__follow_row *out)
{
    vl_follow_row row;
    bool found = vl_row_get(txn, vl_key_name(VL_FOLLOW, generation, tenant), &row, sizeof row);

    *out = (ef__follow_row){row.until_us, row.low, row.last, row.kept};
    return found;
}

static void follow_put(vl_txn *txn, int64_t generation, ef_str tenant, const ef__follow_row *f)
{
    vl_follow_row row = {f->until_us, f->low, f->last, f->kept};

    vl_put(txn, vl_key_name(VL_FOLLOW, generation, tenant), vl_bytes(&row, sizeof row));
}

static int64_t count_followed(vl_txn *txn, int64_t generation)
{
    vl_walk walk = vl_walk_first(txn, VL_STATE, vl_key_number(VL_FOLLOW, generation));
    int64_t count = 0;

    for (; walk.found; vl_walk_on(&walk, false))
        count++;
    vl_walk_close(&walk);
    return count;
}

static int64_t floor_get(vl_txn *txn, int64_t generation)
{
    int64_t number;

    (void)vl_row_get(txn, vl_key_number(VL_FOLLOW_FLOOR, generation), &number, sizeof number);
    return number;
}

/* --- ending ----------------------------------------------------------------------------------- */

static void end_tenant(vl_txn *txn, int64_t generation, ef_str tenant)
{
    int64_t shelf = vl_shelf_find(txn, generation, tenant), all = INT64_MAX;
    ef__follow_row f;

    (void)follow_get(txn, generation, tenant, &f);
    if (floor_get(txn, generation) < f.last)
        vl_put(txn, vl_key_number(VL_FOLLOW_FLOOR, generation), vl_bytes(&f.last, sizeof f.last));
    vl_cut(txn, VL_STATE, vl_key_number(VL_CHANGE, shelf), &all);
    vl_delete(txn, end_key(generation, f.until_us, tenant));
    vl_delete(txn, vl_key_name(VL_FOLLOW, generation, tenant));
}

/* Removes one expired row with its records; a commit removes at most one. Is there a row, expired
 * or not? The name of the tenant is copied, because rows move when something is written. */
static bool end_one(vl_txn *txn, int64_t generation, int64_t now_us)
{
    vl_walk walk = vl_walk_first(txn, VL_STATE, vl_key_number(VL_FOLLOW_END, generation));
    bool followed = walk.found, expired = followed && vl_time_at(walk.key) < now_us;
    vl_key first = {.len = 0};

    if (expired)
        vl_key_add(&first, walk.key.ptr, walk.key.len);
    vl_walk_close(&walk);
    if (expired)
        end_tenant(txn, generation, vl_key_rest(vl_key_str(&first), VL_TIME_KEY_BYTES));
    return followed;
}

/* --- beginning -------------------------------------------------------------------------------- */

typedef struct following {
    int64_t generation;
    ef_str tenant;
    int64_t until_us, now_us;
    ef__follow_row *out;
} following;

static void follow_begin(vl_txn *txn, const following *f)
{
    vl_generation g;

    if (!vl_generation_get(txn, f->generation, &g))
        vl_try(txn, ef__generation_missing(f->generation, txn->err));
    if (count_followed(txn, f->generation) >= EF_LIMIT_FOLLOWED_TENANTS)
        vl_try(txn, ef__follow_crowded(f->generation, txn->err));
    (void)vl_shelf_make(txn, f->generation, f->tenant);
    *f->out = (ef__follow_row){.until_us = f->until_us, .last = floor_get(txn, f->generation)};
    f->out->low = f->out->last = ef__follow_next(f->out, f->now_us);
}

static void follow_tenant(vl_txn *txn, void *context)
{
    const following *f = context;
    bool found = follow_get(txn, f->generation, f->tenant, f->out);

    if (found) {
        vl_delete(txn, end_key(f->generation, f->out->until_us, f->tenant));
        if (f->out->until_us < f->until_us)
            f->out->until_us = f->until_us;
    }
    /* A row that was found has no second one now, so it is not the one that ends. */
    (void)end_one(txn, f->generation, f->now_us);
    if (!found)
        follow_begin(txn, f);
    follow_put(txn, f->generation, f->tenant, f->out);
    vl_put(txn, end_key(f->generation, f->out->until_us, f->tenant), (ef_str){"", 0});
}

ef_status vl_follow(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                    ef__follow_row *out, ef_error *err)
{
    following f = {.generation = generation,
                   .tenant = tenant,
                   .until_us = until_us,
                   .now_us = ef__views_now_us(views),
                   .out = out};

    return vl_change(views, false, follow_tenant, &f, err);
}

/* --- recording -------------------------------------------------------------------------------- */

static void add_record(vl_txn *txn, int64_t shelf, int64_t number, const ef__view_change *change)
{
    vl_change_row row = {.position = change->view.last_position,
                         .kind = (int64_t)ef__change_kind_of(change)};
    char bytes[sizeof row + VL_KEY_MAX];
    ef_str id = change->view.id;

    if (id.len > VL_KEY_MAX) {
        (void)vl_failed(txn, MDB_BAD_VALSIZE, "recording a change");
        return;
    }
    memcpy(bytes, &row, sizeof row);
    memcpy(bytes + sizeof row, id.ptr, id.len);
    vl_put(txn, vl_key_numbers(VL_CHANGE, shelf, number), vl_bytes(bytes, sizeof row + id.len));
}

/* Delete the oldest records of a tenant that has too many. */
static void trim_changes(vl_txn *txn, int64_t shelf, ef__follow_row *f)
{
    vl_key prefix = vl_key_number(VL_CHANGE, shelf);
    int64_t over = f->kept - EF_LIMIT_CHANGES_LEFT;
    vl_walk walk;

    if (f->kept <= EF_LIMIT_CHANGES_KEPT)
        return;
    vl_cut(txn, VL_STATE, prefix, &over);
    walk = vl_walk_first(txn, VL_STATE, prefix);
    f->low = (walk.found ? (int64_t)vl_number_at(walk.key, prefix.len) : 0) - 1;
    vl_walk_close(&walk);
    f->kept = EF_LIMIT_CHANGES_LEFT;
}

/* Records the changes of one tenant, if it is followed. */
static void record_tenant(vl_part *part, const ef__view_change **changes, size_t count)
{
    int64_t generation = part->change->generation, shelf;
    ef_str tenant = changes[0]->view.tenant;
    ef__follow_row f;

    if (!follow_get(part->txn, generation, tenant, &f))
        return;
    shelf = vl_part_shelf(part, tenant);
    for (size_t i = 0; i < count; i++) {
        if (ef__view_change_is_nothing(changes[i]))
            continue;
        f.last = ef__follow_next(&f, part->now_us);
        f.kept++;
        add_record(part->txn, shelf, f.last, changes[i]);
    }
    trim_changes(part->txn, shelf, &f);
    follow_put(part->txn, generation, tenant, &f);
}

void vl_changes_record(vl_part *part)
{
    const ef__generation_change *change = part->change;
    const ef__view_change **sorted;
    bool followed = end_one(part->txn, change->generation, part->now_us);

    if (!followed || change->view_count == 0)
        return;
    sorted = ef__views_sorted(change);
    if (!sorted)
        vl_try(part->txn, ef_fail(part->txn->err, EF_NO_MEMORY, "memory ran out for a commit"));
    for (size_t i = 0, next; part->txn->st == EF_OK && i < change->view_count; i = next) {
        next = ef__changes_of_tenant(sorted, change->view_count, i);
        record_tenant(part, sorted + i, next - i);
    }
    free(sorted);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void list_records(vl_txn *txn, int64_t shelf, int64_t after, size_t limit,
                         ef__change_list *out)
{
    vl_key from = vl_key_numbers(VL_CHANGE, shelf, after + 1);
    vl_walk walk = vl_walk_open(txn, VL_STATE, vl_key_number(VL_CHANGE, shelf));

    for (vl_walk_from(&walk, &from); out->count < limit && walk.found; vl_walk_on(&walk, false)) {
        vl_change_row row;
        vl_row_take(txn, walk.value, &row, sizeof row, "the record of a change");
        vl_try(txn, ef__list_add(out,
                                 (&(ef__change_record){
                                     .number = (int64_t)vl_number_at(walk.key, walk.prefix.len),
                                     .position = row.position,
                                     .kind = (ef__change_kind)row.kind,
                                     .view_id = vl_key_rest(walk.value, sizeof row)}),
                                 &ef__change_texts, txn->err));
    }
    vl_walk_close(&walk);
}

ef_status vl_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                       size_t limit, ef__change_list *out, ef_error *err)
{
    vl_txn txn;
    ef_status st = ef__change_list_ready(out, err);

    if (st != EF_OK)
        return st;
    txn = vl_begin(views, err);
    out->is_followed = follow_get(&txn, generation, tenant, &out->follow);
    if (out->is_followed && after < INT64_MAX)
        list_records(&txn, vl_shelf_find(&txn, generation, tenant), after, limit, out);
    return vl_end(views, &txn);
}
