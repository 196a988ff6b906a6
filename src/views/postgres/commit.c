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
    const ef__views_commit *commit;
    vp_sorted sorted;
    ef__fence *fences; /* those with a scope, in order */
    size_t fence_count;
    int64_t *ids; /* of the generations, in their order */
    size_t lock_count;
    int64_t now_us;
    bool any_open, live;
    vp_generation *found; /* in the order of the generations */
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
    ef__pg_array scopes = {0}, tokens = {0};
    ef__pg_params params = {0};
    ef_status st;

    for (size_t i = 0; i < w->fence_count; i++) {
        ef__pg_array_str(&scopes, w->fences[i].scope);
        ef__pg_array_int(&tokens, w->fences[i].token);
    }
    ef__pg_add_array_of(&params, &scopes, EF__PG_TEXT);
    ef__pg_add_array_of(&params, &tokens, EF__PG_INT);
    st = ef__pg_send(conn, VP_FENCE_RAISE, &params, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, VP_FENCE_HIGHER, &params, err);
    ef__pg_array_release(&scopes);
    ef__pg_array_release(&tokens);
    return st;
}

static ef__pg_array generation_ids(const commit_work *w)
{
    ef__pg_array ids = {0};

    for (size_t i = 0; i < w->commit->generation_count; i++)
        ef__pg_array_int(&ids, w->sorted.generations[i]->generation);
    return ids;
}

static ef_status send_cursors(const commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < w->commit->generation_count; i++) {
        const ef__generation_change *g = w->sorted.generations[i];
        if (g->cursor_after)
            st = vp_send_generation_move(conn,
                                         &(struct vp_generation_move){.id = g->generation,
                                                                      .after = g->cursor_after,
                                                                      .before = g->cursor_before},
                                         err);
    }
    return st;
}

static ef_status send_changes(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_array ids;
    ef_status st = send_cursors(w, conn, err);

    if (st == EF_OK && w->sorted.watermark_count)
        st = vp_send_watermarks(conn, &w->sorted, err);
    if (st == EF_OK && w->sorted.view_count)
        st = vp_send_views(conn, &w->sorted, err);
    if (st == EF_OK)
        st = vp_send_made(conn, &w->sorted, err);
    if (st == EF_OK && w->sorted.key_count)
        st = vp_send_keys(conn, &w->sorted, err);
    if (st == EF_OK)
        st = vp_send_counts(conn, w->commit, &w->sorted, w->now_us, err);
    if (st != EF_OK)
        return st;
    ids = generation_ids(w);
    return vp_send_failure_any_open(conn, &ids, err);
}

static ef_status send_all(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = send_locks(w, conn, err);

    if (st == EF_OK && w->fence_count)
        st = send_fences(w, conn, err);
    if (st == EF_OK && w->commit->live_set)
        st = ef__pg_send(conn, VP_LIVE_SET_GET, NULL, err);
    if (st == EF_OK && w->commit->generation_count) {
        ef__pg_array ids = generation_ids(w);
        st = vp_send_generation_get(conn, &ids, err);
        if (st == EF_OK)
            st = send_changes(w, conn, err);
    }
    return st;
}

/* --- response --------------------------------------------------------------------------------- */

static ef_status receive_fences(ef__pg_conn *conn, ef_error *err)
{
    struct vp_fence_higher_row higher;
    ef__pg_rows rows = {.status = ef__pg_receive(conn, NULL, err)};

    if (rows.status == EF_OK)
        rows = ef__pg_rows_receive(conn, NULL, err);
    if (vp_next_fence_higher(&rows, &higher))
        rows.status = ef__fence_passed(higher.scope, higher.given, higher.found, err);
    return ef__pg_rows_end(&rows);
}

static ef_status receive_live_set(ef__pg_conn *conn, int64_t asked, ef_error *err)
{
    int64_t found = 0;
    ef_status st = vp_receive_live_set_get(conn, &found, NULL, err);

    return st == EF_OK ? ef__live_set_compare(asked, found, err) : st;
}

static vp_generation *found_generation(const commit_work *w, int64_t id)
{
    size_t i = 0;

    while (i < w->commit->generation_count && w->sorted.generations[i]->generation != id)
        i++;
    return &w->found[i];
}

