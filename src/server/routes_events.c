/*
 * routes_events.c - reading events, streams and event types.
 */
#include "request.h"

#include "../base/cloudevent.h"
#include "../shape/operation_table.h"
#include "serves.h"

#define CLOUDEVENTS "application/cloudevents"

/* Whether the client asks for CloudEvents. */
static bool wants_cloudevents(const ef__request *r)
{
    ef_str accept = ef__request_header(r, "Accept");

    return accept.len > 0 &&
           memmem(accept.ptr, accept.len, CLOUDEVENTS, strlen(CLOUDEVENTS)) != NULL;
}

static void write_batch(ef__request *r, const ef_batch *batch)
{
    ef__json_writer w = ef__request_writer(r);
    bool cloud = wants_cloudevents(r);

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

/* The start of the next page is a header, because the response is an array. */
static void add_number_header(ef__request *r, const char *name, int64_t number)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    ef__request_add_header(r, name, ef__arena_copy(&r->arena, ef_str_from(text)).ptr);
}

static ef_status read_stream(ef__request *r, void *request, ef_error *err)
{
    const ef__stream_request *asked = request;
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_stream(ef__request_journal(r), asked->tenant, asked->stream,
                                          asked->from_seq, asked->limit, &batch, err);

    if (st == EF_OK) {
        write_batch(r, &batch);
        if (batch.more)
            add_number_header(r, "Everfold-Next", batch.events[batch.count - 1].seq + 1);
    }
    return st;
}

/* With a wait, an empty page is delayed until an event is appended, or the time is over. */
static ef_status wait_for_events(ef__request *r, const ef__log_request *asked, ef_error *err)
{
    ef_head head = {0};
    ef_status st;

    if (asked->wait_ms == 0 || r->waiting.began_us)
        return EF_OK;
    st = ef_journal_head(ef__request_journal(r), &head, err);
    if (st == EF_OK && head.position <= asked->query.after)
        (void)ef__waiters_park(r, r->began_us + asked->wait_ms * 1000, asked->query.after, NULL);
    return st;
}

static ef_status read_log(ef__request *r, void *request, ef_error *err)
{
    const ef__log_request *asked = request;
    ef_log_query query = asked->query;
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    int64_t reached = 0;
    ef_status st = ef__request_check_all_tenants(r, query.any_tenant, err);

    query.out_reached = &reached;
    if (st == EF_OK)
        st = wait_for_events(r, asked, err);
    if (st == EF_OK && r->waiting.parks)
        return EF_OK;
    if (st == EF_OK)
        st = ef_journal_read_log(ef__request_journal(r), &query, &batch, err);
    if (st == EF_OK) {
        write_batch(r, &batch);
        add_number_header(r, "Everfold-Next", reached > query.after ? reached : query.after);
        if (batch.more)
            ef__request_add_header(r, "Everfold-More", "true");
    }
    return st;
}

static ef_status read_event(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef__json_writer w = ef__request_writer(r);
    ef_status st =
        ef_journal_read_id(ef__request_journal(r), asked->tenant, asked->name, &batch, err);

    if (st == EF_OK && wants_cloudevents(r)) {
        r->type = "application/cloudevents+json";
        ef__cloudevent_write(&w, &batch.events[0], NULL);
    } else if (st == EF_OK) {
        ef__shape_write(&w, &ef__shape_event, &batch.events[0]);
    }
    return st;
}

/* --- streams ---------------------------------------------------------------------------------- */

typedef struct streams_request {
    ef_str name, tenant, after;
    bool any_tenant;
    size_t limit;
} streams_request;

static ef_status list_streams(ef__request *r, void *request, ef_error *err)
{
    const streams_request *asked = request;
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_stream_list) found = {0};
    ef_status st = ef_stream_ls(ef__request_journal(r), asked->tenant, asked->any_tenant,
                                asked->after, asked->limit, &found, err);

    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_key(&w, "streams");
        ef__shape_write_array(&w, &ef__shape_stream, NULL, found.items, found.count);
        ef__json_member_name(&w, "next", ef_str_from(found.next));
        ef__json_close(&w, '}');
    }
    return st;
}

static ef_status show_stream(ef__request *r, void *request, ef_error *err)
{
    const streams_request *asked = request;
    ef__json_writer w = ef__request_writer(r);
    ef_stream stream = {.tenant = asked->tenant, .name = asked->name};
    ef_status st = ef_stream_head(ef__request_journal(r), asked->tenant, asked->name, &stream.seq,
                                  &stream.position, err);

    if (st == EF_OK && stream.seq == 0)
        st = ef_fail(err, EF_NOT_FOUND, "there is no stream '%.*s'", EF_STR_ARG(asked->name));
    if (st == EF_OK)
        ef__shape_write(&w, &ef__shape_stream, &stream);
    return st;
}

/* --- types ------------------------------------------------------------------------------------ */

static ef_status read_type(ef__request *r, ef__type_request *out, ef_error *err)
{
    ef_status st = ef__request_read(r, out, err);
    int intent;

    if (st != EF_OK || out->intent.len == 0)
        return st;
    intent = ef_name_find(EF_NAMES_INTENT, out->intent);
    if (intent < 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "intent is '%.*s'; there are projection_and_replay, replay_only, audit_only",
                       EF_STR_ARG(out->intent));
    out->type.intent = (ef_intent)intent;
    return EF_OK;
}

/* Members that the body does not have keep their values. */
static ef_status set_type(ef__request *r, ef_error *err)
{
    ef__type_request asked = {.intent = {NULL, 0}};
    EF__AUTO(ef_type_list) types = {0};
    ef_status st = ef_type_ls(ef__request_journal(r), &r->parts[0], &types, err);

    if (st == EF_OK)
        asked.type = types.items[0];
    if (st == EF_OK || st == EF_NOT_FOUND)
        st = read_type(r, &asked, err);
    if (st == EF_OK)
        st = ef_type_set(ef__request_journal(r), &asked.type, err);
    return st == EF_OK ? ef__serve_show_type(r, err) : st;
}

const ef__http_route ef__routes_events[] = {
    EF__RUN(append_to_stream, ef__append_events),
    EF__RUN(append_many, ef__append_events),
    EF__SERVE(read_stream, read_stream),
    EF__SERVE(read_log, read_log),
    EF__SERVE(read_event, read_event),
    EF__LISTED(list_types),
    EF__LISTED(show_type),
    EF__RUN(set_type, set_type),
    EF__SERVE_OPERATION(
        list_streams, GET, "/v1/streams", READS(QUERY), "listStreams",
        "streams, in the order of their first event",
        REQUEST(streams_request, TEXT(streams_request, after, "after", QUERY),
                INT(streams_request, limit, "limit", QUERY, 1, 10000, .otherwise = 100),
                TENANT(streams_request, tenant), ANY_TENANT(streams_request, any_tenant)),
        ANSWER("Streams")),
    EF__SERVE_OPERATION(show_stream, GET, "/v1/streams/{stream}", READS(QUERY), "showStream",
                        "the last event of a stream",
                        REQUEST(streams_request, TEXT(streams_request, name, "stream", PATH),
                                TENANT(streams_request, tenant)),
                        ANSWER("StreamHead")),
    {0},
};
