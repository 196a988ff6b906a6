/*
 * routes_publishers.c - publishers and the rows in their lanes.
 *
 * A publisher names files of this machine and hosts to connect to. Creating one therefore needs
 * scope admin, and its files must be in directories that the settings name.
 */
#include "request.h"

#include <everfold/publisher.h>

#define SINKS_MAX 64 /* publishers of a process */

/* State of the sink in the worker of this process; null if another process publishes. */
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
    ef__json_member_text(w, "state", ef_name_of(EF_NAMES_PUBLISHER_STATE, is[i].state));
    ef__json_member_int(w, "published", is[i].published);
    ef__json_member_name(
        w, "error", ef_str_from(is[i].state == EF_PUBLISHER_RETRYING ? is[i].last_error.text : ""));
    ef__json_close(w, '}');
}

static ef_status write_publisher(ef__request *r, ef__json_writer *w, const ef_publisher *p,
                                 ef_error *err)
{
    ef_journal *journal = ef__request_journal(r);
    ef_outbox_query query = {.lane = p->name, .any_tenant = true};
    EF__AUTO(ef_outbox_summary) rows = {0};
    int64_t kept = 0;
    ef_status st = ef_outbox_summarise(journal, &query, &rows, err);

    if (st == EF_OK)
        st = ef_published_count(journal, p->name, EF_PUBLISHED_COUNTED, &kept, err);
    if (st == EF_OK) {
        ef__json_open(w, '{');
        ef__shape_members(w, &ef__shape_publisher, p);
        ef__shape_members(w, &ef__shape_summary, &rows);
        ef__json_member_int(w, "kept", kept);
        ef__json_key(w, "sink");
        write_sink(r, w, p->name);
        ef__json_close(w, '}');
    }
    return st;
}

static ef_status list_publishers(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_publisher_list) list = {0};
    ef_status st = ef_publisher_ls(ef__request_journal(r), NULL, &list, err);

    if (st == EF_OK)
        ef__json_open(&w, '[');
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        st = write_publisher(r, &w, &list.items[i], err);
    if (st == EF_OK)
        ef__json_close(&w, ']');
    return st;
}

static ef_status show_publisher(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_publisher_list) list = {0};
    ef_status st = ef_publisher_ls(ef__request_journal(r), &r->parts[0], &list, err);

    if (st == EF_OK)
        st = write_publisher(r, &w, &list.items[0], err);
    return st;
}

static ef_status set_publisher(ef__request *r, void *request, ef_error *err)
{
    const ef__server_options *options = &r->server->options;
    ef_publisher *p = request;
    ef_status st;

    if (p->retry_ms == 0)
        p->retry_ms = options->publish_retry_ms;
    if (p->attempts_max < 0)
        p->attempts_max = options->publish_attempts;
    p->retain_ms = p->retain_ms < 0 ? 0 : p->retain_ms == 0 ? EF_RETAIN_NONE : p->retain_ms;
    st = ef_publisher_confine(p, options->publish_directories, err);
    if (st == EF_OK)
        st = ef_publisher_set(options->journal, p, err);
    if (st == EF_OK)
        st = ef__request_note(r, "publisher_set", p->name, EF_STR(""), err);
    return st == EF_OK ? show_publisher(r, err) : st;
}

static ef_status remove_publisher(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    int64_t rows = 0;
    ef_status st =
        ef_publisher_remove(ef__request_journal(r), asked->name, asked->flag, &rows, err);

    if (st == EF_OK)
        st = ef__request_note(r, "publisher_remove", asked->name, asked->reason, err);
    if (st == EF_OK)
        ef__request_write_count(r, "discarded", rows);
    return st;
}

/* Pauses, or resumes, by the operation. */
static ef_status set_paused(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    bool paused = r->route == &ef__op_pause_publisher;
    ef_status st = ef_publisher_pause(ef__request_journal(r), asked->name, paused, err);

    if (st == EF_OK)
        st = ef__request_note(r, paused ? "publisher_pause" : "publisher_resume", asked->name,
                              asked->reason, err);
    return st == EF_OK ? show_publisher(r, err) : st;
}

const ef__http_route ef__routes_publishers[] = {
    EF__SERVE(pause_publisher, set_paused),
    EF__SERVE(resume_publisher, set_paused),
    EF__RUN(show_publisher, show_publisher),
    EF__SERVE(set_publisher, set_publisher),
    EF__SERVE(remove_publisher, remove_publisher),
    EF__RUN(list_publishers, list_publishers),
    {0},
};
