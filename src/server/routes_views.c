/*
 * routes_views.c - reading views: one, many, why, and as of then.
 */
#include "request.h"

#include <everfold/view.h>

#define WAIT_MAX_MS 30000
#define EXPLAIN_DEFAULT 1000
#define HISTORY_DEFAULT 100
#define VIEW_AROUND_BYTES 320 /* what usually stands around a view's data: one piece of memory */

/* at_least=TOKEN or current, and wait=500ms; the token may come as a header too. */
static ef_status read_freshness(ef__request *r, ef_freshness *out, ef_error *err)
{
    ef_token token;
    ef_status st;

    *out = (ef_freshness){.at_least = ef__request_text(r, "at_least")};
    if (out->at_least.len == 0)
        out->at_least = ef__request_header(r, "Everfold-Token");
    st = ef__request_bool(r, "current", &out->current, err);
    if (st == EF_OK)
        st = ef__request_duration(r, "wait", WAIT_MAX_MS, &out->timeout_ms, err);
    if (st == EF_OK && out->at_least.len > 0)
        st = ef_token_parse(out->at_least, &token, err);
    if (st == EF_OK && out->at_least.len > 0 && out->current)
        st = ef_fail(err, EF_BAD_INPUT, "at_least and current exclude each other");
    return st;
}

/* What `current` asks for is where the journal ended when the request came, however often its
 * handler runs: it becomes a token of that position. */
static ef_status fix_position(ef__request *r, ef_freshness *f, ef_error *err)
{
    ef_head head = {.position = r->waiting.position};
    char text[EF_TOKEN_MAX];
    ef_status st = EF_OK;

    if (!f->current)
        return EF_OK;
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

/* A read that came too early: EF_OK when it waits, without a thread, and is made again. */
static ef_status wait_for_views(ef__request *r, const ef_str *tenant, const ef_freshness *f,
                                int64_t wait_ms, bool all_views, ef_error *err)
{
    int64_t end_us = r->began_us + wait_ms * 1000;
    ef_view_wait *wait = NULL;
    ef_error vain = EF_ERROR_INIT;

    if (ef__server_mono(r->server) >= end_us ||
        ef_view_wait_open(r->server->options.engine, r->parts[0], tenant, f, all_views, &wait,
                          &vain) != EF_OK ||
        !ef__waiters_park(r, end_us, 0, wait))
        return EF_TIMEOUT;
    *err = (ef_error)EF_ERROR_INIT;
    return EF_OK;
}

/* How long freshness took, where it was asked for. */
static void meter(ef__request *r, const ef_freshness *f, ef_status st)
{
    if (!r->waiting.parks && (f->at_least.len > 0 || f->current))
        ef__meter_wait(r->server, st, ef__server_mono(r->server) - r->began_us);
}

/* One view, whatever it is like: with all others of this round of the network. */
static ef_status get_view_at_once(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_view_list *found = &r->server->found;
    ef_status st =
        ef_view_reader_get(r->server->reader, r->parts[0], r->tenant, r->parts[1], found, err);

    if (st == EF_OK) {
        (void)ef__buf_reserve(&r->out, found->items[0].data.len + VIEW_AROUND_BYTES);
        ef__view_write(&w, &found->items[0], found->as_of);
    }
    return st;
}

static ef_status get_view(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_freshness freshness;
    ef_view_list found = {0};
    int64_t wait_ms;
    bool current;
    ef_status st = read_freshness(r, &freshness, err);

    current = freshness.current;
    wait_ms = freshness.timeout_ms;
    freshness.timeout_ms = 0;
    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = fix_position(r, &freshness, err);
    if (st == EF_OK) {
        st = ef_view_get(r->server->options.engine, r->parts[0], r->tenant, r->parts[1], &freshness,
                         &found, err);
        if (st == EF_TIMEOUT)
            st = wait_for_views(r, &r->tenant, &freshness, wait_ms, false, err);
        meter(r, &freshness, st);
    }
    if (st == EF_OK && !r->waiting.parks)
        ef__view_write_found(&w, &found, current);
    ef_view_list_release(&found);
    return st;
}

static ef_status get_view_at(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_view_list found = {0};
    int64_t position = 0;
    ef_budget budget = ef__request_budget(r);
    ef_status st = ef__request_int(r, "position", 1, INT64_MAX, &position, err);

    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_view_at(r->server->options.engine, r->parts[0], r->tenant, r->parts[1], position,
                        &budget, &found, err);
    if (st == EF_OK)
        ef__view_write(&w, &found.items[0], found.as_of);
    ef_view_list_release(&found);
    return st;
}

/* ?position= asks for the past, which folds the journal anew and takes its time. */
static ef_status get_view_now_or_then(ef__request *r, ef_error *err)
{
    if (r->at_once) /* dispatch has seen that nothing is asked for */
        return get_view_at_once(r, err);
    return ef__request_given(r, "position") ? get_view_at(r, err) : get_view(r, err);
}

static ef_status explain_view(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_batch batch = EF_BATCH_INIT;
    int64_t limit = EXPLAIN_DEFAULT;
    ef_budget budget = ef__request_budget(r);
    ef_status st = ef__request_int(r, "limit", 1, EF_READ_LIMIT_MAX, &limit, err);

    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_view_explain(r->server->options.engine, r->parts[0], r->tenant, r->parts[1],
                             (size_t)limit, &budget, &batch, err);
    if (st == EF_OK) {
        ef__json_open(&w, '[');
        for (size_t i = 0; i < batch.count; i++)
            ef__shape_write(&w, &ef__shape_event, &batch.events[i]);
        ef__json_close(&w, ']');
        if (batch.more)
            ef__request_add_header(r, "Everfold-More", "true");
    }
    ef_batch_release(&batch);
    return st;
}

static void write_step(ef__json_writer *w, const ef_view_step *step)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_event, step->event);
    ef__json_key(w, "after");
    if (step->after.ptr)
        ef__json_raw(w, step->after);
    else
        ef__json_null(w);
    ef__json_close(w, '}');
}

