/*
 * append.c - appends: reads the events of a request, and commits small appends in groups.
 *
 * The response to one event is one object, to an array an array: 201, or 200 if all of them are
 * duplicates.
 *
 * One thread, the committer, appends for all small requests. A thread per append would also work,
 * because appends share commits in the journal. But it costs several thread switches per request,
 * which dominate with many connections. While one batch is being committed, the next one gathers.
 * Large appends go to the pool instead, because they would delay the small ones.
 *
 * Clients tend to send their next request as soon as they are answered, so batches stay
 * synchronised: the network and this thread would take turns, each waiting for the other. If the
 * last commit was fast, a batch starts as soon as it has EARLY_COUNT requests, so that two batches
 * overlap. If it was slow, a commit costs more than such a wait, and all requests of a network
 * round share one.
 *
 * An append that is blocked by an open transaction of another process (on PostgreSQL) stays in the
 * batch and is retried with the following ones for HELD_FOR_US, so that it delays no other append.
 */
#include "request.h"

#include "../base/cloudevent.h"
#include "../base/deadline.h"
#include "../base/incoming.h"
#include "../base/limits.h"
#include "../base/number.h"
#include "../base/same.h"

#define EVENTS_AT_FIRST 4
#define QUEUE_MAX 4096 /* queued requests; further ones get EF_BUSY */
#define BATCH_MAX 256  /* requests per call of the journal */
#define EARLY_COUNT 24 /* requests with which a batch starts before the network round ends */
#define EARLY_US 500   /* a commit up to this, … */
/* … plus this per request, is fast: the network needs less per request */
#define EARLY_EACH_US 20
#define HELD_MAX 16 /* blocked appends: each retry of one delays the others a little */
#define HELD_FOR_US 5000000
#define HELD_PAUSE_US 20000

/* The events of a request, with memory for their places. */
typedef struct append_request {
    ef_new_event *events;
    ef_place *places;
    size_t count;
    size_t capacity;
    bool one;   /* the body is one event: the response is one object */
    bool asked; /* the request was valid and reached the journal */
    bool has_seq, is_traced;
    int64_t seq; /* of the stream before the first event, by If-Match */
    ef_str key;  /* Idempotency-Key */
    ef_new_event defaults;
    ef_status (*take)(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                      ef_new_event *out, ef_error *err);
} append_request;

/* --- CloudEvents in binary mode --------------------------------------------------------------- */

typedef struct header_walk {
    ef__request *r;
    ef__json_writer *w;
    ef_status st;
    ef_error *err;
} header_walk;

/* ce-NAME: VALUE, percent-encoded as the HTTP binding has it. */
static bool take_header(void *context, ef_str name, ef_str value)
{
    header_walk *walk = context;
    char key[65] = "";
    ef_str text = {NULL, 0};

    if (name.len < 3 || strncasecmp(name.ptr, "ce-", 3) != 0 || name.len - 3 >= sizeof(key))
        return true;
    for (size_t i = 3; i < name.len; i++)
        key[i - 3] =
            (char)(name.ptr[i] >= 'A' && name.ptr[i] <= 'Z' ? name.ptr[i] + 32 : name.ptr[i]);
    walk->st = ef__request_decode(walk->r, value, false, &text, walk->err);
    ef__json_member_str(walk->w, key, text);
    return walk->st == EF_OK;
}

/* Converts it to structured mode. */
static ef_status read_binary_cloudevent(ef__request *r, ef_str *out, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(EF_LIMIT_LINE_BYTES);
    ef__json_writer w = EF__JSON_WRITER(&text);
    header_walk walk = {r, &w, EF_OK, err};
    ef_str content = ef__request_header(r, "Content-Type");
    /* By itself first: it must be one value, or it would add attributes to those of the headers. */
    ef_status st = r->body.len > 0
                       ? ef__json_check(ef__buf_str(&r->body), EF_LIMIT_LINE_BYTES, NULL, err)
                       : EF_OK;

    *out = (ef_str){NULL, 0};
    if (st != EF_OK)
        return st;
    ef__json_open(&w, '{');
    ef__request_each_header(r, take_header, &walk);
    if (content.len > 0)
        ef__json_member_str(&w, "datacontenttype", content);
    if (r->body.len > 0)
        ef__json_member_raw(&w, "data", ef__buf_str(&r->body));
    ef__json_close(&w, '}');
    if (walk.st == EF_OK)
        walk.st = text.failed
                      ? ef_fail(err, EF_TOO_LARGE, "the event is too large")
                      : ef__json_check_envelope(ef__buf_str(&text), EF_LIMIT_LINE_BYTES, NULL, err);
    *out = ef__arena_copy(&r->arena, ef__buf_str(&text));
    ef__buf_release(&text);
    if (walk.st == EF_OK && !out->ptr)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    return walk.st;
}

