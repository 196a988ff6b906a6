/*
 * delivery.c - publishes messages to JetStream and reads the acknowledgements.
 *
 * A call publishes its messages without waiting for each, and reads the acknowledgements as they
 * arrive, at most WINDOW later. A broker may refuse a message and store the next (no space for this
 * one, no stream has its subject, an acknowledgement made space in between, the disk was full), or
 * never receive it; and a message that was stored too early stays there, because its id is dropped
 * as a duplicate when it is sent again. So no message may be stored after one of its group that was
 * not:
 *
 *     chained   all are sent at once, and each names the id that must be the last one of the
 *               stream: that of the message before it. After one that was not stored the broker
 *               rejects all the rest.
 *     careful   one message per group is in flight; the next is sent when it is acknowledged.
 *
 * Chained is fast however few groups there are, for streams with no other writer: a message of
 * another writer makes the broker reject the messages after it, too. Once a message was rejected or
 * refused, the rest of the call is careful; so are later calls for a while, if another writer was
 * the cause. Replicated streams always use careful: 2.9.10 would work (tested with three replicas),
 * but newer brokers record an id before their replicas agree on the message, and may then take a
 * rejected message for one in flight (from their source, not tested).
 *
 * Every message has its own reply inbox: the last token is the number of the message among all that
 * this connection published. This is done here, in the thread of the caller, because the library's
 * own way (js_PublishMsgAsync) takes half as much processor time again (2.6 s against 1.6 for
 * 300,000): it passes each response from thread to thread.
 *
 * The id of a message lets the stream drop duplicates within its window; the acknowledgement of a
 * duplicate counts as a delivery.
 */
#include "nats_priv.h"

#include "../../base/cloudevent.h"
#include "../../base/json.h"
#include "../../base/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WINDOW 4000      /* messages in flight: within the timeout at 400 a second */
#define CLOCK_EVERY 64   /* messages between two reads of the clock */
#define DONE_MAX 512     /* messages that are freed at once */
#define ALONE_US 5000000 /* how long to stay careful after a message of another writer */
#define WRONG_LAST 10070 /* JetStream's code for: the last id is not the expected one */
#define ENDED UINT32_MAX
#define META_ARENA (1024u * 1024) /* the tree of an event's meta, several times its 64 KiB */
#define ANSWER_ARENA (64u * 1024) /* the tree of a response, which has a few members */
#define HEADERS_BYTES 1024        /* headers count in the broker's limit of a message */

/* --- responses -------------------------------------------------------------------------------- */

typedef struct nats_call {
    ef__nats_bus *bus;
    const ef__bus_message *messages;
    size_t count;
    ef__bus_outcome *outcomes;
    ef__arena *arena;
    bool chained;    /* or careful */
    uint32_t *order; /* the order of sending: those that may be sent, and space for the rest */
    size_t ready;    /* how many may be sent */
    size_t sent;     /* how many were sent, or refused by check_size */
    uint64_t first;  /* the number of the first of them */
    uint32_t *next;  /* by message: the next one of its group; 0: none */
    uint32_t *last;  /* by group: its last message plus 1; 0: none; ENDED: no more are sent */
    bool *rejected;  /* by message: rejected, because one before it was not stored */
    bool refused;    /* a message was not stored */
    size_t waiting;  /* messages without a response */
    size_t unrouted; /* responses that no stream has the subject; they do not name the message */
    natsMsg *done[DONE_MAX]; /* messages and responses to free */
    size_t done_count;
    ef__buf subject, line, id, id_before;
    char reply[256];    /* the inbox of a message, written from the end */
    ef__buf ack_prefix; /* an acknowledgement up to its number; empty: none was read yet */
    ef__arena answer;
} nats_call;

static void destroy_done(nats_call *call)
{
    for (size_t i = 0; i < call->done_count; i++)
        natsMsg_Destroy(call->done[i]);
    call->done_count = 0;
}

/* The library frees messages in its own thread, and wakes that thread for each message: freeing
 * many at once costs one switch of threads. */
