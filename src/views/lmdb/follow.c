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
    vl_key key = vl_key_number(VL_FOLLOW_END, generation);

    vl_key_add_number(&key, (uint64_t)until_us ^ (UINT64_C(1) << 63));
    vl_key_add(&key, tenant.ptr, tenant.len);
    return key;
}

static ef_status follow_get(vl_txn *txn, int64_t generation, ef_str tenant, ef__follow_row *out,
                            bool *out_found, ef_error *err)
{
    vl_follow row;
    ef_status st = vl_row_get(txn, VL_STATE, vl_key_name(VL_FOLLOW, generation, tenant), &row,
                              sizeof row, out_found, err);

    *out = (ef__follow_row){row.until_us, row.low, row.last, row.kept};
    return st;
}

static ef_status follow_put(vl_txn *txn, int64_t generation, ef_str tenant, const ef__follow_row *f,
                            ef_error *err)
{
    vl_follow row = {f->until_us, f->low, f->last, f->kept};

    return vl_put(txn, VL_STATE, vl_key_name(VL_FOLLOW, generation, tenant),
                  vl_bytes(&row, sizeof row), err);
}

/* The tenant that expires first, and when; *out_until_us is INT64_MAX if none is followed. The
 * tenant is copied to `buffer`, because rows move when something is written. */
static ef_status find_first(vl_txn *txn, int64_t generation, char buffer[VL_KEY_MAX],
                            ef_str *out_tenant, int64_t *out_until_us, ef_error *err)
{
    vl_key prefix = vl_key_number(VL_FOLLOW_END, generation);
    vl_walk walk;
    ef_status st = vl_walk_open(txn, VL_STATE, &walk, err);

    *out_until_us = INT64_MAX;
    *out_tenant = (ef_str){buffer, 0};
    if (st == EF_OK)
        st = vl_walk_from(&walk, &prefix, err);
    if (st == EF_OK && walk.found && vl_has_prefix(walk.key, &prefix) &&
        walk.key.len >= prefix.len + 8) {
        *out_until_us = (int64_t)(vl_number_at(walk.key, prefix.len) ^ (UINT64_C(1) << 63));
        out_tenant->len = walk.key.len - prefix.len - 8;
        memcpy(buffer, walk.key.ptr + prefix.len + 8, out_tenant->len);
    }
    vl_walk_close(&walk);
    return st;
}

static ef_status count_followed(vl_txn *txn, int64_t generation, int64_t *out, ef_error *err)
{
    vl_key prefix = vl_key_number(VL_FOLLOW, generation);
    vl_walk walk;
    ef_status st = vl_walk_open(txn, VL_STATE, &walk, err);

    *out = 0;
    if (st == EF_OK)
        st = vl_walk_from(&walk, &prefix, err);
    while (st == EF_OK && walk.found && vl_has_prefix(walk.key, &prefix)) {
        ++*out;
        st = vl_walk_on(&walk, false, err);
    }
    vl_walk_close(&walk);
    return st;
}

static ef_status floor_get(vl_txn *txn, int64_t generation, int64_t *out, ef_error *err)
{
    bool found;

    return vl_row_get(txn, VL_STATE, vl_key_number(VL_FOLLOW_FLOOR, generation), out, sizeof *out,
                      &found, err);
}

static ef_status floor_raise(vl_txn *txn, int64_t generation, int64_t number, ef_error *err)
{
    int64_t is;
    ef_status st = floor_get(txn, generation, &is, err);

    if (st != EF_OK || is >= number)
        return st;
    return vl_put(txn, VL_STATE, vl_key_number(VL_FOLLOW_FLOOR, generation),
                  vl_bytes(&number, sizeof number), err);
}

/* --- ending ----------------------------------------------------------------------------------- */

static ef_status end_tenant(vl_txn *txn, int64_t generation, ef_str tenant, ef_error *err)
{
    int64_t shelf = 0, all = INT64_MAX;
    ef__follow_row f;
    bool found;
    vl_key records;
    ef_status st = follow_get(txn, generation, tenant, &f, &found, err);

    if (st == EF_OK)
        st = vl_shelf_find(txn, generation, tenant, &shelf, err);
    if (st == EF_OK)
        st = floor_raise(txn, generation, f.last, err);
    records = vl_key_number(VL_CHANGE, shelf);
    if (st == EF_OK)
        st = vl_cut(txn, VL_STATE, &records, &all, err);
    if (st == EF_OK)
        st = vl_delete(txn, VL_STATE, end_key(generation, f.until_us, tenant), err);
    return st == EF_OK ? vl_delete(txn, VL_STATE, vl_key_name(VL_FOLLOW, generation, tenant), err)
                       : st;
}

