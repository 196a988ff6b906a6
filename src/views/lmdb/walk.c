/*
 * walk.c - iterates over a tree in the order of its keys.
 */
#include "row.h"

ef_status vl_walk_open(vl_txn *txn, vl_tree tree, vl_walk *out, ef_error *err)
{
    int rc;

    *out = (vl_walk){.txn = txn, .tree = tree};
    rc = mdb_cursor_open(txn->mdb, txn->env->trees[tree], &out->mdb);
    return rc == 0 ? EF_OK : vl_failed(txn, rc, "reading rows", err);
}

void vl_walk_close(vl_walk *walk)
{
    if (walk->mdb)
        mdb_cursor_close(walk->mdb);
    walk->mdb = NULL;
}

/* `key` and `value` are the arguments of the operations that have any. */
static ef_status walk_move(vl_walk *walk, MDB_cursor_op op, ef_str key, ef_str value, ef_error *err)
{
    MDB_val at = vl_val(key), with = vl_val(value);
    int rc = mdb_cursor_get(walk->mdb, &at, &with, op);

    walk->found = rc == 0;
    walk->key = vl_str(at);
    walk->value = vl_str(with);
    return rc == 0 || rc == MDB_NOTFOUND ? EF_OK : vl_failed(walk->txn, rc, "reading rows", err);
}

static ef_status walk_step(vl_walk *walk, MDB_cursor_op op, ef_error *err)
{
    return walk_move(walk, op, (ef_str){0}, (ef_str){0}, err);
}

ef_status vl_walk_at(vl_walk *walk, const vl_key *key, ef_error *err)
{
    walk->found = false;
    return key->too_long ? EF_OK : walk_move(walk, MDB_SET_KEY, vl_key_str(key), (ef_str){0}, err);
}

ef_status vl_walk_from(vl_walk *walk, const vl_key *key, ef_error *err)
{
    return walk_move(walk, MDB_SET_RANGE, vl_key_str(key), (ef_str){0}, err);
}

ef_status vl_walk_before(vl_walk *walk, const vl_key *key, ef_error *err)
{
    ef_status st = vl_walk_from(walk, key, err);

    return st == EF_OK ? walk_step(walk, walk->found ? MDB_PREV : MDB_LAST, err) : st;
}

ef_status vl_walk_on(vl_walk *walk, bool back, ef_error *err)
{
    return walk_step(walk, back ? MDB_PREV : MDB_NEXT, err);
}

/* Moves to the entry's key (*out_at: it exists), otherwise to the next key, if there is one. */
static ef_status find_key(vl_walk *walk, const vl_entry *entry, bool *out_at, ef_error *err)
{
    ef_status st = vl_walk_from(walk, &entry->key, err);

    *out_at = st == EF_OK && walk->found && ef_str_equal(walk->key, vl_key_str(&entry->key));
    return st;
}

ef_status vl_walk_from_entry(vl_walk *walk, const vl_entry *entry, ef_error *err)
{
    bool at;
    ef_status st = find_key(walk, entry, &at, err);

    if (st != EF_OK || !at)
        return st;
    st = walk_move(walk, MDB_GET_BOTH_RANGE, vl_key_str(&entry->key), vl_key_str(&entry->value),
                   err);
    if (st != EF_OK)
        return st;
    if (walk->found) {
        walk->key = vl_key_str(&entry->key);
        return EF_OK;
    }
    /* All under this key are before it. A cursor that found nothing stands nowhere. */
    st = find_key(walk, entry, &at, err);
    return st == EF_OK ? walk_step(walk, MDB_NEXT_NODUP, err) : st;
}

ef_status vl_walk_before_entry(vl_walk *walk, const vl_entry *entry, ef_error *err)
{
    bool at;
    ef_status st = find_key(walk, entry, &at, err);

    if (st != EF_OK)
        return st;
    if (!at)
        return walk_step(walk, walk->found ? MDB_PREV : MDB_LAST, err);
    st = walk_move(walk, MDB_GET_BOTH_RANGE, vl_key_str(&entry->key), vl_key_str(&entry->value),
                   err);
    if (st != EF_OK)
        return st;
    if (walk->found)
        return walk_step(walk, MDB_PREV, err);
    st = find_key(walk, entry, &at, err);
    if (st == EF_OK)
        st = walk_step(walk, MDB_LAST_DUP, err);
    walk->key = vl_key_str(&entry->key);
    return st;
}

/* A row at a time from the front: LMDB 0.9.24 loses its way when a cursor deletes values of one key
 * again and again. */
ef_status vl_cut(vl_txn *txn, vl_tree tree, const vl_key *prefix, int64_t *limit, ef_error *err)
{
    vl_walk walk;
    ef_status st = vl_walk_open(txn, tree, &walk, err);

    while (st == EF_OK && *limit > 0) {
        int rc;
        st = vl_walk_from(&walk, prefix, err);
        if (st != EF_OK || !walk.found || !vl_has_prefix(walk.key, prefix))
            break;
        rc = mdb_cursor_del(walk.mdb, 0);
        if (rc != 0)
            st = vl_failed(txn, rc, "deleting rows", err);
        (*limit)--;
    }
    vl_walk_close(&walk);
    return st;
}
