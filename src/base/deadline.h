/*
 * deadline.h - a moment from now, as the waits of pthread want it.
 */
#ifndef EF_BASE_DEADLINE_H
#define EF_BASE_DEADLINE_H

#include <stdint.h>
#include <time.h>

/* `clock` is the one that the condition was made for. */
static inline struct timespec ef__deadline(clockid_t clock, int64_t ms)
{
    struct timespec at;

    (void)clock_gettime(clock, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

#endif