static ef_status receive_generations(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_rows rows = ef__pg_rows_receive(conn, NULL, err);
    vp_generation row;

    memset(w->found, 0, w->commit->generation_count * sizeof *w->found);
    while (vp_next_generation_get(&rows, &row))
        *found_generation(w, row.id) = row;
    return ef__pg_rows_end(&rows);
}

/* Fails unless the number that a statement returned is `wanted`: otherwise one of its rows differs
 * from what was read. */
static ef_status compare_count(size_t wanted, int64_t found, const char *what, ef_error *err)
{
    if (found == (int64_t)wanted)
        return EF_OK;
    return ef_fail_numbers(err, EF_CONFLICT, (int64_t)wanted, found,
                           "only %lld of %zu %s are unchanged: they were written concurrently",
                           (long long)found, wanted, what);
}

static ef_status receive_cursor(ef__pg_conn *conn, const ef__generation_change *change,
                                vp_generation *found, ef_error *err)
{
    bool moved;
    ef_status st = vp_receive_generation_move(conn, &moved, err);

    if (st == EF_OK && !moved)
        return ef__cursor_moved(change, found->position, err);
    found->position = change->cursor_after;
    return st;
}

static ef_status receive_changes(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    const vp_sorted *sorted = &w->sorted;
    int64_t whole = 0;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < w->commit->generation_count; i++)
        if (sorted->generations[i]->cursor_after)
            st = receive_cursor(conn, sorted->generations[i], &w->found[i], err);
    if (st == EF_OK && sorted->watermark_count) {
        st = vp_receive_watermark_put(conn, &whole, NULL, err);
        if (st == EF_OK)
            st = compare_count(sorted->watermark_count, whole, "watermarks", err);
    }
    if (st == EF_OK && sorted->view_count) {
        st = vp_receive_view_put(conn, &whole, NULL, err);
        if (st == EF_OK)
            st = compare_count(sorted->view_count, whole, "views", err);
    }
    if (st == EF_OK && sorted->watermarks_made) {
        st = vp_receive_watermark_count(conn, &whole, NULL, err);
        if (st == EF_OK)
            st = compare_count(sorted->watermarks_made, whole, "watermarks", err);
    }
    if (st == EF_OK && sorted->views_made) {
        st = vp_receive_view_count(conn, &whole, NULL, err);
        if (st == EF_OK)
            st = compare_count(sorted->views_made, whole, "views", err);
    }
    if (st == EF_OK && sorted->key_count)
        st = ef__pg_receive(conn, NULL, err);
    if (st == EF_OK)
        st = ef__pg_receive(conn, NULL, err); /* counts */
    return st == EF_OK ? vp_receive_failure_any_open(conn, &w->any_open, err) : st;
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
            st = ef__era_compare(w->sorted.generations[i], w->found[i].id != 0, w->found[i].era,
                                 err);
        if (st == EF_OK)
            st = receive_changes(w, conn, err);
    }
    return st;
}

/* --- second request: rare changes ------------------------------------------------------------- */

/* One statement a row. Results are received every RECEIVE_EVERY statements. */
static ef_status make_room(ef__pg_conn *conn, ef_error *err)
{
    return conn->sent >= RECEIVE_EVERY ? ef__pg_receive_all(conn, err) : EF_OK;
}

/* Deletes entries of indexes that the view is no longer in. */
static ef_status trim_index_entries(ef__pg_conn *conn, const struct vp_view_at *at, ef_error *err)
{
    const ef__view_change *change = at->change;
    struct vp_index_trim trim = {
        .generation = at->generation, .tenant = change->view.tenant, .id = change->view.id};

    for (size_t i = 0; i < change->key_count; i++)
        ef__pg_array_int(&trim.stay, change->keys[i].index);
    return vp_send_index_trim(conn, &trim, err);
}

static ef_status write_rest_of_view(const commit_work *w, ef__pg_conn *conn,
                                    const struct vp_view_at *at, ef_error *err)
{
    const ef__view_change *change = at->change;
    ef_status st;

    if (!change->deleted &&
        (int64_t)change->key_count >= found_generation(w, at->generation)->index_count)
        return EF_OK;
    st = make_room(conn, err);
    if (st != EF_OK)
        return st;
    return change->deleted
               ? vp_send_view_delete(
                     conn,
                     &(struct vp_view_delete){at->generation, change->view.tenant, change->view.id},
                     err)
               : trim_index_entries(conn, at, err);
}

