/*
 * change.c - writing changed views and their index entries.
 *
 * In the order of keys, so that neighbours share pages. A view is written by one statement that
 * compares the digest it was read with; only where the generation has indexes are its old keys read
 * first, so that entries that stay are left alone.
 */
#include "store.h"

#include "../compare.h"
#include "../keys.h"

#include <stdlib.h>

/* Run `which` for every key of `these` that is not in `those`. */
static ef_status change_entries(ef__sq_conn *conn, int which, int64_t generation,
                                const ef__view *view, ef_str these, ef_str those, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef__index_key key;
    ef_status st = ef__sq_stmt(conn, which, &stmt, err);

    while (st == EF_OK && ef__keys_next(&these, &key)) {
        if (ef__keys_have(those, &key))
            continue;
        sqlite3_bind_int64(stmt, 1, generation);
        ef__sq_bind_str(stmt, 2, view->tenant);
        sqlite3_bind_int(stmt, 3, key.index);
        ef__sq_bind_blob(stmt, 4, key.key);
        ef__sq_bind_str(stmt, 5, view->id);
        st = ef__sq_done(conn, stmt, err);
    }
    return st;
}

static void bind_key(sqlite3_stmt *stmt, int64_t generation, const ef__view *view)
{
    sqlite3_bind_int64(stmt, 1, generation);
    ef__sq_bind_str(stmt, 2, view->tenant);
    ef__sq_bind_str(stmt, 3, view->id);
}

static ef_status read_old_keys(ef__sq_conn *conn, int64_t generation, const ef__view *view,
                               ef__buf *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, VQ_VIEW_KEYS, &stmt, err);

    ef__buf_reset(out);
    if (st != EF_OK)
        return st;
    bind_key(stmt, generation, view);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st == EF_OK && row) {
        ef__buf_add_str(out, ef__sq_column_blob(stmt, 0));
        sqlite3_reset(stmt);
    }
    return st;
}

/* Insert, update or delete by what was there before. *out_changed is false when that is not so. */
static ef_status write_view(ef__sq_conn *conn, int64_t generation, const ef__view_change *change,
                            const uint64_t digest[2], ef_str keys, bool *out_changed, ef_error *err)
{
    const ef__view *view = &change->view;
    bool is_new = ef__digest_is_none(change->before);
    int before_at = change->deleted ? 4 : 11;
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn,
                               change->deleted ? VQ_VIEW_DELETE
                               : is_new        ? VQ_VIEW_INSERT
                                               : VQ_VIEW_UPDATE,
                               &stmt, err);

    if (st != EF_OK)
        return st;
    bind_key(stmt, generation, view);
    if (!change->deleted) {
        ef__sq_bind_str(stmt, 4, view->data);
        sqlite3_bind_int64(stmt, 5, view->last_position);
        sqlite3_bind_int64(stmt, 6, view->last_seq);
        sqlite3_bind_int(stmt, 7, view->schema);
        sqlite3_bind_int64(stmt, 8, (int64_t)digest[0]);
        sqlite3_bind_int64(stmt, 9, (int64_t)digest[1]);
        ef__sq_bind_blob(stmt, 10, keys);
    }
    if (!is_new) {
        sqlite3_bind_int64(stmt, before_at, (int64_t)change->before[0]);
        sqlite3_bind_int64(stmt, before_at + 1, (int64_t)change->before[1]);
    }
    return ef__sq_change(conn, stmt, out_changed, err);
}

typedef struct scratch {
    ef__buf old_keys, new_keys;
} scratch;

static ef_status write_change(ef__sq_conn *conn, vq_generation *g, const ef__view_change *change,
                              scratch *s, ef_error *err)
{
    uint64_t digest[2] = {0, 0};
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
    if (!change->deleted)
        ef__view_digest(&change->view, digest);
    if (st == EF_OK)
        st = write_view(conn, g->id, change, digest, ef__buf_str(&s->new_keys), &changed, err);
    if (st == EF_OK && !changed)
        return ef__view_moved(change->view.id, err);
    if (st == EF_OK && s->old_keys.len)
        st = change_entries(conn, VQ_INDEX_DELETE, g->id, &change->view, ef__buf_str(&s->old_keys),
                            ef__buf_str(&s->new_keys), err);
    if (st == EF_OK && s->new_keys.len)
        st = change_entries(conn, VQ_INDEX_INSERT, g->id, &change->view, ef__buf_str(&s->new_keys),
                            ef__buf_str(&s->old_keys), err);
    g->views += (change->deleted ? 0 : 1) - (ef__digest_is_none(change->before) ? 0 : 1);
    ef__digest_subtract(g->digest, change->before);
    ef__digest_add(g->digest, digest);
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
