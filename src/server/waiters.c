/*
 * waiters.c - requests that wait for an event or for a fold, without a thread each.
 *
 *     handler ─► parked ─► handler again, in the pool ─► answered
 *                  ▲                 └─ not yet: parked once more
 *                  └─ until there is something to read, its time is over, or its client has gone
 *
 * One thread watches the journal for those that wait for events, another one the views for those
 * that wait for a fold. Each looks at all of its requests together, and the more there are the less
 * often it looks, so that many waiters take no more than a share of a core.
 *
 * A lot's lock guards its list; a request in the list is the lot's alone.
 */
#include "request.h"

#include "../base/deadline.h"

#include <stdlib.h>

#define LOOK_MAX 256     /* waits of one look */
#define WATCH_MS 200     /* longest sleep: what another process did is noticed by then */
#define SHARE 4          /* a look that took t is followed by a pause of so many times t … */
#define PAUSE_MS_MAX 250 /* … up to this */

typedef struct lot {
    ef__server *server;
    pthread_t thread;
    bool running; /* the thread has to be joined */
    pthread_mutex_t lock;
    pthread_cond_t work;
    ef__request *first;
    int64_t head; /* of the journal, when it was read last */
    bool ending;
} lot;

struct ef__waiters {
    lot log, views;
};

/* Its handler runs again, unless its client has gone: then it ends here. */
static void resume_request(ef__request *r)
{
    ef_view_wait_close(r->waiting.view);
    r->waiting.view = NULL;
    if (ef__request_is_abandoned(r))
        (void)ef_fail(&r->error, EF_OVER_BUDGET, "the client has closed its connection");
    else if (ef__pool_put(r->server->pool, r))
        return;
    else
        (void)ef_fail(&r->error, EF_BUSY, "too many requests wait already; try again in a second");
    ef__dispatch_problem(r);
    ef__http_ready(r);
}

static void release_all(ef__request *list)
{
    while (list) {
        ef__request *r = list;
        list = r->waiting.next;
        resume_request(r);
    }
}

/* Under the lock: waits until there are requests; false: it is over. */
static bool has_work(lot *l)
{
    while (!l->first && !l->ending)
        pthread_cond_wait(&l->work, &l->lock);
    return !l->ending;
}

/* Under the lock: takes out all that may go on. *out_left_ms: until the next one is late. */
static ef__request *take_over(lot *l, bool (*may_go_on)(const lot *l, const ef__request *r),
                              int64_t *out_left_ms)
{
    int64_t now_us = ef__server_mono(l->server), left_us = WATCH_MS * 1000;
    ef__request *over = NULL;

    for (ef__request **at = &l->first; *at;) {
        ef__request *r = *at;
        int64_t until_us = r->waiting.end_us - now_us;
        if (until_us > 0 && !may_go_on(l, r) && !ef__request_is_abandoned(r)) {
            left_us = until_us < left_us ? until_us : left_us;
            at = &r->waiting.next;
            continue;
        }
        *at = r->waiting.next;
        r->waiting.next = over;
        over = r;
    }
    *out_left_ms = left_us / 1000 + 1;
    return over;
}

/* --- events -------------------------------------------------------------------------------------
 */

static bool has_events(const lot *l, const ef__request *r)
{
    return r->waiting.after < l->head;
}

