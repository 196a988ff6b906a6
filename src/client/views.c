/*
 * views.c - reading views.
 */
#include "client_priv.h"

#include <inttypes.h>
#include <stdio.h>

#define WAIT_MS_MAX 30000
#define EXPORT_PAGE 1000

static void begin_path(ef__client_call *call, ef_str projection, ef_str id)
{
    ef__client_call_path(call, "/v1/views/");
    ef__client_call_name(call, projection);
    if (id.len > 0) {
        ef__client_call_path(call, "/");
        ef__client_call_name(call, id);
    }
}

static void add_freshness(ef__client_call *call, const ef_freshness *f)
{
    char wait[32];

    if (!f)
        return;
    call->wait_ms = f->timeout_ms < WAIT_MS_MAX ? f->timeout_ms : WAIT_MS_MAX;
    (void)snprintf(wait, sizeof(wait), "%" PRId64 "ms", call->wait_ms);
    ef__client_call_text(call, "at_least", f->at_least);
    ef__client_call_flag(call, "current", f->current);
    ef__client_call_text(call, "wait", call->wait_ms > 0 ? ef_str_from(wait) : EF_STR(""));
}

static int64_t member_int(const ef__json *answer, const char *key)
{
    const ef__json *found = ef__json_get(answer, key);
    int64_t number = 0;

    return found && ef__json_int64(found, &number) == 0 ? number : 0;
}

static ef_str member_text(const ef__json *answer, const char *key)
{
    const ef__json *found = ef__json_get(answer, key);

    return found && found->kind == EF__JSON_STRING ? found->text : EF_STR("");
}

/* Reads a response that is one view. */
static ef_status read_view(ef_client *client, ef__client_call *call, ef_view_list *out,
                           ef_error *err)
{
    const ef__json *answer = NULL;
    ef_view *view = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    if (st == EF_OK)
        st = ef__client_call_json(client, call, &out->room->arena, &answer, err);
    if (st == EF_OK && !(view = ef__arena_zalloc(&out->room->arena, 1, sizeof(*view))))
        st = ef__no_memory(err);
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_view, view, err);
    out->items = view;
    out->count = st == EF_OK ? 1 : 0;
    out->as_of = member_int(answer, "as_of");
    out->blocked_streams = member_int(answer, "blocked_streams");
    ef__client_call_release(call);
    return st;
}

ef_status ef_client_view_get(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                             const ef_freshness *freshness, ef_view_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", tenant);

    begin_path(&call, projection, id);
    add_freshness(&call, freshness);
    return read_view(client, &call, out, err);
}

ef_status ef_client_view_at(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                            int64_t position, ef_view_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", tenant);

    begin_path(&call, projection, id);
    ef__client_call_int(&call, "position", position);
    return read_view(client, &call, out, err);
}

ef_status ef_client_view_find(ef_client *client, const ef_view_query *query, ef_view_list *out,
                              ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", query->tenant);
    const ef__json *answer = NULL;
    const void *items = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    begin_path(&call, query->projection, EF_STR(""));
    ef__client_call_flag(&call, "all_tenants", query->any_tenant);
    ef__client_call_text(&call, "where", query->where);
    ef__client_call_text(&call, "sort", query->sort);
    ef__client_call_text(&call, "fields", query->fields);
    ef__client_call_int(&call, "limit", (int64_t)query->limit);
    ef__client_call_text(&call, "after", query->after);
    ef__client_call_flag(&call, "count", query->count_only);
    ef__client_call_flag(&call, "explain", query->explain);
    add_freshness(&call, &query->freshness);
    out->count = 0;
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = ef__items_read(ef__json_get(answer, "items"), &ef__shape_view, NULL, &out->room->arena,
                            &items, &out->count, err);
    out->items = items;
    out->next = member_text(answer, "next");
    out->as_of = member_int(answer, "as_of");
    out->blocked_streams = member_int(answer, "blocked_streams");
    out->total = member_int(answer, "count");
    out->looked = member_int(answer, "looked");
    out->plan = member_text(answer, "plan");
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_view_explain(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                                 size_t limit, ef_batch *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", tenant);
    const ef__json *answer = NULL;
    const void *items = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    begin_path(&call, projection, id);
    ef__client_call_path(&call, "/explain");
    ef__client_call_int(&call, "limit", (int64_t)limit);
    out->count = 0;
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = ef__items_read(answer, &ef__shape_event, NULL, &out->room->arena, &items, &out->count,
                            err);
    out->events = items;
    out->more = call.more;
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_view_export(ef_client *client, ef_str projection, ef_str tenant,
                                bool any_tenant, bool (*each)(void *context, const ef_view *view),
                                void *context, int64_t *out_as_of, ef_error *err)
{
    ef_view_list page = {0}, before = {0};
    ef_view_query query = {.projection = projection,
                           .tenant = any_tenant ? EF_STR("") : tenant,
                           .any_tenant = any_tenant,
                           .limit = EXPORT_PAGE};
    bool go_on = true, first = true;
    ef_status st = EF_OK;

    while (st == EF_OK && go_on) {
        st = ef_client_view_find(client, &query, &page, err);
        if (st == EF_OK && first && out_as_of)
            *out_as_of = page.as_of;
        first = false;
        for (size_t i = 0; st == EF_OK && go_on && i < page.count; i++)
            go_on = each(context, &page.items[i]);
        go_on = go_on && page.next.len > 0;
        query.after = page.next; /* lives in this page: copied before the next page is read */
        ef_view_list last = before;
        before = page;
        page = last;
    }
    ef_view_list_release(&page);
    ef_view_list_release(&before);
    return st;
}
