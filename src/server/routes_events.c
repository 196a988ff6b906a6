/*
 * routes_events.c - appending events and reading them.
 *
 * Appends that are small do not come here: they are taken together (committer.c).
 */
#include "append.h"
#include "cloudevent.h"
#include "request.h"

#include "../base/limits.h"

#include <stdio.h>

#define READ_WAIT_MS_MAX 30000
#define READ_DEFAULT 100

static ef_status append(ef__request *r, ef_error *err)
{
    ef__append_request a = {0};
    int64_t began_us = ef__server_mono(r->server);
    ef_status st = ef__append_request_read(r, &a, err);

    if (st == EF_OK)
        st = ef_engine_append(r->server->options.engine, a.events, a.count, a.places, err);
    return ef__append_request_end(r, &a, st, began_us);
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
    ef_head head = {0};
    int64_t wait_ms = 0;
    ef_status st = ef__request_duration(r, "wait", READ_WAIT_MS_MAX, &wait_ms, err);

    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st != EF_OK || wait_ms == 0 || r->waiting.began_us)
        return st;
    st = ef_journal_head(r->server->options.journal, &head, err);
    if (st == EF_OK && head.position <= after)
        (void)ef__waiters_park(r, r->began_us + wait_ms * 1000, after, NULL);
    return st;
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
        st = ef__request_all_tenants(r, &all, err);
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
    if (st == EF_OK && r->waiting.parks)
        return EF_OK;
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

const ef__http_route ef__routes_events[] = {
    {"POST", "/v1/streams/{stream}/events", EF__SCOPE_APPEND, EF__TENANCY_QUERY,
     EF__ROUTE_BODY | EF__ROUTE_APPEND, append, "appendToStream",
     "append one event, or an array of them, to a stream", NULL, "Append", "Placed", 201},
    {"POST", "/v1/events", EF__SCOPE_APPEND, EF__TENANCY_QUERY, EF__ROUTE_BODY | EF__ROUTE_APPEND,
     append, "appendMany", "append a batch over many streams: all or none", NULL, "AppendMany",
     "Placed", 201},
    {"GET", "/v1/streams/{stream}/events", EF__SCOPE_READ, EF__TENANCY_QUERY, 0, read_stream,
     "readStream", "events of a stream by seq", "from_seq:integer limit:integer", NULL, "Events",
     0},
    {"GET", "/v1/events", EF__SCOPE_READ, EF__TENANCY_QUERY, 0, read_log, "readLog",
     "events by position",
     "after:integer type:string limit:integer all_tenants:boolean wait:duration", NULL, "Events",
     0},
    {"GET", "/v1/events/{id}", EF__SCOPE_READ, EF__TENANCY_QUERY, 0, read_event, "readEvent",
     "one event by its id", NULL, NULL, "Event", 0},
    {0},
};
