/*
 * watch.c - waiting until the stream grows or somebody nudges.
 *
 * Nobody looks while nothing happens. One thread has a fetch open that the broker answers when the
 * next message comes; one waits for nudges by the control journal. Both tell those who wait here.
 * They are started with the first who waits.
 */
#include "jet.h"

#include "../../base/deadline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FETCH_MS 30000 /* then it is asked anew: a broker may have died without a word */
#define AGAIN_MS 500   /* the broker was not at hand */
#define NUDGE_MS 60000

/* --- messages --------------------------------------------------------------------------------- */

/* A consumer for one message behind `after`, without its data. */
static natsStatus subscribe(const jet_store *store, jet_link *link, int64_t after,
                            natsSubscription **out)
{
    jsSubOptions options;

    (void)jsSubOptions_Init(&options);
    options.Stream = store->address.stream;
    options.Config.DeliverPolicy = js_DeliverByStartSequence;
    options.Config.OptStartSeq = (uint64_t)after + 1;
    options.Config.AckPolicy = js_AckNone;
    options.Config.HeadersOnly = true;
    options.Config.MemoryStorage = true;
    options.Config.InactiveThreshold = INT64_C(2) * FETCH_MS * 1000000;
    return js_PullSubscribe(out, link->stream, store->address.filter, NULL, NULL, &options, NULL);
}

/* NATS_OK: *out is the position of the next message. NATS_TIMEOUT: there was none. */
static natsStatus fetch_one(const jet_store *store, jet_link *link, int64_t after, int64_t *out)
{
    natsSubscription *sub = NULL;
    natsMsgList list = {0};
    jet_place place;
    natsStatus s = subscribe(store, link, after, &sub);

    if (s == NATS_OK)
        s = natsSubscription_Fetch(&list, sub, 1, FETCH_MS, NULL);
    if (s == NATS_OK && list.Count > 0 && jet_place_take(natsMsg_GetReply(list.Msgs[0]), &place))
        *out = place.position;
    natsMsgList_Destroy(&list);
    (void)natsSubscription_Unsubscribe(sub); /* which removes the consumer */
    natsSubscription_Destroy(sub);
    return s;
}

/* Wait for a message behind `after`; the link is shown so that close can end the wait. */
static ef_status look(jet_store *store, int64_t after, int64_t *out, ef_error *err)
{
    jet_watch *w = &store->watch;
    jet_link *link = NULL;
    natsStatus s = NATS_OK;
    bool stopping;
    ef_status st = jet_link_get(store, &link, err);

    *out = after;
    if (st != EF_OK)
        return st;
    (void)pthread_mutex_lock(&w->lock);
    w->waiting = link;
    stopping = w->stopping;
    (void)pthread_mutex_unlock(&w->lock);
    if (!stopping)
        s = fetch_one(store, link, after, out);
    (void)pthread_mutex_lock(&w->lock);
    w->waiting = NULL;
    (void)pthread_mutex_unlock(&w->lock);
    jet_link_put(link);
    return s == NATS_OK || s == NATS_TIMEOUT ? EF_OK : jet_broker_fail(store, s, err);
}

/* Until somebody minds messages. The lock is held. */
static void wait_for_waiters(jet_watch *w, ef_status st)
{
    struct timespec until = ef__deadline(CLOCK_MONOTONIC, AGAIN_MS);

    while (st != EF_OK && !w->stopping &&
           pthread_cond_timedwait(&w->changed, &w->lock, &until) != ETIMEDOUT)
        ;
    while (!w->stopping && w->waiters == 0)
        (void)pthread_cond_wait(&w->changed, &w->lock);
}

