/*
 * commit.c - commits an apply in one transaction. Fences and eras are compared first: they decide
 * whether the caller may still write.
 */
#include "store.h"

#include "../../base/hash.h"
#include "../compare.h"

#include <stdlib.h>

/* --- fences ----------------------------------------------------------------------------------- */

/* The scope of a lease may be longer than a key. Scopes are only compared for equality. */
static ef_status fence_key(ef_str scope, vl_key *out, ef_error *err)
{
    uint8_t hash[EF_HASH_BYTES];

    if (scope.len <= VL_NAME_MAX) {
        *out = vl_key_of(VL_FENCE);
        vl_key_add(out, scope.ptr, scope.len);
        return EF_OK;
    }
    if (!ef__sha256(scope, (ef_str){0}, hash))
        return ef_fail(err, EF_IO, "the crypto library failed");
    *out = vl_key_of(VL_FENCE_LONG);
    vl_key_add(out, hash, sizeof hash);
    return EF_OK;
}

ef_status vl_fence_find(vl_txn *txn, ef_str scope, int64_t *out, ef_error *err)
{
    bool found;
    vl_key key;
    ef_status st = fence_key(scope, &key, err);

    return st == EF_OK ? vl_row_get(txn, VL_STATE, key, out, sizeof *out, &found, err) : st;
}

ef_status vl_fence_put(vl_txn *txn, ef_str scope, int64_t token, ef_error *err)
{
    vl_key key;
    ef_status st = fence_key(scope, &key, err);

    return st == EF_OK ? vl_put(txn, VL_STATE, key, vl_bytes(&token, sizeof token), err) : st;
}

static ef_status pass_fence(vl_txn *txn, const ef__fence *fence, ef_error *err)
{
    int64_t seen = 0;
    ef_status st;

    if (fence->scope.len == 0)
        return EF_OK;
    st = vl_fence_find(txn, fence->scope, &seen, err);
    if (st == EF_OK)
        st = ef__fence_compare(fence, seen, err);
    return st == EF_OK && seen != fence->token ? vl_fence_put(txn, fence->scope, fence->token, err)
                                               : st;
}

/* --- watermarks ------------------------------------------------------------------------------- */

ef_status vl_part_shelf(vl_part *part, ef_str tenant, int64_t *out, ef_error *err)
{
    ef_status st = EF_OK;

    if (part->shelf == 0 || !ef_str_equal(part->tenant, tenant)) {
        part->tenant = tenant;
        st = vl_shelf_make(part->txn, part->change->generation, tenant, &part->shelf, err);
    }
    *out = part->shelf;
    return st;
}

/* Moves to the watermark if it is unchanged since it was read. */
static ef_status find_watermark(vl_walk *walk, const vl_key *key,
                                const ef__watermark_change *change, ef_error *err)
{
    ef__watermark is = {0};
    ef_status st = vl_walk_at(walk, key, err);

    if (st == EF_OK && walk->found && !vl_watermark_read(walk->value, &is))
        st = vl_row_damaged(walk->txn, "a watermark", err);
    return st == EF_OK ? ef__watermark_compare(change, &is, err) : st;
}

static ef_status write_watermark(vl_part *part, vl_walk *walk, const ef__watermark_change *change,
                                 ef_error *err)
{
    vl_watermark row = {.applied_seq = change->after.applied_seq,
                        .expected_next_seq = change->after.expected_next_seq};
    MDB_val at, value = vl_val(vl_bytes(&row, sizeof row));
    vl_key key;
    int64_t shelf;
    int rc;
    ef_status st = vl_part_shelf(part, change->tenant, &shelf, err);

    if (st != EF_OK)
        return st;
    key = vl_shelf_key(shelf, change->stream);
    st = find_watermark(walk, &key, change, err);
    if (st != EF_OK)
        return st;
    memcpy(row.hash, change->after.hash, sizeof row.hash);
    at = vl_val(vl_key_str(&key));
    rc = key.too_long ? MDB_BAD_VALSIZE
                      : mdb_cursor_put(walk->mdb, &at, &value, walk->found ? MDB_CURRENT : 0);
    return rc == 0 ? EF_OK : vl_failed(part->txn, rc, "writing a watermark", err);
}

