/*
 * delivery.c - messages on their way to JetStream, and what is answered.
 *
 * A call publishes its messages without waiting for each, and takes the acknowledgements as they
 * come, WINDOW behind at the most. Every message has an inbox of its own to be answered to: its
 * last token is the message's number among all that were published by this connection. We do this
 * by hand, in the caller's thread: the library's own way (js_PublishMsgAsync) takes half as much
 * processor time again (2.6 s against 1.6 for 300,000), for it hands each answer from thread to
 * thread.
 *
 * The message's id lets the stream drop what comes twice within its window; such an acknowledgement
 * is one too.
 */
#include "nats_priv.h"

#include "../../base/cloudevent.h"
#include "../../base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WINDOW 4000       /* on the way: what comes back within the timeout at 400 a second */
#define WINDOW_AGAIN 2000 /* once it is full: else every answer would wake us for one more */
#define LOOK_EVERY 64     /* messages, at the clock */
#define DONE_MAX 512      /* messages that are freed at once */
#define META_ARENA (1024u * 1024)
#define ANSWER_ARENA (64u * 1024)
#define HEADERS_BYTES 1024 /* they count in what a broker takes */

/* --- answers ---------------------------------------------------------------------------------- */

typedef struct call {
    ef__nats_bus *bus;
    const ef__bus_message *messages;
    size_t count;
    ef__bus_outcome *outcomes;
    ef__arena *arena;
    uint64_t first; /* the number of message 0 */
    size_t begun;   /* messages; what was refused here is one of them */
    size_t waiting; /* for an answer */
    size_t nobody;  /* answers that the subject is nobody's; they do not say whose they are */
    natsMsg *done[DONE_MAX]; /* messages and answers that nobody needs any more */
    size_t done_count;
    ef__buf subject, line, id;
    ef__arena answer;
} call;

static void destroy_done(call *c)
{
    for (size_t i = 0; i < c->done_count; i++)
        natsMsg_Destroy(c->done[i]);
    c->done_count = 0;
}

/* The library frees messages in a thread of its own, and wakes it for each that it finds it idle
 * at: many at once cost one switch of threads instead of as many. */
static void be_done_with(call *c, natsMsg *msg)
{
    if (c->done_count == DONE_MAX)
        destroy_done(c);
    if (msg)
        c->done[c->done_count++] = msg;
}

/* What a text of the broker says of a message: DELIVERED, FAILED, or WAITING when it is no answer
 * of our stream, but of somebody else who listens to the subject. */
static void read_answer(call *c, const ef__json *answer, ef__bus_outcome *out)
{
    const ef__json *error = ef__json_get(answer, "error"),
                   *text = ef__json_get(error, "description");
    const ef__json *stream = ef__json_get(answer, "stream"), *seq = ef__json_get(answer, "seq");
    const ef__json *again = ef__json_get(answer, "duplicate");
    int64_t number = 0;

    if (error) {
        ef__bus_fail(out, EF__BUS_FAILED, c->arena, "the broker: %.*s",
                     EF_STR_ARG(text ? text->text : EF_STR("an error")));
        return;
    }
    if (!stream || !ef_str_equal(stream->text, ef_str_from(c->bus->stream_name)) || !seq ||
        ef__json_int64(seq, &number) != 0 || number <= 0)
        return;
    out->verdict = EF__BUS_DELIVERED;
    if (!(again && again->kind == EF__JSON_TRUE) && (uint64_t)number > c->bus->last_seq)
        c->bus->last_seq = (uint64_t)number;
}

static void take_answer(call *c, const natsMsg *msg)
{
    ef_str text = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    uint64_t number = strtoull(natsMsg_GetSubject(msg) + strlen(c->bus->inbox) + 1, NULL, 10);
    size_t index = (size_t)(number - c->first);
    ef__json *answer = NULL;

    if (index >= c->begun || c->outcomes[index].verdict != EF__BUS_WAITING)
        return;
    ef__arena_reset(&c->answer);
    if (ef__json_parse(text, EF__NATS_REPLY_BYTES, &c->answer, &answer, NULL) == EF_OK)
        read_answer(c, answer, &c->outcomes[index]);
    c->waiting -= c->outcomes[index].verdict != EF__BUS_WAITING;
}

/* Take answers until no more than `leave` messages wait for one, or time is up. */
static ef_status take_answers(call *c, size_t leave, int64_t until_us, ef_error *err)
{
    ef__nats_bus *n = c->bus;

    while (c->waiting > leave) {
        natsMsg *msg = NULL;
        natsStatus s = natsSubscription_NextMsg(&msg, n->answers, 0);
        int64_t left_us = 0;
        if (s == NATS_TIMEOUT && (left_us = until_us - ef__bus_mono_us(&n->base)) <= 0)
            return EF_OK;
        if (s == NATS_TIMEOUT)
            s = natsSubscription_NextMsg(&msg, n->answers, left_us / 1000 + 1);
        if (s == NATS_OK) {
            take_answer(c, msg);
            be_done_with(c, msg);
        } else if (s == NATS_NO_RESPONDERS) {
            c->waiting--;
            c->nobody++;
        } else if (s != NATS_TIMEOUT) {
            return ef__nats_fail(n, s, err);
        }
    }
    return EF_OK;
}

