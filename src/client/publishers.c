/*
 * publishers.c - publishers and published rows.
 */
#include "client_priv.h"

ef_status ef_client_publisher_ls(ef_client *client, ef_publisher_list *out, ef_error *err)
{
    return EF__OPERATION_ITEMS(client, &ef__op_list_publishers, NULL, out, err);
}

ef_status ef_client_publisher_get(ef_client *client, ef_str name, ef_publisher_list *out,
                                  ef_error *err)
{
    ef__reply reply;

    return EF__OPERATION_LIST(client, &ef__op_show_publisher, &(ef__object_request){.name = name},
                              out, &reply, err);
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

ef_status ef_client_publisher_remove(ef_client *client, ef_str name, bool discard, ef_str reason,
                                     int64_t *out_rows, ef_error *err)
{
    ef__object_request request = {.name = name, .flag = discard, .reason = reason};

    return ef__operation_number(client, &ef__op_remove_publisher, &request, "discarded", out_rows,
                                err);
}

ef_status ef_client_published_count(ef_client *client, ef_str name, int64_t *out, ef_error *err)
{
    return ef__operation_number(client, &ef__op_show_publisher, &(ef__object_request){.name = name},
                                "kept", out, err);
}
