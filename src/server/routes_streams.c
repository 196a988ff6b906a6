/*
 * routes_streams.c - streams and their heads.
 */
#include "request.h"

#include "../shape/operation_table.h"

typedef struct streams_request {
    ef_str name, tenant, after;
    bool any_tenant;
    size_t limit;
} streams_request;

static ef_status list_streams(ef__request *r, void *request, ef_error *err)
{
    const streams_request *asked = request;
    ef__json_writer w = ef__request_writer(r);
    ef_stream_list found = {0};
    ef_status st = ef_stream_ls(ef__request_journal(r), asked->tenant, asked->any_tenant,
                                asked->after, asked->limit, &found, err);

    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_key(&w, "streams");
        ef__shape_write_array(&w, &ef__shape_stream, NULL, found.items, found.count);
        ef__json_member_name(&w, "next", ef_str_from(found.next));
        ef__json_close(&w, '}');
    }
    ef_stream_list_release(&found);
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

static const ef__input list_inputs[] = {
    TEXT(streams_request, after, "after", QUERY),
    INT(streams_request, limit, "limit", QUERY, 1, 10000, .otherwise = 100),
    TENANT(streams_request, tenant),
    ANY_TENANT(streams_request, any_tenant),
    END,
};

static const ef__input show_inputs[] = {
    TEXT(streams_request, name, "stream", PATH),
    TENANT(streams_request, tenant),
    END,
};

const ef__http_route ef__routes_streams[] = {
    EF__SERVE_OPERATION(list_streams, GET, "/v1/streams", READS(QUERY), "listStreams",
                        "streams, in the order of their first event",
                        REQUEST(list_inputs, streams_request), ANSWER("Streams")),
    EF__SERVE_OPERATION(show_stream, GET, "/v1/streams/{stream}", READS(QUERY), "showStream",
                        "the last event of a stream", REQUEST(show_inputs, streams_request),
                        ANSWER("StreamHead")),
    {0},
};
