/*
 * guard.c - see guard.h.
 */
#include "guard.h"

#include "../base/lock.h"
#include "../base/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTE_COMMIT, BYTE_GATE, BYTE_CHECKPOINTER };

/* Compares a path with the file that was opened. A file that did not exist at that time is recorded
 * when it is first seen. */
static ef_status check_file(ef__sq_file *file, ef_error *err)
{
    struct stat now;
    bool there = stat(file->path, &now) == 0;

    if (there && file->inode == 0) {
        file->device = now.st_dev;
        file->inode = now.st_ino;
    }
    if (there && now.st_dev == file->device && now.st_ino == file->inode)
        return EF_OK;
    return ef_fail(err, EF_DAMAGED,
                   "%s was %s while this process has it open: nothing more is written; put the "
                   "file back and start the process again",
                   file->path, there ? "replaced" : "moved or removed");
}

static ef_status record_files(ef__sq_guard *guard, const char *database, const char *lock,
                              ef_error *err)
{
    struct stat now;

    guard->database = (ef__sq_file){.path = strdup(database)};
    guard->lock = (ef__sq_file){.path = strdup(lock)};
    if (!guard->database.path || !guard->lock.path)
        return ef_fail(err, EF_NO_MEMORY, "out of memory while opening the store");
    if (stat(database, &now) == 0) {
        guard->database.device = now.st_dev;
        guard->database.inode = now.st_ino;
    }
    return check_file(&guard->lock, err);
}

ef_status ef__sq_guard_open(ef__sq_guard *guard, const char *database_path, ef_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s-lock", database_path);

    *guard = (ef__sq_guard){.fd = -1};
    if (n < 0 || (size_t)n >= sizeof path)
        return ef_fail(err, EF_BAD_INPUT, "the path of the store is too long");
    guard->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (guard->fd < 0)
        return ef_fail(err, EF_IO, "%s: %s", path, strerror(errno));
    ef__owner_inherit(path);
    return record_files(guard, database_path, path, err);
}

void ef__sq_guard_close(ef__sq_guard *guard)
{
    if (guard->fd >= 0)
        (void)close(guard->fd);
    free(guard->lock.path);
    free(guard->database.path);
    *guard = (ef__sq_guard){.fd = -1};
}

static ef_status acquire_lock(ef__sq_guard *guard, short kind, int64_t wait_ms, ef_error *err)
{
    if (!ef__lock_wait(guard->fd, kind, BYTE_GATE, wait_ms))
        return ef_fail(err, EF_BUSY, "a checkpoint has held the store for %lld ms",
                       (long long)wait_ms);
    if (!ef__lock_wait(guard->fd, kind, BYTE_COMMIT, wait_ms)) {
        (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_GATE);
        return ef_fail(err, EF_BUSY, "another process has held the store for %lld ms",
                       (long long)wait_ms);
    }
    if (kind == F_RDLCK)
        (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_GATE);
    return EF_OK;
}

void ef__sq_guard_commit_end(ef__sq_guard *guard)
{
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_COMMIT);
}

void ef__sq_guard_exclusive_end(ef__sq_guard *guard)
{
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_COMMIT);
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_GATE);
}

ef_status ef__sq_guard_check(ef__sq_guard *guard, ef_error *err)
{
    ef_status st = check_file(&guard->lock, err);

    return st == EF_OK ? check_file(&guard->database, err) : st;
}

static ef_status acquire_checked(ef__sq_guard *guard, short kind, int64_t wait_ms, ef_error *err)
{
    ef_status st = acquire_lock(guard, kind, wait_ms, err);

    if (st != EF_OK)
        return st;
    st = ef__sq_guard_check(guard, err);
    if (st != EF_OK)
        ef__sq_guard_exclusive_end(guard); /* releases the locks of either mode */
    return st;
}

ef_status ef__sq_guard_commit_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err)
{
    return acquire_checked(guard, F_RDLCK, wait_ms, err);
}

ef_status ef__sq_guard_exclusive_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err)
{
    return acquire_checked(guard, F_WRLCK, wait_ms, err);
}

bool ef__sq_guard_checkpointer_begin(ef__sq_guard *guard)
{
    return ef__lock_set(guard->fd, F_WRLCK, BYTE_CHECKPOINTER);
}

void ef__sq_guard_checkpointer_end(ef__sq_guard *guard)
{
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_CHECKPOINTER);
}