static void *watch_log(void *context)
{
    lot *l = context;
    ef_journal *journal = l->server->options.journal;

    pthread_mutex_lock(&l->lock);
    while (has_work(l)) {
        ef_head head = {0};
        int64_t left_ms;
        ef__request *over;
        pthread_mutex_unlock(&l->lock);
        if (ef_journal_head(journal, &head, NULL) != EF_OK)
            head.position = INT64_MAX; /* the handler fails, and says why */
        pthread_mutex_lock(&l->lock);
        l->head = head.position;
        over = take_over(l, has_events, &left_ms);
        if (head.position == INT64_MAX)
            l->head = 0;
        pthread_mutex_unlock(&l->lock);
        release_all(over);
        (void)ef_journal_wait(journal, head.position, left_ms, NULL);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* --- views --------------------------------------------------------------------------------------
 */

static bool is_over(const lot *l, const ef__request *r)
{
    (void)l;
    return r->waiting.after != 0;
}

/* Looks at all of `list`, which no other thread reaches; `after` becomes 1 of those that are
 * over. */
static void look_at_views(ef__request *list)
{
    ef__request *of[LOOK_MAX];
    ef_view_wait *waits[LOOK_MAX];
    bool over[LOOK_MAX];

    while (list) {
        size_t count = 0;
        for (; list && count < LOOK_MAX; list = list->waiting.next) {
            of[count] = list;
            waits[count++] = list->waiting.view;
        }
        ef_view_wait_check(waits, count, over);
        for (size_t i = 0; i < count; i++)
            of[i]->waiting.after = over[i];
    }
}

/* Puts a list in front of those that have come meanwhile. */
static void put_back(lot *l, ef__request *list)
{
    ef__request **at = &list;

    while (*at)
        at = &(*at)->waiting.next;
    *at = l->first;
    l->first = list;
}

/* The lock is ours, but not during the look. */
static int64_t look_round(lot *l, int64_t *out_left_ms)
{
    ef__request *list = l->first, *over;
    int64_t began_us = ef__server_mono(l->server), took_us;

    l->first = NULL;
    pthread_mutex_unlock(&l->lock);
    look_at_views(list);
    took_us = ef__server_mono(l->server) - began_us;
    pthread_mutex_lock(&l->lock);
    put_back(l, list);
    over = take_over(l, is_over, out_left_ms);
    pthread_mutex_unlock(&l->lock);
    release_all(over);
    pthread_mutex_lock(&l->lock);
    return took_us;
}

static void *watch_views(void *context)
{
    lot *l = context;
    int64_t turn = 0;

    pthread_mutex_lock(&l->lock);
    while (has_work(l)) {
        int64_t left_ms, pause_ms = look_round(l, &left_ms) * SHARE / 1000;
        pause_ms = pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX;
        if (pause_ms > 0 && !l->ending) {
            struct timespec until = ef__deadline(CLOCK_MONOTONIC, pause_ms);
            (void)pthread_cond_timedwait(&l->work, &l->lock, &until);
        }
        pthread_mutex_unlock(&l->lock);
        turn = ef_view_wait_next(l->server->options.engine, turn, left_ms);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* --- for the server -----------------------------------------------------------------------------
 */

/* Under the lock: how many of the same token wait. */
static int64_t count_of_token(const lot *l, const ef__request *r)
{
    int64_t count = 0;

    for (const ef__request *other = l->first; other; other = other->waiting.next)
        count += strcmp(other->who.token, r->who.token) == 0;
    return count;
}

bool ef__waiters_park(ef__request *r, int64_t end_us, int64_t after, ef_view_wait *view)
{
    struct ef__waiters *waiters = r->server->waiters;
    lot *l = view ? &waiters->views : &waiters->log;
    int64_t most = EF__OF_ONE_TOKEN(r->server->options.connections_max);
    bool parks = ef__server_mono(r->server) < end_us;

    pthread_mutex_lock(&l->lock);
    parks = parks && !l->ending && (r->who.token[0] == '\0' || count_of_token(l, r) < most);
    pthread_mutex_unlock(&l->lock);
    r->waiting.began_us = r->began_us;
    r->waiting.end_us = end_us;
    r->waiting.after = after;
    r->waiting.view = parks ? view : NULL;
    r->waiting.parks = parks;
    if (!parks)
        ef_view_wait_close(view);
    return parks;
}

void ef__waiters_put(ef__request *r)
{
    struct ef__waiters *waiters = r->server->waiters;
    lot *l = r->waiting.view ? &waiters->views : &waiters->log;
    bool taken;

    r->waiting.parks = false;
    pthread_mutex_lock(&l->lock);
    taken = !l->ending && (r->waiting.view || !has_events(l, r));
    if (taken) {
        r->waiting.next = l->first;
        l->first = r;
        pthread_cond_signal(&l->work);
    }
    pthread_mutex_unlock(&l->lock);
    if (!taken)
        resume_request(r);
}

static ef_status lot_start(lot *l, ef__server *server, void *(*watch)(void *), ef_error *err)
{
    l->server = server;
    pthread_mutex_init(&l->lock, NULL);
    ef__cond_init(&l->work);
    if (pthread_create(&l->thread, NULL, watch, l) != 0)
        return ef_fail(err, EF_NO_MEMORY, "no thread for requests that wait");
    l->running = true;
    return EF_OK;
}

ef_status ef__waiters_start(ef__server *server, ef_error *err)
{
    ef_status st;

    server->waiters = calloc(1, sizeof *server->waiters);
    if (!server->waiters)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    st = lot_start(&server->waiters->log, server, watch_log, err);
    return st == EF_OK ? lot_start(&server->waiters->views, server, watch_views, err) : st;
}

static void lot_stop(lot *l)
{
    if (!l->running)
        return;
    pthread_mutex_lock(&l->lock);
    l->ending = true;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    (void)pthread_join(l->thread, NULL);
    l->running = false;
    release_all(l->first);
    l->first = NULL;
}

void ef__waiters_stop(ef__server *server)
{
    if (!server->waiters)
        return;
    lot_stop(&server->waiters->log);
    lot_stop(&server->waiters->views);
}

static void lot_close(lot *l)
{
    if (!l->server)
        return;
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
}

void ef__waiters_close(ef__server *server)
{
    if (!server->waiters)
        return;
    lot_close(&server->waiters->log);
    lot_close(&server->waiters->views);
    free(server->waiters);
    server->waiters = NULL;
}