/* Removes one expired row with its records; a commit removes at most one. *out_followed: there was
 * a row, expired or not. */
static ef_status end_one(vl_txn *txn, int64_t generation, int64_t now_us, bool *out_followed,
                         ef_error *err)
{
    char buffer[VL_KEY_MAX];
    ef_str tenant;
    int64_t until_us;
    ef_status st = find_first(txn, generation, buffer, &tenant, &until_us, err);

    *out_followed = until_us != INT64_MAX;
    return st == EF_OK && until_us < now_us ? end_tenant(txn, generation, tenant, err) : st;
}

/* --- beginning -------------------------------------------------------------------------------- */

typedef struct following {
    int64_t generation;
    ef_str tenant;
    int64_t until_us, now_us;
    ef__follow_row *out;
} following;

static ef_status follow_begin(vl_txn *txn, const following *f, ef_error *err)
{
    vl_generation g;
    int64_t followed, shelf;
    bool found;
    ef_status st = vl_generation_get(txn, f->generation, &g, &found, err);

    if (st == EF_OK && !found)
        return ef__generation_missing(f->generation, err);
    if (st == EF_OK)
        st = count_followed(txn, f->generation, &followed, err);
    if (st == EF_OK && followed >= EF_LIMIT_FOLLOWED_TENANTS)
        return ef__follow_crowded(f->generation, err);
    if (st == EF_OK)
        st = vl_shelf_make(txn, f->generation, f->tenant, &shelf, err);
    *f->out = (ef__follow_row){.until_us = f->until_us};
    if (st == EF_OK)
        st = floor_get(txn, f->generation, &f->out->last, err);
    f->out->low = f->out->last = ef__follow_next(f->out, f->now_us);
    return st;
}

static ef_status follow_tenant(vl_txn *txn, void *context, ef_error *err)
{
    const following *f = context;
    bool found, followed;
    ef_status st = follow_get(txn, f->generation, f->tenant, f->out, &found, err);

    if (st == EF_OK && found) {
        st = vl_delete(txn, VL_STATE, end_key(f->generation, f->out->until_us, f->tenant), err);
        if (f->out->until_us < f->until_us)
            f->out->until_us = f->until_us;
    }
    /* A row that was found has no second one now, so it is not the one that ends. */
    if (st == EF_OK)
        st = end_one(txn, f->generation, f->now_us, &followed, err);
    if (st == EF_OK && !found)
        st = follow_begin(txn, f, err);
    if (st == EF_OK)
        st = follow_put(txn, f->generation, f->tenant, f->out, err);
    return st == EF_OK ? vl_put(txn, VL_STATE, end_key(f->generation, f->out->until_us, f->tenant),
                                (ef_str){"", 0}, err)
                       : st;
}

ef_status vl_follow_begin(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                          ef__follow_row *out, ef_error *err)
{
    following f = {.generation = generation,
                   .tenant = tenant,
                   .until_us = until_us,
                   .now_us = vl_now_us(vl_store_of(views)),
                   .out = out};

    return vl_change(views, false, follow_tenant, &f, err);
}

/* --- recording -------------------------------------------------------------------------------- */

static ef_status add_record(vl_txn *txn, int64_t shelf, int64_t number,
                            const ef__view_change *change, ef_error *err)
{
    vl_change_row row = {.position = change->view.last_position,
                         .kind = (int64_t)ef__change_kind_of(change)};
    char bytes[sizeof row + VL_KEY_MAX];
    ef_str id = change->view.id;

    if (id.len > VL_KEY_MAX)
        return vl_failed(txn, MDB_BAD_VALSIZE, "recording a change", err);
    memcpy(bytes, &row, sizeof row);
    memcpy(bytes + sizeof row, id.ptr, id.len);
    return vl_put(txn, VL_STATE, vl_key_numbers(VL_CHANGE, shelf, number),
                  vl_bytes(bytes, sizeof row + id.len), err);
}

/* The number of the oldest record; 0: none. */
static ef_status first_number(vl_txn *txn, int64_t shelf, int64_t *out, ef_error *err)
{
    vl_key prefix = vl_key_number(VL_CHANGE, shelf);
    vl_walk walk;
    ef_status st = vl_walk_open(txn, VL_STATE, &walk, err);

    *out = 0;
    if (st == EF_OK)
        st = vl_walk_from(&walk, &prefix, err);
    if (st == EF_OK && walk.found && vl_has_prefix(walk.key, &prefix))
        *out = (int64_t)vl_number_at(walk.key, prefix.len);
    vl_walk_close(&walk);
    return st;
}

