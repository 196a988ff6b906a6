/*
 * outbox.c - the outbox: rows, counts, the actions of operators, publishers; leases and partitions;
 * API tokens.
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

/* --- leases and partitions -------------------------------------------------------------------- */

ef_status ef_client_lease_ls(ef_client *client, const ef_lease_kind *kind, ef_lease_list *out,
                             ef_error *err)
{
    ef_status st = EF__OPERATION_ITEMS(client, &ef__op_list_leases, NULL, out, err);
    ef_lease *items = (ef_lease *)out->items; /* in the memory of the list */
    size_t kept = 0;

    for (size_t i = 0; st == EF_OK && i < out->count; i++)
        if (!kind || items[i].key.kind == *kind)
            items[kept++] = items[i];
    out->count = kept;
    return st;
}

ef_status ef_client_partition_sync(ef_client *client, const ef_partition_change *change,
                                   ef_partition_sync_result *out, ef_error *err)
{
    EF__AUTO(ef__reply) reply = {.room = NULL};
    ef_status st =
        ef__operation_call(client, &ef__op_sync_partitions, change, &reply.room, &reply, err);

    if (st == EF_OK)
        *out = *(const ef_partition_sync_result *)reply.items;
    return st;
}

/* --- tokens ----------------------------------------------------------------------------------- */

#define FIELD(key, kind, member) EF__FIELD(ef_client_token, key, kind, member)

/* Without scopes, which are an array, and `bound`, which is derived from the tenant. */
static const ef__field token_fields[] = {
    FIELD("id", STR, id),
    FIELD("tenant", NAME, tenant),
    FIELD("note", STR, note),
    FIELD("state", STR, state),
    FIELD("created_at", TIME, created_us),
    FIELD("expires_at", TIME, expires_us),
    FIELD("revoked_at", TIME, revoked_us),
    FIELD("token", STR, text),
};
static const ef__shape token_shape = EF__SHAPE(token_fields, ef_client_token);

/* ["append","read"] as "append,read". */
static ef_status join_scopes(const ef__json *array, ef__arena *arena, ef_str *out, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(4096);

    for (const ef__json *word = array ? array->first : NULL; word; word = word->next) {
        if (text.len > 0)
            (void)ef__buf_add_char(&text, ',');
        (void)ef__buf_add_str(&text, word->text);
    }
    *out = text.failed ? (ef_str){NULL, 0} : ef__arena_copy(arena, ef__buf_str(&text));
    return out->ptr ? EF_OK : ef__no_memory(err);
}

ef_status ef__operation_tokens(ef_client *client, const ef__operation *operation,
                               const void *request, ef_client_token_list *out, ef_error *err)
{
    const ef__json *answer, *item;
    ef_client_token *tokens = NULL;
    size_t count = 0;
    ef__reply reply;
    ef_status st = ef__operation_call(client, operation, request, &out->room, &reply, err);

    answer = reply.json;
    if (st == EF_OK)
        count = answer->kind == EF__JSON_ARRAY ? answer->count : 1;
    if (st == EF_OK && !(tokens = ef__arena_zalloc(&out->room->arena, count + 1, sizeof(*tokens))))
        st = ef__no_memory(err);
    item = st == EF_OK && answer->kind == EF__JSON_ARRAY ? answer->first : answer;
    for (size_t i = 0; st == EF_OK && i < count; i++, item = item->next) {
        const ef__json *tenant = ef__json_get(item, "tenant");
        st = ef__shape_read(item, &token_shape, &tokens[i], err);
        tokens[i].bound = tenant && tenant->kind == EF__JSON_STRING;
        if (st == EF_OK)
            st = join_scopes(ef__json_get(item, "scopes"), &out->room->arena, &tokens[i].scopes,
                             err);
    }
    out->items = tokens;
    out->count = st == EF_OK ? count : 0;
    return st;
}

ef_status ef_client_token_create(ef_client *client, const ef_client_token *token, int64_t expires_s,
                                 ef_client_token_list *out, ef_error *err)
{
    ef__token_request request = {
        .scopes = token->scopes, .note = token->note, .expires_s = expires_s};

    if (token->bound)
        request.tenant = token->tenant.ptr ? token->tenant : EF_STR("");
    return ef__operation_tokens(client, &ef__op_create_token, &request, out, err);
}
