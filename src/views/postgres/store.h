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
#pragma once

#include "../rows.h"

#include "../../postgres/rows.h"

/* --- rows that the generated functions read --------------------------------------------------- */

/* The columns that a commit compares. */
typedef struct vp_generation {
    int64_t id; /* 0: there is no such generation */
    int64_t era, position, seam;
    ef__generation_state state;
    bool active;
    int64_t index_count;
    bool has_follow_ends_us; /* one of its tenants is followed */
    int64_t follow_ends_us;  /* the earliest `until` of those */
} vp_generation;

typedef struct vp_view_row {
    int64_t n; /* of its key, from 1, when many were asked for */
    ef__view view;
    uint8_t digest[EF__DIGEST_BYTES];
} vp_view_row;

#include "views_postgres_sql.h"

/* --- the store -------------------------------------------------------------------------------- */

#define VP_PART "views" /* of the schema, for migrations */

typedef struct vp_store {
    ef_views base; /* first, so that an ef_views * is this */
    ef__pg_pool *pool;
    ef__pg_conn *snapshot; /* the reads of a snapshot are on its own connection */
} vp_store;

static inline vp_store *vp_store_of(ef_views *views)
{
    return (vp_store *)views;
}

/* A writing transaction. EF_MISUSE: the store was opened read-only. */
ef_status vp_write(ef_views *views, bool no_sync, ef__pg_work work, void *context, ef_error *err);

/* Lock the live set (id 0) and generations, in the order of `ids`; several calls follow the order
 * above. Sends the statement and does not receive its result. */
ef_status vp_lock(ef__pg_conn *conn, bool alone, const int64_t *ids, size_t count, ef_error *err);

/* Where the store reads. */
static inline ef__pg_on vp_on(ef_views *views)
{
    vp_store *store = vp_store_of(views);

    return store->snapshot ? ef__pg_on_conn(store->snapshot) : ef__pg_on_pool(store->pool);
}

EF__VIEWS_EVERY(EF__VIEWS_DECLARE, vp)

/* generation.c */
/* EF_NOT_FOUND */
ef_status vp_generation_find(ef__pg_conn *conn, int64_t id, vp_generation *out, ef_error *err);

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
    size_t views_made, watermarks_made; /* that did not exist */
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
/* Counts the rows of those that did not exist: watermarks, then views. */
ef_status vp_send_made(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err);
ef_status vp_send_keys(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err);
ef_status vp_send_counts(ef__pg_conn *conn, const ef__views_commit *commit, const vp_sorted *sorted,
                         int64_t now_us, ef_error *err);
ef_status vp_send_resolve(ef__pg_conn *conn, const vp_sorted *sorted, int64_t now_us,
                          ef_error *err);

/* follow.c. Sends the statements that record the changes of one generation that are of followed
 * tenants, and does not receive their results. */
ef_status vp_changes_record(ef__pg_conn *conn, const vp_sorted *sorted, int64_t generation,
                            ef_error *err);

/* read.c, scan.c */
EF__VIEWS_OP(snapshot_open) vp_snapshot_open;
EF__VIEWS_OP(view_get_many) vp_view_get_many;
EF__VIEWS_OP(watermark_get_many) vp_watermark_get_many;
