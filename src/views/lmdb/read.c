/*
 * read.c - single views and watermarks, lists of watermarks, fences; and snapshots.
 */
#include "store.h"

#include <stdlib.h>

/* --- rows ------------------------------------------------------------------------------------- */

bool vl_view_read(ef_str row, ef__view *out, ef_str *out_keys)
{
    vl_view head;

    if (!vl_row_read(row, &head, sizeof head) || row.len - sizeof head < head.data_bytes)
        return false;
    *out = (ef__view){.data = {row.ptr + sizeof head, head.data_bytes},
                      .last_position = head.last_position,
                      .last_seq = head.last_seq,
                      .schema = head.schema,
                      .digest = {head.digest[0], head.digest[1]}};
    if (out_keys)
        *out_keys =
            (ef_str){out->data.ptr + out->data.len, row.len - sizeof head - head.data_bytes};
    return true;
}

bool vl_watermark_read(ef_str row, ef__watermark *out)
{
    vl_watermark head;

    if (!vl_row_read(row, &head, sizeof head))
        return false;
    *out = (ef__watermark){.applied_seq = head.applied_seq,
                           .expected_next_seq = head.expected_next_seq};
    memcpy(out->hash, head.hash, sizeof out->hash);
    return true;
}

/* The row of `name` on the tenant's shelf. */
static ef_status find_row(vl_txn *txn, vl_tree tree, int64_t generation, ef_str tenant, ef_str name,
                          ef_str *out, bool *out_found, ef_error *err)
{
    int64_t shelf;
    ef_status st = vl_shelf_find(txn, generation, tenant, &shelf, err);

    *out_found = false;
    return st == EF_OK && shelf ? vl_get(txn, tree, vl_shelf_key(shelf, name), out, out_found, err)
                                : st;
}

static ef_status get_view(vl_txn *txn, int64_t generation, ef_str tenant, ef_str id,
                          ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    ef_str row;
    ef_status st = find_row(txn, VL_VIEW, generation, tenant, id, &row, out_found, err);

    if (st != EF_OK || !*out_found)
        return st;
    if (!vl_view_read(row, out, NULL))
        return vl_row_damaged(txn, "a view", err);
    out->tenant = ef__arena_copy(arena, tenant);
    out->id = ef__arena_copy(arena, id);
    out->data = ef__arena_copy(arena, out->data);
    return out->tenant.ptr && out->id.ptr && out->data.ptr
               ? EF_OK
               : ef_fail(err, EF_NO_MEMORY, "memory ran out for a view");
}

static ef_status get_watermark(vl_txn *txn, int64_t generation, ef_str tenant, ef_str stream,
                               ef__watermark *out, bool *out_found, ef_error *err)
{
    ef_str row;
    ef_status st = find_row(txn, VL_WATERMARK, generation, tenant, stream, &row, out_found, err);

    if (st == EF_OK && *out_found && !vl_watermark_read(row, out))
        st = vl_row_damaged(txn, "a watermark", err);
    return st;
}

/* --- of the store ----------------------------------------------------------------------------- */

ef_status vl_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                      ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    vl_txn txn;
    ef_status st = vl_begin(views, &txn, err);

    *out_found = false;
    if (st != EF_OK)
        return st;
    st = get_view(&txn, generation, tenant, id, arena, out, out_found, err);
    vl_read_end(&txn);
    return st;
}

ef_status vl_watermark_get(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                           ef__watermark *out, bool *out_found, ef_error *err)
{
    vl_txn txn;
    ef_status st = vl_begin(views, &txn, err);

    *out = (ef__watermark){0};
    *out_found = false;
    if (st != EF_OK)
        return st;
    st = get_watermark(&txn, generation, tenant, stream, out, out_found, err);
    vl_read_end(&txn);
    return st;
}

ef_status vl_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err)
{
    vl_txn txn;
    ef_status st = vl_begin(views, &txn, err);

    if (st != EF_OK)
        return st;
    st = vl_fence_find(&txn, scope, out_token, err);
    vl_read_end(&txn);
    return st;
}

ef_status vl_live_set_get(ef_views *views, int64_t *out, ef_error *err)
{
    vl_state state = {0};
    vl_txn txn;
    ef_status st = vl_begin(views, &txn, err);

    if (st != EF_OK)
        return st;
    st = vl_state_get(&txn, &state, err);
    vl_read_end(&txn);
    *out = state.live_set;
    return st;
}

/* --- watermarks of a generation --------------------------------------------------------------- */

typedef bool each_watermark(void *context, ef_str tenant, ef_str stream,
                            const ef__watermark *watermark);

