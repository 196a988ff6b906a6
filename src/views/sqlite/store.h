/*
 * store.h - the view store on SQLite: one writing connection, and a reading one per active reader.
 *
 * Only one thread at a time uses a connection. Locks, in the order they are acquired: writer, then
 * the lock file (sqlite/checkpoint.h), then those of SQLite. `pool` is acquired without the others,
 * for a moment.
 */
#pragma once

#include "../rows.h"

#include "../../sqlite/checkpoint.h"

/* --- rows that the generated functions read --------------------------------------------------- */

/* The columns that a commit compares, and its counts. */
typedef struct vq_generation {
    int64_t id;
    int64_t era, position, seam;
    ef__generation_state state;
    bool active, indexed;
    bool has_follow_ends_us; /* one of its tenants is followed */
    int64_t follow_ends_us;  /* the earliest `until` of those */
    int64_t views, applied, ignored, skipped;
    uint64_t digest[2];
} vq_generation;

typedef struct vq_entry_row {
    ef__view view; /* without its tenant */
    ef_str key;
} vq_entry_row;

#include "views_sqlite_sql.h"

/* --- the store -------------------------------------------------------------------------------- */

#define VQ_READERS_KEPT 8 /* connections that wait for the next reader */

typedef struct vq_reader vq_reader;

typedef struct vq_store vq_store;

/* Who reads on a connection. */
struct vq_reader {
    ef__sq_conn *conn; /* `own`, the writing connection of the store, or that of a snapshot */
    vq_store *store;   /* to which vq_read_end returns the connection; NULL: a snapshot keeps it */
    ef__sq_conn own;
    vq_reader *next;
};

struct vq_store {
    ef_views base; /* first, so that an ef_views * is this */
    char *path;
    int64_t busy_ms;
    pthread_mutex_t writer;
    ef__sq_conn conn; /* under writer */
    vq_reader lent;   /* reads on conn. Under writer */
    ef__sq_guard guard;
    ef__sq_checkpointer checkpointer;
    pthread_mutex_t pool;
    vq_reader *idle; /* under pool */
    int idle_count;
};

extern const ef__sq_statements vq_texts;

static inline vq_store *vq_store_of(ef_views *views)
{
    return (vq_store *)views;
}

/* A writing transaction: begin, then end with the status `st`. End commits if it is EF_OK, and
 * rolls back otherwise; it returns `st`, or the reason why the commit failed. EF_BUSY: the
 * transaction did not begin. The commit of a `lazy` one is not synced. */
ef_status vq_write_begin(vq_store *store, bool lazy, ef_error *err);
ef_status vq_write_end(vq_store *store, ef_status st, ef_error *err);

/* Gets a connection for reading, until the end of the block:
 *     VQ_READING vq_reader *reader = vq_read_begin(views, short_read, &st, err);
 * A `short_read` of a few rows may get the writing connection when it is free: its cache has the
 * rows that were written last, while every commit empties the caches of the others. `views` may be
 * a snapshot. NULL on failure, and why in *out. */
#define VQ_READING __attribute__((cleanup(vq_read_end)))
vq_reader *vq_read_begin(ef_views *views, bool short_read, ef_status *out, ef_error *err);
void vq_read_end(vq_reader **reader);
/* The same with an empty list to read into. */
#define vq_list_begin(views, short_read, list, out, err)                                           \
    ((*(out) = ef__list_prepare((list), (err))) == EF_OK                                           \
         ? vq_read_begin((views), (short_read), (out), (err))                                      \
         : NULL)

/* A snapshot begins like a read, and is one transaction until it is closed. */
typedef struct vq_snapshot {
    ef_views base; /* first, so that an ef_views * is this */
    vq_reader *reader;
    vq_reader shared; /* for the reads of the snapshot */
} vq_snapshot;

extern const ef__views_ops vq_snapshot_ops;

EF__VIEWS_EVERY(EF__VIEWS_DECLARE, vq)

/* follow.c. Record the changed views of followed tenants. */
ef_status vq_changes_record(vq_store *store, const vq_generation *generation,
                            const ef__generation_change *change, ef_error *err);

/* read.c */
EF__VIEWS_OP(snapshot_open) vq_snapshot_open;
EF__VIEWS_OP(reader_open) vq_reader_open;
EF__VIEWS_OP(view_get_many) vq_view_get_many;
EF__VIEWS_OP(watermark_get_many) vq_watermark_get_many;
