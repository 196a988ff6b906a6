/*
 * nats.c - the NATS sink: its address, the connection to a broker, and the stream that stores the
 * messages.
 *
 * A broker may lose messages that it has acknowledged (it syncs late, or is restored from a
 * backup). So the last known sequence of the stream is stored, by the journal too (progress), and
 * compared after each connect, and when the caller asks: a stream with a lower sequence has lost
 * messages, and `lost` is set. delivery.c publishes the messages.
 */
#include "nats_priv.h"

#include "../../base/json.h"
#include "../../base/number.h"
#include "../../base/same.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH_MAX                                                                                  \
    8000 /* two windows: time for an acknowledgement and a claim while one is in flight */
#define LOSS_ARENA (4u * EF__NATS_REPLY_BYTES) /* a JSON tree is several times its text */

/* --- the address ------------------------------------------------------------------------------ */

static const char *const names[] = {"{tenant}", "{type}", "{stream}", "{key}", NULL};

static bool is_name_at(const char *at, size_t *out_len)
{
    for (size_t i = 0; names[i]; i++) {
        *out_len = strlen(names[i]);
        if (strncmp(at, names[i], *out_len) == 0)
            return true;
    }
    return false;
}

static ef_status check_subject(const char *subject, ef_error *err)
{
    size_t len = strlen(subject), skip;

    if (len == 0 || len >= EF__NATS_SUBJECT_MAX || subject[0] == '.' || subject[len - 1] == '.' ||
        strstr(subject, "..") || strncmp(subject, "$JS", 3) == 0)
        return ef_fail(err, EF_BAD_INPUT, "'%s' is not a subject to publish to", subject);
    for (const char *c = subject; *c; c++) {
        if (*c == '*' || *c == '>')
            return ef_fail(err, EF_BAD_INPUT, "'%s' is a pattern: a message needs a subject",
                           subject);
        if (*c == '{') {
            if (!is_name_at(c, &skip))
                return ef_fail(err, EF_BAD_INPUT,
                               "'%s': the placeholders are {tenant}, {type}, {stream} and {key}",
                               subject);
            c += skip - 1;
        }
    }
    return EF_OK;
}

/* After the host: nothing, or a colon and a port. */
static bool is_port(ef_str text)
{
    int64_t port;

    return text.len == 0 ||
           (text.ptr[0] == ':' && ef__digits_parse((ef_str){text.ptr + 1, text.len - 1}, &port) &&
            port >= 1 && port <= 65535);
}

static ef_status parse_server(ef_str server, ef__nats_address *out, ef_error *err)
{
    size_t scheme = out->tls ? 6 : 7; /* tls:// or nats:// */
    const char *host = server.ptr + scheme, *end;
    size_t len = server.len - scheme, host_len;
    bool bracket = len && host[0] == '['; /* an IPv6 address contains colons */

    if (memchr(server.ptr, '@', server.len))
        return ef_fail(err, EF_BAD_INPUT,
                       "the address contains a user name or password, and addresses are logged: "
                       "set `secret` to USER:PASSWORD or a token");
    end = memchr(host, bracket ? ']' : ':', len);
    host += bracket;
    host_len = end ? (size_t)(end - host) : bracket ? 0 : len;
    end = host + host_len + bracket;
    if (host_len == 0 || host_len >= sizeof out->host || server.len >= sizeof out->server ||
        !is_port((ef_str){end, (size_t)(server.ptr + server.len - end)}))
        return ef_fail(err, EF_BAD_INPUT, "'%.*s' has no valid host: use nats://HOST:PORT/SUBJECT",
                       EF_STR_ARG(server));
    (void)snprintf(out->server, sizeof out->server, "%.*s", EF_STR_ARG(server));
    (void)snprintf(out->host, sizeof out->host, "%.*s", (int)host_len, host);
    (void)snprintf(out->port, sizeof out->port, "%.*s",
                   end < server.ptr + server.len ? (int)(server.ptr + server.len - end - 1) : 4,
                   end < server.ptr + server.len ? end + 1 : "4222");
    return EF_OK;
}

