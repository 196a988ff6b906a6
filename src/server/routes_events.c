/*
 * routes_events.c - appending events and reading them.
 *
 * One event answers one object, an array an array: 201, or 200 when all of them were there already.
 */
#include "cloudevent.h"
#include "request.h"

#include "../base/limits.h"
#include "../shape/incoming.h"

#include <stdio.h>
#include <stdlib.h>

#define READ_WAIT_MS_MAX 30000
#define READ_DEFAULT 100

/* --- appending ----------------------------------------------------------------------------------
 */

typedef struct appending {
    ef_new_event *events;
    ef_place *places;
    size_t count, room;
    bool one; /* the body is one event: the answer is one object */
    ef_new_event defaults;
    ef_status (*take)(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                      ef_new_event *out, ef_error *err);
} appending;

static void appending_release(appending *a)
{
    free(a->events);
    free(a->places);
}

static ef_status add_event(ef__request *r, appending *a, ef_str text, ef_error *err)
{
    ef_error why = EF_ERROR_INIT;
    ef_status st;

    if (a->count == EF_LIMIT_APPEND_EVENTS)
        return ef_fail(err, EF_TOO_LARGE, "a request appends at most %d events",
                       EF_LIMIT_APPEND_EVENTS);
    if (a->count == a->room) {
        size_t room = a->room ? 2 * a->room : 16;
        ef_new_event *grown = realloc(a->events, room * sizeof(*grown));
        if (!grown)
            return ef_fail(err, EF_NO_MEMORY, "memory ran out");
        a->events = grown;
        a->room = room;
    }
    st = a->take(text, &a->defaults, &r->arena, &a->events[a->count], &why);
    if (st == EF_OK && r->who.bound && !ef_str_equal(a->events[a->count].tenant, r->tenant)) {
        r->status = 403;
        return ef_fail(err, EF_BAD_INPUT, "this token is for another tenant");
    }
    if (st == EF_OK && a->defaults.stream.len > 0 &&
        !ef_str_equal(a->events[a->count].stream, a->defaults.stream))
        st = ef_fail(&why, EF_BAD_INPUT, "stream is '%.*s', but the path says '%.*s'",
                     EF_STR_ARG(a->events[a->count].stream), EF_STR_ARG(a->defaults.stream));
    if (st != EF_OK && a->one)
        return ef_fail(err, st, "%s", why.text);
    if (st != EF_OK)
        return ef_fail(err, st, "event %zu: %s", a->count + 1, why.text);
    a->count++;
    return EF_OK;
}

/* A JSON array, or one object. The text has to be checked before it is walked. */
static ef_status take_json(ef__request *r, appending *a, ef_error *err)
{
    ef_str text = ef__buf_str(&r->body);
    ef__json_kind kind = EF__JSON_NULL;
    ef_status st = ef__json_check(text, r->body.max_bytes, &kind, err);
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

/* NDJSON: a line an event; empty lines are passed over. */
static ef_status take_lines(ef__request *r, appending *a, ef_error *err)
{
    ef_str rest = ef__buf_str(&r->body);
    ef_status st = EF_OK;

    while (st == EF_OK && rest.len > 0) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        size_t length = end ? (size_t)(end - rest.ptr) : rest.len;
        ef_str line = {rest.ptr, length};
        ef__json_kind kind = EF__JSON_NULL;
        if (length > 0 && line.ptr[length - 1] == '\r')
            line.len--;
        if (line.len > 0) {
            ef_error why = EF_ERROR_INIT;
            st = ef__json_check(line, EF_LIMIT_LINE_BYTES, &kind, &why);
            if (st == EF_OK && kind != EF__JSON_OBJECT)
                st = ef_fail(&why, EF_BAD_JSON, "it is not a JSON object");
            st = st == EF_OK ? add_event(r, a, line, err)
                             : ef_fail(err, st, "event %zu: %s", a->count + 1, why.text);
        }
        rest = (ef_str){rest.ptr + length + (end != NULL), rest.len - length - (end != NULL)};
    }
    return st;
}

/* A CloudEvent whose attributes are headers: made into the object that it stands for. */
static ef_status take_binary(ef__request *r, appending *a, ef_error *err)
{
    ef_str text;
    ef_status st = ef__cloudevent_from_headers(r, &text, err);

    a->take = ef__cloudevent_take;
    return st == EF_OK ? add_event(r, a, text, err) : st;
}

static ef_status take_body(ef__request *r, appending *a, ef_error *err)
{
    ef_str media = ef__request_media(r);

    a->take = ef__event_take;
    if (ef_str_equal(media, EF_STR("application/x-ndjson")) ||
        ef_str_equal(media, EF_STR("application/ndjson")))
        return take_lines(r, a, err);
    if (ef__cloudevent_binary(r)) {
        a->one = true;
        return take_binary(r, a, err);
    }
    if (ef_str_equal(media, EF_STR("application/cloudevents+json")) ||
        ef_str_equal(media, EF_STR("application/cloudevents-batch+json")))
        a->take = ef__cloudevent_take;
    else if (media.len > 0 && !ef_str_equal(media, EF_STR("application/json"))) {
        r->status = 415;
        return ef_fail(err, EF_BAD_INPUT,
                       "Content-Type is '%.*s'; application/json, application/x-ndjson or "
                       "application/cloudevents+json is needed",
                       EF_STR_ARG(media));
    }
    return take_json(r, a, err);
}

