/*
 * webhook.c - the webhook sink: each message is the body of a POST, signed.
 *
 * Several requests are under way at once, one of each group. An answer is a verdict on its message:
 * 2xx is a delivery, 3xx and 4xx fail the message, and neither says anything about the receiver.
 * No answer, 429 and 5xx fail the receiver. When it fails one message after the other of different
 * groups, or cannot be connected to, it is unavailable: the breaker opens, nothing counts against
 * the messages that it failed on, and from then on a call tries one of them, another one each time,
 * until one is answered. Messages that were refused meanwhile keep their verdict.
 *
 * Redirects are not followed, proxies of the environment are not used, an answer is read up to
 * REPLY_BYTES, and only public addresses are connected to (public_address.h) unless others are
 * allowed.
 */
#include "../bus.h"

#include "../public_address.h"
#include "sign.h"

#include "../../base/cloudevent.h"

#include <everfold/version.h>

#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH_MAX 256
#define IN_FLIGHT 8
#define REPLY_BYTES (64u * 1024)
#define BREAKER_FAILURES 5 /* of the receiver, in a call without an answer, of as many groups */
#define POLL_MS 100
#define ERROR_BYTES 200
#define META_ARENA (1024u * 1024)

typedef struct hook_bus hook_bus;

/* A request under way. */
typedef struct flight {
    hook_bus *bus;
    CURL *easy;
    struct curl_slist *headers;
    ef__buf body;
    size_t message; /* index; SIZE_MAX: free */
    size_t reply_bytes;
    bool private_address;
    char why[CURL_ERROR_SIZE];
} flight;

struct hook_bus {
    ef__bus base; /* first, so that an ef__bus * is this */
    CURLM *multi;
    flight *flights;
    size_t flight_count;
    bool open;    /* the breaker: the receiver is unavailable */
    size_t probe; /* which message is tried next while it is */
};

/* A call. */
typedef struct call {
    hook_bus *bus;
    const ef__bus_message *messages;
    size_t count;
    ef__bus_outcome *outcomes;
    ef__arena *arena;
    char *begun;  /* per message */
    char *closed; /* per group: one is under way, or failed */
    char *blamed; /* per message: it failed because of the receiver */
    size_t next;  /* all before it have begun */
    size_t under_way;
    int answered, failed;     /* verdicts on messages; failures of the receiver */
    int64_t now_us, until_us; /* wall; monotonic: nothing is begun any more */
    bool down;
    char why[ERROR_BYTES + CURL_ERROR_SIZE];
} call;

/* --- the address ------------------------------------------------------------------------------ */

ef_status ef__bus_webhook_check(const ef__bus_options *options, ef_error *err)
{
    CURLU *url = curl_url();
    char *text = strndup(options->url.ptr, options->url.len), *user = NULL;
    CURLUcode code = url && text ? curl_url_set(url, CURLUPART_URL, text, 0) : CURLUE_OUT_OF_MEMORY;
    ef_status st = EF_OK;

    if (code == CURLUE_OUT_OF_MEMORY)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    else if (code != CURLUE_OK)
        st = ef_fail(err, EF_BAD_INPUT, "'%s': %s", text, curl_url_strerror(code));
    else if (text[strcspn(text, ":") + 3] == '/') /* libcurl takes the path for a host */
        st = ef_fail(err, EF_BAD_INPUT, "'%s' names no host: https://HOST/PATH is needed", text);
    else if (curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK)
        st = ef_fail(err, EF_BAD_INPUT,
                     "the address has a name or password in it, and addresses are shown to people: "
                     "receivers know us by the signature (--secret-file)");
    else if (strncmp(text, "https:", 6) != 0 && !options->allow_private)
        st = ef_fail(err, EF_BAD_INPUT,
                     "'%s': https is needed; plain http is for receivers of one's own network "
                     "(--allow-private)",
                     text);
    curl_free(user);
    curl_url_cleanup(url);
    free(text);
    return st;
}

/* Called with the address that is about to be connected to, whatever its name resolved to. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    flight *f = context;

    (void)purpose;
    if (!f->bus->base.options.allow_private &&
        !ef__address_is_public(&address->addr, address->addrlen)) {
        f->private_address = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* --- a request -------------------------------------------------------------------------------- */

