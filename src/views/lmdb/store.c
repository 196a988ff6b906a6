/*
 * store.c - opens and closes the store, and its table of functions.
 */
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Address space, not memory or disk: the file is as long as its content. */
#define MAP_BYTES ((size_t)1 << 30)

static const ef__views_ops OPS;

void vl_close(ef_views *views)
{
    vl_env_close(vl_store_of(views)->env);
    free(views);
}

ef_status vl_open(const ef__views_options *options, const char *folder, size_t map_bytes,
                  ef_views **out, ef_error *err)
{
    vl_store *store = calloc(1, sizeof *store);
    ef_status st;

    *out = NULL;
    if (!store)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a view store");
    store->base = (ef_views){
        .ops = &OPS, .clock = options->clock, .log = options->log, .read_only = options->read_only};
    store->busy_ms = options->busy_ms;
    st = vl_env_open(folder, options, map_bytes, &store->env, err);
    if (st != EF_OK) {
        free(store);
        return st;
    }
    *out = &store->base;
    return EF_OK;
}

ef_status ef__views_lmdb_open(const ef__views_options *options, const char *folder, ef_views **out,
                              ef_error *err)
{
    return vl_open(options, folder, MAP_BYTES, out, err);
}

vl_txn vl_begin(ef_views *views, ef_error *err)
{
    vl_store *store = vl_store_of(views);
    vl_txn txn = store->snapshot;

    if (!txn.mdb)
        txn = vl_read_begin(store->env, store->busy_ms, err);
    if (store->is_snapshot)
        store->snapshot = txn;
    txn.err = err;
    return txn;
}

ef_status vl_end(ef_views *views, vl_txn *txn)
{
    return vl_store_of(views)->is_snapshot ? txn->st : vl_read_end(txn);
}

ef_status vl_change(ef_views *views, bool lazy, vl_work *work, void *context, ef_error *err)
{
    vl_store *store = vl_store_of(views);

    if (views->read_only)
        return ef_fail(err, EF_MISUSE, "the view store was opened read-only");
    return vl_write(store->env, lazy, store->busy_ms, work, context, err);
}

/* LMDB copies one snapshot without blocking writers. The map of this process cannot grow while the
 * copy holds a read transaction. */
static ef_status vl_backup(ef_views *views, const ef_backup_options *options, ef_error *err)
{
    vl_txn txn = vl_begin(views, err);
    int rc = 0;

    if (txn.st == EF_OK && mkdir(options->path, 0700) != 0) {
        rc = errno;
        vl_try(&txn, ef_fail(err,
                             rc == EEXIST   ? EF_EXISTS
                             : rc == ENOSPC ? EF_FULL
                                            : EF_IO,
                             "%s: %s", options->path, strerror(rc)));
    }
    if (txn.st == EF_OK)
        rc = mdb_env_copy2(txn.env->mdb, options->path, MDB_CP_COMPACT);
    if (rc != 0) /* LMDB reports a short write on a full disk as EIO. */
        vl_try(&txn, ef_fail(err, rc == ENOSPC || rc == EIO ? EF_FULL : EF_IO,
                             "copying the views to %s: %s", options->path, mdb_strerror(rc)));
    return vl_end(views, &txn);
}

/* --- snapshots -------------------------------------------------------------------------------- */

static void snapshot_close(ef_views *views)
{
    (void)vl_read_end(&vl_store_of(views)->snapshot);
    free(views);
}

static const ef__views_ops SNAPSHOT_OPS = {
    .name = "lmdb snapshot",
    .close = snapshot_close,
    .view_get = vl_view_get,
    .watermark_get = vl_watermark_get,
};

static ef_status vl_snapshot_open(ef_views *views, ef_views **out, ef_error *err)
{
    vl_store *snapshot = malloc(sizeof *snapshot);

    *out = NULL;
    if (!snapshot)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a snapshot");
    *snapshot = *vl_store_of(views);
    snapshot->base.ops = &SNAPSHOT_OPS;
    snapshot->is_snapshot = true;
    *out = &snapshot->base;
    return EF_OK;
}

static const ef__views_ops OPS = {
    .name = "lmdb",
    .backup = vl_backup,
    .snapshot_open = vl_snapshot_open,
    EF__VIEWS_EVERY(EF__VIEWS_SET, vl)};
