/*
 * delivery.c - messages on their way to JetStream, and what is answered.
 *
 * A call publishes its messages without waiting for each, and takes the acknowledgements as they
 * come, WINDOW behind at the most. A broker may refuse one and take the next (it has no room for
 * this one, nobody takes its subject, something was acknowledged in between and made room, the disk
 * was full), or may never have had it; and what it took before its time stays where it is, for its
 * id is dropped when it comes again. So nothing may get in behind one of its group that did not:
 *
 *     chained   all go out at once, and each says which id has to be the stream's last: that of the
 *               one before it. Behind one that did not get in the broker turns away all the rest.
 *     careful   of a group one is on its way, and lets go the next when it is acknowledged.
 *
 * Chained is fast however few groups there are, and for streams that nobody else writes to: a
 * message of somebody else turns away what is behind it, too. Once something was turned away or
 * refused, the rest of the call is careful; and so are others for a while, if it was somebody
 * else's. Replicated streams are always published to with care: 2.9.10 would do (tried, with three
 * replicas), but newer brokers note an id before their replicas agree on the message, and may then
 * hold one that was turned away for one that is on its way (read in their source, not tried).
 *
 * Every message has an inbox of its own to be answered to: its last token is the message's number
 * among all that were published by this connection. We do this by hand, in the caller's thread: the
 * library's own way (js_PublishMsgAsync) takes half as much processor time again (2.6 s against 1.6
 * for 300,000), for it hands each answer from thread to thread.
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

#define WINDOW 4000      /* on the way: what comes back within the timeout at 400 a second */
#define LOOK_EVERY 64    /* messages, at the clock */
#define DONE_MAX 512     /* messages that are freed at once */
#define ALONE_US 5000000 /* so long after somebody else's message it is not tried to go chained */
#define WRONG_LAST 10070 /* JetStream's code for another last id than the one that was expected */
#define ENDED UINT32_MAX
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
    bool chained;    /* or careful */
    uint32_t *order; /* in which they go out: those that may, and room for the rest */
    size_t ready;    /* how many may */
    size_t begun;    /* … and were; what was refused here is one of them */
    uint64_t first;  /* the number of the first of them */
    uint32_t *next;  /* by message: the one of its group behind it; 0: none */
    uint32_t *last;  /* by group: its last message and 1; 0: none; ENDED: nothing more of it goes */
    bool *turned;    /* by message: turned away, for another did not get in before it */
    bool refused;    /* one did not get in, or was turned away */
    size_t waiting;  /* for an answer */
    size_t nobody;   /* answers that the subject is nobody's; they do not say whose they are */
    natsMsg *done[DONE_MAX]; /* messages and answers that nobody needs any more */
    size_t done_count;
    ef__buf subject, line, id, id_before;
    char reply[256]; /* the inbox of a message, at its end */
    ef__buf usual;   /* what an acknowledgement is up to its number; empty: none was seen */
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

/* It did not get in, by itself or because of the one before it. */
static void read_error(call *c, const ef__json *error, size_t i)
{
    const ef__json *text = ef__json_get(error, "description"),
                   *code = ef__json_get(error, "err_code");
    int64_t number = 0;

    c->refused = true;
    c->turned[i] = c->chained && code && ef__json_int64(code, &number) == 0 && number == WRONG_LAST;
    if (!c->turned[i])
        ef__bus_fail(&c->outcomes[i], EF__BUS_FAILED, c->arena, "the broker: %.*s",
                     EF_STR_ARG(text ? text->text : EF_STR("an error")));
}

static void take_in(call *c, size_t i, uint64_t seq, bool again)
{
    c->outcomes[i].verdict = EF__BUS_DELIVERED;
    if (!c->chained && c->next[i])
        c->order[c->ready++] = c->next[i];
    if (!again && seq > c->bus->last_seq)
        c->bus->last_seq = seq;
}

/* Acknowledgements differ in their last number and nothing else: one that was read shows how the
 * next ones begin, and those need not be read. */
static void learn_answer(call *c, ef_str text)
{
    size_t at = text.len;

    while (at > 0 && text.ptr[at - 1] != ':')
        at--;
    ef__buf_reset(&c->usual);
    (void)ef__buf_add(&c->usual, text.ptr, at);
}