/* Absolute, because workers run in different directories. */
static ef_status parse_file(ef_str key, ef_str value, char out[PATH_MAX], ef_error *err)
{
    if (value.len < 2 || value.len >= PATH_MAX || value.ptr[0] != '/')
        return ef_fail(err, EF_BAD_INPUT, "%.*s is '%.*s': an absolute path is required",
                       EF_STR_ARG(key), EF_STR_ARG(value));
    (void)snprintf(out, PATH_MAX, "%.*s", EF_STR_ARG(value));
    return EF_OK;
}

static ef_status parse_pair(ef_str key, ef_str value, ef__nats_address *out, ef_error *err)
{
    if (ef_str_equal(key, EF_STR("creds")))
        return parse_file(key, value, out->creds, err);
    if (!ef_str_equal(key, EF_STR("ca")))
        return ef_fail(err, EF_BAD_INPUT,
                       "unknown key '%.*s' in a NATS address: the keys are ca and creds",
                       EF_STR_ARG(key));
    if (!out->tls)
        return ef_fail(err, EF_BAD_INPUT, "ca requires TLS: use tls://HOST:PORT/SUBJECT?ca=FILE");
    return parse_file(key, value, out->ca, err);
}

static ef_status parse_query(ef_str query, ef__nats_address *out, ef_error *err)
{
    ef_status st = EF_OK;

    while (st == EF_OK && query.len) {
        ef_str value = ef__str_split(&query, '&');
        ef_str key = ef__str_split(&value, '=');
        st = parse_pair(key, value, out, err);
    }
    return st;
}

static ef_status parse_address(ef_str url, ef__nats_address *out, ef_error *err)
{
    const char *query = memchr(url.ptr, '?', url.len);
    size_t len = query ? (size_t)(query - url.ptr) : url.len, scheme;
    const char *slash;
    ef_status st;

    *out = (ef__nats_address){.tls = url.ptr[0] == 't'};
    scheme = out->tls ? 6 : 7;
    slash = len > scheme ? memchr(url.ptr + scheme, '/', len - scheme) : NULL;
    if (!slash || (size_t)(url.ptr + len - slash) > EF__NATS_SUBJECT_MAX)
        return ef_fail(err, EF_BAD_INPUT,
                       "'%.*s' is not a NATS address: use nats://HOST:PORT/SUBJECT",
                       EF_STR_ARG(url));
    st = parse_server((ef_str){url.ptr, (size_t)(slash - url.ptr)}, out, err);
    if (st != EF_OK)
        return st;
    (void)snprintf(out->subject, sizeof out->subject, "%.*s", (int)(url.ptr + len - slash - 1),
                   slash + 1);
    st = check_subject(out->subject, err);
    if (st == EF_OK && query)
        st = parse_query((ef_str){query + 1, url.len - len - 1}, out, err);
    return st;
}

static ef_status nats_check(const ef__bus_options *options, ef_error *err)
{
    ef__nats_address address;

    return parse_address(options->url, &address, err);
}

bool ef__nats_subject(const ef__nats_address *a, const ef__bus_message *m, ef__buf *out)
{
    const ef_str values[] = {m->event->tenant, m->event->type, m->event->stream, m->key};
    size_t len;

    ef__buf_reset(out);
    for (const char *c = a->subject; *c; c++) {
        if (*c != '{' || !is_name_at(c, &len)) {
            ef__buf_add_char(out, *c);
            continue;
        }
        for (size_t i = 0; names[i]; i++)
            if (strncmp(c, names[i], len) == 0 && strlen(names[i]) == len)
                ef__buf_add_token(out, values[i]);
        c += len - 1;
    }
    return !out->failed;
}

/* --- connecting ------------------------------------------------------------------------------- */

#define SERVER_MAX (NI_MAXHOST + 32) /* bytes: scheme, brackets and port */

static void nats_disconnect(ef__nats_bus *nats)
{
    natsSubscription_Destroy(nats->answers);
    natsInbox_Destroy(nats->inbox);
    natsConnection_Destroy(nats->connection);
    nats->answers = NULL;
    nats->inbox = NULL;
    nats->connection = NULL;
    nats->compared = false;
    nats->published = 0;
}

ef_status ef__nats_fail(const ef__nats_bus *nats, natsStatus status, ef_error *err)
{
    return ef_fail(err, EF_BUSY, "%s: %s", nats->address.server, natsStatus_GetText(status));
}

