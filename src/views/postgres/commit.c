/*
 * commit.c - the changes of an apply, in one transaction and two round trips:
 *
 *     request   locks; fences, live set, eras and cursors to be compared; all watermarks, views,
 *               index entries and counts, one statement each, before the comparisons are known
 *     response  the results. A row that differs from what was read ends the transaction
 *     request   rare changes (deletions, failures, going live, the record of changes for followed
 *               tenants), and the commit
 *
 * The isolation is READ COMMITTED: each statement sees what was committed before it began. Locks
 * (store.h) make sure that nothing changes between a comparison and the commit. This transaction
 * keeps the lock of a row that it inserted or updated, and of a fence, until it ends. Eras and the
 * live set are read by a separate statement after their locks were granted; changing them needs
 * those locks exclusively. A missing row cannot be locked and need not be: of two transactions that
 * insert it, the second waits at the primary key for the first, and then finds a row that differs
 * from what it has read.
 */
#include "store.h"

#include "../compare.h"

#include "../../base/utf8.h"

#include <stdlib.h>

enum { RECEIVE_EVERY = 64 }; /* statements: conn.h has a limit for those in flight */

typedef struct commit_work {
    vp_store *store;
    const ef__views_commit *commit;
    vp_sorted sorted;
    ef__fence *fences; /* those with a scope, in order */
    size_t fence_count;
    int64_t *ids; /* of the generations, in their order */
    size_t lock_count;
    int64_t now_us;
    bool any_open, live;
    struct found {
        bool is_there;
        int64_t era, position;
        size_t index_count;
        bool followed;          /* at least one of its tenants */
        int64_t follow_ends_us; /* the earliest `until` of those */
    } * found;                  /* of the generations, in their order */
} commit_work;

/* --- first request ---------------------------------------------------------------------------- */

static int by_scope(const void *a, const void *b)
{
    return ef__str_compare(((const ef__fence *)a)->scope, ((const ef__fence *)b)->scope);
}

static bool goes_live(const ef__views_commit *commit)
{
    for (size_t i = 0; i < commit->generation_count; i++)
        if (commit->generations[i].go_live)
            return true;
    return false;
}

/* Whether the change needs its locks exclusively. Going live changes the live set and an era;
 * cursors of tenants are compared with the generation's, which must not move meanwhile. */
static bool is_exclusive(const ef__generation_change *g)
{
    return g->go_live || g->tenant_count > 0;
}

/* In the order of ids. One statement locks neighbours that need the same kind of lock. */
static ef_status send_locks(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    const ef__views_commit *commit = w->commit;
    bool live = goes_live(commit);
    size_t from = 0, count = commit->generation_count;
    ef_status st = EF_OK;

    w->lock_count = 0;
    if (live || commit->live_set) {
        st = vp_lock(conn, live, (int64_t[]){0}, 1, err);
        w->lock_count++;
    }
    while (st == EF_OK && from < count) {
        bool alone = is_exclusive(w->sorted.generations[from]);
        size_t to = from;
        for (; to < count && is_exclusive(w->sorted.generations[to]) == alone; to++)
            w->ids[to] = w->sorted.generations[to]->generation;
        st = vp_lock(conn, alone, w->ids + from, to - from, err);
        w->lock_count++;
        from = to;
    }
    return st;
}

static ef_status send_fences(const commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array scopes, tokens;
    ef_status st;

    ef__pg_array_init(&scopes, EF__PG_TEXT);
    ef__pg_array_init(&tokens, EF__PG_INT);
    for (size_t i = 0; i < w->fence_count; i++) {
        ef__pg_array_str(&scopes, w->fences[i].scope);
        ef__pg_array_int(&tokens, w->fences[i].token);
    }
    ef__pg_add_array(&params, &scopes);
    ef__pg_add_array(&params, &tokens);
    st = ef__pg_send(conn, VP_FENCE_PASS, &params, err);
    ef__pg_array_release(&scopes);
    ef__pg_array_release(&tokens);
    return st;
}

static ef_status send_for_generations(const commit_work *w, ef__pg_conn *conn, int which,
                                      ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array ids;
    ef_status st;

    ef__pg_array_init(&ids, EF__PG_INT);
    for (size_t i = 0; i < w->commit->generation_count; i++)
        ef__pg_array_int(&ids, w->sorted.generations[i]->generation);
    ef__pg_add_array(&params, &ids);
    st = ef__pg_send(conn, which, &params, err);
    ef__pg_array_release(&ids);
    return st;
}

static ef_status send_cursors(const commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < w->commit->generation_count; i++) {
        const ef__generation_change *g = w->sorted.generations[i];
        ef__pg_params params = {0};
        if (g->cursor_after == 0)
            continue;
        ef__pg_add_int(&params, g->generation);
        ef__pg_add_int(&params, g->cursor_after);
        ef__pg_add_int(&params, g->cursor_before);
        st = ef__pg_send(conn, VP_GENERATION_MOVE, &params, err);
    }
    return st;
}

