/*
 * commit.c - the changes of an apply, in one transaction: fences and eras first, because they show
 * whether this process may still write the others.
 */
#include "store.h"

#include "../compare.h"
#include "../keys.h"

#include <stdlib.h>

/* --- fences ----------------------------------------------------------------------------------- */

static ef_status pass_fence(ef__sq_conn *conn, const ef__fence *fence, ef_error *err)
{
    int64_t seen = 0;
    ef_status st;

    if (fence->scope.len == 0)
        return EF_OK;
    st = vq_one_fence_get(conn, fence->scope, &seen, NULL, err);
    if (st != EF_OK || seen == fence->token)
        return st;
    st = ef__fence_compare(fence, seen, err);
    return st == EF_OK ? vq_run_fence_put(conn, fence->scope, fence->token, err) : st;
}

/* --- watermarks ------------------------------------------------------------------------------- */

static ef_status write_watermark(ef__sq_conn *conn, int64_t generation,
                                 const ef__watermark_change *change, ef_error *err)
{
    ef_status st = ef__watermark_is_none(&change->before)
                       ? vq_run_watermark_insert(conn, generation, change, err)
                       : vq_run_watermark_update(conn, generation, change, err);

    return st != EF_OK || sqlite3_changes(conn->db) > 0 ? st
                                                        : ef__watermark_moved(change->stream, err);
}

static ef_status write_watermarks(ef__sq_conn *conn, const ef__generation_change *change,
                                  ef_error *err)
{
    const ef__watermark_change **sorted;
    ef_status st = EF_OK;

    if (change->watermark_count == 0)
        return EF_OK;
    sorted = ef__watermarks_sorted(change);
    if (!sorted)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a commit");
    for (size_t i = 0; st == EF_OK && i < change->watermark_count; i++)
        st = write_watermark(conn, change->generation, sorted[i], err);
    free(sorted);
    return st;
}

/* --- views ------------------------------------------------------------------------------------
 *
 * Views are written in the order of keys, so that neighbours share pages. One statement writes a
 * view and compares the digest it was read with. If the generation has indexes, the old keys of the
 * view are read first, so that unchanged entries are not written.
 */

typedef ef_status write_entry(ef__sq_conn *conn, const struct vq_index_insert *entry,
                              ef_error *err);

/* Writes an entry for every key of `these` that is not in `those`. */
static ef_status change_entries(ef__sq_conn *conn, write_entry *write, int64_t generation,
                                const ef__view *view, ef_str these, ef_str those, ef_error *err)
{
    ef__index_key key;
    ef_status st = EF_OK;

    while (st == EF_OK && ef__keys_next_other(&these, those, &key))
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
    ef__view_change_count(change, view.digest, &g->views, g->digest);
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
    return st;
}

static ef_status write_views(ef__sq_conn *conn, vq_generation *generation,
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

/* --- the cursors of single tenants ------------------------------------------------------------ */

/* A change that changed no row found a cursor that differs from what was read. */
static ef_status check_changed(vq_store *store, ef_status st, ef_str tenant, ef_error *err)
{
    return st != EF_OK || sqlite3_changes(store->conn.db) ? st
                                                          : ef__tenant_cursor_moved(tenant, err);
}

static ef_status write_cursor(vq_store *store, const vq_generation *g,
                              const ef__tenant_cursor_change *c, ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    bool is_new = ef__tenant_cursor_is_none(&c->before);
    ef_status st = EF_OK;

    if (is_new) {
        st = vq_run_cursor_insert(
            conn, &(struct vq_cursor_insert){g->id, c, ef__views_now_us(&store->base)}, err);
        st = check_changed(store, st, c->tenant, err);
    }
    if (st == EF_OK && c->after.position == g->position)
        st = vq_run_cursor_delete(conn, g->id, c->tenant, is_new ? &c->after : &c->before, err);
    else if (st == EF_OK && !is_new)
        st = vq_run_cursor_update(
            conn, &(struct vq_cursor_update){g->id, c, ef__views_now_us(&store->base)}, err);
    return check_changed(store, st, c->tenant, err);
}

/* The generation's own cursor has been moved. */
static ef_status write_cursors(vq_store *store, const vq_generation *generation,
                               const ef__generation_change *change, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < change->tenant_count; i++)
        st = write_cursor(store, generation, &change->tenants[i], err);
    return st;
}

