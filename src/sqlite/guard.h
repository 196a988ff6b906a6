/*
 * guard.h - the lock file that keeps commits and checkpoints apart, over all processes.
 *
 * SQLite before 3.51.3 can lose pages when a commit wraps the log while a checkpoint runs. Writers
 * hold `commit` shared around a transaction; whoever needs a moment without commits holds it alone;
 * `checkpointer` is held by the one process that checkpoints. `gate` lets the one who waits for a
 * moment alone have it: writers pass through it on their way in, so they cannot starve him.
 *
 * The locks are the kernel's (open file description locks): they die with their holder.
 *
 * A lock file that was removed keeps no processes apart, and commits to a database that was moved away
 * are lost with it. So each lock compares both files with those that are open.
 */
#ifndef EF_SQLITE_GUARD_H
#define EF_SQLITE_GUARD_H

#include <everfold/status.h>

#include <sys/types.h>

/* A file as it was when it was opened. */
typedef struct ef__sq_file {
    char *path;
    dev_t device;
    ino_t inode; /* 0: it was not there yet */
} ef__sq_file;

typedef struct ef__sq_guard {
    int fd; /* -1: none (read-only) */
    ef__sq_file lock, database;
} ef__sq_guard;

/* PATH-lock beside the database, 0600. */
ef_status ef__sq_guard_open(ef__sq_guard *guard, const char *database_path, ef_error *err);
void ef__sq_guard_close(ef__sq_guard *guard);

/* EF_BUSY after wait_ms; EF_DAMAGED: a file was moved, replaced or removed under this process. */
ef_status ef__sq_guard_commit_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err);
void ef__sq_guard_commit_end(ef__sq_guard *guard);
ef_status ef__sq_guard_alone_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err);
void ef__sq_guard_alone_end(ef__sq_guard *guard);
/* True when this process is now the one that checkpoints; never waits. */
bool ef__sq_guard_checkpointer_begin(ef__sq_guard *guard);
void ef__sq_guard_checkpointer_end(ef__sq_guard *guard);

#endif
