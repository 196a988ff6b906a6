/*
 * env.h - an LMDB environment: open once in a process, growing, with its transactions.
 *
 * LMDB forbids a process to open an environment twice (closing one takes the file locks of the
 * other), so all stores of a process that are in the same folder share one, counted.
 *
 * The map can only grow, or follow another process's growth, while nobody of the process has a
 * transaction: whoever grows it closes the gate and waits for those inside. A read inside of
 * another one (`each` of a scan) passes the gate, or the two would wait for each other.
 *
 * Locks, in the order they are taken: writer, the lock file, LMDB's own; the gate is taken alone
 * and held for an instant.
 */
#ifndef EF_VIEWS_LMDB_ENV_H
#define EF_VIEWS_LMDB_ENV_H

#include <everfold/everfold.h>

#include <lmdb.h>
#include <pthread.h>

#define VL_READERS_KEPT 8 /* read transactions that wait for the next reader, with their slots */

/* Named databases of the environment. */
typedef enum vl_tree { VL_STATE, VL_VIEW, VL_INDEX, VL_WATERMARK, VL_TREES } vl_tree;

typedef struct vl_env vl_env;

struct vl_env {
    vl_env *next; /* of the process; refs and next under the list's lock */
    int refs;
    pid_t pid; /* a child must not use what its parent has opened */
    dev_t device;
    ino_t inode; /* of the folder */
    char *folder;
    const ef_log *log;
    MDB_env *mdb;
    MDB_dbi trees[VL_TREES];
    int lock_fd; /* -1: nobody can write */
    pthread_mutex_t writer;
    bool lazy;       /* as mdb is set: meta pages are not synced. Under writer */
    int64_t commits; /* under writer */
    pthread_mutex_t gate;
    pthread_cond_t moved; /* somebody has left, or the map has grown */
    int active;           /* transactions. This and the rest under gate */
    bool growing;
    bool lost; /* the map could not be made again: nothing can be read */
    MDB_txn *idle[VL_READERS_KEPT];
    int idle_count;
};

typedef struct vl_env_options {
    bool create, read_only;
    int64_t busy_ms;
    size_t map_bytes; /* of a new environment */
    const ef_clock *clock;
    const ef_log *log;
} vl_env_options;

/*
 * EF_NOT_FOUND     there is no view store in the folder
 * EF_WRONG_STORE   there is something else
 * EF_NEWER_SCHEMA  it was written by a newer Everfold
 * EF_DAMAGED       the file has been cut off
 */
ef_status vl_env_open(const char *folder, const vl_env_options *options, vl_env **out,
                      ef_error *err);
void vl_env_close(vl_env *env); /* NULL is fine */

typedef struct vl_txn {
    vl_env *env;
    MDB_txn *mdb;
    bool full; /* the map is: the work is done again when it has grown */
} vl_txn;

/* EF_BUSY: no slot, or the map grows and that did not end in busy_ms. */
ef_status vl_read_begin(vl_env *env, int64_t busy_ms, vl_txn *out, ef_error *err);
void vl_read_end(vl_txn *txn);

/*
 * Do `work` in a writing transaction, and commit if it answers EF_OK. It may be called again from
 * the start, when the map had to grow. The meta page of a `lazy` commit is not synced: a power cut
 * may take it, but what it wrote is on the disk before the next commit's meta page, so that what is
 * left is whole.
 */
typedef ef_status vl_work(vl_txn *txn, void *context, ef_error *err);
ef_status vl_write(vl_env *env, bool lazy, int64_t busy_ms, vl_work *work, void *context,
                   ef_error *err);

/* What LMDB's `rc` means, with what was being done. */
ef_status vl_failed(vl_txn *txn, int rc, const char *doing, ef_error *err);

#endif