/* Is it one that begins as usual? Then this is its number; 0: it has to be read. */
static uint64_t usual_answer(const call *c, ef_str text)
{
    size_t at = c->usual.len;
    uint64_t number = 0;

    if (at == 0 || text.len <= at + 1 || text.len > at + 19 || text.ptr[text.len - 1] != '}' ||
        memcmp(text.ptr, c->usual.ptr, at) != 0)
        return 0;
    for (; at < text.len - 1; at++) {
        if (text.ptr[at] < '0' || text.ptr[at] > '9')
            return 0;
        number = number * 10 + (uint64_t)(text.ptr[at] - '0');
    }
    return number;
}

/* What a text of the broker says of a message. Nothing, when it is no answer of our stream, but of
 * somebody else who listens to the subject. */
static void read_answer(call *c, ef_str text, const ef__json *answer, size_t i)
{
    const ef__json *error = ef__json_get(answer, "error"), *seq = ef__json_get(answer, "seq");
    const ef__json *stream = ef__json_get(answer, "stream");
    const ef__json *again = ef__json_get(answer, "duplicate");
    int64_t number = 0;

    if (error) {
        read_error(c, error, i);
        return;
    }
    if (!stream || !ef_str_equal(stream->text, ef_str_from(c->bus->stream_name)) || !seq ||
        ef__json_int64(seq, &number) != 0 || number <= 0)
        return;
    take_in(c, i, (uint64_t)number, again && again->kind == EF__JSON_TRUE);
    if (!again && !seq->next)
        learn_answer(c, text);
}

static bool is_answered(const call *c, size_t i)
{
    return c->outcomes[i].verdict != EF__BUS_WAITING || c->turned[i];
}

static void take_answer(call *c, const natsMsg *msg)
{
    ef_str text = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    uint64_t number = strtoull(natsMsg_GetSubject(msg) + strlen(c->bus->inbox) + 1, NULL, 10);
    size_t at = (size_t)(number - c->first);
    uint64_t seq = usual_answer(c, text);
    ef__json *answer = NULL;

    if (at >= c->begun || is_answered(c, c->order[at]))
        return;
    ef__arena_reset(&c->answer);
    if (seq)
        take_in(c, c->order[at], seq, false);
    else if (ef__json_parse(text, EF__NATS_REPLY_BYTES, &c->answer, &answer, NULL) == EF_OK)
        read_answer(c, text, answer, c->order[at]);
    c->waiting -= is_answered(c, c->order[at]);
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
            c->refused = true;
        } else if (s != NATS_TIMEOUT) {
            return ef__nats_fail(n, s, err);
        }
    }
    return EF_OK;
}

