/*
 * store.h - the view store on PostgreSQL: a connection pool (module postgres), and locks.
 *
 * All tables are in the schema everfold_views. Strings are compared by their bytes.
 *
 * Locks of a writing transaction, in the order they are acquired; all of them end with it:
 *
 *     the live set      shared to compare its number, exclusive to change it
 *     generations       by id; shared by commits, exclusive to change an era
 *     fences            rows, by scope
 *     cursors           rows of generation, by id
 *     watermarks        rows, by (generation, tenant, stream)
 *     views             rows, by (generation, tenant, id); with a view come its index entries
 *     counts            rows of this connection's shard, by generation
 *     failures          rows
 *     followed tenants  rows, by (generation, tenant); after those of a generation, its floor. An
 *                       expired row is not waited for
 *
 * The first two are locks of tables that only workers may lock, several generations per table: row
 * locks would do, but a request for an exclusive row lock starves while others share it in turns.
 * All processes acquire locks in this order, so no deadlock can occur; should one occur
 * nevertheless, the server breaks it and the transaction is retried.
 */
#ifndef EF_VIEWS_POSTGRES_STORE_H
#define EF_VIEWS_POSTGRES_STORE_H

#include "../views.h"
#include "views_postgres_sql.h"

#include "../../postgres/pool.h"

#define VP_PART "views" /* of the schema, for migrations */

typedef struct vp_store {
    ef_views base; /* first, so that an ef_views * is this */
    ef__pg_pool *pool;
} vp_store;

static inline vp_store *vp_store_of(ef_views *views)
{
    return (vp_store *)views;
}

static inline int64_t vp_now_us(const vp_store *store)
{
    return store->base.clock->wall_us(store->base.clock->context);
}

/* A writing transaction. EF_MISUSE: the store was opened read-only. */
ef_status vp_write(vp_store *store, bool no_sync, ef__pg_work work, void *context, ef_error *err);

/* Lock the live set (id 0) and generations, in the order of `ids`; several calls follow the order
 * above. Sends the statement and does not receive its result. */
ef_status vp_lock(ef__pg_conn *conn, bool alone, const int64_t *ids, size_t count, ef_error *err);

/* generation.c */
ef_status vp_generation_add(ef_views *views, const ef__generation *generation, int64_t *out_id,
                            ef_error *err);
ef_status vp_generation_ls(ef_views *views, ef_str only_name, ef__generation_list *out,
                           ef_error *err);
ef_status vp_generation_set_state(ef_views *views, int64_t id, int64_t era,
                                  ef__generation_state state, ef_error *err);
ef_status vp_generation_activate(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                 ef_error *err);
ef_status vp_generation_replace(ef_views *views, int64_t id, int64_t era,
                                const ef__generation *with, ef_error *err);
ef_status vp_generation_remove(ef_views *views, int64_t id, int64_t era, int64_t limit,
                               bool *out_more, ef_error *err);
ef_status vp_live_set_get(ef_views *views, int64_t *out, ef_error *err);

/* projection.c */
ef_status vp_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err);
ef_status vp_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err);
ef_status vp_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                ef_error *err);

/* commit.c */
ef_status vp_commit(ef_views *views, const ef__views_commit *commit, ef_error *err);

/* change.c: the changes of a commit, as arrays. */

/* The changes of a commit in the order of locks. `generations` are sorted too. */
typedef struct vp_sorted {
    const ef__generation_change **generations;
    struct vp_view_at {
        int64_t generation;
        const ef__view_change *change;
        uint64_t digest[2]; /* after; 0 when deleted */
    } * views;
    size_t view_count, key_count;
    struct vp_watermark_at {
        int64_t generation;
        const ef__watermark_change *change;
    } * watermarks;
    size_t watermark_count;
} vp_sorted;

ef_status vp_sort(const ef__views_commit *commit, vp_sorted *out, ef_error *err);
void vp_sorted_release(vp_sorted *sorted); /* also one that is zeroed */

/* Each sends one statement, or none if there are no such changes. */
ef_status vp_send_watermarks(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err);
ef_status vp_send_views(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err);
ef_status vp_send_keys(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err);
ef_status vp_send_counts(ef__pg_conn *conn, const ef__views_commit *commit, const vp_sorted *sorted,
                         int64_t now_us, ef_error *err);
ef_status vp_send_resolve(ef__pg_conn *conn, const vp_sorted *sorted, int64_t now_us,
                          ef_error *err);

/* cursor.c. Under the exclusive lock of the generation, whose cursor has moved to `position`. */
ef_status vp_cursor_write(ef__pg_conn *conn, int64_t generation, int64_t position,
                          const ef__tenant_cursor_change *change, int64_t now_us, ef_error *err);
ef_status vp_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                               ef__tenant_cursor_item *out, bool *out_found, ef_error *err);
ef_status vp_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                              ef__tenant_cursor_list *out, ef_error *err);

/* follow.c. Send the statements and do not receive their results: remove one expired row; record
 * the changes of one generation that are of followed tenants. */
ef_status vp_follow_end(ef__pg_conn *conn, int64_t generation, int64_t now_us, ef_error *err);
ef_status vp_changes_record(ef__pg_conn *conn, const vp_sorted *sorted, int64_t generation,
                            ef_error *err);
ef_status vp_follow(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                    ef__follow_row *out, ef_error *err);
ef_status vp_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                       size_t limit, ef__change_list *out, ef_error *err);

/* read.c, scan.c */
ef_status vp_snapshot_open(ef_views *views, ef_views **out, ef_error *err);
ef_status vp_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                      ef__arena *arena, ef__view *out, bool *out_found, ef_error *err);
ef_status vp_watermark_get(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                           ef__watermark *out, bool *out_found, ef_error *err);
ef_status vp_view_get_many(ef_views *views, int64_t generation, const ef__view_key *keys,
                           size_t count, ef__arena *arena, ef__view *out, ef_error *err);
ef_status vp_watermark_get_many(ef_views *views, int64_t generation, const ef__view_key *keys,
                                size_t count, ef__watermark *out, ef_error *err);
ef_status vp_watermark_scan(ef_views *views, int64_t generation,
                            bool (*each)(void *context, ef_str tenant, ef_str stream,
                                         const ef__watermark *watermark),
                            void *context, ef_error *err);
ef_status vp_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                        size_t limit, ef__failure_list *out, ef_error *err);
ef_status vp_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err);
ef_status vp_view_scan(ef_views *views, const ef__view_scan *scan,
                       bool (*each)(void *context, ef_str key, const ef__view *view), void *context,
                       ef_error *err);

#endif
