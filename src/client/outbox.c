/*
 * outbox.c - the outbox: rows, counts and the actions of operators.
 */
#include "client_priv.h"

#include <stdio.h>

static ef_status read_rows(const ef__json *array, ef_row_list *out, ef_error *err)
{
    const void *items = NULL;
    ef_status st = ef__items_read(array, &ef__shape_row, &ef__shape_row_more, &out->room->arena,
                                  &items, &out->count, err);

    out->items = items;
    return st;
}

/* Adds the filters, without the bounds of the page. */
static void add_filters(ef__client_call *call, const ef_outbox_query *query)
{
    ef_str status = query->blocked_only ? EF_STR("blocked")
                    : query->status     ? ef_str_from(ef_row_status_name(*query->status))
                                        : EF_STR("");
    char label[EF_PARTITION_LABEL_MAX] = "", time[EF_TIME_TEXT_MAX] = "";

    ef__client_call_text(call, "status", status);
    ef__client_call_text(call, "lane", query->lane);
    ef__client_call_text(call, "stream", query->stream);
    ef__client_call_text(call, "types", query->types);
    ef__client_call_text(call, "error", query->error);
    if (query->partition)
        ef_partition_label(*query->partition, label);
    ef__client_call_text(call, "partition", ef_str_from(label));
    if (query->before_us)
        ef_time_format(query->before_us, time);
    ef__client_call_text(call, "before", ef_str_from(time));
}

static void begin_report(ef__client_call *call, const ef_outbox_query *query)
{
    ef__client_call_path(call, "/v1/outbox?limit=");
    call->has_parameter = true;
    (void)ef__buf_printf(&call->target, "%zu", query->limit);
    ef__client_call_text(call, "after", query->after);
    ef__client_call_int(call, "from", query->from);
    ef__client_call_int(call, "upto", query->upto);
    add_filters(call, query);
}

ef_status ef_client_outbox_group(ef_client *client, const ef_outbox_query *query,
                                 ef_row_groups *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", query->any_tenant ? EF_STR("") : query->tenant);
    const ef__json *answer, *rows;
    const void *items = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    ef__client_call_path(&call, "/v1/outbox/groups");
    add_filters(&call, query);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = ef__items_read(ef__json_get(answer, "groups"), &ef__shape_row_group, NULL,
                            &out->room->arena, &items, &out->count, err);
    rows = st == EF_OK ? ef__json_get(answer, "rows") : NULL;
    out->items = items;
    out->rows = 0;
    if (rows)
        (void)ef__json_int64(rows, &out->rows);
    out->more = st == EF_OK && out->count == EF_ROW_GROUPS_MAX;
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_outbox_ls(ef_client *client, const ef_outbox_query *query, ef_row_list *out,
                              ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", query->any_tenant ? EF_STR("") : query->tenant);
    const ef__json *answer, *next;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    out->next[0] = '\0';
    begin_report(&call, query);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = read_rows(ef__json_get(answer, "rows"), out, err);
    next = st == EF_OK ? ef__json_get(answer, "next") : NULL;
    if (next && next->kind == EF__JSON_STRING)
        (void)snprintf(out->next, sizeof(out->next), "%.*s", EF_STR_ARG(next->text));
    ef__client_call_release(&call);
    return st;
}

static ef_status read_summary(const ef__json *json, ef_outbox_summary *out, ef_error *err)
{
    const ef__json *oldest = ef__json_get(json, "oldest");
    ef_row_list rows = out->oldest;
    ef_row *row = NULL;
    ef_status st = ef__shape_read(json, &ef__shape_summary, out, err);

    out->oldest = rows;
    if (st == EF_OK)
        st = ef__shape_read_more(json, &ef__shape_summary_more, out, err);
    if (st != EF_OK || !oldest || oldest->kind != EF__JSON_OBJECT)
        return st;
    row = ef__arena_zalloc(&rows.room->arena, 1, sizeof(*row));
    st = row ? ef__shape_read(oldest, &ef__shape_row, row, err) : ef__no_memory(err);
    if (st == EF_OK)
        st = ef__shape_read_more(oldest, &ef__shape_row_more, row, err);
    out->oldest.items = row;
    out->oldest.count = st == EF_OK ? 1 : 0;
    return st;
}

ef_status ef_client_outbox_summarise(ef_client *client, const ef_outbox_query *query,
                                     ef_outbox_summary *out, ef_error *err)
{
    ef_outbox_query counted = {
        .lane = query->lane, .tenant = query->tenant, .any_tenant = query->any_tenant};
    ef__client_call call = EF__CLIENT_CALL("GET", query->any_tenant ? EF_STR("") : query->tenant);
    const ef__json *answer;
    ef_status st;

    *out = (ef_outbox_summary){0};
    st = ef__memory_prepare(&out->oldest.room, err);
    begin_report(&call, &counted);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->oldest.room->arena, &answer, err);
    if (st == EF_OK)
        st = read_summary(ef__json_get(answer, "summary"), out, err);
    ef__client_call_release(&call);
    return st;
}

