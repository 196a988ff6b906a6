/*
 * deadline.h - locks of a block, and deadlines for timed waits of pthread.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline pthread_mutex_t *ef__mutex_lock(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void ef__mutex_unlock(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}

/* Locks a mutex until the end of the block, also for a `return` in it. One per function. */
#define EF__LOCK(mutex)                                                                            \
    pthread_mutex_t *ef__locked __attribute__((cleanup(ef__mutex_unlock), unused)) =               \
        ef__mutex_lock(mutex)

/* A condition whose timed waits use the monotonic clock: setting the wall clock changes none. */
static inline void ef__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

/* `clock` must be that of the condition. */
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