/* Folds the journal anew, as explain does, and keeps what the view was like behind each event. */
static ef_status view_history(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_view_past past = {0};
    int64_t limit = HISTORY_DEFAULT;
    ef_budget budget = ef__request_budget(r);
    ef_status st = ef__request_int(r, "limit", 1, 1000, &limit, err);

    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_view_history(r->server->options.engine, r->parts[0], r->tenant, r->parts[1],
                             (size_t)limit, &budget, &past, err);
    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_key(&w, "before");
        if (past.before.ptr)
            ef__json_raw(&w, past.before);
        else
            ef__json_null(&w);
        ef__json_key(&w, "steps");
        ef__json_open(&w, '[');
        for (size_t i = 0; i < past.count; i++)
            write_step(&w, &past.steps[i]);
        ef__json_close(&w, ']');
        ef__json_key(&w, "more");
        ef__json_bool(&w, past.more);
        ef__json_close(&w, '}');
    }
    ef_view_past_release(&past);
    return st;
}

static ef_status version_of(ef__request *r, const ef_view_list *found, int32_t *out, ef_error *err)
{
    ef_projection_list projections = {0};
    ef_status st = EF_OK;

    if (found->count > 0) {
        *out = found->items[0].version;
        return EF_OK;
    }
    st = ef_projection_ls(r->server->options.engine, r->parts[0], &projections, err);
    if (st == EF_OK)
        *out = projections.items[0].version;
    ef_projection_list_release(&projections);
    return st;
}

