/*
 * routes_events.c - appending and reading events.
 *
 * Small appends are committed together by committer.c.
 */
#include "append.h"
#include "cloudevent.h"
#include "request.h"

#include <stdio.h>

static ef_status append_events(ef__request *r, ef_error *err)
{
    ef__append_request a = {0};
    int64_t began_us = ef__server_mono(r->server);
    ef_status st = ef__append_request_read(r, &a, err);

    if (st == EF_OK)
        st = ef_engine_append(r->server->options.engine, a.events, a.count, a.places, err);
    return ef__append_request_end(r, &a, st, began_us);
}

/* --- reading ---------------------------------------------------------------------------------- */

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
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_stream(ef__request_journal(r), asked->tenant, asked->stream,
                                          asked->from_seq, asked->limit, &batch, err);

    if (st == EF_OK) {
        write_batch(r, &batch);
        if (batch.more)
            add_number_header(r, "Everfold-Next", batch.events[batch.count - 1].seq + 1);
    }
    ef_batch_release(&batch);
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
    ef_batch batch = EF_BATCH_INIT;
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
    ef_batch_release(&batch);
    return st;
}

static ef_status read_event(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    ef_batch batch = EF_BATCH_INIT;
    ef__json_writer w = ef__request_writer(r);
    ef_status st =
        ef_journal_read_id(ef__request_journal(r), asked->tenant, asked->name, &batch, err);

    if (st == EF_OK && ef__cloudevent_wanted(r)) {
        r->type = "application/cloudevents+json";
        ef__cloudevent_write(&w, &batch.events[0], NULL);
    } else if (st == EF_OK) {
        ef__shape_write(&w, &ef__shape_event, &batch.events[0]);
    }
    ef_batch_release(&batch);
    return st;
}

const ef__http_route ef__routes_events[] = {
    EF__RUN(append_to_stream, append_events), EF__RUN(append_many, append_events),
    EF__SERVE(read_stream, read_stream),      EF__SERVE(read_log, read_log),
    EF__SERVE(read_event, read_event),        {0},
};