/* --- failures --------------------------------------------------------------------------------- */

/* Opens failures first, then resolves: a failure that the watermark passes in the same commit does
 * not stay open. Streams are searched only where a failure is open, which is rare. */
static ef_status write_failures(vq_store *store, const ef__generation_change *change, ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    int64_t id = change->generation, now_us = ef__views_now_us(&store->base);
    bool open = false;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < change->failure_count; i++)
        st = vq_run_failure_put(conn, &(struct vq_failure_put){id, &change->failures[i], now_us},
                                err);
    if (st == EF_OK)
        st = vq_one_failure_any_open(conn, id, &open, err);
    for (size_t i = 0; st == EF_OK && open && i < change->watermark_count; i++)
        st = vq_run_failure_resolve(
            conn, &(struct vq_failure_resolve){id, &change->watermarks[i], now_us}, err);
    return st;
}

/* --- the commit ------------------------------------------------------------------------------- */

static ef_status find_unchanged(ef__sq_conn *conn, const ef__generation_change *change,
                                vq_generation *out, ef_error *err)
{
    bool found;
    ef_status st = vq_one_generation_get(conn, change->generation, out, &found, err);

    if (st == EF_OK)
        st = ef__era_compare(change, found, found ? out->era : 0, err);
    return st == EF_OK ? ef__cursor_compare(change, out->position, err) : st;
}

/* Goes live only if the journal has no event after the cursor. This transaction has the write lock,
 * so no events of the queue can be committed meanwhile. */
static ef_status try_go_live(vq_store *store, const ef__views_commit *commit, vq_generation *g,
                             bool *out_live, ef_error *err)
{
    int64_t head = 0;
    ef_status st = ef__commit_head(commit, &head, err);

    if (st != EF_OK || head != g->position)
        return st;
    g->state = EF__GENERATION_LIVE;
    g->seam = g->position;
    g->era++;
    *out_live = true;
    return ef__sq_run(&store->conn, VQ_LIVE_SET_CHANGED, err);
}

static ef_status write_generation(vq_store *store, const ef__views_commit *commit,
                                  const ef__generation_change *change, bool *out_live,
                                  ef_error *err)
{
    vq_generation g;
    ef_status st = find_unchanged(&store->conn, change, &g, err);

    if (st != EF_OK)
        return st;
    if (change->cursor_after != 0)
        g.position = change->cursor_after;
    g.applied += change->applied;
    g.ignored += change->ignored;
    g.skipped += change->skipped;
    st = write_watermarks(&store->conn, change, err);
    if (st == EF_OK)
        st = write_cursors(store, &g, change, err);
    if (st == EF_OK)
        st = write_views(&store->conn, &g, change, err);
    if (st == EF_OK)
        st = vq_changes_record(store, &g, change, err);
    if (st == EF_OK)
        st = write_failures(store, change, err);
    if (st == EF_OK && change->go_live)
        st = try_go_live(store, commit, &g, out_live, err);
    return st == EF_OK
               ? vq_run_generation_put(&store->conn, &g, ef__views_now_us(&store->base), err)
               : st;
}

static ef_status compare_live_set(ef__sq_conn *conn, int64_t asked, ef_error *err)
{
    int64_t found = 0;
    ef_status st = vq_one_live_set_get(conn, &found, NULL, err);

    return st == EF_OK ? ef__live_set_compare(asked, found, err) : st;
}

static ef_status write_all(vq_store *store, const ef__views_commit *commit, bool *out_live,
                           ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < commit->fence_count; i++)
        st = pass_fence(&store->conn, &commit->fences[i], err);
    if (st == EF_OK && commit->live_set != 0)
        st = compare_live_set(&store->conn, commit->live_set, err);
    for (size_t i = 0; st == EF_OK && i < commit->generation_count; i++)
        st = write_generation(store, commit, &commit->generations[i], out_live, err);
    return st;
}

ef_status vq_commit(ef_views *views, const ef__views_commit *commit, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    bool live = false;
    ef_status st = vq_write_begin(store, commit->no_sync, err);

    if (commit->out_live)
        *commit->out_live = false;
    if (st != EF_OK)
        return st;
    st = vq_write_end(store, write_all(store, commit, &live, err), err);
    if (st == EF_OK && commit->out_live)
        *commit->out_live = live;
    return st;
}
