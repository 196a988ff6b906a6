/*
 * cursor.c - the cursors of single tenants: writing, finding, listing. Each has a second row, in
 * the order in which they are due.
 */
#include "store.h"

static ef__tenant_cursor cursor_of(const vl_cursor_row *row)
{
    return (ef__tenant_cursor){.position = row->position,
                               .waiting = row->waiting,
                               .attempts = row->attempts,
                               .due_us = row->due_us};
}

static void write_cursor(vl_part *part, const ef__tenant_cursor_change *c)
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
    bool found = vl_row_get(txn, key, &old, sizeof old);
    ef__tenant_cursor is = cursor_of(&old);

    if (!ef__tenant_cursor_equal(&is, &c->before))
        vl_try(txn, ef__tenant_cursor_moved(c->tenant, txn->err));
    if (found)
        vl_delete(txn, vl_key_time(VL_DUE, generation, old.due_us, c->tenant));
    if (c->after.position == part->generation->position) {
        vl_delete(txn, key);
        return;
    }
    vl_put(txn, key, vl_bytes(&row, sizeof row));
    vl_put(txn, vl_key_time(VL_DUE, generation, row.due_us, c->tenant), (ef_str){"", 0});
}

void vl_cursors_write(vl_part *part)
{
    for (size_t i = 0; i < part->change->tenant_count; i++)
        write_cursor(part, &part->change->tenants[i]);
}

void vl_cursors_sum(vl_txn *txn, ef__generation *generation)
{
    vl_walk walk = vl_walk_first(txn, VL_STATE, vl_key_number(VL_CURSOR, generation->id));

    for (; walk.found; vl_walk_on(&walk, false)) {
        vl_cursor_row row;
        vl_row_take(txn, walk.value, &row, sizeof row, "a cursor");
        if (generation->own_cursors == 0 || row.position < generation->own_lowest)
            generation->own_lowest = row.position;
        generation->own_cursors++;
        generation->own_waiting += row.waiting;
    }
    vl_walk_close(&walk);
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool find_cursor(vl_txn *txn, int64_t generation, ef__tenant_cursor_item *out)
{
    vl_cursor_row row;
    bool found = vl_row_get(txn, vl_key_name(VL_CURSOR, generation, out->tenant), &row, sizeof row);

    out->cursor = cursor_of(&row);
    out->updated_us = row.updated_us;
    return found;
}

ef_status vl_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                               ef__tenant_cursor_item *out, bool *out_found, ef_error *err)
{
    vl_txn txn = vl_begin(views, err);

    *out = (ef__tenant_cursor_item){.tenant = tenant};
    *out_found = find_cursor(&txn, generation, out);
    return vl_end(views, &txn);
}

ef_status vl_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                              ef__tenant_cursor_list *out, ef_error *err)
{
    static const ef__texts texts = {1, {offsetof(ef__tenant_cursor_item, tenant)}};
    vl_txn txn;
    vl_walk walk;
    ef_status st = ef__list_prepare(out, err);

    if (st != EF_OK)
        return st;
    txn = vl_begin(views, err);
    walk = vl_walk_first(&txn, VL_STATE, vl_key_number(VL_DUE, generation));
    for (; out->count < limit && walk.found && vl_time_at(walk.key) <= due_us;
         vl_walk_on(&walk, false)) {
        ef__tenant_cursor_item item = {.tenant = vl_key_rest(walk.key, VL_TIME_KEY_BYTES)};
        (void)find_cursor(&txn, generation, &item);
        vl_try(&txn, ef__list_add(out, &item, &texts, err));
    }
    vl_walk_close(&walk);
    return vl_end(views, &txn);
}
