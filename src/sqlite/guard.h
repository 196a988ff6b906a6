/*
 * guard.h - the lock file that separates commits from checkpoints, across processes.
 *
 * SQLite before 3.51.3 can lose pages when a commit restarts the WAL while a checkpoint runs. The
 * lock file has three locks:
 *     commit        shared by writers for the time of a transaction; exclusive for steps of a
 *                   checkpoint that must not overlap a commit
 *     gate          acquired before `commit`, in the same mode, so that a process that waits for
 *                   the exclusive lock is not starved: new writers wait for it at the gate
 *     checkpointer  held by the one process that checkpoints
 *
 * They are open file description locks of the kernel, which end with the process.
 *
 * A lock file that was removed excludes nothing, and commits to a database file that was moved away
 * are lost. So each acquisition compares both paths with the open files.
 */
#ifndef EF_SQLITE_GUARD_H
#define EF_SQLITE_GUARD_H

#include <everfold/status.h>

#include <sys/types.h>

/* The identity of a file when it was opened. */
typedef struct ef__sq_file {
    char *path;
    dev_t device;
    ino_t inode; /* 0: the file did not exist yet */
} ef__sq_file;

typedef struct ef__sq_guard {
    int fd; /* -1: no lock file (read-only) */
    ef__sq_file lock, database;
} ef__sq_guard;

/* Opens or creates PATH-lock beside the database, mode 0600. */
ef_status ef__sq_guard_open(ef__sq_guard *guard, const char *database_path, ef_error *err);
void ef__sq_guard_close(ef__sq_guard *guard);

/* EF_BUSY after wait_ms; EF_DAMAGED: a file was moved, replaced or removed under this process. */
ef_status ef__sq_guard_commit_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err);
void ef__sq_guard_commit_end(ef__sq_guard *guard);
ef_status ef__sq_guard_exclusive_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err);
void ef__sq_guard_exclusive_end(ef__sq_guard *guard);
/* EF_DAMAGED: a file was moved, replaced or removed, so this process has other files open than a
 * process that opens the store now. */
ef_status ef__sq_guard_check(ef__sq_guard *guard, ef_error *err);
/* Whether this process may checkpoint now; does not wait. */
bool ef__sq_guard_checkpointer_begin(ef__sq_guard *guard);
void ef__sq_guard_checkpointer_end(ef__sq_guard *guard);

#endif
