/*
 * nats.c - the NATS sink: messages are published to JetStream, and a stream acknowledges each.
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
 *
 * A broker may lose what it has acknowledged (it syncs late, or is restored from a copy). So the
 * stream's last sequence that was seen is kept, by the journal too (progress), and compared
 * whenever a connection is made: a stream that is behind it has lost something, and the caller is
 * told.
 */
#include "address.h"

#include "../../base/cloudevent.h"
#include "../../base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <nats/nats.h>

#define BATCH_MAX 16000   /* the fewer, the less often a broker has nothing to do */
#define WINDOW 4000       /* on the way: what comes back within the timeout at 400 a second */
#define WINDOW_AGAIN 2000 /* once it is full: else every answer would wake us for one more */
#define LOOK_EVERY 64     /* messages, at the clock */
#define DONE_MAX 512      /* messages that are freed at once */
#define REPLY_BYTES (1024u * 1024)
#define META_ARENA (1024u * 1024)
#define ANSWER_ARENA (64u * 1024)
#define HEADERS_BYTES 1024 /* they count in what a broker takes */

typedef struct nats_bus {
    ef__bus base; /* first, so that an ef__bus * is this */
    ef__nats_address address;
    natsConnection *connection;
    natsInbox *inbox; /* what messages are answered to is this and a number behind it */
    natsSubscription *answers;
    uint64_t published;    /* by this connection */
    char stream_name[256]; /* that takes the subject; "" until it was found */
    char said[384];        /* progress */
    uint64_t last_seq;     /* the highest that was acknowledged or seen */
} nats_bus;

/* --- connecting ------------------------------------------------------------------------------- */

static void disconnect(nats_bus *n)
{
    natsSubscription_Destroy(n->answers);
    natsInbox_Destroy(n->inbox);
    natsConnection_Destroy(n->connection);
    n->answers = NULL;
    n->inbox = NULL;
    n->connection = NULL;
    n->stream_name[0] = '\0';
    n->published = 0;
}

static ef_status broker_fail(const nats_bus *n, natsStatus status, ef_error *err)
{
    return ef_fail(err, EF_BUSY, "%s: %s", n->address.server, natsStatus_GetText(status));
}

static natsStatus set_credentials(const nats_bus *n, natsOptions *options)
{
    char name[4096];
    char *colon;
    natsStatus s;

    if (!n->base.options.secret.len)
        return NATS_OK;
    (void)snprintf(name, sizeof name, "%.*s", EF_STR_ARG(n->base.options.secret));
    colon = strchr(name, ':');
    if (colon)
        *colon = '\0';
    s = colon ? natsOptions_SetUserInfo(options, name, colon + 1)
              : natsOptions_SetToken(options, name);
    explicit_bzero(name, sizeof name);
    return s;
}

/* The certificate has to be of the host that the address names. */
static natsStatus set_security(const nats_bus *n, natsOptions *options)
{
    const ef__nats_address *a = &n->address;
    natsStatus s = NATS_OK;

    if (a->tls)
        s = natsOptions_SetSecure(options, true);
    if (s == NATS_OK && a->tls)
        s = natsOptions_SetExpectedHostname(options, a->host);
    if (s == NATS_OK && a->ca[0])
        s = natsOptions_LoadCATrustedCertificates(options, a->ca);
    if (s == NATS_OK && a->creds[0])
        s = natsOptions_SetUserCredentialsFromFiles(options, a->creds, NULL);
    return s == NATS_OK ? set_credentials(n, options) : s;
}

/* Where answers come in. */
static natsStatus subscribe_answers(nats_bus *n)
{
    char subject[256];
    natsStatus s = natsInbox_Create(&n->inbox);

    if (s != NATS_OK)
        return s;
    (void)snprintf(subject, sizeof subject, "%s.*", n->inbox);
    return natsConnection_SubscribeSync(&n->answers, n->connection, subject);
}

static natsStatus open_connection(nats_bus *n)
{
    natsOptions *options = NULL;
    natsStatus s = natsOptions_Create(&options);

    if (s == NATS_OK)
        s = natsOptions_SetURL(options, n->address.server);
    if (s == NATS_OK)
        s = natsOptions_SetTimeout(options, n->base.options.timeout_ms);
    if (s == NATS_OK)
        s = natsOptions_SetName(options, "everfold");
    /* Whoever connects again has to look at the stream first. */
    if (s == NATS_OK)
        s = natsOptions_SetAllowReconnect(options, false);
    if (s == NATS_OK)
        s = set_security(n, options);
    if (s == NATS_OK)
        s = natsConnection_Connect(&n->connection, options);
    if (s == NATS_OK)
        s = subscribe_answers(n);
    natsOptions_Destroy(options);
    return s;
}

