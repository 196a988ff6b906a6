/*
 * waiters.c - requests that wait for an event or for a fold, without a thread each.
 *
 *     handler ─► parked ─► handler again, in the pool ─► answered
 *                  ▲                 └─ not ready: parked again
 *                  └─ until there is something to read, its deadline, or its client disconnected
 *
 * One thread watches the journal for the requests that wait for events, another one the views for
 * those that wait for a fold. Each checks all of its requests together, and less often the more
 * there are, so that many of them use at most a share of a core.
 *
 * The lock of a wait list guards its requests; only the list's thread uses a request in it.
 */
#include "request.h"

#include "../base/deadline.h"

#define CHECK_MAX 256    /* waits per call of ef_view_wait_check */
#define WATCH_MS 200     /* the longest sleep: limits the delay after changes of other processes */
#define SHARE 4          /* a check that took t is followed by a pause of SHARE * t … */
#define PAUSE_MS_MAX 250 /* … up to this */

typedef struct ef__waiters {
    ef__service service;
    ef__server *server;
    ef__request *first;
    int64_t head; /* of the journal, when it was read last */
} wait_list;

/* Runs the handler again, unless the client has disconnected: then the request ends here. */
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

/* Under the lock: waits until there are requests. False: the server stops. */
static bool has_work(wait_list *queue)
{
    while (!queue->first && !queue->service.ending)
        pthread_cond_wait(&queue->service.changed, &queue->service.lock);
    return !queue->service.ending;
}

/* Under the lock: removes and returns the requests that are ready, late or abandoned.
 * *out_left_ms: time until the next deadline. */
