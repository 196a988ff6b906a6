/*
 * commit.c - the changes of an apply, in one transaction: fences and eras first, because they show
 * whether this process may still write the others.
 */
#include "store.h"

#include "../compare.h"

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

ef_status vq_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    *out_token = 0;
    if (st != EF_OK)
        return st;
    st = vq_one_fence_get(conn, scope, out_token, NULL, err);
    vq_read_end(store, reader);
    return st;
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

/* --- failures --------------------------------------------------------------------------------- */

/* Opens failures first, then resolves: a failure that the watermark passes in the same commit does
 * not stay open. Streams are searched only where a failure is open, which is rare. */
static ef_status write_failures(vq_store *store, const ef__generation_change *change, ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    int64_t id = change->generation, now_us = vq_now_us(store);
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
    ef_status st = vq_generation_find(conn, change->generation, out, &found, err);

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
        st = vq_cursors_write(store, &g, change, err);
    if (st == EF_OK)
        st = vq_views_write(&store->conn, &g, change, err);
    if (st == EF_OK)
        st = vq_changes_record(store, &g, change, err);
    if (st == EF_OK)
        st = write_failures(store, change, err);
    if (st == EF_OK && change->go_live)
        st = try_go_live(store, commit, &g, out_live, err);
    return st == EF_OK ? vq_generation_put(store, &g, err) : st;
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
