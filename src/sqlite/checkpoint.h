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
 * "Exclusive" means: the lock file (guard.h) excludes other processes, and pause_writers the
 * threads of this one, each time for about as long as a commit takes. One process checkpoints at a
 * time. The thread is started when the WAL is long enough for the first time.
 */
#ifndef EF_SQLITE_CHECKPOINT_H
#define EF_SQLITE_CHECKPOINT_H

#include "conn.h"
#include "guard.h"

#include <everfold/log.h>

#include <pthread.h>
#include <stdatomic.h>

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

    const char *sql[4];
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

#endif
