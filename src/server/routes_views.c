/*
 * routes_views.c - reading views: one, by a query, their events and their history.
 */
#include "request.h"

#include "../shape/operation_table.h"

#include <everfold/view.h>

#define VIEW_AROUND_BYTES 320 /* usual size of a view without its data */

static ef_status fix_position(ef__request *r, ef_freshness *f, ef_error *err)
{
    ef_head head = {.position = r->waiting.position};
    char text[EF_TOKEN_MAX];
    ef_status st = EF_OK;

    if (head.position == 0)
        st = ef_journal_head(r->server->options.journal, &head, err);
    if (st != EF_OK || head.position == 0)
        return st;
    r->waiting.position = head.position;
    ef_token_format(head.position, text);
    f->at_least = ef__arena_copy(&r->arena, ef_str_from(text));
    f->current = false;
    return f->at_least.ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
}

/* The token may be a header instead. `current` means the head of the journal when the request
 * arrived, although the handler may run several times: it is replaced by a token of that position.
 * *out_wait_ms: how long the request may wait; the read itself does not. */
static ef_status read_freshness(ef__request *r, ef_freshness *freshness, int64_t *out_wait_ms,
                                ef_error *err)
{
    ef_token token;
    ef_status st = EF_OK;

    *out_wait_ms = freshness->timeout_ms;
    freshness->timeout_ms = 0;

    if (freshness->at_least.len == 0)
        freshness->at_least = ef__request_header(r, "Everfold-Token");
    if (freshness->at_least.len > 0)
        st = ef_token_parse(freshness->at_least, &token, err);
    if (st == EF_OK && freshness->at_least.len > 0 && freshness->current)
        st = ef_fail(err, EF_BAD_INPUT, "at_least and current exclude each other");
    return st == EF_OK && freshness->current ? fix_position(r, freshness, err) : st;
}

/* The views are stale. EF_OK: the request waits without a thread, and the handler runs again. */
static ef_status wait_for_views(ef__request *r, const ef_str *tenant, const ef_freshness *f,
                                int64_t wait_ms, bool all_views, ef_error *err)
{
    int64_t end_us = r->began_us + wait_ms * 1000;
    ef_view_wait *wait = NULL;
    ef_error ignored = EF_ERROR_INIT;

    if (ef__server_mono(r->server) >= end_us ||
        ef_view_wait_open(r->server->options.engine, r->parts[0], tenant, f, all_views, &wait,
                          &ignored) != EF_OK ||
        !ef__waiters_park(r, end_us, 0, wait))
        return EF_TIMEOUT;
    *err = (ef_error)EF_ERROR_INIT;
    return EF_OK;
}

/* Records the wait for freshness. */
static void meter_freshness(ef__request *r, const ef_freshness *f, ef_status st)
{
    if (!r->waiting.parks && (f->at_least.len > 0 || f->current))
        ef__meter_wait(r->server, st, ef__server_mono(r->server) - r->began_us);
}

/* Reads one view with the reader of the network thread. */
static ef_status get_view_at_once(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_view_list *found = &r->server->found;
    ef_status st =
        ef_view_reader_get(r->server->reader, r->parts[0], r->tenant, r->parts[1], found, err);

    if (st == EF_OK) {
        (void)ef__buf_reserve(&r->out, found->items[0].data.len + VIEW_AROUND_BYTES);
        ef__view_write(&w, &found->items[0], found->as_of, -1);
    }
    return st;
}

/* After a read that returned `st`: EF_OK if it succeeded, or if the request is parked. */
static ef_status wait_or_fail(ef__request *r, const ef_str *tenant, const ef_freshness *freshness,
                              int64_t wait_ms, bool all_views, ef_status st, ef_error *err)
{
    if (st == EF_TIMEOUT)
        st = wait_for_views(r, tenant, freshness, wait_ms, all_views, err);
    meter_freshness(r, freshness, st);
    return st;
}

static ef_status get_current_view(ef__request *r, ef__view_request *asked, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_freshness *freshness = &asked->freshness;
    EF__AUTO(ef_view_list) found = {0};
    int64_t wait_ms;
    bool current = freshness->current;
    ef_status st = read_freshness(r, freshness, &wait_ms, err);

    if (st == EF_OK) {
        st = ef_view_get(ef__request_engine(r), asked->projection, asked->tenant, asked->id,
                         freshness, &found, err);
        st = wait_or_fail(r, &r->tenant, freshness, wait_ms, false, st, err);
    }
    if (st == EF_OK && !r->waiting.parks)
        ef__view_write(&w, &found.items[0], found.as_of, current ? found.blocked_streams : -1);
    return st;
}

