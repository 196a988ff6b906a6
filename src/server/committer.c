/*
 * committer.c - group commit of small appends, by one thread.
 *
 * A thread per append would also work, because appends share commits in the journal. But it costs
 * several thread switches per request, which dominate with many connections. While one batch is
 * being committed, the next one gathers. Large appends go to the pool instead, because they would
 * delay the small ones.
 *
 * Clients tend to send their next request as soon as they are answered, so batches stay
 * synchronised: the network and this thread would take turns, each waiting for the other. If the
 * last commit was fast, a batch starts as soon as it has EARLY_COUNT requests, so that two batches
 * overlap. If it was slow, a commit costs more than such a wait, and all requests of a network
 * round share one.
 *
 * An append that is blocked by an open transaction of another process (on PostgreSQL) stays in the
 * batch and is retried with the following ones for HELD_FOR_US, so that it delays no other append.
 */
#include "append.h"

#include "../base/deadline.h"

#include <stdlib.h>

#define QUEUE_MAX 4096 /* queued requests; further ones get EF_BUSY */
#define BATCH_MAX 256  /* requests per call of the journal */
#define EARLY_COUNT 24 /* requests with which a batch starts before the network round ends */
#define EARLY_US 500   /* a commit up to this, … */
#define EARLY_EACH_US                                                                              \
    20              /* … plus this per request, is fast: the network needs less per request      \
                     */
#define HELD_MAX 16 /* blocked appends: each retry of one delays the others a little */
#define HELD_FOR_US 5000000
#define HELD_PAUSE_US 20000

/* A request in flight. */
typedef struct append_job {
    ef__request *request;
    ef__append_request appending;
    int64_t began_us;
    bool held;  /* its last attempt was blocked */
    bool tried; /* in this batch */
} append_job;

typedef struct commit_batch {
    append_job jobs[BATCH_MAX];   /* blocked ones first */
    ef_append appends[BATCH_MAX]; /* of the valid requests that are tried now */
    size_t job_of[BATCH_MAX];     /* append -> job */
    size_t count, append_count;
    size_t held_count;
    int64_t tried_us; /* the last attempt of the blocked ones */
} commit_batch;

struct ef__committer {
    ef__server *server;
    pthread_t thread;
    bool running; /* the thread has to be joined */
    pthread_mutex_t lock;
    pthread_cond_t work;
    ef__request *queue[QUEUE_MAX];
    size_t first, count;
    bool waiting; /* the thread waits for `work` */
    bool is_fast; /* the last commit was */
    bool ending;
    commit_batch batch; /* only used by the thread */
};

/* Waits for requests, or until blocked appends may be retried. Under the lock. */
static void wait_for_work(ef__committer *c)
{
    c->waiting = true;
    if (c->batch.held_count && c->count == 0) {
        struct timespec until = ef__deadline(CLOCK_MONOTONIC, HELD_PAUSE_US / 1000);
        (void)pthread_cond_timedwait(&c->work, &c->lock, &until);
    }
    while (!c->batch.held_count && c->count == 0 && !c->ending)
        pthread_cond_wait(&c->work, &c->lock);
    c->waiting = false;
}

/* Adds the queued requests after the blocked ones. False: the server stops and nothing is left. */
static bool batch_fill(ef__committer *c, bool is_fast)
{
    commit_batch *batch = &c->batch;

    pthread_mutex_lock(&c->lock);
    c->is_fast = is_fast;
    wait_for_work(c);
    for (batch->count = batch->held_count; batch->count < BATCH_MAX && c->count > 0; c->count--) {
        batch->jobs[batch->count++] = (append_job){.request = c->queue[c->first]};
        c->first = (c->first + 1) % QUEUE_MAX;
    }
    pthread_mutex_unlock(&c->lock);
    return batch->count > 0;
}

static bool read_request(append_job *job, int64_t now_us)
{
    ef__request *r = job->request;

    job->began_us = now_us;
    r->error.status = ef__append_request_read(r, &job->appending, &r->error);
    return r->error.status == EF_OK;
}

static void batch_read(commit_batch *batch, int64_t now_us)
{
    bool retries = now_us - batch->tried_us >= HELD_PAUSE_US;

    batch->append_count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        append_job *job = &batch->jobs[i];
        job->tried = job->held ? retries : read_request(job, now_us);
        if (!job->tried)
            continue;
        batch->job_of[batch->append_count] = i;
        batch->appends[batch->append_count++] = (ef_append){.events = job->appending.events,
                                                            .count = job->appending.count,
                                                            .out_places = job->appending.places,
                                                            .err = &job->request->error,
                                                            .held = job->held};
    }
    if (retries)
        batch->tried_us = now_us;
}

/* Copies the results of the appends to their jobs. */
static void batch_store_results(commit_batch *batch)
{
    for (size_t i = 0; i < batch->append_count; i++) {
        append_job *job = &batch->jobs[batch->job_of[i]];
        job->request->error.status = batch->appends[i].status;
        job->held = batch->appends[i].held;
    }
}

/* Answers finished requests, and keeps the blocked ones that may still be retried. */
static void batch_respond(commit_batch *batch, int64_t now_us)
{
    ef__request *done[BATCH_MAX];
    size_t done_count = 0;

    batch->held_count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        append_job *job = &batch->jobs[i];
        ef__request *r = job->request;
        if (job->held && now_us - job->began_us < HELD_FOR_US && batch->held_count < HELD_MAX) {
            batch->jobs[batch->held_count++] = *job;
            continue;
        }
        ef__dispatch_end(
            r, ef__append_request_end(r, &job->appending, r->error.status, job->began_us));
        done[done_count++] = r;
    }
    for (size_t i = 0; i < done_count; i++)
        ef__http_ready(done[i]);
}

static void *committer_run(void *context)
{
    ef__committer *c = context;
    bool is_fast = true;

    while (batch_fill(c, is_fast)) {
        int64_t began_us = ef__server_mono(c->server), ended_us;
        batch_read(&c->batch, began_us);
        ef_engine_append_each(c->server->options.engine, c->batch.appends, c->batch.append_count);
        ended_us = ef__server_mono(c->server);
        is_fast = ended_us - began_us <= EARLY_US + EARLY_EACH_US * (int64_t)c->batch.count;
        batch_store_results(&c->batch);
        batch_respond(&c->batch, ended_us);
    }
    return NULL;
}

/* Releases the lock before the signal, because the woken thread needs it. */
static void unlock_and_wake(ef__committer *c, bool wanted)
{
    bool waits = wanted && c->waiting;

    if (waits)
        c->waiting = false; /* one signal suffices */
    pthread_mutex_unlock(&c->lock);
    if (waits)
        pthread_cond_signal(&c->work);
}

bool ef__committer_put(ef__committer *c, ef__request *r)
{
    bool is_queued, early;

    pthread_mutex_lock(&c->lock);
    is_queued = c->count < QUEUE_MAX && !c->ending;
    if (is_queued)
        c->queue[(c->first + c->count++) % QUEUE_MAX] = r;
    early = c->is_fast && c->count >= EARLY_COUNT;
    unlock_and_wake(c, early);
    return is_queued;
}

void ef__committer_go(ef__committer *c)
{
    pthread_mutex_lock(&c->lock);
    unlock_and_wake(c, c->count > 0);
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