static ef_status open_failure(const commit_work *w, ef__pg_conn *conn, int64_t generation,
                              const ef__failure *f, ef_error *err)
{
    struct vp_failure_put put = {generation, f, f->message, w->now_us};
    ef_status st = make_room(conn, err);

    /* A truncated message may end inside a character, which no text column accepts. */
    while (put.message.len && !ef__utf8_valid(put.message))
        put.message.len--;
    return st == EF_OK ? vp_send_failure_put(conn, &put, err) : st;
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
static ef_status try_go_live(commit_work *w, ef__pg_conn *conn, const vp_generation *found,
                             ef_error *err)
{
    int64_t head = 0;
    ef_status st = ef__commit_head(w->commit, &head, err);

    if (st != EF_OK || head != found->position)
        return st;
    st = make_room(conn, err);
    if (st == EF_OK)
        st = vp_send_generation_go_live(
            conn, &(struct vp_generation_go_live){found->id, EF__GENERATION_LIVE, w->now_us}, err);
    w->live = true;
    return st == EF_OK ? ef__pg_send(conn, VP_LIVE_SET_CHANGED, NULL, err) : st;
}

/* Last: the rows of followed tenants, which assign the numbers, are locked for a short time. */
static ef_status record_changes(const commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t g = 0; st == EF_OK && g < w->commit->generation_count; g++) {
        const vp_generation *found = &w->found[g];
        if (!found->has_follow_ends_us)
            continue;
        st = vp_changes_record(conn, &w->sorted, found->id, err);
        if (st == EF_OK && found->follow_ends_us < w->now_us)
            st = vp_send_follow_end(conn, &(struct vp_follow_end){found->id, w->now_us}, err);
    }
    return st;
}

/* Under the exclusive lock of the generation, whose own cursor has been moved. */
static ef_status write_cursor(const commit_work *w, ef__pg_conn *conn, const vp_generation *found,
                              const ef__tenant_cursor_change *c, ef_error *err)
{
    ef__pg_on on = ef__pg_on_conn(conn);
    bool is_new = ef__tenant_cursor_is_none(&c->before);
    int64_t changed = 1;
    ef_status st = EF_OK;

    if (is_new)
        st = vp_run_cursor_insert(on, &(struct vp_cursor_insert){found->id, c, w->now_us}, &changed,
                                  err);
    if (st == EF_OK && changed && c->after.position == found->position)
        st = vp_run_cursor_delete(on, found->id, c->tenant, is_new ? &c->after : &c->before,
                                  &changed, err);
    else if (st == EF_OK && !is_new)
        st = vp_run_cursor_update(on, &(struct vp_cursor_update){found->id, c, w->now_us}, &changed,
                                  err);
    return st != EF_OK || changed ? st : ef__tenant_cursor_moved(c->tenant, err);
}

static ef_status write_rest(commit_work *w, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < w->sorted.view_count; i++)
        st = write_rest_of_view(w, conn, &w->sorted.views[i], err);
    for (size_t g = 0; g < w->commit->generation_count; g++) {
        const ef__generation_change *change = w->sorted.generations[g];
        for (size_t i = 0; st == EF_OK && i < change->tenant_count; i++)
            st = write_cursor(w, conn, &w->found[g], &change->tenants[i], err);
    }
    if (st == EF_OK)
        st = write_failures(w, conn, err);
    for (size_t g = 0; st == EF_OK && g < w->commit->generation_count; g++)
        if (w->sorted.generations[g]->go_live)
            st = try_go_live(w, conn, &w->found[g], err);
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
    /* Last: no transaction waits for rows locked here while it holds some of the other store. */
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
    commit_work w = {.commit = commit, .now_us = ef__views_now_us(views)};
    ef_status st;

    if (commit->out_live)
        *commit->out_live = false;
    st = prepare_commit(&w, err);
    if (st == EF_OK)
        st = vp_write(views, commit->no_sync, write_all, &w, err);
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
