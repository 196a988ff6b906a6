/*
 * checkpoint.h - copies the WAL into the database in a thread of its own, outside of commits.
 *
 * SQLite 3.40 can lose pages when one connection restarts the WAL while another checkpoints. A
 * commit can restart the WAL only when all frames were copied and no connection reads from it. So a
 * checkpoint has three steps:
 *     1. exclusive: if all frames are copied, a small commit adds one; then a read transaction is
 *                   started that stays open and pins the WAL.
 *     2. shared:    copy and sync all frames up to the pin. This is most of the work. Because of
 * the pin no commit of any process can restart the WAL meanwhile.
 *     3. exclusive: end the read transaction and copy the rest; the next commit may restart the
 * WAL. Step 3 delays commits, so it is omitted until the WAL is long.
 *
 * "Exclusive" means: the lock file excludes other processes, and pause_writers the
 * threads of this one, each time for about as long as a commit takes. One process checkpoints at a
 * time. The thread is started when the WAL is long enough for the first time.
 */
#pragma once

#include "conn.h"

#include <everfold/log.h>

#include <pthread.h>
#include <stdatomic.h>

/* --- the lock file ---------------------------------------------------------------------------- */

/*
 * The lock file separates commits from checkpoints, across processes.
 *
 * SQLite before 3.51.3 can lose pages when a commit restarts the WAL while a checkpoint runs. The
 * lock file has three locks:
 *     commit        shared by writers for the time of a transaction; exclusive for steps of a
 *                   checkpoint that must not overlap a commit
 *     gate          acquired before `commit`, in the same mode, so that a process that waits for
 *                   the exclusive lock is not starved: new writers wait for it at the gate. A
 *                   process that passed the gate less than a few milliseconds ago passes by it
 *     checkpointer  held by the one process that checkpoints
 *
 * They are open file description locks of the kernel, which end with the process.
 *
 * A lock file that was removed excludes nothing, and commits to a database file that was moved away
 * are lost. So each acquisition checks that both files are the ones at their paths.
 */

/*
 * A file that was opened, and its path. Looking a path up costs five times as much as reading the
 * state of an open file, and a file that is renamed, replaced or removed gets another change time or
 * link count. So the path is looked up when those differ, and at intervals: a file system need not
 * change the time, and the directory above may have been moved.
 */
typedef struct ef__sq_file {
    char *path;
    _Atomic int fd;              /* opened with O_PATH; -1: the file did not exist yet */
    _Atomic int64_t changed_ns;  /* its change time when its path was last looked up … */
    _Atomic int64_t compared_ms; /* … and when that was, on the coarse monotonic clock */
} ef__sq_file;

typedef struct ef__sq_guard {
    int fd; /* -1: no lock file (read-only) */
    ef__sq_file lock, database;
    _Atomic int64_t gate_ms; /* when this process last passed the gate, on that clock */
} ef__sq_guard;

/* Opens or creates PATH-lock beside the database, mode 0600. */
ef_status ef__sq_guard_open(ef__sq_guard *guard, const char *database_path, ef_error *err);
void ef__sq_guard_close(ef__sq_guard *guard);

/* EF_BUSY after wait_ms; EF_DAMAGED: a file was moved, replaced or removed under this process. */
ef_status ef__sq_guard_commit_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err);
void ef__sq_guard_commit_end(ef__sq_guard *guard);
/* EF_DAMAGED: a file was moved, replaced or removed, so this process has other files open than a
 * process that opens the store now. */
ef_status ef__sq_guard_check(ef__sq_guard *guard, ef_error *err);

/* --- checkpoints ------------------------------------------------------------------------------ */

typedef struct ef__sq_checkpointer {
    /* Set by the store before ef__sq_checkpointer_init. */
    const char *path;
    const char *tick_sql; /* the small commit: changes one page */
    ef__sq_guard *guard;
    void (*pause_writers)(void *context);  /* returns when no thread of this process writes … */
    void (*resume_writers)(void *context); /* … and none writes before this call */
    void *context;
    const ef_log *log;
    int due_pages_min;   /* new WAL pages since the last checkpoint that start one … */
    int rewritten_pages; /* … without this number of pages, which every commit writes again */
    int whole_pages_min; /* length of the WAL from which a checkpoint has step 3 */

    const char *sql[3];
    ef__sq_statements statements; /* of sql */
    ef__sq_conn conn, pin;
    pthread_t thread;
    pthread_mutex_t lock; /* protects started, stop and due; no other lock is acquired under it */
    pthread_cond_t wake;
    bool ready, started, stop, due;
    atomic_int wal_pages;     /* after the last commit */
    atomic_int fresh_pages;   /* counted since the start of the last checkpoint */
    atomic_int due_wal_pages; /* length of the WAL that starts a checkpoint by itself */
    int64_t wal_bytes;        /* known minimum size of the WAL file */
    _Atomic int64_t done, failed;
} ef__sq_checkpointer;

ef_status ef__sq_checkpointer_init(ef__sq_checkpointer *c, ef_error *err);
/* Called after a commit, with the length of the WAL: wakes the thread when a checkpoint is due. */
void ef__sq_checkpointer_check(ef__sq_checkpointer *c, int wal_pages);
/* Stops the thread and closes its connections. Accepts a checkpointer that was not initialised. */
void ef__sq_checkpointer_release(ef__sq_checkpointer *c);
