/*
 * env.h - an LMDB environment: open once in a process, growing, with its transactions.
 *
 * A process must not open an LMDB environment twice (closing one releases the file locks of the
 * other), so all stores of a process in the same folder share one, with a reference count.
 *
 * The map can only grow, or adopt the size that another process gave it, while the process has no
 * transaction: the thread that grows it closes the gate and waits for open transactions. A read
 * within another one (`each` of a scan) is admitted while the gate is closed; otherwise the two
 * threads would wait for each other.
 *
 * Lock order: writer, the lock file, LMDB's own; the gate is locked alone and briefly.
 */
#pragma once

#include "../views.h"

#include <lmdb.h>
#include <pthread.h>

#define VL_READERS_KEPT 8 /* idle read transactions kept for reuse, with their slots */

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
    int lock_fd; /* -1: read-only */
    pthread_mutex_t writer;
    bool lazy;       /* the current mode of mdb: meta pages are not synced. Under writer */
    int64_t commits; /* under writer */
    pthread_mutex_t gate;
    pthread_cond_t moved; /* a transaction ended, or the map has grown */
    int active;           /* transactions. This and the rest under gate */
    bool growing;
    bool lost; /* mapping the file again failed: nothing can be read */
    MDB_txn *idle[VL_READERS_KEPT];
    int idle_count;
};

/*
 * A new environment begins with a map of `map_bytes`.
 * EF_NOT_FOUND     there is no view store in the folder
 * EF_WRONG_STORE   there is something else
 * EF_NEWER_SCHEMA  it was written by a newer Everfold
 * EF_DAMAGED       the file has been cut off
 */
ef_status vl_env_open(const char *folder, const ef__views_options *options, size_t map_bytes,
                      vl_env **out, ef_error *err);
void vl_env_close(vl_env *env); /* accepts NULL */

/*
 * A transaction keeps its first failure: after it, every function of the transaction does nothing
 * and finds nothing (its results are zero). So a series of calls is checked once, at its end, and a
 * loop over rows ends.
 */
typedef struct vl_txn {
    vl_env *env;
    MDB_txn *mdb; /* NULL: it did not begin */
    ef_error *err;
    ef_status st;
    bool full; /* the map is full: the work is repeated after it has grown */
} vl_txn;

/* Makes a call that returns a status, unless the transaction has failed. */
#define vl_try(txn, call)                                                                          \
    do {                                                                                           \
        ef_status vl_st = (txn)->st == EF_OK ? (call) : EF_OK;                                     \
        if ((txn)->st == EF_OK)                                                                    \
            (txn)->st = vl_st;                                                                     \
    } while (0)

/* EF_BUSY: there is no free reader slot, or growing the map took longer than busy_ms. */
vl_txn vl_read_begin(vl_env *env, int64_t busy_ms, ef_error *err);
/* The status of the transaction. */
ef_status vl_read_end(vl_txn *txn);

/*
 * Calls `work` in a write transaction and commits unless it failed. `work` is called again from the
 * start if the map had to grow. The meta page of a `lazy` commit is not synced: a power cut may
 * lose the commit, but its pages are on the disk before the next commit's meta page, so the file
 * stays consistent.
 */
typedef void vl_work(vl_txn *txn, void *context);
ef_status vl_write(vl_env *env, bool lazy, int64_t busy_ms, vl_work *work, void *context,
                   ef_error *err);

/* Fails with a result code of LMDB, unless it is 0; `doing` names the operation. */
ef_status vl_failed(vl_txn *txn, int rc, const char *doing);