/* --- actions
 * ------------------------------------------------------------------------------------------ */

static ef_status send_action(ef_client *client, const char *path, ef__client_call *call,
                             ef_row_list *out, ef_error *err)
{
    const ef__json *answer;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    out->next[0] = '\0';
    ef__client_call_path(call, path);
    if (st == EF_OK)
        st = ef__client_call_json(client, call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = read_rows(ef__json_get(answer, "rows"), out, err);
    ef__client_call_release(call);
    return st;
}

static ef_status act_on_row(ef_client *client, const char *path, const ef_outbox_action *what,
                            ef_row_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", what->tenant);
    ef__json_writer w = ef__client_call_writer(&call);

    ef__json_open(&w, '{');
    ef__client_call_member(&w, "stream", what->stream);
    ef__client_call_number(&w, "seq", what->seq);
    ef__client_call_member(&w, "lane", what->lane);
    ef__client_call_member(&w, "reason", what->reason);
    ef__json_close(&w, '}');
    return send_action(client, path, &call, out, err);
}

ef_status ef_client_outbox_requeue(ef_client *client, const ef_outbox_action *what,
                                   ef_row_list *out, ef_error *err)
{
    return act_on_row(client, "/v1/outbox:requeue", what, out, err);
}

ef_status ef_client_outbox_skip(ef_client *client, const ef_outbox_action *what, ef_row_list *out,
                                ef_error *err)
{
    return act_on_row(client, "/v1/outbox:skip", what, out, err);
}

ef_status ef_client_outbox_replay(ef_client *client, const ef_outbox_action *what, ef_row_list *out,
                                  ef_error *err)
{
    return act_on_row(client, "/v1/outbox:replay", what, out, err);
}

static void write_bulk(ef__json_writer *w, const ef_outbox_bulk *bulk)
{
    char time[EF_TIME_TEXT_MAX] = "";

    if (bulk->before_us)
        ef_time_format(bulk->before_us, time);
    ef__json_open(w, '{');
    ef__client_call_member(w, "lane", bulk->lane);
    ef__client_call_member(w, "stream", bulk->stream);
    ef__client_call_member(w, "types", bulk->types);
    ef__client_call_member(w, "error", bulk->error);
    ef__client_call_member(w, "before", ef_str_from(time));
    ef__client_call_number(w, "limit", bulk->limit);
    ef__json_key(w, "all");
    ef__json_bool(w, bulk->limit == 0);
    ef__json_key(w, "dry_run");
    ef__json_bool(w, bulk->dry_run);
    ef__client_call_member(w, "reason", bulk->reason);
    ef__json_close(w, '}');
}

static ef_status act_on_rows(ef_client *client, const char *path, const char *key,
                             const ef_outbox_bulk *bulk, int64_t *out_count, ef_row_list *out,
                             ef_error *err)
{
    bool of_tenant = bulk->one_tenant || bulk->stream.len;
    ef__client_call call = EF__CLIENT_CALL("POST", of_tenant ? bulk->tenant : EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    const ef__json *answer, *count;
    ef_status st = ef__memory_prepare(&out->room, err);

    write_bulk(&w, bulk);
    out->count = 0;
    out->next[0] = '\0';
    ef__client_call_path(&call, path);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = read_rows(ef__json_get(answer, "rows"), out, err);
    count = st == EF_OK ? ef__json_get(answer, key) : NULL;
    *out_count = (int64_t)out->count;
    if (count)
        (void)ef__json_int64(count, out_count);
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_outbox_requeue_dead(ef_client *client, const ef_outbox_bulk *bulk,
                                        int64_t *out_count, ef_row_list *out, ef_error *err)
{
    return act_on_rows(client, "/v1/outbox:requeue-dead", "requeued", bulk, out_count, out, err);
}

ef_status ef_client_outbox_skip_dead(ef_client *client, const ef_outbox_bulk *bulk,
                                     int64_t *out_count, ef_row_list *out, ef_error *err)
{
    return act_on_rows(client, "/v1/outbox:skip-dead", "skipped", bulk, out_count, out, err);
}

ef_status ef_client_audit_ls(ef_client *client, const ef_audit_query *query, ef_audit_list *out,
                             ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));
    const ef__json *answer;
    const void *items = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    ef__client_call_path(&call, "/v1/audit");
    ef__client_call_int(&call, "limit", (int64_t)query->limit);
    ef__client_call_int(&call, "before", query->before);
    ef__client_call_text(&call, "action", query->action);
    ef__client_call_text(&call, "lane", query->lane);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = ef__items_read(answer, &ef__shape_audit_entry, NULL, &out->room->arena, &items,
                            &out->count, err);
    out->items = items;
    ef__client_call_release(&call);
    return st;
}