static ef_status scan_shelf(vl_walk *walk, ef_str tenant, int64_t shelf, each_watermark *each,
                            void *context, bool *more, ef_error *err)
{
    vl_key prefix = vl_shelf_key(shelf, (ef_str){0});
    ef__watermark w;
    ef_status st = vl_walk_from(walk, &prefix, err);

    while (st == EF_OK && *more && walk->found && vl_has_prefix(walk->key, &prefix)) {
        ef_str stream = {walk->key.ptr + prefix.len, walk->key.len - prefix.len};
        if (!vl_watermark_read(walk->value, &w))
            return vl_row_damaged(walk->txn, "a watermark", err);
        *more = each(context, tenant, stream, &w);
        if (*more)
            st = vl_walk_on(walk, false, err);
    }
    return st;
}

static ef_status scan_watermarks(vl_txn *txn, int64_t generation, each_watermark *each,
                                 void *context, ef_error *err)
{
    vl_key prefix = vl_key_number(VL_SHELF, generation);
    vl_walk shelves, marks = {0};
    int64_t shelf;
    bool more = true;
    ef_status st = vl_walk_open(txn, VL_STATE, &shelves, err);

    if (st == EF_OK)
        st = vl_walk_open(txn, VL_WATERMARK, &marks, err);
    if (st == EF_OK)
        st = vl_walk_from(&shelves, &prefix, err);
    while (st == EF_OK && more && shelves.found && vl_has_prefix(shelves.key, &prefix)) {
        ef_str tenant = {shelves.key.ptr + prefix.len, shelves.key.len - prefix.len};
        st = vl_row_read(shelves.value, &shelf, sizeof shelf)
                 ? scan_shelf(&marks, tenant, shelf, each, context, &more, err)
                 : vl_row_damaged(txn, "a shelf", err);
        if (st == EF_OK && more)
            st = vl_walk_on(&shelves, false, err);
    }
    vl_walk_close(&marks);
    vl_walk_close(&shelves);
    return st;
}

ef_status vl_watermark_scan(ef_views *views, int64_t generation, each_watermark *each,
                            void *context, ef_error *err)
{
    vl_txn txn;
    ef_status st = vl_begin(views, &txn, err);

    if (st != EF_OK)
        return st;
    st = scan_watermarks(&txn, generation, each, context, err);
    vl_read_end(&txn);
    return st;
}

/* --- snapshots -------------------------------------------------------------------------------- */

typedef struct vl_snapshot {
    ef_views base; /* first, so that an ef_views * is this */
    ef_views *of;
    bool begun; /* by the first read */
    vl_txn txn;
} vl_snapshot;

static ef_status begin_once(vl_snapshot *snapshot, ef_error *err)
{
    ef_status st = snapshot->begun ? EF_OK : vl_begin(snapshot->of, &snapshot->txn, err);

    snapshot->begun = st == EF_OK;
    return st;
}

static ef_status snapshot_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                                   ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    vl_snapshot *snapshot = (vl_snapshot *)views;
    ef_status st = begin_once(snapshot, err);

    *out_found = false;
    return st == EF_OK
               ? get_view(&snapshot->txn, generation, tenant, id, arena, out, out_found, err)
               : st;
}

static ef_status snapshot_watermark_get(ef_views *views, int64_t generation, ef_str tenant,
                                        ef_str stream, ef__watermark *out, bool *out_found,
                                        ef_error *err)
{
    vl_snapshot *snapshot = (vl_snapshot *)views;
    ef_status st = begin_once(snapshot, err);

    *out = (ef__watermark){0};
    *out_found = false;
    return st == EF_OK
               ? get_watermark(&snapshot->txn, generation, tenant, stream, out, out_found, err)
               : st;
}

static void snapshot_close(ef_views *views)
{
    vl_snapshot *snapshot = (vl_snapshot *)views;

    if (snapshot->begun)
        vl_read_end(&snapshot->txn);
    free(snapshot);
}

static const ef__views_ops SNAPSHOT_OPS = {
    .name = "lmdb snapshot",
    .close = snapshot_close,
    .view_get = snapshot_view_get,
    .watermark_get = snapshot_watermark_get,
};

ef_status vl_snapshot_open(ef_views *views, ef_views **out, ef_error *err)
{
    vl_snapshot *snapshot = malloc(sizeof *snapshot);

    *out = NULL;
    if (!snapshot)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a snapshot");
    *snapshot = (vl_snapshot){.base = *views, .of = views};
    snapshot->base.ops = &SNAPSHOT_OPS;
    *out = &snapshot->base;
    return EF_OK;
}
