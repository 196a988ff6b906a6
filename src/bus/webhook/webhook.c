/*
 * webhook.c - the webhook sink: each message is the body of a signed POST.
 *
 * Several requests are in flight, one of each group. A response is a verdict on its message: 2xx is
 * a delivery, 3xx and 4xx fail the message, and neither says anything about the receiver. No
 * response, 429 and 5xx are failures of the receiver. When it fails several messages of different
 * groups in a row, or cannot be connected to, it is unavailable: the breaker opens, the failures do
 * not count against their messages, and from then on a call tries one message, another one each
 * time, until one gets a response. Messages that were refused before keep their verdict.
 *
 * Redirects are not followed, proxies of the environment are not used, a response is read up to
 * REPLY_BYTES, and only public addresses are connected to unless others are
 * allowed.
 */
#include "../bus.h"

#include "../../base/cloudevent.h"
#include "../../base/hash.h"

#include <everfold/version.h>

#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH_MAX 256            /* messages of a call: they are claimed while it runs */
#define IN_FLIGHT 8              /* requests: polite to a small receiver */
#define REPLY_BYTES (64u * 1024) /* bodies are not used: enough to reuse the connection */
#define BREAKER_FAILURES 5       /* of the receiver, of different groups, without a response */
#define POLL_MS 100              /* how fast a stop is noticed */
#define STOP_US 1000000          /* after it, how long responses are waited for */
#define ERROR_BYTES 200          /* of a stored error */
#define KEY_MAX 4096             /* bytes: far more than a key of HMAC-SHA256 needs */
#define KEY_PREFIX "whsec_"
#define META_ARENA (1024u * 1024) /* the tree of an event's meta, several times its 64 KiB */

typedef struct hook_bus hook_bus;

/* A request. */
typedef struct hook_request {
    hook_bus *bus;
    CURL *easy;
    struct curl_slist *headers;
    ef__buf body;
    size_t message; /* index; SIZE_MAX: free */
    size_t reply_bytes;
    bool private_address;
    char reason[CURL_ERROR_SIZE];
} hook_request;

struct hook_bus {
    ef__bus base; /* first: an ef__bus * is cast to hook_bus * */
    CURLM *multi;
    hook_request *requests;
    size_t request_count;
    bool breaker_open; /* the breaker: the receiver is unavailable */
    size_t probe;      /* the next message to try while it is open */
};

/* A call of hook_deliver. */
typedef struct hook_call {
    hook_bus *bus;
    const ef__bus_message *messages;
    size_t count;
    ef__bus_outcome *outcomes;
    ef__arena *arena;
    char *sent;   /* per message: sent */
    char *closed; /* per group: one message is in flight, or failed */
    char *blamed; /* per message: it failed because of the receiver */
    size_t next;  /* all messages before it are sent */
    size_t in_flight;
    int answered, failed;     /* verdicts on messages; failures of the receiver */
    int64_t now_us, until_us; /* wall time; monotonic: no request is started after it */
    int64_t cancel_us; /* monotonic: the end of the wait after a stop; 0: no stop was noticed */
    bool down;
    char reason[ERROR_BYTES + CURL_ERROR_SIZE];
} hook_call;

/* --- the address ------------------------------------------------------------------------------ */

