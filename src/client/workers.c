/*
 * workers.c - leases, workers, partitions, lanes and types.
 */
#include "client_priv.h"

/* Reads an array by its shape into a list that begins with items and count. */
#define READ_ALL(client, path, shape, more, out, err)                                              \
    do {                                                                                           \
        const ef__json *answer_;                                                                   \
        const void *items_ = NULL;                                                                 \
        ef_status st_ = ef__client_get(client, path, &(out)->room, &answer_, err);                 \
        (out)->count = 0;                                                                          \
        if (st_ == EF_OK)                                                                          \
            st_ = ef__items_read(answer_, shape, more, &(out)->room->arena, &items_,               \
                                 &(out)->count, err);                                              \
        (out)->items = items_;                                                                     \
        return st_;                                                                                \
    } while (0)

static ef_status list_leases(ef_client *client, ef_lease_list *out, ef_error *err)
{
    READ_ALL(client, "/v1/leases", &ef__shape_lease, NULL, out, err);
}

ef_status ef_client_lease_ls(ef_client *client, const ef_lease_kind *kind, ef_lease_list *out,
                             ef_error *err)
{
    ef_status st = list_leases(client, out, err);
    ef_lease *items = (ef_lease *)out->items; /* owned by the list */
    size_t kept = 0;

    for (size_t i = 0; st == EF_OK && i < out->count; i++)
        if (!kind || items[i].key.kind == *kind)
            items[kept++] = items[i];
    out->count = kept;
    return st;
}

ef_status ef_client_worker_ls(ef_client *client, ef_worker_list *out, ef_error *err)
{
    READ_ALL(client, "/v1/workers", &ef__shape_worker, &ef__shape_worker_more, out, err);
}

ef_status ef_client_partition_ls(ef_client *client, ef_partition_list *out, ef_error *err)
{
    READ_ALL(client, "/v1/partitions", &ef__shape_partition, NULL, out, err);
}

ef_status ef_client_lane_ls(ef_client *client, ef_lane_list *out, ef_error *err)
{
    READ_ALL(client, "/v1/lanes", &ef__shape_lane, NULL, out, err);
}

ef_status ef_client_type_ls(ef_client *client, ef_type_list *out, ef_error *err)
{
    READ_ALL(client, "/v1/types", &ef__shape_type, NULL, out, err);
}

ef_status ef_client_partition_sync(ef_client *client, const ef_partition_change *change,
                                   ef_partition_sync_result *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    const ef__json *answer;
    ef_status st;

    ef__client_call_path(&call, "/v1/partitions:sync");
    ef__json_open(&w, '{');
    ef__client_call_number(&w, "count", change->count);
    ef__json_key(&w, "prune");
    ef__json_bool(&w, change->prune);
    ef__json_key(&w, "dry_run");
    ef__json_bool(&w, change->dry_run);
    ef__json_close(&w, '}');
    st = ef__client_call_json(client, &call, &arena, &answer, err);
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_partition_sync_result, out, err);
    ef__arena_release(&arena);
    ef__client_call_release(&call);
    return st;
}
