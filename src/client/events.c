/*
 * events.c - appending and reading events, event types, and facts about the store.
 */
#include "client_priv.h"

#include <inttypes.h>
#include <stdio.h>

#define WAIT_MS_MAX 30000

/* --- appending
 * ------------------------------------------------------------------------------------- */

static void write_event(ef__json_writer *w, const ef_new_event *e)
{
    ef__json_open(w, '{');
    ef__client_call_member(w, "tenant", e->tenant);
    ef__client_call_member(w, "stream", e->stream);
    ef__client_call_member(w, "type", e->type);
    ef__client_call_member(w, "id", e->id);
    if (ef_seq_is_expected(e->expected_seq)) {
        ef__json_key(w, "expected_seq");
        ef__json_int(w, e->expected_seq.plus_one - 1);
    }
    ef__client_call_number(w, "schema", e->schema);
    if (e->time_us != 0) {
        ef__json_key(w, "time");
        ef__json_time(w, e->time_us);
    }
    ef__json_key(w, "data");
    ef__json_raw(w, e->data);
    if (e->meta.len > 0) {
        ef__json_key(w, "meta");
        ef__json_raw(w, e->meta);
    }
    ef__json_close(w, '}');
}

static ef_status read_places(const ef__json *answer, size_t count, ef_place *out, ef_error *err)
{
    const ef__json *item = answer ? answer->first : NULL;

    if (!answer || answer->kind != EF__JSON_ARRAY || answer->count != count)
        return ef_fail(err, EF_UNSURE,
                       "invalid response from the server: not one result per event");
    for (size_t i = 0; i < count; i++, item = item->next) {
        ef__append_result placed;
        ef_status st = ef__shape_read(item, &ef__shape_append_result, &placed, err);
        if (st != EF_OK)
            return ef_fail(err, EF_UNSURE,
                           "invalid response from the server: an append result is incomplete");
        out[i] = (ef_place){
            .seq = placed.seq, .position = placed.position, .duplicate = placed.duplicate};
        (void)snprintf(out[i].id, sizeof(out[i].id), "%.*s", EF_STR_ARG(placed.id));
    }
    return EF_OK;
}

/* Events are validated here, so that data and meta can be sent unchanged. */
ef_status ef_client_append(ef_client *client, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    ef__arena arena = EF__ARENA_INIT(EF__CALL_RESPONSE_MAX);
    const ef__json *answer;
    ef_status st = ef_event_check(events, count, NULL, err);

    if (st != EF_OK)
        return st;
    ef__client_call_path(&call, "/v1/events");
    ef__json_open(&w, '[');
    for (size_t i = 0; i < count; i++)
        write_event(&w, &events[i]);
    ef__json_close(&w, ']');
    st = ef__client_call_json(client, &call, &arena, &answer, err);
    if (st == EF_OK)
        st = read_places(answer, count, out_places, err);
    ef__arena_release(&arena);
    ef__client_call_release(&call);
    return st;
}

/* --- reading
 * --------------------------------------------------------------------------------------- */