/* Delete the oldest records of a tenant that has too many. */
static ef_status trim_changes(vl_txn *txn, int64_t shelf, ef__follow_row *f, ef_error *err)
{
    vl_key prefix = vl_key_number(VL_CHANGE, shelf);
    int64_t over = f->kept - EF_LIMIT_CHANGES_LEFT;
    ef_status st;

    if (f->kept <= EF_LIMIT_CHANGES_KEPT)
        return EF_OK;
    st = vl_cut(txn, VL_STATE, &prefix, &over, err);
    if (st == EF_OK)
        st = first_number(txn, shelf, &f->low, err);
    f->low--;
    f->kept = EF_LIMIT_CHANGES_LEFT;
    return st;
}

/* Records the changes of one tenant, if it is followed. */
static ef_status record_tenant(vl_part *part, const ef__view_change **changes, size_t count,
                               ef_error *err)
{
    int64_t generation = part->change->generation, shelf;
    ef_str tenant = changes[0]->view.tenant;
    ef__follow_row f;
    bool found;
    ef_status st = follow_get(part->txn, generation, tenant, &f, &found, err);

    if (st != EF_OK || !found)
        return st;
    st = vl_part_shelf(part, tenant, &shelf, err);
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        if (ef__view_change_is_nothing(changes[i]))
            continue;
        f.last = ef__follow_next(&f, part->now_us);
        f.kept++;
        st = add_record(part->txn, shelf, f.last, changes[i], err);
    }
    if (st == EF_OK)
        st = trim_changes(part->txn, shelf, &f, err);
    return st == EF_OK ? follow_put(part->txn, generation, tenant, &f, err) : st;
}

ef_status vl_changes_record(vl_part *part, ef_error *err)
{
    const ef__generation_change *change = part->change;
    const ef__view_change **sorted;
    bool followed;
    ef_status st = end_one(part->txn, change->generation, part->now_us, &followed, err);

    if (st != EF_OK || !followed || change->view_count == 0)
        return st;
    sorted = ef__views_sorted(change);
    if (!sorted)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a commit");
    for (size_t i = 0, next; st == EF_OK && i < change->view_count; i = next) {
        next = ef__changes_of_tenant(sorted, change->view_count, i);
        st = record_tenant(part, sorted + i, next - i, err);
    }
    free(sorted);
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

static ef_status list_records(vl_txn *txn, int64_t shelf, int64_t after, size_t limit,
                              ef__change_list *out, ef_error *err)
{
    vl_key prefix = vl_key_number(VL_CHANGE, shelf);
    vl_key from = vl_key_numbers(VL_CHANGE, shelf, after + 1);
    ef__change_record *items = NULL;
    size_t cap = 0;
    vl_walk walk;
    ef_status st = vl_walk_open(txn, VL_STATE, &walk, err);

    if (st == EF_OK)
        st = vl_walk_from(&walk, &from, err);
    while (st == EF_OK && out->count < limit && walk.found && vl_has_prefix(walk.key, &prefix)) {
        vl_change_row row;
        if (!vl_row_read(walk.value, &row, sizeof row)) {
            st = vl_row_damaged(txn, "the record of a change", err);
            break;
        }
        st = ef__change_list_add(
            out, &items, &cap,
            &(ef__change_record){
                .number = (int64_t)vl_number_at(walk.key, prefix.len),
                .position = row.position,
                .kind = (ef__change_kind)row.kind,
                .view_id = {walk.value.ptr + sizeof row, walk.value.len - sizeof row}},
            err);
        if (st == EF_OK)
            st = vl_walk_on(&walk, false, err);
    }
    vl_walk_close(&walk);
    return st;
}

ef_status vl_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                       size_t limit, ef__change_list *out, ef_error *err)
{
    int64_t shelf = 0;
    vl_txn txn;
    ef_status st = ef__change_list_ready(out, err);

    if (st == EF_OK)
        st = vl_begin(views, &txn, err);
    if (st != EF_OK)
        return st;
    st = follow_get(&txn, generation, tenant, &out->follow, &out->is_followed, err);
    if (st == EF_OK && out->is_followed)
        st = vl_shelf_find(&txn, generation, tenant, &shelf, err);
    if (st == EF_OK && out->is_followed && after < INT64_MAX)
        st = list_records(&txn, shelf, after, limit, out, err);
    vl_read_end(&txn);
    return st;
}
