/*
 * commit.c - what an apply changes, in one transaction: fences and eras first, for they say whether
 * the rest is still ours to write.
 */
#include "store.h"

#include "../compare.h"

#include <stdlib.h>

/* --- fences ----------------------------------------------------------------------------------- */

static ef_status find_token(ef__sq_conn *conn, ef_str scope, int64_t *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, VQ_FENCE_GET, &stmt, err);

    *out = 0;
    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, scope);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st == EF_OK && row) {
        *out = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return st;
}

static ef_status pass_fence(ef__sq_conn *conn, const ef__fence *fence, ef_error *err)
{
    sqlite3_stmt *stmt;
    int64_t seen;
    ef_status st;

    if (fence->scope.len == 0)
        return EF_OK;
    st = find_token(conn, fence->scope, &seen, err);
    if (st != EF_OK || seen == fence->token)
        return st;
    st = ef__fence_compare(fence, seen, err);
    if (st == EF_OK)
        st = ef__sq_stmt(conn, VQ_FENCE_PUT, &stmt, err);
    if (st != EF_OK)
        return st;
    ef__sq_bind_str(stmt, 1, fence->scope);
    sqlite3_bind_int64(stmt, 2, fence->token);
    return ef__sq_done(conn, stmt, err);
}

ef_status vq_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    if (st != EF_OK)
        return st;
    st = find_token(conn, scope, out_token, err);
    vq_read_end(store, reader);
    return st;
}

/* --- watermarks ------------------------------------------------------------------------------- */

static void bind_watermark(sqlite3_stmt *stmt, int at, const ef__watermark *w)
{
    sqlite3_bind_int64(stmt, at, w->applied_seq);
    sqlite3_bind_int64(stmt, at + 1, w->expected_next_seq);
    ef__sq_bind_blob(stmt, at + 2, (ef_str){(const char *)w->hash, sizeof w->hash});
}

static ef_status write_watermark(ef__sq_conn *conn, int64_t generation,
                                 const ef__watermark_change *change, ef_error *err)
{
    bool is_new = ef__watermark_is_none(&change->before), changed = false;
    sqlite3_stmt *stmt;
    ef_status st =
        ef__sq_stmt(conn, is_new ? VQ_WATERMARK_INSERT : VQ_WATERMARK_UPDATE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, generation);
    ef__sq_bind_str(stmt, 2, change->tenant);
    ef__sq_bind_str(stmt, 3, change->stream);
    bind_watermark(stmt, 4, &change->after);
    if (!is_new)
        bind_watermark(stmt, 7, &change->before);
    st = ef__sq_change(conn, stmt, &changed, err);
    return st != EF_OK || changed ? st : ef__watermark_moved(change->stream, err);
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

static ef_status open_failure(vq_store *store, int64_t generation, const ef__failure *f,
                              ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(&store->conn, VQ_FAILURE_PUT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, generation);
    ef__sq_bind_str(stmt, 2, f->tenant);
    ef__sq_bind_str(stmt, 3, f->stream);
    sqlite3_bind_int64(stmt, 4, f->seq);
    sqlite3_bind_int64(stmt, 5, f->position);
    ef__sq_bind_str(stmt, 6, f->event_id);
    ef__sq_bind_str(stmt, 7, f->code);
    ef__sq_bind_str(stmt, 8, f->message);
    sqlite3_bind_int64(stmt, 9, vq_now_us(store));
    return ef__sq_done(&store->conn, stmt, err);
}

static ef_status any_open(ef__sq_conn *conn, int64_t generation, bool *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, VQ_FAILURE_ANY_OPEN, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, generation);
    st = ef__sq_row(conn, stmt, out, err);
    sqlite3_reset(stmt);
    return st;
}

static ef_status resolve(vq_store *store, int64_t generation, const ef__watermark_change *w,
                         ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(&store->conn, VQ_FAILURE_RESOLVE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, generation);
    ef__sq_bind_str(stmt, 2, w->tenant);
    ef__sq_bind_str(stmt, 3, w->stream);
    sqlite3_bind_int64(stmt, 4, w->before.expected_next_seq);
    sqlite3_bind_int64(stmt, 5, w->after.expected_next_seq);
    sqlite3_bind_int64(stmt, 6, vq_now_us(store));
    return ef__sq_done(&store->conn, stmt, err);
}

/* Open first, then resolve: what the watermark passes in this very commit is not left open. Where
 * nothing is open, as nearly always, the streams are not looked at. */
static ef_status write_failures(vq_store *store, const ef__generation_change *change, ef_error *err)
{
    bool open = false;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < change->failure_count; i++)
        st = open_failure(store, change->generation, &change->failures[i], err);
    if (st == EF_OK)
        st = any_open(&store->conn, change->generation, &open, err);
    for (size_t i = 0; st == EF_OK && open && i < change->watermark_count; i++)
        st = resolve(store, change->generation, &change->watermarks[i], err);
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

/* The seam: live only if nothing lies behind the cursor, asked while nobody else can commit here.
 */
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
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, VQ_LIVE_SET_GET, &stmt, err);

    if (st == EF_OK)
        st = ef__sq_row(conn, stmt, &row, err);
    if (st != EF_OK)
        return st;
    found = row ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_reset(stmt);
    return ef__live_set_compare(asked, found, err);
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