/* All that were published have had an answer: those that are left had the one without a name. */
static void fail_nobodys(call *c)
{
    for (size_t k = 0; c->nobody && k < c->begun; k++)
        if (!is_answered(c, c->order[k]))
            ef__bus_fail(&c->outcomes[c->order[k]], EF__BUS_FAILED, c->arena,
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

/* Does it say which one has to be before it? Not when all of them are known to be in. */
static bool is_linked(const call *c)
{
    return c->chained && c->waiting;
}

/* Does the broker take it? What is too large only for the id before it goes without, later. */
static bool check_size(call *c, size_t i)
{
    int64_t most = natsConnection_GetMaxPayload(c->bus->connection);
    int64_t bytes = (int64_t)(c->line.len + c->id.len) + HEADERS_BYTES;

    if (bytes + (is_linked(c) ? (int64_t)c->id_before.len : 0) <= most)
        return true;
    c->refused = true;
    c->turned[i] = bytes <= most;
    if (!c->turned[i])
        ef__bus_fail(&c->outcomes[i], EF__BUS_REFUSED, c->arena,
                     "a message of %zu bytes; the broker takes up to %" PRId64, c->line.len, most);
    return false;
}

/* Where the message of that number is answered to. By hand: it is done for each. */
static const char *inbox_of(call *c, uint64_t number)
{
    char *at = c->reply + sizeof c->reply - 1;
    size_t prefix = strlen(c->bus->inbox);

    for (*at = '\0'; number || !at[0]; number /= 10)
        *--at = (char)('0' + number % 10);
    *--at = '.';
    return memcpy(at - prefix, c->bus->inbox, prefix);
}

/* The message as NATS has it; *out is NULL when it does not go out. */
static ef_status make_message(call *c, size_t i, natsMsg **out, ef_error *err)
{
    ef__nats_bus *n = c->bus;
    const ef__bus_message *m = &c->messages[i];
    natsStatus s;

    *out = NULL;
    ef__buf_reset(&c->line);
    if (!ef__nats_subject(&n->address, m, &c->subject) || !ef__bus_write(&c->line, m) ||
        !ef__bus_id(&c->id, m->event))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
    if (!check_size(c, i))
        return EF_OK;
    s = natsMsg_Create(out, c->subject.ptr, inbox_of(c, c->first + c->begun), c->line.ptr,
                       (int)c->line.len);
    if (s == NATS_OK)
        s = natsMsgHeader_Set(*out, "Nats-Msg-Id", c->id.ptr);
    if (s == NATS_OK)
        s = natsMsgHeader_Set(*out, "Nats-Expected-Stream", n->stream_name);
    if (s == NATS_OK && is_linked(c))
        s = natsMsgHeader_Set(*out, "Nats-Expected-Last-Msg-Id", c->id_before.ptr);
    if (s == NATS_OK)
        s = add_headers(*out, m->event);
    return s == NATS_OK ? EF_OK : ef__nats_fail(n, s, err);
}

static ef_status publish_one(call *c, ef_error *err)
{
    natsMsg *msg = NULL;
    natsStatus s = NATS_OK;
    ef_status st = make_message(c, c->order[c->begun], &msg, err);
    ef__buf id = c->id;

    c->begun++;
    if (st == EF_OK && msg) {
        s = natsConnection_PublishMsg(c->bus->connection, msg);
        c->waiting += s == NATS_OK;
        c->id = c->id_before;
        c->id_before = id;
    }
    be_done_with(c, msg);
    return st == EF_OK && s != NATS_OK ? ef__nats_fail(c->bus, s, err) : st;
}

/* Wait until one more may be published, or none will be in this call. */
static ef_status make_room(call *c, int64_t until_us, ef_error *err)
{
    ef_status st = EF_OK;

    /* Half of them at a time: else every answer would wake us for one more. */
    while (st == EF_OK && c->waiting && (c->begun == c->ready || c->waiting >= WINDOW) &&
           ef__bus_mono_us(&c->bus->base) < until_us)
        st = take_answers(c, c->waiting / 2, until_us, err);
    return st;
}

/* Publish what is ready, and what becomes so, until all have their answers. */
static ef_status publish_ready(call *c, int64_t until_us, ef_error *err)
{
    ef__nats_bus *n = c->bus;
    ef_status st = EF_OK;

    c->first = n->published;
    c->begun = c->nobody = 0;
    while (st == EF_OK && !ef__bus_stopping(&n->base) && !(c->chained && c->refused)) {
        if (c->waiting >= WINDOW)
            (void)ef__bus_meanwhile(&n->base);
        if (c->begun == c->ready || c->waiting >= WINDOW)
            st = make_room(c, until_us, err);
        if (c->begun == c->ready || c->waiting >= WINDOW ||
            (c->begun % LOOK_EVERY == 0 && ef__bus_mono_us(&n->base) >= until_us))
            break;
        if (st == EF_OK)
            st = publish_one(c, err);
    }
    n->published += c->begun;
    while (c->waiting && ef__bus_meanwhile(&n->base))
        ;
    if (st == EF_OK)
        st = take_answers(c, 0, ef__bus_mono_us(&n->base) + n->base.options.timeout_ms * 1000, err);
    if (st == EF_OK && c->waiting)
        return ef__nats_fail(n, NATS_TIMEOUT, err);
    if (st == EF_OK)
        fail_nobodys(c);
    return st;
}

/* --- careful ---------------------------------------------------------------------------------- */

/* One that did not get in ends its group, if none before it in its group is still to be sent. */
static bool is_ended_by(const call *c, size_t i)
{
    return c->outcomes[i].verdict != EF__BUS_WAITING && !c->last[c->messages[i].group];
}

/* Whatever is not delivered: the first of each group may go out, the others line up behind it.
 * Does any? */
static bool line_up(call *c)
{
    bool any = false;

    c->chained = false;
    c->ready = 0;
    memset(c->last, 0, c->count * sizeof *c->last);
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t *last = &c->last[c->messages[i].group];
        if (c->outcomes[i].verdict == EF__BUS_DELIVERED)
            continue;
        if (is_ended_by(c, i)) {
            *last = ENDED;
            continue;
        }
        c->outcomes[i] = (ef__bus_outcome){.verdict = EF__BUS_WAITING};
        c->turned[i] = false;
        c->next[i] = 0;
        if (*last == ENDED)
            continue;
        any = any || *last;
        if (*last)
            c->next[*last - 1] = i;
        else
            c->order[c->ready++] = i;
        *last = i + 1;
    }
    return any;
}

/* --- chained ---------------------------------------------------------------------------------- */

/* Was the first that did not get in turned away? Then somebody else has written to the stream, or
 * it had one of ours before: not before ours, but in a call that nobody heard the end of. */
static bool is_disturbed(const call *c)
{
    size_t k = 0;

    while (k < c->begun && c->outcomes[c->order[k]].verdict == EF__BUS_DELIVERED)
        k++;
    return k < c->begun && c->turned[c->order[k]];
}

static ef_status publish_chained(call *c, int64_t until_us, ef_error *err)
{
    ef_status st;

    c->chained = true;
    c->ready = c->count;
    for (uint32_t i = 0; i < c->count; i++)
        c->order[i] = i;
    st = publish_ready(c, until_us, err);
    if (st == EF_OK && is_disturbed(c))
        c->bus->alone_us = ef__bus_mono_us(&c->bus->base) + ALONE_US;
    return st;
}

static ef_status publish_all(call *c, ef_error *err)
{
    ef__nats_bus *n = c->bus;
    int64_t now_us = ef__bus_mono_us(&n->base),
            until_us = now_us + n->base.options.timeout_ms * 1000;
    bool many = line_up(c);
    ef_status st = EF_OK;

    if (many && n->replicas == 1 && now_us >= n->alone_us) {
        st = publish_chained(c, until_us, err);
        if (st != EF_OK || !c->refused)
            return st;
        (void)line_up(c);
    }
    return publish_ready(c, until_us, err);
}

static ef_status begin_call(call *c, ef_error *err)
{
    c->order = ef__arena_zalloc(c->arena, c->count, sizeof *c->order);
    c->next = ef__arena_zalloc(c->arena, c->count, sizeof *c->next);
    c->last = ef__arena_zalloc(c->arena, c->count, sizeof *c->last);
    c->turned = ef__arena_zalloc(c->arena, c->count, sizeof *c->turned);
    return c->order && c->next && c->last && c->turned
               ? EF_OK
               : ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
}

static void end_call(call *c)
{
    destroy_done(c);
    ef__arena_release(&c->answer);
    ef__buf_release(&c->subject);
    ef__buf_release(&c->line);
    ef__buf_release(&c->id);
    ef__buf_release(&c->id_before);
    ef__buf_release(&c->usual);
}

ef_status ef__nats_publish(ef__nats_bus *n, const ef__bus_message *messages, size_t count,
                           ef__bus_outcome *outcomes, ef__arena *arena, ef_error *err)
{
    call c = {.bus = n,
              .messages = messages,
              .count = count,
              .outcomes = outcomes,
              .arena = arena,
              .subject = EF__BUF_INIT(EF__NATS_MADE_MAX),
              .line = EF__BUF_INIT(EF__BUS_LINE_MAX),
              .id = EF__BUF_INIT(4096),
              .id_before = EF__BUF_INIT(4096),
              .usual = EF__BUF_INIT(EF__NATS_REPLY_BYTES),
              .answer = EF__ARENA_INIT(ANSWER_ARENA)};
    ef_status st = begin_call(&c, err);

    if (st == EF_OK)
        st = publish_all(&c, err);
    end_call(&c);
    return st;
}