static void free_later(nats_call *call, natsMsg *msg)
{
    if (call->done_count == DONE_MAX)
        destroy_done(call);
    if (msg)
        call->done[call->done_count++] = msg;
}

/* The message was not stored, by itself or because of one before it. */
static void read_error(nats_call *call, const ef__json *error, size_t i)
{
    const ef__json *text = ef__json_get(error, "description"),
                   *code = ef__json_get(error, "err_code");
    int64_t number = 0;

    call->refused = true;
    call->rejected[i] =
        call->chained && code && ef__json_int64(code, &number) == 0 && number == WRONG_LAST;
    if (!call->rejected[i])
        ef__bus_fail(&call->outcomes[i], EF__BUS_FAILED, call->arena, "the broker: %.*s",
                     EF_STR_ARG(text ? text->text : EF_STR("an error")));
}

static void record_delivery(nats_call *call, size_t i, uint64_t seq, bool again)
{
    call->outcomes[i].verdict = EF__BUS_DELIVERED;
    if (!call->chained && call->next[i])
        call->order[call->ready++] = call->next[i];
    if (!again && seq > call->bus->last_seq)
        call->bus->last_seq = seq;
}

/* Acknowledgements differ only in their last number: after one was parsed, the next ones that start
 * alike need no parsing. */
static void learn_ack_prefix(nats_call *call, ef_str text)
{
    size_t at = text.len;

    while (at > 0 && text.ptr[at - 1] != ':')
        at--;
    ef__buf_reset(&call->ack_prefix);
    (void)ef__buf_add(&call->ack_prefix, text.ptr, at);
}

/* The number of an acknowledgement that starts as usual; 0: it must be parsed. */
static uint64_t parse_usual_ack(const nats_call *call, ef_str text)
{
    size_t at = call->ack_prefix.len;
    int64_t number;

    if (at == 0 || text.len <= at + 1 || text.len > at + 19 || text.ptr[text.len - 1] != '}' ||
        memcmp(text.ptr, call->ack_prefix.ptr, at) != 0 ||
        !ef__digits_parse((ef_str){text.ptr + at, text.len - 1 - at}, &number))
        return 0;
    return (uint64_t)number;
}

/* Reads a response to a message. A text that is not a response of our stream comes from another
 * subscriber of the subject, and is ignored. */
static void read_response(nats_call *call, ef_str text, const ef__json *answer, size_t i)
{
    const ef__json *error = ef__json_get(answer, "error"), *seq = ef__json_get(answer, "seq");
    const ef__json *stream = ef__json_get(answer, "stream");
    const ef__json *again = ef__json_get(answer, "duplicate");
    int64_t number = 0;

    if (error) {
        read_error(call, error, i);
        return;
    }
    if (!stream || !ef_str_equal(stream->text, ef_str_from(call->bus->stream_name)) || !seq ||
        ef__json_int64(seq, &number) != 0 || number <= 0)
        return;
    record_delivery(call, i, (uint64_t)number, again && again->kind == EF__JSON_TRUE);
    if (!again && !seq->next)
        learn_ack_prefix(call, text);
}

static bool has_response(const nats_call *call, size_t i)
{
    return call->outcomes[i].verdict != EF__BUS_WAITING || call->rejected[i];
}

static void receive_response(nats_call *call, const natsMsg *msg)
{
    ef_str text = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    uint64_t number = strtoull(natsMsg_GetSubject(msg) + strlen(call->bus->inbox) + 1, NULL, 10);
    size_t at = (size_t)(number - call->first);
    uint64_t seq = parse_usual_ack(call, text);
    ef__json *answer = NULL;

    if (at >= call->sent || has_response(call, call->order[at]))
        return;
    ef__arena_reset(&call->answer);
    if (seq)
        record_delivery(call, call->order[at], seq, false);
    else if (ef__json_parse(text, EF__NATS_REPLY_BYTES, &call->answer, &answer, NULL) == EF_OK)
        read_response(call, text, answer, call->order[at]);
    call->waiting -= has_response(call, call->order[at]);
}

