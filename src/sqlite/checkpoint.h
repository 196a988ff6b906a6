/*
 * checkpoint.h - moving the log into the database, off the commit path, by a thread of its own.
 *
 * SQLite 3.40 can lose pages when one connection starts the log anew (wraps it) while another
 * checkpoints. A log can only be wrapped when all of it has been moved and nobody reads from it.
 * So a checkpoint goes in three steps:
 *     1. alone:   a small commit, unless the log has something unmoved anyway; then a read
 *                 transaction that stays open and pins it.
 *     2. beside the others: move and sync everything up to the pin. This is the bulk. Because of
 *                 the pin no commit of any process can wrap the log meanwhile.
 *     3. alone:   drop the pin, move what is left; then the next commit may wrap the log.
 * Step 3 is the moment that others notice, so it is left out until the log is long.
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
    void (*writers_stop)(void *context); /* returns when nobody of this process writes … */
    void (*writers_go)(void *context);   /* … and nobody does before this */
    void *context;
    const ef_log *log;
    int due_pages_min;   /* of log start a checkpoint … */
    int rewritten_pages; /* … not counting those that every commit writes anew */
    int whole_pages_min; /* of log, however come by, make it a whole one, with step 3 */

    const char *sql[5];
    ef__sq_texts texts; /* of sql */
    ef__sq_conn conn, pin;
    pthread_t thread;
    pthread_mutex_t lock; /* of started, stop, due and the wait for wake; a leaf */
    pthread_cond_t wake;
    bool ready, started, stop, due;
    atomic_int log_pages;     /* as the last commit left it */
    atomic_int fresh_pages;   /* counted since the last checkpoint began */
    atomic_int due_log_pages; /* length of the log that asks for a checkpoint by itself */
    int64_t log_bytes;        /* as long as the log's file is known to be */
    _Atomic int64_t done, failed;
} ef__sq_checkpointer;

ef_status ef__sq_checkpointer_init(ef__sq_checkpointer *c, ef_error *err);
/* After a commit that left `log_pages` in the log: wake the thread when that is long enough. */
void ef__sq_checkpointer_look(ef__sq_checkpointer *c, int log_pages);
/* Stop the thread and close its connections; also one that was never made. */
void ef__sq_checkpointer_release(ef__sq_checkpointer *c);

#endif