static ef__request *remove_ready(wait_list *queue,
                                 bool (*is_ready)(const wait_list *queue, const ef__request *r),
                                 int64_t *out_left_ms)
{
    int64_t now_us = ef__server_mono(queue->server), left_us = WATCH_MS * 1000;
    ef__request *over = NULL;

    for (ef__request **at = &queue->first; *at;) {
        ef__request *r = *at;
        int64_t until_us = r->waiting.end_us - now_us;
        if (until_us > 0 && !is_ready(queue, r) && !ef__request_is_abandoned(r)) {
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

/* --- events ----------------------------------------------------------------------------------- */

static bool has_events(const wait_list *queue, const ef__request *r)
{
    return r->waiting.after < queue->head;
}

static void *watch_log(void *context)
{
    wait_list *queue = context;
    ef_journal *journal = queue->server->options.journal;

    pthread_mutex_lock(&queue->service.lock);
    while (has_work(queue)) {
        ef_head head = {0};
        int64_t left_ms;
        ef__request *over;
        pthread_mutex_unlock(&queue->service.lock);
        if (ef_journal_head(journal, &head, NULL) != EF_OK)
            head.position = INT64_MAX; /* the handlers fail with the error */
        pthread_mutex_lock(&queue->service.lock);
        queue->head = head.position;
        over = remove_ready(queue, has_events, &left_ms);
        if (head.position == INT64_MAX)
            queue->head = 0;
        pthread_mutex_unlock(&queue->service.lock);
        release_all(over);
        (void)ef_journal_wait(journal, head.position, left_ms, NULL);
        pthread_mutex_lock(&queue->service.lock);
    }
    pthread_mutex_unlock(&queue->service.lock);
    return NULL;
}

/* --- views ------------------------------------------------------------------------------------ */

static bool has_views(const wait_list *queue, const ef__request *r)
{
    (void)queue;
    return r->waiting.after != 0;
}

/* Checks all of `list`, which no other thread uses; sets `after` to 1 where the wait is over. */
static void check_views(ef__request *list)
{
    ef__request *of[CHECK_MAX];
    ef_view_wait *waits[CHECK_MAX];
    bool over[CHECK_MAX];

    while (list) {
        size_t count = 0;
        for (; list && count < CHECK_MAX; list = list->waiting.next) {
            of[count] = list;
            waits[count++] = list->waiting.view;
        }
        ef_view_wait_check(waits, count, over);
        for (size_t i = 0; i < count; i++)
            of[i]->waiting.after = over[i];
    }
}

/* Puts a list before the requests that were added meanwhile. */
static void prepend_list(wait_list *queue, ef__request *list)
{
    ef__request **at = &list;

    while (*at)
        at = &(*at)->waiting.next;
    *at = queue->first;
    queue->first = list;
}

/* Called under the lock, and releases it during the check. Returns the time of the check. */
static int64_t check_all_views(wait_list *queue, int64_t *out_left_ms)
{
    ef__request *list = queue->first, *over;
    int64_t began_us = ef__server_mono(queue->server), took_us;

    queue->first = NULL;
    pthread_mutex_unlock(&queue->service.lock);
    check_views(list);
    took_us = ef__server_mono(queue->server) - began_us;
    pthread_mutex_lock(&queue->service.lock);
    prepend_list(queue, list);
    over = remove_ready(queue, has_views, out_left_ms);
    pthread_mutex_unlock(&queue->service.lock);
    release_all(over);
    pthread_mutex_lock(&queue->service.lock);
    return took_us;
}

static void *watch_views(void *context)
{
    wait_list *queue = context;
    int64_t turn = 0;

    pthread_mutex_lock(&queue->service.lock);
    while (has_work(queue)) {
        int64_t left_ms, pause_ms = check_all_views(queue, &left_ms) * SHARE / 1000;
        pause_ms = pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX;
        if (pause_ms > 0 && !queue->service.ending) {
            struct timespec until = ef__deadline(CLOCK_MONOTONIC, pause_ms);
            (void)pthread_cond_timedwait(&queue->service.changed, &queue->service.lock, &until);
        }
        pthread_mutex_unlock(&queue->service.lock);
        turn = ef_view_wait_next(queue->server->options.engine, turn, left_ms);
        pthread_mutex_lock(&queue->service.lock);
    }
    pthread_mutex_unlock(&queue->service.lock);
    return NULL;
}

/* --- for the server --------------------------------------------------------------------------- */

/* Under the lock: the number of waiting requests with the same token. */
static int64_t count_of_token(const wait_list *queue, const ef__request *r)
{
    int64_t count = 0;

    for (const ef__request *other = queue->first; other; other = other->waiting.next)
        count += strcmp(other->who.token, r->who.token) == 0;
    return count;
}

bool ef__waiters_park(ef__request *r, int64_t end_us, int64_t after, ef_view_wait *view)
{
    wait_list *queue = view ? r->server->view_waiters : r->server->event_waiters;
    int64_t most = EF__OF_ONE_TOKEN(r->server->options.connections_max);
    bool parks = ef__server_mono(r->server) < end_us;

    pthread_mutex_lock(&queue->service.lock);
    parks = parks && !queue->service.ending &&
            (r->who.token[0] == '\0' || count_of_token(queue, r) < most);
    pthread_mutex_unlock(&queue->service.lock);
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
    wait_list *queue = r->waiting.view ? r->server->view_waiters : r->server->event_waiters;
    bool taken;

    r->waiting.parks = false;
    pthread_mutex_lock(&queue->service.lock);
    taken = !queue->service.ending && (r->waiting.view || !has_events(queue, r));
    if (taken) {
        r->waiting.next = queue->first;
        queue->first = r;
        pthread_cond_signal(&queue->service.changed);
    }
    pthread_mutex_unlock(&queue->service.lock);
    if (!taken)
        resume_request(r);
}

static ef_status wait_list_start(ef__server *server, void *(*watch)(void *), wait_list **out,
                                 ef_error *err)
{
    wait_list *queue = *out = ef__service_new(sizeof *queue, err);

    if (!queue)
        return EF_NO_MEMORY;
    queue->server = server;
    return ef__service_start(&queue->service, watch, queue, "requests that wait", err);
}

ef_status ef__waiters_start(ef__server *server, ef_error *err)
{
    ef_status st = wait_list_start(server, watch_log, &server->event_waiters, err);

    return st == EF_OK ? wait_list_start(server, watch_views, &server->view_waiters, err) : st;
}

static void wait_list_stop(wait_list *queue)
{
    if (!queue)
        return;
    ef__service_stop(queue);
    release_all(queue->first);
    queue->first = NULL;
}

void ef__waiters_stop(ef__server *server)
{
    wait_list_stop(server->event_waiters);
    wait_list_stop(server->view_waiters);
}
