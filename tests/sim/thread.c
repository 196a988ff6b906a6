/*
 * thread.c - there is one thread here, and what another would do is done at once.
 *
 * The engine reads ahead in a thread (src/engine/ahead.h). Threads would make a seed give many
 * worlds, so these stand in for the C library's: the read happens when the thread is started, which
 * is the earliest that it could.
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
