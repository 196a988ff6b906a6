/*
 * reader.c - reading a stream by sequence, whatever the broker delivers.
 *
 * A reader is a pull consumer that begins where we say. The broker numbers what a consumer delivers
 * 1, 2, 3 …; as long as these numbers come to us without a gap, nothing lies between two messages
 * but what the stream does not have. A gap means that somebody else fetched from our durable (a
 * worker that was thought dead), or that something got lost on the way: then the consumer is made
 * anew where we stand. A message at or below that place is a redelivery, and is dropped.
 *
 * What is acknowledged is for the broker's own tools. Where we go on is in the view store.
 */
#include "jet.h"

#include "../../base/logger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_BYTES (16 << 20) /* of a request; two of them are in memory at a time */
#define INACTIVE_NS (INT64_C(60) * 1000000000)
#define DURABLE_NS (INT64_C(7) * 24 * 3600 * 1000000000) /* of a generation that is no more */
#define STUCK_MS 250                                     /* without an answer: time to ask why */
#define TRIES 3 /* consumers that somebody else has taken over */

void jet_reader_init(jet_reader *r, const char *name, const char *filter)
{
    *r = (jet_reader){0};
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_mutex_init(&r->acking, NULL);
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    (void)snprintf(r->filter, sizeof r->filter, "%s", filter);
}

static void leave(jet_reader *r)
{
    jet_link_put(r->link);
    r->link = NULL;
}

/* A durable stays, for people who look at the broker; the others end with the call. */
void jet_reader_release(jet_store *store, jet_reader *r)
{
    if (r->link && !r->name[0])
        (void)js_DeleteConsumer(r->link->stream, store->address.stream, r->consumer, NULL, NULL);
    leave(r);
    (void)pthread_mutex_destroy(&r->lock);
    (void)pthread_mutex_destroy(&r->acking);
}

/* --- the consumer ----------------------------------------------------------------------------- */

static void describe(const jet_store *store, const jet_reader *r, int64_t after,
                     jsConsumerConfig *out)
{
    (void)jsConsumerConfig_Init(out);
    out->DeliverPolicy = js_DeliverByStartSequence;
    out->OptStartSeq = (uint64_t)after + 1;
    out->FilterSubject = r->filter;
    if (r->name[0]) {
        out->Durable = r->name;
        out->AckPolicy = js_AckAll;
        out->AckWait = store->address.ack_wait_s * 1000000000;
        out->MaxAckPending = store->address.in_flight;
        out->InactiveThreshold = DURABLE_NS;
    } else {
        out->AckPolicy = js_AckNone;
        out->InactiveThreshold = INACTIVE_NS;
        out->MemoryStorage = true;
    }
}

static void forget_acks(jet_reader *r)
{
    (void)pthread_mutex_lock(&r->acking);
    memset(r->acks, 0, sizeof r->acks);
    (void)pthread_mutex_unlock(&r->acking);
}

/* Make it begin behind `after`. A durable that is there begins elsewhere, and cannot be moved. */
static ef_status begin(jet_store *store, jet_reader *r, int64_t after, ef_error *err)
{
    jsConsumerConfig config;
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus s;
    ef_status st;

    leave(r);
    st = jet_link_get(store, &r->link, err);
    if (st != EF_OK)
        return st;
    if (r->name[0] || r->consumer[0])
        (void)js_DeleteConsumer(r->link->stream, store->address.stream,
                                r->name[0] ? r->name : r->consumer, NULL, &code);
    describe(store, r, after, &config);
    s = js_AddConsumer(&info, r->link->stream, store->address.stream, &config, NULL, &code);
    if (s == NATS_OK) {
        (void)snprintf(r->consumer, sizeof r->consumer, "%s", info->Name);
        r->read = after;
        r->delivered = 0;
        r->dry = info->NumPending == 0;
        forget_acks(r);
    } else {
        st = ef_fail(err, EF_BUSY, "%s: no consumer of stream %s can be made: %s (%d)",
                     store->address.shown, store->address.stream, natsStatus_GetText(s), (int)code);
        jet_link_drop(store, r->link);
        leave(r);
    }
    jsConsumerInfo_Destroy(info);
    return st;
}

/* --- a request -------------------------------------------------------------------------------- */

typedef struct fetch {
    jet_store *store;
    jet_reader *reader;
    natsSubscription *inbox;
    size_t limit;
    ef_event *events; /* in the batch's room */
    size_t count;
    ef__arena *arena;
    ef__buf scratch;
    jet_ack ack; /* of the last message */
    bool over;   /* the request has been answered */
    bool broken; /* something is missing: the consumer is of no use any more */
} fetch;

