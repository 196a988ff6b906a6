/*
 * routes_publishers.c - publishers: which there are and what waits for them, one more, and the end
 * of one. A publisher names files of this machine and hosts that it may reach, so making one is for
 * administrators, and files have to be in directories that the settings name.
 */
#include "request.h"

#include <everfold/publisher.h>

#define SINKS_MAX 64 /* publishers of a process */

/* How its sink is, as the worker of this process has it; null when another process publishes. */
static void write_sink(ef__request *r, ef__json_writer *w, ef_str name)
{
    ef_engine *engine = r->server->options.engine;
    ef_publisher_health *is = ef__arena_zalloc(&r->arena, SINKS_MAX, sizeof(*is));
    size_t count = is && engine ? ef_engine_publishers(engine, is, SINKS_MAX) : 0;
    size_t i = 0;

    count = count < SINKS_MAX ? count : SINKS_MAX;
    while (i < count && !ef_str_equal(ef_str_from(is[i].name), name))
        i++;
    if (i == count) {
        ef__json_null(w);
        return;
    }
    ef__json_open(w, '{');
    ef__json_key(w, "state");
    ef__json_str(w, ef_str_from(ef_publisher_state_name(is[i].state)));
    ef__json_key(w, "published");
    ef__json_int(w, is[i].published);
    ef__json_key(w, "error");
    if (is[i].state == EF_PUBLISHER_RETRYING)
        ef__json_str(w, ef_str_from(is[i].last_error.text));
    else
        ef__json_null(w);
    ef__json_close(w, '}');
}

static ef_status write_publisher(ef__request *r, ef__json_writer *w, const ef_publisher *p,
                                 ef_error *err)
{
    ef_journal *journal = r->server->options.journal;
    ef_outbox_query query = {.lane = p->name, .any_tenant = true};
    ef_outbox_summary rows = {0};
    int64_t kept = 0;
    ef_status st = ef_outbox_summarise(journal, &query, &rows, err);

    if (st == EF_OK)
        st = ef_published_count(journal, p->name, EF_PUBLISHED_COUNTED, &kept, err);
    if (st == EF_OK) {
        ef__json_open(w, '{');
        ef__shape_members(w, &ef__shape_publisher, p);
        ef__shape_members(w, &ef__shape_summary, &rows);
        ef__json_key(w, "kept");
        ef__json_int(w, kept);
        ef__json_key(w, "sink");
        write_sink(r, w, p->name);
        ef__json_close(w, '}');
    }
    ef_row_list_release(&rows.oldest);
    return st;
}

static ef_status list_publishers(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_publisher_list list = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_publisher_ls(r->server->options.journal, &list, err);
    if (st == EF_OK)
        ef__json_open(&w, '[');
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        st = write_publisher(r, &w, &list.items[i], err);
    if (st == EF_OK)
        ef__json_close(&w, ']');
    ef_publisher_list_release(&list);
    return st;
}

static ef_status answer_publisher(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_publisher_list list = {0};
    ef_status st = ef_publisher_get(r->server->options.journal, r->parts[0], &list, err);

    if (st == EF_OK)
        st = write_publisher(r, &w, &list.items[0], err);
    ef_publisher_list_release(&list);
    return st;
}

static ef_status show_publisher(ef__request *r, ef_error *err)
{
    ef_status st = ef__request_no_more(r, err);

    return st == EF_OK ? answer_publisher(r, err) : st;
}

static ef_status read_texts(const ef__json *body, ef_publisher *out, ef_error *err)
{
    ef_status st = ef__member_text(body, "url", true, &out->url, err);

    if (st == EF_OK)
        st = ef__member_text(body, "types", false, &out->types, err);
    if (st == EF_OK)
        st = ef__member_text(body, "partition_by", false, &out->partition_by, err);
    if (st == EF_OK)
        st = ef__member_text(body, "secret", false, &out->secret, err);
    if (st == EF_OK)
        st = ef__member_bool(body, "allow_private", &out->allow_private, err);
    return st == EF_OK ? ef__member_bool(body, "paused", &out->paused, err) : st;
}

