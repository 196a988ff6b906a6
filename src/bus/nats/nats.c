/*
 * nats.c - the NATS sink: messages are published to JetStream, and a stream acknowledges each.
 *
 * A call publishes all its messages and then waits for the acknowledgements. The message's id lets
 * the stream drop what comes twice within its window; such an acknowledgement is one too.
 *
 * A broker may lose what it has acknowledged (it syncs late, or is restored from a copy). So the
 * stream's last sequence that was seen is kept, by the journal too (progress), and compared
 * whenever a connection is made: a stream that is behind it has lost something, and the caller is
 * told.
 *
 * The library calls `on_ack` from a thread of its own: what it touches is under `lock`.
 */
#include "address.h"

#include "../../base/cloudevent.h"
#include "../../base/json.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <nats/nats.h>

#define BATCH_MAX 16000 /* the fewer, the less often a broker has nothing to do */
#define WINDOW 4000     /* of them on the way: what comes back within the timeout at 400 a second */
#define LOOK_EVERY 64   /* messages, at the clock */
#define REPLY_BYTES (1024u * 1024)
#define META_ARENA (1024u * 1024)
#define HEADERS_BYTES 1024 /* they count in what a broker takes */

/* A message that waits for its acknowledgement. */
typedef struct sent {
    const natsMsg *msg;
    size_t index;
} sent;

typedef struct nats_bus {
    ef__bus base; /* first, so that an ef__bus * is this */
    ef__nats_address address;
    natsConnection *connection;
    jsCtx *stream;
    bool used;             /* something was published by `stream` */
    char stream_name[256]; /* that takes the subject; "" until it was found */
    char said[384];        /* progress */
    pthread_mutex_t lock;  /* of what follows */
    uint64_t last_seq;     /* the highest that was acknowledged or seen */
    sent *sent;            /* of the call under way: a table by address; NULL: no call is */
    size_t sent_mask;      /* its size less one, a power of two less one */
    ef__bus_outcome *outcomes;
    ef__arena *arena;
} nats_bus;

/* --- acknowledgements ------------------------------------------------------------------------- */

