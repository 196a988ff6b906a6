#include "lock.h"

#include <everfold/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <time.h>

bool ef__lock_set(int fd, short kind, off_t byte)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int rc;

    do
        rc = fcntl(fd, F_OFD_SETLK, &lock);
    while (rc < 0 && errno == EINTR);
    return rc == 0;
}

/* Retries with short sleeps, because F_OFD_SETLKW has no timeout. */
bool ef__lock_wait(int fd, short kind, off_t byte, int64_t wait_ms)
{
    const ef_clock *clock = ef_clock_system();
    int64_t end_us = 0, sleep_us = 20;

    while (!ef__lock_set(fd, kind, byte)) {
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