static ef_status ask(fetch *f, size_t most, bool bounded, ef_error *err)
{
    natsConnection *connection = f->reader->link->connection;
    char subject[2 * JET_NAME_MAX + 40], question[100];
    natsInbox *inbox = NULL;
    natsStatus s = natsInbox_Create(&inbox);
    int n = snprintf(question, sizeof question, "{\"batch\":%zu,\"no_wait\":true", most);

    (void)snprintf(question + n, sizeof question - (size_t)n, bounded ? ",\"max_bytes\":%d}" : "}",
                   FETCH_BYTES);
    (void)snprintf(subject, sizeof subject, "$JS.API.CONSUMER.MSG.NEXT.%s.%s",
                   f->store->address.stream, f->reader->consumer);
    if (s == NATS_OK)
        s = natsConnection_SubscribeSync(&f->inbox, connection, inbox);
    if (s == NATS_OK)
        s = natsSubscription_SetPendingLimits(f->inbox, -1, -1);
    if (s == NATS_OK)
        s = natsConnection_PublishRequestString(connection, subject, inbox, question);
    natsInbox_Destroy(inbox);
    return s == NATS_OK ? EF_OK : jet_broker_fail(f->store, s, err);
}

/* What is of the broker itself cannot be acknowledged, and has a status: 404 nothing is left, 408
 * and 409 the request is over (409 also when the next message alone is larger than what may be
 * fetched). A message may have such a header too. */
static bool is_status(natsMsg *msg, const char **out)
{
    *out = NULL;
    return !natsMsg_GetReply(msg) && natsMsgHeader_Get(msg, "Status", out) == NATS_OK && *out;
}

/* Each message once: it is read by every generation, and again when it is retried. */
static void count_unreadable(jet_counts *counts, int64_t position)
{
    int64_t last = atomic_load(&counts->unreadable_at);

    while (position > last)
        if (atomic_compare_exchange_weak(&counts->unreadable_at, &last, position)) {
            atomic_fetch_add(&counts->unreadable, 1);
            return;
        }
}

static ef_status take_event(fetch *f, natsMsg *msg, const jet_place *place, ef_error *err)
{
    jet_reader *r = f->reader;
    ef_event *event = &f->events[f->count];
    ef_status st = jet_event_take(f->store, msg, place, f->arena, &f->scratch, event, err);

    if (st != EF_OK)
        return st;
    if (event->type.len == 0)
        count_unreadable(&f->store->counts, place->position);
    atomic_fetch_add(&f->store->counts.holes, place->position - r->read - 1);
    f->count++;
    r->read = place->position;
    if (r->name[0])
        (void)snprintf(f->ack.reply, sizeof f->ack.reply, "%s", natsMsg_GetReply(msg));
    f->ack.position = place->position;
    return EF_OK;
}

/* Is this the next one that the consumer has delivered? */
static ef_status take_message(fetch *f, natsMsg *msg, ef_error *err)
{
    jet_reader *r = f->reader;
    jet_place place;

    if (!jet_place_take(natsMsg_GetReply(msg), &place) || place.delivered != r->delivered + 1) {
        f->broken = true;
        return EF_OK;
    }
    r->delivered = place.delivered;
    r->dry = place.pending == 0;
    f->over = f->over || r->dry;
    if (place.position <= r->read) {
        atomic_fetch_add(&f->store->counts.redelivered, 1);
        return EF_OK;
    }
    return take_event(f, msg, &place, err);
}

/* A broker that counts too many messages as not acknowledged does not answer at all. Ours are, as
 * soon as they are committed; but it may not have heard. */
static bool is_stuck(const fetch *f)
{
    jsConsumerInfo *info = NULL;
    bool stuck = f->reader->name[0] &&
                 js_GetConsumerInfo(&info, f->reader->link->stream, f->store->address.stream,
                                    f->reader->consumer, NULL, NULL) == NATS_OK &&
                 info->NumAckPending >= f->store->address.in_flight;

    jsConsumerInfo_Destroy(info);
    return stuck;
}

static ef_status take_answer(fetch *f, bool *out_refused, ef_error *err)
{
    const char *status;
    natsMsg *msg = NULL;
    natsStatus s = natsSubscription_NextMsg(&msg, f->inbox, STUCK_MS);
    ef_status st = EF_OK;

    if (s == NATS_TIMEOUT && is_stuck(f)) {
        f->broken = true;
        return EF_OK;
    }
    if (s == NATS_TIMEOUT)
        s = natsSubscription_NextMsg(&msg, f->inbox, JET_TIMEOUT_MS);
    if (s != NATS_OK) {
        f->broken = true;
        return jet_broker_fail(f->store, s, err);
    }
    if (!is_status(msg, &status))
        st = take_message(f, msg, err);
    else if (strcmp(status, "404") == 0)
        f->over = f->reader->dry = true;
    else if (strcmp(status, "409") == 0 || strcmp(status, "408") == 0)
        f->over = *out_refused = true;
    else if (strcmp(status, "100") != 0)
        f->broken = true;
    natsMsg_Destroy(msg);
    return st;
}

/* One request and its answers. *out_refused: the broker ended it. */
static ef_status request(fetch *f, size_t most, bool bounded, bool *out_refused, ef_error *err)
{
    size_t end = f->count + most;
    ef_status st = ask(f, most, bounded, err);

    *out_refused = f->over = false;
    while (st == EF_OK && !f->over && !f->broken && f->count < end)
        st = take_answer(f, out_refused, err);
    natsSubscription_Destroy(f->inbox);
    f->inbox = NULL;
    return st;
}