/* All that were published have had an answer: those that are left had the one without a name. */
static void fail_nobodys(call *c)
{
    for (size_t i = 0; c->nobody && i < c->begun; i++)
        if (c->outcomes[i].verdict == EF__BUS_WAITING)
            ef__bus_fail(&c->outcomes[i], EF__BUS_FAILED, c->arena,
                         "the broker: no stream takes its subject");
}

/* --- publishing ------------------------------------------------------------------------------- */

static natsStatus add_headers(natsMsg *msg, const ef_event *event)
{
    ef__arena arena = EF__ARENA_INIT(META_ARENA);
    ef_str trace = ef__meta_text(event->meta, "traceparent", &arena);
    ef__buf text = EF__BUF_INIT(1024);
    natsStatus s = natsMsgHeader_Set(msg, "Content-Type", "application/cloudevents+json");

    if (s == NATS_OK && trace.len && trace.len <= 256 && ef__bus_header(&text, trace))
        s = natsMsgHeader_Set(msg, "traceparent", text.ptr);
    ef__buf_release(&text);
    ef__arena_release(&arena);
    return s;
}

/* The id by which a stream knows what it has had: ids are unique within a tenant. */
static bool make_id(const ef_event *event, ef__buf *out)
{
    ef__buf_reset(out);
    (void)ef__bus_header(out, event->tenant);
    ef__buf_add_char(out, '/');
    return ef__bus_header(out, event->id);
}

/* The message as NATS has it; *out is NULL when the broker would never take it. */
static ef_status make_message(call *c, size_t i, natsMsg **out, ef_error *err)
{
    ef__nats_bus *n = c->bus;
    const ef__bus_message *m = &c->messages[i];
    int64_t most = natsConnection_GetMaxPayload(n->connection);
    char reply[256];
    natsStatus s;

    *out = NULL;
    ef__buf_reset(&c->line);
    if (!ef__nats_subject(&n->address, m, &c->subject) || !ef__bus_write(&c->line, m) ||
        !make_id(m->event, &c->id))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
    if ((int64_t)(c->line.len + c->id.len) + HEADERS_BYTES > most) {
        ef__bus_fail(&c->outcomes[i], EF__BUS_REFUSED, c->arena,
                     "a message of %zu bytes; the broker takes up to %" PRId64, c->line.len, most);
        return EF_OK;
    }
    (void)snprintf(reply, sizeof reply, "%s.%" PRIu64, n->inbox, c->first + i);
    s = natsMsg_Create(out, c->subject.ptr, reply, c->line.ptr, (int)c->line.len);
    if (s == NATS_OK)
        s = natsMsgHeader_Set(*out, "Nats-Msg-Id", c->id.ptr);
    if (s == NATS_OK)
        s = natsMsgHeader_Set(*out, "Nats-Expected-Stream", n->stream_name);
    if (s == NATS_OK)
        s = add_headers(*out, m->event);
    return s == NATS_OK ? EF_OK : ef__nats_fail(n, s, err);
}

static ef_status publish_one(call *c, size_t i, ef_error *err)
{
    natsMsg *msg = NULL;
    natsStatus s = NATS_OK;
    ef_status st = make_message(c, i, &msg, err);

    c->begun = i + 1;
    if (st == EF_OK && msg) {
        s = natsConnection_PublishMsg(c->bus->connection, msg);
        c->waiting += s == NATS_OK;
    }
    be_done_with(c, msg);
    return st == EF_OK && s != NATS_OK ? ef__nats_fail(c->bus, s, err) : st;
}

static ef_status publish_all(call *c, ef_error *err)
{
    ef__nats_bus *n = c->bus;
    int64_t until_us = ef__bus_mono_us(&n->base) + n->base.options.timeout_ms * 1000;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < c->count && !ef__bus_stopping(&n->base); i++) {
        if (c->waiting >= WINDOW)
            st = take_answers(c, WINDOW_AGAIN, until_us, err);
        if (c->waiting >= WINDOW || (i % LOOK_EVERY == 0 && ef__bus_mono_us(&n->base) >= until_us))
            break;
        if (st == EF_OK)
            st = publish_one(c, i, err);
    }
    n->published += c->begun;
    if (st == EF_OK)
        st = take_answers(c, 0, ef__bus_mono_us(&n->base) + n->base.options.timeout_ms * 1000, err);
    if (st == EF_OK && c->waiting)
        return ef__nats_fail(n, NATS_TIMEOUT, err);
    if (st == EF_OK)
        fail_nobodys(c);
    return st;
}

static void end_call(call *c)
{
    destroy_done(c);
    ef__arena_release(&c->answer);
    ef__buf_release(&c->subject);
    ef__buf_release(&c->line);
    ef__buf_release(&c->id);
}

ef_status ef__nats_publish(ef__nats_bus *n, const ef__bus_message *messages, size_t count,
                           ef__bus_outcome *outcomes, ef__arena *arena, ef_error *err)
{
    call c = {.bus = n,
              .messages = messages,
              .count = count,
              .outcomes = outcomes,
              .arena = arena,
              .first = n->published,
              .subject = EF__BUF_INIT(EF__NATS_MADE_MAX),
              .line = EF__BUF_INIT(EF__BUS_LINE_MAX),
              .id = EF__BUF_INIT(4096),
              .answer = EF__ARENA_INIT(ANSWER_ARENA)};
    ef_status st = publish_all(&c, err);

    end_call(&c);
    return st;
}