static ef_status send_changes(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = send_cursors(w, conn, err);

    if (st == EF_OK && w->sorted.watermark_count)
        st = vp_send_watermarks(conn, &w->sorted, err);
    if (st == EF_OK && w->sorted.view_count)
        st = vp_send_views(conn, &w->sorted, err);
    if (st == EF_OK && w->sorted.key_count)
        st = vp_send_keys(conn, &w->sorted, err);
    if (st == EF_OK)
        st = vp_send_counts(conn, w->commit, &w->sorted, w->now_us, err);
    return st == EF_OK ? send_for_generations(w, conn, VP_FAILURE_ANY_OPEN, err) : st;
}

static ef_status send_all(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = send_locks(w, conn, err);

    if (st == EF_OK && w->fence_count)
        st = send_fences(w, conn, err);
    if (st == EF_OK && w->commit->live_set)
        st = ef__pg_send(conn, VP_LIVE_SET_GET, NULL, err);
    if (st == EF_OK && w->commit->generation_count) {
        st = send_for_generations(w, conn, VP_GENERATION_GET, err);
        if (st == EF_OK)
            st = send_changes(w, conn, err);
    }
    return st;
}

/* --- response --------------------------------------------------------------------------------- */

static ef_status receive_fences(ef__pg_conn *conn, ef_error *err)
{
    PGresult *rows = NULL;
    ef_status st = ef__pg_receive(conn, &rows, err);

    if (st == EF_OK && PQntuples(rows) > 0)
        st = ef__fence_passed(ef__pg_str(rows, 0, 0), ef__pg_int(rows, 0, 1),
                              ef__pg_int(rows, 0, 2), err);
    PQclear(rows);
    return st;
}

static ef_status receive_live_set(ef__pg_conn *conn, int64_t asked, ef_error *err)
{
    PGresult *rows = NULL;
    ef_status st = ef__pg_receive(conn, &rows, err);
    int64_t found = st == EF_OK ? ef__pg_int(rows, 0, 0) : 0;

    PQclear(rows);
    return st == EF_OK ? ef__live_set_compare(asked, found, err) : st;
}

static size_t count_paths(ef_str paths)
{
    size_t count = paths.len > 0;

    for (size_t i = 0; i < paths.len; i++)
        count += paths.ptr[i] == ',';
    return count;
}

static ef_status receive_generations(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    PGresult *rows = NULL;
    ef_status st = ef__pg_receive(conn, &rows, err);

    for (size_t i = 0; st == EF_OK && i < w->commit->generation_count; i++) {
        w->found[i] = (struct found){0};
        for (int row = 0; row < PQntuples(rows); row++)
            if (ef__pg_int(rows, row, 0) == w->sorted.generations[i]->generation)
                w->found[i] = (struct found){.is_there = true,
                                             .era = ef__pg_int(rows, row, 1),
                                             .position = ef__pg_int(rows, row, 4),
                                             .index_count = count_paths(ef__pg_str(rows, row, 6)),
                                             .followed = !ef__pg_null(rows, row, 7),
                                             .follow_ends_us = ef__pg_int(rows, row, 7)};
    }
    PQclear(rows);
    return st;
}

/* Fails unless the number that a statement returns is `wanted`: otherwise one of its rows differs
 * from what was read. */
static ef_status receive_count(ef__pg_conn *conn, size_t wanted, const char *what, ef_error *err)
{
    PGresult *rows = NULL;
    ef_status st = ef__pg_receive(conn, &rows, err);
    int64_t found = st == EF_OK ? ef__pg_int(rows, 0, 0) : 0;

    PQclear(rows);
    if (st != EF_OK || found == (int64_t)wanted)
        return st;
    return ef_fail_numbers(err, EF_CONFLICT, (int64_t)wanted, found,
                           "only %lld of %zu %s are unchanged: they were written concurrently",
                           (long long)found, wanted, what);
}

static ef_status receive_cursor(ef__pg_conn *conn, const ef__generation_change *change,
                                struct found *found, ef_error *err)
{
    PGresult *done = NULL;
    ef_status st = ef__pg_receive(conn, &done, err);
    bool moved = st == EF_OK && strcmp(PQcmdTuples(done), "1") == 0;

    PQclear(done);
    if (st == EF_OK && !moved)
        return ef__cursor_moved(change, found->position, err);
    found->position = change->cursor_after;
    return st;
}

