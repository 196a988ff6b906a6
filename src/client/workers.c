/*
 * workers.c - leases, workers, partitions and types.
 */
#include "client_priv.h"

ef_status ef_client_lease_ls(ef_client *client, const ef_lease_kind *kind, ef_lease_list *out,
                             ef_error *err)
{
    ef__reply reply;
    ef_status st = EF__OPERATION_LIST(client, &ef__op_list_leases, NULL, out, &reply, err);
    ef_lease *items = (ef_lease *)out->items; /* in the memory of the list */
    size_t kept = 0;

    for (size_t i = 0; st == EF_OK && i < out->count; i++)
        if (!kind || items[i].key.kind == *kind)
            items[kept++] = items[i];
    out->count = kept;
    return st;
}

ef_status ef_client_worker_ls(ef_client *client, ef_worker_list *out, ef_error *err)
{
    return EF__OPERATION_ITEMS(client, &ef__op_list_workers, NULL, out, err);
}

ef_status ef_client_partition_ls(ef_client *client, ef_partition_list *out, ef_error *err)
{
    return EF__OPERATION_ITEMS(client, &ef__op_list_partitions, NULL, out, err);
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

/* --- types ------------------------------------------------------------------------------------ */

ef_status ef_client_type_set(ef_client *client, const ef_type *type, ef_error *err)
{
    ef__type_request request = {.type = *type, .intent = ef_str_from(ef_intent_name(type->intent))};

    return ef__operation_act(client, &ef__op_set_type, &request, err);
}

ef_status ef_client_type_get(ef_client *client, ef_str name, ef_type_list *out, ef_error *err)
{
    return EF__OPERATION_ITEMS(client, &ef__op_show_type, &(ef__object_request){.name = name}, out,
                               err);
}

ef_status ef_client_type_ls(ef_client *client, ef_type_list *out, ef_error *err)
{
    return EF__OPERATION_ITEMS(client, &ef__op_list_types, NULL, out, err);
}