static void *watch_messages(void *context)
{
    jet_store *store = context;
    jet_watch *w = &store->watch;
    ef_status st = EF_OK;

    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        ef_error err = EF_ERROR_INIT;
        int64_t after, found;
        wait_for_waiters(w, st);
        if (w->stopping)
            break;
        after = w->head;
        (void)pthread_mutex_unlock(&w->lock);
        st = look(store, after, &found, &err);
        (void)pthread_mutex_lock(&w->lock);
        w->head = found > w->head ? found : w->head;
        w->st = st;
        w->err = err;
        (void)pthread_cond_broadcast(&w->changed);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- nudges ----------------------------------------------------------------------------------- */

static void *watch_nudges(void *context)
{
    jet_store *store = context;
    jet_watch *w = &store->watch;
    int64_t nudge = 0;

    (void)pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        (void)pthread_mutex_unlock(&w->lock);
        ef_status st = ef__journal_wait(store->control, EF__NO_APPENDS, &nudge, NUDGE_MS, NULL);
        (void)pthread_mutex_lock(&w->lock);
        w->nudge = nudge;
        (void)pthread_cond_broadcast(&w->changed);
        if (st != EF_OK && st != EF_TIMEOUT && !w->stopping) {
            struct timespec until = ef__deadline(CLOCK_MONOTONIC, AGAIN_MS);
            (void)pthread_cond_timedwait(&w->changed, &w->lock, &until);
        }
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static ef_status start(jet_store *store, ef_error *err)
{
    jet_watch *w = &store->watch;

    if (w->started)
        return EF_OK;
    if (pthread_create(&w->messages, NULL, watch_messages, store) != 0)
        return ef_fail(err, EF_NO_MEMORY, "a thread that waits could not be started");
    if (pthread_create(&w->nudges, NULL, watch_nudges, store) != 0) {
        w->stopping = true;
        (void)pthread_cond_broadcast(&w->changed);
        (void)pthread_mutex_unlock(&w->lock);
        (void)pthread_join(w->messages, NULL);
        (void)pthread_mutex_lock(&w->lock);
        w->stopping = false;
        return ef_fail(err, EF_NO_MEMORY, "a thread that waits could not be started");
    }
    w->started = true;
    return EF_OK;
}

/* The lock is held. */
static ef_status wait_here(jet_watch *w, int64_t after, int64_t *nudge, int64_t timeout_ms,
                           ef_error *err)
{
    struct timespec until = ef__deadline(CLOCK_MONOTONIC, timeout_ms);
    bool appends = after != EF__NO_APPENDS;

    w->st = EF_OK;
    for (;;) {
        if ((appends && w->head > after) || (nudge && w->nudge != *nudge))
            return EF_OK;
        if (appends && w->st != EF_OK)
            return ef_fail(err, w->st, "%s", w->err.text);
        if (pthread_cond_timedwait(&w->changed, &w->lock, &until) == ETIMEDOUT)
            return ef_fail_numbers(err, EF_TIMEOUT, after, w->head,
                                   "nothing came after position %" PRId64 " in %" PRId64 " ms",
                                   after, timeout_ms);
    }
}

ef_status jet_wait(ef_journal *journal, int64_t after, int64_t *nudge, int64_t timeout_ms,
                   ef_error *err)
{
    jet_store *store = jet_store_of(journal);
    jet_watch *w = &store->watch;
    bool appends = after != EF__NO_APPENDS;
    jet_state state = {0};
    ef_status st = appends ? jet_state_read(store, &state, err) : EF_OK;

    if (st != EF_OK)
        return st;
    (void)pthread_mutex_lock(&w->lock);
    /* Also back: a broker that was restored from a copy begins where it is. */
    if (appends && (state.last > w->head || state.last < after))
        w->head = state.last;
    st = start(store, err);
    w->waiters += appends;
    (void)pthread_cond_broadcast(&w->changed);
    if (st == EF_OK)
        st = wait_here(w, after, nudge, timeout_ms, err);
    w->waiters -= appends;
    if (nudge)
        *nudge = w->nudge;
    (void)pthread_mutex_unlock(&w->lock);
    return st;
}

void jet_watch_init(jet_watch *w)
{
    pthread_condattr_t attributes;

    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

void jet_watch_release(jet_store *store)
{
    jet_watch *w = &store->watch;
    bool started;

    (void)pthread_mutex_lock(&w->lock);
    started = w->started;
    w->stopping = true;
    if (w->waiting)
        natsConnection_Close(w->waiting->connection);
    (void)pthread_cond_broadcast(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
    if (started) {
        ef__journal_nudge(store->control);
        (void)pthread_join(w->messages, NULL);
        (void)pthread_join(w->nudges, NULL);
    }
    (void)pthread_cond_destroy(&w->changed);
    (void)pthread_mutex_destroy(&w->lock);
}
