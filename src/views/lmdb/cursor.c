/*
 * cursor.c - the cursors of single tenants: writing, finding, listing. Each has a second row, in
 * the order in which they are due.
 */
#include "store.h"

/* Times before 1970 sort before the others. */
static vl_key due_key(int64_t generation, int64_t due_us, ef_str tenant)
{
    vl_key key = vl_key_number(VL_DUE, generation);

    vl_key_add_number(&key, (uint64_t)due_us ^ (UINT64_C(1) << 63));
    vl_key_add(&key, tenant.ptr, tenant.len);
    return key;
}

static ef__tenant_cursor cursor_of(const vl_cursor_row *row)
{
    return (ef__tenant_cursor){.position = row->position,
                               .waiting = row->waiting,
                               .attempts = row->attempts,
                               .due_us = row->due_us};
}

static ef_status write_cursor(vl_part *part, const ef__tenant_cursor_change *c, ef_error *err)
{
    vl_txn *txn = part->txn;
    int64_t generation = part->change->generation;
    vl_key key = vl_key_name(VL_CURSOR, generation, c->tenant);
    vl_cursor_row row = {.position = c->after.position,
                         .waiting = c->after.waiting,
                         .attempts = c->after.attempts,
                         .due_us = c->after.due_us,
                         .updated_us = part->now_us};
    vl_cursor_row old;
    ef__tenant_cursor is;
    bool found;
    ef_status st = vl_row_get(txn, VL_STATE, key, &old, sizeof old, &found, err);

    if (st != EF_OK)
        return st;
    is = cursor_of(&old);
    if (!ef__tenant_cursor_equal(&is, &c->before))
        return ef__tenant_cursor_moved(c->tenant, err);
    if (found)
        st = vl_delete(txn, VL_STATE, due_key(generation, old.due_us, c->tenant), err);
    if (st == EF_OK && c->after.position == part->generation->position)
        return vl_delete(txn, VL_STATE, key, err);
    if (st == EF_OK)
        st = vl_put(txn, VL_STATE, key, vl_bytes(&row, sizeof row), err);
    return st == EF_OK ? vl_put(txn, VL_STATE, due_key(generation, row.due_us, c->tenant),
                                (ef_str){"", 0}, err)
                       : st;
}

ef_status vl_cursors_write(vl_part *part, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < part->change->tenant_count; i++)
        st = write_cursor(part, &part->change->tenants[i], err);
    return st;
}

ef_status vl_cursors_sum(vl_txn *txn, ef__generation *generation, ef_error *err)
{
    vl_key prefix = vl_key_number(VL_CURSOR, generation->id);
    vl_cursor_row row;
    vl_walk walk;
    ef_status st = vl_walk_open(txn, VL_STATE, &walk, err);

    if (st == EF_OK)
        st = vl_walk_from(&walk, &prefix, err);
    while (st == EF_OK && walk.found && vl_has_prefix(walk.key, &prefix)) {
        if (!vl_row_read(walk.value, &row, sizeof row)) {
            st = vl_row_damaged(txn, "a cursor", err);
            break;
        }
        if (generation->own_cursors == 0 || row.position < generation->own_lowest)
            generation->own_lowest = row.position;
        generation->own_cursors++;
        generation->own_waiting += row.waiting;
        st = vl_walk_on(&walk, false, err);
    }
    vl_walk_close(&walk);
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

static ef_status find_cursor(vl_txn *txn, int64_t generation, ef__tenant_cursor_item *out,
                             bool *out_found, ef_error *err)
{
    vl_cursor_row row;
    ef_status st = vl_row_get(txn, VL_STATE, vl_key_name(VL_CURSOR, generation, out->tenant), &row,
                              sizeof row, out_found, err);

    out->cursor = cursor_of(&row);
    out->updated_us = row.updated_us;
    return st;
}

ef_status vl_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                               ef__tenant_cursor_item *out, bool *out_found, ef_error *err)
{
    vl_txn txn;
    ef_status st = vl_begin(views, &txn, err);

    *out = (ef__tenant_cursor_item){.tenant = tenant};
    *out_found = false;
    if (st != EF_OK)
        return st;
    st = find_cursor(&txn, generation, out, out_found, err);
    vl_read_end(&txn);
    return st;
}

static ef_status list_due(vl_txn *txn, int64_t generation, int64_t due_us, size_t limit,
                          ef__tenant_cursor_list *out, ef_error *err)
{
    vl_key prefix = vl_key_number(VL_DUE, generation);
    uint64_t last = (uint64_t)due_us ^ (UINT64_C(1) << 63);
    ef__tenant_cursor_item *items = NULL;
    size_t cap = 0;
    bool found;
    vl_walk walk;
    ef_status st = vl_walk_open(txn, VL_STATE, &walk, err);

    if (st == EF_OK)
        st = vl_walk_from(&walk, &prefix, err);
    while (st == EF_OK && out->count < limit && walk.found && vl_has_prefix(walk.key, &prefix) &&
           vl_number_at(walk.key, prefix.len) <= last) {
        ef_str tenant = {walk.key.ptr + prefix.len + 8, walk.key.len - prefix.len - 8};
        items = ef__arena_grow(&out->room->arena, items, out->count, sizeof *items, &cap);
        if (items)
            items[out->count].tenant = ef__arena_copy(&out->room->arena, tenant);
        st = items && items[out->count].tenant.ptr
                 ? find_cursor(txn, generation, &items[out->count], &found, err)
                 : ef__no_memory(err);
        if (st != EF_OK)
            break;
        out->items = items;
        out->count++;
        st = vl_walk_on(&walk, false, err);
    }
    vl_walk_close(&walk);
    return st;
}

ef_status vl_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                              ef__tenant_cursor_list *out, ef_error *err)
{
    vl_txn txn;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    if (st == EF_OK)
        st = vl_begin(views, &txn, err);
    if (st != EF_OK)
        return st;
    st = list_due(&txn, generation, due_us, limit, out, err);
    vl_read_end(&txn);
    return st;
}
