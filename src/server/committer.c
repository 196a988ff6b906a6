/*
 * committer.c - appends that came together are committed together, by one thread.
 *
 * A thread for each would do as well for the journal, whose appends share commits; but it costs a
 * few switches of threads for each request, and with many connections these are most of the work.
 * While one lot is on its way to the disk the next gathers. What is large goes to the pool instead:
 * it would keep the small ones waiting.
 *
 * Who has been answered asks again, so a lot comes back as one: the network and this thread would
 * take turns, and each wait for the other. Where the disk is quick a lot is begun as soon as it has
 * some requests, and becomes two that are under way at once. Where it is slow a commit costs more
 * than such a wait, and all that came in a round of the network share one.
 *
 * An append that somebody's open transaction holds up, on PostgreSQL, stays in the thread's hands
 * and is tried again with the lots that follow, for a while, so that nobody else waits for it.
 */
#include "append.h"

#include "../base/deadline.h"

#include <stdlib.h>

#define QUEUE_MAX 4096   /* requests that wait; more are told to come again */
#define LOT_MAX 256      /* requests of one call to the journal */
#define EARLY_COUNT 24   /* that are begun with before the round is over … */
#define EARLY_US 500     /* … if the last lot took no longer than this … */
#define EARLY_EACH_US 20 /* … and this for each request: the network takes less for one */
#define HELD_MAX 16      /* of them held up: each try of one takes a moment from all others */
#define HELD_FOR_US 5000000
#define HELD_PAUSE_US 20000

/* A request on its way. */
typedef struct on_way {
    ef__request *request;
    ef__append_request appending;
    int64_t began_us;
    bool held;  /* up, when it was tried last */
    bool tried; /* in this lot */
} on_way;

typedef struct lot {
    on_way all[LOT_MAX];        /* those that were held up come first */
    ef_append appends[LOT_MAX]; /* of those that could be read, and are tried */
    size_t of[LOT_MAX];         /* whose they are */
    size_t count, append_count;
    size_t held_count;
    int64_t tried_us; /* when those were tried last */
} lot;

struct ef__committer {
    ef__server *server;
    pthread_t thread;
    bool running; /* the thread has to be joined */
    pthread_mutex_t lock;
    pthread_cond_t work;
    ef__request *queue[QUEUE_MAX];
    size_t first, count;
    bool waiting; /* for somebody to signal `work` */
    bool quick;   /* the last lot was */
    bool ending;
    lot lot; /* the thread's own */
};

/* Wait for requests, or until those that were held up may be tried again. The lock is ours. */
static void wait_for_work(ef__committer *c)
{
    c->waiting = true;
    if (c->lot.held_count && c->count == 0) {
        struct timespec until = ef__deadline(CLOCK_MONOTONIC, HELD_PAUSE_US / 1000);
        (void)pthread_cond_timedwait(&c->work, &c->lock, &until);
    }
    while (!c->lot.held_count && c->count == 0 && !c->ending)
        pthread_cond_wait(&c->work, &c->lock);
    c->waiting = false;
}

/* Take what is there, behind what was held up; false: it is over. */
static bool take_lot(ef__committer *c, bool quick)
{
    lot *l = &c->lot;

    pthread_mutex_lock(&c->lock);
    c->quick = quick;
    wait_for_work(c);
    for (l->count = l->held_count; l->count < LOT_MAX && c->count > 0; c->count--) {
        l->all[l->count++] = (on_way){.request = c->queue[c->first]};
        c->first = (c->first + 1) % QUEUE_MAX;
    }
    pthread_mutex_unlock(&c->lock);
    return l->count > 0;
}

static bool read_request(on_way *w, int64_t now_us)
{
    ef__request *r = w->request;

    w->began_us = now_us;
    r->error.status = ef__append_request_read(r, &w->appending, &r->error);
    return r->error.status == EF_OK;
}

static void read_lot(lot *l, int64_t now_us)
{
    bool again = now_us - l->tried_us >= HELD_PAUSE_US;

    l->append_count = 0;
    for (size_t i = 0; i < l->count; i++) {
        on_way *w = &l->all[i];
        w->tried = w->held ? again : read_request(w, now_us);
        if (!w->tried)
            continue;
        l->of[l->append_count] = i;
        l->appends[l->append_count++] = (ef_append){.events = w->appending.events,
                                                    .count = w->appending.count,
                                                    .out_places = w->appending.places,
                                                    .err = &w->request->error,
                                                    .held = w->held};
    }
    if (again)
        l->tried_us = now_us;
}

static void note_lot(lot *l)
{
    for (size_t i = 0; i < l->append_count; i++) {
        on_way *w = &l->all[l->of[i]];
        w->request->error.status = l->appends[i].status;
        w->held = l->appends[i].held;
    }
}

/* Answer what is done, and keep what was held up and may still be. */
static void answer_lot(lot *l, int64_t now_us)
{
    ef__request *done[LOT_MAX];
    size_t done_count = 0;

    l->held_count = 0;
    for (size_t i = 0; i < l->count; i++) {
        on_way *w = &l->all[i];
        ef__request *r = w->request;
        if (w->held && now_us - w->began_us < HELD_FOR_US && l->held_count < HELD_MAX) {
            l->all[l->held_count++] = *w;
            continue;
        }
        ef__dispatch_end(r, ef__append_request_end(r, &w->appending, r->error.status, w->began_us));
        done[done_count++] = r;
    }
    for (size_t i = 0; i < done_count; i++)
        ef__http_ready(done[i]);
}

static void *committer_run(void *context)
{
    ef__committer *c = context;
    bool quick = true;

    while (take_lot(c, quick)) {
        int64_t began_us = ef__server_mono(c->server), ended_us;
        read_lot(&c->lot, began_us);
        ef_engine_append_each(c->server->options.engine, c->lot.appends, c->lot.append_count);
        ended_us = ef__server_mono(c->server);
        quick = ended_us - began_us <= EARLY_US + EARLY_EACH_US * (int64_t)c->lot.count;
        note_lot(&c->lot);
        answer_lot(&c->lot, ended_us);
    }
    return NULL;
}

/* Under the lock, which it gives back: whoever is woken needs it. */
static void committer_wake(ef__committer *c, bool wanted)
{
    bool waits = wanted && c->waiting;

    if (waits)
        c->waiting = false; /* once is enough */
    pthread_mutex_unlock(&c->lock);
    if (waits)
        pthread_cond_signal(&c->work);
}

bool ef__committer_put(ef__committer *c, ef__request *r)
{
    bool taken, early;

    pthread_mutex_lock(&c->lock);
    taken = c->count < QUEUE_MAX && !c->ending;
    if (taken)
        c->queue[(c->first + c->count++) % QUEUE_MAX] = r;
    early = c->quick && c->count >= EARLY_COUNT;
    committer_wake(c, early);
    return taken;
}

void ef__committer_go(ef__committer *c)
{
    pthread_mutex_lock(&c->lock);
    committer_wake(c, c->count > 0);
}

ef_status ef__committer_start(ef__server *server, ef_error *err)
{
    ef__committer *c = calloc(1, sizeof *c);
    pthread_condattr_t attributes;

    if (!c)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    c->server = server;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->work, &attributes);
    pthread_condattr_destroy(&attributes);
    server->committer = c;
    c->running = pthread_create(&c->thread, NULL, committer_run, c) == 0;
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
