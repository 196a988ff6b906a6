/*
 * append.c - see the header.
 */
#include "append.h"

#include "cloudevent.h"

#include "../base/limits.h"
#include "../base/incoming.h"

#include <stdlib.h>

#define EVENTS_AT_FIRST 4

static ef_status add_event(ef__request *r, ef__append_request *a, ef_str text, ef_error *err)
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
    a->count++;
    return EF_OK;
}

/* A JSON array, or one object. The text must be checked before it is walked. */
static ef_status take_json(ef__request *r, ef__append_request *a, ef_error *err)
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
static ef_status take_lines(ef__request *r, ef__append_request *a, ef_error *err)
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
            st = ef__json_check_envelope(line, EF_LIMIT_LINE_BYTES, &kind, &why);
            if (st == EF_OK && kind != EF__JSON_OBJECT)
                st = ef_fail(&why, EF_BAD_JSON, "it is not a JSON object");
            st = st == EF_OK ? add_event(r, a, line, err)
                             : ef_fail(err, st, "event %zu: %s", a->count + 1, why.text);
        }
        rest = (ef_str){rest.ptr + length + (end != NULL), rest.len - length - (end != NULL)};
    }
    return st;
}

/* A CloudEvent in binary mode, converted to its structured form. */
static ef_status take_binary(ef__request *r, ef__append_request *a, ef_error *err)
{
    ef_str text;
    ef_status st = ef__cloudevent_from_headers(r, &text, err);

    a->take = ef__cloudevent_parse;
    return st == EF_OK ? add_event(r, a, text, err) : st;
}

static ef_status take_body(ef__request *r, ef__append_request *a, ef_error *err)
{
    ef_str media = ef__request_media(r);

    a->take = ef__event_parse;
    if (ef_str_equal(media, EF_STR("application/x-ndjson")) ||
        ef_str_equal(media, EF_STR("application/ndjson")))
        return take_lines(r, a, err);
    if (ef__cloudevent_binary(r)) {
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

/* If-Match: "5" or 5: the seq before the first event; * (any that exists) is not supported. */
static ef_status take_if_match(ef__request *r, ef__append_request *a, ef_error *err)
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
        ef_expected_seq expected = ef_expect_seq(seq + (int64_t)i);
        if (ef_seq_is_expected(a->events[i].expected_seq) &&
            a->events[i].expected_seq.plus_one != expected.plus_one)
            return ef_fail(err, EF_BAD_INPUT, "If-Match and expected_seq say different things");
        a->events[i].expected_seq = expected;
    }
    return EF_OK;
}

/* Idempotency-Key becomes the id of an event without one, so a repeated request is a duplicate. */
static ef_status take_key(ef__request *r, ef__append_request *a, ef_error *err)
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
 * Stores the trace of the request in the meta of an event without meta. Not for an event with an
 * id: a client may send it again from another span, and its content must not change then.
 */
static ef_status take_trace(ef__request *r, ef__append_request *a, ef_error *err)
{
    ef_str parent = ef__request_header(r, "traceparent");
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && parent.len > 0 && i < a->count; i++)
        if (a->events[i].id.len == 0 && a->events[i].meta.len == 0)
            st = ef__trace_meta(r, &a->events[i].meta, err);
    return st;
}

static void write_places(ef__request *r, const ef__append_request *a)
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

ef_status ef__append_request_read(ef__request *r, ef__append_request *a, ef_error *err)
{
    ef_status st = ef__request_check_parameters(r, err);

    a->defaults = (ef_new_event){.tenant = r->tenant, .stream = r->parts[0]};
    if (st == EF_OK)
        st = take_body(r, a, err);
    if (st == EF_OK && a->count == 0)
        st = ef_fail(err, EF_BAD_INPUT, "there is no event in the body");
    if (st == EF_OK)
        st = take_if_match(r, a, err);
    if (st == EF_OK)
        st = take_key(r, a, err);
    if (st == EF_OK)
        st = take_trace(r, a, err);
    if (st == EF_OK && !(a->places = calloc(a->count, sizeof(*a->places))))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    a->asked = st == EF_OK;
    return st;
}

ef_status ef__append_request_end(ef__request *r, ef__append_request *a, ef_status st,
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
