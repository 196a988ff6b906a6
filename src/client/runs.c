/*
 * runs.c - runs, replays and gaps.
 */
#include "client_priv.h"

#define WARNINGS_MAX 10000

ef_status ef_client_run_get(ef_client *client, ef_str id, ef_run_list *out, ef_error *err)
{
    return ef__operation_runs(client, &ef__op_show_run, &(ef__object_request){.name = id}, out,
                              err);
}

ef_status ef_client_run_ls(ef_client *client, bool open_only, size_t limit, ef_run_list *out,
                           ef_error *err)
{
    ef__object_request request = {.flag = open_only, .limit = (int64_t)limit};

    return ef__operation_runs(client, &ef__op_list_runs, &request, out, err);
}

ef_status ef_client_run_cancel(ef_client *client, ef_str id, ef_str reason, ef_error *err)
{
    return ef__operation_act(client, &ef__op_cancel_run,
                             &(ef__object_request){.name = id, .reason = reason}, err);
}

/* --- replays ---------------------------------------------------------------------------------- */

ef_status ef_client_replay_request(ef_client *client, const ef_replay *replay, ef_run_list *out,
                                   ef_error *err)
{
    return ef__operation_runs(client, &ef__op_replay, &(ef__replay_request){.replay = *replay}, out,
                              err);
}

/* A warning has only the fields that identify the event. */
static ef_status deliver_warnings(const ef__json *response,
                                  void (*failed)(void *context, ef_str projection,
                                                 const ef_event *event, ef_str message),
                                  void *context, ef_error *err)
{
    const ef__json *array = ef__json_get(response, "warnings");
    ef_status st = EF_OK;

    for (const ef__json *w = array && failed ? array->first : NULL; st == EF_OK && w; w = w->next) {
        ef_event event;
        st = ef__shape_read(w, &ef__shape_event, &event, err);
        if (st == EF_OK)
            failed(context, ef__reply_text(w, "projection"), &event, ef__reply_text(w, "message"));
    }
    return st;
}

ef_status ef_client_replay_dry_run(ef_client *client, const ef_replay *replay, bool validate,
                                   void (*failed)(void *context, ef_str projection,
                                                  const ef_event *event, ef_str message),
                                   void *context, ef_replay_result *out, ef_error *err)
{
    ef__replay_request request = {.replay = *replay, .validate = validate, .limit = WARNINGS_MAX};
    struct ef__batch_memory *room = NULL;
    ef__reply reply;
    ef_status st = ef__operation_call(client, &ef__op_look_at_replay, &request, &room, &reply, err);

    if (st == EF_OK)
        st = ef__shape_read(reply.json, &ef__shape_replay_result, out, err);
    if (st == EF_OK)
        st = deliver_warnings(reply.json, failed, context, err);
    ef_memory_release(&room);
    return st;
}

/* --- gaps ------------------------------------------------------------------------------------- */

ef_status ef_client_gap_ls(ef_client *client, ef_gap_list *out, ef_error *err)
{
    return EF__OPERATION_ITEMS(client, &ef__op_list_gaps, NULL, out, err);
}

ef_status ef_client_gap_repair(ef_client *client, ef_str reason, ef_gap_list *out, ef_error *err)
{
    ef__reply reply;

    return EF__OPERATION_LIST(client, &ef__op_repair_gaps, &(ef__object_request){.reason = reason},
                              out, &reply, err);
}
