/*
 * checkpoint.h - moving the log into the database, off the commit path, by a thread of its own.
 *
 * The danger (SQLite before 3.51.3): a checkpoint that runs while a commit wraps the log forgets
 * pages. A commit wraps the log only when all of it has been moved and nobody reads from it. So:
 *
 *   1. alone      no commit anywhere for an instant: make a small commit of our own, so the log has
 *                 frames that were not moved, and open a read transaction (the pin) on it. While
 *                 the pin is held no commit of any process can wrap the log.
 *   2. together   checkpoint up to the pin while commits go on behind it. This is the long part.
 *   3. alone      drop the pin, move the little that came since. The next commit wraps the log.
 *
 * "Alone" is the lock file's (guard.h) for all processes, and the store's own lock for the threads
 * of this one; it is as short as one commit. Every result is checked. One process checkpoints at a
 * time. The thread starts with the first log that is long enough.
 */
#ifndef EF_SQLITE_CHECKPOINT_H
#define EF_SQLITE_CHECKPOINT_H

#include "conn.h"
#include "guard.h"

#include <everfold/log.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct ef__sq_checkpointer {
    /* Filled in by the store before ef__sq_checkpointer_init. */
    const char *path;
    const char *tick_sql; /* the small commit: changes a page */
    ef__sq_guard *guard;
    pthread_mutex_t *writer; /* held by whoever writes in this process */
    const ef_log *log;
    int due_pages_min; /* of log start a checkpoint */

    ef__sq_conn conn, pin;
    pthread_t thread;
    pthread_mutex_t lock; /* of started, stop and the wait for wake; taken after `writer` */
    pthread_cond_t wake;
    bool ready, started, stop;
    atomic_int log_pages; /* as the last commit left it */
    atomic_int due_pages;
    _Atomic int64_t done, failed;
} ef__sq_checkpointer;

ef_status ef__sq_checkpointer_init(ef__sq_checkpointer *c, ef_error *err);
/* After a commit on `db`, under the writer's lock or not: wake the thread when the log is long. */
void ef__sq_checkpointer_look(ef__sq_checkpointer *c, int log_pages);
/* One whole checkpoint, now, in this thread. EF_OK also when another process is at it. */
ef_status ef__sq_checkpointer_run(ef__sq_checkpointer *c, ef_error *err);
/* Stop the thread and close its connections; also one that was never made. */
void ef__sq_checkpointer_release(ef__sq_checkpointer *c);

#endif
