/*
 * change.c - writing changed views and their index entries.
 *
 * Views are written in the order of keys, because neighbours share pages. The cursor finds a view,
 * compares its digest with the one that was read, and writes it in place; its packed keys show
 * which index entries to keep, delete and add.
 */
#include "store.h"

#include "../compare.h"
#include "../keys.h"

#include <stdlib.h>

typedef struct scratch {
    vl_walk views;
    ef__buf old_keys, new_keys;
} scratch;

/* --- index entries ---------------------------------------------------------------------------- */

static ef_status change_entry(vl_txn *txn, bool remove, const vl_entry *entry, ef_error *err)
{
    MDB_val key = vl_val(vl_key_str(&entry->key)), value = vl_val(vl_key_str(&entry->value));
    MDB_dbi index = txn->env->trees[VL_INDEX];
    int rc = remove ? mdb_del(txn->mdb, index, &key, &value)
                    : mdb_put(txn->mdb, index, &key, &value, MDB_NODUPDATA);

    if (rc == 0 || rc == MDB_NOTFOUND || rc == MDB_KEYEXIST)
        return EF_OK;
    return vl_failed(txn, rc, "writing an index", err);
}

/* For every key of `these` that is not in `those`. */
static ef_status change_entries(vl_txn *txn, bool remove, int64_t shelf, ef_str id, ef_str these,
                                ef_str those, ef_error *err)
{
    ef__index_key key;
    ef_status st = EF_OK;

    while (st == EF_OK && ef__keys_next(&these, &key)) {
        vl_entry entry;
        if (ef__keys_have(those, &key))
            continue;
        entry = vl_entry_of(shelf, key.index, key.key, id);
        st = entry.key.too_long || entry.value.too_long
                 ? vl_failed(txn, MDB_BAD_VALSIZE, "writing an index", err)
                 : change_entry(txn, remove, &entry, err);
    }
    return st;
}

/* --- views ------------------------------------------------------------------------------------ */

/* Moves to the view if it is unchanged since it was read; its packed keys are in s->old_keys. */
static ef_status find_view(scratch *s, const vl_key *key, const ef__view_change *change,
                           ef_error *err)
{
    ef__view is = {.digest = {0, 0}};
    ef_str keys = {0};
    ef_status st = vl_walk_at(&s->views, key, err);

    if (st == EF_OK && s->views.found && !vl_view_read(s->views.value, &is, &keys))
        st = vl_row_damaged(s->views.txn, "a view", err);
    ef__buf_reset(&s->old_keys);
    ef__buf_add_str(&s->old_keys, keys);
    if (st == EF_OK && s->old_keys.failed)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out for the keys of a view");
    return st == EF_OK ? ef__view_compare(change, is.digest, err) : st;
}

/* Reserves the space in the page and fills it, so the data is copied once. */
static int put_view(scratch *s, const vl_key *key, const ef__view *view, const uint64_t digest[2])
{
    vl_view row = {.last_position = view->last_position,
                   .last_seq = view->last_seq,
                   .digest = {digest[0], digest[1]},
                   .schema = view->schema,
                   .data_bytes = (uint32_t)view->data.len};
    MDB_val at = vl_val(vl_key_str(key));
    MDB_val value = {sizeof row + view->data.len + s->new_keys.len, NULL};
    unsigned how = MDB_RESERVE | (s->views.found ? MDB_CURRENT : 0);
    int rc = mdb_cursor_put(s->views.mdb, &at, &value, how);
    char *to = value.mv_data;

    if (rc != 0)
        return rc;
    memcpy(to, &row, sizeof row);
    if (view->data.len)
        memcpy(to + sizeof row, view->data.ptr, view->data.len);
    if (s->new_keys.len)
        memcpy(to + sizeof row + view->data.len, s->new_keys.ptr, s->new_keys.len);
    return 0;
}

static ef_status write_view(vl_part *part, scratch *s, const vl_key *key,
                            const ef__view_change *change, const uint64_t digest[2], ef_error *err)
{
    int rc;

    if (key->too_long || change->view.data.len > UINT32_MAX)
        rc = MDB_BAD_VALSIZE;
    else
        rc = change->deleted ? mdb_cursor_del(s->views.mdb, 0)
                             : put_view(s, key, &change->view, digest);
    return rc == 0 ? EF_OK : vl_failed(part->txn, rc, "writing a view", err);
}

static ef_status write_change(vl_part *part, scratch *s, const ef__view_change *change,
                              ef_error *err)
{
    uint64_t digest[2] = {0, 0};
    ef_str id = change->view.id, old_keys, new_keys;
    vl_key key;
    int64_t shelf;
    ef_status st;

    if (ef__view_change_is_nothing(change))
        return EF_OK;
    st = vl_part_shelf(part, change->view.tenant, &shelf, err);
    if (st != EF_OK)
        return st;
    key = vl_shelf_key(shelf, id);
    ef__keys_pack(&s->new_keys, change);
    if (s->new_keys.failed)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for the keys of a view");
    if (!change->deleted)
        ef__view_digest(&change->view, digest);
    st = find_view(s, &key, change, err);
    if (st == EF_OK)
        st = write_view(part, s, &key, change, digest, err);
    old_keys = ef__buf_str(&s->old_keys);
    new_keys = ef__buf_str(&s->new_keys);
    if (st == EF_OK && old_keys.len)
        st = change_entries(part->txn, true, shelf, id, old_keys, new_keys, err);
    if (st == EF_OK && new_keys.len)
        st = change_entries(part->txn, false, shelf, id, new_keys, old_keys, err);
    part->generation->views +=
        (change->deleted ? 0 : 1) - (ef__digest_is_none(change->before) ? 0 : 1);
    ef__digest_subtract(part->generation->digest, change->before);
    ef__digest_add(part->generation->digest, digest);
    return st;
}

ef_status vl_views_write(vl_part *part, ef_error *err)
{
    scratch s = {.old_keys = EF__BUF_INIT(EF__PACKED_MAX),
                 .new_keys = EF__BUF_INIT(EF__PACKED_MAX)};
    const ef__view_change **sorted;
    ef_status st;

    if (part->change->view_count == 0)
        return EF_OK;
    sorted = ef__views_sorted(part->change);
    if (!sorted)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a commit");
    st = vl_walk_open(part->txn, VL_VIEW, &s.views, err);
    for (size_t i = 0; st == EF_OK && i < part->change->view_count; i++)
        st = write_change(part, &s, sorted[i], err);
    vl_walk_close(&s.views);
    free(sorted);
    ef__buf_release(&s.old_keys);
    ef__buf_release(&s.new_keys);
    return st;
}
