/*
 * nats.c - the NATS sink: a connection to a broker, and the stream that takes what is published.
 *
 * A broker may lose what it has acknowledged (it syncs late, or is restored from a copy). So the
 * stream's last sequence that was seen is kept, by the journal too (progress), and compared
 * whenever a connection is made, and when the caller wants to know: a stream that is behind it has
 * lost something, and the caller is told. How messages get there: delivery.c.
 */
#include "nats_priv.h"

#include "../public_address.h"

#include "../../base/json.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH_MAX                                                                                  \
    8000 /* two windows: while one is on its way there is time for a mark or a take                \
          */
#define LOOK_ARENA (4u * EF__NATS_REPLY_BYTES)

/* --- connecting ------------------------------------------------------------------------------- */

#define SERVER_MAX (NI_MAXHOST + 32)

static void disconnect(ef__nats_bus *n)
{
    natsSubscription_Destroy(n->answers);
    natsInbox_Destroy(n->inbox);
    natsConnection_Destroy(n->connection);
    n->answers = NULL;
    n->inbox = NULL;
    n->connection = NULL;
    n->compared = false;
    n->published = 0;
}

ef_status ef__nats_fail(const ef__nats_bus *n, natsStatus status, ef_error *err)
{
    return ef_fail(err, EF_BUSY, "%s: %s", n->address.server, natsStatus_GetText(status));
}

static natsStatus set_credentials(const ef__nats_bus *n, natsOptions *options)
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
static natsStatus set_security(const ef__nats_bus *n, natsOptions *options)
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
static natsStatus subscribe_answers(ef__nats_bus *n)
{
    char subject[256];
    natsStatus s = natsInbox_Create(&n->inbox);

    if (s != NATS_OK)
        return s;
    (void)snprintf(subject, sizeof subject, "%s.*", n->inbox);
    return natsConnection_SubscribeSync(&n->answers, n->connection, subject);
}

/* The first public address of the broker as an URL. libnats would look the name up by itself, and
 * might find another address then. */
static ef_status find_public(const ef__nats_bus *n, char out[SERVER_MAX], ef_error *err)
{
    const ef__nats_address *a = &n->address;
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char number[NI_MAXHOST];
    int code = getaddrinfo(a->host, a->port, &wanted, &found);
    const struct addrinfo *at = code == 0 ? found : NULL;
    bool good;

    while (at && !ef__address_is_public(at->ai_addr, at->ai_addrlen))
        at = at->ai_next;
    good = at && getnameinfo(at->ai_addr, at->ai_addrlen, number, sizeof number, NULL, 0,
                             NI_NUMERICHOST) == 0;
    if (good)
        (void)snprintf(out, SERVER_MAX, at->ai_family == AF_INET6 ? "%s://[%s]:%s" : "%s://%s:%s",
                       a->tls ? "tls" : "nats", number, a->port);
    if (code == 0)
        freeaddrinfo(found);
    if (good)
        return EF_OK;
    return code ? ef_fail(err, EF_BUSY, "%s: %s", a->server, gai_strerror(code))
                : ef_fail(err, EF_BUSY,
                          "%s: the broker's address is not public (--allow-private lets it be "
                          "connected to)",
                          a->server);
}

static natsStatus open_connection(ef__nats_bus *n, const char *server)
{
    natsOptions *options = NULL;
    natsStatus s = natsOptions_Create(&options);

    if (s == NATS_OK)
        s = natsOptions_SetURL(options, server);
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
static ef_status ask(ef__nats_bus *n, const char *subject, const char *question, ef__arena *arena,
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
                   : ef__nats_fail(n, s, err);
    text = (ef_str){natsMsg_GetData(reply), (size_t)natsMsg_GetDataLength(reply)};
    kept = ef__arena_copy(arena, text);
    natsMsg_Destroy(reply);
    if (!kept.ptr)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    st = ef__json_parse(kept, EF__NATS_REPLY_BYTES, arena, out, err);
    return st == EF_OK ? st
                       : ef_fail(err, EF_BUSY, "%s answers what is no JSON", n->address.server);
}

/* The stream that takes a subject. Another than before is one of which nothing is known. */
static ef_status find_stream(ef__nats_bus *n, const char *subject, ef__arena *arena, ef_error *err)
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
    if (!ef_str_equal(streams->first->text, ef_str_from(n->stream_name)))
        n->last_seq = 0;
    (void)snprintf(n->stream_name, sizeof n->stream_name, "%.*s", EF_STR_ARG(streams->first->text));
    return EF_OK;
}

static ef_status read_last_seq(ef__nats_bus *n, ef__arena *arena, uint64_t *out, ef_error *err)
{
    char subject[sizeof n->stream_name + 32];
    ef__json *answer = NULL;
    const ef__json *code, *last, *replicas;
    int64_t number;
    ef_status st;

    (void)snprintf(subject, sizeof subject, "$JS.API.STREAM.INFO.%s", n->stream_name);
    st = ask(n, subject, "", arena, &answer, err);
    if (st != EF_OK)
        return st;
    code = ef__json_get(ef__json_get(answer, "error"), "code");
    if (code && ef__json_int64(code, &number) == 0 && number == 404)
        return ef_fail(err, EF_NOT_FOUND, "%s has no stream %s", n->address.server, n->stream_name);
    last = ef__json_get(ef__json_get(answer, "state"), "last_seq");
    if (!last || ef__json_int64(last, &number) != 0 || number < 0)
        return ef_fail(err, EF_BUSY, "%s says nothing of stream %s", n->address.server,
                       n->stream_name);
    replicas = ef__json_get(ef__json_get(answer, "config"), "num_replicas");
    if (!replicas || ef__json_int64(replicas, &n->replicas) != 0)
        n->replicas = 0;
    *out = (uint64_t)number;
    return EF_OK;
}