/* --- headers that change events --------------------------------------------------------------- */

/* If-Match: "5" or 5: the seq before the first event; * (any that exists) is not supported. */
static ef_status read_headers(ef__request *r, append_request *a, ef_error *err)
{
    ef_str text = ef__request_header(r, "If-Match");

    a->key = ef__request_header(r, "Idempotency-Key");
    a->is_traced = ef__request_header(r, "traceparent").len > 0;
    a->has_seq = text.len > 0;
    if (text.len > 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"')
        text = (ef_str){text.ptr + 1, text.len - 2};
    if (a->has_seq && !ef__digits_parse(text, &a->seq))
        return ef_fail(
            err, EF_BAD_INPUT,
            "If-Match is '%.*s'; the seq of the last event is needed, 0 for a new stream",
            EF_STR_ARG(text));
    return EF_OK;
}

/* {"traceparent":…,"tracestate":…} of the headers. */
static ef_status write_trace_meta(ef__request *r, ef_str *out, ef_error *err)
{
    ef_str parent = ef__request_header(r, "traceparent");
    ef_str state = ef__request_header(r, "tracestate");
    EF__AUTO(ef__buf) text = EF__BUF_INIT(4096);
    ef__json_writer w = EF__JSON_WRITER(&text);

    if (ef__trace_id(parent).len == 0)
        return ef_fail(err, EF_BAD_INPUT, "traceparent is '%.*s', which is no trace context",
                       EF_STR_ARG(parent));
    ef__json_open(&w, '{');
    ef__json_member_str(&w, "traceparent", parent);
    if (state.len > 0 && state.len <= 512)
        ef__json_member_str(&w, "tracestate", state);
    ef__json_close(&w, '}');
    *out = ef__arena_copy(&r->arena, ef__buf_str(&text));
    return out->ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
}

/*
 * Idempotency-Key becomes the id of an event without one, so a repeated request is a duplicate.
 *
 * The trace of the request becomes the meta of an event without meta. Not of an event with an id: a
 * client may send it again from another span, and its content must not change then.
 */
static ef_status apply_headers(ef__request *r, const append_request *a, ef_new_event *event,
                               ef_error *err)
{
    ef_expected_seq expected = ef_expect_seq(a->seq + (int64_t)a->count);

    if (a->has_seq) {
        if (event->expected_seq.plus_one != 0 && event->expected_seq.plus_one != expected.plus_one)
            return ef_fail(err, EF_BAD_INPUT, "If-Match and expected_seq say different things");
        event->expected_seq = expected;
    }
    if (a->key.len > 0 && a->count > 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "Idempotency-Key is for one event; give each of several an id");
    if (event->id.len == 0)
        event->id = a->key;
    return a->is_traced && event->id.len == 0 && event->meta.len == 0
               ? write_trace_meta(r, &event->meta, err)
               : EF_OK;
}

/* --- the body --------------------------------------------------------------------------------- */

static ef_status add_event(ef__request *r, append_request *a, ef_str text, ef_error *err)
{
    ef_error why = EF_ERROR_INIT;
    ef_status st;

    if (a->count == EF_LIMIT_APPEND_EVENTS)
        return ef_fail(err, EF_TOO_LARGE, "a request appends at most %d events",
                       EF_LIMIT_APPEND_EVENTS);
    if (a->count == a->capacity) {
        size_t capacity = a->capacity ? 2 * a->capacity : EVENTS_AT_FIRST;
        ef_new_event *grown = realloc(a->events, capacity * sizeof(*grown));
        if (!grown)
            return ef_fail(err, EF_NO_MEMORY, "memory ran out");
        a->events = grown;
        a->capacity = capacity;
    }
    st = a->take(text, &a->defaults, &r->arena, &a->events[a->count], &why);
    if (st == EF_OK && r->who.bound && !ef_str_equal(a->events[a->count].tenant, r->tenant))
        return ef_fail(err, EF_FORBIDDEN, "this token is for another tenant");
    if (st == EF_OK && a->defaults.stream.len > 0 &&
        !ef_str_equal(a->events[a->count].stream, a->defaults.stream))
        st = ef_fail(&why, EF_BAD_INPUT, "stream is '%.*s', but the path says '%.*s'",
                     EF_STR_ARG(a->events[a->count].stream), EF_STR_ARG(a->defaults.stream));
    if (st != EF_OK && a->one)
        return ef_fail(err, st, "%s", why.text);
    if (st != EF_OK)
        return ef_fail(err, st, "event %zu: %s", a->count + 1, why.text);
    st = apply_headers(r, a, &a->events[a->count], err);
    a->count += st == EF_OK;
    return st;
}

/* A JSON array, or one object. The text must be checked before it is walked. */
static ef_status take_json(ef__request *r, append_request *a, ef_error *err)
{
    ef_str text = ef__buf_str(&r->body);
    ef__json_kind kind = EF__JSON_NULL;
    ef_status st = ef__json_check_envelope(text, r->body.max_bytes, &kind, err);
    ef__slice item;
    size_t at = 0;
    bool more = true;

    if (st != EF_OK)
        return st;
    a->one = kind == EF__JSON_OBJECT;
    if (a->one)
        return add_event(r, a, text, err);
    if (kind != EF__JSON_ARRAY)
        return ef_fail(err, EF_BAD_JSON, "the body is neither an event nor an array of them");
    while (st == EF_OK) {
        st = ef__slice_next(text, &at, &r->arena, &item, &more, err);
        if (st != EF_OK || !more)
            break;
        if (item.raw.ptr[0] != '{')
            return ef_fail(err, EF_BAD_JSON, "event %zu is not an object", a->count + 1);
        st = add_event(r, a, item.raw, err);
    }
    return st;
}

/* NDJSON: one event per line; empty lines are skipped. */
static ef_status take_lines(ef__request *r, append_request *a, ef_error *err)
{
    ef_str rest = ef__buf_str(&r->body), line;
    ef_status st = EF_OK;

    while (st == EF_OK && ef__line_next(&rest, &line)) {
        ef_error why = EF_ERROR_INIT;
        ef__json_kind kind = EF__JSON_NULL;
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        if (line.len == 0)
            continue;
        st = ef__json_check_envelope(line, EF_LIMIT_LINE_BYTES, &kind, &why);
        if (st == EF_OK && kind != EF__JSON_OBJECT)
            st = ef_fail(&why, EF_BAD_JSON, "it is not a JSON object");
        st = st == EF_OK ? add_event(r, a, line, err)
                         : ef_fail(err, st, "event %zu: %s", a->count + 1, why.text);
    }
    return st;
}

/* A CloudEvent in binary mode, converted to its structured form. */
static ef_status take_binary(ef__request *r, append_request *a, ef_error *err)
{
    ef_str text;
    ef_status st = read_binary_cloudevent(r, &text, err);

    a->take = ef__cloudevent_parse;
    return st == EF_OK ? add_event(r, a, text, err) : st;
}

static ef_status take_body(ef__request *r, append_request *a, ef_error *err)
{
    ef_str media = ef__request_media(r);

    a->take = ef__event_parse;
    if (ef_str_equal(media, EF_STR("application/x-ndjson")) ||
        ef_str_equal(media, EF_STR("application/ndjson")))
        return take_lines(r, a, err);
    if (ef__request_header(r, "ce-specversion").len > 0) { /* an event in binary mode */
        a->one = true;
        return take_binary(r, a, err);
    }
    if (ef_str_equal(media, EF_STR("application/cloudevents+json")) ||
        ef_str_equal(media, EF_STR("application/cloudevents-batch+json")))
        a->take = ef__cloudevent_parse;
    else if (media.len > 0 && !ef_str_equal(media, EF_STR("application/json")))
        return ef_fail(err, EF_BAD_MEDIA_TYPE,
                       "Content-Type is '%.*s'; application/json, application/x-ndjson or "
                       "application/cloudevents+json is needed",
                       EF_STR_ARG(media));
    return take_json(r, a, err);
}

static void write_places(ef__request *r, const append_request *a)
{
    ef__json_writer w = ef__request_writer(r);
    bool all_known = true;
    char token[EF_TOKEN_MAX];

    ef_token_of(a->events, a->places, a->count, token);
    if (!a->one)
        ef__json_open(&w, '[');
    for (size_t i = 0; i < a->count; i++) {
        ef__append_result placed = ef__append_result_of(&a->events[i], &a->places[i], token);
        ef__shape_write(&w, &ef__shape_append_result, &placed);
        all_known = all_known && a->places[i].duplicate;
    }
    if (!a->one)
        ef__json_close(&w, ']');
    r->status = all_known ? 200 : 201;
}

/* --- the request ------------------------------------------------------------------------------ */

/* Reads the events of the body. Whatever this returns, append_request_end must be called. */
static ef_status append_request_read(ef__request *r, append_request *a, ef_error *err)
{
    ef_status st = ef__request_check_parameters(r, err);

    a->defaults = (ef_new_event){.tenant = r->tenant, .stream = r->parts[0]};
    if (st == EF_OK)
        st = read_headers(r, a, err);
    if (st == EF_OK)
        st = take_body(r, a, err);
    if (st == EF_OK && a->count == 0)
        st = ef_fail(err, EF_BAD_INPUT, "there is no event in the body");
    if (st == EF_OK && !(a->places = calloc(a->count, sizeof(*a->places))))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    a->asked = st == EF_OK;
    return st;
}

/* Counts the append, writes the response and frees the memory. Returns `st`. */
static ef_status append_request_end(ef__request *r, append_request *a, ef_status st,
                                    int64_t began_us)
{
    if (a->asked)
        ef__meter_append(r->server, st, a->places, a->count, ef__server_mono(r->server) - began_us);
    if (st == EF_OK)
        write_places(r, a);
    free(a->events);
    free(a->places);
    return st;
}

ef_status ef__append_events(ef__request *r, ef_error *err)
{
    append_request a = {0};
    int64_t began_us = ef__server_mono(r->server);
    ef_status st = append_request_read(r, &a, err);

    if (st == EF_OK)
        st = ef_engine_append(r->server->options.engine, a.events, a.count, a.places, err);
    return append_request_end(r, &a, st, began_us);
}

/* --- group commit ----------------------------------------------------------------------------- */

/* A request in flight. */
typedef struct append_job {
    ef__request *request;
    append_request appending;
    int64_t began_us;
    bool held;  /* its last attempt was blocked */
    bool tried; /* in this batch */
} append_job;

typedef struct commit_batch {
    append_job jobs[BATCH_MAX];   /* blocked ones first */
    ef_append appends[BATCH_MAX]; /* of the valid requests that are tried now */
    size_t job_of[BATCH_MAX];     /* append -> job */
    size_t count, append_count;
    size_t held_count;
    int64_t tried_us; /* the last attempt of the blocked ones */
} commit_batch;

struct ef__committer {
    ef__service service;
    ef__server *server;
    ef__request *queue[QUEUE_MAX];
    size_t first, count;
    bool waiting;       /* the thread waits for `changed` */
    bool is_fast;       /* the last commit was */
    commit_batch batch; /* only used by the thread */
};

/* Waits for requests, or until blocked appends may be retried. Under the lock. */
static void wait_for_work(ef__committer *c)
{
    c->waiting = true;
    if (c->batch.held_count && c->count == 0) {
        struct timespec until = ef__deadline(CLOCK_MONOTONIC, HELD_PAUSE_US / 1000);
        (void)pthread_cond_timedwait(&c->service.changed, &c->service.lock, &until);
    }
    while (!c->batch.held_count && c->count == 0 && !c->service.ending)
        pthread_cond_wait(&c->service.changed, &c->service.lock);
    c->waiting = false;
}

/* Adds the queued requests after the blocked ones. False: the server stops and nothing is left. */
static bool batch_fill(ef__committer *c, bool is_fast)
{
    commit_batch *batch = &c->batch;

    pthread_mutex_lock(&c->service.lock);
    c->is_fast = is_fast;
    wait_for_work(c);
    for (batch->count = batch->held_count; batch->count < BATCH_MAX && c->count > 0; c->count--) {
        batch->jobs[batch->count++] = (append_job){.request = c->queue[c->first]};
        c->first = (c->first + 1) % QUEUE_MAX;
    }
    pthread_mutex_unlock(&c->service.lock);
    return batch->count > 0;
}

static bool read_request(append_job *job, int64_t now_us)
{
    ef__request *r = job->request;

    job->began_us = now_us;
    r->error.status = append_request_read(r, &job->appending, &r->error);
    return r->error.status == EF_OK;
}

static void batch_read(commit_batch *batch, int64_t now_us)
{
    bool retries = now_us - batch->tried_us >= HELD_PAUSE_US;

    batch->append_count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        append_job *job = &batch->jobs[i];
        job->tried = job->held ? retries : read_request(job, now_us);
        if (!job->tried)
            continue;
        batch->job_of[batch->append_count] = i;
        batch->appends[batch->append_count++] = (ef_append){.events = job->appending.events,
                                                            .count = job->appending.count,
                                                            .out_places = job->appending.places,
                                                            .err = &job->request->error,
                                                            .held = job->held};
    }
    if (retries)
        batch->tried_us = now_us;
}