static void write_page(ef__json_writer *w, const ef_view_query *q, const ef_view_list *found,
                       int32_t version)
{
    ef__json_open(w, '{');
    ef__json_key(w, "view_type");
    ef__json_str(w, q->projection);
    ef__json_key(w, "version");
    ef__json_int(w, version);
    if (q->count_only) {
        ef__json_key(w, "count");
        ef__json_int(w, found->total);
    } else {
        ef__json_key(w, "items");
        ef__json_open(w, '[');
        for (size_t i = 0; i < found->count; i++)
            ef__view_write(w, &found->items[i], found->as_of);
        ef__json_close(w, ']');
        ef__json_key(w, "next");
        if (found->next.len > 0)
            ef__json_str(w, found->next);
        else
            ef__json_null(w);
    }
    ef__json_key(w, "as_of");
    ef__json_int(w, found->as_of);
    if (q->freshness.current)
        ef__blocked_write(w, found);
    if (q->explain) {
        ef__json_key(w, "plan");
        ef__json_str(w, found->plan);
        ef__json_key(w, "looked");
        ef__json_int(w, found->looked);
    }
    ef__json_close(w, '}');
}

static ef_status find_views(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_view_list found = {0};
    int64_t limit = 0, wait_ms;
    int32_t version = 0;
    bool current;
    ef_view_query q = {.projection = r->parts[0],
                       .tenant = r->tenant,
                       .where = ef__request_text(r, "where"),
                       .sort = ef__request_text(r, "sort"),
                       .fields = ef__request_text(r, "fields"),
                       .after = ef__request_text(r, "after"),
                       .budget = ef__request_budget(r)};
    ef_status st = ef__request_int(r, "limit", 1, 10000, &limit, err);

    q.limit = (size_t)limit;
    if (st == EF_OK)
        st = ef__request_all_tenants(r, &q.any_tenant, err);
    if (st == EF_OK)
        st = ef__request_bool(r, "count", &q.count_only, err);
    if (st == EF_OK)
        st = ef__request_bool(r, "explain", &q.explain, err);
    if (st == EF_OK)
        st = read_freshness(r, &q.freshness, err);
    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    current = q.freshness.current;
    wait_ms = q.freshness.timeout_ms;
    q.freshness.timeout_ms = 0;
    if (st == EF_OK)
        st = fix_position(r, &q.freshness, err);
    if (st == EF_OK) {
        st = ef_view_find(r->server->options.engine, &q, &found, err);
        if (st == EF_TIMEOUT)
            st = wait_for_views(r, q.any_tenant ? NULL : &r->tenant, &q.freshness, wait_ms, true,
                                err);
        meter(r, &q.freshness, st);
    }
    q.freshness.current = current;
    if (st == EF_OK && !r->waiting.parks)
        st = version_of(r, &found, &version, err);
    if (st == EF_OK && !r->waiting.parks)
        write_page(&w, &q, &found, version);
    ef_view_list_release(&found);
    return st;
}

/* A view by its id, as it is, is one look at a store: it is answered at once. What has to wait, or
 * asks for the past, goes to the pool; dispatch looks at the parameters. */
const ef__http_route ef__routes_views[] = {
    {"GET", "/v1/views/{projection}/{id}", EF__SCOPE_READ, EF__TENANCY_QUERY, EF__ROUTE_QUICK_PLAIN,
     get_view_now_or_then, "getView", "one view; position: as it was then",
     "at_least:string current:boolean wait:duration position:integer", NULL, "View", 0},
    {"GET", "/v1/views/{projection}/{id}/explain", EF__SCOPE_READ, EF__TENANCY_QUERY, 0,
     explain_view, "explainView", "the events that made a view", "limit:integer", NULL, "Events",
     0},
    {"GET", "/v1/views/{projection}/{id}/history", EF__SCOPE_READ, EF__TENANCY_QUERY, 0,
     view_history, "viewHistory", "its last changes, and what it was like then", "limit:integer",
     NULL, "ViewPast", 0},
    {"GET", "/v1/views/{projection}", EF__SCOPE_READ, EF__TENANCY_QUERY, 0, find_views, "findViews",
     "views by filter, sort and page",
     "where:string sort:string limit:integer after:string fields:string all_tenants:boolean "
     "count:boolean explain:boolean at_least:string current:boolean wait:duration",
     NULL, "Views", 0},
    {0},
};