/* Receives responses until at most `leave` messages wait for one, or until the deadline. */
static ef_status receive_responses(nats_call *call, size_t leave, int64_t until_us, ef_error *err)
{
    ef__nats_bus *bus = call->bus;

    while (call->waiting > leave) {
        natsMsg *msg = NULL;
        natsStatus s = natsSubscription_NextMsg(&msg, bus->answers, 0);
        int64_t left_us = 0;
        if (s == NATS_TIMEOUT && (left_us = until_us - ef__bus_mono_us(&bus->base)) <= 0)
            return EF_OK;
        if (s == NATS_TIMEOUT)
            s = natsSubscription_NextMsg(&msg, bus->answers, left_us / 1000 + 1);
        if (s == NATS_OK) {
            receive_response(call, msg);
            free_later(call, msg);
        } else if (s == NATS_NO_RESPONDERS) {
            call->waiting--;
            call->unrouted++;
            call->refused = true;
        } else if (s != NATS_TIMEOUT) {
            return ef__nats_fail(bus, s, err);
        }
    }
    return EF_OK;
}

/* All published messages have a response: those without a verdict had one without a name. */
static void fail_unrouted(nats_call *call)
{
    for (size_t at = 0; call->unrouted && at < call->sent; at++)
        if (!has_response(call, call->order[at]))
            ef__bus_fail(&call->outcomes[call->order[at]], EF__BUS_FAILED, call->arena,
                         "the broker: no stream has its subject");
}

/* --- publishing ------------------------------------------------------------------------------- */

static natsStatus add_headers(natsMsg *msg, const ef_event *event)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(META_ARENA);
    ef_str trace = ef__meta_text(event->meta, "traceparent", &arena);
    EF__AUTO(ef__buf) text = EF__BUF_INIT(1024);
    natsStatus s = natsMsgHeader_Set(msg, "Content-Type", "application/cloudevents+json");

    if (s == NATS_OK && trace.len && trace.len <= 256 && ef__bus_header(&text, trace))
        s = natsMsgHeader_Set(msg, "traceparent", text.ptr);
    return s;
}

/* Does the message name the id before it? Not when all earlier messages are acknowledged. */
static bool is_linked(const nats_call *call)
{
    return call->chained && call->waiting;
}

/* Is the message within the broker's limit? One that is too large only because of the id before it
 * is sent without that id later. */
static bool check_size(nats_call *call, size_t i)
{
    int64_t most = natsConnection_GetMaxPayload(call->bus->connection);
    int64_t bytes = (int64_t)(call->line.len + call->id.len) + HEADERS_BYTES;

    if (bytes + (is_linked(call) ? (int64_t)call->id_before.len : 0) <= most)
        return true;
    call->refused = true;
    call->rejected[i] = bytes <= most;
    if (!call->rejected[i])
        ef__bus_fail(&call->outcomes[i], EF__BUS_REFUSED, call->arena,
                     "a message of %zu bytes exceeds the broker's limit of %" PRId64,
                     call->line.len, most);
    return false;
}

/* The reply inbox of the message with that number. Not printf, because it runs for each message. */
static const char *inbox_of(nats_call *call, uint64_t number)
{
    char *at = call->reply + sizeof call->reply - 1;
    size_t prefix = strlen(call->bus->inbox);

    for (*at = '\0'; number || !at[0]; number /= 10)
        *--at = (char)('0' + number % 10);
    *--at = '.';
    return memcpy(at - prefix, call->bus->inbox, prefix);
}