/* Count the answer's bytes, keep none. More than enough ends the transfer; its status holds. */
static size_t take_reply(char *bytes, size_t size, size_t count, void *context)
{
    flight *f = context;

    (void)bytes;
    f->reply_bytes += size * count;
    return f->reply_bytes > REPLY_BYTES ? 0 : size * count;
}

static bool add_header(flight *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool add_header(flight *f, const char *format, ...)
{
    struct curl_slist *longer;
    char line[2048];
    va_list arguments;
    int len;

    va_start(arguments, format);
    len = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (len < 0 || (size_t)len >= sizeof line)
        return false;
    longer = curl_slist_append(f->headers, line);
    if (longer)
        f->headers = longer;
    return longer != NULL;
}

/* Only what can be a trace parent: it comes from whoever appended the event. */
static bool add_trace(flight *f, const ef_event *event)
{
    ef__arena arena = EF__ARENA_INIT(META_ARENA);
    ef_str trace = ef__meta_text(event->meta, "traceparent", &arena);
    bool fits = trace.len >= 55 && trace.len <= 256, added = true;

    for (size_t i = 0; i < trace.len; i++)
        fits = fits && (trace.ptr[i] == '-' || (trace.ptr[i] >= '0' && trace.ptr[i] <= '9') ||
                        (trace.ptr[i] >= 'a' && trace.ptr[i] <= 'f'));
    if (fits)
        added = add_header(f, "traceparent: %.*s", EF_STR_ARG(trace));
    ef__arena_release(&arena);
    return added;
}

static bool add_signature(flight *f, const ef_event *event, int64_t now_us)
{
    ef__buf id = EF__BUF_INIT(2048);
    ef_str secret = f->bus->base.options.secret;
    char signature[EF__SIGN_TEXT_MAX];
    int64_t now_s = now_us / 1000000;
    bool good = ef__bus_id(&id, event) && add_header(f, "webhook-id: %s", id.ptr) &&
                add_header(f, "webhook-timestamp: %" PRId64, now_s);

    if (good && secret.len)
        good =
            ef__webhook_sign(secret, ef__buf_str(&id), now_s, ef__buf_str(&f->body), signature) &&
            add_header(f, "webhook-signature: %s", signature);
    ef__buf_release(&id);
    return good;
}

static void settle_options(flight *f)
{
    CURL *e = f->easy;
    long timeout_ms = (long)f->bus->base.options.timeout_ms;

    curl_easy_reset(e);
    (void)curl_easy_setopt(e, CURLOPT_URL, f->bus->base.options.url.ptr);
    (void)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(e, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    (void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, timeout_ms);
    (void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, f);
    (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_reply);
    (void)curl_easy_setopt(e, CURLOPT_WRITEDATA, f);
    (void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, f->why);
    (void)curl_easy_setopt(e, CURLOPT_USERAGENT, "everfold/" EF_VERSION);
    (void)curl_easy_setopt(e, CURLOPT_PRIVATE, f);
    (void)curl_easy_setopt(e, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(e, CURLOPT_POSTFIELDS, f->body.ptr);
    (void)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->body.len);
    (void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, f->headers);
}

static bool make_request(flight *f, const ef__bus_message *message, int64_t now_us)
{
    ef__buf_reset(&f->body);
    curl_slist_free_all(f->headers);
    f->headers = NULL;
    f->reply_bytes = 0;
    f->private_address = false;
    f->why[0] = '\0';
    if (!ef__bus_write(&f->body, message) ||
        !add_header(f, "Content-Type: application/cloudevents+json; charset=utf-8") ||
        !add_header(f, "Expect:") || !add_signature(f, message->event, now_us) ||
        !add_trace(f, message->event))
        return false;
    settle_options(f);
    return true;
}

/* --- a call ----------------------------------------------------------------------------------- */

static bool may_begin(const call *c)
{
    return !c->down && ef__bus_mono_us(&c->bus->base) < c->until_us &&
           !ef__bus_stopping(&c->bus->base) && !(c->bus->open && c->under_way);
}

/* The next message whose group is free; SIZE_MAX. While the breaker is open it is one alone. */
static size_t next_message(call *c)
{
    if (c->bus->open && c->answered + c->failed == 0) /* the first of some group */
        return c->messages[c->bus->probe++ % c->count].group;
    while (c->next < c->count && c->begun[c->next])
        c->next++;
    for (size_t i = c->next; i < c->count; i++)
        if (!c->begun[i] && !c->closed[c->messages[i].group])
            return i;
    return SIZE_MAX;
}

static ef_status begin(call *c, flight *f, size_t message, ef_error *err)
{
    f->message = message;
    if (!make_request(f, &c->messages[message], c->now_us) ||
        curl_multi_add_handle(c->bus->multi, f->easy) != CURLM_OK) {
        f->message = SIZE_MAX;
        return ef_fail(err, EF_NO_MEMORY, "a request could not be made; is the secret base64?");
    }
    c->begun[message] = 1;
    c->closed[c->messages[message].group] = 1;
    c->under_way++;
    return EF_OK;
}

static ef_status fill(call *c, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < c->bus->flight_count && may_begin(c); i++) {
        size_t message;
        if (c->bus->flights[i].message != SIZE_MAX)
            continue;
        message = next_message(c);
        if (message == SIZE_MAX)
            break;
        st = begin(c, &c->bus->flights[i], message, err);
    }
    return st;
}

/* Was it not even connected to? */
static bool is_unreachable(CURLcode code, const flight *f)
{
    curl_off_t connected = 0;

    (void)curl_easy_getinfo(f->easy, CURLINFO_CONNECT_TIME_T, &connected);
    return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
           code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION ||
           code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE ||
           (code == CURLE_OPERATION_TIMEDOUT && connected == 0);
}

static void fail_message(call *c, const flight *f, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void fail_message(call *c, const flight *f, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(c->why, sizeof c->why, format, arguments);
    va_end(arguments);
    ef__bus_fail(&c->outcomes[f->message], EF__BUS_FAILED, c->arena, "%s", c->why);
}

/* What the receiver has answered. */
static void judge_answer(call *c, flight *f, long status)
{
    bool receiver_failed = status == 429 || status >= 500 || status < 200;

    if (status >= 200 && status < 300) {
        c->outcomes[f->message].verdict = EF__BUS_DELIVERED;
        c->closed[c->messages[f->message].group] = 0;
    } else if (status >= 300 && status < 400) {
        fail_message(c, f, "the receiver answered %ld: redirects are not followed", status);
    } else {
        fail_message(c, f, "the receiver answered %ld", status);
    }
    c->blamed[f->message] = receiver_failed;
    c->failed += receiver_failed;
    c->answered += !receiver_failed;
    if (!receiver_failed)
        c->bus->open = false;
}

static void judge_silence(call *c, flight *f, CURLcode code)
{
    if (code == CURLE_OPERATION_TIMEDOUT)
        fail_message(c, f, "no whole answer within %" PRId64 " ms",
                     c->bus->base.options.timeout_ms);
    else
        fail_message(c, f, "%s", f->why[0] ? f->why : curl_easy_strerror(code));
    c->blamed[f->message] = true;
    c->failed++;
}

/* What became of a request. */
static void judge(call *c, flight *f, CURLcode code)
{
    long status = 0;

    (void)curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
    if (f->private_address || is_unreachable(code, f)) {
        c->down = true;
        (void)snprintf(c->why, sizeof c->why, "%s",
                       f->private_address ? "the receiver's address is not public "
                                            "(--allow-private lets it be called)"
                       : f->why[0]        ? f->why
                                          : curl_easy_strerror(code));
    } else if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && f->reply_bytes > REPLY_BYTES)) {
        judge_answer(c, f, status);
    } else {
        judge_silence(c, f, code);
    }
    if (c->failed && (c->bus->open || (c->answered == 0 && c->failed >= BREAKER_FAILURES)))
        c->down = true;
}