/* Copies the results of the appends to their jobs. */
static void batch_store_results(commit_batch *batch)
{
    for (size_t i = 0; i < batch->append_count; i++) {
        append_job *job = &batch->jobs[batch->job_of[i]];
        job->request->error.status = batch->appends[i].status;
        job->held = batch->appends[i].held;
    }
}

/* Answers finished requests, and keeps the blocked ones that may still be retried. */
static void batch_respond(commit_batch *batch, int64_t now_us)
{
    ef__request *done[BATCH_MAX];
    size_t done_count = 0;

    batch->held_count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        append_job *job = &batch->jobs[i];
        ef__request *r = job->request;
        if (job->held && now_us - job->began_us < HELD_FOR_US && batch->held_count < HELD_MAX) {
            batch->jobs[batch->held_count++] = *job;
            continue;
        }
        ef__dispatch_end(r, append_request_end(r, &job->appending, r->error.status, job->began_us));
        done[done_count++] = r;
    }
    for (size_t i = 0; i < done_count; i++)
        ef__http_ready(done[i]);
}

static void *committer_run(void *context)
{
    ef__committer *c = context;
    bool is_fast = true;

    while (batch_fill(c, is_fast)) {
        int64_t began_us = ef__server_mono(c->server), ended_us;
        batch_read(&c->batch, began_us);
        ef_engine_append_each(c->server->options.engine, c->batch.appends, c->batch.append_count);
        ended_us = ef__server_mono(c->server);
        is_fast = ended_us - began_us <= EARLY_US + EARLY_EACH_US * (int64_t)c->batch.count;
        batch_store_results(&c->batch);
        batch_respond(&c->batch, ended_us);
    }
    return NULL;
}

/* Releases the lock before the signal, because the woken thread needs it. */
static void unlock_and_wake(ef__committer *c, bool wanted)
{
    bool waits = wanted && c->waiting;

    if (waits)
        c->waiting = false; /* one signal suffices */
    pthread_mutex_unlock(&c->service.lock);
    if (waits)
        pthread_cond_signal(&c->service.changed);
}

bool ef__committer_put(ef__committer *c, ef__request *r)
{
    bool is_queued, early;

    pthread_mutex_lock(&c->service.lock);
    is_queued = c->count < QUEUE_MAX && !c->service.ending;
    if (is_queued)
        c->queue[(c->first + c->count++) % QUEUE_MAX] = r;
    early = c->is_fast && c->count >= EARLY_COUNT;
    unlock_and_wake(c, early);
    return is_queued;
}

void ef__committer_go(ef__committer *c)
{
    pthread_mutex_lock(&c->service.lock);
    unlock_and_wake(c, c->count > 0);
}

ef_status ef__committer_start(ef__server *server, ef_error *err)
{
    ef__committer *c = server->committer = ef__service_new(sizeof *c, err);

    if (!c)
        return EF_NO_MEMORY;
    c->server = server;
    return ef__service_start(&c->service, committer_run, c, "appends", err);
}
