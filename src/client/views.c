/*
 * views.c - reading views.
 */
#include "client_priv.h"

#define EXPORT_PAGE 1000

static ef_status read_view(ef_client *client, const ef__view_request *request, ef_view_list *out,
                           ef_error *err)
{
    ef__reply reply;
    ef_status st = EF__OPERATION_LIST(client, &ef__op_get_view, request, out, &reply, err);

    out->as_of = ef__reply_int(reply.json, "as_of");
    out->blocked_streams = ef__reply_int(reply.json, "blocked_streams");
    return st;
}

ef_status ef_client_view_get(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                             const ef_freshness *freshness, ef_view_list *out, ef_error *err)
{
    ef__view_request request = {.projection = projection, .tenant = tenant, .id = id};

    if (freshness)
        request.freshness = *freshness;
    return read_view(client, &request, out, err);
}

ef_status ef_client_view_at(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                            int64_t position, ef_view_list *out, ef_error *err)
{
    ef__view_request request = {
        .projection = projection, .tenant = tenant, .id = id, .position = position};

    return read_view(client, &request, out, err);
}

ef_status ef_client_view_find(ef_client *client, const ef_view_query *query, ef_view_list *out,
                              ef_error *err)
{
    ef__reply reply;
    ef_status st = EF__OPERATION_LIST(client, &ef__op_find_views, query, out, &reply, err);

    out->next = ef__reply_text(reply.json, "next");
    out->as_of = ef__reply_int(reply.json, "as_of");
    out->blocked_streams = ef__reply_int(reply.json, "blocked_streams");
    out->total = ef__reply_int(reply.json, "count");
    out->looked = ef__reply_int(reply.json, "looked");
    out->plan = ef__reply_text(reply.json, "plan");
    return st;
}

ef_status ef_client_view_explain(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                                 size_t limit, ef_batch *out, ef_error *err)
{
    ef__view_request request = {
        .projection = projection, .tenant = tenant, .id = id, .limit = (int64_t)limit};
    ef__reply reply;
    ef_status st =
        ef__operation_call(client, &ef__op_explain_view, &request, &out->room, &reply, err);

    out->events = reply.items;
    out->count = reply.count;
    out->more = reply.more;
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
    EF_RELEASE(&page);
    EF_RELEASE(&before);
    return st;
}
