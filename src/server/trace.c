/*
 * trace.c - spans of requests for OpenTelemetry: OTLP over HTTP, as JSON.
 *
 * Off unless an endpoint is configured; then it costs one comparison per request. If on, a request
 * puts its span into a bounded queue and does not wait; a thread sends the queued spans. If the
 * queue is full, the span is dropped and counted.
 *
 * A request whose traceparent is not sampled has no span.
 *
 * The lock only guards the queue. The thread removes the queued spans under it, and formats and
 * sends them without it.
 */
#include "request.h"

#include "../base/deadline.h"
#include "../base/hash.h"
#include "../base/same.h"

#include <everfold/version.h>

#include <curl/curl.h>

#include <errno.h>
#include <sys/random.h>

#define QUEUE_SPANS 2048
#define BATCH_SPANS 256
#define GATHER_MS 500 /* the longest wait of the first span of a batch */
#define SEND_MS 5000
#define BODY_BYTES_MAX (1 << 20)
#define TRACE_HEX 32
#define SPAN_HEX 16

typedef struct span {
    char trace[TRACE_HEX + 1], id[SPAN_HEX + 1], parent[SPAN_HEX + 1];
    const char *method, *route; /* of the table of routes */
    int64_t began_us, ended_us; /* wall */
    int status;
    int64_t body_bytes, answer_bytes;
} span;

struct ef__tracer {
    ef__service service;
    ef__server *server;
    CURL *curl;
    struct curl_slist *headers;
    span queue[QUEUE_SPANS];
    size_t first, count;
    ef__trace_counts counts; /* under the lock */
};

/* --- spans ------------------------------------------------------------------------------------ */

/* 00-32 digits-16 digits-2 digits, of a version that we know or a later one. */
static bool is_trace_parent(ef_str text)
{
    static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

    if (text.len < sizeof(form) - 1 || text.len > 256)
        return false;
    for (size_t i = 0; i < sizeof(form) - 1; i++) {
        char c = text.ptr[i];
        if (form[i] == '-' ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return true;
}

ef_str ef__trace_id(ef_str parent)
{
    return is_trace_parent(parent) ? (ef_str){parent.ptr + 3, 32} : EF_STR("");
}

static void random_hex(char *out, size_t digits)
{
    uint8_t bytes[TRACE_HEX / 2];

    if (getrandom(bytes, digits / 2, 0) != (ssize_t)(digits / 2))
        memset(bytes, 1, sizeof(bytes)); /* an id of zeros is invalid */
    ef__hex(bytes, digits / 2, out);
}

/* "00-TRACE-SPAN-01". False: the client did not sample the trace. */
static bool take_parent(ef_str parent, span *out)
{
    ef_str trace = ef__trace_id(parent);

    if (trace.len != TRACE_HEX) {
        random_hex(out->trace, TRACE_HEX);
        return true;
    }
    memcpy(out->trace, trace.ptr, TRACE_HEX);
    memcpy(out->parent, parent.ptr + 3 + TRACE_HEX + 1, SPAN_HEX);
    return ((parent.ptr[3 + TRACE_HEX + 1 + SPAN_HEX + 2] - '0') & 1) != 0;
}

static void queue_span(ef__tracer *t, const span *s)
{
    EF__LOCK(&t->service.lock);
    if (t->count < QUEUE_SPANS) {
        t->queue[(t->first + t->count++) % QUEUE_SPANS] = *s;
        if (t->count == 1 || t->count == BATCH_SPANS)
            pthread_cond_signal(&t->service.changed);
    } else {
        t->counts.dropped++;
    }
}

void ef__trace_request(const ef__request *r)
{
    ef__server *server = r->server;
    span s = {.ended_us = 0};

    if (!server->tracer || !take_parent(ef__request_header(r, "traceparent"), &s))
        return;
    random_hex(s.id, SPAN_HEX);
    s.method = r->route ? r->route->method : "_OTHER";
    s.route = r->route ? r->route->pattern : "";
    s.ended_us = ef__server_now(server);
    s.began_us = s.ended_us - (ef__server_mono(server) - r->began_us);
    s.status = r->status ? r->status : 200;
    s.body_bytes = (int64_t)r->body.len;
    s.answer_bytes = r->answer_bytes;
    queue_span(server->tracer, &s);
}

ef__trace_counts ef__tracer_counts(const ef__server *server)
{
    if (!server->tracer)
        return (ef__trace_counts){0};
    EF__LOCK(&server->tracer->service.lock);
    return server->tracer->counts;
}

/* --- as OTLP ---------------------------------------------------------------------------------- */

static void add_attribute(ef__json_writer *w, const char *key, const char *value)
{
    ef__json_printf(w, "{\"key\":\"%s\",\"value\":{\"stringValue\":\"%s\"}}", key, value);
}

/* 64-bit integers are strings in OTLP's JSON. */
static void add_number(ef__json_writer *w, const char *key, int64_t value)
{
    ef__json_printf(w, "{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRId64 "\"}}", key, value);
}

static void write_span(ef__json_writer *w, const span *s)
{
    ef__json_open(w, '{');
    ef__json_member_text(w, "traceId", s->trace);
    ef__json_member_text(w, "spanId", s->id);
    if (s->parent[0])
        ef__json_member_text(w, "parentSpanId", s->parent);
    ef__json_key(w, "name");
    ef__json_printf(w, "\"%s%s%s\"", s->method, s->route[0] ? " " : "", s->route);
    ef__json_member_int(w, "kind", 2); /* a server's */
    ef__json_key(w, "startTimeUnixNano");
    ef__json_printf(w, "\"%" PRId64 "000\"", s->began_us);
    ef__json_key(w, "endTimeUnixNano");
    ef__json_printf(w, "\"%" PRId64 "000\"", s->ended_us);
    ef__json_member_open(w, "attributes", '[');
    add_attribute(w, "http.request.method", s->method);
    add_attribute(w, "http.route", s->route);
    add_number(w, "http.response.status_code", s->status);
    add_number(w, "http.request.body.size", s->body_bytes);
    add_number(w, "http.response.body.size", s->answer_bytes);
    ef__json_close(w, ']');
    ef__json_key(w, "status");
    ef__json_raw(w, s->status >= 500 ? EF_STR("{\"code\":2}") : EF_STR("{}"));
    ef__json_close(w, '}');
}

static void write_batch(const ef__tracer *t, ef__buf *out, const span *spans, size_t count)
{
    const char *name = t->server->options.otlp_service;
    ef__json_writer w = EF__JSON_WRITER(out);

    ef__buf_add_text(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
                          "{\"key\":\"service.name\",\"value\":{\"stringValue\":");
    ef__json_str(&w, ef_str_from(name ? name : "everfold"));
    ef__buf_add_text(out, "}}");
    add_attribute(&w, "service.version", ef_version());
    ef__buf_add_text(out, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"everfold\"},\"spans\":");
    w = (ef__json_writer)EF__JSON_WRITER(out);
    ef__json_open(&w, '[');
    for (size_t i = 0; i < count; i++)
        write_span(&w, &spans[i]);
    ef__json_close(&w, ']');
    ef__buf_add_text(out, "}]}]}");
}

/* --- sending ---------------------------------------------------------------------------------- */

static size_t ignore_response(char *bytes, size_t size, size_t count, void *context)
{
    (void)bytes;
    (void)context;
    return size * count;
}

static bool post_spans(ef__tracer *t, const ef__buf *body)
{
    CURL *curl = t->curl;
    long http = 0;

    curl_easy_reset(curl);
    (void)curl_easy_setopt(curl, CURLOPT_URL, t->server->options.otlp_url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)SEND_MS);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, t->headers);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore_response);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->ptr);
    if (curl_easy_perform(curl) != CURLE_OK)
        return false;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http);
    return http >= 200 && http < 300;
}