/* The NATS message; *out is NULL when it is not sent. */
static ef_status make_message(nats_call *call, size_t i, natsMsg **out, ef_error *err)
{
    ef__nats_bus *bus = call->bus;
    const ef__bus_message *message = &call->messages[i];
    natsStatus s;

    *out = NULL;
    ef__buf_reset(&call->line);
    if (!ef__nats_subject(&bus->address, message, &call->subject) ||
        !ef__bus_write(&call->line, message) || !ef__bus_id(&call->id, message->event))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
    if (!check_size(call, i))
        return EF_OK;
    s = natsMsg_Create(out, call->subject.ptr, inbox_of(call, call->first + call->sent),
                       call->line.ptr, (int)call->line.len);
    if (s == NATS_OK)
        s = natsMsgHeader_Set(*out, "Nats-Msg-Id", call->id.ptr);
    if (s == NATS_OK)
        s = natsMsgHeader_Set(*out, "Nats-Expected-Stream", bus->stream_name);
    if (s == NATS_OK && is_linked(call))
        s = natsMsgHeader_Set(*out, "Nats-Expected-Last-Msg-Id", call->id_before.ptr);
    if (s == NATS_OK)
        s = add_headers(*out, message->event);
    return s == NATS_OK ? EF_OK : ef__nats_fail(bus, s, err);
}

static ef_status publish_one(nats_call *call, ef_error *err)
{
    natsMsg *msg = NULL;
    natsStatus s = NATS_OK;
    ef_status st = make_message(call, call->order[call->sent], &msg, err);
    ef__buf id = call->id;

    call->sent++;
    if (st == EF_OK && msg) {
        s = natsConnection_PublishMsg(call->bus->connection, msg);
        call->waiting += s == NATS_OK;
        call->id = call->id_before;
        call->id_before = id;
    }
    free_later(call, msg);
    return st == EF_OK && s != NATS_OK ? ef__nats_fail(call->bus, s, err) : st;
}

/* Waits until one more message may be sent, or until none will be in this call. */
static ef_status wait_for_space(nats_call *call, int64_t until_us, ef_error *err)
{
    ef_status st = EF_OK;

    /* Half of the window at a time: otherwise every response would wake us for one more message. */
    while (st == EF_OK && call->waiting && (call->sent == call->ready || call->waiting >= WINDOW) &&
           ef__bus_mono_us(&call->bus->base) < until_us)
        st = receive_responses(call, call->waiting / 2, until_us, err);
    return st;
}

/* Sends messages that are ready, and that become ready, until all have their responses. */
static ef_status publish_ready(nats_call *call, int64_t until_us, ef_error *err)
{
    ef__nats_bus *bus = call->bus;
    ef_status st = EF_OK;

    call->first = bus->published;
    call->sent = call->unrouted = 0;
    while (st == EF_OK && !ef__bus_stopping(&bus->base) && !(call->chained && call->refused)) {
        if (call->waiting >= WINDOW)
            (void)ef__bus_meanwhile(&bus->base);
        if (call->sent == call->ready || call->waiting >= WINDOW)
            st = wait_for_space(call, until_us, err);
        if (call->sent == call->ready || call->waiting >= WINDOW ||
            (call->sent % CLOCK_EVERY == 0 && ef__bus_mono_us(&bus->base) >= until_us))
            break;
        if (st == EF_OK)
            st = publish_one(call, err);
    }
    bus->published += call->sent;
    while (call->waiting && ef__bus_meanwhile(&bus->base))
        ;
    if (st == EF_OK)
        st = receive_responses(
            call, 0, ef__bus_mono_us(&bus->base) + bus->base.options.timeout_ms * 1000, err);
    if (st == EF_OK && call->waiting)
        return ef__nats_fail(bus, NATS_TIMEOUT, err);
    if (st == EF_OK)
        fail_unrouted(call);
    return st;
}

/* --- careful ---------------------------------------------------------------------------------- */

/* A message that was not stored ends its group, unless an earlier one of it is still to be sent. */
static bool ends_group(const nats_call *call, size_t i)
{
    return call->outcomes[i].verdict != EF__BUS_WAITING && !call->last[call->messages[i].group];
}

/* Of the messages that are not delivered, the first of each group may be sent, and the others
 * follow it. Does any group have several? */
