/*
 * workers.c - leases, workers, partitions and API tokens.
 */
#include "client_priv.h"

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
    struct ef__batch_memory *room = NULL;
    ef__reply reply;
    ef_status st = ef__operation_call(client, &ef__op_sync_partitions, change, &room, &reply, err);

    if (st == EF_OK)
        *out = *(const ef_partition_sync_result *)reply.items;
    ef_memory_release(&room);
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
    ef__buf text = EF__BUF_INIT(4096);

    for (const ef__json *word = array ? array->first : NULL; word; word = word->next) {
        if (text.len > 0)
            (void)ef__buf_add_char(&text, ',');
        (void)ef__buf_add_str(&text, word->text);
    }
    *out = text.failed ? (ef_str){NULL, 0} : ef__arena_copy(arena, ef__buf_str(&text));
    ef__buf_release(&text);
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
