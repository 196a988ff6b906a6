/*
 * store.h - the view store in LMDB: declarations shared by its files.
 */
#pragma once

#include "env.h"
#include "row.h"

#include "../views.h"

typedef struct vl_store {
    ef_views base; /* first: an ef_views * is cast to vl_store * */
    vl_env *env;
    int64_t busy_ms;
    bool is_snapshot;
    vl_txn snapshot; /* begun by the first read */
} vl_store;

/* As ef__views_lmdb_open; a new environment begins with a map of this size. */
ef_status vl_open(const ef__views_options *options, const char *folder, size_t map_bytes,
                  ef_views **out, ef_error *err);

static inline vl_store *vl_store_of(ef_views *views)
{
    return (vl_store *)views;
}

/* Transactions of the store, with its limits. vl_end returns the status of the reads. */
vl_txn vl_begin(ef_views *views, ef_error *err);
ef_status vl_end(ef_views *views, vl_txn *txn);
ef_status vl_change(ef_views *views, bool lazy, vl_work *work, void *context, ef_error *err);

EF__VIEWS_EVERY(EF__VIEWS_DECLARE, vl)

/* generation.c */
bool vl_generation_get(vl_txn *txn, int64_t id, vl_generation *out);
/* updated_us is set to now_us. */
void vl_generation_put(vl_txn *txn, int64_t id, vl_generation *generation, int64_t now_us);

/* commit.c */
/* The token of a scope; 0: none. */
int64_t vl_fence_find(vl_txn *txn, ef_str scope);

/* The context of the parts of a commit. */
typedef struct vl_part {
    vl_txn *txn;
    const ef__generation_change *change;
    vl_generation *generation; /* after the commit */
    int64_t now_us;
    ef_str tenant; /* of `shelf`, which was looked up last */
    int64_t shelf;
} vl_part;

/* The tenant's shelf, created if it does not exist. Changes are in the order of tenants. */
int64_t vl_part_shelf(vl_part *part, ef_str tenant);

/* failure.c: opens the failures of the change, then resolves those that its watermarks pass. */
void vl_failures_write(vl_part *part);

/* cursor.c. The generation's own cursor has been moved. */
void vl_cursors_write(vl_part *part);
/* Sets the number of own cursors, the lowest one, and the sum of waiting events. */
void vl_cursors_sum(vl_txn *txn, ef__generation *generation);

/* follow.c: record the changed views of followed tenants. */
void vl_changes_record(vl_part *part);

/* The view in a row, without tenant and id; `data` points into the row. *out_keys, unless NULL, are
 * its packed keys. */
void vl_view_read(vl_txn *txn, ef_str row, ef__view *out, ef_str *out_keys);
void vl_watermark_read(vl_txn *txn, ef_str row, ef__watermark *out);