static ef_status write_watermarks(vl_part *part, ef_error *err)
{
    const ef__watermark_change **sorted;
    vl_walk walk;
    ef_status st = EF_OK;

    if (part->change->watermark_count == 0)
        return EF_OK;
    sorted = ef__watermarks_sorted(part->change);
    if (!sorted)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a commit");
    st = vl_walk_open(part->txn, VL_WATERMARK, &walk, err);
    for (size_t i = 0; st == EF_OK && i < part->change->watermark_count; i++)
        st = write_watermark(part, &walk, sorted[i], err);
    vl_walk_close(&walk);
    free(sorted);
    return st;
}

/* --- the commit ------------------------------------------------------------------------------- */

typedef struct committing {
    vl_store *store;
    const ef__views_commit *commit;
    bool live;
} committing;

/* Goes live only if the head of the journal is at the cursor, read while no other transaction can
 * commit to the views. */
static ef_status try_go_live(vl_txn *txn, committing *c, vl_generation *g, ef_error *err)
{
    int64_t head = 0;
    ef_status st = ef__commit_head(c->commit, &head, err);

    if (st != EF_OK || head != g->position)
        return st;
    g->state = EF__GENERATION_LIVE;
    g->seam = g->position;
    g->era++;
    c->live = true;
    return vl_live_set_grow(txn, err);
}

static ef_status write_parts(vl_part *part, ef_error *err)
{
    ef_status st = write_watermarks(part, err);

    if (st == EF_OK)
        st = vl_cursors_write(part, err);
    if (st == EF_OK)
        st = vl_views_write(part, err);
    if (st == EF_OK)
        st = vl_changes_record(part, err);
    return st == EF_OK ? vl_failures_write(part, err) : st;
}

static ef_status write_generation(vl_txn *txn, committing *c, const ef__generation_change *change,
                                  ef_error *err)
{
    vl_generation g;
    vl_part part = {.txn = txn, .change = change, .generation = &g, .now_us = vl_now_us(c->store)};
    bool found;
    ef_status st = vl_generation_get(txn, change->generation, &g, &found, err);

    if (st == EF_OK)
        st = ef__era_compare(change, found, g.era, err);
    if (st == EF_OK)
        st = ef__cursor_compare(change, g.position, err);
    if (st != EF_OK)
        return st;
    if (change->cursor_after != 0)
        g.position = change->cursor_after;
    g.applied += change->applied;
    g.ignored += change->ignored;
    g.skipped += change->skipped;
    st = write_parts(&part, err);
    if (st == EF_OK && change->go_live)
        st = try_go_live(txn, c, &g, err);
    return st == EF_OK ? vl_generation_put(txn, change->generation, &g, part.now_us, err) : st;
}

static ef_status write_all(vl_txn *txn, void *context, ef_error *err)
{
    committing *c = context;
    const ef__views_commit *commit = c->commit;
    vl_state state;
    ef_status st = EF_OK;

    c->live = false;
    for (size_t i = 0; st == EF_OK && i < commit->fence_count; i++)
        st = pass_fence(txn, &commit->fences[i], err);
    if (st == EF_OK)
        st = vl_state_get(txn, &state, err);
    if (st == EF_OK)
        st = ef__live_set_compare(commit->live_set, state.live_set, err);
    for (size_t i = 0; st == EF_OK && i < commit->generation_count; i++)
        st = write_generation(txn, c, &commit->generations[i], err);
    return st;
}

ef_status vl_commit(ef_views *views, const ef__views_commit *commit, ef_error *err)
{
    committing c = {.store = vl_store_of(views), .commit = commit};
    ef_status st = vl_change(views, commit->no_sync, write_all, &c, err);

    if (commit->out_live)
        *commit->out_live = st == EF_OK && c.live;
    return st;
}