static void land_all(call *c)
{
    CURLMsg *said;
    int left;

    while ((said = curl_multi_info_read(c->bus->multi, &left)) != NULL) {
        flight *f = NULL;
        CURLcode code = said->data.result;
        if (said->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(said->easy_handle, CURLINFO_PRIVATE, (char **)&f);
        judge(c, f, code);
        (void)curl_multi_remove_handle(c->bus->multi, f->easy);
        f->message = SIZE_MAX;
        c->under_way--;
    }
}

/* Give up what is under way: nobody can say what becomes of it. */
static void give_up(call *c)
{
    for (size_t i = 0; i < c->bus->flight_count; i++) {
        flight *f = &c->bus->flights[i];
        if (f->message == SIZE_MAX)
            continue;
        (void)curl_multi_remove_handle(c->bus->multi, f->easy);
        f->message = SIZE_MAX;
        c->under_way--;
    }
}

static ef_status fly(call *c, ef_error *err)
{
    ef_status st = fill(c, err);
    int running;

    while (st == EF_OK && c->under_way && !ef__bus_stopping(&c->bus->base)) {
        if (curl_multi_perform(c->bus->multi, &running) != CURLM_OK)
            st = ef_fail(err, EF_IO, "requests cannot be made");
        land_all(c);
        if (st == EF_OK)
            st = fill(c, err);
        if (st == EF_OK && c->under_way)
            (void)curl_multi_poll(c->bus->multi, NULL, 0, POLL_MS, NULL);
    }
    give_up(c);
    return st;
}

static ef_status hook_deliver(ef__bus *bus, const ef__bus_message *messages, size_t count,
                              int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                              ef_error *err)
{
    call c = {.bus = (hook_bus *)bus,
              .messages = messages,
              .count = count,
              .outcomes = outcomes,
              .arena = arena,
              .begun = ef__arena_zalloc(arena, count, 1),
              .closed = ef__arena_zalloc(arena, count, 1),
              .blamed = ef__arena_zalloc(arena, count, 1),
              .now_us = now_us,
              .until_us = ef__bus_mono_us(bus) + bus->options.timeout_ms * 1000};
    ef_status st = c.begun && c.closed && c.blamed ? fly(&c, err)
                                                   : ef_fail(err, EF_NO_MEMORY, "memory ran out");

    if (st != EF_OK || !c.down)
        return st;
    for (size_t i = 0; i < count; i++)
        if (c.blamed[i])
            outcomes[i] = (ef__bus_outcome){.verdict = EF__BUS_WAITING};
    c.bus->open = true;
    return ef_fail(err, EF_BUSY, "%s", c.why);
}

/* --- open and close --------------------------------------------------------------------------- */

static void hook_close(ef__bus *bus)
{
    hook_bus *h = (hook_bus *)bus;

    for (size_t i = 0; h->flights && i < h->flight_count; i++) {
        curl_easy_cleanup(h->flights[i].easy);
        curl_slist_free_all(h->flights[i].headers);
        ef__buf_release(&h->flights[i].body);
    }
    (void)curl_multi_cleanup(h->multi);
    free(h->flights);
    ef__bus_release(bus);
    free(h);
}

static const ef__bus_ops hook_ops = {
    .name = "webhook",
    .batch_max = BATCH_MAX,
    .grouped = true,
    .deliver = hook_deliver,
    .close = hook_close,
};

static pthread_once_t ready_once = PTHREAD_ONCE_INIT;

static void ready_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool make_flights(hook_bus *h)
{
    size_t count = h->base.options.in_flight > 0 ? (size_t)h->base.options.in_flight : IN_FLIGHT;

    h->multi = curl_multi_init();
    h->flights = calloc(count, sizeof *h->flights);
    if (!h->multi || !h->flights)
        return false;
    h->flight_count = count;
    for (size_t i = 0; i < count; i++) {
        flight *f = &h->flights[i];
        f->bus = h;
        f->body = (ef__buf)EF__BUF_INIT(EF__BUS_LINE_MAX);
        f->message = SIZE_MAX;
        f->easy = curl_easy_init();
        if (!f->easy)
            return false;
    }
    return true;
}

ef_status ef__bus_webhook_open(const ef__bus_options *options, ef__bus **out, ef_error *err)
{
    hook_bus *h = calloc(1, sizeof *h);
    ef_status st;

    if (!h)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a sink");
    (void)pthread_once(&ready_once, ready_curl);
    st = ef__bus_init(&h->base, &hook_ops, options, err);
    if (st == EF_OK && !make_flights(h))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a sink");
    if (st != EF_OK) {
        hook_close(&h->base);
        return st;
    }
    *out = &h->base;
    return EF_OK;
}
