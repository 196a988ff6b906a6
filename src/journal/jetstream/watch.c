/*
 * watch.c - waits until the stream grows or a wake-up arrives, without polling.
 *
 * One thread has a fetch open that the broker completes when the next message arrives; another one
 * waits for wake-ups of the control journal. Both signal the waiters. The first waiter starts them.
 */
#include "jet.h"

#include "../../base/deadline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FETCH_MS 30000 /* then the fetch is repeated: the broker may have died silently */
#define AGAIN_MS 500   /* pause after the broker was unavailable */
#define WAKE_MS 60000  /* any long time: a wake-up ends the wait, and close sends one */

/* --- messages --------------------------------------------------------------------------------- */

/* A consumer for one message above `after`, without its data. */
static natsStatus subscribe_after(const jet_store *store, jet_link *link, int64_t after,
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
static natsStatus fetch_next_position(const jet_store *store, jet_link *link, int64_t after,
                                      int64_t *out)
{
    natsSubscription *sub = NULL;
    natsMsgList list = {0};
    jet_place place;
    natsStatus result = subscribe_after(store, link, after, &sub);

    if (result == NATS_OK)
        result = natsSubscription_Fetch(&list, sub, 1, FETCH_MS, NULL);
    if (result == NATS_OK && list.Count > 0 &&
        jet_place_parse(natsMsg_GetReply(list.Msgs[0]), &place))
        *out = place.position;
    natsMsgList_Destroy(&list);
    (void)natsSubscription_Unsubscribe(sub); /* which removes the consumer */
    natsSubscription_Destroy(sub);
    return result;
}

/* Waits for a message above `after`. `waiting` has the link, so that close can end the wait. */
static ef_status wait_for_message(jet_store *store, int64_t after, int64_t *out, ef_error *err)
{
    jet_watch *watch = &store->watch;
    jet_link *link = NULL;
    natsStatus result = NATS_OK;
    bool stopping;
    ef_status st = jet_link_get(store, &link, err);

    *out = after;
    if (st != EF_OK)
        return st;
    (void)pthread_mutex_lock(&watch->lock);
    watch->waiting = link;
    stopping = watch->stopping;
    (void)pthread_mutex_unlock(&watch->lock);
    if (!stopping)
        result = fetch_next_position(store, link, after, out);
    (void)pthread_mutex_lock(&watch->lock);
    watch->waiting = NULL;
    (void)pthread_mutex_unlock(&watch->lock);
    jet_link_put(link);
    return result == NATS_OK || result == NATS_TIMEOUT ? EF_OK
                                                       : jet_broker_fail(store, result, err);
}

/* Waits until a waiter wants messages, and pauses after a failure. The lock is held. */
static void wait_for_waiters(jet_watch *watch, ef_status st)
{
    struct timespec until = ef__deadline(CLOCK_MONOTONIC, AGAIN_MS);

    while (st != EF_OK && !watch->stopping &&
           pthread_cond_timedwait(&watch->changed, &watch->lock, &until) != ETIMEDOUT)
        ;
    while (!watch->stopping && watch->waiters == 0)
        (void)pthread_cond_wait(&watch->changed, &watch->lock);
}

static void *watch_messages(void *context)
{
    jet_store *store = context;
    jet_watch *watch = &store->watch;
    ef_status st = EF_OK;

    (void)pthread_mutex_lock(&watch->lock);
    for (;;) {
        ef_error err = EF_ERROR_INIT;
        int64_t after, found;
        wait_for_waiters(watch, st);
        if (watch->stopping)
            break;
        after = watch->head;
        (void)pthread_mutex_unlock(&watch->lock);
        st = wait_for_message(store, after, &found, &err);
        (void)pthread_mutex_lock(&watch->lock);
        watch->head = found > watch->head ? found : watch->head;
        watch->st = st;
        watch->err = err;
        (void)pthread_cond_broadcast(&watch->changed);
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return NULL;
}

/* --- wake-ups --------------------------------------------------------------------------------- */

static void *watch_wakes(void *context)
{
    jet_store *store = context;
    jet_watch *watch = &store->watch;
    int64_t wake = 0;

    (void)pthread_mutex_lock(&watch->lock);
    while (!watch->stopping) {
        (void)pthread_mutex_unlock(&watch->lock);
        ef_status st = ef__journal_wait(store->base.control, EF__NO_APPENDS, &wake, WAKE_MS, NULL);
        (void)pthread_mutex_lock(&watch->lock);
        watch->wake = wake;
        (void)pthread_cond_broadcast(&watch->changed);
        if (st != EF_OK && st != EF_TIMEOUT && !watch->stopping) {
            struct timespec until = ef__deadline(CLOCK_MONOTONIC, AGAIN_MS);
            (void)pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
        }
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return NULL;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static ef_status start_threads(jet_store *store, ef_error *err)
{
    jet_watch *watch = &store->watch;

    if (watch->started)
        return EF_OK;
    if (pthread_create(&watch->messages, NULL, watch_messages, store) != 0)
        return ef_fail(err, EF_NO_MEMORY, "cannot start a thread that waits for messages");
    if (pthread_create(&watch->wakes, NULL, watch_wakes, store) != 0) {
        watch->stopping = true;
        (void)pthread_cond_broadcast(&watch->changed);
        (void)pthread_mutex_unlock(&watch->lock);
        (void)pthread_join(watch->messages, NULL);
        (void)pthread_mutex_lock(&watch->lock);
        watch->stopping = false;
        return ef_fail(err, EF_NO_MEMORY, "cannot start a thread that waits for messages");
    }
    watch->started = true;
    return EF_OK;
}

/* The lock is held. */
static ef_status wait_for_change(jet_watch *watch, int64_t after, int64_t *wake, int64_t timeout_ms,
                                 ef_error *err)
{
    struct timespec until = ef__deadline(CLOCK_MONOTONIC, timeout_ms);
    bool appends = after != EF__NO_APPENDS;

    watch->st = EF_OK;
    for (;;) {
        if ((appends && watch->head > after) || (wake && watch->wake != *wake))
            return EF_OK;
        if (appends && watch->st != EF_OK)
            return ef_fail(err, watch->st, "%s", watch->err.text);
        if (pthread_cond_timedwait(&watch->changed, &watch->lock, &until) == ETIMEDOUT)
            return ef_fail_numbers(err, EF_TIMEOUT, after, watch->head,
                                   "no event above position %" PRId64 " in %" PRId64 " ms", after,
                                   timeout_ms);
    }
}

ef_status jet_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                   ef_error *err)
{
    jet_store *store = jet_store_of(journal);
    jet_watch *watch = &store->watch;
    bool appends = after != EF__NO_APPENDS;
    jet_state state = {0};
    ef_status st = appends ? jet_state_read(store, &state, err) : EF_OK;

    if (st != EF_OK)
        return st;
    EF__LOCK(&watch->lock);
    /* Also lower: a broker that was restored from a backup has a lower head. */
    if (appends && (state.last > watch->head || state.last < after))
        watch->head = state.last;
    st = start_threads(store, err);
    watch->waiters += appends;
    (void)pthread_cond_broadcast(&watch->changed);
    if (st == EF_OK)
        st = wait_for_change(watch, after, wake, timeout_ms, err);
    watch->waiters -= appends;
    if (wake)
        *wake = watch->wake;
    return st;
}

void jet_watch_init(jet_watch *watch)
{
    (void)pthread_mutex_init(&watch->lock, NULL);
    ef__cond_init(&watch->changed);
}

void jet_watch_release(jet_store *store)
{
    jet_watch *watch = &store->watch;
    bool started;

    (void)pthread_mutex_lock(&watch->lock);
    started = watch->started;
    watch->stopping = true;
    if (watch->waiting)
        natsConnection_Close(watch->waiting->connection);
    (void)pthread_cond_broadcast(&watch->changed);
    (void)pthread_mutex_unlock(&watch->lock);
    if (started) {
        ef__journal_wake(store->base.control);
        (void)pthread_join(watch->messages, NULL);
        (void)pthread_join(watch->wakes, NULL);
    }
    (void)pthread_cond_destroy(&watch->changed);
    (void)pthread_mutex_destroy(&watch->lock);
}