static ef_status read_batch(ef_client *client, ef__client_call *call, ef_batch *out, ef_error *err)
{
    const ef__json *answer;
    const void *items = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    if (st == EF_OK)
        st = ef__client_call_json(client, call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = ef__items_read(answer, &ef__shape_event, NULL, &out->room->arena, &items, &out->count,
                            err);
    out->events = items;
    out->more = call->more;
    return st;
}

ef_status ef_client_read_stream(ef_client *client, ef_str tenant, ef_str stream, int64_t from_seq,
                                size_t limit, ef_batch *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", tenant);
    ef_status st;

    ef__client_call_path(&call, "/v1/streams/");
    ef__client_call_name(&call, stream);
    ef__client_call_path(&call, "/events");
    ef__client_call_int(&call, "from_seq", from_seq);
    ef__client_call_int(&call, "limit", (int64_t)limit);
    st = read_batch(client, &call, out, err);
    out->more = call.next > 0;
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_read_log(ef_client *client, const ef_log_query *query, ef_batch *out,
                             ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", query->any_tenant ? EF_STR("") : query->tenant);
    ef_status st;

    ef__client_call_path(&call, "/v1/events");
    ef__client_call_int(&call, "after", query->after);
    ef__client_call_text(&call, "type", query->type);
    ef__client_call_int(&call, "limit", (int64_t)query->limit);
    ef__client_call_flag(&call, "all_tenants", query->any_tenant);
    st = read_batch(client, &call, out, err);
    if (st == EF_OK && query->out_reached)
        *query->out_reached = call.next > query->after ? call.next : query->after;
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_read_id(ef_client *client, ef_str tenant, ef_str id, ef_batch *out,
                            ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", tenant);
    const ef__json *answer;
    ef_event *event = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    ef__client_call_path(&call, "/v1/events/");
    ef__client_call_name(&call, id);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK && !(event = ef__arena_zalloc(&out->room->arena, 1, sizeof(*event))))
        st = ef__no_memory(err);
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_event, event, err);
    out->events = event;
    out->count = st == EF_OK ? 1 : 0;
    ef__client_call_release(&call);
    return st;
}

/* Waits by a read with a timeout; the event itself is discarded. */
ef_status ef_client_wait(ef_client *client, int64_t after, int64_t timeout_ms, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));
    char wait[32];
    ef_status st;

    call.wait_ms = timeout_ms < WAIT_MS_MAX ? timeout_ms : WAIT_MS_MAX;
    (void)snprintf(wait, sizeof(wait), "%" PRId64 "ms", call.wait_ms);
    ef__client_call_path(&call, "/v1/events");
    ef__client_call_int(&call, "after", after);
    ef__client_call_int(&call, "limit", 1);
    ef__client_call_text(&call, "wait", ef_str_from(wait));
    st = ef__client_call_run(client, &call, err);
    if (st == EF_OK && call.next <= after)
        st = ef_fail(err, EF_TIMEOUT, "nothing was appended after position %" PRId64, after);
    ef__client_call_release(&call);
    return st;
}

/* --- the store
 * ------------------------------------------------------------------------------------- */

typedef ef_status read_status(const ef__json *answer, void *out, ef_error *err);

static ef_status request_status(ef_client *client, read_status *read, void *out, ef_error *err)
{
    struct ef__batch_memory *room = NULL;
    const ef__json *answer;
    ef_status st = ef__client_get(client, "/v1/status", &room, &answer, err);

    if (st == EF_OK)
        st = read(answer, out, err);
    ef__memory_release(&room);
    return st;
}

static ef_status read_head(const ef__json *answer, void *out, ef_error *err)
{
    return ef__shape_read(ef__json_get(answer, "head"), &ef__shape_head, out, err);
}

static ef_status read_facts(const ef__json *answer, void *out, ef_error *err)
{
    return ef__shape_read(ef__json_get(answer, "store"), &ef__shape_facts, out, err);
}

static ef_status read_mode(const ef__json *answer, void *out, ef_error *err)
{
    const ef__json *mode = ef__json_get(answer, "mode");

    if (!mode || mode->kind != EF__JSON_STRING)
        return ef_fail(err, EF_IO, "invalid response from the server: mode is missing");
    (void)snprintf(out, EF_CLIENT_MODE_MAX, "%.*s", EF_STR_ARG(mode->text));
    return EF_OK;
}

ef_status ef_client_head(ef_client *client, ef_head *out, ef_error *err)
{
    return request_status(client, read_head, out, err);
}

ef_status ef_client_facts(ef_client *client, ef_store_facts *out, ef_error *err)
{
    return request_status(client, read_facts, out, err);
}

ef_status ef_client_mode(ef_client *client, char out[EF_CLIENT_MODE_MAX], ef_error *err)
{
    return request_status(client, read_mode, out, err);
}

/* --- types
 * ----------------------------------------------------------------------------------------- */

ef_status ef_client_type_set(ef_client *client, const ef_type *type, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("PUT", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    ef_status st;

    ef__client_call_path(&call, "/v1/types/");
    ef__client_call_name(&call, type->name);
    ef__shape_write(&w, &ef__shape_type, type);
    st = ef__client_call_run(client, &call, err);
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_type_get(ef_client *client, ef_str name, ef_type_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));
    const ef__json *answer;
    ef_type *type = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    ef__client_call_path(&call, "/v1/types/");
    ef__client_call_name(&call, name);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK && !(type = ef__arena_zalloc(&out->room->arena, 1, sizeof(*type))))
        st = ef__no_memory(err);
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_type, type, err);
    out->items = type;
    out->count = st == EF_OK ? 1 : 0;
    ef__client_call_release(&call);
    return st;
}
