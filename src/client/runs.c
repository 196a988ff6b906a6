/*
 * runs.c - runs, replays and gaps.
 */
#include "client_priv.h"

#define WARNINGS_MAX 10000

/* An empty detail is written as {}. */
static ef_status read_runs(const ef__json *array, ef_run_list *out, ef_error *err)
{
    const void *items = NULL;
    ef_status st =
        ef__items_read(array, &ef__shape_run, NULL, &out->room->arena, &items, &out->count, err);
    ef_run *runs = (ef_run *)items;

    for (size_t i = 0; st == EF_OK && i < out->count; i++)
        if (ef_str_equal(runs[i].detail, EF_STR("{}")))
            runs[i].detail = EF_STR("");
    out->items = runs;
    return st;
}

ef_status ef__client_call_one_run(ef_client *client, ef__client_call *call, ef_run_list *out,
                                  ef_error *err)
{
    const ef__json *answer;
    ef__json one = {.kind = EF__JSON_ARRAY, .count = 1};
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    if (st == EF_OK)
        st = ef__client_call_json(client, call, &out->room->arena, &answer, err);
    if (st != EF_OK)
        return st;
    one.first = (ef__json *)answer;
    return read_runs(&one, out, err);
}

ef_status ef_client_run_get(ef_client *client, ef_str id, ef_run_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));
    ef_status st;

    ef__client_call_path(&call, "/v1/runs/");
    ef__client_call_name(&call, id);
    st = ef__client_call_one_run(client, &call, out, err);
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_run_ls(ef_client *client, bool open_only, size_t limit, ef_run_list *out,
                           ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));
    const ef__json *answer;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    ef__client_call_path(&call, "/v1/runs");
    ef__client_call_int(&call, "limit", (int64_t)limit);
    ef__client_call_flag(&call, "open", open_only);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = read_runs(answer, out, err);
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_run_cancel(ef_client *client, ef_str id, ef_str reason, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    ef_status st;

    ef__client_call_path(&call, "/v1/runs/");
    ef__client_call_name(&call, id);
    ef__client_call_path(&call, ":cancel");
    ef__json_open(&w, '{');
    ef__client_call_member(&w, "reason", reason);
    ef__json_close(&w, '}');
    st = ef__client_call_run(client, &call, err);
    ef__client_call_release(&call);
    return st;
}

/* --- replays
 * --------------------------------------------------------------------------------------- */

static void add_time(ef__json_writer *w, const char *key, int64_t time_us)
{
    if (time_us == 0)
        return;
    ef__json_key(w, key);
    ef__json_time(w, time_us);
}

static void write_replay(ef__json_writer *w, const ef_replay *r)
{
    ef__client_call_member(w, "projection", r->projection);
    ef__client_call_member(w, "stream", r->stream);
    ef__client_call_member(w, "type", r->type);
    ef__client_call_member(w, "reason", r->reason);
    ef__client_call_number(w, "from", r->from);
    ef__client_call_number(w, "to", r->to);
    ef__client_call_number(w, "after_seq", r->after_seq);
    ef__client_call_number(w, "until_seq", r->until_seq);
    add_time(w, "from_time", r->from_us);
    add_time(w, "to_time", r->to_us);
}

ef_status ef_client_replay_request(ef_client *client, const ef_replay *replay, ef_run_list *out,
                                   ef_error *err)
{
    ef__client_call call =
        EF__CLIENT_CALL("POST", replay->any_tenant ? EF_STR("") : replay->tenant);
    ef__json_writer w = ef__client_call_writer(&call);
    ef_status st;

    ef__client_call_path(&call, "/v1/replay");
    ef__json_open(&w, '{');
    write_replay(&w, replay);
    ef__json_close(&w, '}');
    st = ef__client_call_one_run(client, &call, out, err);
    ef__client_call_release(&call);
    return st;
}

static ef_str member_text(const ef__json *object, const char *key)
{
    const ef__json *found = ef__json_get(object, key);

    return found && found->kind == EF__JSON_STRING ? found->text : EF_STR("");
}

/* A warning has only the fields that identify the event. */
static ef_status deliver_warnings(const ef__json *answer,
                                  void (*failed)(void *context, ef_str projection,
                                                 const ef_event *event, ef_str message),
                                  void *context, ef_error *err)
{
    const ef__json *array = ef__json_get(answer, "warnings");
    ef_status st = EF_OK;

    for (const ef__json *w = array && failed ? array->first : NULL; st == EF_OK && w; w = w->next) {
        ef_event event;
        st = ef__shape_read(w, &ef__shape_event, &event, err);
        if (st == EF_OK)
            failed(context, member_text(w, "projection"), &event, member_text(w, "message"));
    }
    return st;
}

ef_status ef_client_replay_dry_run(ef_client *client, const ef_replay *replay, bool validate,
                                   void (*failed)(void *context, ef_str projection,
                                                  const ef_event *event, ef_str message),
                                   void *context, ef_replay_result *out, ef_error *err)
{
    ef__client_call call =
        EF__CLIENT_CALL("POST", replay->any_tenant ? EF_STR("") : replay->tenant);
    ef__json_writer w = ef__client_call_writer(&call);
    ef__arena arena = EF__ARENA_INIT(2ul * EF__CALL_RESPONSE_MAX);
    const ef__json *answer;
    ef_status st;

    call.wait_ms = EF__CALL_LONG_MS;
    ef__client_call_path(&call, "/v1/replay:look");
    ef__json_open(&w, '{');
    write_replay(&w, replay);
    ef__json_key(&w, "validate");
    ef__json_bool(&w, validate);
    ef__client_call_number(&w, "limit", WARNINGS_MAX);
    ef__json_close(&w, '}');
    st = ef__client_call_json(client, &call, &arena, &answer, err);
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_replay_result, out, err);
    if (st == EF_OK)
        st = deliver_warnings(answer, failed, context, err);
    ef__arena_release(&arena);
    ef__client_call_release(&call);
    return st;
}

/* --- gaps
 * ------------------------------------------------------------------------------------------ */

static ef_status request_gaps(ef_client *client, ef__client_call *call, ef_gap_list *out,
                              ef_error *err)
{
    const ef__json *answer = NULL;
    const void *items = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    if (st == EF_OK)
        st = ef__client_call_json(client, call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = ef__items_read(ef__json_get(answer, "gaps"), &ef__shape_gap, NULL, &out->room->arena,
                            &items, &out->count, err);
    out->items = items;
    ef__client_call_release(call);
    return st;
}

ef_status ef_client_gap_ls(ef_client *client, ef_gap_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));

    ef__client_call_path(&call, "/v1/gaps");
    return request_gaps(client, &call, out, err);
}

ef_status ef_client_gap_repair(ef_client *client, ef_str reason, ef_gap_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);

    ef__client_call_path(&call, "/v1/gaps:repair");
    ef__json_open(&w, '{');
    ef__client_call_member(&w, "reason", reason);
    ef__json_close(&w, '}');
    return request_gaps(client, &call, out, err);
}
