/*
 * pool.c - threads for handlers that may block. A thread is created when none is idle, up to the
 * limit, and ends with the server. A request that waits for an event or for a fold leaves its
 * thread (waiters.c). Probes have a thread of their own.
 */
#include "request.h"

#include "../base/deadline.h"

#define QUEUE_MAX 4096 /* requests that wait for a thread; further ones get EF_BUSY */

struct ef__pool {
    pthread_mutex_t lock;
    pthread_cond_t work, ended;
    ef__request *queue[QUEUE_MAX];
    size_t first, count;
    int64_t threads, idle, threads_max;
    bool ending;
};

static ef__request *pool_next_request(ef__pool *pool)
{
    ef__request *r;

    pool->idle++;
    while (pool->count == 0 && !pool->ending)
        pthread_cond_wait(&pool->work, &pool->lock);
    pool->idle--;
    if (pool->count == 0)
        return NULL;
    r = pool->queue[pool->first];
    pool->first = (pool->first + 1) % QUEUE_MAX;
    pool->count--;
    return r;
}

static void *pool_thread_run(void *context)
{
    ef__pool *pool = context;
    ef__request *r;

    pthread_mutex_lock(&pool->lock);
    while ((r = pool_next_request(pool)) != NULL) {
        pthread_mutex_unlock(&pool->lock);
        ef__dispatch_run(r);
        if (r->waiting.parks)
            ef__waiters_put(r);
        else
            ef__http_ready(r);
        pthread_mutex_lock(&pool->lock);
    }
    pool->threads--;
    pthread_cond_signal(&pool->ended);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Under the lock. Adds a thread if all are busy. Without memory for one, the existing threads do
 * the work. False: there is no thread at all. */
static bool pool_add_thread(ef__pool *pool)
{
    pthread_t thread;

    if ((int64_t)pool->count < pool->idle || pool->threads >= pool->threads_max)
        return pool->threads > 0;
    if (pthread_create(&thread, NULL, pool_thread_run, pool) != 0)
        return pool->threads > 0;
    (void)pthread_detach(thread);
    pool->threads++;
    return true;
}

bool ef__pool_put(ef__pool *pool, ef__request *r)
{
    bool taken;

    EF__LOCK(&pool->lock);
    taken = pool->count < QUEUE_MAX && !pool->ending && pool_add_thread(pool);
    if (taken) {
        pool->queue[(pool->first + pool->count) % QUEUE_MAX] = r;
        pool->count++;
        pthread_cond_signal(&pool->work);
    }
    return taken;
}

ef__pool *ef__pool_new(int64_t threads_max)
{
    ef__pool *pool = calloc(1, sizeof *pool);

    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->ended, NULL);
    pool->threads_max = threads_max;
    return pool;
}

void ef__pool_stop(ef__pool *pool)
{
    if (!pool)
        return;
    EF__LOCK(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->work);
    while (pool->threads > 0)
        pthread_cond_wait(&pool->ended, &pool->lock);
}

void ef__pool_free(ef__pool *pool)
{
    if (!pool)
        return;
    pthread_cond_destroy(&pool->ended);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
