/*
 * commit.c - commits an apply in one transaction. Fences and eras are compared first: they decide
 * whether the caller may still write.
 *
 * Views are written in the order of keys, because neighbours share pages. The cursor finds a view,
 * compares its digest with the one that was read, and writes it in place; its packed keys show
 * which index entries to keep, delete and add.
 */
#include "store.h"

#include "../../base/hash.h"
#include "../compare.h"
#include "../keys.h"

#include <stdlib.h>

/* --- fences ----------------------------------------------------------------------------------- */

/* The scope of a lease may be longer than a key. Scopes are only compared for equality. */
static vl_key fence_key(vl_txn *txn, ef_str scope)
{
    bool is_long = scope.len > VL_NAME_MAX;
    vl_key key = vl_key_of(is_long ? VL_FENCE_LONG : VL_FENCE);
    uint8_t hash[EF_HASH_BYTES];

    if (!is_long)
        vl_key_add(&key, scope.ptr, scope.len);
    else if (ef__sha256(scope, (ef_str){0}, hash))
        vl_key_add(&key, hash, sizeof hash);
    else
        vl_try(txn, ef_fail(txn->err, EF_IO, "the crypto library failed"));
    return key;
}

int64_t vl_fence_find(vl_txn *txn, ef_str scope)
{
    int64_t token;

    (void)vl_row_get(txn, fence_key(txn, scope), &token, sizeof token);
    return token;
}

static void pass_fence(vl_txn *txn, const ef__fence *fence)
{
    int64_t seen;

    if (fence->scope.len == 0)
        return;
    seen = vl_fence_find(txn, fence->scope);
    vl_try(txn, ef__fence_compare(fence, seen, txn->err));
    if (seen != fence->token)
        vl_put(txn, fence_key(txn, fence->scope), vl_bytes(&fence->token, sizeof fence->token));
}

/* --- watermarks ------------------------------------------------------------------------------- */

int64_t vl_part_shelf(vl_part *part, ef_str tenant)
{
    if (part->shelf == 0 || !ef_str_equal(part->tenant, tenant)) {
        part->tenant = tenant;
        part->shelf = vl_shelf_make(part->txn, part->change->generation, tenant);
    }
    return part->shelf;
}

/* At the row at which the walk stands, which is compared before it is written. */
static void write_watermark(vl_part *part, vl_walk *walk, const ef__watermark_change *change)
{
    vl_txn *txn = part->txn;
    vl_watermark row = {.applied_seq = change->after.applied_seq,
                        .expected_next_seq = change->after.expected_next_seq};
    MDB_val at, value = vl_val(vl_bytes(&row, sizeof row));
    vl_key key = vl_shelf_key(vl_part_shelf(part, change->tenant), change->stream);
    ef__watermark is = {0};
    int rc;

    memcpy(row.hash, change->after.hash, sizeof row.hash);
    at = vl_val(vl_key_str(&key));
    vl_walk_at(walk, &key);
    if (walk->found)
        vl_watermark_read(txn, walk->value, &is);
    vl_try(txn, ef__watermark_compare(change, &is, txn->err));
    if (txn->st != EF_OK)
        return;
    rc = key.too_long ? MDB_BAD_VALSIZE
                      : mdb_cursor_put(walk->mdb, &at, &value, walk->found ? MDB_CURRENT : 0);
    (void)vl_failed(txn, rc, "writing a watermark");
}

static void write_watermarks(vl_part *part)
{
    const ef__watermark_change **sorted;
    vl_walk walk;

    if (part->change->watermark_count == 0)
        return;
    sorted = ef__watermarks_sorted(part->change);
    if (!sorted)
        vl_try(part->txn, ef_fail(part->txn->err, EF_NO_MEMORY, "memory ran out for a commit"));
    walk = vl_walk_open(part->txn, VL_WATERMARK, VL_NO_PREFIX);
    for (size_t i = 0; part->txn->st == EF_OK && i < part->change->watermark_count; i++)
        write_watermark(part, &walk, sorted[i]);
    vl_walk_close(&walk);
    free(sorted);
}

/* --- index entries ---------------------------------------------------------------------------- */

typedef struct scratch {
    vl_walk views;
    ef__buf old_keys, new_keys;
} scratch;

static void change_entry(vl_txn *txn, bool remove, const vl_entry *entry)
{
    MDB_val key = vl_val(vl_key_str(&entry->key)), value = vl_val(vl_key_str(&entry->value));
    MDB_dbi index = txn->env->trees[VL_INDEX];
    int rc = MDB_BAD_VALSIZE;

    if (!entry->key.too_long && !entry->value.too_long)
        rc = remove ? mdb_del(txn->mdb, index, &key, &value)
                    : mdb_put(txn->mdb, index, &key, &value, MDB_NODUPDATA);
    if (rc != MDB_NOTFOUND && rc != MDB_KEYEXIST)
        (void)vl_failed(txn, rc, "writing an index");
}

/* For every key of `these` that is not in `those`. */
static void change_entries(vl_txn *txn, bool remove, int64_t shelf, ef_str id, ef_str these,
                           ef_str those)
{
    ef__index_key key;

    while (txn->st == EF_OK && ef__keys_next_other(&these, those, &key)) {
        vl_entry entry = vl_entry_of(shelf, key.index, key.key, id);
        change_entry(txn, remove, &entry);
    }
}

/* --- views ------------------------------------------------------------------------------------ */