/* If-Match: "5" or 5: the seq before the first event; * is any that exists, which we do not have.
 */
static ef_status take_if_match(ef__request *r, appending *a, ef_error *err)
{
    ef_str text = ef__request_header(r, "If-Match");
    int64_t seq = 0;

    if (text.len == 0)
        return EF_OK;
    if (text.len > 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"')
        text = (ef_str){text.ptr + 1, text.len - 2};
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || i > 17)
            return ef_fail(err, EF_BAD_INPUT,
                           "If-Match is '%.*s'; the seq of the last event is "
                           "needed, 0 for a new stream",
                           EF_STR_ARG(text));
        seq = seq * 10 + (text.ptr[i] - '0');
    }
    for (size_t i = 0; i < a->count; i++) {
        int64_t expected = seq + (int64_t)i == 0 ? EF_NO_STREAM : seq + (int64_t)i;
        if (a->events[i].expected_seq != EF_ANY_SEQ && a->events[i].expected_seq != expected)
            return ef_fail(err, EF_BAD_INPUT, "If-Match and expected_seq say different things");
        a->events[i].expected_seq = expected;
    }
    return EF_OK;
}

/* Idempotency-Key is the id of an event that has none: the same again is a duplicate. */
static ef_status take_key(ef__request *r, appending *a, ef_error *err)
{
    ef_str key = ef__request_header(r, "Idempotency-Key");

    if (key.len == 0)
        return EF_OK;
    if (a->count != 1)
        return ef_fail(err, EF_BAD_INPUT,
                       "Idempotency-Key is for one event; give each of several an id");
    if (a->events[0].id.len == 0)
        a->events[0].id = key;
    return EF_OK;
}

/*
 * The caller's trace goes with an event that has no meta of its own. One with an id may be sent
 * again, from another span, and has to be the same then: its trace is for the caller to put in.
 */
static ef_status take_trace(ef__request *r, appending *a, ef_error *err)
{
    ef_str parent = ef__request_header(r, "traceparent");
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && parent.len > 0 && i < a->count; i++)
        if (a->events[i].id.len == 0 && a->events[i].meta.len == 0)
            st = ef__trace_meta(r, &a->events[i].meta, err);
    return st;
}

static void write_places(ef__request *r, const appending *a)
{
    ef__json_writer w = ef__request_writer(r);
    bool all_known = true;

    if (!a->one)
        ef__json_open(&w, '[');
    for (size_t i = 0; i < a->count; i++) {
        ef__placed placed = ef__placed_of(&a->events[i], &a->places[i]);
        ef__shape_write(&w, &ef__shape_placed, &placed);
        all_known = all_known && a->places[i].duplicate;
    }
    if (!a->one)
        ef__json_close(&w, ']');
    r->status = all_known ? 200 : 201;
}

static ef_status append_all(ef__request *r, appending *a, ef_error *err)
{
    int64_t began_us = ef__server_mono(r->server);
    ef_status st = ef_engine_append(r->server->options.engine, a->events, a->count, a->places, err);

    ef__meter_append(r->server, st, a->places, a->count, ef__server_mono(r->server) - began_us);
    return st;
}

static ef_status append(ef__request *r, ef_new_event defaults, ef_error *err)
{
    appending a = {.defaults = defaults};
    ef_status st = ef__request_no_more(r, err);

    a.defaults.tenant = r->tenant;
    if (st == EF_OK)
        st = take_body(r, &a, err);
    if (st == EF_OK && a.count == 0)
        st = ef_fail(err, EF_BAD_INPUT, "there is no event in the body");
    if (st == EF_OK)
        st = take_if_match(r, &a, err);
    if (st == EF_OK)
        st = take_key(r, &a, err);
    if (st == EF_OK)
        st = take_trace(r, &a, err);
    if (st == EF_OK && !(a.places = calloc(a.count, sizeof(*a.places))))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    if (st == EF_OK)
        st = append_all(r, &a, err);
    if (st == EF_OK)
        write_places(r, &a);
    appending_release(&a);
    return st;
}

static ef_status append_to_stream(ef__request *r, ef_error *err)
{
    return append(r, (ef_new_event){.stream = r->parts[0]}, err);
}

static ef_status append_many(ef__request *r, ef_error *err)
{
    return append(r, (ef_new_event){0}, err);
}

/* --- reading ------------------------------------------------------------------------------------
 */