static ef_status hook_check(const ef__bus_options *options, ef_error *err)
{
    CURLU *url = curl_url();
    char *text = strndup(options->url.ptr, options->url.len), *user = NULL;
    CURLUcode code = url && text ? curl_url_set(url, CURLUPART_URL, text, 0) : CURLUE_OUT_OF_MEMORY;
    ef_status st = EF_OK;

    if (code == CURLUE_OUT_OF_MEMORY)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    else if (code != CURLUE_OK)
        st = ef_fail(err, EF_BAD_INPUT, "'%s': %s", text, curl_url_strerror(code));
    else if (text[strcspn(text, ":") + 3] == '/') /* libcurl reads the path as the host */
        st = ef_fail(err, EF_BAD_INPUT, "'%s' has no host: use https://HOST/PATH", text);
    else if (curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK)
        st = ef_fail(err, EF_BAD_INPUT,
                     "the address contains a user name or password, and addresses are logged: "
                     "messages are signed with `secret` instead");
    else if (strncmp(text, "https:", 6) != 0 && !options->allow_private)
        st = ef_fail(err, EF_BAD_INPUT,
                     "'%s' is not https: plain http is for receivers in a private network "
                     "(allow_private)",
                     text);
    curl_free(user);
    curl_url_cleanup(url);
    free(text);
    return st;
}

/* Called with the address that is about to be connected to, after the name was resolved. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    hook_request *request = context;

    (void)purpose;
    if (!request->bus->base.options.allow_private &&
        !ef__address_is_public(&address->addr, address->addrlen)) {
        request->private_address = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* --- the signature ---------------------------------------------------------------------------- */

/* Decodes the key; its length, or -1. */
static int key_of(ef_str secret, uint8_t out[KEY_MAX])
{
    size_t prefix = sizeof KEY_PREFIX - 1;

    if (secret.len > KEY_MAX)
        return -1;
    if (secret.len >= prefix && memcmp(secret.ptr, KEY_PREFIX, prefix) == 0)
        return ef__base64_decode((ef_str){secret.ptr + prefix, secret.len - prefix}, out);
    memcpy(out, secret.ptr, secret.len);
    return (int)secret.len;
}

bool ef__webhook_sign(ef_str secret, ef_str id, int64_t time_s, ef_str body,
                      char out[EF__SIGN_TEXT_MAX])
{
    uint8_t key[KEY_MAX], digest[EF_HASH_BYTES];
    EF__AUTO(ef__buf) text = EF__BUF_INIT(body.len + id.len + 64);
    int key_len = key_of(secret, key);
    bool good;

    ef__buf_add_str(&text, id);
    ef__buf_printf(&text, ".%" PRId64 ".", time_s);
    good =
        ef__buf_add_str(&text, body) && key_len > 0 &&
        ef__hmac_sha256((ef_str){(const char *)key, (size_t)key_len}, ef__buf_str(&text), digest);
    if (good) {
        memcpy(out, "v1,", 3);
        ef__base64(digest, sizeof digest, out + 3);
    }
    explicit_bzero(key, sizeof key);
    return good;
}

/* --- a request -------------------------------------------------------------------------------- */

/* Counts the bytes of the response and drops them. Too many end the transfer, not its status. */
static size_t count_response(char *bytes, size_t size, size_t count, void *context)
{
    hook_request *request = context;

    (void)bytes;
    request->reply_bytes += size * count;
    return request->reply_bytes > REPLY_BYTES ? 0 : size * count;
}

__attribute__((format(printf, 2, 3))) static bool add_header(hook_request *request,
                                                             const char *format, ...)
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
    longer = curl_slist_append(request->headers, line);
    if (longer)
        request->headers = longer;
    return longer != NULL;
}

/* Only a valid trace parent: the client that appended the event has set it. */
static bool add_trace(hook_request *request, const ef_event *event)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(META_ARENA);
    ef_str trace = ef__meta_text(event->meta, "traceparent", &arena);
    bool fits = trace.len >= 55 && trace.len <= 256, added = true;

    for (size_t i = 0; i < trace.len; i++)
        fits = fits && (trace.ptr[i] == '-' || (trace.ptr[i] >= '0' && trace.ptr[i] <= '9') ||
                        (trace.ptr[i] >= 'a' && trace.ptr[i] <= 'f'));
    if (fits)
        added = add_header(request, "traceparent: %.*s", EF_STR_ARG(trace));
    return added;
}

