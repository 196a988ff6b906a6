/*
 * reader.c - reads a stream by sequence, independent of the redeliveries of the broker.
 *
 * A reader is a pull consumer that starts at a given sequence. The broker numbers the deliveries of
 * a consumer 1, 2, 3 …; while these numbers arrive without a gap, every message of the stream
 * arrives. A gap means that another process fetched from our durable consumer (a worker that was
 * presumed dead), or that a delivery was lost: then the consumer is created again at our position.
 * A message at or below that position is a redelivery, and is dropped.
 *
 * Acknowledgements only inform the broker's own tools. The position to continue from is in the view
 * store.
 */
#include "jet.h"

#include "../../base/deadline.h"
#include "../../base/logger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_BYTES (16 << 20) /* per request; two requests are in memory at a time */
#define INACTIVE_NS                                                                                \
    (INT64_C(60) * 1000000000) /* a call that crashed leaves its consumer this long */
#define DURABLE_NS (INT64_C(7) * 24 * 3600 * 1000000000) /* outlives a week's outage */
#define STUCK_MS 250 /* without a response: is the consumer at its in-flight limit? */
#define TRIES 3 /* consumers created in one read before it gives up: another process competes */

void jet_reader_init(jet_reader *reader, const char *name, const char *filter)
{
    *reader = (jet_reader){0};
    (void)pthread_mutex_init(&reader->lock, NULL);
    (void)pthread_mutex_init(&reader->ack_lock, NULL);
    (void)snprintf(reader->name, sizeof reader->name, "%s", name);
    (void)snprintf(reader->filter, sizeof reader->filter, "%s", filter);
}

static void release_link(jet_reader *reader)
{
    jet_link_put(reader->link);
    reader->link = NULL;
}

/* A durable consumer stays, visible in the broker's tools; others are deleted with the call. */
void jet_reader_release(jet_store *store, jet_reader *reader)
{
    if (reader->link && !reader->name[0])
        (void)js_DeleteConsumer(reader->link->stream, store->address.stream, reader->consumer, NULL,
                                NULL);
    release_link(reader);
    (void)pthread_mutex_destroy(&reader->lock);
    (void)pthread_mutex_destroy(&reader->ack_lock);
}

/* --- the consumer ----------------------------------------------------------------------------- */

