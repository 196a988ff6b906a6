/*
 * routes_streams.c - which streams there are.
 */
#include "request.h"

#define STREAMS_DEFAULT 100

static ef_status list_streams(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_stream_list found = {0};
    int64_t limit = STREAMS_DEFAULT;
    ef_str after = ef__request_text(r, "after");
    ef_status st = ef__request_int(r, "limit", 1, 10000, &limit, err);

    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_stream_ls(r->server->options.journal, r->tenant, r->any_tenant, after,
                          (size_t)limit, &found, err);
    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_key(&w, "streams");
        ef__json_open(&w, '[');
        for (size_t i = 0; i < found.count; i++)
            ef__shape_write(&w, &ef__shape_stream, &found.items[i]);
        ef__json_close(&w, ']');
        ef__json_key(&w, "next");
        if (found.next[0])
            ef__json_str(&w, ef_str_from(found.next));
        else
            ef__json_null(&w);
        ef__json_close(&w, '}');
    }
    ef_stream_list_release(&found);
    return st;
}

static ef_status show_stream(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_stream stream = {.tenant = r->tenant, .name = r->parts[0]};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_stream_head(r->server->options.journal, r->tenant, r->parts[0], &stream.seq,
                            &stream.position, err);
    if (st == EF_OK && stream.seq == 0)
        st = ef_fail(err, EF_NOT_FOUND, "there is no stream '%.*s'", EF_STR_ARG(r->parts[0]));
    if (st == EF_OK)
        ef__shape_write(&w, &ef__shape_stream, &stream);
    return st;
}

const ef__http_route ef__routes_streams[] = {
    {"GET", "/v1/streams", EF__SCOPE_READ, EF__TENANCY_QUERY, 0, list_streams, "listStreams",
     "streams, in the order of their first event", "after:string limit:integer", NULL, "Streams",
     0},
    {"GET", "/v1/streams/{stream}", EF__SCOPE_READ, EF__TENANCY_QUERY, 0, show_stream, "showStream",
     "where a stream ends", NULL, NULL, "StreamHead", 0},
    {0},
};