/* One is folded while one is read, and one may be lost on the way: three have to be allowed. */
static size_t most_of(const fetch *f)
{
    size_t most = (size_t)f->store->address.in_flight / 3;

    most = most > (size_t)f->store->address.batch ? (size_t)f->store->address.batch : most;
    most = most > f->limit ? f->limit : most;
    return most ? most : 1;
}

static ef_status fetch_some(fetch *f, ef_error *err)
{
    size_t most = most_of(f);
    bool refused;
    ef_status st = request(f, most, true, &refused, err);

    if (st == EF_OK && refused && f->count == 0 && !f->broken)
        st = request(f, 1, false, &refused, err);
    return st;
}

/* --- acknowledgements -------------------------------------------------------------------------
 *
 * While one batch is applied the next is read, so a few are kept. */

static void keep_ack(jet_reader *r, const jet_ack *ack)
{
    (void)pthread_mutex_lock(&r->acking);
    r->acks[r->ack_count++ % JET_ACKS] = *ack;
    (void)pthread_mutex_unlock(&r->acking);
}

void jet_reader_ack(jet_store *store, jet_reader *r, int64_t upto)
{
    jet_ack *found = NULL, ack;
    jet_link *link = NULL;

    (void)pthread_mutex_lock(&r->acking);
    for (size_t i = 0; i < JET_ACKS; i++)
        if (r->acks[i].position && r->acks[i].position <= upto &&
            (!found || r->acks[i].position > found->position))
            found = &r->acks[i];
    if (found) {
        ack = *found;
        *found = (jet_ack){0};
    }
    (void)pthread_mutex_unlock(&r->acking);
    if (found && jet_link_get(store, &link, NULL) == EF_OK)
        (void)natsConnection_PublishString(link->connection, ack.reply, "+ACK");
    jet_link_put(link);
}

/* --- a read ----------------------------------------------------------------------------------- */

/*
 * A request that found nothing is not believed: what is asked is whether the stream has grown. If
 * it has, a consumer that is made now counts what it has to deliver, and when that is nothing all
 * up to there are holes, or messages that the filter leaves out.
 */
static ef_status pass_holes(jet_store *store, jet_reader *r, bool *out_again, ef_error *err)
{
    jet_state state;
    ef_status st = jet_state_read(store, &state, err);

    *out_again = false;
    if (st != EF_OK || state.last <= r->read)
        return st;
    st = begin(store, r, r->read, err);
    if (st != EF_OK)
        return st;
    *out_again = !r->dry;
    if (r->dry) {
        atomic_fetch_add(&store->counts.holes, state.last - r->read);
        r->read = state.last;
    }
    return EF_OK;
}

static bool is_at(const jet_reader *r, int64_t after)
{
    return r->link && r->read == after &&
           natsConnection_Status(r->link->connection) == NATS_CONN_STATUS_CONNECTED;
}

static ef_status read_on(jet_store *store, fetch *f, int64_t after, ef_error *err)
{
    jet_reader *r = f->reader;
    bool again = true;
    ef_status st = is_at(r, after) ? EF_OK : begin(store, r, after, err);

    for (int tries = 0; st == EF_OK && f->count == 0 && again; tries++) {
        if (tries == TRIES)
            return ef_fail(err, EF_BUSY, "consumer %s of stream %s is read by somebody else",
                           r->consumer, store->address.stream);
        f->broken = again = false;
        st = fetch_some(f, err);
        if (st == EF_OK && f->broken && f->count == 0) {
            ef__log(store->base.options.log, EF_LOG_WARN, "a consumer is made anew",
                    EF_LOG_TEXT_FIELD("consumer", ef_str_from(r->consumer)),
                    EF_LOG_NUMBER_FIELD("position", r->read));
            st = begin(store, r, r->read, err);
            again = true;
        } else if (st == EF_OK && f->count == 0) {
            st = pass_holes(store, r, &again, err);
        }
    }
    return st;
}

ef_status jet_reader_read(jet_store *store, jet_reader *r, int64_t after, size_t limit,
                          ef_batch *out, int64_t *out_reached, ef_error *err)
{
    fetch f = {.store = store,
               .reader = r,
               .limit = limit,
               .arena = &out->room->arena,
               .scratch = EF__BUF_INIT(EF_LIMIT_APPEND_BYTES)};
    ef_status st;

    f.events = ef__arena_alloc(f.arena, limit * sizeof *f.events);
    st = f.events ? read_on(store, &f, after, err) : ef__room_full(err);
    ef__buf_release(&f.scratch);
    if (f.broken || st != EF_OK)
        leave(r); /* what has come is whole; what follows is asked for anew */
    if (st != EF_OK && f.count == 0)
        return st;
    if (f.count && r->name[0] && r->link)
        keep_ack(r, &f.ack);
    out->events = f.events;
    out->count = f.count;
    out->more = f.broken || st != EF_OK || !r->dry;
    *out_reached = r->read;
    return EF_OK;
}
