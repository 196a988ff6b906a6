/*
 * deadline.h - a moment from now, as the waits of pthread want it.
 */
#ifndef EF_BASE_DEADLINE_H
#define EF_BASE_DEADLINE_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* A condition whose timed waits are by the monotonic clock: they take as long as they should when
 * the wall clock is set. */
static inline void ef__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

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