/* retain_ms 0 keeps nothing; left out, it is the sink's default. */
static ef_status read_numbers(const ef__json *body, ef_publisher *out, ef_error *err)
{
    int64_t retain_ms = -1, files = 0, flight = 0;
    ef_status st =
        ef__member_int(body, "retry_ms", false, 1, INT64_MAX / 1000, &out->retry_ms, err);

    if (st == EF_OK)
        st = ef__member_int(body, "attempts_max", false, 0, INT32_MAX, &out->attempts_max, err);
    if (st == EF_OK)
        st = ef__member_int(body, "retain_ms", false, 0, INT64_MAX / 1000, &retain_ms, err);
    if (st == EF_OK)
        st = ef__member_int(body, "timeout_ms", false, 1, INT64_MAX / 1000, &out->timeout_ms, err);
    if (st == EF_OK)
        st = ef__member_int(body, "file_bytes", false, 0, INT64_MAX / 2, &out->file_bytes, err);
    if (st == EF_OK)
        st = ef__member_int(body, "file_count", false, 0, 10000, &files, err);
    if (st == EF_OK)
        st = ef__member_int(body, "in_flight", false, 0, 256, &flight, err);
    out->retain_ms = retain_ms > 0 ? retain_ms : retain_ms == 0 ? EF_RETAIN_NONE : 0;
    out->file_count = (int32_t)files;
    out->in_flight = (int32_t)flight;
    return st;
}

static ef_status set_publisher(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef_publisher p = {.name = r->parts[0]};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef__request_object(r, &body, err);
    if (st == EF_OK)
        st = ef__members_only(body,
                              "url,types,partition_by,retry_ms,attempts_max,retain_ms,timeout_ms,"
                              "file_bytes,file_count,in_flight,secret,allow_private,paused",
                              err);
    if (st == EF_OK)
        st = read_texts(body, &p, err);
    p.retry_ms = r->server->options.publish_retry_ms;
    p.attempts_max = r->server->options.publish_attempts;
    if (st == EF_OK)
        st = read_numbers(body, &p, err);
    if (st == EF_OK)
        st = ef_publisher_confine(&p, r->server->options.publish_directories, err);
    if (st == EF_OK)
        st = ef_publisher_set(r->server->options.journal, &p, err);
    if (st == EF_OK)
        st = ef__request_note(r, "publisher_set", p.name, EF_STR(""), err);
    return st == EF_OK ? answer_publisher(r, err) : st;
}

static ef_status remove_publisher(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_str reason = ef__request_text(r, "reason");
    bool discard = false;
    int64_t rows = 0;
    ef_status st = ef__request_bool(r, "discard", &discard, err);

    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_publisher_remove(r->server->options.journal, r->parts[0], discard, &rows, err);
    if (st == EF_OK)
        st = ef__request_note(r, "publisher_remove", r->parts[0], reason, err);
    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_key(&w, "discarded");
        ef__json_int(&w, rows);
        ef__json_close(&w, '}');
    }
    return st;
}

static ef_status set_paused(ef__request *r, bool paused, ef_error *err)
{
    const ef__json *body = NULL;
    ef_str reason = {NULL, 0};
    ef_status st = ef__request_reason(r, "reason", &body, &reason, err);

    if (st == EF_OK)
        st = ef_publisher_pause(r->server->options.journal, r->parts[0], paused, err);
    if (st == EF_OK)
        st = ef__request_note(r, paused ? "publisher_pause" : "publisher_resume", r->parts[0],
                              reason, err);
    return st == EF_OK ? answer_publisher(r, err) : st;
}

static ef_status pause_publisher(ef__request *r, ef_error *err)
{
    return set_paused(r, true, err);
}

static ef_status resume_publisher(ef__request *r, ef_error *err)
{
    return set_paused(r, false, err);
}

const ef__http_route ef__routes_publishers[] = {
    {"POST", "/v1/publishers/{name}:pause", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND, EF__ROUTE_BODY,
     pause_publisher, "pausePublisher", "stop delivering; events queue up", NULL, "Note",
     "Publisher", 0},
    {"POST", "/v1/publishers/{name}:resume", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND, EF__ROUTE_BODY,
     resume_publisher, "resumePublisher", "go on delivering", NULL, "Note", "Publisher", 0},
    {"GET", "/v1/publishers/{name}", EF__SCOPE_READ, EF__TENANCY_UNBOUND, 0, show_publisher,
     "showPublisher", "one publisher, and what waits in its lane", NULL, NULL, "Publisher", 0},
    {"PUT", "/v1/publishers/{name}", EF__SCOPE_ADMIN, EF__TENANCY_UNBOUND, EF__ROUTE_BODY,
     set_publisher, "setPublisher", "make or change a publisher", NULL, "NewPublisher", "Publisher",
     0},
    {"DELETE", "/v1/publishers/{name}", EF__SCOPE_ADMIN, EF__TENANCY_UNBOUND, 0, remove_publisher,
     "removePublisher", "end a publisher", "discard:boolean reason:string", NULL, "Discarded", 0},
    {"GET", "/v1/publishers", EF__SCOPE_READ, EF__TENANCY_UNBOUND, 0, list_publishers,
     "listPublishers", "publishers, and what waits in their lanes", NULL, NULL, "Publishers", 0},
    {0},
};