static ef_status receive_changes(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    PGresult *rows = NULL;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < w->commit->generation_count; i++)
        if (w->sorted.generations[i]->cursor_after)
            st = receive_cursor(conn, w->sorted.generations[i], &w->found[i], err);
    if (st == EF_OK && w->sorted.watermark_count)
        st = receive_count(conn, w->sorted.watermark_count, "watermarks", err);
    if (st == EF_OK && w->sorted.view_count)
        st = receive_count(conn, w->sorted.view_count, "views", err);
    if (st == EF_OK && w->sorted.key_count)
        st = ef__pg_receive(conn, NULL, err);
    if (st == EF_OK)
        st = ef__pg_receive(conn, NULL, err); /* counts */
    if (st == EF_OK)
        st = ef__pg_receive(conn, &rows, err);
    w->any_open = st == EF_OK && PQntuples(rows) > 0;
    PQclear(rows);
    return st;
}

static ef_status receive_all(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < w->lock_count; i++)
        st = ef__pg_receive(conn, NULL, err);
    if (st == EF_OK && w->fence_count)
        st = receive_fences(conn, err);
    if (st == EF_OK && w->commit->live_set)
        st = receive_live_set(conn, w->commit->live_set, err);
    if (st == EF_OK && w->commit->generation_count) {
        st = receive_generations(w, conn, err);
        for (size_t i = 0; st == EF_OK && i < w->commit->generation_count; i++)
            st = ef__era_compare(w->sorted.generations[i], w->found[i].is_there, w->found[i].era,
                                 err);
        if (st == EF_OK)
            st = receive_changes(w, conn, err);
    }
    return st;
}

/* --- second request: rare changes ------------------------------------------------------------- */

/* One statement a row. Results are received every RECEIVE_EVERY statements. */
static ef_status send_one(ef__pg_conn *conn, int which, const ef__pg_params *params, ef_error *err)
{
    ef_status st = conn->sent >= RECEIVE_EVERY ? ef__pg_receive_all(conn, err) : EF_OK;

    return st == EF_OK ? ef__pg_send(conn, which, params, err) : st;
}

static void add_view_key(ef__pg_params *params, const struct vp_view_at *at)
{
    ef__pg_add_int(params, at->generation);
    ef__pg_add_str(params, at->change->view.tenant);
    ef__pg_add_str(params, at->change->view.id);
}

/* Deletes entries of indexes that the view is no longer in. */
static ef_status trim_index_entries(ef__pg_conn *conn, const struct vp_view_at *at, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array stay;
    ef_status st;

    ef__pg_array_init(&stay, EF__PG_INT);
    for (size_t i = 0; i < at->change->key_count; i++)
        ef__pg_array_int(&stay, at->change->keys[i].index);
    add_view_key(&params, at);
    ef__pg_add_array(&params, &stay);
    st = send_one(conn, VP_INDEX_TRIM, &params, err);
    ef__pg_array_release(&stay);
    return st;
}

static size_t index_count_of(const commit_work *w, int64_t generation)
{
    for (size_t i = 0; i < w->commit->generation_count; i++)
        if (w->sorted.generations[i]->generation == generation)
            return w->found[i].index_count;
    return 0;
}

static ef_status write_rest_of_views(const commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < w->sorted.view_count; i++) {
        const struct vp_view_at *at = &w->sorted.views[i];
        ef__pg_params params = {0};
        if (at->change->deleted) {
            add_view_key(&params, at);
            st = send_one(conn, VP_VIEW_DELETE, &params, err);
        } else if (at->change->key_count < index_count_of(w, at->generation)) {
            st = trim_index_entries(conn, at, err);
        }
    }
    return st;
}

static ef_status open_failure(const commit_work *w, ef__pg_conn *conn, int64_t generation,
                              const ef__failure *f, ef_error *err)
{
    ef__pg_params params = {0};
    ef_str message = f->message;

    /* A truncated message may end inside a character, which no text column accepts. */
    while (message.len && !ef__utf8_valid(message))
        message.len--;
    ef__pg_add_int(&params, generation);
    ef__pg_add_str(&params, f->tenant);
    ef__pg_add_str(&params, f->stream);
    ef__pg_add_int(&params, f->seq);
    ef__pg_add_int(&params, f->position);
    ef__pg_add_str(&params, f->event_id);
    ef__pg_add_str(&params, f->code);
    ef__pg_add_str(&params, message);
    ef__pg_add_int(&params, w->now_us);
    ef__pg_add_int(&params, f->line);
    return send_one(conn, VP_FAILURE_PUT, &params, err);
}

/* Opens failures first, then resolves: a failure that the watermark passes in the same commit does
 * not stay open. When nothing is open, as in most commits, the streams are not read. */
static ef_status write_failures(const commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    bool open = w->any_open;
    ef_status st = EF_OK;

    for (size_t g = 0; g < w->commit->generation_count; g++) {
        const ef__generation_change *change = w->sorted.generations[g];
        for (size_t i = 0; st == EF_OK && i < change->failure_count; i++) {
            st = open_failure(w, conn, change->generation, &change->failures[i], err);
            open = true;
        }
    }
    return st == EF_OK && open && w->sorted.watermark_count
               ? vp_send_resolve(conn, &w->sorted, w->now_us, err)
               : st;
}