/* --- the stream ------------------------------------------------------------------------------- */

/* Ask JetStream's API; the answer's tree in the arena. */
static ef_status ask(nats_bus *n, const char *subject, const char *question, ef__arena *arena,
                     ef__json **out, ef_error *err)
{
    natsMsg *reply = NULL;
    natsStatus s = natsConnection_RequestString(&reply, n->connection, subject, question,
                                                n->base.options.timeout_ms);
    ef_str text, kept;
    ef_status st;

    if (s != NATS_OK)
        return s == NATS_NO_RESPONDERS
                   ? ef_fail(err, EF_BUSY, "%s: JetStream is not enabled", n->address.server)
                   : broker_fail(n, s, err);
    text = (ef_str){natsMsg_GetData(reply), (size_t)natsMsg_GetDataLength(reply)};
    kept = ef__arena_copy(arena, text);
    natsMsg_Destroy(reply);
    if (!kept.ptr)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    st = ef__json_parse(kept, REPLY_BYTES, arena, out, err);
    return st == EF_OK ? st
                       : ef_fail(err, EF_BUSY, "%s answers what is no JSON", n->address.server);
}

static ef_status find_stream(nats_bus *n, const char *subject, ef__arena *arena, ef_error *err)
{
    char question[EF__NATS_MADE_MAX + 32];
    ef__json *answer = NULL;
    const ef__json *streams;
    ef_status st;

    (void)snprintf(question, sizeof question, "{\"subject\":\"%s\"}", subject);
    st = ask(n, "$JS.API.STREAM.NAMES", question, arena, &answer, err);
    if (st != EF_OK)
        return st;
    streams = ef__json_get(answer, "streams");
    if (!streams || !streams->first || streams->first->kind != EF__JSON_STRING ||
        streams->first->text.len >= sizeof n->stream_name)
        return ef_fail(err, EF_BUSY, "%s: no stream takes subject %s: make one first",
                       n->address.server, subject);
    (void)snprintf(n->stream_name, sizeof n->stream_name, "%.*s", EF_STR_ARG(streams->first->text));
    return EF_OK;
}

static ef_status read_last_seq(nats_bus *n, ef__arena *arena, uint64_t *out, ef_error *err)
{
    char subject[sizeof n->stream_name + 32];
    ef__json *answer = NULL;
    const ef__json *last;
    int64_t number;
    ef_status st;

    (void)snprintf(subject, sizeof subject, "$JS.API.STREAM.INFO.%s", n->stream_name);
    st = ask(n, subject, "", arena, &answer, err);
    if (st != EF_OK)
        return st;
    last = ef__json_get(ef__json_get(answer, "state"), "last_seq");
    if (!last || ef__json_int64(last, &number) != 0 || number < 0)
        return ef_fail(err, EF_BUSY, "%s says nothing of stream %s", n->address.server,
                       n->stream_name);
    *out = (uint64_t)number;
    return EF_OK;
}

/* The last sequence that was noted for this stream; 0: none. */
static uint64_t noted_seq(const nats_bus *n, ef__arena *arena)
{
    ef_str noted = n->base.options.progress;
    ef__json *tree = NULL;
    const ef__json *name, *seq;
    int64_t number = 0;

    if (!noted.len || ef__json_parse(noted, REPLY_BYTES, arena, &tree, NULL) != EF_OK)
        return 0;
    name = ef__json_get(tree, "stream");
    seq = ef__json_get(tree, "seq");
    if (!name || !ef_str_equal(name->text, ef_str_from(n->stream_name)) || !seq ||
        ef__json_int64(seq, &number) != 0)
        return 0;
    return number > 0 ? (uint64_t)number : 0;
}

/* Has the stream all that it acknowledged? What it has now is what counts from here on. */
static ef_status compare_stream(nats_bus *n, ef__arena *arena, ef_error *err)
{
    uint64_t has = 0, noted = noted_seq(n, arena);
    ef_status st = read_last_seq(n, arena, &has, err);

    if (st != EF_OK)
        return st;
    if (noted > n->last_seq)
        n->last_seq = noted;
    n->base.lost = has < n->last_seq;
    n->last_seq = has;
    n->base.options.progress.len = 0; /* it was compared */
    return EF_OK;
}