static void configure_consumer(const jet_store *store, const jet_reader *reader, int64_t after,
                               jsConsumerConfig *out)
{
    (void)jsConsumerConfig_Init(out);
    out->DeliverPolicy = js_DeliverByStartSequence;
    out->OptStartSeq = (uint64_t)after + 1;
    out->FilterSubject = reader->filter;
    if (reader->name[0]) {
        out->Durable = reader->name;
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

static void clear_acks(jet_reader *reader)
{
    EF__LOCK(&reader->ack_lock);
    memset(reader->acks, 0, sizeof reader->acks);
}

/* Creates the consumer so that it starts above `after`. An existing durable one starts elsewhere
 * and cannot be moved, so it is deleted first. */
static ef_status create_consumer(jet_store *store, jet_reader *reader, int64_t after, ef_error *err)
{
    jsConsumerConfig config;
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus result;
    ef_status st;

    release_link(reader);
    st = jet_link_get(store, &reader->link, err);
    if (st != EF_OK)
        return st;
    if (reader->name[0] || reader->consumer[0])
        (void)js_DeleteConsumer(reader->link->stream, store->address.stream,
                                reader->name[0] ? reader->name : reader->consumer, NULL, &code);
    configure_consumer(store, reader, after, &config);
    result =
        js_AddConsumer(&info, reader->link->stream, store->address.stream, &config, NULL, &code);
    if (result == NATS_OK) {
        (void)snprintf(reader->consumer, sizeof reader->consumer, "%s", info->Name);
        reader->read = after;
        reader->delivered = 0;
        reader->dry = info->NumPending == 0;
        clear_acks(reader);
    } else {
        st = ef_fail(err, EF_BUSY, "%s: cannot create a consumer of stream %s: %s (%d)",
                     store->address.shown, store->address.stream, natsStatus_GetText(result),
                     (int)code);
        jet_link_drop(store, reader->link);
        release_link(reader);
    }
    jsConsumerInfo_Destroy(info);
    return st;
}

/* --- a request -------------------------------------------------------------------------------- */

typedef struct jet_fetch {
    jet_store *store;
    jet_reader *reader;
    natsSubscription *inbox;
    size_t limit;
    ef_event *events; /* in the arena of the batch */
    size_t count;
    ef__arena *arena;
    ef__buf scratch;
    jet_ack ack; /* of the last message */
    bool over;   /* the broker has completed the request */
    bool broken; /* a delivery is missing: the consumer must be created again */
} jet_fetch;

static ef_status send_request(jet_fetch *fetch, size_t most, bool bounded, ef_error *err)
{
    natsConnection *connection = fetch->reader->link->connection;
    char subject[2 * JET_NAME_MAX + 40], request_text[100];
    natsInbox *inbox = NULL;
    natsStatus result = natsInbox_Create(&inbox);
    int n = snprintf(request_text, sizeof request_text, "{\"batch\":%zu,\"no_wait\":true", most);

    (void)snprintf(request_text + n, sizeof request_text - (size_t)n,
                   bounded ? ",\"max_bytes\":%d}" : "}", FETCH_BYTES);
    (void)snprintf(subject, sizeof subject, "$JS.API.CONSUMER.MSG.NEXT.%s.%s",
                   fetch->store->address.stream, fetch->reader->consumer);
    if (result == NATS_OK)
        result = natsConnection_SubscribeSync(&fetch->inbox, connection, inbox);
    if (result == NATS_OK)
        result = natsSubscription_SetPendingLimits(fetch->inbox, -1, -1);
    if (result == NATS_OK)
        result = natsConnection_PublishRequestString(connection, subject, inbox, request_text);
    natsInbox_Destroy(inbox);
    return result == NATS_OK ? EF_OK : jet_broker_fail(fetch->store, result, err);
}

/* A message of the broker itself has no reply subject, and has a status: 404 no message is left,
 * 408 and 409 the request ended (409 also when the next message alone exceeds max_bytes). An event
 * may have a Status header too. */
static bool is_status(natsMsg *msg, const char **out)
{
    *out = NULL;
    return !natsMsg_GetReply(msg) && natsMsgHeader_Get(msg, "Status", out) == NATS_OK && *out;
}

/* Counts each message once, although every generation reads it, and retries read it again. */
static void count_unreadable(jet_counts *counts, int64_t position)
{
    int64_t last = atomic_load(&counts->unreadable_at);

    while (position > last)
        if (atomic_compare_exchange_weak(&counts->unreadable_at, &last, position)) {
            atomic_fetch_add(&counts->unreadable, 1);
            return;
        }
}

static ef_status add_event(jet_fetch *fetch, natsMsg *msg, const jet_place *place, ef_error *err)
{
    jet_reader *reader = fetch->reader;
    ef_event *event = &fetch->events[fetch->count];
    ef_status st =
        jet_event_decode(fetch->store, msg, place, fetch->arena, &fetch->scratch, event, err);

    if (st != EF_OK)
        return st;
    if (event->type.len == 0)
        count_unreadable(&fetch->store->counts, place->position);
    atomic_fetch_add(&fetch->store->counts.holes, place->position - reader->read - 1);
    fetch->count++;
    reader->read = place->position;
    if (reader->name[0])
        (void)snprintf(fetch->ack.reply, sizeof fetch->ack.reply, "%s", natsMsg_GetReply(msg));
    fetch->ack.position = place->position;
    return EF_OK;
}

/* Is this the next delivery of the consumer? */
static ef_status receive_message(jet_fetch *fetch, natsMsg *msg, ef_error *err)
{
    jet_reader *reader = fetch->reader;
    jet_place place;

    if (!jet_place_parse(natsMsg_GetReply(msg), &place) ||
        place.delivered != reader->delivered + 1) {
        fetch->broken = true;
        return EF_OK;
    }
    reader->delivered = place.delivered;
    reader->dry = place.pending == 0;
    fetch->over = fetch->over || reader->dry;
    if (place.position <= reader->read) {
        atomic_fetch_add(&fetch->store->counts.redelivered, 1);
        return EF_OK;
    }
    return add_event(fetch, msg, &place, err);
}

/* A broker does not respond while too many messages are unacknowledged. Ours are acknowledged after
 * the commit, but an acknowledgement can be lost. */
static bool is_stuck(const jet_fetch *fetch)
{
    jsConsumerInfo *info = NULL;
    bool stuck =
        fetch->reader->name[0] &&
        js_GetConsumerInfo(&info, fetch->reader->link->stream, fetch->store->address.stream,
                           fetch->reader->consumer, NULL, NULL) == NATS_OK &&
        info->NumAckPending >= fetch->store->address.in_flight;

    jsConsumerInfo_Destroy(info);
    return stuck;
}

static ef_status receive_response(jet_fetch *fetch, bool *out_refused, ef_error *err)
{
    const char *status;
    natsMsg *msg = NULL;
    natsStatus result = natsSubscription_NextMsg(&msg, fetch->inbox, STUCK_MS);
    ef_status st = EF_OK;

    if (result == NATS_TIMEOUT && is_stuck(fetch)) {
        fetch->broken = true;
        return EF_OK;
    }
    if (result == NATS_TIMEOUT)
        result = natsSubscription_NextMsg(&msg, fetch->inbox, JET_TIMEOUT_MS);
    if (result != NATS_OK) {
        fetch->broken = true;
        return jet_broker_fail(fetch->store, result, err);
    }
    if (!is_status(msg, &status))
        st = receive_message(fetch, msg, err);
    else if (strcmp(status, "404") == 0)
        fetch->over = fetch->reader->dry = true;
    else if (strcmp(status, "409") == 0 || strcmp(status, "408") == 0)
        fetch->over = *out_refused = true;
    else if (strcmp(status, "100") != 0)
        fetch->broken = true;
    natsMsg_Destroy(msg);
    return st;
}

/* Sends one request and reads its responses. *out_refused: the broker ended the request. */
static ef_status fetch_once(jet_fetch *fetch, size_t most, bool bounded, bool *out_refused,
                            ef_error *err)
{
    size_t end = fetch->count + most;
    ef_status st = send_request(fetch, most, bounded, err);

    *out_refused = fetch->over = false;
    while (st == EF_OK && !fetch->over && !fetch->broken && fetch->count < end)
        st = receive_response(fetch, out_refused, err);
    natsSubscription_Destroy(fetch->inbox);
    fetch->inbox = NULL;
    return st;
}

/* A third of the in-flight limit: one batch is applied, one is read, and one may be lost. */
static size_t fetch_limit(const jet_fetch *fetch)
{
    size_t most = (size_t)fetch->store->address.in_flight / 3;

    most = most > (size_t)fetch->store->address.batch ? (size_t)fetch->store->address.batch : most;
    most = most > fetch->limit ? fetch->limit : most;
    return most ? most : 1;
}

static ef_status fetch_batch(jet_fetch *fetch, ef_error *err)
{
    size_t most = fetch_limit(fetch);
    bool refused;
    ef_status st = fetch_once(fetch, most, true, &refused, err);

    if (st == EF_OK && refused && fetch->count == 0 && !fetch->broken)
        st = fetch_once(fetch, 1, false, &refused, err);
    return st;
}

/* --- acknowledgements -------------------------------------------------------------------------
 *
 * The next batch is read while one is applied, so several acknowledgements are kept. */

static void store_ack(jet_reader *reader, const jet_ack *ack)
{
    EF__LOCK(&reader->ack_lock);
    reader->acks[reader->ack_count++ % JET_ACKS] = *ack;
}

void jet_reader_ack(jet_store *store, jet_reader *reader, int64_t upto)
{
    jet_ack *found = NULL, ack;
    jet_link *link = NULL;

    (void)pthread_mutex_lock(&reader->ack_lock);
    for (size_t i = 0; i < JET_ACKS; i++)
        if (reader->acks[i].position && reader->acks[i].position <= upto &&
            (!found || reader->acks[i].position > found->position))
            found = &reader->acks[i];
    if (found) {
        ack = *found;
        *found = (jet_ack){0};
    }
    (void)pthread_mutex_unlock(&reader->ack_lock);
    if (found && jet_link_get(store, &link, NULL) == EF_OK)
        (void)natsConnection_PublishString(link->connection, ack.reply, "+ACK");
    jet_link_put(link);
}

/* --- a read ----------------------------------------------------------------------------------- */

/*
 * An empty response is not proof that nothing is left. If the stream has grown, a new consumer
 * counts its pending messages; when there are none, all positions up to the head are gaps or are
 * excluded by the filter.
 */
static ef_status skip_gaps(jet_store *store, jet_reader *reader, bool *out_again, ef_error *err)
{
    jet_state state;
    ef_status st = jet_state_read(store, &state, err);

    *out_again = false;
    if (st != EF_OK || state.last <= reader->read)
        return st;
    st = create_consumer(store, reader, reader->read, err);
    if (st != EF_OK)
        return st;
    *out_again = !reader->dry;
    if (reader->dry) {
        atomic_fetch_add(&store->counts.holes, state.last - reader->read);
        reader->read = state.last;
    }
    return EF_OK;
}

static bool is_positioned(const jet_reader *reader, int64_t after)
{
    return reader->link && reader->read == after &&
           natsConnection_Status(reader->link->connection) == NATS_CONN_STATUS_CONNECTED;
}

static ef_status read_events(jet_store *store, jet_fetch *fetch, int64_t after, ef_error *err)
{
    jet_reader *reader = fetch->reader;
    bool retry = true;
    ef_status st =
        is_positioned(reader, after) ? EF_OK : create_consumer(store, reader, after, err);

    for (int tries = 0; st == EF_OK && fetch->count == 0 && retry; tries++) {
        if (tries == TRIES)
            return ef_fail(err, EF_BUSY, "consumer %s of stream %s is read by another process",
                           reader->consumer, store->address.stream);
        fetch->broken = retry = false;
        st = fetch_batch(fetch, err);
        if (st == EF_OK && fetch->broken && fetch->count == 0) {
            ef__log(store->base.options.log, EF_LOG_WARN, "consumer created again",
                    EF_LOG_TEXT_FIELD("consumer", ef_str_from(reader->consumer)),
                    EF_LOG_NUMBER_FIELD("position", reader->read));
            st = create_consumer(store, reader, reader->read, err);
            retry = true;
        } else if (st == EF_OK && fetch->count == 0) {
            st = skip_gaps(store, reader, &retry, err);
        }
    }
    return st;
}

ef_status jet_reader_read(jet_store *store, jet_reader *reader, int64_t after, size_t limit,
                          ef_batch *out, int64_t *out_reached, ef_error *err)
{
    jet_fetch fetch = {.store = store,
                       .reader = reader,
                       .limit = limit,
                       .arena = &out->room->arena,
                       .scratch = EF__BUF_INIT(EF_LIMIT_APPEND_BYTES)};
    ef_status st;

    fetch.events = ef__arena_alloc(fetch.arena, limit * sizeof *fetch.events);
    st = fetch.events ? read_events(store, &fetch, after, err) : ef__no_memory(err);
    ef__buf_release(&fetch.scratch);
    if (fetch.broken || st != EF_OK)
        release_link(
            reader); /* the events so far are complete; the next read creates the consumer again */
    if (st != EF_OK && fetch.count == 0)
        return st;
    if (fetch.count && reader->name[0] && reader->link)
        store_ack(reader, &fetch.ack);
    out->events = fetch.events;
    out->count = fetch.count;
    out->more = fetch.broken || st != EF_OK || !reader->dry;
    *out_reached = reader->read;
    return EF_OK;
}
