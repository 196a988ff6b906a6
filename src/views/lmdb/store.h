/*
 * store.h - the view store in LMDB: declarations shared by its files.
 */
#ifndef EF_VIEWS_LMDB_STORE_H
#define EF_VIEWS_LMDB_STORE_H

#include "env.h"
#include "row.h"

#include "../views.h"

typedef struct vl_store {
    ef_views base; /* first: an ef_views * is cast to vl_store * */
    vl_env *env;
    int64_t busy_ms;
} vl_store;

/* As ef__views_lmdb_open; a new environment begins with a map of this size. */
ef_status vl_open(const ef__views_options *options, const char *folder, size_t map_bytes,
                  ef_views **out, ef_error *err);

static inline vl_store *vl_store_of(ef_views *views)
{
    return (vl_store *)views;
}

static inline int64_t vl_now_us(const vl_store *store)
{
    return store->base.clock->wall_us(store->base.clock->context);
}

/* Transactions of the store: vl_read_begin and vl_write with its limits. */
ef_status vl_begin(ef_views *views, vl_txn *out, ef_error *err);
ef_status vl_change(ef_views *views, bool lazy, vl_work *work, void *context, ef_error *err);

/* generation.c */
ef_status vl_generation_add(ef_views *views, const ef__generation *generation, int64_t *out_id,
                            ef_error *err);
ef_status vl_generation_ls(ef_views *views, ef_str only_name, ef__generation_list *out,
                           ef_error *err);
ef_status vl_generation_set_state(ef_views *views, int64_t id, int64_t era,
                                  ef__generation_state state, ef_error *err);
ef_status vl_generation_activate(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                 ef_error *err);
ef_status vl_generation_replace(ef_views *views, int64_t id, int64_t era,
                                const ef__generation *with, ef_error *err);
ef_status vl_generation_remove(ef_views *views, int64_t id, int64_t era, int64_t limit,
                               bool *out_more, ef_error *err);
ef_status vl_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err);
ef_status vl_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err);
ef_status vl_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                ef_error *err);
ef_status vl_generation_get(vl_txn *txn, int64_t id, vl_generation *out, bool *out_found,
                            ef_error *err);
/* updated_us is set to now_us. */
ef_status vl_generation_put(vl_txn *txn, int64_t id, vl_generation *generation, int64_t now_us,
                            ef_error *err);

/* commit.c */
ef_status vl_commit(ef_views *views, const ef__views_commit *commit, ef_error *err);

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
ef_status vl_part_shelf(vl_part *part, ef_str tenant, int64_t *out, ef_error *err);

/* change.c: the changed views and their index entries; counts and digest follow. */
ef_status vl_views_write(vl_part *part, ef_error *err);

/* failure.c: opens the failures of the change, then resolves those that its watermarks pass. */
ef_status vl_failures_write(vl_part *part, ef_error *err);
ef_status vl_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                        size_t limit, ef__failure_list *out, ef_error *err);

/* cursor.c. The generation's own cursor has been moved. */
ef_status vl_cursors_write(vl_part *part, ef_error *err);
/* Sets the number of own cursors, the lowest one, and the sum of waiting events. */
ef_status vl_cursors_sum(vl_txn *txn, ef__generation *generation, ef_error *err);
ef_status vl_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                               ef__tenant_cursor_item *out, bool *out_found, ef_error *err);
ef_status vl_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                              ef__tenant_cursor_list *out, ef_error *err);

/* follow.c: record the changed views of followed tenants. */
ef_status vl_changes_record(vl_part *part, ef_error *err);
ef_status vl_follow_begin(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                          ef__follow_row *out, ef_error *err);
ef_status vl_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                       size_t limit, ef__change_list *out, ef_error *err);

/* read.c, scan.c */
ef_status vl_snapshot_open(ef_views *views, ef_views **out, ef_error *err);
ef_status vl_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                      ef__arena *arena, ef__view *out, bool *out_found, ef_error *err);
ef_status vl_watermark_get(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                           ef__watermark *out, bool *out_found, ef_error *err);
ef_status vl_watermark_scan(ef_views *views, int64_t generation,
                            bool (*each)(void *context, ef_str tenant, ef_str stream,
                                         const ef__watermark *watermark),
                            void *context, ef_error *err);
ef_status vl_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err);
ef_status vl_live_set_get(ef_views *views, int64_t *out, ef_error *err);
ef_status vl_view_scan(ef_views *views, const ef__view_scan *scan,
                       bool (*each)(void *context, ef_str key, const ef__view *view), void *context,
                       ef_error *err);

/* The token of a scope; 0: none. */
ef_status vl_fence_find(vl_txn *txn, ef_str scope, int64_t *out, ef_error *err);
ef_status vl_fence_put(vl_txn *txn, ef_str scope, int64_t token, ef_error *err);
/* The view in a row, without tenant and id; `data` points into the row. *out_keys, unless NULL, are
 * its packed keys. False: the row is damaged. */
bool vl_view_read(ef_str row, ef__view *out, ef_str *out_keys);
bool vl_watermark_read(ef_str row, ef__watermark *out);

#endif
