/*
 * sse.c - subscriptions as server-sent events: the routes, and the answer that never ends.
 */
#include "http_priv.h"
#include "hub.h"

#include "../base/number.h"
#include "../shape/operation_table.h"

#define BLOCK_BYTES 16384
#define FIRST_FRAME_MAX 4096 /* a projection's name, escaped, and three numbers */

/* --- the answer ------------------------------------------------------------------------------- */

void ef__http_suspend(void *connection)
{
    MHD_suspend_connection(connection);
}

void ef__http_resume(ef__server *server, void *connection)
{
    MHD_resume_connection(connection);
    ef__loop_wake(server->loop);
}

/* `context` is a follower; NULL: a response to HEAD. */
static ssize_t read_on(void *context, uint64_t at, char *out, size_t max)
{
    int64_t n = context ? ef__follower_read(context, out, max) : -1;

    (void)at;
    return n < 0 ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)n;
}

static void stream_leave(void *context)
{
    ef__follower_leave(context);
}

struct MHD_Response *ef__http_follow(ef__request *r)
{
    struct MHD_Response *response;

    if (r->head) {
        ef__follower_leave(r->follower);
        r->follower = NULL;
    }
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_on,
                                                 r->follower, stream_leave);
    if (response && r->follower)
        ef__follower_attach(r->follower, r->server, r->connection);
    return response;
}

/* --- the routes ------------------------------------------------------------------------------- */

static ef_status copy_text(const char *what, ef_str from, char to[256], ef_error *err)
{
    if (from.len >= 256)
        return ef_fail(err, EF_TOO_LARGE, "%s has more than 255 bytes", what);
    (void)snprintf(to, 256, "%.*s", EF_STR_ARG(from));
    return EF_OK;
}

/* --- events ----------------------------------------------------------------------------------- */

typedef struct follow_request {
    ef_str type;
    int64_t after; /* -1: not given */
} follow_request;

/* Last-Event-ID, or the parameter `after`; without both, the head of the journal. */
static ef_status read_position(ef__request *r, int64_t after, int64_t *out, ef_error *err)
{
    ef_str last = ef__request_header(r, "Last-Event-ID");
    ef_head head = {0};
    ef_status st = EF_OK;

    if (last.len > 0)
        return ef__digits_parse(last, out)
                   ? EF_OK
                   : ef_fail(err, EF_BAD_INPUT, "Last-Event-ID is '%.*s'; a position is needed",
                             EF_STR_ARG(last));
    if (after < 0)
        st = ef_journal_head(r->server->options.journal, &head, err);
    *out = after < 0 ? head.position : after;
    return st;
}

static ef_status follow_events(ef__request *r, void *request, ef_error *err)
{
    const follow_request *asked = request;
    ef__topic_key key = {.kind = EF__TOPIC_EVENTS};
    ef_view_place after = {0};
    ef_status st = copy_text("type", asked->type, key.name, err);

    if (st == EF_OK)
        st = read_position(r, asked->after, &after.number, err);
    if (st == EF_OK)
        st = copy_text("tenant", r->tenant, key.tenant, err);
    return st == EF_OK ? ef__hub_join(r, &key, &after, EF_STR(""), err) : st;
}

/* --- views ------------------------------------------------------------------------------------ */

/* Without a place, following begins here: a refusal is an answer. The first frame says so. */
static ef_status start_views(ef__request *r, const ef__topic_key *key, ef_view_place *place,
                             ef__buf *first, ef_error *err)
{
    EF__AUTO(ef_view_change_list) list = {0};
    ef_status st = ef_view_changes(
        r->server->options.engine,
        &(ef_view_changes_query){.projection = ef_str_from(key->name), .tenant = r->tenant}, place,
        &list, err);

    if (st == EF_OK)
        ef__frame_reset(first, ef_str_from(key->name), place, &list);
    return st == EF_OK && first->failed ? ef_fail(err, EF_NO_MEMORY, "memory ran out") : st;
}

static ef_status join_views(ef__request *r, ef__topic_key *key, ef_error *err)
{
    ef_str last = ef__request_header(r, "Last-Event-ID");
    EF__AUTO(ef__buf) first = EF__BUF_INIT(FIRST_FRAME_MAX);
    ef_view_place place = {0};
    ef_status st = EF_OK;

    if (ef__request_given(r, "after"))
        st = ef_fail(err, EF_BAD_INPUT,
                     "after= is a position, and changes of views have none: leave it out to begin "
                     "now, or go on from an id with the header Last-Event-ID");
    if (st == EF_OK && last.len > 0)
        st = ef_view_place_parse(last, &place, err);
    if (st == EF_OK)
        st = ef__request_check_parameters(r, err);
    if (st == EF_OK)
        st = copy_text("tenant", r->tenant, key->tenant, err);
    if (st == EF_OK && last.len == 0)
        st = start_views(r, key, &place, &first, err);
    if (st == EF_OK)
        st = ef__hub_join(r, key, &place, ef__buf_str(&first), err);
    return st;
}

static ef_status follow_views(ef__request *r, ef_error *err)
{
    ef__topic_key key = {.kind = EF__TOPIC_VIEWS};
    ef_projection_list known = {0};
    ef_status st = ef_projection_ls(r->server->options.engine, r->parts[0], &known, err);

    EF_RELEASE(&known);
    if (st == EF_OK)
        st = copy_text("projection", r->parts[0], key.name, err);
    if (st == EF_OK)
        st = copy_text("view id", r->parts[1], key.id, err);
    return st == EF_OK ? join_views(r, &key, err) : st;
}

#define FOLLOWS(flags) EF__SCOPE_READ, EF__TENANCY_QUERY, EF__ROUTE_STREAM | (flags)

/* Followers of views check their parameters later, because `after` has a message of its own. */
const ef__http_route ef__routes_subscribe[] = {
    EF__SERVE_OPERATION(
        follow_events, GET, "/v1/subscribe/events", FOLLOWS(0), "followEvents",
        "events as they are appended",
        REQUEST(follow_request,
                INT(follow_request, after, "after", QUERY, 0, INT64_MAX - 1, .otherwise = -1),
                TEXT(follow_request, type, "type", QUERY)),
        ANSWER("Stream")),
    EF__RUN_OPERATION(follow_views, GET, "/v1/subscribe/views/{projection}",
                      FOLLOWS(EF__ROUTE_ANY_QUERY), "followViews", "views as they change",
                      ANSWER("Stream")),
    EF__RUN_OPERATION(follow_views, GET, "/v1/subscribe/views/{projection}/{id}",
                      FOLLOWS(EF__ROUTE_ANY_QUERY), "followView", "one view as it changes",
                      ANSWER("Stream")),
    {0},
};
