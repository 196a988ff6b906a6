/*
 * outbox.c - the outbox: rows, counts, the actions of operators, lanes and publishers.
 */
#include "client_priv.h"

#include <stdio.h>

/* Converts a query to a request. `label` must live as long as the request. */
static ef__rows_request rows_request(const ef_outbox_query *query,
                                     char label[EF_PARTITION_LABEL_MAX])
{
    ef__rows_request request = {.query = *query};

    label[0] = '\0';
    if (query->blocked_only)
        request.status = EF_STR("blocked");
    else if (query->status)
        request.status = ef_str_from(ef_name_of(EF_NAMES_ROW_STATUS, *query->status));
    if (query->partition)
        ef_partition_label(*query->partition, label);
    request.partition = ef_str_from(label);
    return request;
}

ef_status ef_client_outbox_group(ef_client *client, const ef_outbox_query *query,
                                 ef_row_groups *out, ef_error *err)
{
    char label[EF_PARTITION_LABEL_MAX];
    ef__rows_request request = rows_request(query, label);
    ef__reply reply;
    ef_status st = EF__OPERATION_LIST(client, &ef__op_group_outbox, &request, out, &reply, err);

    out->rows = ef__reply_int(reply.json, "rows");
    out->more = out->count == EF_ROW_GROUPS_MAX;
    return st;
}

ef_status ef_client_outbox_ls(ef_client *client, const ef_outbox_query *query, ef_row_list *out,
                              ef_error *err)
{
    char label[EF_PARTITION_LABEL_MAX];
    ef__rows_request request = rows_request(query, label);
    ef__reply reply;
    ef_status st = EF__OPERATION_LIST(client, &ef__op_report_outbox, &request, out, &reply, err);

    (void)snprintf(out->next, sizeof(out->next), "%.*s",
                   EF_STR_ARG(ef__reply_text(reply.json, "next")));
    return st;
}

static ef_status read_summary(const ef__json *json, ef_outbox_summary *out, ef_error *err)
{
    const ef__json *oldest = ef__json_get(json, "oldest");
    ef__json one = {.kind = EF__JSON_ARRAY, .count = 1, .first = (ef__json *)oldest};
    ef_row_list rows = out->oldest;
    const void *items = NULL;
    ef_status st = ef__shape_read(json, &ef__shape_summary, out, err);

    out->oldest = rows;
    if (st == EF_OK)
        st = ef__shape_read_more(json, &ef__shape_summary_more, out, err);
    if (st != EF_OK || !oldest || oldest->kind != EF__JSON_OBJECT)
        return st;
    st = ef__items_read(&one, &ef__shape_row, &ef__shape_row_more, &rows.room->arena, &items,
                        &out->oldest.count, err);
    out->oldest.items = items;
    return st;
}

ef_status ef_client_outbox_summarise(ef_client *client, const ef_outbox_query *query,
                                     ef_outbox_summary *out, ef_error *err)
{
    ef__rows_request request = {
        .query = {.lane = query->lane, .tenant = query->tenant, .any_tenant = query->any_tenant}};
    ef__reply reply;
    ef_status st;

    *out = (ef_outbox_summary){0};
    st =
        ef__operation_call(client, &ef__op_report_outbox, &request, &out->oldest.room, &reply, err);
    return st == EF_OK ? read_summary(ef__json_get(reply.json, "summary"), out, err) : st;
}

/* --- actions ---------------------------------------------------------------------------------- */

static ef_status act_on_rows(ef_client *client, const ef__operation *operation, const char *key,
                             const ef_outbox_bulk *bulk, int64_t *out_count, ef_row_list *out,
                             ef_error *err)
{
    ef__bulk_request request = {.bulk = *bulk,
                                .any_tenant = !bulk->one_tenant && bulk->stream.len == 0,
                                .all = bulk->limit == 0};
    ef__reply reply;
    ef_status st = EF__OPERATION_LIST(client, operation, &request, out, &reply, err);

    out->next[0] = '\0';
    *out_count = ef__reply_int(reply.json, key);
    return st;
}

ef_status ef_client_outbox_requeue_dead(ef_client *client, const ef_outbox_bulk *bulk,
                                        int64_t *out_count, ef_row_list *out, ef_error *err)
{
    return act_on_rows(client, &ef__op_requeue_dead, "requeued", bulk, out_count, out, err);
}

ef_status ef_client_outbox_skip_dead(ef_client *client, const ef_outbox_bulk *bulk,
                                     int64_t *out_count, ef_row_list *out, ef_error *err)
{
    return act_on_rows(client, &ef__op_skip_dead, "skipped", bulk, out_count, out, err);
}

/* --- publishers ------------------------------------------------------------------------------- */

ef_status ef_client_publisher_ls(ef_client *client, const ef_str *name, ef_publisher_list *out,
                                 ef_error *err)
{
    ef__object_request request = {.name = name ? *name : EF_STR("")};

    return EF__OPERATION_ITEMS(client, name ? &ef__op_show_publisher : &ef__op_list_publishers,
                               &request, out, err);
}

/* In a request, -1 leaves the default, and 0 retains nothing. */
ef_status ef_client_publisher_set(ef_client *client, const ef_publisher *publisher, ef_error *err)
{
    ef_publisher request = *publisher;

    if (request.attempts_max == 0)
        request.attempts_max = -1;
    if (request.retain_ms == 0)
        request.retain_ms = -1;
    else if (request.retain_ms == EF_RETAIN_NONE)
        request.retain_ms = 0;
    return ef__operation_act(client, &ef__op_set_publisher, &request, err);
}

ef_status ef_client_publisher_pause(ef_client *client, ef_str name, bool paused, ef_str reason,
                                    ef_error *err)
{
    return ef__operation_act(client, paused ? &ef__op_pause_publisher : &ef__op_resume_publisher,
                             &(ef__object_request){.name = name, .reason = reason}, err);
}