static bool add_signature(hook_request *request, const ef_event *event, int64_t now_us)
{
    EF__AUTO(ef__buf) id = EF__BUF_INIT(2048);
    ef_str secret = request->bus->base.options.secret;
    char signature[EF__SIGN_TEXT_MAX];
    int64_t now_s = now_us / 1000000;
    bool good = ef__bus_id(&id, event) && add_header(request, "webhook-id: %s", id.ptr) &&
                add_header(request, "webhook-timestamp: %" PRId64, now_s);

    if (good && secret.len)
        good = ef__webhook_sign(secret, ef__buf_str(&id), now_s, ef__buf_str(&request->body),
                                signature) &&
               add_header(request, "webhook-signature: %s", signature);
    return good;
}

static void set_options(hook_request *request)
{
    CURL *e = request->easy;
    long timeout_ms = (long)request->bus->base.options.timeout_ms;

    curl_easy_reset(e);
    (void)curl_easy_setopt(e, CURLOPT_URL, request->bus->base.options.url.ptr);
    (void)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(e, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    (void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, timeout_ms);
    (void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, request);
    (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, count_response);
    (void)curl_easy_setopt(e, CURLOPT_WRITEDATA, request);
    (void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, request->reason);
    (void)curl_easy_setopt(e, CURLOPT_USERAGENT, "everfold/" EF_VERSION);
    (void)curl_easy_setopt(e, CURLOPT_PRIVATE, request);
    (void)curl_easy_setopt(e, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(e, CURLOPT_POSTFIELDS, request->body.ptr);
    (void)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
    (void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, request->headers);
}

static bool make_request(hook_request *request, const ef__bus_message *message, int64_t now_us)
{
    ef__buf_reset(&request->body);
    curl_slist_free_all(request->headers);
    request->headers = NULL;
    request->reply_bytes = 0;
    request->private_address = false;
    request->reason[0] = '\0';
    if (!ef__bus_write(&request->body, message) ||
        !add_header(request, "Content-Type: application/cloudevents+json; charset=utf-8") ||
        !add_header(request, "Expect:") || !add_signature(request, message->event, now_us) ||
        !add_trace(request, message->event))
        return false;
    set_options(request);
    return true;
}

/* --- a call ----------------------------------------------------------------------------------- */

static bool may_start(const hook_call *call)
{
    return !call->down && ef__bus_mono_us(&call->bus->base) < call->until_us &&
           !ef__bus_stopping(&call->bus->base) && !(call->bus->breaker_open && call->in_flight);
}

/* The next message whose group is free; SIZE_MAX: none. While the breaker is open, only one. */
static size_t next_message(hook_call *call)
{
    if (call->bus->breaker_open &&
        call->answered + call->failed == 0) /* the first message of a group */
        return call->messages[call->bus->probe++ % call->count].group;
    while (call->next < call->count && call->sent[call->next])
        call->next++;
    for (size_t i = call->next; i < call->count; i++)
        if (!call->sent[i] && !call->closed[call->messages[i].group])
            return i;
    return SIZE_MAX;
}

static ef_status start_request(hook_call *call, hook_request *request, size_t message,
                               ef_error *err)
{
    request->message = message;
    if (!make_request(request, &call->messages[message], call->now_us) ||
        curl_multi_add_handle(call->bus->multi, request->easy) != CURLM_OK) {
        request->message = SIZE_MAX;
        return ef_fail(err, EF_NO_MEMORY, "cannot create a request; is the secret valid base64?");
    }
    call->sent[message] = 1;
    call->closed[call->messages[message].group] = 1;
    call->in_flight++;
    return EF_OK;
}

static ef_status start_requests(hook_call *call, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < call->bus->request_count && may_start(call); i++) {
        size_t message;
        if (call->bus->requests[i].message != SIZE_MAX)
            continue;
        message = next_message(call);
        if (message == SIZE_MAX)
            break;
        st = start_request(call, &call->bus->requests[i], message, err);
    }
    return st;
}

/* Did the connection fail? */
static bool is_unreachable(CURLcode code, const hook_request *request)
{
    curl_off_t connected = 0;

    (void)curl_easy_getinfo(request->easy, CURLINFO_CONNECT_TIME_T, &connected);
    return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
           code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION ||
           code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE ||
           (code == CURLE_OPERATION_TIMEDOUT && connected == 0);
}

__attribute__((format(printf, 3, 4))) static void
fail_message(hook_call *call, const hook_request *request, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(call->reason, sizeof call->reason, format, arguments);
    va_end(arguments);
    ef__bus_fail(&call->outcomes[request->message], EF__BUS_FAILED, call->arena, "%s",
                 call->reason);
}

/* Sets the verdict of a response. */
static void judge_response(hook_call *call, hook_request *request, long status)
{
    bool receiver_failed = status == 429 || status >= 500 || status < 200;

    if (status >= 200 && status < 300) {
        call->outcomes[request->message].verdict = EF__BUS_DELIVERED;
        call->closed[call->messages[request->message].group] = 0;
    } else if (status >= 300 && status < 400) {
        fail_message(call, request, "the receiver returned %ld: redirects are not followed",
                     status);
    } else {
        fail_message(call, request, "the receiver returned %ld", status);
    }
    call->blamed[request->message] = receiver_failed;
    call->failed += receiver_failed;
    call->answered += !receiver_failed;
    if (!receiver_failed)
        call->bus->breaker_open = false;
}

static void judge_failure(hook_call *call, hook_request *request, CURLcode code)
{
    if (code == CURLE_OPERATION_TIMEDOUT)
        fail_message(call, request, "no complete response within %" PRId64 " ms",
                     call->bus->base.options.timeout_ms);
    else
        fail_message(call, request, "%s",
                     request->reason[0] ? request->reason : curl_easy_strerror(code));
    call->blamed[request->message] = true;
    call->failed++;
}

/* Sets the verdict of a finished request. */
static void finish_request(hook_call *call, hook_request *request, CURLcode code)
{
    long status = 0;

    (void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    if (request->private_address || is_unreachable(code, request)) {
        call->down = true;
        (void)snprintf(call->reason, sizeof call->reason, "%s",
                       request->private_address ? "the address of the receiver is not public, and "
                                                  "allow_private is not set"
                       : request->reason[0]     ? request->reason
                                                : curl_easy_strerror(code));
    } else if (code == CURLE_OK ||
               (code == CURLE_WRITE_ERROR && request->reply_bytes > REPLY_BYTES)) {
        judge_response(call, request, status);
    } else {
        judge_failure(call, request, code);
    }
    if (call->failed &&
        (call->bus->breaker_open || (call->answered == 0 && call->failed >= BREAKER_FAILURES)))
        call->down = true;
}

static void end_request(hook_call *call, hook_request *request)
{
    (void)curl_multi_remove_handle(call->bus->multi, request->easy);
    request->message = SIZE_MAX;
    call->in_flight--;
}

static void finish_requests(hook_call *call)
{
    CURLMsg *said;
    int left;

    while ((said = curl_multi_info_read(call->bus->multi, &left)) != NULL) {
        hook_request *request = NULL;
        CURLcode code = said->data.result;
        if (said->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(said->easy_handle, CURLINFO_PRIVATE, (char **)&request);
        finish_request(call, request, code);
        end_request(call, request);
    }
}

/* Cancels the requests in flight: their results stay unknown. */
static void cancel_requests(hook_call *call)
{
    for (size_t i = 0; i < call->bus->request_count; i++)
        if (call->bus->requests[i].message != SIZE_MAX)
            end_request(call, &call->bus->requests[i]);
}

/* A message whose response is not waited for is delivered again. */
static bool is_cancelled(hook_call *call)
{
    int64_t now_us = ef__bus_mono_us(&call->bus->base);

    if (ef__bus_stopping(&call->bus->base) && !call->cancel_us)
        call->cancel_us = now_us + STOP_US;
    return call->cancel_us && now_us >= call->cancel_us;
}

static ef_status run_requests(hook_call *call, ef_error *err)
{
    ef_status st = start_requests(call, err);
    int running;

    while (st == EF_OK && call->in_flight && !is_cancelled(call)) {
        if (curl_multi_perform(call->bus->multi, &running) != CURLM_OK)
            st = ef_fail(err, EF_IO, "requests cannot be made");
        finish_requests(call);
        if (st == EF_OK)
            st = start_requests(call, err);
        if (st == EF_OK && call->in_flight)
            (void)curl_multi_poll(call->bus->multi, NULL, 0, POLL_MS, NULL);
    }
    cancel_requests(call);
    return st;
}

static ef_status hook_deliver(ef__bus *bus, const ef__bus_message *messages, size_t count,
                              int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                              ef_error *err)
{
    hook_call call = {.bus = (hook_bus *)bus,
                      .messages = messages,
                      .count = count,
                      .outcomes = outcomes,
                      .arena = arena,
                      .sent = ef__arena_zalloc(arena, count, 1),
                      .closed = ef__arena_zalloc(arena, count, 1),
                      .blamed = ef__arena_zalloc(arena, count, 1),
                      .now_us = now_us,
                      .until_us = ef__bus_mono_us(bus) + bus->options.timeout_ms * 1000};
    ef_status st = call.sent && call.closed && call.blamed
                       ? run_requests(&call, err)
                       : ef_fail(err, EF_NO_MEMORY, "memory ran out");

    if (st != EF_OK || !call.down)
        return st;
    for (size_t i = 0; i < count; i++)
        if (call.blamed[i])
            outcomes[i] = (ef__bus_outcome){.verdict = EF__BUS_WAITING};
    call.bus->breaker_open = true;
    return ef_fail(err, EF_BUSY, "%s", call.reason);
}

/* --- open and close --------------------------------------------------------------------------- */

static void hook_close(ef__bus *bus)
{
    hook_bus *hook = (hook_bus *)bus;

    for (size_t i = 0; hook->requests && i < hook->request_count; i++) {
        curl_easy_cleanup(hook->requests[i].easy);
        curl_slist_free_all(hook->requests[i].headers);
        ef__buf_release(&hook->requests[i].body);
    }
    (void)curl_multi_cleanup(hook->multi);
    free(hook->requests);
    ef__bus_release(bus);
    free(hook);
}

static pthread_once_t ready_once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool create_requests(hook_bus *hook)
{
    size_t count =
        hook->base.options.in_flight > 0 ? (size_t)hook->base.options.in_flight : IN_FLIGHT;

    hook->multi = curl_multi_init();
    hook->requests = calloc(count, sizeof *hook->requests);
    if (!hook->multi || !hook->requests)
        return false;
    hook->request_count = count;
    for (size_t i = 0; i < count; i++) {
        hook_request *request = &hook->requests[i];
        request->bus = hook;
        request->body = (ef__buf)EF__BUF_INIT(EF__BUS_LINE_MAX);
        request->message = SIZE_MAX;
        request->easy = curl_easy_init();
        if (!request->easy)
            return false;
    }
    return true;
}

static ef_status hook_open(ef__bus *bus, ef_error *err)
{
    (void)pthread_once(&ready_once, init_curl);
    return create_requests((hook_bus *)bus)
               ? EF_OK
               : ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a sink");
}

const ef__bus_ops ef__webhook_sink = {
    .name = "webhook",
    .bytes = sizeof(hook_bus),
    .batch_max = BATCH_MAX,
    .grouped = true,
    .spreads = true,
    .check = hook_check,
    .open = hook_open,
    .deliver = hook_deliver,
    .close = hook_close,
};