/* Moves to the view, which must be unchanged since it was read; its packed keys are copied. */
static void find_view(vl_txn *txn, scratch *s, const vl_key *key, const ef__view_change *change)
{
    ef__view is = {.digest = {0, 0}};
    ef_str keys = {0};

    vl_walk_at(&s->views, key);
    if (s->views.found)
        vl_view_read(txn, s->views.value, &is, &keys);
    ef__buf_reset(&s->old_keys);
    ef__buf_add_str(&s->old_keys, keys);
    if (s->old_keys.failed || s->new_keys.failed)
        vl_try(txn, ef_fail(txn->err, EF_NO_MEMORY, "memory ran out for the keys of a view"));
    vl_try(txn, ef__view_compare(change, is.digest, txn->err));
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

static void write_change(vl_part *part, scratch *s, const ef__view_change *change)
{
    vl_txn *txn = part->txn;
    uint64_t digest[2];
    ef_str id = change->view.id, old_keys, new_keys;
    vl_key key;
    int64_t shelf;
    int rc = MDB_BAD_VALSIZE;

    if (ef__view_change_is_nothing(change))
        return;
    shelf = vl_part_shelf(part, change->view.tenant);
    key = vl_shelf_key(shelf, id);
    ef__keys_pack(&s->new_keys, change);
    ef__view_change_count(change, digest, &part->generation->views, part->generation->digest);
    find_view(txn, s, &key, change);
    if (txn->st != EF_OK)
        return;
    if (!key.too_long && change->view.data.len <= UINT32_MAX)
        rc = change->deleted ? mdb_cursor_del(s->views.mdb, 0)
                             : put_view(s, &key, &change->view, digest);
    (void)vl_failed(txn, rc, "writing a view");
    old_keys = ef__buf_str(&s->old_keys);
    new_keys = ef__buf_str(&s->new_keys);
    change_entries(txn, true, shelf, id, old_keys, new_keys);
    change_entries(txn, false, shelf, id, new_keys, old_keys);
}

static void write_views(vl_part *part)
{
    scratch s = {.old_keys = EF__BUF_INIT(EF__PACKED_MAX),
                 .new_keys = EF__BUF_INIT(EF__PACKED_MAX)};
    const ef__view_change **sorted;

    if (part->change->view_count == 0)
        return;
    sorted = ef__views_sorted(part->change);
    if (!sorted)
        vl_try(part->txn, ef_fail(part->txn->err, EF_NO_MEMORY, "memory ran out for a commit"));
    s.views = vl_walk_open(part->txn, VL_VIEW, VL_NO_PREFIX);
    for (size_t i = 0; part->txn->st == EF_OK && i < part->change->view_count; i++)
        write_change(part, &s, sorted[i]);
    vl_walk_close(&s.views);
    free(sorted);
    ef__buf_release(&s.old_keys);
    ef__buf_release(&s.new_keys);
}

/* --- the commit ------------------------------------------------------------------------------- */

typedef struct committing {
    const ef_views *views;
    const ef__views_commit *commit;
    bool live;
} committing;

/* Goes live only if the head of the journal is at the cursor, read while no other transaction can
 * commit to the views. */
static void try_go_live(vl_txn *txn, committing *c, vl_generation *g)
{
    int64_t head = 0;

    vl_try(txn, ef__commit_head(c->commit, &head, txn->err));
    if (txn->st != EF_OK || head != g->position)
        return;
    g->state = EF__GENERATION_LIVE;
    g->seam = g->position;
    g->era++;
    c->live = true;
    vl_live_set_grow(txn);
}

static void write_generation(vl_txn *txn, committing *c, const ef__generation_change *change)
{
    vl_generation g;
    vl_part part = {
        .txn = txn, .change = change, .generation = &g, .now_us = ef__views_now_us(c->views)};
    bool found = vl_generation_get(txn, change->generation, &g);

    vl_try(txn, ef__era_compare(change, found, g.era, txn->err));
    vl_try(txn, ef__cursor_compare(change, g.position, txn->err));
    if (txn->st != EF_OK)
        return;
    if (change->cursor_after != 0)
        g.position = change->cursor_after;
    g.applied += change->applied;
    g.ignored += change->ignored;
    g.skipped += change->skipped;
    write_watermarks(&part);
    vl_cursors_write(&part);
    write_views(&part);
    vl_changes_record(&part);
    vl_failures_write(&part);
    if (change->go_live)
        try_go_live(txn, c, &g);
    vl_generation_put(txn, change->generation, &g, part.now_us);
}

static void write_all(vl_txn *txn, void *context)
{
    committing *c = context;
    const ef__views_commit *commit = c->commit;
    vl_state state;

    c->live = false;
    for (size_t i = 0; i < commit->fence_count; i++)
        pass_fence(txn, &commit->fences[i]);
    state = vl_state_get(txn);
    vl_try(txn, ef__live_set_compare(commit->live_set, state.live_set, txn->err));
    for (size_t i = 0; i < commit->generation_count; i++)
        write_generation(txn, c, &commit->generations[i]);
}

ef_status vl_commit(ef_views *views, const ef__views_commit *commit, ef_error *err)
{
    committing c = {.views = views, .commit = commit};
    ef_status st = vl_change(views, commit->no_sync, write_all, &c, err);

    if (commit->out_live)
        *commit->out_live = st == EF_OK && c.live;
    return st;
}
