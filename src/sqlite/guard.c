#include "guard.h"

#include "../base/lock.h"
#include "../base/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BYTE_COMMIT, BYTE_GATE, BYTE_CHECKPOINTER };

ef_status ef__sq_guard_open(ef__sq_guard *guard, const char *database_path, ef_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s-lock", database_path);

    guard->fd = -1;
    if (n < 0 || (size_t)n >= sizeof path)
        return ef_fail(err, EF_BAD_INPUT, "the path of the store is too long");
    guard->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (guard->fd < 0)
        return ef_fail(err, EF_IO, "%s: %s", path, strerror(errno));
    ef__owner_inherit(path);
    return EF_OK;
}

void ef__sq_guard_close(ef__sq_guard *guard)
{
    if (guard->fd >= 0)
        (void)close(guard->fd);
    guard->fd = -1;
}

static ef_status take(ef__sq_guard *guard, short kind, int64_t wait_ms, ef_error *err)
{
    if (!ef__lock_wait(guard->fd, kind, BYTE_GATE, wait_ms))
        return ef_fail(err, EF_BUSY, "a checkpoint kept the store for %lld ms", (long long)wait_ms);
    if (!ef__lock_wait(guard->fd, kind, BYTE_COMMIT, wait_ms)) {
        (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_GATE);
        return ef_fail(err, EF_BUSY, "another process kept the store for %lld ms",
                       (long long)wait_ms);
    }
    if (kind == F_RDLCK)
        (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_GATE);
    return EF_OK;
}

ef_status ef__sq_guard_commit_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err)
{
    return take(guard, F_RDLCK, wait_ms, err);
}

void ef__sq_guard_commit_end(ef__sq_guard *guard)
{
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_COMMIT);
}

ef_status ef__sq_guard_alone_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err)
{
    return take(guard, F_WRLCK, wait_ms, err);
}

void ef__sq_guard_alone_end(ef__sq_guard *guard)
{
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_COMMIT);
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_GATE);
}

bool ef__sq_guard_checkpointer_begin(ef__sq_guard *guard)
{
    return ef__lock_set(guard->fd, F_WRLCK, BYTE_CHECKPOINTER);
}

void ef__sq_guard_checkpointer_end(ef__sq_guard *guard)
{
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_CHECKPOINTER);
}