/* Goes live only if the journal has no event after the cursor. No events of the queue can be
 * committed meanwhile: such a commit shares the lock of the live set, which is exclusive here. */
static ef_status try_go_live(commit_work *w, ef__pg_conn *conn, size_t at, ef_error *err)
{
    ef__pg_params params = {0};
    int64_t head = 0;
    ef_status st = ef__commit_head(w->commit, &head, err);

    if (st != EF_OK || head != w->found[at].position)
        return st;
    ef__pg_add_int(&params, w->sorted.generations[at]->generation);
    ef__pg_add_int(&params, EF__GENERATION_LIVE);
    ef__pg_add_int(&params, w->now_us);
    st = send_one(conn, VP_GENERATION_GO_LIVE, &params, err);
    w->live = true;
    return st == EF_OK ? send_one(conn, VP_LIVE_SET_CHANGED, NULL, err) : st;
}

/* Last, so that the rows of followed tenants, which assign the numbers, are locked for a short
 * time. */
static ef_status record_changes(const commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t g = 0; st == EF_OK && g < w->commit->generation_count; g++) {
        int64_t id = w->sorted.generations[g]->generation;
        if (!w->found[g].followed)
            continue;
        st = vp_changes_record(conn, &w->sorted, id, err);
        if (st == EF_OK && w->found[g].follow_ends_us < w->now_us)
            st = vp_follow_end(conn, id, w->now_us, err);
    }
    return st;
}

static ef_status write_rest(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = write_rest_of_views(w, conn, err);

    for (size_t g = 0; g < w->commit->generation_count; g++) {
        const ef__generation_change *change = w->sorted.generations[g];
        for (size_t i = 0; st == EF_OK && i < change->tenant_count; i++)
            st = vp_cursor_write(conn, change->generation, w->found[g].position,
                                 &change->tenants[i], w->now_us, err);
    }
    if (st == EF_OK)
        st = write_failures(w, conn, err);
    for (size_t g = 0; st == EF_OK && g < w->commit->generation_count; g++)
        if (w->sorted.generations[g]->go_live)
            st = try_go_live(w, conn, g, err);
    return st == EF_OK ? record_changes(w, conn, err) : st;
}

/* --- the commit ------------------------------------------------------------------------------- */

/* Results that were not received yet are received with the commit. */
static ef_status write_all(void *context, ef__pg_conn *conn, ef_error *err)
{
    commit_work *w = context;
    ef_status st;

    w->live = false;
    st = send_all(w, conn, err);
    if (st == EF_OK)
        st = receive_all(w, conn, err);
    if (st == EF_OK)
        st = write_rest(w, conn, err);
    /* Last, so that no transaction waits for rows locked here while it has locked rows of the other
     * store. */
    return st == EF_OK && w->commit->also ? w->commit->also(w->commit->also_context, conn, err)
                                          : st;
}

static ef_status prepare_commit(commit_work *w, ef_error *err)
{
    const ef__views_commit *commit = w->commit;
    ef_status st = vp_sort(commit, &w->sorted, err);

    if (st != EF_OK)
        return st;
    w->found = malloc((commit->generation_count + 1) * sizeof *w->found);
    w->ids = malloc((commit->generation_count + 1) * sizeof *w->ids);
    w->fences = malloc((commit->fence_count + 1) * sizeof *w->fences);
    if (!w->found || !w->ids || !w->fences)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a commit");
    for (size_t i = 0; i < commit->fence_count; i++)
        if (commit->fences[i].scope.len)
            w->fences[w->fence_count++] = commit->fences[i];
    qsort(w->fences, w->fence_count, sizeof *w->fences, by_scope);
    return EF_OK;
}

ef_status vp_commit(ef_views *views, const ef__views_commit *commit, ef_error *err)
{
    commit_work w = {.store = vp_store_of(views), .commit = commit};
    ef_status st;

    w.now_us = vp_now_us(w.store);
    if (commit->out_live)
        *commit->out_live = false;
    st = prepare_commit(&w, err);
    if (st == EF_OK)
        st = vp_write(w.store, commit->no_sync, write_all, &w, err);
    /* The caller starts over and reads the watermarks: they show whether this commit was done, and
     * a commit that is repeated changes nothing. */
    if (st == EF_UNSURE)
        st = ef_fail(err, EF_CONFLICT,
                     "the connection was lost during a commit, which may have succeeded: read the "
                     "state again");
    if (st == EF_OK && commit->out_live)
        *commit->out_live = w.live;
    free(w.found);
    free(w.ids);
    free(w.fences);
    vp_sorted_release(&w.sorted);
    return st;
}