static natsStatus set_credentials(const ef__nats_bus *nats, natsOptions *options)
{
    char name[4096];
    char *colon;
    natsStatus s;

    if (!nats->base.options.secret.len)
        return NATS_OK;
    (void)snprintf(name, sizeof name, "%.*s", EF_STR_ARG(nats->base.options.secret));
    colon = strchr(name, ':');
    if (colon)
        *colon = '\0';
    s = colon ? natsOptions_SetUserInfo(options, name, colon + 1)
              : natsOptions_SetToken(options, name);
    explicit_bzero(name, sizeof name);
    return s;
}

/* The certificate must be for the host of the address. */
static natsStatus set_security(const ef__nats_bus *nats, natsOptions *options)
{
    const ef__nats_address *a = &nats->address;
    natsStatus s = NATS_OK;

    if (a->tls)
        s = natsOptions_SetSecure(options, true);
    if (s == NATS_OK && a->tls)
        s = natsOptions_SetExpectedHostname(options, a->host);
    if (s == NATS_OK && a->ca[0])
        s = natsOptions_LoadCATrustedCertificates(options, a->ca);
    if (s == NATS_OK && a->creds[0])
        s = natsOptions_SetUserCredentialsFromFiles(options, a->creds, NULL);
    return s == NATS_OK ? set_credentials(nats, options) : s;
}

/* Subscribes to the reply inboxes. */
static natsStatus subscribe_answers(ef__nats_bus *nats)
{
    char subject[256];
    natsStatus s = natsInbox_Create(&nats->inbox);

    if (s != NATS_OK)
        return s;
    (void)snprintf(subject, sizeof subject, "%s.*", nats->inbox);
    return natsConnection_SubscribeSync(&nats->answers, nats->connection, subject);
}

/* The first public address of the broker as a URL. libnats would resolve the name again, and might
 * get another address. */
static ef_status resolve_public_address(const ef__nats_bus *nats, char out[SERVER_MAX],
                                        ef_error *err)
{
    const ef__nats_address *a = &nats->address;
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
                          "%s: the address of the broker is not public, and allow_private is not "
                          "set",
                          a->server);
}

static natsStatus open_connection(ef__nats_bus *nats, const char *server)
{
    natsOptions *options = NULL;
    natsStatus s = natsOptions_Create(&options);

    if (s == NATS_OK)
        s = natsOptions_SetURL(options, server);
    if (s == NATS_OK)
        s = natsOptions_SetTimeout(options, nats->base.options.timeout_ms);
    if (s == NATS_OK)
        s = natsOptions_SetName(options, "everfold");
    /* No automatic reconnect: after one the stream must be compared first. */
    if (s == NATS_OK)
        s = natsOptions_SetAllowReconnect(options, false);
    if (s == NATS_OK)
        s = set_security(nats, options);
    if (s == NATS_OK)
        s = natsConnection_Connect(&nats->connection, options);
    if (s == NATS_OK)
        s = subscribe_answers(nats);
    natsOptions_Destroy(options);
    return s;
}

/* --- the stream ------------------------------------------------------------------------------- */

/* Calls the JetStream API; the response is parsed into the arena. */
static ef_status call_api(ef__nats_bus *nats, const char *subject, const char *request,
                          ef__arena *arena, ef__json **out, ef_error *err)
{
    natsMsg *reply = NULL;
    natsStatus s = natsConnection_RequestString(&reply, nats->connection, subject, request,
                                                nats->base.options.timeout_ms);
    ef_str text, kept;
    ef_status st;

    if (s != NATS_OK)
        return s == NATS_NO_RESPONDERS
                   ? ef_fail(err, EF_BUSY, "%s: JetStream is not enabled", nats->address.server)
                   : ef__nats_fail(nats, s, err);
    text = (ef_str){natsMsg_GetData(reply), (size_t)natsMsg_GetDataLength(reply)};
    kept = ef__arena_copy(arena, text);
    natsMsg_Destroy(reply);
    if (!kept.ptr)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    st = ef__json_parse(kept, EF__NATS_REPLY_BYTES, arena, out, err);
    return st == EF_OK
               ? st
               : ef_fail(err, EF_BUSY, "%s: the response is not JSON", nats->address.server);
}