static void write_batch(ef__request *r, const ef_batch *batch)
{
    ef__json_writer w = ef__request_writer(r);
    bool cloud = ef__cloudevent_wanted(r);

    if (cloud)
        r->type = "application/cloudevents-batch+json";
    ef__json_open(&w, '[');
    for (size_t i = 0; i < batch->count; i++)
        if (cloud)
            ef__cloudevent_write(&w, &batch->events[i], NULL);
        else
            ef__shape_write(&w, &ef__shape_event, &batch->events[i]);
    ef__json_close(&w, ']');
}

/* Where the next page begins, as a header: the answer is an array. */
static void add_number_header(ef__request *r, const char *name, int64_t number)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    ef__request_add_header(r, name, ef__arena_copy(&r->arena, ef_str_from(text)).ptr);
}

static ef_status read_stream(ef__request *r, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t from = 1, limit = READ_DEFAULT;
    ef_status st = ef__request_int(r, "from_seq", 1, INT64_MAX, &from, err);

    if (st == EF_OK)
        st = ef__request_int(r, "limit", 1, EF_READ_LIMIT_MAX, &limit, err);
    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_journal_read_stream(r->server->options.journal, r->tenant, r->parts[0], from,
                                    (size_t)limit, &batch, err);
    if (st == EF_OK) {
        write_batch(r, &batch);
        if (batch.more)
            add_number_header(r, "Everfold-Next", batch.events[batch.count - 1].seq + 1);
    }
    ef_batch_release(&batch);
    return st;
}

/* With wait=, an answer without events comes when one was appended, or when the time is over. */
static ef_status wait_for_events(ef__request *r, int64_t after, ef_error *err)
{
    int64_t wait_ms = 0;
    ef_status st = ef__request_duration(r, "wait", READ_WAIT_MS_MAX, &wait_ms, err);

    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st != EF_OK || wait_ms == 0)
        return st;
    st = ef_journal_wait(r->server->options.journal, after, wait_ms, err);
    return st == EF_TIMEOUT ? EF_OK : st;
}

static ef_status read_log_query(ef__request *r, ef_log_query *query, ef_error *err)
{
    int64_t limit = READ_DEFAULT;
    bool all = false;
    ef_status st = ef__request_int(r, "after", 0, INT64_MAX, &query->after, err);

    *query = (ef_log_query){.tenant = r->tenant,
                            .after = query->after,
                            .type = ef__request_text(r, "type"),
                            .out_reached = query->out_reached};
    if (st == EF_OK)
        st = ef__request_int(r, "limit", 1, EF_READ_LIMIT_MAX, &limit, err);
    if (st == EF_OK)
        st = ef__request_bool(r, "all_tenants", &all, err);
    if (st == EF_OK && all && !r->any_tenant)
        st = ef_fail(err, EF_BAD_INPUT, "all_tenants is not for a request of one tenant");
    query->limit = (size_t)limit;
    query->any_tenant = all;
    return st;
}

static ef_status read_log(ef__request *r, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t reached = 0;
    ef_log_query query = {.out_reached = &reached};
    ef_status st = read_log_query(r, &query, err);

    if (st == EF_OK)
        st = wait_for_events(r, query.after, err);
    if (st == EF_OK)
        st = ef_journal_read_log(r->server->options.journal, &query, &batch, err);
    if (st == EF_OK) {
        write_batch(r, &batch);
        add_number_header(r, "Everfold-Next", reached > query.after ? reached : query.after);
        if (batch.more)
            ef__request_add_header(r, "Everfold-More", "true");
    }
    ef_batch_release(&batch);
    return st;
}

static ef_status read_event(ef__request *r, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef__json_writer w = ef__request_writer(r);
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_journal_read_id(r->server->options.journal, r->tenant, r->parts[0], &batch, err);
    if (st == EF_OK && ef__cloudevent_wanted(r)) {
        r->type = "application/cloudevents+json";
        ef__cloudevent_write(&w, &batch.events[0], NULL);
    } else if (st == EF_OK) {
        ef__shape_write(&w, &ef__shape_event, &batch.events[0]);
    }
    ef_batch_release(&batch);
    return st;
}

const ef__route ef__routes_events[] = {
    {"POST", "/v1/streams/{stream}/events", EF__SCOPE_APPEND, EF__ROUTE_BODY, append_to_stream,
     "appendToStream", "append one event, or an array of them, to a stream", NULL, "Append",
     "Placed", 201},
    {"POST", "/v1/events", EF__SCOPE_APPEND, EF__ROUTE_BODY, append_many, "appendMany",
     "append a batch over many streams: all or none", NULL, "AppendMany", "Placed", 201},
    {"GET", "/v1/streams/{stream}/events", EF__SCOPE_READ, 0, read_stream, "readStream",
     "events of a stream by seq", "from_seq:integer limit:integer", NULL, "Events", 0},
    {"GET", "/v1/events", EF__SCOPE_READ, 0, read_log, "readLog", "events by position",
     "after:integer type:string limit:integer all_tenants:boolean wait:duration", NULL, "Events",
     0},
    {"GET", "/v1/events/{id}", EF__SCOPE_READ, 0, read_event, "readEvent", "one event by its id",
     NULL, NULL, "Event", 0},
    {0},
};
