#include "guard.h"

#include <everfold/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
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
    return EF_OK;
}

void ef__sq_guard_close(ef__sq_guard *guard)
{
    if (guard->fd >= 0)
        (void)close(guard->fd);
    guard->fd = -1;
}

static bool set_lock(const ef__sq_guard *guard, short kind, off_t byte)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int rc;

    do
        rc = fcntl(guard->fd, F_OFD_SETLK, &lock);
    while (rc < 0 && errno == EINTR);
    return rc == 0;
}

/* Asking again in short sleeps, rather than F_OFD_SETLKW, keeps the wait bounded. */
static bool wait_lock(const ef__sq_guard *guard, short kind, off_t byte, int64_t wait_ms)
{
    const ef_clock *clock = ef_clock_system();
    int64_t end_us = 0, sleep_us = 20;

    while (!set_lock(guard, kind, byte)) {
        int64_t now_us = clock->mono_us(clock->context);
        if (end_us == 0)
            end_us = now_us + wait_ms * 1000;
        if (now_us >= end_us)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = sleep_us * 1000}, NULL);
        sleep_us = sleep_us < 500 ? sleep_us * 2 : 500;
    }
    return true;
}

static ef_status take(ef__sq_guard *guard, short kind, int64_t wait_ms, ef_error *err)
{
    if (!wait_lock(guard, kind, BYTE_GATE, wait_ms))
        return ef_fail(err, EF_BUSY, "a checkpoint kept the store for %lld ms", (long long)wait_ms);
    if (!wait_lock(guard, kind, BYTE_COMMIT, wait_ms)) {
        (void)set_lock(guard, F_UNLCK, BYTE_GATE);
        return ef_fail(err, EF_BUSY, "another process kept the store for %lld ms",
                       (long long)wait_ms);
    }
    if (kind == F_RDLCK)
        (void)set_lock(guard, F_UNLCK, BYTE_GATE);
    return EF_OK;
}

ef_status ef__sq_guard_commit_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err)
{
    return take(guard, F_RDLCK, wait_ms, err);
}

void ef__sq_guard_commit_end(ef__sq_guard *guard)
{
    (void)set_lock(guard, F_UNLCK, BYTE_COMMIT);
}

ef_status ef__sq_guard_alone_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err)
{
    return take(guard, F_WRLCK, wait_ms, err);
}

void ef__sq_guard_alone_end(ef__sq_guard *guard)
{
    (void)set_lock(guard, F_UNLCK, BYTE_COMMIT);
    (void)set_lock(guard, F_UNLCK, BYTE_GATE);
}

bool ef__sq_guard_checkpointer_begin(ef__sq_guard *guard)
{
    return set_lock(guard, F_WRLCK, BYTE_CHECKPOINTER);
}

void ef__sq_guard_checkpointer_end(ef__sq_guard *guard)
{
    (void)set_lock(guard, F_UNLCK, BYTE_CHECKPOINTER);
}