/* Finds the stream of a subject. Nothing is known about a stream other than the previous one. */
static ef_status find_stream(ef__nats_bus *nats, const char *subject, ef__arena *arena,
                             ef_error *err)
{
    char request[EF__NATS_MADE_MAX + 32];
    ef__json *answer = NULL;
    const ef__json *streams;
    ef_status st;

    (void)snprintf(request, sizeof request, "{\"subject\":\"%s\"}", subject);
    st = call_api(nats, "$JS.API.STREAM.NAMES", request, arena, &answer, err);
    if (st != EF_OK)
        return st;
    streams = ef__json_get(answer, "streams");
    if (!streams || !streams->first || streams->first->kind != EF__JSON_STRING ||
        streams->first->text.len >= sizeof nats->stream_name)
        return ef_fail(err, EF_BUSY, "%s: no stream has the subject %s: create one first",
                       nats->address.server, subject);
    if (!ef_str_equal(streams->first->text, ef_str_from(nats->stream_name)))
        nats->last_seq = 0;
    (void)snprintf(nats->stream_name, sizeof nats->stream_name, "%.*s",
                   EF_STR_ARG(streams->first->text));
    return EF_OK;
}

static ef_status read_last_seq(ef__nats_bus *nats, ef__arena *arena, uint64_t *out, ef_error *err)
{
    char subject[sizeof nats->stream_name + 32];
    ef__json *answer = NULL;
    const ef__json *code, *last, *replicas;
    int64_t number;
    ef_status st;

    (void)snprintf(subject, sizeof subject, "$JS.API.STREAM.INFO.%s", nats->stream_name);
    st = call_api(nats, subject, "", arena, &answer, err);
    if (st != EF_OK)
        return st;
    code = ef__json_get(ef__json_get(answer, "error"), "code");
    if (code && ef__json_int64(code, &number) == 0 && number == 404)
        return ef_fail(err, EF_NOT_FOUND, "%s has no stream %s", nats->address.server,
                       nats->stream_name);
    last = ef__json_get(ef__json_get(answer, "state"), "last_seq");
    if (!last || ef__json_int64(last, &number) != 0 || number < 0)
        return ef_fail(err, EF_BUSY, "%s: the response about stream %s is incomplete",
                       nats->address.server, nats->stream_name);
    replicas = ef__json_get(ef__json_get(answer, "config"), "num_replicas");
    if (!replicas || ef__json_int64(replicas, &nats->replicas) != 0)
        nats->replicas = 0;
    *out = (uint64_t)number;
    return EF_OK;
}

/* Reads the stored progress, of this process or another: {"stream":NAME,"seq":N}. */
static void read_progress(ef__nats_bus *nats, ef_str noted, ef__arena *arena)
{
    ef__json *tree = NULL;
    const ef__json *name, *seq;
    int64_t number = 0;

    if (!noted.len || ef__json_parse(noted, EF__NATS_REPLY_BYTES, arena, &tree, NULL) != EF_OK)
        return;
    name = ef__json_get(tree, "stream");
    seq = ef__json_get(tree, "seq");
    if (!name || name->kind != EF__JSON_STRING || name->text.len >= sizeof nats->stream_name ||
        !seq || ef__json_int64(seq, &number) != 0 || number < 0)
        return;
    if (!nats->stream_name[0])
        (void)snprintf(nats->stream_name, sizeof nats->stream_name, "%.*s", EF_STR_ARG(name->text));
    if (ef_str_equal(name->text, ef_str_from(nats->stream_name)) &&
        (uint64_t)number > nats->last_seq)
        nats->last_seq = (uint64_t)number;
}

/* Compares the stream with the acknowledged sequence; later comparisons use its current state. */
static ef_status compare_stream(ef__nats_bus *nats, ef__arena *arena, ef_error *err)
{
    uint64_t has = 0;
    ef_status st = read_last_seq(nats, arena, &has, err);

    nats->compared = st == EF_OK;
    if (st != EF_OK)
        return st;
    if (has < nats->last_seq) {
        nats->base.lost = true;
        nats->base.lost_count = (int64_t)(nats->last_seq - has);
    }
    nats->last_seq = has;
    return EF_OK;
}

static bool is_connected(const ef__nats_bus *nats)
{
    return nats->connection &&
           natsConnection_Status(nats->connection) == NATS_CONN_STATUS_CONNECTED;
}