static ef_status get_past_view(ef__request *r, const ef__view_request *asked, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_view_list) found = {0};
    ef_budget budget = ef__request_budget(r);
    ef_status st = EF_OK;

    if (asked->freshness.at_least.len > 0 || asked->freshness.current ||
        asked->freshness.timeout_ms > 0)
        st = ef_fail(err, EF_BAD_INPUT, "position excludes at_least, current and wait");
    if (st == EF_OK)
        st = ef_view_at(ef__request_engine(r), asked->projection, asked->tenant, asked->id,
                        asked->position, &budget, &found, err);
    if (st == EF_OK)
        ef__view_write(&w, &found.items[0], found.as_of, -1);
    return st;
}

/* With a position, the journal is folded up to there, which takes long. */
static ef_status get_view(ef__request *r, ef_error *err)
{
    ef__view_request asked = {.position = 0};
    ef_status st;

    if (r->at_once) /* http.c found no parameter */
        return get_view_at_once(r, err);
    st = ef__request_read(r, &asked, err);
    if (st != EF_OK)
        return st;
    return asked.position > 0 ? get_past_view(r, &asked, err) : get_current_view(r, &asked, err);
}

static ef_status explain_view(ef__request *r, void *request, ef_error *err)
{
    const ef__view_request *asked = request;
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_budget budget = ef__request_budget(r);
    ef_status st = ef_view_explain(ef__request_engine(r), asked->projection, asked->tenant,
                                   asked->id, (size_t)asked->limit, &budget, &batch, err);

    if (st == EF_OK) {
        ef__request_write(r, batch.events, batch.count);
        if (batch.more)
            ef__request_add_header(r, "Everfold-More", "true");
    }
    return st;
}

static void write_step(ef__json_writer *w, const ef_view_step *step)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_event, step->event);
    ef__json_member_raw(w, "after", step->after);
    ef__json_close(w, '}');
}

/* Folds the journal, and records the view after each of its events. */
static ef_status show_view_history(ef__request *r, void *request, ef_error *err)
{
    const ef__view_request *asked = request;
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_view_past) past = {0};
    ef_budget budget = ef__request_budget(r);
    ef_status st = ef_view_history(ef__request_engine(r), asked->projection, asked->tenant,
                                   asked->id, (size_t)asked->limit, &budget, &past, err);

    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_member_raw(&w, "before", past.before);
        ef__json_member_open(&w, "steps", '[');
        for (size_t i = 0; i < past.count; i++)
            write_step(&w, &past.steps[i]);
        ef__json_close(&w, ']');
        ef__json_member_bool(&w, "more", past.more);
        ef__json_close(&w, '}');
    }
    return st;
}

static ef_status find_views(ef__request *r, void *request, ef_error *err)
{
    ef_view_query *q = request;
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_view_list) found = {0};
    int64_t wait_ms = 0;
    bool current = q->freshness.current;
    ef_status st = ef__request_check_all_tenants(r, q->any_tenant, err);

    q->budget = ef__request_budget(r);
    if (st == EF_OK)
        st = read_freshness(r, &q->freshness, &wait_ms, err);
    if (st == EF_OK) {
        st = ef_view_find(ef__request_engine(r), q, &found, err);
        st = wait_or_fail(r, q->any_tenant ? NULL : &r->tenant, &q->freshness, wait_ms, true, st,
                          err);
    }
    q->freshness.current = current;
    if (st == EF_OK && !r->waiting.parks)
        ef__view_page_write(&w, q, &found, NULL, NULL);
    return st;
}

/* A view by its id without parameters is one read of a store: the network thread answers it. */
const ef__http_route ef__routes_views[] = {
    EF__RUN(get_view, get_view),
    EF__SERVE(explain_view, explain_view),
    EF__SERVE_OPERATION(
        show_view_history, GET, "/v1/views/{projection}/{id}/history", READS(QUERY), "viewHistory",
        "its last changes, and the view after each",
        REQUEST(ef__view_request, TEXT(ef__view_request, projection, "projection", PATH),
                TEXT(ef__view_request, id, "id", PATH), TENANT(ef__view_request, tenant),
                INT(ef__view_request, limit, "limit", QUERY, 1, 1000, .otherwise = 100)),
        ANSWER("ViewPast")),
    EF__SERVE(find_views, find_views),
    {0},
};
