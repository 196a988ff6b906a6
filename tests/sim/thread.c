/*
 * thread.c - replaces threads: what a thread would do is done at its start.
 *
 * The engine reads ahead in a thread (src/engine/read_ahead.c). With threads a seed would give many
 * worlds, so these functions replace the C library's: the read happens when the thread is created,
 * which is the earliest possible time.
 */
#include <pthread.h>
#include <string.h>

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                   void *(*run)(void *), void *restrict context)
{
    (void)attributes;
    memset(thread, 0, sizeof *thread);
    (void)run(context);
    return 0;
}

int pthread_join(pthread_t thread, void **value)
{
    (void)thread;
    if (value)
        *value = NULL;
    return 0;
}