/* What was noted of a stream, here or in another process: {"stream":NAME,"seq":N}. */
static void take_noted(ef__nats_bus *n, ef_str noted, ef__arena *arena)
{
    ef__json *tree = NULL;
    const ef__json *name, *seq;
    int64_t number = 0;

    if (!noted.len || ef__json_parse(noted, EF__NATS_REPLY_BYTES, arena, &tree, NULL) != EF_OK)
        return;
    name = ef__json_get(tree, "stream");
    seq = ef__json_get(tree, "seq");
    if (!name || name->kind != EF__JSON_STRING || name->text.len >= sizeof n->stream_name || !seq ||
        ef__json_int64(seq, &number) != 0 || number < 0)
        return;
    if (!n->stream_name[0])
        (void)snprintf(n->stream_name, sizeof n->stream_name, "%.*s", EF_STR_ARG(name->text));
    if (ef_str_equal(name->text, ef_str_from(n->stream_name)) && (uint64_t)number > n->last_seq)
        n->last_seq = (uint64_t)number;
}

/* Has the stream all that it acknowledged? What it has now is what counts from here on. */
static ef_status compare_stream(ef__nats_bus *n, ef__arena *arena, ef_error *err)
{
    uint64_t has = 0;
    ef_status st = read_last_seq(n, arena, &has, err);

    n->compared = st == EF_OK;
    if (st != EF_OK)
        return st;
    if (has < n->last_seq) {
        n->base.lost = true;
        n->base.lost_count = (int64_t)(n->last_seq - has);
    }
    n->last_seq = has;
    return EF_OK;
}

static bool is_connected(const ef__nats_bus *n)
{
    return n->connection && natsConnection_Status(n->connection) == NATS_CONN_STATUS_CONNECTED;
}

static ef_status connect_broker(ef__nats_bus *n, ef_error *err)
{
    char server[SERVER_MAX];
    natsStatus s;
    ef_status st = EF_OK;

    if (is_connected(n))
        return EF_OK;
    disconnect(n);
    (void)snprintf(server, sizeof server, "%s", n->address.server);
    if (!n->base.options.allow_private)
        st = find_public(n, server, err);
    if (st != EF_OK)
        return st;
    s = open_connection(n, server);
    if (s == NATS_OK)
        return EF_OK;
    disconnect(n);
    return ef__nats_fail(n, s, err);
}

static ef_status get_ready(ef__nats_bus *n, const char *subject, ef__arena *arena, ef_error *err)
{
    ef_status st = connect_broker(n, err);

    if (st != EF_OK || n->compared)
        return st;
    take_noted(n, n->base.options.progress, arena);
    n->base.options.progress.len = 0;
    st = find_stream(n, subject, arena, err);
    if (st == EF_OK)
        st = compare_stream(n, arena, err);
    return st == EF_NOT_FOUND
               ? ef_fail(err, EF_BUSY, "%s: stream %s is gone", n->address.server, n->stream_name)
               : st;
}

/* --- the sink --------------------------------------------------------------------------------- */

static ef_status nats_deliver(ef__bus *bus, const ef__bus_message *messages, size_t count,
                              int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                              ef_error *err)
{
    ef__nats_bus *n = (ef__nats_bus *)bus;
    ef__buf subject = EF__BUF_INIT(EF__NATS_MADE_MAX);
    ef_status st = ef__nats_subject(&n->address, &messages[0], &subject)
                       ? get_ready(n, subject.ptr, arena, err)
                       : ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");

    (void)now_us;
    if (st == EF_OK && !bus->lost)
        st = ef__nats_publish(n, messages, count, outcomes, arena, err);
    ef__buf_release(&subject);
    if (st != EF_OK)
        disconnect(n); /* nobody can say what became of the rest: begin anew */
    return st;
}

/* A broker that is put back closes its connections: as long as ours is there it was not. Of a
 * stream that is made anew it says nothing, so it is asked now and then. */
static ef_status nats_look(ef__bus *bus, ef_str progress, bool now, ef_error *err)
{
    ef__nats_bus *n = (ef__nats_bus *)bus;
    ef__arena arena = EF__ARENA_INIT(LOOK_ARENA);
    ef_status st;

    if (!now && n->compared && is_connected(n))
        return EF_OK;
    take_noted(n, progress, &arena);
    st = n->stream_name[0] ? connect_broker(n, err) : EF_NOT_FOUND;
    if (st == EF_OK)
        st = compare_stream(n, &arena, err);
    if (st != EF_OK && st != EF_NOT_FOUND)
        disconnect(n);
    ef__arena_release(&arena);
    return st;
}

static ef_str nats_progress(ef__bus *bus)
{
    ef__nats_bus *n = (ef__nats_bus *)bus;
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
    ef__nats_bus *n = (ef__nats_bus *)bus;

    disconnect(n);
    ef__bus_release(bus);
    free(n);
}

static const ef__bus_ops nats_ops = {
    .name = "nats",
    .batch_max = BATCH_MAX,
    .grouped = true,
    .overlaps = true,
    .deliver = nats_deliver,
    .look = nats_look,
    .progress = nats_progress,
    .close = nats_close,
};

ef_status ef__bus_nats_open(const ef__bus_options *options, ef__bus **out, ef_error *err)
{
    ef__nats_bus *n = calloc(1, sizeof *n);
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