static ef_status connect_broker(ef__nats_bus *nats, ef_error *err)
{
    char server[SERVER_MAX];
    natsStatus s;
    ef_status st = EF_OK;

    if (is_connected(nats))
        return EF_OK;
    nats_disconnect(nats);
    (void)snprintf(server, sizeof server, "%s", nats->address.server);
    if (!nats->base.options.allow_private)
        st = resolve_public_address(nats, server, err);
    if (st != EF_OK)
        return st;
    s = open_connection(nats, server);
    if (s == NATS_OK)
        return EF_OK;
    nats_disconnect(nats);
    return ef__nats_fail(nats, s, err);
}

static ef_status prepare_stream(ef__nats_bus *nats, const char *subject, ef__arena *arena,
                                ef_error *err)
{
    ef_status st = connect_broker(nats, err);

    if (st != EF_OK || nats->compared)
        return st;
    read_progress(nats, nats->base.options.progress, arena);
    nats->base.options.progress.len = 0;
    st = find_stream(nats, subject, arena, err);
    if (st == EF_OK)
        st = compare_stream(nats, arena, err);
    return st == EF_NOT_FOUND ? ef_fail(err, EF_BUSY, "%s: stream %s was deleted",
                                        nats->address.server, nats->stream_name)
                              : st;
}

/* --- the sink --------------------------------------------------------------------------------- */

static ef_status nats_deliver(ef__bus *bus, const ef__bus_message *messages, size_t count,
                              int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                              ef_error *err)
{
    ef__nats_bus *nats = (ef__nats_bus *)bus;
    ef__buf subject = EF__BUF_INIT(EF__NATS_MADE_MAX);
    ef_status st = ef__nats_subject(&nats->address, &messages[0], &subject)
                       ? prepare_stream(nats, subject.ptr, arena, err)
                       : ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");

    (void)now_us;
    if (st == EF_OK && !bus->lost)
        st = ef__nats_publish(nats, messages, count, outcomes, arena, err);
    ef__buf_release(&subject);
    if (st != EF_OK)
        nats_disconnect(nats); /* the results of the rest are unknown: connect again */
    return st;
}

/* A broker that is restored closes its connections, so an open connection means that it was not. A
 * stream that is deleted and created again is not noticed that way: `now` asks the broker. */
static ef_status nats_check_loss(ef__bus *bus, ef_str progress, bool now, ef_error *err)
{
    ef__nats_bus *nats = (ef__nats_bus *)bus;
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(LOSS_ARENA);
    ef_status st;

    if (!now && nats->compared && is_connected(nats))
        return EF_OK;
    read_progress(nats, progress, &arena);
    st = nats->stream_name[0] ? connect_broker(nats, err) : EF_NOT_FOUND;
    if (st == EF_OK)
        st = compare_stream(nats, &arena, err);
    if (st != EF_OK && st != EF_NOT_FOUND)
        nats_disconnect(nats);
    return st;
}

static ef_str nats_progress(ef__bus *bus)
{
    ef__nats_bus *nats = (ef__nats_bus *)bus;
    EF__AUTO(ef__buf) text = EF__BUF_INIT(sizeof nats->progress_text - 1);
    ef__json_writer w = EF__JSON_WRITER(&text);

    if (!nats->stream_name[0])
        return EF_STR("");
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "stream", nats->stream_name);
    ef__json_member_int(&w, "seq", (int64_t)nats->last_seq);
    ef__json_close(&w, '}');
    (void)snprintf(nats->progress_text, sizeof nats->progress_text, "%s",
                   text.failed ? "" : text.ptr);
    return ef_str_from(nats->progress_text);
}

static void nats_close(ef__bus *bus)
{
    ef__nats_bus *nats = (ef__nats_bus *)bus;

    nats_disconnect(nats);
    ef__bus_release(bus);
    free(nats);
}

static ef_status nats_open(ef__bus *bus, ef_error *err)
{
    return parse_address(bus->options.url, &((ef__nats_bus *)bus)->address, err);
}

const ef__bus_ops ef__nats_sink = {
    .name = "nats",
    .bytes = sizeof(ef__nats_bus),
    .batch_max = BATCH_MAX,
    .grouped = true,
    .overlaps = true,
    .check = nats_check,
    .open = nats_open,
    .deliver = nats_deliver,
    .check_loss = nats_check_loss,
    .progress = nats_progress,
    .close = nats_close,
};