/* Where a message is in the table, or belongs; there is always room. */
static sent *sent_at(const nats_bus *n, const natsMsg *msg)
{
    size_t at = (size_t)(((uintptr_t)msg >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32);

    for (;; at++) {
        sent *found = &n->sent[at & n->sent_mask];
        if (!found->msg || found->msg == msg)
            return found;
    }
}

static void on_ack(jsCtx *stream, natsMsg *msg, jsPubAck *ack, jsPubAckErr *failed, void *context)
{
    nats_bus *n = context;
    sent *found = NULL;

    (void)stream;
    (void)pthread_mutex_lock(&n->lock);
    if (n->sent)
        found = sent_at(n, msg);
    if (found && !found->msg)
        found = NULL;
    if (found && failed)
        ef__bus_fail(&n->outcomes[found->index], EF__BUS_FAILED, n->arena, "the broker: %s",
                     failed->ErrText ? failed->ErrText : natsStatus_GetText(failed->Err));
    else if (found && ack)
        n->outcomes[found->index].verdict = EF__BUS_DELIVERED;
    if (ack && !ack->Duplicate && ack->Sequence > n->last_seq)
        n->last_seq = ack->Sequence;
    (void)pthread_mutex_unlock(&n->lock);
    natsMsg_Destroy(msg);
}

/* --- connecting ------------------------------------------------------------------------------- */

static void disconnect(nats_bus *n)
{
    natsMsgList pending = {0};

    /* What is still waiting is taken back first: then nobody calls on_ack for it. (The library
     * does not bear the question before anything was published.) */
    if (n->stream && n->used && js_PublishAsyncGetPendingList(&pending, n->stream) == NATS_OK)
        natsMsgList_Destroy(&pending);
    jsCtx_Destroy(n->stream);
    natsConnection_Destroy(n->connection);
    n->stream = NULL;
    n->connection = NULL;
    n->stream_name[0] = '\0';
    n->used = false;
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

static natsStatus open_connection(nats_bus *n)
{
    natsOptions *options = NULL;
    jsOptions stream;
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
        s = jsOptions_Init(&stream);
    if (s == NATS_OK) {
        stream.PublishAsync.MaxPending = WINDOW;
        stream.PublishAsync.AckHandler = on_ack;
        stream.PublishAsync.AckHandlerClosure = n;
        stream.PublishAsync.StallWait = n->base.options.timeout_ms;
        s = natsConnection_JetStream(&n->stream, n->connection, &stream);
    }
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
    (void)pthread_mutex_lock(&n->lock);
    if (noted > n->last_seq)
        n->last_seq = noted;
    n->base.lost = has < n->last_seq;
    n->last_seq = has;
    (void)pthread_mutex_unlock(&n->lock);
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

typedef struct call {
    nats_bus *bus;
    const ef__bus_message *messages;
    size_t count;
    ef__bus_outcome *outcomes;
    ef__arena *arena;
    ef__buf subject, line, id;
} call;

/* The message as NATS has it; *out is NULL when the broker would never take it. */
static ef_status make_message(call *c, size_t i, natsMsg **out, ef_error *err)
{
    const ef__bus_message *m = &c->messages[i];
    int64_t most = natsConnection_GetMaxPayload(c->bus->connection);
    natsStatus s;

    *out = NULL;
    ef__buf_reset(&c->line);
    if (!ef__nats_subject(&c->bus->address, m, &c->subject) || !ef__bus_write(&c->line, m) ||
        !make_id(m->event, &c->id))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
    if ((int64_t)(c->line.len + c->id.len) + HEADERS_BYTES > most) {
        (void)pthread_mutex_lock(&c->bus->lock); /* on_ack uses the arena too */
        ef__bus_fail(&c->outcomes[i], EF__BUS_REFUSED, c->arena,
                     "a message of %zu bytes; the broker takes up to %" PRId64, c->line.len, most);
        (void)pthread_mutex_unlock(&c->bus->lock);
        return EF_OK;
    }
    s = natsMsg_Create(out, c->subject.ptr, NULL, c->line.ptr, (int)c->line.len);
    if (s == NATS_OK)
        s = add_headers(*out, m->event);
    return s == NATS_OK ? EF_OK : broker_fail(c->bus, s, err);
}

/* Before it is sent its answer has to find it. */
static void expect_answer(nats_bus *n, const natsMsg *msg, size_t index)
{
    (void)pthread_mutex_lock(&n->lock);
    *sent_at(n, msg) = (sent){msg, index};
    (void)pthread_mutex_unlock(&n->lock);
}

static ef_status publish_one(call *c, size_t i, ef_error *err)
{
    nats_bus *n = c->bus;
    natsMsg *msg = NULL;
    jsPubOptions options;
    natsStatus s = NATS_OK;
    ef_status st = make_message(c, i, &msg, err);

    if (st == EF_OK && msg) {
        (void)jsPubOptions_Init(&options);
        options.ExpectStream = n->stream_name;
        options.MsgId = c->id.ptr;
        expect_answer(n, msg, i);
        n->used = true;
        s = js_PublishMsgAsync(n->stream, &msg, &options); /* takes it and sets it to NULL */
    }
    natsMsg_Destroy(msg);
    return st == EF_OK && s != NATS_OK ? broker_fail(n, s, err) : st;
}

static ef_status publish_all(call *c, ef_error *err)
{
    nats_bus *n = c->bus;
    int64_t until_us = ef__bus_mono_us(&n->base) + n->base.options.timeout_ms * 1000;
    jsPubOptions options;
    natsStatus s;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < c->count && !ef__bus_stopping(&n->base); i++) {
        if (i % LOOK_EVERY == 0 && ef__bus_mono_us(&n->base) >= until_us)
            break;
        st = publish_one(c, i, err);
    }
    if (st != EF_OK || !n->used)
        return st;
    (void)jsPubOptions_Init(&options);
    options.MaxWait = n->base.options.timeout_ms;
    s = js_PublishAsyncComplete(n->stream, &options);
    return s == NATS_OK ? EF_OK : broker_fail(n, s, err);
}

/* From here on on_ack writes into the caller's outcomes, until end_call. */
static ef_status begin_call(call *c, ef_error *err)
{
    nats_bus *n = c->bus;
    size_t size = 2;
    sent *table;

    while (size < 2 * c->count)
        size *= 2;
    table = ef__arena_zalloc(c->arena, size, sizeof *table);
    if (!table)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    (void)pthread_mutex_lock(&n->lock);
    n->sent = table;
    n->sent_mask = size - 1;
    n->outcomes = c->outcomes;
    n->arena = c->arena;
    (void)pthread_mutex_unlock(&n->lock);
    return EF_OK;
}

static void end_call(call *c)
{
    nats_bus *n = c->bus;

    (void)pthread_mutex_lock(&n->lock);
    n->sent = NULL;
    n->outcomes = NULL;
    n->arena = NULL;
    (void)pthread_mutex_unlock(&n->lock);
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
              .id = EF__BUF_INIT(4096)};
    ef_status st = ef__nats_subject(&n->address, &messages[0], &c.subject)
                       ? get_ready(n, c.subject.ptr, arena, err)
                       : ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");

    (void)now_us;
    if (st == EF_OK && !bus->lost) {
        st = begin_call(&c, err);
        if (st == EF_OK)
            st = publish_all(&c, err);
    }
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
    (void)pthread_mutex_lock(&n->lock);
    ef__json_int(&w, (int64_t)n->last_seq);
    (void)pthread_mutex_unlock(&n->lock);
    ef__json_close(&w, '}');
    (void)snprintf(n->said, sizeof n->said, "%s", text.failed ? "" : text.ptr);
    ef__buf_release(&text);
    return ef_str_from(n->said);
}

static void nats_close(ef__bus *bus)
{
    nats_bus *n = (nats_bus *)bus;

    disconnect(n);
    (void)pthread_mutex_destroy(&n->lock);
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
    (void)pthread_mutex_init(&n->lock, NULL);
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