static void send_batch(ef__tracer *t, const span *spans, size_t count)
{
    ef__buf body = EF__BUF_INIT(BODY_BYTES_MAX);
    bool sent;

    write_batch(t, &body, spans, count);
    sent = !body.failed && post_spans(t, &body);
    ef__buf_release(&body);
    EF__LOCK(&t->service.lock);
    *(sent ? &t->counts.sent : &t->counts.failed) += (int64_t)count;
}

/* Under the lock: waits for BATCH_SPANS spans, one that is GATHER_MS old, or the server's stop. */
static void wait_for_spans(ef__tracer *t)
{
    struct timespec until;

    while (t->count == 0 && !t->service.ending)
        pthread_cond_wait(&t->service.changed, &t->service.lock);
    until = ef__deadline(CLOCK_MONOTONIC, GATHER_MS);
    while (t->count < BATCH_SPANS && !t->service.ending)
        if (pthread_cond_timedwait(&t->service.changed, &t->service.lock, &until) == ETIMEDOUT)
            break;
}

static void *tracer_run(void *context)
{
    static _Thread_local span batch[BATCH_SPANS];
    ef__tracer *t = context;

    pthread_mutex_lock(&t->service.lock);
    while (!t->service.ending || t->count > 0) {
        size_t count = 0;
        wait_for_spans(t);
        for (; count < BATCH_SPANS && t->count > 0; t->count--) {
            batch[count++] = t->queue[t->first];
            t->first = (t->first + 1) % QUEUE_SPANS;
        }
        pthread_mutex_unlock(&t->service.lock);
        if (count > 0)
            send_batch(t, batch, count);
        pthread_mutex_lock(&t->service.lock);
        if (t->service.ending &&
            t->counts.failed > 0) /* the collector is down: do not delay the stop */
            break;
    }
    pthread_mutex_unlock(&t->service.lock);
    return NULL;
}

/* Parses "key=value,key=value" into headers. */
static bool make_headers(ef__tracer *t, const char *list)
{
    struct curl_slist *grown = curl_slist_append(NULL, "Content-Type: application/json");
    ef_str rest = ef_str_from(list ? list : "");
    bool all = grown != NULL;

    t->headers = grown;
    while (all && rest.len > 0) {
        ef_str pair = ef__str_split(&rest, ','), value = pair, key = ef__str_split(&value, '=');
        char line[1024];
        if (key.len < pair.len && snprintf(line, sizeof(line), "%.*s: %.*s", EF_STR_ARG(key),
                                           EF_STR_ARG(value)) < (int)sizeof(line)) {
            grown = curl_slist_append(t->headers, line);
            t->headers = grown ? grown : t->headers;
            all = grown != NULL;
        }
    }
    return all;
}

ef_status ef__tracer_start(ef__server *server, ef_error *err)
{
    const char *url = server->options.otlp_url;
    ef__tracer *t;

    if (!url)
        return EF_OK;
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return ef_fail(err, EF_BAD_INPUT, "the collector of traces is '%s'; http://… is needed",
                       url);
    t = server->tracer = ef__service_new(sizeof *t, err);
    if (!t)
        return EF_NO_MEMORY;
    t->server = server;
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    t->curl = curl_easy_init();
    if (!t->curl || !make_headers(t, server->options.otlp_headers))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    return ef__service_start(&t->service, tracer_run, t, "traces", err);
}

void ef__tracer_stop(ef__server *server)
{
    ef__tracer *t = server->tracer;

    if (!t)
        return;
    ef__service_stop(t);
    server->tracer = NULL;
    curl_slist_free_all(t->headers);
    curl_easy_cleanup(t->curl);
    ef__service_free(t);
}
