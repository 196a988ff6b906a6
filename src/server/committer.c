/*
 * committer.c - appends that came together are committed together, by one thread.
 *
 * A thread for each would do as well for the journal, whose appends share commits; but it costs a
 * few switches of threads for each request, and with many connections these are most of the work.
 * While one lot is on its way to the disk the next gathers. What is large goes to the pool instead:
 * it would keep the small ones waiting.
 */
#include "append.h"

#include <stdlib.h>

#define QUEUE_MAX 4096 /* requests that wait; more are told to come again */
#define LOT_MAX 256    /* requests of one call to the journal */

typedef struct lot {
    ef__request *requests[LOT_MAX];
    ef__appending appendings[LOT_MAX];
    ef_append appends[LOT_MAX]; /* of those that could be read */
    size_t of[LOT_MAX];         /* whose they are */
    size_t count, append_count;
} lot;

struct ef__committer {
    ef__server *server;
    pthread_t thread;
    bool running; /* the thread has to be joined */
    pthread_mutex_t lock;
    pthread_cond_t work;
    ef__request *queue[QUEUE_MAX];
    size_t first, count;
    bool waiting, ending;
    lot lot; /* the thread's own */
};

/* Wait for requests and take what is there; false: it is over. */
static bool take_lot(ef__committer *c)
{
    lot *l = &c->lot;

    pthread_mutex_lock(&c->lock);
    c->waiting = true;
    while (c->count == 0 && !c->ending)
        pthread_cond_wait(&c->work, &c->lock);
    c->waiting = false;
    l->count = c->count < LOT_MAX ? c->count : LOT_MAX;
    for (size_t i = 0; i < l->count; i++)
        l->requests[i] = c->queue[(c->first + i) % QUEUE_MAX];
    c->first = (c->first + l->count) % QUEUE_MAX;
    c->count -= l->count;
    pthread_mutex_unlock(&c->lock);
    return l->count > 0;
}

static void read_lot(lot *l)
{
    l->append_count = 0;
    for (size_t i = 0; i < l->count; i++) {
        ef__request *r = l->requests[i];
        ef__appending *a = &l->appendings[i];
        *a = (ef__appending){0};
        r->error.status = ef__appending_take(r, a, &r->error);
        if (r->error.status != EF_OK)
            continue;
        l->of[l->append_count] = i;
        l->appends[l->append_count++] = (ef_append){
            .events = a->events, .count = a->count, .out_places = a->places, .err = &r->error};
    }
}

static void answer_lot(lot *l, int64_t began_us)
{
    for (size_t i = 0; i < l->append_count; i++)
        l->requests[l->of[i]]->error.status = l->appends[i].status;
    for (size_t i = 0; i < l->count; i++) {
        ef__request *r = l->requests[i];
        ef_status st = ef__appending_end(r, &l->appendings[i], r->error.status, began_us);
        ef__dispatch_end(r, st);
    }
    for (size_t i = 0; i < l->count; i++)
        ef__http_ready(l->requests[i]);
}

static void *commit(void *context)
{
    ef__committer *c = context;

    while (take_lot(c)) {
        int64_t began_us = ef__server_mono(c->server);
        read_lot(&c->lot);
        ef_engine_append_each(c->server->options.engine, c->lot.appends, c->lot.append_count);
        answer_lot(&c->lot, began_us);
    }
    return NULL;
}

bool ef__committer_put(ef__committer *c, ef__request *r)
{
    bool taken;

    pthread_mutex_lock(&c->lock);
    taken = c->count < QUEUE_MAX && !c->ending;
    if (taken)
        c->queue[(c->first + c->count++) % QUEUE_MAX] = r;
    pthread_mutex_unlock(&c->lock);
    return taken;
}

void ef__committer_go(ef__committer *c)
{
    bool wanted;

    pthread_mutex_lock(&c->lock);
    wanted = c->waiting && c->count > 0;
    pthread_mutex_unlock(&c->lock);
    if (wanted)
        pthread_cond_signal(&c->work);
}

ef_status ef__committer_start(ef__server *server, ef_error *err)
{
    ef__committer *c = calloc(1, sizeof *c);

    if (!c)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    c->server = server;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->work, NULL);
    server->committer = c;
    c->running = pthread_create(&c->thread, NULL, commit, c) == 0;
    return c->running ? EF_OK : ef_fail(err, EF_NO_MEMORY, "no thread for appends");
}

void ef__committer_stop(ef__server *server)
{
    ef__committer *c = server->committer;

    if (!c || !c->running)
        return;
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
    (void)pthread_join(c->thread, NULL);
    c->running = false;
}

void ef__committer_close(ef__server *server)
{
    ef__committer *c = server->committer;

    if (!c)
        return;
    pthread_cond_destroy(&c->work);
    pthread_mutex_destroy(&c->lock);
    free(c);
    server->committer = NULL;
}