static ef_status get_ready(nats_bus *n, const char *subject, ef__arena *arena, ef_error *err)
{
    natsStatus s = NATS_OK;
    ef_status st = EF_OK;

    if (n->connection && natsConnection_Status(n->connection) != NATS_CONN_STATUS_CONNECTED)
        disconnect(n);
    if (n->connection)
        return EF_OK;
    s = open_connection(n);
    st = s == NATS_OK ? find_stream(n, subject, arena, err) : broker_fail(n, s, err);
    if (st == EF_OK)
        st = compare_stream(n, arena, err);
    if (st != EF_OK)
        disconnect(n);
    return st;
}

/* --- answers ---------------------------------------------------------------------------------- */

typedef struct call {
    nats_bus *bus;
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
    if (ef__json_parse(text, REPLY_BYTES, &c->answer, &answer, NULL) == EF_OK)
        read_answer(c, answer, &c->outcomes[index]);
    c->waiting -= c->outcomes[index].verdict != EF__BUS_WAITING;
}

/* Take answers until no more than `leave` messages wait for one, or time is up. */
static ef_status take_answers(call *c, size_t leave, int64_t until_us, ef_error *err)
{
    nats_bus *n = c->bus;

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
            return broker_fail(n, s, err);
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
    nats_bus *n = c->bus;
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
    return s == NATS_OK ? EF_OK : broker_fail(n, s, err);
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
    return st == EF_OK && s != NATS_OK ? broker_fail(c->bus, s, err) : st;
}

static ef_status publish_all(call *c, ef_error *err)
{
    nats_bus *n = c->bus;
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
        return broker_fail(n, NATS_TIMEOUT, err);
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

static ef_status nats_deliver(ef__bus *bus, const ef__bus_message *messages, size_t count,
                              int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                              ef_error *err)
{
    nats_bus *n = (nats_bus *)bus;
    call c = {.bus = n,
              .messages = messages,
              .count = count,
              .outcomes = outcomes,
              .arena = arena,
              .subject = EF__BUF_INIT(EF__NATS_MADE_MAX),
              .line = EF__BUF_INIT(EF__BUS_LINE_MAX),
              .id = EF__BUF_INIT(4096),
              .answer = EF__ARENA_INIT(ANSWER_ARENA)};
    ef_status st = ef__nats_subject(&n->address, &messages[0], &c.subject)
                       ? get_ready(n, c.subject.ptr, arena, err)
                       : ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");

    (void)now_us;
    c.first = n->published;
    if (st == EF_OK && !bus->lost)
        st = publish_all(&c, err);
    end_call(&c);
    if (st != EF_OK)
        disconnect(n); /* nobody can say what became of the rest: begin anew */
    return st;
}

static ef_str nats_progress(ef__bus *bus)
{
    nats_bus *n = (nats_bus *)bus;
    ef__buf text = EF__BUF_INIT(sizeof n->said - 1);
    ef__json_writer w = EF__JSON_WRITER(&text);

    if (!n->stream_name[0])
        return EF_STR("");
    ef__json_open(&w, '{');
    ef__json_key(&w, "stream");
    ef__json_str(&w, ef_str_from(n->stream_name));
    ef__json_key(&w, "seq");
    ef__json_int(&w, (int64_t)n->last_seq);
    ef__json_close(&w, '}');
    (void)snprintf(n->said, sizeof n->said, "%s", text.failed ? "" : text.ptr);
    ef__buf_release(&text);
    return ef_str_from(n->said);
}

static void nats_close(ef__bus *bus)
{
    nats_bus *n = (nats_bus *)bus;

    disconnect(n);
    ef__bus_release(bus);
    free(n);
}

static const ef__bus_ops nats_ops = {
    .name = "nats",
    .batch_max = BATCH_MAX,
    .deliver = nats_deliver,
    .progress = nats_progress,
    .close = nats_close,
};

ef_status ef__bus_nats_open(const ef__bus_options *options, ef__bus **out, ef_error *err)
{
    nats_bus *n = calloc(1, sizeof *n);
    ef_status st;

    if (!n)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a sink");
    st = ef__bus_init(&n->base, &nats_ops, options, err);
    if (st == EF_OK)
        st = ef__nats_address_take(options->url, &n->address, err);
    if (st != EF_OK) {
        nats_close(&n->base);
        return st;
    }
    *out = &n->base;
    return EF_OK;
}