static bool order_messages(nats_call *call)
{
    bool any = false;

    call->chained = false;
    call->ready = 0;
    memset(call->last, 0, call->count * sizeof *call->last);
    for (uint32_t i = 0; i < call->count; i++) {
        uint32_t *last = &call->last[call->messages[i].group];
        if (call->outcomes[i].verdict == EF__BUS_DELIVERED)
            continue;
        if (ends_group(call, i)) {
            *last = ENDED;
            continue;
        }
        call->outcomes[i] = (ef__bus_outcome){.verdict = EF__BUS_WAITING};
        call->rejected[i] = false;
        call->next[i] = 0;
        if (*last == ENDED)
            continue;
        any = any || *last;
        if (*last)
            call->next[*last - 1] = i;
        else
            call->order[call->ready++] = i;
        *last = i + 1;
    }
    return any;
}

/* --- chained ---------------------------------------------------------------------------------- */

/* Was the first message that was not stored rejected? Then another writer published to the stream,
 * or the stream has one of ours from an earlier call whose responses were lost. */
static bool is_disturbed(const nats_call *call)
{
    size_t at = 0;

    while (at < call->sent && call->outcomes[call->order[at]].verdict == EF__BUS_DELIVERED)
        at++;
    return at < call->sent && call->rejected[call->order[at]];
}

static ef_status publish_chained(nats_call *call, int64_t until_us, ef_error *err)
{
    ef_status st;

    call->chained = true;
    call->ready = call->count;
    for (uint32_t i = 0; i < call->count; i++)
        call->order[i] = i;
    st = publish_ready(call, until_us, err);
    if (st == EF_OK && is_disturbed(call))
        call->bus->alone_us = ef__bus_mono_us(&call->bus->base) + ALONE_US;
    return st;
}

static ef_status publish_all(nats_call *call, ef_error *err)
{
    ef__nats_bus *bus = call->bus;
    int64_t now_us = ef__bus_mono_us(&bus->base),
            until_us = now_us + bus->base.options.timeout_ms * 1000;
    bool many = order_messages(call);
    ef_status st = EF_OK;

    if (many && bus->replicas == 1 && now_us >= bus->alone_us) {
        st = publish_chained(call, until_us, err);
        if (st != EF_OK || !call->refused)
            return st;
        (void)order_messages(call);
    }
    return publish_ready(call, until_us, err);
}

static ef_status init_call(nats_call *call, ef_error *err)
{
    call->order = ef__arena_zalloc(call->arena, call->count, sizeof *call->order);
    call->next = ef__arena_zalloc(call->arena, call->count, sizeof *call->next);
    call->last = ef__arena_zalloc(call->arena, call->count, sizeof *call->last);
    call->rejected = ef__arena_zalloc(call->arena, call->count, sizeof *call->rejected);
    return call->order && call->next && call->last && call->rejected
               ? EF_OK
               : ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
}

static void release_call(nats_call *call)
{
    destroy_done(call);
    ef__arena_release(&call->answer);
    ef__buf_release(&call->subject);
    ef__buf_release(&call->line);
    ef__buf_release(&call->id);
    ef__buf_release(&call->id_before);
    ef__buf_release(&call->ack_prefix);
}

ef_status ef__nats_publish(ef__nats_bus *bus, const ef__bus_message *messages, size_t count,
                           ef__bus_outcome *outcomes, ef__arena *arena, ef_error *err)
{
    nats_call call = {.bus = bus,
                      .messages = messages,
                      .count = count,
                      .outcomes = outcomes,
                      .arena = arena,
                      .subject = EF__BUF_INIT(EF__NATS_MADE_MAX),
                      .line = EF__BUF_INIT(EF__BUS_LINE_MAX),
                      .id = EF__BUF_INIT(4096),
                      .id_before = EF__BUF_INIT(4096),
                      .ack_prefix = EF__BUF_INIT(EF__NATS_REPLY_BYTES),
                      .answer = EF__ARENA_INIT(ANSWER_ARENA)};
    ef_status st = init_call(&call, err);

    if (st == EF_OK)
        st = publish_all(&call, err);
    release_call(&call);
    return st;
}
