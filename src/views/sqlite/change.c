/*
 * change.c - writing changed views and their index entries.
 *
 * Views are written in the order of keys, so that neighbours share pages. One statement writes a
 * view and compares the digest it was read with. If the generation has indexes, the old keys of the
 * view are read first, so that unchanged entries are not written.
 */
#include "store.h"

#include "../compare.h"
#include "../keys.h"

#include <stdlib.h>

typedef ef_status write_entry(ef__sq_conn *conn, const struct vq_index_insert *entry,
                              ef_error *err);

/* Writes an entry for every key of `these` that is not in `those`. */
static ef_status change_entries(ef__sq_conn *conn, write_entry *write, int64_t generation,
                                const ef__view *view, ef_str these, ef_str those, ef_error *err)
{
    ef__index_key key;
    ef_status st = EF_OK;

    while (st == EF_OK && ef__keys_next(&these, &key))
        if (!ef__keys_have(those, &key))
            st = write(conn,
                       &(struct vq_index_insert){.generation = generation,
                                                 .tenant = view->tenant,
                                                 .idx = key.index,
                                                 .key = key.key,
                                                 .id = view->id},
                       err);
    return st;
}

static ef_status read_old_keys(ef__sq_conn *conn, int64_t generation, const ef__view *view,
                               ef__buf *out, ef_error *err)
{
    ef__sq_rows rows = vq_each_view_keys(
        conn, &(struct vq_view_keys){generation, view->tenant, view->id}, NULL, err);
    ef_str keys;

    ef__buf_reset(out);
    if (vq_next_view_keys(&rows, &keys))
        ef__buf_add_str(out, keys);
    return ef__sq_rows_end(&rows);
}

/* Inserts, updates or deletes a view. *out_changed is false if it differs from what was read. */
static ef_status write_view(ef__sq_conn *conn, int64_t generation, const ef__view_change *change,
                            const ef__view *view, ef_str keys, bool *out_changed, ef_error *err)
{
    int64_t before[2] = {(int64_t)change->before[0], (int64_t)change->before[1]};
    ef_status st;

    if (change->deleted)
        st = vq_run_view_delete(
            conn,
            &(struct vq_view_delete){generation, view->tenant, view->id, before[0], before[1]},
            err);
    else if (ef__digest_is_none(change->before))
        st = vq_run_view_insert(conn, generation, view, keys, err);
    else
        st = vq_run_view_update(
            conn, &(struct vq_view_update){generation, view, keys, before[0], before[1]}, err);
    *out_changed = st == EF_OK && sqlite3_changes(conn->db) > 0;
    return st;
}

typedef struct scratch {
    ef__buf old_keys, new_keys;
} scratch;

static ef_status write_change(ef__sq_conn *conn, vq_generation *g, const ef__view_change *change,
                              scratch *s, ef_error *err)
{
    ef__view view = change->view;
    bool changed = false;
    ef_status st = EF_OK;

    if (ef__view_change_is_nothing(change))
        return EF_OK;
    ef__buf_reset(&s->old_keys);
    ef__keys_pack(&s->new_keys, change);
    if (g->indexed && !ef__digest_is_none(change->before))
        st = read_old_keys(conn, g->id, &change->view, &s->old_keys, err);
    if (s->new_keys.failed || s->old_keys.failed)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for the keys of a view");
    view.digest[0] = view.digest[1] = 0;
    if (!change->deleted)
        ef__view_digest(&change->view, view.digest);
    if (st == EF_OK)
        st = write_view(conn, g->id, change, &view, ef__buf_str(&s->new_keys), &changed, err);
    if (st == EF_OK && !changed)
        return ef__view_moved(change->view.id, err);
    if (st == EF_OK && s->old_keys.len)
        st = change_entries(conn, vq_run_index_delete, g->id, &change->view,
                            ef__buf_str(&s->old_keys), ef__buf_str(&s->new_keys), err);
    if (st == EF_OK && s->new_keys.len)
        st = change_entries(conn, vq_run_index_insert, g->id, &change->view,
                            ef__buf_str(&s->new_keys), ef__buf_str(&s->old_keys), err);
    g->views += (change->deleted ? 0 : 1) - (ef__digest_is_none(change->before) ? 0 : 1);
    ef__digest_subtract(g->digest, change->before);
    ef__digest_add(g->digest, view.digest);
    return st;
}

ef_status vq_views_write(ef__sq_conn *conn, vq_generation *generation,
                         const ef__generation_change *change, ef_error *err)
{
    scratch s = {EF__BUF_INIT(EF__PACKED_MAX), EF__BUF_INIT(EF__PACKED_MAX)};
    const ef__view_change **sorted;
    ef_status st = EF_OK;

    if (change->view_count == 0)
        return EF_OK;
    sorted = ef__views_sorted(change);
    if (!sorted)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a commit");
    for (size_t i = 0; st == EF_OK && i < change->view_count; i++)
        st = write_change(conn, generation, sorted[i], &s, err);
    free(sorted);
    ef__buf_release(&s.old_keys);
    ef__buf_release(&s.new_keys);
    return st;
}
